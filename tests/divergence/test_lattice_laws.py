"""Laws of likelihood ratios on a lattice: their sums beside every pair of points, and what is too far for one."""

import math

import numpy as np
import pytest

import jaxacct as ja
from jaxacct import _work
from jaxacct._types import TooFineError
from jaxacct.bounds import bases
from jaxacct.bounds.bases import _gaussian
from jaxacct.divergence.lattice._ratio import Side
from jaxacct.divergence.lattice._sums import _groups, _sum_cells


@pytest.mark.parametrize(("size", "step"), [(40, 0.3), (150, 0.05), (120, 0.002)])
@pytest.mark.parametrize("same", [True, False])
def test_cells_of_a_sum_hold_every_pair(size, step, same):
    """Whether their distances are added one by one (close points) or together (far ones)."""
    rng = np.random.default_rng(0)
    p, q, shift = rng.random(size), rng.random(size), 0.0 if same else 0.4
    q = p if same else q
    low, high, first = _sum_cells(p, q, shift, step, same=same)
    x, y = step * np.arange(size), step * np.arange(size) + shift
    place = np.logaddexp(x[:, None], y[None, :]) / step - first
    cell = np.floor(place).astype(int)
    share = np.expm1((place - cell) * step) / math.expm1(step)
    weights, where = p[:, None] * q[None, :], cell.ravel()
    for found, part in ((low, 1.0 - share), (high, share)):
        expected = np.bincount(where, (weights * part).ravel(), minlength=low.size)
        # a point on the border of two cells may be in either, at the same place
        assert np.allclose(np.cumsum(found), np.cumsum(expected), rtol=1e-9, atol=1e-9 * weights.max())
    whole = np.exp(step * first) * (low + high * math.exp(step)) @ np.exp(step * np.arange(low.size))
    assert whole == pytest.approx((weights * (np.exp(x)[:, None] + np.exp(y)[None, :])).sum(), rel=1e-12)


def test_far_points_are_added_together():
    """Of ratios that spread over many nats most distances are in few runs; so the work says."""
    cells = np.floor(np.log1p(np.exp(-0.07 * np.arange(1500))) / 0.07).astype(int)
    single, runs = _groups(cells, range(1, 1500))
    assert len(single) < 40
    assert len(runs) < 10
    assert [*single, *(d for run in runs for d in range(run.start, run.stop))] == list(range(1, 1500))
    assert all(len(set(cells[run])) == 1 for run in runs)
    with _work.counted() as wide, _work.counted() as narrow:
        _work.count_sum(1500, 0.001, same=False)
    with _work.counted() as wide:
        _work.count_sum(1500, 0.07, same=False)
    assert wide.at(1.0) < 0.2 * narrow.at(1.0)


def test_losses_that_are_too_far_are_refused_before_cells_are_made(monkeypatch):
    """Some millions of them, where the noise is 1e-4."""
    monkeypatch.setattr(_gaussian, "gaussian_cells", lambda *at, **sizes: pytest.fail("cells are made"))
    with pytest.raises(TooFineError, match="out of reach"):
        bases.law(ja.Gaussian(8.9e-5), 1.0, 16.0, Side.UPPER, 1e-20)
    with pytest.raises(TooFineError, match="out of reach"):
        bases.law(ja.Laplace(1e-6), 1.0, 16.0, Side.UPPER, 1e-20)


@pytest.mark.parametrize("side", Side)
def test_cells_beyond_what_is_held_are_not_made(side, monkeypatch):
    """Of sampled noise, of which 1 - q is within reach."""
    sizes, cells = [], _gaussian.gaussian_cells

    def made(*at, size):
        sizes.append(size)
        return cells(*at, size=size)

    monkeypatch.setattr(_gaussian, "gaussian_cells", made)
    law = bases.law(ja.Gaussian(2e-4), 0.3, 0.5, side, 1e-20)
    assert max(sizes) < 1300
    if side is Side.UPPER:
        assert law.infinite_mass >= 0.3
