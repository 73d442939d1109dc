"""BOUND, from above and exact: low whole Renyi orders of true k-out-of-t allocation with Gaussian noise, unreduced.

Add/remove adjacency, remove direction. E_Q X^a counts the overlaps of a independent uniform k-subsets I_1, .., I_a of
the t steps: a step that lies in c of them contributes E_Q Y^c = q^{c(c-1)/2}, q = e^{1/sigma^2}, so that

    E_Q X^a = E q^{sum_{i<j} |I_i & I_j|}

(Feldman & Shenfeld 2025, Theorem 3.1; RA-S4). At order 2 this is what `overlap_remove_rdp` sums. Orders 2 and 3 are by
the law of the overlaps; higher ones, for small k, are a coefficient of a polynomial in one variable for each subset:

    E_Q X^a = [z_1^k .. z_a^k] (sum_{S of 1..a} q^{|S|(|S|-1)/2} z^S)^t / C(t, k)^a.
"""

import math

import numpy as np
from numpy.typing import NDArray

from jaxacct.bounds.theorems import concrete_base
from jaxacct.mechanisms import Gaussian, RandomAllocation
from jaxacct.papers._asking import run_of, whole
from jaxacct.special import ULP, up

_MAX_SELECTED = 256  # steps for each record; the cost grows as their square, in vectors of that length
_MAX_CELLS = 4096  # coefficients of the polynomial; for more the answer is inf
_MOST_LOG_WAYS = 600.0  # log of C(t, k)^(2a - 1): doubles hold the coefficients beside each other

Real = NDArray[np.float64]


def exact_overlap_rdp(mechanism: RandomAllocation, *, order: int) -> float:
    """Renyi divergence of true k-out-of-t allocation at a whole order, remove direction, exactly: ours (RA-S4).

        log E q^(sum_{i<j} |I_i & I_j|) / (a - 1),   q = e^{1/sigma^2},  I_1, .., I_a independent uniform k-subsets,

    times the number of epochs. Upper bound: exact, rounded up. Gaussian noise, 1 <= k <= t, k <= 256, and, from order 4
    on, (k + 1)^order <= 4096; inf elsewhere. Never above the reduction to 1-out-of-(t/k) (Lemma 3.2). All terms are
    positive.
    The rounding error is added: at orders 2 and 3, where E q^J - 1 is summed, some 1e-16 k log t relative, at a cost
    of O(k^2) in vectors of k; at higher orders 2e-16 t (k + 1)^order absolute.

    Args:
      mechanism: RandomAllocation with concrete scalar fields.
      order: a, whole number >= 2.

    Returns:
      float, nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct.papers import random_allocation
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=10, num_selected=3)
    >>> round(random_allocation.exact_overlap_rdp(run, order=3), 9)
    1.802443836
    """
    run_of(mechanism)
    order = whole("order", order, least=2)
    base = concrete_base(mechanism)
    t, k, epochs = (int(x) for x in (mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs))
    if base.signature() != (Gaussian,) or k > _MAX_SELECTED:
        return math.inf
    s2 = up(float(base.noise_multiplier) ** -2.0, 8)  # a power by 4 ULP
    if order > 3:
        return up(epochs * _log_coefficient(t, k, s2, order) / (order - 1.0), 8)
    logs: list[Real] = []
    exponents: list[Real] = []
    pair = _log_hypergeometric(t, k, k)
    for j in np.flatnonzero(np.isfinite(pair)):
        if order == 2:
            logs.append(pair[j : j + 1])
            exponents.append(np.array([s2 * j]))
            continue
        # the third subset: a of the j common steps, b of the 2 (k - j) in one subset only
        within = _log_hypergeometric(t, 2 * k - int(j), k)  # a + b
        split = _log_splits(int(j), 2 * (k - int(j)), k)  # [a + b, a]
        table = pair[j] + within[:, None] + split
        a, union = np.arange(table.shape[1]), np.arange(table.shape[0])[:, None]
        kept = np.isfinite(table)
        logs.append(table[kept])
        exponents.append((s2 * (j + 2.0 * a + (union - a)))[kept])
    log_weight, x = np.concatenate(logs), np.concatenate(exponents)
    # nine logarithms of binomials by 4 ULP, and eight sums: C(t, k) bounds each pair, C(2k, k) < e^(1.4 k) the split
    logs_size = 4.0 * math.log(math.comb(t, k)) + 2.8 * k
    size = ULP * (64.0 + 12.0 * logs_size + math.log(len(x)) + 8.0 * float(x.max()))
    top = float((log_weight + x).max())
    if top < 0.0 and float(x.max()) < 600.0:
        log_moment = math.log1p(math.fsum(np.exp(log_weight) * np.expm1(x)) * (1.0 + 2.0 * size))
    else:
        log_moment = top + math.log(math.fsum(np.exp(log_weight + x - top))) + size
    return up(epochs * log_moment / (order - 1.0), 8)


def _log_coefficient(t: int, k: int, s2: float, order: int) -> float:
    """Log of E_Q X^a, rounded up, by binary powering of the polynomial; inf for too many coefficients."""
    cells, log_choose = (k + 1) ** order, math.log(math.comb(t, k))
    if cells > _MAX_CELLS or (2 * order - 1) * math.log(math.comb(t, min(k, t // 2))) > _MOST_LOG_WAYS:
        return math.inf
    largest = 0.5 * s2 * order * (order - 1)
    # With q^{-(a-1)/2} z for z no factor is above 1, and E_Q X^a at least C(t, k), by equal subsets. No coefficient is
    # above C(t, k)^a (of at most t / 2 steps), so that what is lost below 2^-1074 of the largest of one product, times
    # the largest of the other, is below 2^-100 of the result.
    power = np.zeros((k + 1,) * order)
    for subset in np.ndindex((2,) * order):
        power[subset] = math.exp(-0.5 * s2 * sum(subset) * (order - sum(subset)))
    log_scale, log_power, total = 0.0, 0.0, np.zeros_like(power)
    total[(0,) * order] = 1.0
    for bit in reversed(bin(t)[2:]):
        if bit == "1":
            total, log_scale = _scaled(_truncated_product(total, power), log_scale + log_power)
        power, log_power = _scaled(_truncated_product(power, power), 2.0 * log_power)
    value = math.log(float(total[(k,) * order])) + log_scale + k * largest
    # a product of t factors, known to `largest` + 4 ULP, is made in t - 1 products of sums of `cells` terms, each of
    # them with a scale, whose logarithm is at most 2 `largest` + log(cells)
    logs = abs(value) + k * largest + order * log_choose
    slack = ULP * (t * (cells + 12.0 * (largest + math.log(cells)) + 16.0) + 8.0 * logs)
    return max(0.0, value - order * log_choose) + slack


def _truncated_product(a: Real, b: Real) -> Real:
    """The product of two polynomials, without the powers beyond their shape."""
    out = np.zeros_like(a)
    for at in zip(*np.nonzero(a), strict=True):
        out[tuple(slice(int(i), None) for i in at)] += (
            a[at] * b[tuple(slice(None, n - int(i)) for i, n in zip(at, b.shape, strict=True))]
        )
    return out


def _scaled(a: Real, log_scale: float) -> tuple[Real, float]:
    top = float(a.max())
    return a / top, log_scale + math.log(top)


def _log_choose(n: int, count: int) -> Real:
    """log C(n, m) [count + 1], m = 0..count, of whole numbers: within 4 ULP of itself; -inf where m > n."""
    found, chosen = [], 1
    for m in range(count + 1):
        found.append(math.log(chosen) if chosen else -math.inf)
        chosen = chosen * max(n - m, 0) // (m + 1)
    return np.asarray(found)


def _log_hypergeometric(t: int, marked: int, k: int) -> Real:
    """log P [k + 1] of m = 0..k marked steps in a uniform k-subset of t steps."""
    rest = _log_choose(t - marked, k)[::-1]  # k - m of the others
    return _log_choose(marked, k) + rest - math.log(math.comb(t, k))


def _log_splits(first: int, second: int, k: int) -> Real:
    """log P [k + 1, first + 1] that a of m steps are among the first, of first + second; -inf where impossible."""
    m, a = np.arange(k + 1)[:, None], np.arange(first + 1)
    b = m - a
    inside = (b >= 0) & (b <= second)
    b, m = np.where(inside, b, 0), np.where(inside, m, 0)
    chosen = _log_choose(first, first)[a] + _log_choose(second, second)[b]
    return np.where(inside, chosen - _log_choose(first + second, k)[m], -np.inf)
