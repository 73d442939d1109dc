"""Certified intervals against exact values, and what happens when a rounding direction is flipped."""

import math

import mpmath as mp
import numpy as np
import pytest
from support.answers import EPSILON, refined

import jaxacct as ja
from jaxacct.bounds import _distribution, methods_for
from jaxacct.bounds.composed import distribution_of
from jaxacct.curves import _convolution as _pld_composition
from jaxacct.divergence.lattice import _ratio as lattice
from jaxacct.divergence.lattice import _sums as sums

D = ja.Direction
UPPER, LOWER = ja.Bound.UPPER, ja.Bound.LOWER

# Exact deltas of 1-out-of-t allocation (sigma, t, epsilon, remove, add): our specification's anchor numbers
ALLOCATION = [
    (1.0, 100, 0.5, 4.40890803386304e-5, 5.92528369170911e-7),
    (1.0, 1000, 0.2, 2.03724929707738e-7, 2.01024326311673e-9),
    (2.0, 10, 0.5, 1.13084995654202e-4, 7.17262403162757e-5),
    (1.0, 2, 0.5, 0.149177523135520, 0.142686965823743),
]


def brackets(run, direction, epsilon, exact, resolution=8.0):
    """Whether upper >= exact >= lower at one resolution."""
    upper = ja.pld(run, direction=direction, bound=UPPER, resolution=resolution).delta(epsilon)
    lower = ja.pld(run, direction=direction, bound=LOWER, resolution=resolution).delta(epsilon)
    return lower <= exact <= upper


@pytest.mark.parametrize(("sigma", "t", "epsilon", "remove", "add"), ALLOCATION)
def test_allocation_brackets_the_exact_profile(sigma, t, epsilon, remove, add):
    run = ja.RandomAllocation(ja.Gaussian(sigma), num_steps=t)
    for direction, exact in ((D.REMOVE, remove), (D.ADD, add)):
        for resolution in (4.0, 16.0):
            assert brackets(run, direction, epsilon, exact, resolution)


def test_composed_gaussians_bracket_the_closed_form():
    rng = np.random.default_rng(0)
    for _ in range(40):
        sigma, count = 10 ** rng.uniform(-0.5, 1.5), int(10 ** rng.uniform(0, 3))
        run = ja.Composed(ja.Gaussian(sigma), count)
        mu = math.sqrt(count) / sigma
        upper, lower = (ja.pld(run, bound=bound, resolution=6.0) for bound in (UPPER, LOWER))
        for z in rng.uniform(-1.0, 6.0, 25):
            epsilon = max(0.0, mu * mu / 2 + mu * z)
            exact = ja.delta(ja.Gaussian(1 / mu), epsilon)
            assert lower.delta(epsilon) <= exact * (1 + 1e-11)
            assert upper.delta(epsilon) >= exact * (1 - 1e-11)


def test_intervals_reach_the_precision():
    for run, precision in (
        (ja.RandomAllocation(ja.Gaussian(1.0), 100), 1e-3),
        (ja.RandomAllocation(ja.Gaussian(0.6), 64, 10, 2), 1e-2),
        (ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 1000), 1e-3),
        (ja.Composed((ja.Gaussian(2.0), ja.RandomAllocation(ja.Gaussian(1.0), 50)), (3, 2)), 1e-2),
    ):
        found = ja.epsilon_interval(run, target_delta=1e-6, precision=precision)
        assert found.lower <= found.analysis_lower <= found.upper <= found.analysis_lower * (1 + precision)
        assert found.upper <= ja.epsilon(run, 1e-6, precision=math.inf) * (1 + precision)
        assert ja.epsilon(run, 1e-6, precision=precision) <= found.upper


def test_all_steps_selected_is_a_gaussian():
    found = ja.epsilon_interval(ja.RandomAllocation(ja.Gaussian(3.0), 9, 9), target_delta=1e-6)
    assert found.lower <= ja.epsilon(ja.Gaussian(1.0), 1e-6) <= found.upper


def test_pure_bases():
    laplace = ja.Laplace(noise_multiplier=1.3)
    for epsilon in (0.0, 0.3, 0.6):
        found = ja.delta_interval(laplace, epsilon, precision=0.1)
        assert found.lower <= 1 - math.exp((epsilon - 1 / 1.3) / 2) <= found.upper
    response = ja.DiscretePair(p=(0.75, 0.25), q=(0.25, 0.75))
    found = ja.delta_interval(response, 0.5)
    assert found.lower <= 0.75 - math.exp(0.5) * 0.25 <= found.upper
    assert ja.epsilon(ja.PoissonSampled(laplace, 0.1, 100), 1e-6) <= 100 / 1.3
    base = ja.pld(ja.Gaussian(1.0), resolution=50.0)
    assert ja.pld(ja.RandomAllocation(base, 100)).delta(0.5) >= ALLOCATION[0][3]


@pytest.mark.parametrize("noise", [1e-9, 0.3, 1.0, 7.0, 1e200])
def test_one_laplace_release_in_closed_form(noise):
    """1 - e^((epsilon - 1/b)/2), to the last digits, 0 from 1/b on."""
    run = ja.Laplace(noise)
    with mp.workdps(40):
        largest = 1 / mp.mpf(noise)
        for epsilon in (0.0, 0.3, 3.0, float(largest) * 0.999, float(largest) * 1.001):
            truth = max(mp.mpf(0), -mp.expm1((mp.mpf(epsilon) - largest) / 2))
            found = ja.delta_interval(run, epsilon)
            assert found.lower <= truth <= found.upper <= truth * (1 + mp.mpf(1e-9))
            assert ja.delta(run, epsilon) == found.upper
        for delta in (1e-300, 1e-6, 0.3):
            truth = max(mp.mpf(0), largest + 2 * mp.log1p(-mp.mpf(delta)))
            found = ja.epsilon_interval(run, delta)
            assert found.lower <= truth <= found.upper <= truth * (1 + mp.mpf(1e-12))


def test_no_answer_exceeds_the_largest_loss():
    pair = ja.DiscretePair((0.75, 0.25), (0.25, 0.75))
    laplace = ja.Laplace(2.0)
    for run, most in (
        (ja.Composed(laplace, 3), 1.5),
        (ja.RandomAllocation(laplace, 10, 2, 3), 3.0),
        (ja.PoissonSampled(laplace, 0.1, 20), 20 * math.log1p(0.1 * math.expm1(0.5))),
        (ja.Composed((pair, laplace), (2, 1)), 2 * math.log(3.0) + 0.5),
    ):
        assert ja.epsilon(run, 1e-250) <= most * (1 + 1e-12)
        assert ja.delta(run, most * (1 + 1e-12)) == 0.0 < ja.delta(run, 0.9 * most)
    for unbounded in (ja.Gaussian(1.0), ja.DiscretePair((1.0, 0.0), (0.5, 0.5))):
        assert distribution_of(unbounded).largest_loss(unbounded) == math.inf


def test_what_is_built_on_a_distribution_is_known_from_above():
    base = ja.pld(ja.Gaussian(1.0))
    for run in (base, ja.PoissonSampled(base, 0.01, 100), ja.Composed(base, 4), ja.Composed((base, ja.Gaussian(2.0)))):
        found = ja.epsilon_interval(run, 1e-6)
        assert found.lower == found.analysis_lower == 0.0 < found.upper
        assert {entry.bound for entry in ja.compare(run, 1e-6)} == {ja.Bound.UPPER}
        least: dict[ja.Direction, float] = {}
        for entry in ja.compare(run, 1e-6):
            least[entry.direction] = min(entry.value, least.get(entry.direction, math.inf))
        assert max(least.values()) == found.upper == ja.epsilon(run, 1e-6)


def test_composition_by_transform_equals_direct_convolution():
    rng = np.random.default_rng(1)
    masses = rng.dirichlet(np.ones(40) * 0.3) * (1 - 1e-9)
    one = ja.Pld(-1.0, 0.05, masses, 1e-9, UPPER, D.REMOVE)
    direct = masses
    for _ in range(11):
        direct = np.convolve(direct, masses)
    composed = _pld_composition.compose_plds([(one, 12)])
    exact = ja.Pld(-12.0, 0.05, direct, -math.expm1(12 * math.log1p(-1e-9)), UPPER, D.REMOVE)
    for epsilon in np.linspace(0.0, 11.0, 30):
        assert composed.delta(epsilon) >= exact.delta(epsilon) * (1 - 1e-9)
        assert composed.delta(epsilon) <= exact.delta(epsilon) * (1 + 1e-6) + 1e-18


def _flip_cells(monkeypatch):
    """Every split sends its whole cell to the left end."""
    original = lattice.from_cells
    monkeypatch.setattr(
        sums, "from_cells", lambda low, high, *a, **k: original(low + high, np.zeros_like(high), *a, **k)
    )


def _flip_tails(monkeypatch):
    """What is cut off on the right is forgotten, and far too much of it is cut."""
    original = lattice.trimmed

    def forgetful(law, scale, tail):
        del tail
        cut = original(law, scale, 1e-3)
        return lattice.dataclasses.replace(cut, zero_mass=law.zero_mass, infinite_mass=law.infinite_mass)

    monkeypatch.setattr(sums, "trimmed", forgetful)


def _flip_safe_side(monkeypatch):
    """A lower law moves what has no partner up instead of down."""
    original = lattice._contracted

    def wrong(low, high, step, side, *, depth):
        other = lattice.Side.LOWER_ADD if side is lattice.Side.LOWER_REMOVE else lattice.Side.LOWER_REMOVE
        del depth
        return original(np.zeros_like(low), low + high, step, other, depth=0)

    monkeypatch.setattr(lattice, "_contracted", wrong)


@pytest.mark.parametrize("flip", [_flip_cells, _flip_tails, _flip_safe_side])
def test_a_flipped_rounding_is_noticed(monkeypatch, flip):
    run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100)
    questions = [(D.REMOVE, 0.5, ALLOCATION[0][3]), (D.ADD, 0.5, ALLOCATION[0][4])]
    assert all(brackets(run, *question) for question in questions)
    flip(monkeypatch)
    assert not all(brackets(run, *question) for question in questions)


def test_bad_questions():
    run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=10)
    for words, ask in (
        ("precision=0 must be > 0", lambda: ja.epsilon_interval(run, 1e-6, precision=0)),
        ("target_delta=2.0 must be in", lambda: ja.epsilon_interval(run, 2.0)),
        ("must be scalars", lambda: ja.epsilon_interval(ja.Gaussian(np.ones(2)), 1e-6)),
        ("bound=.* must be Bound", lambda: ja.pld(run, bound=ja.Bound.ESTIMATE)),
        ("direction='in' must be", lambda: ja.pld(run, direction="in")),
        ("resolution=-1 must be > 0", lambda: ja.pld(run, resolution=-1)),
    ):
        with pytest.raises(ValueError, match=words):
            ask()


@pytest.mark.more
def test_hard_corners_are_explicit() -> None:
    """Too large to hold, or losses beyond the doubles: said in words, and the interval falls back to Renyi bounds."""
    with pytest.raises(ValueError, match="ask for a lower resolution"):
        ja.pld(ja.PoissonSampled(ja.Gaussian(0.3), sampling_prob=1e-12, num_steps=10))
    with pytest.raises(ValueError, match="losses beyond"):
        ja.pld(ja.Gaussian(0.01))
    never = ja.epsilon_interval(ja.PoissonSampled(ja.Gaussian(1.0), sampling_prob=0.0, num_steps=10), 1e-6)
    assert never == ja.Interval(0.0, 0.0, 0.0)
    small = ja.epsilon_interval(ja.RandomAllocation(ja.Gaussian(0.05), num_steps=1000), 1e-6)
    assert 0 < small.lower <= small.upper <= 1.01 * small.lower
    run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100, num_epochs=2)
    tiny = ja.epsilon_interval(run, 1e-120)
    assert 0 < tiny.lower <= tiny.upper <= ja.epsilon(run, 1e-120, precision=math.inf)


def test_limits_of_a_scheme_are_not_above_their_closed_form():
    for run in (
        ja.RandomAllocation(ja.Gaussian(8.0), 1),
        ja.RandomAllocation(ja.Gaussian(8.0), 4, 4),
        ja.PoissonSampled(ja.Gaussian(8.0), 1.0, 1),
    ):
        assert ja.epsilon(run, 1e-5) <= ja.epsilon(run, 1e-5, method="no amplification")


@pytest.mark.more
@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")
@pytest.mark.parametrize(
    ("ask", "truth", "close"),
    [
        (
            # the closed form of the sampled pair in mpmath, 30 digits: 0.000201958373842715
            lambda p: ja.delta(
                ja.PoissonSampled(ja.Gaussian(1.0), 0.2, num_steps=1), 0.2, precision=p, direction=ja.Direction.ADD
            ),
            2.019583738427e-4,
            1e-3,
        ),
        (
            lambda p: (
                ja.epsilon_interval(
                    ja.RandomAllocation(ja.Gaussian(0.17845821397028766), 216, num_epochs=2),
                    1.3167210153175338e-09,
                    precision=p,
                ).upper
            ),
            67.0794,  # as reported of an independent computation, to the digits shown; not recomputed here
            1e-4,
        ),
    ],
    ids=["delta-sampled", "epsilon-two-epochs"],
)
def test_finer_precision_is_never_looser(ask, truth, close):
    """What no grid reaches is tried with the grids of a coarser precision too."""
    found = [ask(p) for p in (None, 1e-3, 1e-8)]
    assert found == sorted(found, reverse=True)
    assert truth * (1.0 - 1e-5) <= found[-1] <= truth * (1.0 + close)


def test_grids_of_a_coarser_precision_come_first(monkeypatch):
    """Precision only says when to stop."""
    tried = {}
    tighten = _distribution._Refinement._tighten
    for precision in (0.01, 3e-3, 1e-3):
        seen = tried[precision] = []

        def spy(refinement, resolution, seen=seen):
            seen.append(resolution)
            return tighten(refinement, resolution)

        run, direction = ja.RandomAllocation(ja.Laplace(1.0), 20, 2), ja.Direction.REMOVE
        with monkeypatch.context() as patch:
            patch.setattr(_distribution._Refinement, "_tighten", spy)
            refined(run, EPSILON, 1e-5, precision, (direction,))
    coarse, middle, fine = tried.values()
    assert len(coarse) < len(fine)
    assert middle[: len(coarse)] == coarse
    assert fine[: len(middle)] == middle


def test_lower_ends_of_several_steps_are_those_of_one_step_in_the_same_direction():
    """The reduction of k-out-of-t says nothing from below; one step a record does, each direction for itself."""
    several, one = ja.RandomAllocation(ja.Gaussian(1.0), 100, 4), ja.RandomAllocation(ja.Gaussian(1.0), 100)
    (method,) = {m for m in methods_for(several) if isinstance(m, _distribution.DistributionMethod)}
    found = [e for e in ja.compare(several, 1e-6) if e.method == method.name and e.bound is LOWER]
    assert {entry.direction for entry in found} == set(D)
    for entry in found:
        assert 0.0 < entry.value <= ja.epsilon(one, 1e-6, direction=entry.direction)


def test_each_point_of_a_batch_has_the_methods_that_cover_it():
    """One epoch has an exact profile, two have not: side by side in one array they are answered as alone."""
    runs = [ja.RandomAllocation(ja.Gaussian(2.0), 4, 1, epochs) for epochs in (1, 2)]
    batch = ja.RandomAllocation(ja.Gaussian(2.0), 4, 1, np.array([1, 2]))
    assert ja.epsilon(batch, 1e-5).tolist() == pytest.approx([ja.epsilon(run, 1e-5) for run in runs], rel=1e-12)


def _two_sampled_steps(prob, epsilon):
    """delta of two sampled Gaussian steps of noise multiplier 1, remove: E R (R' - e^eps / R)_+, by quadrature."""
    with mp.workdps(30):
        q = mp.mpf(prob)

        def ratio(z):
            return 1 - q + q * mp.exp(z - mp.mpf("0.5"))

        def beyond(g):  # E (R - g)_+ for g > 1 - q
            z = mp.log((g - 1 + q) / q) + mp.mpf("0.5")
            return (1 - q - g) * mp.ncdf(-z) + q * mp.ncdf(1 - z)

        end = mp.log((mp.exp(epsilon) / (1 - q) - 1 + q) / q) + mp.mpf("0.5")  # where g is 1 - q: beyond, all counts

        def inside(z):
            return mp.npdf(z) * ratio(z) * beyond(mp.exp(epsilon) / ratio(z))

        knots = [-12, -4, 0, 4, 7, 9, 10, 11, end]
        outside = (1 - q) * mp.ncdf(-end) + q * mp.ncdf(1 - end) - mp.exp(epsilon) * mp.ncdf(-end)
        return mp.quad(inside, knots) + outside


def test_deltas_below_what_tails_leave_are_looked_at_again():
    """What is cut off is 1e-27 where delta is asked for; below, tails are cut off further out."""
    truth = _two_sampled_steps(1.24e-4, mp.mpf(2.68))
    found = ja.delta_interval(ja.PoissonSampled(ja.Gaussian(1.0), 1.24e-4, 2), 2.68, precision=0.05)
    assert found.lower <= truth <= found.upper < 1.05 * found.lower
    assert truth < 1e-30


def test_counts_and_fields_of_narrow_numbers_do_not_wrap_around():
    """Products of counts in the integers of an array: epsilon was 0, or far below its lower end."""
    one = ja.PoissonSampled(ja.Gaussian(50.0), 0.01, 10)
    for n in (np.full(4, 200, np.uint8), np.full(4, 70_000, np.int32), np.full(4, 65_536, np.int32)):
        least = ja.epsilon_interval(ja.Composed(ja.Composed(one, int(n[0])), int(n[0])), 1e-6).lower
        assert least > 0.5
        assert np.all(ja.epsilon(ja.Composed(ja.Composed(one, n), n), 1e-6) >= least)
    c = 2**32
    with pytest.warns(ja.OrderEdgeWarning):
        assert ja.delta(ja.Composed(ja.Composed(ja.PoissonSampled(ja.Gaussian(1e8), 0.1, 10), c), c), 1.0) > 0.99
    replaced = ja.ReplaceOne(ja.DiscreteLaplace(1e-2, np.uint8(200)))
    assert ja.pld(replaced).epsilon(1e-6) >= 3.9999
    n = np.uint8(200)
    assert ja.pld(ja.Composed(ja.Composed(one, n), n)).epsilon(1e-6) > 0.51


def test_batches_that_mix_rate_1_with_others():
    rates = np.array([0.01, 0.02, 0.05, 1.0])
    together = ja.delta(ja.PoissonSampled(ja.Gaussian(1.0), rates, 5000), 10.0)
    alone = [ja.delta(ja.PoissonSampled(ja.Gaussian(1.0), rate, 5000), 10.0) for rate in rates]
    assert together == pytest.approx(alone, rel=1e-6)
    assert ja.delta(ja.PoissonSampled(ja.Gaussian(1.0), 1.0, 1), 50.0) > 0.0  # 1e-536, and not 0
