"""Moments at single nodes, and where they have fallen: against higher precision, and what lies beyond."""

import math

import numpy as np
import pytest

import jaxacct as ja
from jaxacct.divergence.batches._positive_sum import _DECAY, _at_nodes, _by_nodes, _fallen, _Plan
from jaxacct.divergence.batches._powers import Atoms, AtomSteps, log_psi


def _law(rng, size):
    value = np.sort(np.concatenate([rng.normal(0.0, 1.0, size), rng.exponential(1.0, size // 4)]))
    return Atoms(value, rng.dirichlet(np.ones(len(value))) * 0.7)


@pytest.mark.parametrize("number", [1, 2, 7, 500])
def test_moments_at_nodes_err_by_what_is_stated(number):
    rng = np.random.default_rng(number)
    atoms, order, turn = _law(rng, 200), 0.4, 0.013
    found, error = _at_nodes(atoms, order, turn, number)
    x, height = atoms.value.astype(np.longdouble), np.longdouble(turn) * np.arange(number)
    turns = np.multiply.outer(height, x)
    grown = atoms.mass * np.exp(order * x)
    real = atoms.mass @ np.expm1(order * x) - 2.0 * np.square(np.sin(0.5 * turns)) @ grown
    assert np.all(np.hypot(real - found.real, np.sin(turns) @ grown - found.imag) <= error)
    assert len(found) == number
    assert np.all(error <= 1e-12 * (1.0 + turn * number))


@pytest.mark.parametrize("count", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("share", [0.0, 0.02])
def test_beyond_the_last_node_moments_have_fallen(count, share):
    """To half a turn of the lattice, also of a law with one term far from the others."""
    rng, step = np.random.default_rng(int(count)), 0.02
    value = step * np.unique(np.rint(rng.normal(0.0, 1.0, 200) / step))
    shares = rng.dirichlet(np.ones(len(value))) * 0.7
    few, lone = Atoms(np.append(value, 60.0), np.append(shares, share)), Atoms(np.array([61.02]), np.array([0.7]))
    steps = AtomSteps(few, 0.7, count, 1.0, 1.0)
    last = _fallen(few, few.mass, 0.3, step, steps)
    total = 0.3 + float(few.mass.sum())
    assert last < math.pi / step
    assert _fallen(lone, lone.mass, 0.3, step, steps._replace(law=lone)) > 3.1 / step  # two values: it turns round
    height = np.concatenate(
        [np.linspace(last, min(30.0 * last, math.pi / step), 3000), np.linspace(last, math.pi / step, 3000)]
    )
    moment = np.abs(0.3 + np.exp(1j * np.multiply.outer(height, few.value)) @ few.mass)
    axis = float(log_psi(total - 1.0, steps))
    assert np.all(log_psi(moment - 1.0, steps) <= axis - _DECAY)
    moment = abs(0.3 + np.exp(1j * 0.6 * last * few.value) @ few.mass)
    assert float(log_psi(moment - 1.0, steps)) > axis - _DECAY  # and not much sooner


def test_no_nodes_where_every_value_may_be_left_out():
    """The goal is so large that all positive values are added to it, and the others are cut to 0."""
    steps = AtomSteps(Atoms(np.array([-1e-30, 1e-30]), np.array([0.5, 0.5])), 1.0, 1e3, 1.0, 1.0)
    assert _by_nodes(Atoms(np.zeros(1), np.ones(1)), steps, _Plan(1e-6, 1e7, 1.0, 10.8)) == math.inf
    reports = ja.LaplaceReports(0.06949578413096781)
    run = ja.CheckIn(reports, num_users=58408, check_in_prob=0.000908871632310939)
    assert 22.0 < ja.epsilon(ja.PrivateSelection(run, mean_runs=4.81, shape=0.5), 3.65e-10) < 22.5
