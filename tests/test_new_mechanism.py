"""A new mechanism comes in by the doors that `docs/extending.md` names, with the very code of that page."""

import dataclasses
import importlib.util
import re
import sys
import types
from pathlib import Path

import jax
import mpmath
import numpy as np
import pytest

import jaxacct as ja
from jaxacct import bounds, mechanisms
from jaxacct._method import itself
from jaxacct.bounds._table import merged
from jaxacct.mechanisms._base import Randomizer, Release, description

_PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()
_DELTA = 1e-6
_NEAR = 1e-8  # what the page's slack may add where delta is near its value at epsilon = 0
_ROUNDING = 1e-15  # of the truth itself


def _loaded(name, source, folder, monkeypatch):
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page's mechanism and its bounds, in the table as long as this module is tested."""
    folder = tmp_path_factory.mktemp("new")
    described, bounded = re.findall(r"^```py\n(.*?)^```", _PAGE, re.MULTILINE | re.DOTALL)
    with pytest.MonkeyPatch.context() as monkeypatch:
        release = _loaded("_pure_release", described, folder, monkeypatch).PureRelease
        monkeypatch.setattr(mechanisms, "PureRelease", release, raising=False)
        table = _loaded("pure_release", bounded, folder, monkeypatch).METHODS
        for signature, methods in merged(bounds.METHODS, table).items():
            monkeypatch.setitem(bounds.METHODS, signature, methods)
        yield types.SimpleNamespace(release=release, table=table)


def _exact_delta(pure, epsilon):
    with mpmath.workdps(50):
        return float(max(0, (mpmath.exp(pure) - mpmath.exp(epsilon)) / (1 + mpmath.exp(pure))))


def _exact_epsilon(pure, delta):
    with mpmath.workdps(50):
        return float(mpmath.log(max(1, mpmath.exp(pure) - delta * (1 + mpmath.exp(pure)))))


def test_the_page_names_five_files():
    assert len(re.findall(r"^\| `jaxacct/.*\.py`", _PAGE, re.MULTILINE)) == 5


def test_epsilon_and_delta(page):
    for pure in (0.0, 0.3, 2.0, 10.0):
        run = page.release(pure)
        for epsilon in (0.0, 0.2, 1.0, 5.0):
            delta, truth = ja.delta(run, epsilon), _exact_delta(pure, epsilon)
            assert truth * (1.0 - _ROUNDING) <= delta <= truth * (1.0 + _NEAR)
            if 0 < delta < 1:
                truth = _exact_epsilon(pure, delta)
                assert truth * (1.0 - _ROUNDING) <= ja.epsilon(run, delta) <= truth + _NEAR
    batch = ja.epsilon(page.release(np.array([0.5, 1.0])), _DELTA)
    assert batch.shape == (2,)
    slope = jax.grad(lambda pure: ja.epsilon(page.release(pure), _DELTA))(1.0)
    assert slope == pytest.approx(1.0, rel=1e-5)


def test_side_by_side_and_in_the_plan(page):
    run = page.release(1.0)
    for entries in (ja.compare(run, _DELTA), ja.deciding(run, _DELTA)):
        assert [(e.method, e.direction) for e in entries] == [("randomized response", d) for d in ja.Direction]
        assert {e.value for e in entries} == {ja.epsilon(run, _DELTA)}
    assert [step.method for step in ja.accounting.plan(run, _DELTA)] == 2 * list(page.table[page.release,])


def test_an_interval_without_a_lower_bound_starts_at_zero(page):
    interval = ja.epsilon_interval(page.release(1.0), _DELTA)
    assert (interval.lower, interval.upper) == (0.0, ja.epsilon(page.release(1.0), _DELTA))


def test_calibration_and_sweeps_read_the_field(page):
    found = ja.calibrate(page.release(None), "pure_epsilon", 1.5, 1e-3)
    assert ja.epsilon(page.release(found), 1e-3) <= 1.5 < ja.epsilon(page.release(found * (1 + 1e-5)), 1e-3)
    result = ja.sweep(page.release(1.0), {"pure_epsilon": [0.5, 1.0, 2.0]}, target_delta=_DELTA)
    alone = [ja.epsilon(page.release(pure), _DELTA) for pure in (0.5, 1.0, 2.0)]
    assert result.values.tolist() == pytest.approx(alone, rel=1e-12)


def test_a_report_says_what_was_run(page):
    text = ja.report(page.release(1.0), target_delta=_DELTA)
    for words in ("purely 1-DP", "Kairouz, Oh & Viswanath 2015", "the release is differentially private as stated"):
        assert words in " ".join(text.split())


def test_compositions_add_up(page):
    twice, of_both = ja.Composed(page.release(0.5), 2), ja.Composed((page.release(0.5), ja.Gaussian(4.0)))
    alone = ja.epsilon(page.release(0.5), _DELTA / 2)
    assert alone <= ja.epsilon(twice, _DELTA) <= 2 * alone + _NEAR
    assert ja.epsilon(of_both, _DELTA) <= alone + ja.epsilon(ja.Gaussian(4.0), _DELTA / 2) + _NEAR
    assert ja.epsilon_interval(twice, _DELTA).upper == ja.epsilon(twice, _DELTA)
    assert "purely 0.5-DP" in ja.report(twice, target_delta=_DELTA)


# What is forgotten is an error before anything is asked

_FACTS = ("relation", "scheme", "released", "reduction", "describe", "assumptions", "loses_nothing")


@pytest.mark.parametrize("fact", _FACTS)
def test_a_forgotten_fact_is_an_error_of_the_class(page, fact):
    facts = {name: value for name, value in vars(page.release).items() if name in _FACTS and name != fact}
    with pytest.raises(TypeError, match=f"Forgetful does not declare its {fact}"):
        description(type("Forgetful", (Release,), facts))


def test_a_forgotten_specification_is_an_error_of_the_class(page):
    facts = {name: getattr(page.release, name) for name in _FACTS}
    with pytest.raises(TypeError, match=r"Forgetful.number has no specification"):
        description(type("Forgetful", (Release,), {**facts, "__annotations__": {"number": float}}))


def test_a_randomizer_declares_its_facts_too():
    with pytest.raises(TypeError, match="does not declare its is_pure, describe, loses_nothing"):
        description(type("Forgetful", (Randomizer,), {}))


def test_a_table_without_an_upper_bound_in_some_direction_is_refused(page):
    (method,) = page.table[page.release,]
    one_sided = dataclasses.replace(method, directions=(ja.Direction.REMOVE,))
    with pytest.raises(TypeError, match=r"PureRelease has no upper bound in the directions \['add'\]"):
        merged({(page.release,): (one_sided,)})
    from_below = dataclasses.replace(method, ends=frozenset({ja.Bound.LOWER}), below=itself)
    with pytest.raises(TypeError, match=r"PureRelease has no upper bound"):
        merged({(page.release,): (from_below,)})
    with pytest.raises(TypeError, match="PureRelease occurs twice"):
        merged(page.table, page.table)
