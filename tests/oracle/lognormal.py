"""The mean X of t likelihood ratios of Gaussian steps, under the law without the record: E (x - (X - 1))_+ in balls.

With phi(z) = E e^{-z (X - 1)} this is the integral of e^{zx} phi(z) / z^2 over a line right of 0, divided by 2 pi i.
Two rules, each a trapezoid whose error is proved; the one with fewer nodes is taken.

*Line* Re z = c, nodes 2 pi / P apart: by Poisson summation the error is the sum over j != 0 of
e^{-cjP} E (x + jP - (X - 1))_+. For j > 0 the mean is at most max(x, 0) + jP + 1; for j < 0 it is 0 where
|j| P > x + 1, and by a_+ <= e^{ba} / (e b) at most e^{b (x - |j| P)} phi(b) / (e b) for any b > 0.

*Hyperbola* z = m (1 + sin(iv - a)), on which |phi(z) e^{-z}| <= e^{a^2 S / 2}, S the sum of the squared noise
multipliers: all Gaussian variables are turned by an angle that brings u = z/t back to arg u <= pi / 2. Other a are the
edges of a strip in v; there |dz/dv| / |z|^2 <= 1 / (m (1 - sin a)^2), and e^{z (x + 1)} has the modulus
e^{m (x + 1) (1 - sin a cosh v)}.
"""

import math

from flint import acb, arb, ctx

_MOST = 3000  # nodes


def _rounded(x, parts=8):
    """The next larger of numbers of which `parts` lie between powers of 2."""
    return 2.0 ** (math.ceil(parts * math.log2(x)) / parts)


class TooLongError(Exception):
    """The enclosure would take too many nodes."""


class MeanOfRatios:
    """The profile E (x - (X - 1))_+ of phases of (noise multiplier, number of steps)."""

    def __init__(self, phases):
        self.phases = [(float(noise), int(count)) for noise, count in phases]
        self.steps = sum(count for _, count in self.phases)
        self.squares = sum(count * noise**2 for noise, count in self.phases)
        self._tables = {}
        self._values = {}  # of the transform at the nodes of a rule, and bounds on it beyond them
        self._nats = 0.0  # the accuracy of a step's transform

    def _step(self, noise, u):
        """E e^{-uY} of one step at a complex u right of 0 or turned beyond it: trapezoid on a turned Gaussian variable.

        Turned by eta, |e^{-uY}| <= 1 while |arg u + eta / noise| <= pi / 2. The strip of half width d that keeps it so
        gives the rule's error 2 e^{(|eta| + d)^2 / 2} / (e^{2 pi d / h} - 1), the window what the law has outside.
        """
        angle = float(u.arg()) if not u.imag.is_zero() else 0.0
        kept = min(abs(angle), max(0.0, math.pi / 2 - 2.0 / noise))
        turn = -math.copysign(noise * (abs(angle) - kept), angle)
        half = 0.999 * noise * (math.pi / 2 - kept)
        exponent = (abs(turn) + half) ** 2 / 2
        nats = self._nats
        step = 2 * math.pi * half / (nats + exponent)
        step = 2.0 ** (math.floor(4 * math.log2(step)) / 4)  # few tables
        window = math.sqrt(2 * nats)
        if (noise, step, nats) not in self._tables:
            h, s = arb(step), arb(noise)
            count = int(window / step) + 1
            places = [k * h for k in range(-count, count + 1)]
            ratios = [(x / s - 1 / (2 * s**2)).exp() for x in places]
            weights = [h * (-(x**2) / 2).exp() / (2 * arb.pi()).sqrt() for x in places]
            self._tables[noise, step, nats] = places, ratios, weights
        places, ratios, weights = self._tables[noise, step, nats]
        turned = -u * acb(0, arb(turn) / arb(noise)).exp()
        total = acb(0)
        if turn:
            ahead = acb(0, -arb(turn) * arb(step)).exp()
            phase = acb(0, -arb(turn) * places[0]).exp()
            for ratio, weight in zip(ratios, weights, strict=True):
                total += (turned * ratio).exp() * (phase * weight)
                phase *= ahead
            total *= (arb(turn) ** 2 / 2).exp()
        else:
            for ratio, weight in zip(ratios, weights, strict=True):
                total += (turned * ratio).exp() * weight
        edge = (arb(exponent).exp()) * 2 / ((2 * arb.pi() * arb(half) / arb(step)).exp() - 1)
        outside = (arb(turn) ** 2 / 2).exp() * (arb(places[-1]) / arb(2).sqrt()).erfc()
        error = (edge + outside).upper()
        if u.imag.is_zero():
            return acb(total.real + arb(0, error))
        return total + acb(arb(0, error), arb(0, error))

    def transform(self, z):
        """E e^{-z X}."""
        total = acb(1)
        for noise, count in self.phases:
            total *= self._step(noise, acb(z) / self.steps) ** count
        return total

    def _known(self, rule, n, find):
        """What `find` makes of node n of a rule, found once: neighbouring x share their rules."""
        key = (*rule, n, self._nats, ctx.prec)
        if key not in self._values:
            self._values[key] = find()
        return self._values[key]

    def _modulus_beyond(self, c, height):
        """A bound on |E e^{-zX}| on the line Re z = c beyond a height: turned by several angles, the least."""
        best = arb(1)
        for angle in (0.0, 0.05, 0.15, 0.4, 0.8, 1.2, 1.5, min(1.5, height / self.squares)):
            turn = arb(angle)
            at = ((arb(c) * turn.cos() + arb(height) * turn.sin()) / self.steps).lower()  # Re u e^{-i angle}, growing
            bound = arb(1)
            for noise, count in self.phases:
                factor = (turn**2 * arb(noise) ** 2 / 2).exp() * self._step(noise, acb(at)).real
                bound *= factor.upper() ** count
            best = best.min(bound.upper())
        return best

    def _line_plan(self, x, nats):
        """c, P and the bound on all aliases; None where no period is enough."""
        size = float(x)
        deviation = math.sqrt(sum(n * math.expm1(min(600.0, s**-2)) for s, n in self.phases)) / self.steps
        for factor in (16.0, 24.0, 36.0, 54.0, 80.0, 120.0, 200.0, 400.0, math.inf):
            period = _rounded(min(factor * deviation + 2.0 * abs(size), 1.001 * (size + 1.0) + 1e-12))
            c = arb(math.ceil(nats + 10.0 + max(0.0, math.log(1.0 + size + period))) / period)
            p, place = arb(period), arb(x)
            q = (-c * p).exp()
            above = q * (place.max(arb(0)) + 1) / (1 - q) + p * q / (1 - q) ** 2
            if period > size + 1.0:
                return c, p, above.upper()
            for times in (1.5, 2.0, 3.0, 4.0, 6.0, 9.0):
                b = times * c
                mean = b.exp() * self._known(("below", float(b)), 0, lambda b=b: self.transform(acb(b))).real
                r = (-(b - c) * p).exp()
                below = (b * place).exp() * mean / (arb(1).exp() * b) * r / (1 - r)
                if below.is_finite() and float(below.upper()) < math.exp(-nats):
                    return c, p, (above + below).upper()
            if math.isinf(factor):
                return None
        return None

    def _line(self, x, nats):
        plan = self._line_plan(x, nats)
        if plan is None:
            raise TooLongError
        c, period, aliases = plan
        h = 2 * arb.pi() / period
        place = arb(x)
        largest = float(((c * (place + 1)).exp() * self.transform(c).real).log().mid())  # how far above what is wanted
        self._nats += 8.0 * math.ceil(max(0.0, largest) / 8.0)
        ctx.prec = max(ctx.prec, int(2.0 * self._nats))  # until `below` returns
        total, n, rule = acb(0), 0, (float(c), float(period))
        while True:
            z = acb(c, n * h)
            term = (z * place + z).exp() * self._known(("line", *rule), n, lambda z=z: self.transform(z)) / z**2
            total += term / 2 if n == 0 else term
            n += 1
            if n % 16 == 0:
                height = float(n * h)
                modulus = self._known(("beyond", *rule), n, lambda at=height: self._modulus_beyond(c, at))
                beyond = (c * (place + 1)).exp() / arb.pi() * modulus / ((n - 1) * h)
                if float(beyond.upper()) < math.exp(-nats):
                    break
                if n > _MOST:
                    raise TooLongError
        return total.real * h / arb.pi() + (-aliases).union(arb(0)) + arb(0, beyond.upper())

    def _hyperbola(self, x, nats):
        k = arb(x) + 1
        angle = min(0.6, 1.0 / math.sqrt(self.squares))
        low, high = 0.1 * angle, 1.9 * angle
        m = arb(_rounded(5.5 / float(k)))  # e^{m k} is what precision is lost
        a, half = arb(angle), arb(0.9 * angle)

        def bound(at):
            s = at.sin()
            grown = (at**2 * arb(self.squares) * (1 + arb(2) ** -40) / 2).exp() * (m * k).exp() / (m * (1 - s) ** 2)
            return grown, m * k * s

        edges = arb(0)
        for at in (arb(low), arb(high)):
            grown, rate = bound(at)
            edges += grown * 2 * rate.bessel_k(0) / (2 * arb.pi())
        h = 2 * arb.pi() * half / (arb(nats + 5.0) + edges.log().max(arb(0)))
        h = arb(_rounded(float(h.lower()), 16) / 2.0**0.0625)
        nodes = ("hyperbola", float(m), float(h))
        rule = edges / ((2 * arb.pi() * half / h).exp() - 1)
        total, n = acb(0), 0
        grown, rate = bound(a)
        while True:
            v = n * h
            w = acb(-a, v)
            z = m * (1 + w.sin())
            term = (z * k).exp() * self._known(nodes, n, lambda z=z: self.transform(z)) / z**2 * m * w.cos()
            total += term / 2 if n == 0 else term
            if n and float((-rate * v.cosh()).exp() * grown) < math.exp(-nats):
                beyond = grown * (-rate * v.cosh()).exp() / (rate * v.sinh()) / arb.pi()
                break
            n += 1
            if n > _MOST:
                raise TooLongError
        return total.real * h / arb.pi() + arb(0, (rule + beyond).upper())

    def below(self, x, wanted=1e-16):
        """E (x - (X - 1))_+ as a ball, its radius small against `wanted`."""
        x = arb(x)
        if not x > -1:
            return arb(0)
        middle, nats = x.mid(), 10.0 - math.log(wanted)
        self._nats = 8.0 * math.ceil((nats + 12.0 + math.log(self.steps * (2.0 + float(middle)))) / 8.0)
        with ctx.workprec(max(96, int(2.0 * self._nats))):
            on_line = (self.squares > 30.0 and min(noise for noise, _ in self.phases) > 0.6) or self.squares > 2000.0
            found = self._line(middle, nats) if on_line else self._hyperbola(middle, nats)
        # the profile is Lipschitz with constant 1
        return found + arb(0, (x - middle).abs_upper())


def epoch_delta(mean, epsilon, remove, share=(1, 1), wanted=1e-16):
    """delta of an epoch, or of its first steps: `share` says how many of how many were done."""
    epsilon = arb(epsilon)
    x = epsilon.expm1() if remove else (-epsilon).expm1()
    gone = arb(share[0]) / share[1]
    inner = gone * mean.below(x / gone, wanted if remove else wanted / float(epsilon.exp()))
    found = inner - x if remove else epsilon.exp() * inner
    return found.max(arb(0))
