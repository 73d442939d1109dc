"""The page with sliders: its table is certified, and its script, run as it is, brackets what the library answers."""

import importlib
import itertools
import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

_DOCS = Path(__file__).parents[2] / "docs"
if not _DOCS.is_dir():
    pytest.skip("a source distribution has no docs", allow_module_level=True)
_SCRIPT = _DOCS / "_static" / "explorer.js"
_PER_SCHEME = 8  # random settings
_SCHEMES = ("poisson", "allocation")
_ASK = """
const { bounds, inWords } = require(process.argv[1]);
const { table, settings } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const ends = settings.map((setting) => {
  const { lower, upper } = bounds(table, setting);
  return [lower, upper === Infinity ? "inf" : upper, inWords(lower, false), inWords(upper, true)];
});
console.log(JSON.stringify(ends));
"""
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no node to run the page's script")


@pytest.fixture
def explorer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """docs/_explorer.py"""
    monkeypatch.syspath_prepend(str(_DOCS))
    return importlib.import_module("_explorer")


@pytest.fixture(params=_SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def table(explorer: Any, scheme: str) -> dict[str, Any]:
    """As the page has it."""
    element = re.fullmatch(r'<script type="application/json" id="explorer-table">(.*)</script>', explorer.inline())
    assert element is not None
    return json.loads(element[1])[scheme]


def _ends(table: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper, an axis for each axis of the table."""
    shape = [len(axis["stops"]) for axis in table["axes"]]
    return np.reshape(table["lower"], shape), np.reshape(table["upper"], shape)


def _stated(pattern: str) -> float:
    """A percentage that the page states, as a ratio."""
    text = " ".join((_DOCS / "explorer.md").read_text().split())
    found = re.search(pattern, text)
    assert found is not None, pattern
    return float(found[1]) / 100.0


def _asked(table: dict[str, Any], settings: list[dict[str, Any]]) -> list[list[Any]]:
    """Lower, upper, and both as the page shows them, by the page's own script."""
    given = json.dumps({"table": table, "settings": settings})
    command = ["node", "-e", _ASK, str(_SCRIPT)]
    ran = subprocess.run(command, input=given, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return [[float(text) for text in ends] for ends in json.loads(ran.stdout.replace("∞", "inf"))]


def _random_setting(axes: Any, rng: random.Random) -> dict[str, float]:
    """Uniform in the logarithm, each value a stop or between two."""
    setting = {}
    for name, stops, _ in axes:
        value = rng.choice([rng.choice(stops), stops[0] * (stops[-1] / stops[0]) ** rng.random()])
        setting[name] = round(value) if name.startswith("num_") else value
    return setting


def test_table_has_the_axes_of_the_script_that_makes_it(explorer: Any, scheme: str, table: dict[str, Any]) -> None:
    made = [{"name": name, "stops": list(stops), "grows": grows} for name, stops, grows in explorer.AXES[scheme]]
    assert table["axes"] == made
    assert all(np.all(np.diff(axis["stops"]) > 0) for axis in table["axes"])


def test_table_is_monotone_and_sharp(table: dict[str, Any]) -> None:
    lower, upper = _ends(table)
    assert np.all((lower > 0) & (lower <= upper) & (upper < np.inf))
    for number, axis in enumerate(table["axes"]):
        less, more = np.arange(len(axis["stops"]))[:-1], np.arange(len(axis["stops"]))[1:]
        less, more = (less, more) if axis["grows"] else (more, less)
        assert np.all(np.take(lower, less, number) <= np.take(upper, more, number)), axis["name"]
    width = upper / lower - 1.0
    assert np.max(width) < _stated(r"two ends differ by less than ([\d.]+) %")
    assert np.quantile(width, 0.99) < _stated(r"at 99 of 100 stops by less than ([\d.]+) %")
    assert np.max(upper[..., :-1] / lower[..., 1:]) - 1.0 < _stated(r"at most (\d+) % wide")


def test_stops_are_what_the_library_answers(explorer: Any, scheme: str, table: dict[str, Any]) -> None:
    rng = random.Random(3)
    lower, upper = _ends(table)
    for _ in range(_PER_SCHEME):
        at = tuple(rng.randrange(size) for size in lower.shape)
        found = explorer.interval(scheme, {a["name"]: a["stops"][n] for a, n in zip(table["axes"], at, strict=True)})
        assert lower[at] <= found.upper
        assert found.lower <= upper[at]


@needs_node
def test_script_brackets_random_settings(explorer: Any, scheme: str, table: dict[str, Any]) -> None:
    rng = random.Random(48)
    settings = [_random_setting(explorer.AXES[scheme], rng) for _ in range(_PER_SCHEME)]
    for setting, (lower, upper, shown_lower, shown_upper) in zip(settings, _asked(table, settings), strict=True):
        found = explorer.interval(scheme, setting)
        assert shown_lower <= lower <= found.upper, setting
        assert found.lower <= upper <= shown_upper, setting


@needs_node
def test_script_is_sharp_at_stops_and_takes_the_safe_corner_between_them(table: dict[str, Any]) -> None:
    lower, upper = _ends(table)
    settings, expected = [], []
    middle = [len(axis["stops"]) // 2 for axis in table["axes"]]
    for between in itertools.product((False, True), repeat=len(middle)):
        setting, dear, cheap = {}, [], []
        for axis, at, apart in zip(table["axes"], middle, between, strict=True):
            stops = axis["stops"]
            setting[axis["name"]] = (stops[at] * stops[at + 1]) ** 0.5 if apart else stops[at]
            dear.append(at + (apart and axis["grows"]))
            cheap.append(at + (apart and not axis["grows"]))
        settings.append(setting)
        expected.append([lower[tuple(cheap)], upper[tuple(dear)]])
    assert [ends[:2] for ends in _asked(table, settings)] == expected


@needs_node
def test_script_knows_nothing_outside_the_table(table: dict[str, Any]) -> None:
    inside = {axis["name"]: axis["stops"][1] for axis in table["axes"]}
    for axis in table["axes"]:
        small, large = ({**inside, axis["name"]: value} for value in (axis["stops"][0] / 2, axis["stops"][-1] * 2))
        cheap, dear = (small, large) if axis["grows"] else (large, small)
        [[lower, upper, *_], [other_lower, other_upper, *_]] = _asked(table, [cheap, dear])
        assert lower == 0.0
        assert 0.0 < upper < np.inf
        assert other_upper == np.inf
        assert 0.0 < other_lower < np.inf


@needs_node
def test_script_refuses_what_is_no_number(table: dict[str, Any]) -> None:
    setting = {axis["name"]: axis["stops"][0] for axis in table["axes"]}
    for wrong in (0, -1, "abc", None):
        given = json.dumps({"table": table, "settings": [setting | {"noise_multiplier": wrong}]})
        ran = subprocess.run(["node", "-e", _ASK, str(_SCRIPT)], input=given, capture_output=True, text=True)
        assert ran.returncode != 0
        assert "noise_multiplier must be a positive number" in ran.stderr
