"""The documentation site: builds without warnings, and what its pages show is what happens."""

import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import jaxacct as ja
from jaxacct.cli import main

pytestmark = pytest.mark.slow

_DOCS = Path(__file__).parents[2] / "docs"
if not _DOCS.is_dir():
    pytest.skip("a source distribution has no docs", allow_module_level=True)
_PAGES = sorted(path for path in _DOCS.rglob("*.md") if not path.name.startswith("_"))
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SLOW = {
    "command_line.md",
    "numerics/index.md",
    "numerics/rounding.md",
    "papers/chen.md",
    "papers/girgis.md",
    "pitfalls.md",
}


def _pages(language):
    """The pages that show code in `language`; the slow ones are marked."""
    pages = []
    for path in _PAGES:
        if any(found == language for found, _ in _BLOCK.findall(path.read_text())):
            name = path.relative_to(_DOCS).as_posix()
            pages.append(pytest.param(path, id=name, marks=[pytest.mark.slow] if name in _SLOW else []))
    return pages


@pytest.fixture(autouse=True)
def _strict_promotion():
    """In place of the fixture of the folder above: pages call optimizers of optax, which mix dtypes."""


def test_site_builds_without_warnings(tmp_path):
    for name in ("sphinx", "myst_parser", "furo", "sphinx_copybutton"):
        pytest.importorskip(name)
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(_DOCS), str(tmp_path / "site")]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    site = tmp_path / "site"
    assert "certified upper bound" in (site / "reference" / "questions.html").read_text()
    page = (site / "papers" / "shuffled_batches.html").read_text()
    assert "<math " in page
    assert all("//cdn" not in path.read_text() for path in site.rglob("*.html"))  # read without a network
    assert 'property="og:title"' in page
    assert "arxiv.org/abs/2502.08202" in (site / "support.html").read_text()


@pytest.mark.parametrize("path", _pages("python"))
def test_python_blocks_print_what_is_written(path):
    """Runs a page's blocks one after another; ``print(...)  # this`` must print this."""
    namespace = {"__name__": "page"}
    for number, (language, block) in enumerate(_BLOCK.findall(path.read_text())):
        if language != "python":
            continue
        lines, printed = block.splitlines(), {}

        def show(*values, printed=printed, **options):
            text = io.StringIO()
            print(*values, file=text, **options)
            printed[sys._getframe(1).f_lineno] = text.getvalue().rstrip("\n")

        namespace["print"] = show
        exec(compile(block, f"{path.name}, block {number}", "exec"), namespace)
        expected = {
            n: line.split(")  # ", 1)[1] for n, line in enumerate(lines, 1) if ")  # " in line and "print(" in line
        }
        assert {n: printed.get(n) for n in expected} == expected


@pytest.mark.parametrize("path", _pages("sh"))
def test_command_lines_run(path, capsys, tmp_path, monkeypatch):
    """Every ``jaxacct ...`` line; where a ``text`` block follows, it is what the last one prints."""
    monkeypatch.chdir(tmp_path)  # some write files
    blocks = _BLOCK.findall(path.read_text())
    for (language, block), following in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if language != "sh":
            continue
        out = ""
        for line in block.splitlines():
            if line.startswith("jaxacct "):
                assert main(shlex.split(line)[1:]) == 0, line
                out = capsys.readouterr().out
                if "--json" in line:
                    json.loads(out)
        if following[0] == "text":
            assert following[1] == out


@pytest.mark.slow
def test_table_of_winners_says_what_epsilon_answers():
    rows = [line for line in (_DOCS / "_winners_table.md").read_text().splitlines() if re.match(r"\| [\d.]+ ", line)]
    assert len(rows) >= 10
    for row in rows:
        sigma, t, k, epochs, *_, answer = (cell.strip() for cell in row.strip("|").split("|"))
        run = ja.RandomAllocation(ja.Gaussian(float(sigma)), int(t), int(k), int(epochs))
        assert float(answer) == pytest.approx(ja.epsilon(run, target_delta=1e-6), rel=0.01)
