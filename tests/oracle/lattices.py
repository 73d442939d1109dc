"""delta of several steps between two lattices in ball arithmetic: likelihood ratios spread, and losses rounded down.

A step is a mixture of Gaussian likelihood ratios: R = 1 - q + q s Y, Y = e^{rate z - rate^2/2} with z normal.
delta is the mean of a function that is convex in every R. From above, the law of R on a cell is spread to the ends of
the cell: the same mass and the same mean, so that no such mean falls. From below, the set of outcomes where the sum of
the numbers of the cells is above (or not above) a number is an event S, and delta >= P(S) - e^epsilon Q(S).
"""

import functools
import itertools
import operator
from typing import NamedTuple

from flint import arb, arb_poly

from oracle.balls import cdf

_CELLS = 1000
_FAR = 11  # standard deviations beyond which a ratio counts as one that happened


class Step(NamedTuple):
    """R = 1 - q + q s Y, s with finitely many values and weights, Y lognormal of the given rate."""

    rate: arb
    q: arb
    sizes: tuple[arb, ...] = (arb(1),)
    weights: tuple[arb, ...] = (arb(1),)

    def masses(self, step, first, last):
        """Q and P of the cells [e^{j step}, e^{(j + 1) step}), first <= j < last, and of what lies above them."""
        tails = []
        for j in range(first, last + 1):
            y = ((step * j).exp() - 1 + self.q) / self.q
            below = y <= 0  # below every ratio
            under = with_record = arb(0)
            for size, weight in zip(self.sizes, self.weights, strict=True):
                z = -arb(_FAR * 20) if below else (y / size).log() / self.rate + self.rate / 2
                under += weight * cdf(-z)
                with_record += weight * size * cdf(self.rate - z)
            tails.append((under, (1 - self.q) * under + self.q * with_record))
        cells = [(a[0] - b[0], a[1] - b[1]) for a, b in itertools.pairwise(tails)]
        return cells, tails[-1]

    def range(self, step):
        """The first cell, that of the least ratio, and one beyond the last."""
        least = (1 - self.q).log() if self.q < 1 else -self.rate * _FAR - self.rate**2
        largest = max((s.log() for s in self.sizes), key=lambda x: float(x.mid()))
        y = ((self.rate + _FAR) * self.rate - self.rate**2 / 2 + largest).exp()
        top = (1 - self.q + self.q * y).log()
        floor = min(float(least.mid()), -1e-9)
        floor = max(floor, -float((self.rate * _FAR + self.rate**2).mid()))
        return int(floor / float(step.mid())) - 2, int(float(top.mid()) / float(step.mid())) + 2


def _product(polynomials):
    return functools.reduce(operator.mul, polynomials)


def _each(made, steps):
    """What `made` makes of each step, once for equal ones."""
    known = {id(one): made(one) for one in {id(one): one for one in steps}.values()}
    return [known[id(one)] for one in steps]


def _lattice(steps):
    """The step: the whole range of a step in so many cells."""
    reach = max(last - first for first, last in (s.range(arb(1) / 64) for s in steps)) / 64
    return arb(reach / _CELLS)


class Above:
    """Upper bounds on delta, by spread ratios: called with epsilon and whether the direction is remove."""

    def __init__(self, steps):
        self._step = step = _lattice(steps)

        def spread(one):
            first, last = one.range(step)
            cells, (q_tail, p_tail) = one.masses(step, first, last)
            values = [(step * (first + j)).exp() for j in range(len(cells) + 1)]
            masses = [arb(0)] * (len(cells) + 1)
            # below the first cell: there where it begins, or, where that would be too few, what is sure
            left = (1 - sum((mass for mass, _ in cells), arb(0)) - q_tail).max(arb(0))
            masses[0] = left
            for j, (q_mass, p_mass) in enumerate(cells):
                up = ((p_mass - q_mass * values[j]) / (values[j + 1] - values[j])).max(arb(0))
                masses[j] += (q_mass - up).max(arb(0))
                masses[j + 1] += up
            return arb_poly(masses), q_tail + left, p_tail, first

        laws, under, with_record, firsts = zip(*_each(spread, steps), strict=True)
        self._masses, self._first = _product(laws).coeffs(), sum(firsts)
        self._beyond = sum(under, arb(0)), sum(with_record, arb(0))

    def __call__(self, epsilon, remove):
        factor = epsilon.exp()
        values = ((n * self._step).exp() for n in range(self._first, self._first + len(self._masses)))
        gains = (
            mass * (value - factor if remove else 1 - factor * value).max(arb(0))
            for mass, value in zip(self._masses, values, strict=True)
        )
        return sum(gains, arb(0)) + self._beyond[remove]


class Below:
    """Lower bounds on delta, by the best of some events: called as `Above`."""

    def __init__(self, steps):
        self._step = step = _lattice(steps)

        def rounded(one):
            first, last = one.range(step)
            cells, _ = one.masses(step, first, last)
            return *(arb_poly([mass.max(arb(0)) for mass in law]) for law in zip(*cells, strict=True)), first

        under, with_record, firsts = zip(*_each(rounded, steps), strict=True)
        self._laws, self._first, self._most = (_product(under), _product(with_record)), sum(firsts), len(steps) + 1

    def __call__(self, epsilon, remove):
        factor, (under, with_record) = epsilon.exp(), (law.coeffs() for law in self._laws)
        middle = int(float((epsilon if remove else -epsilon).mid()) / float(self._step.mid())) - self._first
        best = arb(0)
        for turn in range(max(middle - self._most, 0), max(middle, 0) + 2):
            if remove:
                tried = sum(with_record[turn:], arb(0)) - factor * sum(under[turn:], arb(0))
            else:
                tried = sum(under[:turn], arb(0)) - factor * sum(with_record[:turn], arb(0))
            best = best.max(tried)
        return best


def epochs_of_two(noise, upper, edges):
    """One epoch in one of two steps: (Y_1 + Y_2)/2 = cosh(d r) e^{-r^2/2} Y, r = 1/(sqrt 2 sigma), d normal.

    The law of cosh(d r) is spread to the ends of cells of d, or contracted to its means there; beyond the last of the
    `edges` it counts as what happened, or not at all. Also what that may add: under P, and under Q.
    """
    rate = 1 / (arb(2).sqrt() * arb(noise))
    tilt = (-(rate**2) / 2).exp()
    edges = [arb(x) for x in edges]
    at = [(d * rate).cosh() * tilt for d in edges]
    sizes, weights = [], []
    if upper:
        sizes, weights = list(at), [arb(0)] * len(edges)
    for k, (a, b) in enumerate(itertools.pairwise(edges)):
        mass = 2 * (cdf(-a) - cdf(-b))
        mean = (cdf(rate - a) - cdf(rate - b) + cdf(-rate - a) - cdf(-rate - b)) / mass
        if upper:
            share = (mean - at[k]) / (at[k + 1] - at[k])
            weights[k] += mass * (1 - share)
            weights[k + 1] += mass * share
        else:
            sizes.append(mean)
            weights.append(mass)
    end = edges[-1]
    return Step(rate, arb(1), tuple(sizes), tuple(weights)), cdf(rate - end) + cdf(-rate - end), 2 * cdf(-end)
