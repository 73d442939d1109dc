"""Batches of a fixed size, and Poisson-sampled batches that are cut to a maximum size, in every adjacency.

Without replacement, a batch is B of N records, q = B / N. Draw B - 1 of the other records and one more, x'; the last
place of the batch holds x' or, with probability q, the record. Given this, the output is C = N(c) without the record,
A = N(a) with it, |a - c| <= 2, and B = N(b) with another record in its place, |b - c| <= 2, |a - b| <= 2 (1 if b is 0).
By joint convexity the divergence given the worst draw bounds that of the mechanism.

* Add or remove: (1-q) C + q A against C: Poisson sampling with half the noise, attained where all other records
  contribute the opposite.
* Replace one: for k >= 1 and k' = 1 + (k - 1)/q, b = k / k',  H_k((1-q) C + q A || (1-q) C + q B) =
  q H_k'(A || (1-b) C + b B) <= q H_k'(N(2) || N(0)) (Balle, Barthe & Gaboardi 2018, Theorem 2), in either order.
* Zero out: for k >= 1 the record against the empty one is worst at a = 1, c = -1; the empty one against the record is
  q H_k'(N(1) || N(0)) at most.

With replacement, K ~ Binomial(B, 1/N) copies shift an output by 2 K at most, against none; for replaced records, K is
revealed given that K > 0. Cut batches: where M >= B other records fill the batch alone, the record takes the place of
one of them with probability q B / (M + 1) <= q B / (B + 1); else sampling is Poisson. Which case holds is revealed.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxacct._method import (
    BOTH,
    Bracketing,
    BracketMethod,
    Cost,
    Method,
    Query,
    Role,
    always,
    itself,
    only_analysed,
    only_where,
)
from jaxacct._patience import say_long
from jaxacct._sharing import shared
from jaxacct._types import Bound, Direction, Ends, NeighboringRelation, TooFineError
from jaxacct.bounds import bases
from jaxacct.bounds._distribution import (
    PLAIN_TAIL,
    Distribution,
    Parts,
    check_from_above,
    loss_distribution,
    parts_by_laws,
    reader,
)
from jaxacct.bounds._full_batches import Full, copies, filled, kept, present
from jaxacct.bounds._mirrored import Mirrored, mirrored
from jaxacct.bounds._nearby import below_nearby
from jaxacct.bounds._parts import is_scalar
from jaxacct.bounds.bases._base import pld_of_law, side_of, unbounded
from jaxacct.bounds.bases._glued import emptied, emptied_in_bins, glued, weighted
from jaxacct.bounds.poisson._law import DISTRIBUTION as POISSON
from jaxacct.curves._convolution import compose_plds
from jaxacct.divergence.lattice._ratio import RatioLaw, Side
from jaxacct.mechanisms import (
    Composed,
    DiscretePair,
    FixedBatches,
    Gaussian,
    MixtureOfGaussians,
    PoissonSampled,
    ReplaceOne,
    TruncatedPoisson,
    ZeroOut,
)
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import binomial_tail, down, grown, up

_FIXED = "Balle, Barthe & Gaboardi 2018, Theorem 2, for batches of a fixed size"
_CUT = "Chua et al. 2024, Scalable DP-SGD, with full batches told"
_SHARE, _MORE, _SHARES = 1e-6, 1.0 + 2.0**-10, 8  # of delta, for cut batches: first share, factor, number of tries
_DEEP, _RARE = 1e-60, 0.005  # delta, and sampling probability, below which a warning says that intervals take long
_ROUGH = 0.5  # relative width of a rough first answer
_RESOLUTION = 24.0  # grid points for one standard deviation of a test's loss: tightness only


def _half(run: Any) -> Gaussian:
    return Gaussian(0.5 * float(run.mechanism.noise_multiplier))


def _rate(run: FixedBatches, *, is_up: bool) -> float:
    """The probability that a batch drawn without replacement holds a record, rounded up or down."""
    rate = int(run.batch_size) / int(run.num_records)
    return math.nextafter(rate, 1.0 if is_up else 0.0)


# Adding or removing a record


def stand_in(run: FixedBatches, *, is_up: bool = True) -> Mechanism:
    """A mechanism (class `PoissonSampled` or `Composed`) that loses what `run` does if a record is added or removed."""
    if not run.with_replacement:
        return PoissonSampled(_half(run), _rate(run, is_up=is_up), int(run.num_steps))
    shares, rest = copies(run)
    shifts = [2.0 * k for k in range(len(shares))]
    if rest:
        shifts, shares = [*shifts, 2.0 * int(run.batch_size)], [*shares, rest]
    release = MixtureOfGaussians(float(run.mechanism.noise_multiplier), tuple(shifts), tuple(shares))
    return Composed(release, int(run.num_steps))


def _by_stand_in(run: FixedBatches, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    found = {}
    for d in at.known:
        upper = at.ask(stand_in(run), query, target, at.width, wants_lower=at.wants_lower, direction=d)
        lower = 0.0
        if at.wants_lower:
            less = stand_in(run, is_up=False)
            lower = at.ask(less, query, target, at.width, wants_lower=True, direction=d).lower
        found[d] = Ends(min(lower, upper.upper), upper.upper)
    return found


# Laws of one step


_MakeLaw = Callable[[float, Side, float], RatioLaw]


def _sampled(noise: Gaussian, prob: float) -> _MakeLaw:
    return lambda step, side, tail: bases.law(noise, prob, step, side, tail)


def _replaced(noise: Gaussian, prob: float) -> _MakeLaw:
    """The law of a replaced record in a batch without replacement; `noise` is half that of the run."""

    def law(step: float, side: Side, tail: float) -> RatioLaw:
        one = bases.law(noise, prob, step, side, tail)
        return glued(one, one)

    return law


def _empty(run: Any, prob: float) -> _MakeLaw:
    """The law of a record replaced by the empty one, in a batch without replacement."""
    noise = Gaussian(float(run.mechanism.noise_multiplier))

    def law(step: float, side: Side, tail: float) -> RatioLaw:
        return glued(
            emptied(1.0 / float(noise.noise_multiplier), prob, step, tail), bases.law(noise, prob, step, side, tail)
        )

    return law


def _with_copies(run: FixedBatches) -> _MakeLaw:
    """The law with replacement: if there are copies, their number K is revealed; either record shifts by 2 K."""
    shares, rest = copies(run)
    some = up(present(run), 2**6)
    noise = float(run.mechanism.noise_multiplier)

    def law(step: float, side: Side, tail: float) -> RatioLaw:
        told = [(share / some, 2.0 * k) for k, share in enumerate(shares) if k and share / some > tail]
        parts = [
            (share * (1.0 + 2.0**-43), bases.law(Gaussian(noise / shift), some, step, side, tail))
            for share, shift in told
        ]
        one = weighted(parts)
        lost = rest + sum(share for share in shares[1:] if share / some <= tail) * (1.0 + 2.0**-43)
        one = dataclasses.replace(one, infinite_mass=up(one.infinite_mass + lost, 4))
        return glued(one, one)

    return law


def _either(full: Full, open_law: _MakeLaw, full_law: Callable[[float], _MakeLaw]) -> _MakeLaw:
    def law(step: float, side: Side, tail: float) -> RatioLaw:
        parts = [(up(1.0 - full.least, 2), open_law)] if full.least < 1.0 else []
        parts += [(share, full_law(joins)) for share, joins in full.joins if share > 0.0]
        return weighted([(share, of(step, side, tail)) for share, of in parts])

    return law


# Bounds without distributions


def _known(run: Any, query: Query, target: float, at: Bracketing) -> float:
    """An upper end if all batches are public: no output shifts by more than two norms."""
    return at.ask(Composed(_half(run), int(run.num_steps)), query, target, at.width, wants_lower=False).upper


def _bracket_of(
    run: FixedBatches, below: Callable[[], Mechanism]
) -> Callable[[Query, float, Bracketing, Direction], Ends[float]]:
    def ends(query: Query, target: float, at: Bracketing, direction: Direction) -> Ends[float]:
        upper = query.worst if run.with_replacement else _known(run, query, target, at)
        lower = 0.0
        if at.wants_lower:
            lower = at.ask(below(), query, target, at.width, wants_lower=True).lower
        return Ends(min(lower, upper), upper)

    return ends


def _coupled(run: TruncatedPoisson, uncut: Mechanism) -> Callable[[Query, float, Bracketing, Direction], Ends[float]]:
    """Ends by coupling: with t the probability that a batch is cut, delta is within (1 + e^eps) t of the uncut run's.

    A second lower end is that of a record among others that contribute nothing: Poisson sampling, with the probability
    that the record is drawn and kept. Where batches are hardly ever cut, the lower end is given even if it is not asked
    for: it shows that no further method is needed.
    """
    alone = PoissonSampled(_uncut(run).mechanism, kept(run), int(run.num_steps))
    each = binomial_tail(int(run.num_records), float(run.sampling_prob), int(run.max_batch_size))
    cut = min(1.0, up(each * int(run.num_steps), 4))

    def ends(query: Query, target: float, at: Bracketing, direction: Direction) -> Ends[float]:
        side = direction if len(uncut.directions) > 1 else None
        if at.wants_lower and query is Query.EPSILON and target < _DEEP and float(run.sampling_prob) < _RARE:
            say_long(f"a delta of {target:.1g} needs laws with long tails, of steps that a record rarely joins")

        def ask(target: float, *, wants_lower: bool) -> Ends[float]:
            return at.ask(uncut, query, target, at.width, wants_lower=wants_lower, direction=side)

        upper = _known(run, query, target, at)
        low = at.ask(alone, query, target, at.width, wants_lower=True, direction=side).lower if at.wants_lower else 0.0
        if query is Query.DELTA:
            moved = up(cut + grown(cut, target, 16), 4)
            found = ask(target, wants_lower=True)
            upper = min(upper, up(found.upper + moved, 2))
            return Ends(min(max(low, down(found.lower - moved, 2)), upper), upper)
        share = _SHARE
        for _ in range(_SHARES):
            if not share < 1.0:
                break
            value = ask(target * (1.0 - share) * (1.0 - 2.0**-52), wants_lower=False).upper
            taken = cut + grown(cut, value, 16)
            if taken <= share * target * (1.0 - 2.0**-50):
                upper = min(upper, value)
                break
            share = max(share, taken / target) * _MORE
        if at.wants_lower or share <= at.width:
            raised = up(target + cut + grown(cut, upper, 16), 8)
            low = max(low, ask(raised, wants_lower=True).lower if raised < 1.0 else 0.0)
        return Ends(min(low, upper), upper)

    return ends


class Adjacency(NamedTuple):
    """What is known of a run in one adjacency: the dominating law of one step, and ends by other means."""

    pair: Mirrored
    theorem: str
    ends: Callable[[Query, float, Bracketing, Direction], Ends[float]]


def _scale_of(noise: Gaussian, prob: float) -> float:
    return POISSON.scale(PoissonSampled(noise, prob, num_steps=1))[0]


def _fixed_replaced(run: FixedBatches) -> Adjacency:
    rate = _rate(run, is_up=True)
    law = _with_copies(run) if run.with_replacement else _replaced(_half(run), rate)
    pair = Mirrored(law, int(run.num_steps), _scale_of(_half(run), rate))
    return Adjacency(pair, _FIXED, _bracket_of(run, lambda: stand_in(run, is_up=False)))


def _in_bins(run: FixedBatches, query: Query, target: float, direction: Direction) -> float:
    """A lower end, by bins of the outputs, where all other records contribute -1 and this one 1."""
    bins = emptied_in_bins(1.0 / float(run.mechanism.noise_multiplier), _rate(run, is_up=False))
    pair = DiscretePair(tuple(bins.p.tolist()), tuple(bins.q.tolist()))
    step = math.sqrt(math.log1p(bases.spread(pair))) / _RESOLUTION

    def below(asked: float) -> float:
        read, deltas = reader(query, asked)
        law = bases.law(pair, 1.0, step, side_of(Bound.LOWER, direction), PLAIN_TAIL)
        return read(compose_plds([(pld_of_law(law, direction), int(run.num_steps))], deltas))

    try:
        return below_nearby(query, target, int(run.num_steps) * bins.error, below)
    except TooFineError:
        return 0.0


def _fixed_emptied(run: FixedBatches) -> Adjacency:
    """With replacement, the bound for any other record is used, of which the empty record is one."""
    rate, full = _rate(run, is_up=True), Gaussian(float(run.mechanism.noise_multiplier))
    if run.with_replacement:
        law, joins = _with_copies(run), down(present(run), 2**6)
    else:
        law, joins = _empty(run, rate), _rate(run, is_up=False)
    below = PoissonSampled(full, joins, int(run.num_steps))
    pair = Mirrored(law, int(run.num_steps), _scale_of(_half(run), rate))
    known = _bracket_of(run, lambda: below)

    def ends(query: Query, target: float, at: Bracketing, direction: Direction) -> Ends[float]:
        found = known(query, target, at, direction)
        if not at.wants_lower or run.with_replacement:
            return found
        return Ends(min(max(found.lower, _in_bins(run, query, target, direction)), found.upper), found.upper)

    return Adjacency(pair, _FIXED, ends)


def _uncut(run: TruncatedPoisson) -> PoissonSampled:
    return PoissonSampled(Gaussian(float(run.mechanism.noise_multiplier)), float(run.sampling_prob), int(run.num_steps))


def _cut(
    run: TruncatedPoisson, open_law: _MakeLaw, full_law: Callable[[float], _MakeLaw], uncut: Mechanism
) -> Adjacency:
    noise, prob, full = _uncut(run).mechanism, float(run.sampling_prob), filled(run)
    scale = (1.0 - full.most) * _scale_of(noise, prob) + full.most * _scale_of(_half(run), prob)
    pair = Mirrored(_either(full, open_law, full_law), int(run.num_steps), scale)
    return Adjacency(pair, _CUT, _coupled(run, uncut))


def _cut_removed(run: TruncatedPoisson) -> Adjacency:
    uncut = _uncut(run)
    open_law = _sampled(uncut.mechanism, float(run.sampling_prob))
    return _cut(run, open_law, lambda joins: _sampled(_half(run), joins), uncut)


def _cut_emptied(run: TruncatedPoisson) -> Adjacency:
    uncut = _uncut(run)
    open_law = _sampled(uncut.mechanism, float(run.sampling_prob))
    return _cut(run, open_law, lambda joins: _empty(run, joins), uncut)


def _cut_replaced(run: TruncatedPoisson) -> Adjacency:
    uncut = _uncut(run)
    one = mirrored(uncut)
    open_law = _sampled(_half(run), 1.0) if one is None else one.law
    return _cut(run, open_law, lambda joins: _replaced(_half(run), joins), ReplaceOne(uncut))


FIXED: dict[tuple[NeighboringRelation, tuple[type, ...]], Callable[[Any], Adjacency]] = {
    (ReplaceOne.relation, (FixedBatches, Gaussian)): _fixed_replaced,
    (ZeroOut.relation, (FixedBatches, Gaussian)): _fixed_emptied,
    (TruncatedPoisson.relation, (TruncatedPoisson, Gaussian)): _cut_removed,
    (ReplaceOne.relation, (TruncatedPoisson, Gaussian)): _cut_replaced,
    (ZeroOut.relation, (TruncatedPoisson, Gaussian)): _cut_emptied,
}
"""The functions that say what is known of a run, by adjacency and the run's signature."""


def adjacency_of(relation: NeighboringRelation, run: Any) -> Adjacency | None:
    """What is known (`Adjacency`, a NamedTuple) of a run with concrete fields in an adjacency; None if nothing is."""
    make = FIXED.get((relation, run.signature()))
    return None if make is None or run.loses_nothing() else make(run)


def bracket(
    run: Any, relation: NeighboringRelation, query: Query, target: float, at: Bracketing
) -> dict[Direction, Ends[float]]:
    """A dict of the ends in each direction, without loss distributions.

    A direction gets only a rough answer if that already shows that it is not the worse one.
    """
    if run.loses_nothing():
        return dict.fromkeys(at.known, Ends(0.0, 0.0))
    found = adjacency_of(relation, run)
    assert found is not None
    ends: dict[Direction, Ends[float]] = {}
    with shared():  # the questions about the uncut run differ by little
        for d in at.known:
            rival = max((e.lower if at.wants_lower else e.upper for e in ends.values()), default=0.0)
            if rival > 0.0:
                ends[d] = found.ends(query, target, dataclasses.replace(at, width=max(at.width, _ROUGH)), d)
            if d not in ends or ends[d].upper > rival:
                ends[d] = found.ends(query, target, at, d)
    return ends


def _cut_pair(run: TruncatedPoisson) -> Mirrored:
    found = adjacency_of(run.relation, run)
    assert found is not None
    return found.pair


_cut_laws = parts_by_laws(lambda run, step, side, tail: _cut_pair(run).laws(step, side, tail))


def _cut_parts(run: TruncatedPoisson, step: float, bound: Bound, tail: float) -> Parts:
    check_from_above(run, bound)
    return _cut_laws(run, step, bound, tail)


CUT = Distribution(
    theorem=_CUT,
    parts=_cut_parts,
    scale=lambda run: _cut_pair(run).whole_scale(),
    largest_loss=unbounded,
    below=only_analysed,
    width_constant=lambda run: 0.5,
    is_from_above=always,
    exists=lambda run: is_scalar(run) and not run.loses_nothing(),
)
_OPTIONS: dict[str, Any] = {"directions": BOTH, "cost": Cost.TENTHS, "applies": is_scalar}
_ENDS = frozenset({Bound.UPPER, Bound.LOWER})


def tables(
    of_stand_in: Callable[[Callable[[Any], Any], str], Distribution],
) -> dict[tuple[Any, ...], tuple[Method, ...]]:
    """A dict, the table of methods, from a function that gives the loss distributions of the stand-in for a run."""
    poisson = BracketMethod(
        name="as Poisson",
        theorem="a batch of fixed size is Poisson sampling with half the noise",
        ends=_ENDS,
        bracket=_by_stand_in,
        below=itself,
        **{**_OPTIONS, "applies": lambda run: is_scalar(run) and not run.with_replacement},
    )
    coupled = BracketMethod(
        name="untruncated",
        theorem="Chua et al. 2024, Scalable DP-SGD: the same coins, but for batches that are cut",
        ends=_ENDS,
        bracket=lambda run, query, target, at: bracket(run, run.relation, query, target, at),
        below=itself,
        misses_deltas=always,
        **_OPTIONS,
    )
    by_replacement = only_where(lambda run: run.with_replacement, Role.NARROW)
    same = of_stand_in(stand_in, "a batch of fixed size is Poisson sampling with half the noise")
    return {
        (FixedBatches, Gaussian): (poisson, loss_distribution(same, by_replacement)),
        (TruncatedPoisson, Gaussian): (coupled, loss_distribution(CUT)),
    }
