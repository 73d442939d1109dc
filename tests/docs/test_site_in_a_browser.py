"""The documentation site as a browser shows it, on a wide window and on a phone, light and dark."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_DOCS = Path(__file__).parents[2] / "docs"
if not _DOCS.is_dir():
    pytest.skip("a source distribution has no docs", allow_module_level=True)
_SPEC = importlib.util.spec_from_file_location("_screenshots", _DOCS / "_screenshots.py")
screenshots = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(screenshots)
if screenshots.browser() is None:
    pytest.skip("Chromium is not installed", allow_module_level=True)
_WIDE, _PHONE = 1280, 390
_DARK_FIGURES = "rgb(255, 255, 255)"  # what is behind them there: they are drawn on white


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site."""
    for name in ("sphinx", "myst_parser", "furo", "sphinx_copybutton"):
        pytest.importorskip(name)
    out = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-b", "html", str(_DOCS), str(out)], check=True)
    return out


def _light(color):
    """The mean of the three parts of ``rgb(r, g, b)``."""
    return sum(map(int, color.removeprefix("rgb(").removesuffix(")").split(","))) / 3.0


def _looked_at(site, page):
    """What is wrong with a page."""
    wrong, blocks = [], 0
    for width in (_WIDE, _PHONE):
        light, dark = (screenshots.measured(site, page, width, is_dark=is_dark) for is_dark in (False, True))
        blocks += light["blocks"]
        for name, found in (("light", light), ("dark", dark)):
            at = f"{page}, {width} pixels, {name}"
            wrong += [f"{at}: the window is {found['window']} wide"] * (found["window"] != width)
            wrong += [f"{at}: the page is {found['page']} wide"] * (found["page"] > width)
            wrong += [f"{at}: cut off: {text}" for text in found["cut"]]
            wrong += [f"{at}: does not load: {image}" for image in found["missing"]]
            wrong += [f"{at}: figures on {x}" for x in found["behind_figures"] if x != _DARK_FIGURES and name == "dark"]
        is_readable = _light(light["background"]) - _light(light["text"]) > 150.0
        is_readable &= _light(dark["text"]) - _light(dark["background"]) > 150.0
        wrong += [] if is_readable else [f"{page}: {light['text']} on {light['background']}, {dark}"]
    return wrong, blocks


def test_pages_fit_windows_and_phones(site):
    every = [_looked_at(site, page) for page in screenshots.PAGES]
    wrong = [line for lines, _ in every for line in lines]
    assert not wrong, "\n".join(wrong)
    assert sum(blocks for _, blocks in every) > 50


def test_what_is_cut_off_is_seen(site):
    (site / "cut.html").write_text("<body><article><pre style='width: 9em; overflow: auto'>" + "x" * 200 + "</pre>")
    with (site / "cut.html").open("a") as page:
        page.write("<img src='nowhere.png'></article></body>")
    found = screenshots.measured(site, "cut", _PHONE, is_dark=False)
    assert found["window"] == _PHONE
    assert found["cut"] == ["x" * 200]
    assert len(found["missing"]) == 1


def test_pictures_are_taken(site, tmp_path, monkeypatch):
    monkeypatch.setattr(screenshots, "PAGES", screenshots.PAGES[:2])
    screenshots.main(site, tmp_path)
    taken = sorted(tmp_path.glob("*.png"))
    assert len(taken) == 8
    assert all(path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000 for path in taken)
