"""The tables of booked constants: each stands in the code where it is said to, and none that is named so is missing."""

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PACKAGE = _ROOT / "jaxacct"
_PAGES = {path.name: path.read_text() for path in (_ROOT / "docs" / "numerics").glob("*.md")}
_BOOKED = _PAGES["rounding.md"].split("## Booked constants", 1)[1].split("\n### ", 1)[0]
_ROWS = re.findall(r"^\| `(.+?)` \| `(.+?\.py)` \| (.+?) \| (.+?) \|$", _BOOKED, re.MULTILINE)
_NAMES = re.compile(r"^(_?(?:[A-Z]+_)*(?:SLACK|ROUNDING|ERROR|BLUR|ULPS?|SUMS|DOWN|ROUND_UP)) *=", re.MULTILINE)
_FOLDERS = ("bounds", "curves", "divergence", "special")


def _joined(text):
    return re.sub(r"\s+", "", text)


def test_the_tables_are_read():
    assert len(_ROWS) >= 60
    assert len(_ROWS) == sum(line.startswith("| `") for line in _BOOKED.splitlines())


@pytest.mark.parametrize(("constant", "file", "reason", "where"), _ROWS, ids=[f"{row[1]}:{row[0]}" for row in _ROWS])
def test_constant_is_where_the_table_says(constant, file, reason, where):
    source = (_PACKAGE / file).read_text()
    assert _joined(constant) in _joined(source)
    assert reason.strip()
    for page, anchor in re.findall(r"\((\w+\.md)?#(.+?)\)", where):
        headings = re.findall(r"^#+ (.+)$", _PAGES[page or "rounding.md"], re.MULTILINE)
        assert anchor in [re.sub(r"[^a-zé0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_no_constant_is_missing():
    """Module-level numbers whose names say that something is booked."""
    listed = {(file, match.group(1)) for constant, file, *_ in _ROWS if (match := _NAMES.match(constant))}
    found = set()
    for folder in _FOLDERS:
        for path in (_PACKAGE / folder).rglob("*.py"):
            found |= {(path.relative_to(_PACKAGE).as_posix(), name) for name in _NAMES.findall(path.read_text())}
    assert found <= listed, sorted(found - listed)
