"""Renyi curves: in which direction they hold, and what may be added up."""

import numpy as np
import pytest

import jaxacct as ja
from jaxacct import interop

ORDERS = np.array([2.0, 4.0, 8.0])
RUN = ja.RandomAllocation(ja.Gaussian(1.0), 10)
REMOVE, ADD = (ja.rdp(RUN, ORDERS, direction=d) for d in ("remove", "add"))
BOTH = ja.rdp(RUN, ORDERS)


def test_a_curve_says_in_which_direction_it_holds() -> None:
    assert (REMOVE.direction, ADD.direction, BOTH.direction) == (ja.Direction.REMOVE, ja.Direction.ADD, None)
    assert ja.rdp(ja.Shuffled(ja.LocalRandomizer(1.0), 100), ORDERS).direction is None
    moments = np.array([0.0, 0.0, 1.0, 3.0])
    assert ja.allocation_rdp(moments, 10).direction is ja.Direction.REMOVE


def test_curves_of_different_directions_do_not_add_up() -> None:
    with pytest.raises(ValueError, match="one direction, not some in one and some in the other"):
        ja.compose([REMOVE, ADD])
    with pytest.raises(ValueError, match="one direction"):
        ja.compose([BOTH, REMOVE, ADD])


def test_a_curve_of_both_directions_adds_to_one_of_either() -> None:
    found = ja.compose([ADD, BOTH], [2, 3])
    assert found.direction is ja.Direction.ADD
    np.testing.assert_allclose(found.values, 2.0 * ADD.values + 3.0 * BOTH.values, rtol=1e-14)
    assert ja.compose(BOTH, 3).direction is None


def test_a_curve_s_choices_may_be_words_and_are_checked() -> None:
    def curve(bound: str, relation: str, direction: str | None) -> ja.RdpCurve:
        return ja.RdpCurve(ORDERS, BOTH.values, bound, relation, "", direction)  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="one direction, not some"):
        ja.compose([REMOVE, curve("upper", "add or remove one record", "add")])
    assert ja.compose([REMOVE, curve("upper", "add or remove one record", "remove")]).direction is ja.Direction.REMOVE
    with pytest.raises(ValueError, match=r"curve\.bound='lower bound' must be an upper bound"):
        ja.epsilon(curve("lower", "add or remove one record", None), 1e-5)
    with pytest.raises(ValueError, match="direction='sideways' must be"):
        curve("upper", "add or remove one record", "sideways")


def test_dp_accounting_is_given_curves_of_both_directions_only() -> None:
    pytest.importorskip("dp_accounting")
    with pytest.raises(ValueError, match=r"curve\.direction='remove' must be None"):
        interop.RdpCurveDpEvent(REMOVE)
    interop.RdpCurveDpEvent(BOTH)
