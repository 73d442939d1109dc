"""Compositions of rounds of one scheme, answered as that scheme with as many rounds."""

import pytest

import jaxacct as ja
from jaxacct.bounds._equal_rounds import whole_run

KARY = ja.KaryRandomizedResponse(1.0, 10)
TWICE = {  # a run of several rounds, and the same rounds in pieces
    "shuffle": (ja.Shuffled(KARY, 1000, 6), ja.Composed([ja.Shuffled(KARY, 1000, 5), ja.Shuffled(KARY, 1000)])),
    "check-in": (ja.CheckIn(KARY, 1000, 0.5, 4), ja.Composed(ja.CheckIn(KARY, 1000, 0.5, 2), 2)),
    "allocation": (
        ja.RandomAllocation(ja.Gaussian(0.8), 30, 5, 3),
        ja.Composed(
            [ja.Composed(ja.RandomAllocation(ja.Gaussian(0.8), 30, 5), 2), ja.RandomAllocation(ja.Gaussian(0.8), 30, 5)]
        ),
    ),
}


@pytest.mark.parametrize("name", TWICE)
def test_rounds_in_pieces_lose_what_one_run_does(name):
    whole, pieces = TWICE[name]
    assert whole_run(pieces) == whole
    assert ja.epsilon(pieces, 1e-6) == pytest.approx(ja.epsilon(whole, 1e-6), rel=1e-9)
    assert ja.delta(pieces, 0.5) == pytest.approx(ja.delta(whole, 0.5), rel=1e-6)


def test_directions_are_those_of_the_run():
    whole, pieces = TWICE["allocation"]
    for direction in ("remove", "add"):
        both = (
            ja.epsilon(run, 1e-6, direction=direction, method=method)
            for run, method in ((whole, None), (pieces, "equal rounds"))
        )
        assert len({round(x, 9) for x in both}) == 1
    assert ja.epsilon(pieces, 1e-6, direction="add") < ja.epsilon(pieces, 1e-6, direction="remove")


def test_other_compositions_are_not_one_run():
    one = ja.Shuffled(KARY, 1000)
    assert whole_run(ja.Composed([one, ja.Shuffled(KARY, 1001)])) is None
    assert whole_run(ja.Composed([one, ja.CheckIn(KARY, 1000, 1.0)])) is None
    assert whole_run(ja.Composed([one, ja.Shuffled(ja.LocalRandomizer(1.0), 1000)])) is None
    assert whole_run(ja.Composed(ja.BallsInBins([1.0], 1.0, 10, 2), 2)) is None  # its bins stay the same in every epoch


def test_lower_ends_are_below():
    whole, pieces = TWICE["shuffle"]
    ends, of_run = (ja.epsilon_interval(run, 1e-6) for run in (pieces, whole))
    assert 0.0 <= ends.lower <= of_run.upper
    assert ends.lower <= of_run.lower * (1.0 + 1e-9)


def test_more_rounds_than_a_run_may_have_are_left_to_other_methods():
    many = ja.Composed(ja.Shuffled(ja.LocalRandomizer(1.0), 10**6, 10**10), 10**10)
    assert whole_run(many) is None
    assert ja.epsilon(many, 1e-6) > 0.0
