"""The page for contributors: its table names every folder and says how large each is, its commands exist."""

import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs" / "contributing.md").read_text()
_CLOSE = 0.15  # of the lines that the table says, or 150 lines


def _lines(folder: Path) -> int:
    return sum(path.read_text().count("\n") for path in folder.rglob("*.py"))


def test_the_table_says_what_every_folder_is_for():
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \| (.+) \|$", _PAGE, re.M)
    folders = {path.name for path in (_ROOT / "jaxacct").iterdir() if (path / "__init__.py").is_file()}
    assert {name for name, _, _ in rows} == folders
    for name, said, purpose in rows:
        lines, claimed = _lines(_ROOT / "jaxacct" / name), int(said.replace(",", ""))
        assert abs(lines - claimed) <= max(_CLOSE * lines, 150), f"{name} has {lines} lines"
        assert purpose


def test_commands_of_the_page_exist():
    named = set(re.findall(r"python ((?:bench|docs)/\w+\.py)", _PAGE)) | {".ci/run"}
    assert len(named) > 5
    assert not [name for name in named if not (_ROOT / name).is_file()]
