"""A mechanism with sliders, in a notebook."""

import base64
import importlib
import io
import warnings
from typing import Any

import numpy as np

from jaxacct._method import Query
from jaxacct._types import PrecisionWarning
from jaxacct._validate import check_delta, checked_number
from jaxacct.answering import question_of
from jaxacct.answering._plan import is_expensive
from jaxacct.answering._question import check_scalars
from jaxacct.mechanisms._base import Mechanism
from jaxacct.mechanisms._fields import FieldSpec, number_paths, value_at, with_fields
from jaxacct.plot._curves import delta_profile
from jaxacct.reporting import report

_SPAN = 30.0  # a slider reaches this many times below and above where it begins
_STEPS = 60  # of a slider
_POINTS = 25  # epsilons of the curve
_WIDTH = 0.5  # relative, of its deltas if the quick methods would be expensive
_DOTS = 90  # dots per inch


def explore(mechanism: Mechanism, target_delta: float = 1e-6) -> Any:
    """Sliders for the fields of `mechanism`, with the privacy curve and the statement, which follow the sliders.

    The curve is the certified delta against epsilon; its mark is the answer at `target_delta`, and below it is the
    statement that `jaxacct.report` makes. Each move of a slider recomputes both, in milliseconds if answers are exact.

    Args:
      mechanism: a mechanism with scalar fields: the initial positions of the sliders.
      target_delta: float in (0, 1), the initial position of that slider.

    Returns:
      An ipywidgets box, which a notebook shows; its attribute `mechanism` is the one that the sliders describe.

    Raises:
      ImportError: without ipywidgets: ``pip install 'jaxacct[explore]'``.
      ValueError: if an argument is out of range.

    >>> import pytest; _ = pytest.importorskip("ipywidgets")
    >>> import jaxacct as ja
    >>> from jaxacct import plot
    >>> box = plot.explore(ja.Gaussian(noise_multiplier=1.0))
    >>> [slider.description for slider in box.sliders]
    ['noise multiplier', 'delta']
    """
    try:
        ipywidgets = importlib.import_module("ipywidgets")
    except ImportError as error:
        raise ImportError("jaxacct.plot.explore needs ipywidgets: pip install 'jaxacct[explore]'") from error
    check_delta("target_delta", target_delta)
    target_delta = checked_number("target_delta", target_delta)
    check_scalars(mechanism)
    paths = number_paths(mechanism)
    starts = {keys: float(value_at(mechanism, keys)) for keys in paths}
    sliders = {keys: _slider(ipywidgets, spec, starts[keys]) for keys, spec in paths.items()}
    exponents = {"base": 10, "min": -12.0, "max": -1.0, "step": 0.25, "description": "delta"}
    delta = ipywidgets.FloatLogSlider(value=float(target_delta), **exponents, **_look(ipywidgets))
    picture, words = ipywidgets.Image(format="png"), ipywidgets.HTML()
    controls = [*sliders.values(), delta]
    box = _still(ipywidgets)([*controls, picture, words])
    box.sliders, box.mechanism = controls, mechanism

    def follow(_: Any = None) -> None:
        try:
            run = with_fields(mechanism, {keys: _value(paths[keys], s.value) for keys, s in sliders.items()})
            picture.value, words.value = _drawn(run, delta.value), f"<pre>{report(run, delta.value)}</pre>"
            box.mechanism = run
        except ValueError as error:  # fields that do not go together, as more steps joined than there are
            words.value = f"<pre>{error}</pre>"

    for control in controls:
        control.observe(follow, "value")
    follow()
    return box


def _still(widgets: Any) -> type:
    """A class for a column of widgets, shown as a picture if widgets cannot be shown, as on a documentation page."""

    class Explorer(widgets.VBox):  # type: ignore[misc]
        def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
            shown = super()._repr_mimebundle_(**options)
            return {**shown, "image/png": base64.b64encode(bytes(self.children[-2].value)).decode()}

    return Explorer


def _look(widgets: Any) -> dict[str, Any]:
    return {
        "continuous_update": False,
        "style": {"description_width": "14em"},
        "layout": widgets.Layout(width="36em"),
        "readout_format": ".4g",
    }


def _slider(widgets: Any, spec: FieldSpec, start: float) -> Any:
    """A slider from a fraction to a multiple of its initial value, in equal ratios, within the field's range."""
    if not start:  # no ratio leads away from 0
        high = 1.0
        return widgets.FloatSlider(
            value=0.0, min=0.0, max=high, step=high / _STEPS, description=spec.words, **_look(widgets)
        )
    low, high = start / _SPAN, start * _SPAN
    if spec.is_solvable:
        low, high = max(low, spec.lowest), min(high, spec.highest)
    low, high = np.log10(max(low, 1.0) if spec.is_whole else low), np.log10(high)
    ends = {"min": low, "max": max(high, np.log10(start)), "step": (high - low) / _STEPS}
    return widgets.FloatLogSlider(value=start, base=10, **ends, description=spec.words, **_look(widgets))


def _value(spec: FieldSpec, value: float) -> float | int:
    return max(1, round(value)) if spec.is_whole else float(f"{value:.6g}")


def _drawn(run: Mechanism, target_delta: float) -> bytes:
    """A PNG picture of delta against epsilon around the answer."""
    from jaxacct.accounting import epsilon

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        answer = epsilon(run, target_delta)
    high = 1.5 * answer if 0.0 < answer < np.inf else 1.0
    quick = question_of(run, Query.DELTA, high, precision=np.inf)
    ax = delta_profile(run, np.linspace(0.0, high, _POINTS), precision=_WIDTH if is_expensive(quick) else np.inf)
    ax.axhline(target_delta, color="#999999", linestyle=":", linewidth=1.0)
    if answer < np.inf:
        ax.plot([answer], [target_delta], "o", color="#000000", markersize=6.0)
    picture = io.BytesIO()
    ax.get_figure(root=True).savefig(picture, format="png", dpi=_DOTS)  # type: ignore[union-attr]
    return picture.getvalue()
