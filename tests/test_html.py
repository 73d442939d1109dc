"""Results in notebooks: well-formed HTML, with every number of the result in it."""

import itertools
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import jaxacct as ja
from jaxacct import _html

RUN = ja.RandomAllocation(ja.Gaussian(1.0), 100)


def parsed(shown: object) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{shown._repr_html_()}</div>")


def test_a_comparison_is_a_table_with_bars() -> None:
    found = ja.compare(RUN, target_delta=1e-6)
    tree = parsed(found)
    assert len(tree.findall(".//tr")) == len(found) + 1
    assert len(tree.findall(".//rect")) == sum(np.isfinite(entry.value) for entry in found)
    longest = max(float(bar.attrib["width"]) for bar in tree.findall(".//rect"))
    assert longest == _html._BAR


def test_the_ends_of_an_interval_have_all_their_digits() -> None:
    found = ja.epsilon_interval(RUN, target_delta=1e-6)
    assert [float(cell.text) for cell in parsed(found).findall(".//td")] == list(found)


def test_a_statement_is_shown_as_it_is_printed() -> None:
    said = ja.report(RUN, target_delta=1e-6)
    assert parsed(said).find("pre").text == said
    assert isinstance(said, str)


@pytest.mark.parametrize(("counts", "num_lines"), [([100], 1), ([100, 1000], 2)])
def test_a_sweep_is_a_table_and_lines(counts: list[int], num_lines: int) -> None:
    grid = {"noise_multiplier": np.linspace(1.0, 2.0, 11)} | ({"num_steps": counts} if num_lines > 1 else {})
    found = ja.sweep(RUN, grid, target_delta=1e-6)
    tree = parsed(found)
    drawn = tree.findall(".//polyline")
    assert len(drawn) == num_lines
    for line in drawn:
        places = [tuple(map(float, place.split(","))) for place in line.attrib["points"].split()]
        assert len(places) == 11
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(places))  # downwards, in y
    cells = [cell.text for cell in tree.findall(".//td")]
    assert float(cells[len(found.grid.axes)]) == found.values.reshape(-1)[0]


def test_what_is_infinite_is_not_drawn() -> None:
    assert _html.bar(float("inf"), 1.0) == ""
    assert _html.lines([1.0, 2.0], [[float("inf"), 1.0]], "x") == ""
    assert "&lt;" in _html.table(["<"], [["<b>"]])
