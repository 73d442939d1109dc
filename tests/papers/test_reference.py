"""Every reference value that jaxacct can answer, through its own code.

    pytest tests/papers/test_reference.py [--reference-dir DIR]

One test for each entry whose quantity is in the table. An entry outside the table, or declined by its callable (shown
as skipped), is not covered: it is counted in the summary at the end and nowhere as passed. A callable that raises
fails.
"""

from collections.abc import Callable

import pytest
from support.reference import OUTCOME, Declined, Entry, Quantity, Side, disagreement, read_folder
from support.reference_table import TABLE


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "entry" in metafunc.fixturenames:
        entries = read_folder(metafunc.config.getoption("--reference-dir"))
        covered = [pytest.param(e, id=e.label) for e in entries if e.key in TABLE]
        metafunc.parametrize("entry", covered)


def test_folder_is_read(request: pytest.FixtureRequest) -> None:
    entries = read_folder(request.config.getoption("--reference-dir"))
    assert len({entry.label for entry in entries}) == len(entries)


def test_reference_value(entry: Entry, record_property: Callable[[str, object], None]) -> None:
    quantity = TABLE[entry.key]
    try:
        ours = float(quantity.evaluate(entry.args))
    except Declined as reason:
        record_property(OUTCOME, (entry.label, "uncovered"))
        pytest.skip(f"not covered: {reason}")
    except BaseException:
        record_property(OUTCOME, (entry.label, "failed"))
        raise
    problem = disagreement(entry, quantity, ours)
    record_property(OUTCOME, (entry.label, "failed" if problem else "passed"))
    assert problem is None, problem


@pytest.mark.parametrize(
    ("side", "value", "ours", "fine"),
    [
        (Side.NEVER_BELOW, "0.5", 0.5, True),
        (Side.NEVER_BELOW, "0.5", 0.5 - 2.0**-54, False),
        (Side.NEVER_BELOW, "0.5", 0.5 * (1 + 0.9e-11), True),
        (Side.NEVER_BELOW, "0.5", 0.5 * (1 + 1.1e-11), False),
        (Side.NEVER_BELOW, "0.500000001", 0.5 + 1e-10, True),  # within its last printed digit
        (Side.NEVER_BELOW, "0.500000001", 0.5 - 1e-10, False),
        (Side.NEVER_ABOVE, "0.5", 0.5 * (1 - 0.9e-11), True),
        (Side.NEVER_ABOVE, "0.5", 0.5 + 2.0**-53, False),
        (Side.EITHER, "0.5", 0.5 * (1 - 0.9e-11), True),
        (Side.EITHER, "0.5", 0.5 * (1 - 1.1e-11), False),
        (Side.NEVER_BELOW, "-0.5", -0.5 * (1 - 0.9e-11), True),
        (Side.NEVER_BELOW, "-0.5", -0.5 - 2.0**-53, False),
        (Side.NEVER_BELOW, "0", 0.0, True),
        (Side.NEVER_BELOW, "0.5", float("nan"), False),
        (Side.NEVER_BELOW, "0.5", float("inf"), False),
    ],
)
def test_comparison(side: Side, value: str, ours: float, fine: bool) -> None:
    entry = Entry("paper", "file", 0, "S1", "q", "exact", value, {})
    problem = disagreement(entry, Quantity(lambda args: ours, "for the test", side=side), ours)
    assert (problem is None) == fine
