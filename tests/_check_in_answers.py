"""How jaxacct answers the reference values of "Privacy Amplification via Shuffled Check-Ins".

Statements that are no bounds are answered by `_check_in_published`, formula against formula.
"""

import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from _reference import Declined, Quantity, Side

import jaxacct as ja
from jaxacct._precision import Kernel
from jaxacct.bounds.check_in import _profile as profile
from jaxacct.bounds.discrete import types_delta
from jaxacct.conversion import epsilon_from_rdp
from jaxacct.divergence.check_in import _moments as moments
from jaxacct.divergence.check_in._blocks import Layout
from jaxacct.divergence.check_in._response import response_floor_log_delta
from jaxacct.papers.check_ins import _conversion as conversion
from jaxacct.papers.check_ins import _coupling as coupling
from jaxacct.papers.check_ins import _distributed as distributed
from jaxacct.papers.check_ins import _first_cut as first_cut
from jaxacct.papers.check_ins import _published as published
from jaxacct.papers.check_ins import _renyi as renyi
from jaxacct.papers.check_ins import _shuffled_gaussian as gaussian


def exact_layout(n, prob):
    """Blocks of single counts to 12 standard deviations, of several for standard deviations above 1600; few sizes."""
    scale = math.sqrt(n * prob * (1.0 - prob)) + 1.0
    size = math.ceil(2.0 * math.asinh(40.0 / 3.0) * scale * math.hypot(3.0, 12.0))
    return Layout(1024, 16, 1 << (min(max(size, 2**11), 2**17) - 1).bit_length())


_SUMS = "sums of positive terms, their rounding booked: 2e-12"
_ROUNDED_UP = "closed form, rounded up"
_PRINTED = "the printed formula in double precision"
_CHORDS = "chords of the profile between 300 losses, and the profile's own blocks"


def real(value):
    return float(Fraction(value)) if isinstance(value, str) else float(value)


def gap(a):
    return real(a["sensitivity"]) / real(a["sigma"])


distributed_rdp = Kernel(distributed.distributed_rdp, lane_bytes=2**26)
low_participation, upper_tail = (
    Kernel(distributed.low_participation_log_prob),
    Kernel(distributed.binomial_upper_tail_log),
)
gaussian_pair, response_pair = Kernel(gaussian.gaussian_pair_rdp), Kernel(gaussian.response_pair_rdp)
sampled_pair = Kernel(gaussian.sampled_gaussian_pair_rdp)
least_rdp, optimal_epsilon = Kernel(conversion.least_rdp), Kernel(conversion.optimal_epsilon)
shuffled = Kernel(lambda *lanes: tuple(first_cut.shuffled_guarantee(*lanes)))
sampled = Kernel(lambda *lanes: tuple(first_cut.sampled_guarantee(*lanes)))
approximate = Kernel(lambda *lanes, **static: tuple(first_cut.approximate_rdp(*lanes, **static)), lane_bytes=2**20)
printed_first_cut = Kernel(lambda *lanes: tuple(published.published_first_cut(*lanes)))
approach_1 = Kernel(published.published_approach_1, lane_bytes=2**26)
approach_2 = Kernel(published.published_approach_2, lane_bytes=2**26)
printed_distributed = Kernel(published.published_distributed_rdp, lane_bytes=2**24)
printed_subsampled = Kernel(published.published_subsampled_gaussian_rdp)


@Kernel
def subset(rate, deviations, *, max_order, capped):
    return renyi.subset_rdp(rate, renyi.gaussian_base(deviations, max_order=max_order), capped=capped)


@Kernel
def constant_base(num_users, prob, local, *, max_order, sharper):
    base = renyi.response_base(local, max_order=max_order, sharper=sharper)
    return renyi.constant_base_rdp(num_users, prob, base)


@Kernel
def ternary(rdp, highest, *, order, sharper):
    return renyi.log_ternary_moments(jnp.tile(rdp, (order + 1, 1)), highest, sharper=sharper)[order]


def pair_of(num_users, prob, local, layout):
    return profile.check_in_pair(num_users, prob, jnp.exp(-local), local, reports=layout, clones=layout)


def _clones_delta(epsilon, num_users, prob, local, *, layout):
    return profile.check_in_profile(epsilon, pair_of(num_users, prob, local, layout)).log_delta


def _clones_rdp(num_users, prob, local, *, orders, layout, num_nodes):
    pair = pair_of(num_users, prob, local, layout)
    scale = 2.0 * jnp.tanh(0.5 * local) * jnp.sqrt(prob / num_users * jnp.exp(local))
    nodes = moments.loss_nodes(jnp.minimum(scale, local), local, num_nodes)
    log_delta = jax.lax.map(lambda node: profile.check_in_profile(node, pair).log_delta, nodes[:-1])
    log_delta = jnp.concatenate([log_delta, jnp.full_like(nodes[:1], -jnp.inf)])
    return moments.rdp_from_profile(nodes, log_delta, orders=orders)


response_floor = Kernel(response_floor_log_delta)
clones_delta, clones_rdp = Kernel(_clones_delta, lane_bytes=2**26), Kernel(_clones_rdp, lane_bytes=2**26)


def response_laws(num_users, local):
    """[bits of the others' ones, count of ones] laws of shuffled binary randomized response."""
    r = 1.0 / (1.0 + math.exp(local))
    laws = []
    for ones in range(num_users + 1):
        law = np.ones(1)
        for i in range(num_users):
            up = 1.0 - r if i < ones else r
            law = np.convolve(law, [1.0 - up, up])
        laws.append(law)
    return np.asarray(laws)


def response_profile(local, num_users):
    """Largest divergence over all bits of k users, at any real epsilon; for `_check_in_coupling`."""
    tables = [None, *(response_laws(k, local) for k in range(1, num_users + 1))]

    def one(epsilon, k):
        rows = tables[int(k)]
        factor = jnp.exp(epsilon)
        pairs = [(x, y) for i in range(len(rows) - 1) for x, y in ((rows[i], rows[i + 1]), (rows[i + 1], rows[i]))]
        return jnp.max(jnp.stack([jnp.sum(jnp.maximum(x - factor * y, 0.0)) for x, y in pairs]))

    def profiles(epsilon, counts):
        del counts
        return jnp.stack([one(epsilon[k - 1, 0], k)[None] for k in range(1, num_users + 1)])

    return profiles


def check_in_law(num_users, prob, local, ones, first):
    """{(reports, ones among them): probability}: the differing user holds `first`, `ones` of the others hold 1."""
    r = 1.0 / (1.0 + math.exp(local))
    holds = [first, *(i < ones for i in range(num_users - 1))]
    total = {}
    for picked in itertools.product((False, True), repeat=num_users):
        law = np.ones(1)
        weight = 1.0
        for joins, bit in zip(picked, holds, strict=True):
            weight *= prob if joins else 1.0 - prob
            if joins:
                up = 1.0 - r if bit else r
                law = np.convolve(law, [1.0 - up, up])
        for count, mass in enumerate(law):
            key = (sum(picked), count)
            total[key] = total.get(key, 0.0) + weight * mass
    return total


def _brute_base(a):
    return real(a["eps0_local"]), int(a["n"])


def _direct_delta(a):
    local, n = _brute_base(a)

    def fn(inner, q):
        return coupling.direct_delta(coupling.coupled_epsilon(inner, q), q, response_profile(local, n), num_users=n)

    return float(Kernel(fn)(real(a["eps_base"]), real(a["gamma"])))


def _coupled_delta(a):
    local, n = _brute_base(a)
    return float(
        Kernel(lambda inner, q: coupling.coupled_delta(inner, q, response_profile(local, n), num_users=n))(
            real(a["eps_base"]), real(a["gamma"])
        )
    )


def _exact_delta(a):
    """The worst over all data sets: each pair of laws by `types_delta`, enumerated as other tests do."""
    epsilon = math.log1p(real(a["gamma"]) * math.expm1(real(a["eps_base"])))
    worst = 0.0
    for ones in range(a["n"]):
        laws = [check_in_law(a["n"], real(a["gamma"]), real(a["eps0_local"]), ones, bit) for bit in (False, True)]
        p, q = ([law.get(key, 0.0) for key in sorted({*laws[0], *laws[1]})] for law in laws)
        pair = ja.DiscretePair(p, q)
        worst = max(worst, *(types_delta(pair, epsilon, direction, upper=False) for direction in ja.Direction))
    return worst


def _clones_rdp_answer(a):
    layout = Layout(128, 4, 64)
    values = clones_rdp(
        a["n"], real(a["gamma"]), real(a["eps0_local"]), orders=(real(a["order"]),), layout=layout, num_nodes=300
    )
    return float(values[0])


def _accounting_floor(a):
    first, last = (int(x) for x in a["orders"].removesuffix(" integers").split(".."))
    orders = tuple(float(i) for i in range(first, last + 1))
    rdp = gaussian_pair(a["n"], real(a["gamma"]), gap(a), orders=orders) * a["rounds"]

    @Kernel
    def convert(log_delta, *rows):
        return epsilon_from_rdp(jnp.asarray(orders, jnp.float64)[:, None], jnp.stack(rows), log_delta).value

    return float(convert(math.log(real(a["delta"])), *rdp))


def _whole(a):
    order = real(a["order"])
    if order != int(order):
        raise Declined("only whole orders have a closed form")
    return order


def _distributed(kind, capped=True):
    def evaluate(a):
        layout = exact_layout(a["n"], real(a["gamma"]))
        static = {"max_order": int(a["order"]), "layout": layout, "kind": kind, "capped": capped}
        return distributed_rdp(a["n"], real(a["gamma"]), gap(a), fewest=a.get("k_lo", 0), **static)[-1]

    return evaluate


def _tail_terms(a):
    """Far enough for a geometric rest below the last digit."""
    return 1 << math.ceil(math.log2(1024.0 + 12.0 * math.sqrt(a["n"] * real(a["gamma"]))))


def _clones_layout(a):
    """Single counts for both laws up to 1000 users."""
    return Layout(min(1 << a["n"].bit_length(), 1024), 16, 256)


def _log_args(a):
    delta0 = real(a["delta0"])
    return math.log(real(a["delta1"])), math.log(delta0) if delta0 > 0 else -math.inf


def _shuffled(index):
    def evaluate(a):
        found = shuffled(a["n"], real(a["eps0"]), *_log_args(a))
        return (float(found[0]), math.exp(found[1]))[index]

    return evaluate


def _first_cut(index):
    def evaluate(a):
        found = sampled(a["n"], a["l"], real(a["eps0"]), *_log_args(a))
        return (float(found[0]), real(a["beta"]) + math.exp(found[1]))[index]

    return evaluate


def _printed_first_cut(index):
    def evaluate(a):
        names = ("eps0", "delta1", "delta0", "beta")
        return float(printed_first_cut(a["n"], a["l"], *(real(a[name]) for name in names))[index])

    return evaluate


def _published(a):
    return a["n"], real(a["gamma"]), real(a["eps0"]), real(a["delta1"]), real(a["delta0"])


def _approximate(index):
    def evaluate(a):
        lanes = (a["n"], real(a["gamma"]), real(a["eps0"]), *_log_args(a))
        found = approximate(*lanes, orders=(real(a["order"]),), num_counts=int(a["k_max"]))
        return (float(found[0][0]), math.exp(found[1]))[index]

    return evaluate


def _true_epsilon(a):
    """From below: the pair itself, 100 rounds, by its privacy loss distribution."""
    return response_interval(a["n"], real(a["gamma"]), real(a["eps0"]), a["rounds"], real(a["delta"]), 5e-3).lower


def response_interval(num_users, prob, local, rounds, delta, precision=1e-3):
    """Interval of epsilon of binary randomized response, one record of 1 among zeros, composed."""
    r = 1.0 / (1.0 + math.exp(local))
    counts, mass = _binomial(num_users, prob)
    slope = 2.0 * math.sinh(local) / num_users
    with_record, without = [], []
    for k, weight in zip(counts, mass, strict=True):
        ones, chance = _binomial(int(k), r)
        without.append(weight * chance)
        with_record.append(weight * chance * (1.0 + slope * (ones - k * r)))
    p, q = np.concatenate(with_record), np.concatenate(without)
    pair = ja.DiscretePair(p / p.sum(), q / q.sum())
    return ja.epsilon_interval(ja.Composed((pair,), (rounds,)), target_delta=delta, precision=precision)


def _binomial(n, p):
    """Counts of mass above 1e-18 and their probabilities."""
    k = np.arange(n + 1)
    logs = (
        np.asarray([math.lgamma(n + 1.0) - math.lgamma(i + 1.0) - math.lgamma(n - i + 1.0) for i in k])
        + k * math.log(p)
        + (n - k) * math.log1p(-p)
    )
    keep = logs > -41.0
    return k[keep], np.exp(logs[keep])


ANSWERS = {
    ("S1", "min_renyi_given_hockey_stick"): Quantity(
        lambda a: least_rdp(a["order"], real(a["eps"]), real(a["delta"])),
        "each term rounded down by 2^-44",
        side=Side.NEVER_ABOVE,
    ),
    ("S1", "eps_from_rdp_optimal"): Quantity(
        lambda a: optimal_epsilon(a["order"], real(a["rho"]), math.log(real(a["delta"]))), "a root, rounded up"
    ),
    ("S4", "log_ternary_moment_bound"): Quantity(
        lambda a: ternary(real(a["rdp"]), real(a["eps_inf"] or math.inf), order=a["order"], sharper=False),
        "closed form",
        side=Side.EITHER,
    ),
    ("S4", "log_ternary_moment_bound_improved"): Quantity(
        lambda a: ternary(real(a["rdp"]), real(a["eps_inf"] or math.inf), order=a["order"], sharper=True),
        "closed form",
        side=Side.EITHER,
    ),
    ("S5", "shuffle_eps"): Quantity(_shuffled(0), _ROUNDED_UP),
    ("S5", "shuffle_delta"): Quantity(_shuffled(1), _ROUNDED_UP),
    ("S8", "first_cut_eps"): Quantity(_first_cut(0), _ROUNDED_UP),
    ("S8", "first_cut_delta"): Quantity(_first_cut(1), _ROUNDED_UP),
    ("S8", "first_cut_eps_printed"): Quantity(_printed_first_cut(0), _PRINTED, side=Side.EITHER),
    ("S8", "first_cut_delta_printed"): Quantity(_printed_first_cut(1), _PRINTED, side=Side.EITHER),
    ("S8", "binomial_upper_tail"): Quantity(
        lambda a: math.exp(upper_tail(a["n"], real(a["gamma"]), float(a["l"]), num_terms=_tail_terms(a))), _SUMS
    ),
    ("S9", "checkin_rdp_constant_base"): Quantity(
        lambda a: constant_base(a["n"], real(a["gamma"]), real(a["eps0"]), max_order=a["order"], sharper=False)[-1],
        _SUMS,
    ),
    ("S9", "checkin_rdp_constant_base_improved"): Quantity(
        lambda a: constant_base(a["n"], real(a["gamma"]), real(a["eps0"]), max_order=a["order"], sharper=True)[-1],
        _SUMS,
    ),
    ("S10", "wor_rdp"): Quantity(
        lambda a: subset(real(a["rate"]), gap(a), max_order=a["order"], capped=False)[-1], _SUMS
    ),
    ("S10", "wor_rdp_capped"): Quantity(
        lambda a: subset(real(a["rate"]), gap(a), max_order=a["order"], capped=True)[-1], _SUMS
    ),
    ("S11", "approach1_rdp_published"): Quantity(
        lambda a: approach_1(*_published(a), max_order=a["order"], num_counts=a["n"])[-1],
        _PRINTED,
        1e-10,
        Side.EITHER,
    ),
    ("S12", "approach2_rdp_published"): Quantity(
        lambda a: approach_2(*_published(a), orders=(real(a["order"]),), num_counts=a["n"])[0],
        _PRINTED,
        1e-10,
        Side.EITHER,
    ),
    ("S12", "true_eps_of_rr_checkin"): Quantity(
        _true_epsilon, "the reference is 1e-4 wide, ours 1e-4 of it", 1e-2, Side.EITHER
    ),
    ("S17", "distributed_checkin_rdp"): Quantity(_distributed(distributed.TernaryMoment.GENERIC, False), _SUMS),
    ("S17", "distributed_checkin_rdp_moments"): Quantity(_distributed(distributed.TernaryMoment.LOGNORMAL), _SUMS),
    ("S17", "distributed_checkin_rdp_sharp"): Quantity(_distributed(distributed.TernaryMoment.SHARP), _SUMS),
    ("S17", "distributed_checkin_rdp_printed"): Quantity(
        lambda a: printed_distributed(
            a["n"], real(a["gamma"]), gap(a), max_order=int(a["order"]), num_counts=int(a["n"])
        )[-1],
        _PRINTED,
        side=Side.EITHER,
    ),
    ("S18", "subsampled_shuffle_gaussian_rdp"): Quantity(
        lambda a: printed_subsampled(a["n"], a["m"], gap(a), max_order=int(a["order"]))[-1], _PRINTED, side=Side.EITHER
    ),
    ("S18", "subsampled_shuffle_gaussian_pair_rdp"): Quantity(
        lambda a: sampled_pair(a["n"], a["m"], gap(a), orders=(_whole(a),))[0], _SUMS, side=Side.NEVER_ABOVE
    ),
    ("S19", "profile_coupling_eps"): Quantity(
        lambda a: Kernel(coupling.coupled_epsilon)(real(a["eps_base"]), real(a["gamma"])), _ROUNDED_UP
    ),
    ("S19", "profile_coupling_delta"): Quantity(_coupled_delta, _ROUNDED_UP),
    ("S21", "checkin_gaussian_pair_rdp"): Quantity(
        lambda a: gaussian_pair(a["n"], real(a["gamma"]), gap(a), orders=(_whole(a),))[0], _SUMS, side=Side.NEVER_ABOVE
    ),
    ("S21", "checkin_rr_pair_rdp"): Quantity(
        lambda a: response_pair(a["n"], real(a["gamma"]), real(a["eps0"]), orders=(_whole(a),))[0],
        _SUMS,
        side=Side.NEVER_ABOVE,
    ),
    ("S21", "checkin_gaussian_accounting_floor_eps"): Quantity(_accounting_floor, _SUMS, 1e-10, Side.EITHER),
    ("S22", "approx_rdp"): Quantity(_approximate(0), _SUMS),
    ("S22", "approx_rdp_failure_per_round"): Quantity(_approximate(1), _SUMS),
    ("S23", "checkin_rdp_clones"): Quantity(_clones_rdp_answer, _CHORDS, 5e-3),
    ("S23", "profile_direct_delta"): Quantity(_direct_delta, _ROUNDED_UP),
    ("S23", "profile_direct_delta_clones"): Quantity(
        lambda a: math.exp(
            clones_delta(real(a["eps"]), a["n"], real(a["gamma"]), real(a["eps0_local"]), layout=_clones_layout(a))
        ),
        _SUMS,
    ),
    ("S23", "profile_exact_delta"): Quantity(_exact_delta, _SUMS, side=Side.NEVER_ABOVE),
    ("S24", "distributed_checkin_rdp_truncated"): Quantity(_distributed(distributed.TernaryMoment.LOGNORMAL), _SUMS),
    ("S24", "low_participation_probability"): Quantity(
        lambda a: math.exp(low_participation(a["n"], real(a["gamma"]), fewest=a["k_lo"])), _SUMS
    ),
}
