"""Transforms of one Gaussian step that exact profiles are made of: upper bounds, and as sharp as what is booked."""

import numpy as np
from flint import arb

from jaxacct.divergence.allocation._real import log_transform, transform_rounding
from jaxacct.divergence.allocation._rule import one_rule, profile_shape
from oracle.judging import Value, between, slices
from oracle.lognormal import MeanOfRatios


def cases(rng):
    """log E e^{-uW}, W = Y - 1, from above and within three times what is booked: rounding, and what lies outside."""
    sigma, u = between(rng, 0.15, 30), between(rng, 1e-3, 100)
    step = MeanOfRatios([(sigma, 1)])
    step._nats = 80.0
    truth = arb(u) + step.transform(arb(u)).real.log()
    of = one_rule(sigma, profile_shape(sigma))
    found = float(log_transform(of, np.array([[u]]))[0, 0])
    rounding = float(transform_rounding(of, np.array([[u]]))[0, 0])
    words = f"log E e^-uW at noise {sigma}, u {u}"
    yield Value(words, lambda: found, truth)
    outside = 2.0 * float((of.left + of.right[0])[0, 0]) * float((arb(u) - truth).exp())
    if outside < 0.1:
        yield Value(words, lambda: found - 3.0 * (rounding + outside) - 1e-16, truth, upper=False)


test_default, test_slow = slices(cases, seed=17, quick=60)
