"""Ways to build and combine privacy loss distributions: from distribution functions, mixtures, grids, composition."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

import jaxacct as ja
from jaxacct.bounds.bases import _continuous
from jaxacct.curves._convolution import _fft_error
from jaxacct.curves._regridding import on_grid
from jaxacct.divergence.lattice._ratio import Side


def _gaussian_pair(sigma: float, reach: float = 10.0) -> ja.ContinuousPair:
    """The loss of the Gaussian pair is normal: mean +-mu^2/2, standard deviation mu."""
    mu = 1.0 / sigma
    middle, end = 0.5 * mu * mu, reach * mu + 0.5 * mu * mu
    return ja.ContinuousPair(
        cdf_p=lambda loss: ndtr((loss - middle) / mu),
        sf_p=lambda loss: ndtr((middle - loss) / mu),
        cdf_q=lambda loss: ndtr((loss + middle) / mu),
        sf_q=lambda loss: ndtr(-(loss + middle) / mu),
        lowest=-end,
        highest=end,
    )


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("direction", list(ja.Direction))
def test_pair_by_its_distribution_functions(sigma: float, direction: ja.Direction) -> None:
    pair = _gaussian_pair(sigma)
    for bound in (ja.Bound.UPPER, ja.Bound.LOWER):
        loss = ja.pld(pair, direction=direction, bound=bound)
        for epsilon in (0.0, 0.3, 1.0, 4.0):
            truth = float(ja.delta(ja.Gaussian(sigma), epsilon))
            found = loss.delta(epsilon)
            if bound is ja.Bound.UPPER:
                assert truth * (1 - 1e-12) <= found <= 1.01 * truth + 1e-12
            else:
                assert 0.95 * truth - 1e-12 <= found <= truth * (1 + 1e-12)


def test_pair_under_sampling_and_allocation() -> None:
    pair, gaussian = _gaussian_pair(1.0), ja.Gaussian(1.0)
    for mine, known in (
        (ja.PoissonSampled(pair, sampling_prob=0.05, num_steps=50), ja.PoissonSampled(gaussian, 0.05, 50)),
        (ja.RandomAllocation(pair, num_steps=50), ja.RandomAllocation(gaussian, num_steps=50)),
    ):
        found, other = ja.epsilon_interval(mine, 1e-5), ja.epsilon_interval(known, 1e-5)
        assert found.lower <= other.upper
        assert other.lower <= found.upper
        assert found.upper <= 1.02 * other.upper


def test_truncated_range_and_rough_functions_stay_safe() -> None:
    """A short range or inaccurate functions cost tightness, never the bound."""
    truth = float(ja.delta(ja.Gaussian(1.0), 1.0))
    for reach, accuracy in ((2.0, 1e-13), (10.0, 1e-6)):
        pair = _gaussian_pair(1.0, reach)
        pair = ja.ContinuousPair(
            pair.cdf_p, pair.sf_p, pair.cdf_q, pair.sf_q, pair.lowest, pair.highest, accuracy=accuracy
        )
        assert ja.pld(pair).delta(1.0) >= truth
        assert ja.pld(pair, bound=ja.Bound.LOWER).delta(1.0) <= truth


@pytest.mark.parametrize("direction", list(ja.Direction))
def test_functions_that_err_by_all_of_their_accuracy(direction: ja.Direction) -> None:
    """All of P read too low: to the remove direction the release looks safer than it is."""
    good, accuracy = _gaussian_pair(1.0), 1e-3
    pair = ja.ContinuousPair(
        cdf_p=lambda loss: (1.0 - accuracy) * good.cdf_p(loss),
        sf_p=lambda loss: (1.0 - accuracy) * good.sf_p(loss),
        cdf_q=good.cdf_q,
        sf_q=good.sf_q,
        lowest=good.lowest,
        highest=good.highest,
        accuracy=accuracy,
    )
    upper, lower = (ja.pld(pair, direction=direction, bound=b) for b in (ja.Bound.UPPER, ja.Bound.LOWER))
    for epsilon in (0.0, 1.0, 3.0):
        truth = float(ja.delta(ja.Gaussian(1.0), epsilon))
        assert lower.delta(epsilon) <= truth <= upper.delta(epsilon)


def test_tails_that_err_by_all_of_their_accuracy_are_counted() -> None:
    """The true value is up to 1 / (1 - accuracy) times the one that is given, which is more than 1 + accuracy."""
    good, accuracy = _gaussian_pair(1.0, 1.0), 1e-3
    functions = [lambda loss, f=f: (1.0 - accuracy) * f(loss) for f in (good.cdf_p, good.sf_p, good.cdf_q, good.sf_q)]
    pair = ja.ContinuousPair(*functions, good.lowest, good.highest, accuracy=accuracy)
    for step in (0.25, 1.0, 2.0):
        law = _continuous._unsampled(pair, step, Side.UPPER)
        assert law.infinite_mass >= good.sf_p(law.log_values[-1])
        assert law.zero_mass >= good.cdf_q(law.offset) + good.sf_q(law.log_values[-1])


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("step", [0.01, 0.5, 3.0])
def test_cells_count_what_functions_may_err_by(step: float, sign: float) -> None:
    """Of P and Q in opposite directions, at every other end of a cell: each point has at least what is true."""
    good, accuracy = _gaussian_pair(1.0), 1e-3

    def rough(function: Callable[..., Any], sign: float) -> Callable[..., Any]:
        def given(loss: Any) -> Any:
            return np.minimum(function(loss) * (1.0 + sign * accuracy * (-1.0) ** np.round(loss / step)), 1.0)

        return given

    p, q = ([rough(f, x) for f in of] for of, x in (((good.cdf_p, good.sf_p), sign), ((good.cdf_q, good.sf_q), -sign)))
    pair = ja.ContinuousPair(*p, *q, good.lowest, good.highest, accuracy=accuracy)
    found, truth = (_continuous._unsampled(x, step, Side.UPPER) for x in (pair, good))
    assert np.all(found.masses >= truth.masses * (1.0 - 1e-10))


@pytest.mark.parametrize("accuracy", [0.0, 1e-13, 1e-3])
def test_functions_fall_by_no_more_than_their_accuracy(accuracy: float) -> None:
    """What is admitted has a monotone function within its accuracy, however small the values; so much is counted."""
    good = _gaussian_pair(1.0)

    def made(error: float) -> ja.ContinuousPair:
        jump = lambda loss: good.cdf_p(-3.0) * np.where(loss > 0.0, 1.0 - error, 1.0 + error)  # noqa: E731
        return ja.ContinuousPair(
            lambda loss: np.where(np.abs(loss) < 2.0, jump(loss), good.cdf_p(loss) * np.where(loss < 0.0, 1e-20, 1.0)),
            *(good.sf_p, good.cdf_q, good.sf_q, -3.0, 3.0),
            accuracy=accuracy,
        )

    assert made(accuracy).accuracy == accuracy
    with pytest.raises(ValueError, match="cdf_p must map"):
        made(1.01 * accuracy + 1e-14)


def test_bad_pairs_are_refused() -> None:
    good = _gaussian_pair(1.0)
    with pytest.raises(ValueError, match="lowest"):
        ja.ContinuousPair(good.cdf_p, good.sf_p, good.cdf_q, good.sf_q, 1.0, -1.0)
    with pytest.raises(ValueError, match="sf_p"):
        ja.ContinuousPair(good.cdf_p, good.cdf_p, good.cdf_q, good.sf_q, -1.0, 1.0)
    with pytest.raises(ValueError, match="accuracy"):
        ja.ContinuousPair(good.cdf_p, good.sf_p, good.cdf_q, good.sf_q, -1.0, 1.0, accuracy=1.0)


@pytest.mark.parametrize("bound", [ja.Bound.UPPER, ja.Bound.LOWER])
@pytest.mark.parametrize("direction", list(ja.Direction))
def test_other_grids_stay_on_the_safe_side(bound: ja.Bound, direction: ja.Direction) -> None:
    loss = ja.pld(ja.Gaussian(1.0), direction=direction, bound=bound, resolution=48.0)
    sign = 1.0 if bound is ja.Bound.UPPER else -1.0
    for step in (loss.step, 0.37 * loss.step, 1.7 * loss.step, 5.0 * loss.step):
        for origin in (0.0, loss.offset, 0.123):
            moved = on_grid(loss, step, origin)
            for epsilon in (0.0, 0.5, 2.0, 6.0):
                truth = loss.delta(epsilon)
                assert sign * (moved.delta(epsilon) - truth) >= 0
                assert moved.delta(epsilon) == pytest.approx(truth, rel=1.0 if bound is ja.Bound.LOWER else 0.2)


def test_mixture_is_the_average_of_the_profiles() -> None:
    parts = [ja.pld(ja.Gaussian(s)) for s in (1.0, 2.0, 0.7)]
    weights = [0.2, 0.5, 0.3]
    mixed = ja.mixture(parts, weights)
    for epsilon in (0.0, 0.7, 2.0, 5.0):
        average = sum(w * part.delta(epsilon) for w, part in zip(weights, parts, strict=True))
        assert average * (1 - 1e-12) <= mixed.delta(epsilon) <= average * (1 + 1e-2)
    with pytest.raises(ValueError, match="weights"):
        ja.mixture(parts, [0.5, 0.5])
    with pytest.raises(ValueError, match="direction"):
        ja.mixture([parts[0], ja.pld(ja.Gaussian(1.0), direction=ja.Direction.ADD)], [0.5, 0.5])


@pytest.mark.parametrize("bound", [ja.Bound.UPPER, ja.Bound.LOWER])
def test_composition_across_grids(bound: ja.Bound) -> None:
    """Five and three Gaussian rounds of different noise, each on its own grid, are one Gaussian round."""
    parts = [ja.pld(ja.Gaussian(s), bound=bound, resolution=64.0) for s in (2.0, 3.0)]
    whole = ja.compose(parts, counts=(5, 3))
    sigma = 1.0 / math.sqrt(5 / 4 + 3 / 9)
    for epsilon in (0.5, 2.0, 5.0):
        truth = float(ja.delta(ja.Gaussian(sigma), epsilon))
        if bound is ja.Bound.UPPER:
            assert truth <= whole.delta(epsilon) <= 1.01 * truth
        else:
            assert 0.5 * truth <= whole.delta(epsilon) <= truth


def test_sampling_a_distribution() -> None:
    """Poisson sampling of a distribution is that of the mechanism behind it."""
    loss = ja.pld(ja.Gaussian(1.0), resolution=96.0)
    found = ja.epsilon_interval(ja.PoissonSampled(ja.Gaussian(1.0), sampling_prob=0.1, num_steps=20), 1e-5)
    sampled = ja.pld(ja.PoissonSampled(loss, sampling_prob=0.1, num_steps=20), resolution=48.0)
    assert found.lower <= sampled.epsilon(1e-5) <= 1.02 * found.upper
    assert np.isfinite(sampled.masses).all()


@pytest.mark.parametrize("bound", [ja.Bound.UPPER, ja.Bound.LOWER])
def test_fft_that_errs_as_booked_is_survived(bound: ja.Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transforms that err by what is booked, in the worst way, leave the composition on its side."""
    parts = ja.pld(ja.DiscretePair((0.75, 0.25), (0.25, 0.75)), bound=bound)
    exact = _composed_response(40)
    side = -1.0 if bound is ja.Bound.UPPER else 1.0
    plain = np.fft.irfft

    def off(spectrum: np.ndarray, size: int) -> np.ndarray:
        found = plain(spectrum, size)
        eta = 8.0 * 2.0**-53 * math.log2(size)
        return found + side * eta * math.sqrt(float(np.square(found).sum()))

    monkeypatch.setattr(np.fft, "irfft", off)
    whole = ja.compose(parts, 40)
    for epsilon, truth in exact.items():
        assert whole.delta(epsilon) >= truth if bound is ja.Bound.UPPER else whole.delta(epsilon) <= truth


def _composed_response(count: int) -> dict[float, float]:
    """delta of `count` rounds of randomized response of odds 3 to 1, rounded to the nearest double."""
    found = {}
    for k in range(0, count, 4):
        epsilon = k * math.log(3.0) + 0.3
        total = 0.0
        for a in range(count + 1):
            loss = (2 * a - count) * math.log(3.0)
            if loss > epsilon:
                total += math.comb(count, a) * 0.75**a * 0.25 ** (count - a) * -math.expm1(epsilon - loss)
        found[epsilon] = total
    return found


def test_fft_error_fails_closed() -> None:
    assert math.isinf(_fft_error(norms=1.0, grown=1e-12, drift=0.3, result=1.0, eta=1e-14))
    assert math.isinf(_fft_error(norms=1.0, grown=2.0, drift=1e-12, result=1.0, eta=1e-14))
    assert _fft_error(norms=3.0, grown=1e-12, drift=1e-13, result=2.0, eta=1e-14) >= 3e-14 + 2e-13


@pytest.mark.parametrize("bound", [ja.Bound.UPPER, ja.Bound.LOWER])
def test_mixtures_take_the_safest_shift(bound: ja.Bound) -> None:
    """Parts that move by different amounts to the common grid: the mixture moves by the most of them."""
    side = 1.0 if bound is ja.Bound.UPPER else -1.0
    near, far = (ja.Pld(at, 1e-3, np.ones(1), 0.0, bound, ja.Direction.REMOVE) for at in (0.0, 4e3))
    mixed = ja.mixture([near, far], [0.5, 0.5])
    assert side * mixed.offset >= 1e-12 + 4e3 * 2.0**-52
