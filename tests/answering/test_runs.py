"""A plan says in words what answers, where, in which chunks and why; and it says what happens."""

import contextlib
import math
import subprocess
import sys

import jax
import numpy as np
import pytest
from support.mechanisms import ASKED, TRACED

import jaxacct as ja
from jaxacct._method import BracketMethod, Engine, LaneMethod
from jaxacct._precision import Kernel

DELTA = 1e-6
GAUSSIAN = ja.Gaussian(1.0)
MANY = ja.Gaussian(np.linspace(1.0, 2.0, 1000))
ENGINES = {engine.value for engine in Engine}


class CompiledError(Exception):
    """A program would be compiled."""


@pytest.fixture
def nothing_runs(monkeypatch):
    def refuse(*args, **rest):
        raise CompiledError

    for name in ("_by_program", "_by_numpy", "_call_traced"):
        monkeypatch.setattr(Kernel, name, refuse)


@pytest.mark.parametrize("name", ASKED)
def test_every_plan_says_how_it_is_run(nothing_runs, name):
    for options in ({}, {"precision": math.inf}, *([{"traced": True}] if name in TRACED else [])):
        steps = ja.accounting.plan(ASKED[name], DELTA, **options)
        assert steps
        assert steps == ja.accounting.plan(ASKED[name], DELTA, **options)
        for step in steps:
            assert step.run.engine in ENGINES
            assert step.run.chunks == ("all points together" if "traced" in options else "one point")
            assert step.run.why
            assert str(step.run) in str(step)
            assert ("program around it" in step.run.device) == ("traced" in options)


@pytest.mark.parametrize("name", [name for name in ASKED if name != "Pld"])
def test_one_point_is_compiled_where_the_plan_says_so(name, monkeypatch):
    """Each method on lanes is asked by name; a program is called for if, and only if, its plan says so."""
    compiled = []

    def note(*args, **rest):
        compiled.append(True)
        raise CompiledError

    monkeypatch.setattr(Kernel, "_by_program", note)
    for step in ja.accounting.plan(ASKED[name], DELTA):
        if not isinstance(step.method, LaneMethod):
            continue
        compiled.clear()
        direction = step.directions[0] if len(ASKED[name].directions) > 1 else None
        with contextlib.suppress(CompiledError, ja.OrderEdgeWarning):
            ja.epsilon(ASKED[name], DELTA, method=step.method.name, direction=direction)
        assert bool(compiled) == ("compiled program" in step.run.device), step.method.name


@pytest.mark.parametrize(
    ("mechanism", "options", "method", "device", "chunks"),
    [
        (GAUSSIAN, {}, "exact", "the CPU, by NumPy", "one point"),
        (ja.Gaussian([1.0, 2.0, 3.0]), {}, "exact", "the CPU, by NumPy", "together"),
        (MANY, {}, "exact", "the CPU, by NumPy", "together"),
        (ja.Gaussian(np.full(2000, 1.0)), {}, "exact", "the CPU, by NumPy", "1024 at a time"),
        (ja.Gaussian(np.full(20_000, 1.0)), {}, "exact", "the CPU, by a compiled program", "16384 at a time"),
        (ja.PoissonSampled(MANY, 0.01, 100), {"precision": math.inf}, "rdp", "the CPU, by a compiled program", None),
        (ja.RandomAllocation(MANY, 100), {}, "exact", "the CPU, by NumPy", "all open points together"),
        (ja.RandomAllocation(MANY, 100), {"precision": math.inf}, "exact", "the CPU, by NumPy", "all open points"),
        (ja.Shuffled(ja.LocalRandomizer([0.5, 1.0]), 1000), {}, "clones", "the CPU, by NumPy", "one by one"),
        (MANY, {"traced": True}, "exact", "the device of the program around it", "all points together"),
    ],
)
def test_many_points_are_chunked_as_said(mechanism, options, method, device, chunks):
    step = next(step for step in ja.accounting.plan(mechanism, DELTA, **options) if step.method.name == method)
    assert step.run.device == device
    if chunks is not None:
        assert step.run.chunks.startswith(chunks)


def test_the_engines_are_those_of_the_theorems():
    engines = {
        step.method.name: step.method.engine for step in ja.accounting.plan(ja.RandomAllocation(GAUSSIAN, 1000), DELTA)
    }
    assert engines["exact"] is engines["complex moments"] is Engine.CONTOUR
    assert engines["loss distribution"] is Engine.DISTRIBUTIONS
    assert engines["direct"] is Engine.RENYI
    assert engines["no amplification"] is Engine.FORMULA
    (laws, *_) = ja.accounting.plan(ja.RandomAllocation(GAUSSIAN, 1000), DELTA, traced=True)
    assert laws.method.engine is Engine.LAWS


def test_inside_jit_the_plan_is_the_traced_one():
    run, found = ja.PoissonSampled(GAUSSIAN, 0.01, 100), []

    def inside(delta):
        found.append(ja.accounting.plan(run, delta))
        return delta

    jax.eval_shape(inside, jax.ShapeDtypeStruct((), "float32"))
    assert found[0] == ja.accounting.plan(run, DELTA, traced=True)


def test_brackets_say_whether_they_take_many_points():
    for example in (ja.RandomAllocation(GAUSSIAN, 100, 1, 10), ja.PoissonSampled(GAUSSIAN, 0.01, 10)):
        for step in ja.accounting.plan(example, np.full(50, DELTA)):
            if isinstance(step.method, BracketMethod):
                together = step.run.chunks.startswith("all open points together")
                assert together == (step.method.many is not None)


def test_a_plan_does_not_import_jax():
    source = "import sys, jaxacct as ja; ja.accounting.plan(ja.RandomAllocation(ja.Gaussian(1.0), 10), 1e-6)"
    source += "; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", source]).returncode == 0
