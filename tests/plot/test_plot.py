"""Pictures: what is drawn is what the library answers, legibly, and nothing global is touched."""

import base64
import dataclasses
import itertools
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import jaxacct as ja
from jaxacct.mechanisms._check_in import CheckIn

pytest.importorskip("matplotlib")
import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from jaxacct import plot
from jaxacct.plot import _sweeps

GAUSSIAN = ja.Gaussian(1.0)
POISSON = ja.PoissonSampled(ja.Gaussian(1.0), sampling_prob=0.01, num_steps=100)
ALLOCATION = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=20, num_selected=2)
SHUFFLED = ja.Shuffled(ja.LocalRandomizer(1.0), num_reports=1000)
QUICK = math.inf
REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD
UPPER, LOWER = ja.Bound.UPPER, ja.Bound.LOWER


@pytest.fixture(autouse=True)
def settings_stay() -> Any:
    """No picture changes a setting of matplotlib."""
    before = settings()
    yield
    assert settings() == before


def settings() -> dict[str, Any]:
    """All but the backend, which is chosen when somebody asks for it."""
    return {name: mpl.rcParams[name] for name in mpl.rcParams if name != "backend"}


def line(ax: Axes, at: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.asarray(xy, np.float64) for xy in ax.get_lines()[at].get_data())  # type: ignore[return-value]


def legend(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def entry(method: str, value: float, bound: ja.Bound = UPPER, direction: ja.Direction = REMOVE) -> ja.Entry:
    relation = ja.NeighboringRelation.ADD_OR_REMOVE_ONE
    return ja.Entry(method, direction, value, bound, relation, "a theorem", math.nan, False, 0.0)


ENTRIES = (
    entry("loose", 40.0),
    entry("tight", 0.5),
    entry("tight", 0.4, direction=ADD),
    entry("tight", 0.45, LOWER),
    entry("overflowing", 1e308),
    entry("infinite", math.inf, direction=ADD),
    entry("from below", 1e-9, LOWER),
    entry("from below", 0.0, LOWER, ADD),
)


# --- what is drawn is what is answered ---


@pytest.mark.parametrize(
    ("mechanism", "field", "values", "made"),
    [
        (POISSON, "noise_multiplier", [4.0, 0.7, 1.0, 2.0], lambda x: ja.PoissonSampled(ja.Gaussian(x), 0.01, 100)),
        (POISSON, "sampling_prob", (0.01, 0.1), lambda x: ja.PoissonSampled(GAUSSIAN, x, 100)),
        (POISSON, "num_steps", range(1, 5), lambda x: ja.PoissonSampled(GAUSSIAN, 0.01, x)),
        (
            ja.Composed((GAUSSIAN, GAUSSIAN), (1, 2)),
            "mechanisms.1.noise_multiplier",
            [1.0, 2.0],
            lambda x: ja.Composed((GAUSSIAN, ja.Gaussian(x)), (1, 2)),
        ),
    ],
    ids=["inner field", "float", "count", "path"],
)
def test_epsilon_curve_shows_the_quick_bounds(mechanism: Any, field: str, values: Any, made: Any) -> None:
    ax = plot.epsilon_curve(mechanism, field, values, 1e-6, precision=QUICK)
    x, y = line(ax)
    assert x.tolist() == sorted(values)
    np.testing.assert_allclose(y, [ja.epsilon(made(v), 1e-6, precision=QUICK) for v in sorted(values)], rtol=1e-12)
    assert not ax.collections


def test_epsilon_curve_shades_the_certified_interval() -> None:
    sigmas = [1.0, 2.0]
    ax = plot.epsilon_curve(ALLOCATION, "noise_multiplier", sigmas, 1e-6)
    runs = [dataclasses.replace(ALLOCATION, mechanism=ja.Gaussian(sigma)) for sigma in sigmas]
    intervals = [ja.epsilon_interval(run, 1e-6) for run in runs]
    np.testing.assert_array_equal(line(ax)[1], [found.upper for found in intervals])
    (band,) = ax.collections
    corners = set(map(tuple, band.get_paths()[0].vertices))
    assert corners == {(s, end) for s, found in zip(sigmas, intervals, strict=True) for end in (found[0], found[1])}
    assert "shaded: down to the lower bound" in legend(ax)


def test_epsilon_curve_of_a_function_moves_several_fields() -> None:
    steps = (10, 20, 40)
    at_rate = [ja.PoissonSampled(GAUSSIAN, 1 / t, t) for t in steps]
    ax = plot.epsilon_curve(lambda t: ja.PoissonSampled(GAUSSIAN, 1 / t, t), "num_steps", steps, 1e-6, precision=QUICK)
    np.testing.assert_allclose(line(ax)[1], [ja.epsilon(run, 1e-6, precision=QUICK) for run in at_rate], rtol=1e-12)


def test_epsilon_curve_leaves_gaps_where_there_is_no_bound() -> None:
    ax = plot.epsilon_curve(
        lambda x: ja.Gaussian(x), "noise_multiplier", [1e-160, 1.0, 2.0], target_delta=1e-6, precision=QUICK
    )
    assert np.isnan(line(ax)[1]).tolist() == [True, False, False]
    assert legend(ax) == ["Gaussian, no sampling (no bound at 1 of 3)"]


def test_delta_profile_shows_delta() -> None:
    epsilons = np.linspace(0.0, 2.0, 5)
    ax = plot.delta_profile(POISSON, epsilons, precision=QUICK)
    x, y = line(ax)
    np.testing.assert_array_equal(x, epsilons)
    np.testing.assert_array_equal(y, ja.delta(POISSON, epsilons, precision=QUICK))
    assert (ax.get_yscale(), ax.get_xlabel(), ax.get_ylabel()) == ("log", "epsilon", "delta, at most")


def test_delta_profile_shades_the_certified_interval() -> None:
    ax = plot.delta_profile(ALLOCATION, [0.5, 1.0])
    intervals = [ja.delta_interval(ALLOCATION, epsilon) for epsilon in (0.5, 1.0)]
    np.testing.assert_array_equal(line(ax)[1], [found.upper for found in intervals])
    lows = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert {found.lower for found in intervals} <= set(lows)


def test_delta_profile_takes_a_renyi_curve() -> None:
    curve = ja.rdp(GAUSSIAN, [2, 4, 8])
    ax = plot.delta_profile(curve, [1.0, 2.0])
    np.testing.assert_array_equal(line(ax)[1], ja.delta(curve, np.array([1.0, 2.0])))


def test_rdp_curve_marks_the_best_order() -> None:
    orders = [2, 3, 5, 8, 13, 21]
    ax = plot.rdp_curve(POISSON, orders, target_delta=1e-6)
    curve = ja.rdp(POISSON, orders)
    x, y = line(ax)
    np.testing.assert_array_equal(x, orders)
    np.testing.assert_array_equal(y, curve.values)
    alone = [
        ja.epsilon(dataclasses.replace(curve, orders=curve.orders[i : i + 1], values=curve.values[i : i + 1]), 1e-6)
        for i in range(len(orders))
    ]
    best = int(np.argmin(alone))
    (order,), (value,) = line(ax, 1)
    assert (order, value) == (orders[best], curve.values[best])
    told = legend(ax)[1]
    assert told.startswith(f"best order {orders[best]}")
    assert min(alone) <= float(told.split()[5]) <= 1.001 * min(alone)


def test_rdp_curve_tells_that_larger_orders_may_be_better() -> None:
    assert "best order 3, the largest given" in legend(plot.rdp_curve(GAUSSIAN, [2, 3], target_delta=1e-6))[1]


def test_tradeoff_and_roc_curves_show_what_an_adversary_can_tell() -> None:
    rates = np.array([1e-4, 0.01, 0.3, 1.0])
    least = ja.tradeoff(GAUSSIAN, rates)
    np.testing.assert_array_equal(line(plot.tradeoff_curve(GAUSSIAN, rates))[1], least)
    ax = plot.roc_curve(GAUSSIAN, rates)
    np.testing.assert_array_equal(line(ax)[1], 1.0 - least)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


@pytest.mark.parametrize(
    ("draw", "guess"), [(plot.tradeoff_curve, lambda x: 1.0 - x), (plot.roc_curve, lambda x: x)], ids=["errors", "roc"]
)
def test_the_diagonal_is_drawn_once(draw: Any, guess: Any) -> None:
    ax = draw(GAUSSIAN)
    draw(ja.Gaussian(3.0), label="more noise", ax=ax)
    diagonals = [at for at, one in enumerate(ax.get_lines()) if one.get_label() == "guessing"]
    assert len(diagonals) == 1
    x, y = line(ax, diagonals[0])
    np.testing.assert_allclose(y, guess(x))


# --- comparison ---


def marks(ax: Axes) -> set[tuple[str, float, str]]:
    """(method, value, marker) of every mark that stands at its value."""
    rows = [text.get_text() for text in ax.get_yticklabels()]
    inside = [one for one in ax.get_lines() if one.get_transform() == ax.transData]
    return {(rows[round(one.get_ydata()[0])], one.get_xdata()[0], str(one.get_marker())) for one in inside}


def test_comparison_shows_every_entry() -> None:
    entries = ja.compare(GAUSSIAN, target_delta=1e-6, precision=QUICK)
    for ax in (
        plot.comparison(GAUSSIAN, 1e-6, precision=QUICK),
        plot.comparison(GAUSSIAN, target_delta=1e-6, entries=entries),
    ):
        assert {(method, value) for method, value, _ in marks(ax)} == {(e.method, e.value) for e in entries}
        assert ax.get_xlabel() == "epsilon at delta = 1e-6"
    ax = plot.comparison(GAUSSIAN, target_epsilon=0.5, precision=QUICK)
    assert ax.get_xlabel() == "delta at epsilon = 0.5"


def test_comparison_sorts_and_tells_bounds_apart() -> None:
    ax = plot.comparison(POISSON, 1e-6, entries=ENTRIES)
    rows = [text.get_text() for text in ax.get_yticklabels()]
    assert rows[:2] == ["tight", "loose"]
    assert rows[-1] == "from below"
    assert ax.yaxis_inverted()
    by_value = {value: marker for _, value, marker in marks(ax)}
    assert by_value[0.5] == by_value[0.4] != by_value[0.45]
    assert set(legend(ax)[1:]) == {f"{b} bound, {d}" for b in ("upper", "lower") for d in ("remove", "add")}


def test_comparison_marks_the_answer() -> None:
    ax = plot.comparison(POISSON, 1e-6, entries=ENTRIES)
    # the larger over the directions of the least upper bounds
    assert legend(ax)[0] == "epsilon <= 0.5"
    assert line(ax)[0].tolist() == [0.5, 0.5]


def test_comparison_tells_what_is_off_the_scale() -> None:
    ax = plot.comparison(POISSON, 1e-6, entries=ENTRIES)
    assert sorted(text.get_text() for text in ax.texts) == ["0", "1e-09", "40", "no bound", "no bound"]
    low, high = ax.get_xlim()
    assert 1e-6 < low < 0.4
    assert 0.5 < high < 4.0  # 40 is told at the margin, and squeezes nothing


def test_comparison_has_one_row_for_both_ends_and_sorts_by_what_decides() -> None:
    ends = [entry("exact", 2.0), entry("exact", 1.9, LOWER)]
    other = [entry("sharp where it does not matter", 1.0, direction=ja.Direction.ADD), entry("rdp", 3.0)]
    ax = plot.comparison(POISSON, 1e-6, entries=[*other, *ends])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["exact", "rdp", "sharp where it does not matter"]


def test_a_sweep_is_a_line_lines_a_map_or_panels() -> None:
    run, noise = ja.Composed(ja.Gaussian(None), None), np.geomspace(1.0, 4.0, 8)
    one = ja.sweep(run, {"noise_multiplier": noise, "counts": [1]}, target_delta=1e-6).plot()
    assert one.get_ylabel() == "epsilon at delta = 1e-6, at most"
    lines = ja.sweep(run, {"counts": [1, 10], "noise_multiplier": noise}, target_delta=1e-6).plot()
    assert lines.get_xlabel() == "noise multiplier"
    assert legend(lines) == ["number of runs = 1", "number of runs = 10"]
    grid = {"noise_multiplier": noise, "counts": range(1, 8), "target_delta": [1e-6, 1e-5]}
    grid = {name: np.array(values) for name, values in grid.items()}
    found = ja.sweep(run, grid)
    panels = found.plot()
    assert [panel.get_title() for panel in panels] == ["delta = 1e-5", "delta = 1e-6"][::-1]
    assert len({panel.collections[0].norm.vmin for panel in panels}) == 1  # one scale
    of_two = ja.sweep(run, {"noise_multiplier": noise, "counts": grid["counts"]}, target_delta=1e-6).plot()
    draw(of_two)
    assert of_two.get_ylabel() == "number of runs"
    with pytest.raises(ValueError, match="must have at most 3 fields"):
        found.plot(ax=one)


@pytest.mark.parametrize(("numbers", "shown"), [(np.geomspace(1.0, 100.0, 5), np.log), (np.arange(3), np.asarray)])
def test_cells_of_a_map_meet_halfway_between_their_values(numbers: np.ndarray, shown: Any) -> None:
    borders = shown(_sweeps._edges(numbers))
    assert np.allclose(0.5 * (borders[1:] + borders[:-1]), shown(numbers))


def test_panels_share_a_legend_above_their_titles() -> None:
    grid = {"noise_multiplier": np.geomspace(1.0, 4.0, 8), "counts": [1, 10], "target_delta": [1e-6, 1e-5]}
    panels = ja.sweep(ja.Composed(ja.Gaussian(None), None), grid).plot()
    figure = panels[0].get_figure(root=True)
    figure.draw_without_rendering()
    (shared,) = figure.legends
    assert [text.get_text() for text in shared.get_texts()] == ["number of runs = 1", "number of runs = 10"]
    assert all(panel.get_legend() is None for panel in panels)
    titles = max(panel.title.get_window_extent().y1 for panel in panels)
    assert shared.get_window_extent().y0 >= titles - 1


def test_comparison_without_any_bound_is_still_a_picture() -> None:
    ax = plot.comparison(POISSON, 1e-6, entries=[entry("infinite", math.inf)])
    draw(ax)
    assert [text.get_text() for text in ax.texts] == ["no bound"]


def test_comparison_of_what_loses_nothing() -> None:
    ax = plot.comparison(POISSON, 1e-6, entries=[entry("nothing", 0.0), entry("nothing", 0.0, LOWER)])
    assert {value for _, value, _ in marks(ax)} == {0.0}


def test_comparison_refuses_axes_with_data() -> None:
    ax = plot.comparison(POISSON, 1e-6, entries=ENTRIES)
    with pytest.raises(ValueError, match="ax must be empty"):
        plot.comparison(POISSON, 1e-6, entries=ENTRIES, ax=ax)


# --- how it looks ---


def draw(ax: Axes) -> Any:
    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    return canvas.get_renderer()


@pytest.fixture(scope="module")
def pictures() -> dict[str, Axes]:
    ax = plot.epsilon_curve(POISSON, "noise_multiplier", np.geomspace(0.1, 3.0, 5), 1e-6, precision=QUICK)
    plot.epsilon_curve(GAUSSIAN, "noise_multiplier", np.geomspace(0.1, 3.0, 5), 1e-6, precision=QUICK, ax=ax)
    twice = plot.rdp_curve(POISSON, range(2, 9), target_delta=1e-6)
    plot.rdp_curve(GAUSSIAN, range(2, 9), target_delta=1e-6, ax=twice)
    return {
        "epsilon": ax,
        "profile": plot.delta_profile(POISSON, np.linspace(0, 2, 5), precision=QUICK),
        "renyi": twice,
        "compare": plot.comparison(POISSON, 1e-6, entries=ENTRIES),
        "tradeoff": plot.tradeoff_curve(GAUSSIAN),
        "roc": plot.roc_curve(GAUSSIAN),
    }


def tick_labels(axis: Any) -> list[Any]:
    low, high = sorted(axis.get_view_interval())
    return [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]


def test_nothing_is_clipped_and_legends_hide_no_data(pictures: dict[str, Axes]) -> None:
    for name, ax in pictures.items():
        renderer = draw(ax)
        box, frame = ax.get_window_extent(renderer), ax.figure.bbox
        legend_box = ax.get_legend().get_window_extent(renderer)
        assert legend_box.y0 >= box.y1 - 1, name
        texts = [*tick_labels(ax.xaxis), *tick_labels(ax.yaxis), ax.xaxis.label, ax.yaxis.label, *ax.texts]
        shown = [text for text in texts if text.get_text()]
        for extent in (legend_box, *(text.get_window_extent(renderer) for text in shown)):
            assert frame.x0 <= extent.x0 + 1, name
            assert extent.x1 - 1 <= frame.x1, name
            assert frame.y0 <= extent.y0 + 1, name
            assert extent.y1 - 1 <= frame.y1, name


def test_ticks_do_not_overlap(pictures: dict[str, Axes]) -> None:
    for name, ax in pictures.items():
        renderer = draw(ax)
        for axis in (ax.xaxis, ax.yaxis):
            boxes = [text.get_window_extent(renderer) for text in tick_labels(axis)]
            assert len(boxes) >= 3, (name, axis)
            assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2)), (name, axis)


def test_a_new_figure_is_six_by_four_inches() -> None:
    figure = plot.roc_curve(GAUSSIAN).figure
    assert tuple(figure.get_size_inches()) == (6.0, 4.0)
    assert figure.dpi == 100


def test_axes_are_logarithmic_where_values_span_decades() -> None:
    def draw_over(values: Any) -> Axes:
        return plot.epsilon_curve(GAUSSIAN, "noise_multiplier", values, 1e-6, precision=QUICK)

    assert (draw_over([1.0, 2.0]).get_xscale(), draw_over([1.0, 2.0]).get_yscale()) == ("linear", "linear")
    assert (draw_over([1.0, 100.0]).get_xscale(), draw_over([1.0, 100.0]).get_yscale()) == ("log", "log")


def test_counts_have_whole_ticks() -> None:
    ax = plot.epsilon_curve(POISSON, "num_steps", [1, 2, 3], 1e-6, precision=QUICK)
    draw(ax)
    assert np.all(ax.get_xticks() == np.floor(ax.get_xticks()))


def test_several_schemes_share_axes() -> None:
    figure = Figure()
    ax = figure.add_subplot()
    for mechanism, label in ((POISSON, None), (GAUSSIAN, None), (POISSON, "again")):
        assert plot.rdp_curve(mechanism, [2, 3, 4], label=label, ax=ax) is ax
    assert legend(ax) == ["Poisson sampling", "Gaussian, no sampling", "again"]
    poisson, gaussian, again = ax.get_lines()
    assert poisson.get_color() == again.get_color() == plot.scheme_color(POISSON)
    assert gaussian.get_color() == plot.scheme_color(GAUSSIAN)
    assert len({one.get_linestyle() for one in (poisson, gaussian, again)}) == 3  # visible where they coincide


COLORS = {
    "#0072B2": ja.RandomAllocation(GAUSSIAN, 10),
    "#D55E00": POISSON,
    "#009E73": SHUFFLED,
    "#CC79A7": CheckIn(ja.LocalRandomizer(1.0), 1000, 0.1),
    "#404040": GAUSSIAN,
    "#E69F00": ja.Composed((GAUSSIAN, POISSON)),
    "#56B4E9": ja.rdp(GAUSSIAN, [2]),
}


@pytest.mark.parametrize(("color", "mechanism"), COLORS.items(), ids=lambda x: x if isinstance(x, str) else "")
def test_a_scheme_has_one_color(color: str, mechanism: Any) -> None:
    assert plot.scheme_color(mechanism) == color


def test_a_composition_of_one_scheme_looks_like_it() -> None:
    assert plot.scheme_color(ja.Composed(POISSON, 7)) == plot.scheme_color(POISSON)
    assert plot.scheme_color(ja.Composed((SHUFFLED, SHUFFLED))) == plot.scheme_color(SHUFFLED)


# Machado, Oliveira & Fernandes 2009, Table 1, severity 1, on linear RGB
COLOR_VISION = {
    "full": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(color: str, seen: Any) -> np.ndarray:
    """CIE L*a*b* of `color`, D65, as one sees it whose colour vision is `seen`."""
    rgb = np.array(to_rgb(color))
    linear = np.clip(np.array(seen) @ np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4), 0.0, 1.0)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.cbrt(np.array(to_xyz) @ linear / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("seen", COLOR_VISION.values(), ids=COLOR_VISION)
def test_colors_are_told_apart_by_everyone(seen: Any) -> None:
    for one, other in itertools.combinations(COLORS, 2):
        assert np.linalg.norm(lab(one, seen) - lab(other, seen)) > 10, (one, other)  # 2 is just noticeable


# --- manners ---

_ALONE = """
import sys
import jaxacct as ja
sys.modules["matplotlib"] = None
try:
    from jaxacct import plot
except ImportError as error:
    assert "pip install 'jaxacct[plot]'" in str(error), error
else:
    raise AssertionError("imported without matplotlib")
del sys.modules["matplotlib"]
import io
import matplotlib
settings = lambda: {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}
before = settings()
from jaxacct import plot
ax = plot.roc_curve(ja.Gaussian(1.0))
ax.figure.savefig(io.BytesIO(), format="png")
assert "matplotlib.pyplot" not in sys.modules
assert settings() == before
"""


def test_needs_matplotlib_but_not_pyplot() -> None:
    subprocess.run([sys.executable, "-c", _ALONE], check=True)


def epsilon_of(mechanism: Any = POISSON, field: str = "num_steps", values: Any = (1, 2), **kwargs: Any) -> Axes:
    return plot.epsilon_curve(mechanism, field, values, **{"target_delta": 1e-6, "precision": QUICK, **kwargs})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: epsilon_of(field="num_epochs"), "field='num_epochs' is not a field of"),
        (lambda: epsilon_of(ja.Composed((POISSON, GAUSSIAN)), "noise_multiplier"), "is ambiguous in"),
        (lambda: epsilon_of(values=3), "must be a one-dimensional array of finite numbers"),
        (lambda: epsilon_of(values=[1.0, math.nan]), "must be a one-dimensional array of finite numbers"),
        (lambda: epsilon_of(values=["a", "b"]), "must be a one-dimensional array of finite numbers"),
        (lambda: epsilon_of(values=[2, 2]), "must have at least two different entries"),
        (lambda: epsilon_of(values=[0, 1]), "num_steps=0 must be a whole number"),
        (lambda: epsilon_of(target_delta=2.0), r"target_delta=2.0 must be in \(0, 1\)"),
        (lambda: epsilon_of(target_delta=[1e-6, 1e-5]), "target_delta of shape .* must be a scalar"),
        (lambda: epsilon_of(precision=-1.0), "precision=-1.0 must be > 0"),
        (lambda: epsilon_of(ja.PoissonSampled(ja.Gaussian(np.ones(2)), 0.1, num_steps=1)), "must have scalar fields"),
        (lambda: epsilon_of(ax="axes"), "ax='axes' must be a matplotlib Axes"),
        (lambda: plot.delta_profile(POISSON, [-1.0, 1.0]), "epsilons=-1.0 in an array must be >= 0"),
        (lambda: plot.delta_profile(ja.Gaussian(np.ones(2)), [0.0, 1.0]), "must have scalar fields"),
        (lambda: plot.rdp_curve(POISSON, [1.0, 2.0]), "orders=1.0 in an array must be > 1"),
        (lambda: plot.rdp_curve(POISSON, [2.0], target_delta=0.0), r"target_delta=0.0 must be in \(0, 1\)"),
        (lambda: plot.rdp_curve(ja.Gaussian(np.ones(2)), [2.0]), "must have scalar fields"),
        (
            lambda: plot.tradeoff_curve(GAUSSIAN, [0.0, 1.5]),
            r"false_positive_rates=1.5 in an array must be in \[0, 1\]",
        ),
        (lambda: plot.roc_curve(GAUSSIAN, [0.0, 0.5]), "false_positive_rates=0.0 in an array must be > 0"),
        (lambda: plot.comparison(GAUSSIAN), "exactly one must be given"),
        (lambda: plot.comparison(GAUSSIAN, 1e-6, target_epsilon=1.0), "exactly one must be given"),
        (lambda: plot.comparison(GAUSSIAN, 1e-6, entries=[]), "entries must be one or more"),
        (lambda: plot.comparison(ja.Gaussian(np.ones(2)), 1e-6), "entries must be one or more, of a mechanism with"),
        (lambda: plot.delta_profile("run", [0.0, 1.0]), "mechanism='run' has no analysis here"),
        (lambda: plot.roc_curve("run"), "mechanism='run' has no analysis here"),
        (lambda: plot.tradeoff_curve(None), "mechanism=None has no analysis here"),
        (lambda: plot.scheme_color(1.0), "mechanism=1.0 has no analysis here"),
        (lambda: plot.sweep_result("rows.csv"), "found='rows.csv' must be a SweepResult"),
        (lambda: plot.plain_ticks("axes"), "axes='axes' must be matplotlib Axes"),
    ],
)
def test_refuses(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_refuses_to_mix_quantities_on_one_pair_of_axes() -> None:
    ax = epsilon_of()
    with pytest.raises(ValueError, match="ax has ylabel='epsilon at delta = 1e-6, at most'"):
        epsilon_of(label="another", target_delta=1e-5, ax=ax)
    with pytest.raises(ValueError, match="ax has xlabel='number of steps'"):
        epsilon_of(field="noise_multiplier", label="another", ax=ax)


def test_refuses_two_lines_of_one_name() -> None:
    ax = epsilon_of()
    with pytest.raises(ValueError, match="label=None must be a name"):
        epsilon_of(ax=ax)


def test_a_refusal_leaves_the_axes_as_they_were() -> None:
    ax = Figure().add_subplot()
    with pytest.raises(ValueError, match="precision"):
        epsilon_of(precision=0.0, ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel(), len(ax.get_lines())) == ("", "", 0)


@pytest.mark.more
def test_sliders_move_the_curve_and_the_statement() -> None:
    pytest.importorskip("ipywidgets")
    box = plot.explore(ja.RandomAllocation(ja.Gaussian(2.0), 100), target_delta=1e-5)
    noise, *_ = box.sliders
    picture, words = box.children[-2:]
    before = bytes(picture.value)
    assert base64.b64decode(box._repr_mimebundle_()["image/png"]) == before  # where there are no widgets
    noise.value = 2.5
    assert box.mechanism == ja.RandomAllocation(ja.Gaussian(2.5), 100)
    assert bytes(picture.value) != before
    assert ja.report(box.mechanism, 1e-5) in words.value
    box.sliders[2].value = 30.0
    box.sliders[1].value = 10.0  # fewer steps than are joined
    assert "must be <= num_steps" in words.value


@pytest.mark.more
def test_sliders_go_to_their_ends_without_a_warning() -> None:
    pytest.importorskip("ipywidgets")
    box = plot.explore(ja.CheckIn(ja.LocalRandomizer(2.0), 1000, 0.1))
    lost = next(slider for slider in box.sliders if slider.description == "probability that a report is lost")
    lost.value = 1.0  # delta is 0 everywhere, on an axis that was logarithmic
    assert "epsilon = 0 " in box.children[-1].value
    box = plot.explore(ja.Shuffled(ja.LocalRandomizer(2.0), 1000))
    box.sliders[-1].value = 0.1
    assert "epsilon = 0 " in box.children[-1].value


@pytest.mark.parametrize(
    ("mechanism", "target_delta", "message"),
    [
        ("run", 1e-6, "mechanism='run' has no analysis here"),
        (ja.Gaussian(None), 1e-6, "noise_multiplier=None must be a number"),
        (ja.Gaussian([1.0, 2.0]), 1e-6, "must be scalars"),
        (GAUSSIAN, 2.0, r"target_delta=2.0 must be in \(0, 1\)"),
        (GAUSSIAN, [], "target_delta="),
    ],
)
def test_sliders_need_a_mechanism_of_numbers(mechanism: Any, target_delta: Any, message: str) -> None:
    pytest.importorskip("ipywidgets")
    with pytest.raises(ValueError, match=message):
        plot.explore(mechanism, target_delta)
