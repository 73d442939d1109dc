"""The paper of the site: its measurements are those that bench/ measured, its files and links exist."""

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PAPER = _ROOT / "docs" / "paper" / "index.md"
if not _PAPER.is_file():
    pytest.skip("a source distribution of the package alone has no pages", allow_module_level=True)
_TEXT = " ".join(_PAPER.read_text().split())


def _row(table: str, name: str) -> list[str]:
    """The cells of the row that begins with `name`, of a table in bench/."""
    lines = (_ROOT / "bench" / table).read_text().splitlines()
    row = next(line for line in lines if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_the_map_of_poisson_sampling_is_that_of_bench():
    _, _, median, worst, width, *_, beside = _row("MAPS.md", "poisson")
    said = re.search(r"needed ([\d.]+) ms in the median and ([\d.]+) ms at worst, .*? width (\S+) in the median", _TEXT)
    assert said is not None
    assert [float(x) for x in said.groups()[:2]] == [float(x.removesuffix(" ms")) for x in (median, worst)]
    assert f"{float(width):.0e}" == f"{float(said[3]):.0e}"
    times = re.search(r"took (\d+) times as long", _TEXT)
    assert times is not None
    assert f"its time {times[1]} x" in beside
    tighter = re.search(r"were tighter at (\d+) of them", _TEXT)
    assert tighter is not None
    assert f"looser at {tighter[1]}," in beside


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("calibrate 100 poisson exact", r"took (?P<ours>[\d.]+) s, theirs (?P<theirs>\d+) s"),
        ("pld t=1e5 sigma=1", r"(?P<ours>\d+) ms here, (?P<theirs>\d+) s for the fastest"),
    ],
)
def test_times_are_those_of_the_report(name, said):
    cells = _row("REPORT.md", name)
    found = re.search(said, _TEXT)
    assert found is not None
    ours, theirs = float(cells[3].split()[0]), float(cells[7].split()[0])
    assert (float(found["ours"]), float(found["theirs"])) == pytest.approx((ours, theirs), rel=0.03)


def test_every_file_that_the_paper_names_exists():
    named = re.findall(r"\]\((?!https)([^)#]+)", _PAPER.read_text())
    assert len(named) > 5
    assert not [name for name in named if not (_PAPER.parent / name).is_file()]
