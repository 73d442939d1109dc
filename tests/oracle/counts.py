"""The clones pair of a shuffle by sums over its counts, windows closed by Chernoff's bound."""

from flint import arb

from oracle.balls import binomial


def _above(m, k):
    """P[Bin(m, 1/2) >= k]."""
    if k <= 0:
        return arb(1)
    if k > m:
        return arb(0)
    if m <= 60:
        return sum((binomial(m, a, arb(1) / 2) for a in range(k, m + 1)), arb(0))
    return arb.beta_lower(arb(k), arb(m - k + 1), arb(1) / 2, 1)


def excess(m, epsilon, scale):
    """E (L - e^epsilon)_+ given m reports of two kinds, a of the first: L = (1 + s x) / (1 - s x), x = (2a - m) / m.

    The counts from k on have L > e^epsilon; sum over a >= k of x C(m, a) 2^-m is k C(m, k) 2^-m / m. Where k is
    not certain the term in question is 0 but for rounding, and either will do.
    """
    y = (epsilon / 2).tanh() / scale
    k = max(0, int(((y + 1) * m / 2).mid().floor().unique_fmpz()) + 1)
    if k > m:
        return arb(0)
    gain = (1 + epsilon.exp()) * scale * k * binomial(m, k, arb(1) / 2) / m
    return (gain - epsilon.expm1() * _above(m, k)).max(arb(0))


def _tail(n, k, p):
    """Chernoff's bound on what Bin(n, p) has beyond k, on the side of k away from the mean."""
    a = arb(k) / n
    parts = (a * (a / p).log() if k > 0 else arb(0)) + ((1 - a) * ((1 - a) / (1 - p)).log() if k < n else arb(0))
    return (-n * parts).exp()


def window(n, p, nats=80.0):
    """Counts of Bin(n, p), first and last, and a bound on the probability of all others."""
    if n <= 2 * nats or not 0 < p < 1:
        return 0, n, arb(0)
    mean, spread = float(n * p), float((n * p * (1 - p)).sqrt())
    reach = spread * (2.0 * nats) ** 0.5 + 0.4 * nats
    first, last = max(0, int(mean - reach)), min(n, int(mean + reach) + 1)
    outside = arb(0)
    if first > 0:
        outside += _tail(n, first, p)
    if last < n:
        outside += _tail(n, last, p)
    return first, last, outside


def clones_delta(n, p, scale, epsilon, nats=80.0):
    """delta of the clones pair: m - 1 ~ Bin(n - 1, p)."""
    if not epsilon < 2 * scale.atanh():
        return arb(0)
    first, last, outside = window(n - 1, p, nats)
    total = sum((binomial(n - 1, c, p) * excess(c + 1, epsilon, scale) for c in range(first, last + 1)), arb(0))
    return total + arb(0).union(outside)
