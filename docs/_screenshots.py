"""Pictures of the built site, wide and narrow, light and dark, to be looked at: ``_screenshots.py SITE OUT``.

Chromium is needed. Pages are those that a reader meets first, one of a paper, and every notebook with its figures.
`measured` says of a page what a picture would show: what is too wide, what did not load, and its colours.
"""

import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

PAGES = (
    *("index", "first_statement", "explorer", "words", "which_sampling", "command_line", "papers/random_allocation"),
    *(f"notebooks/{name}" for name in ("quickstart", "sweeps", "training")),
    *(f"notebooks/{name}" for name in ("random_allocation", "shuffling", "shuffled_batches", "check_ins")),
)
_WIDTHS = {"wide": 1300, "narrow": 420}  # pixels
_HEIGHT = {"notebooks": 7000}  # pixels; of other pages _SHORT
_SHORT = 2200
_DARK = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# A page in a frame as wide as a phone, as windows are never that narrow; it tells the page around it what it measured.
_FRAME = """<iframe src="{page}" width="{width}" height="900"></iframe><script>addEventListener("message", event => {{
  const found = document.createElement("pre"); found.id = "measured"; found.textContent = event.data;
  document.body.append(found);
}})</script>"""
_PROBE = """<script>addEventListener("load", () => setTimeout(() => {
  const all = query => [...document.querySelectorAll(query)];
  const style = getComputedStyle(document.body);
  parent.postMessage(JSON.stringify({
    window: innerWidth, page: document.documentElement.scrollWidth, blocks: all("article pre").length,
    cut: all("article pre").filter(x => x.scrollWidth > x.clientWidth + 1).map(x => x.innerText),
    images: document.images.length, missing: [...document.images].filter(x => !x.naturalWidth).map(x => x.src),
    behind_figures: all("article img").map(x => getComputedStyle(x).backgroundColor),
    text: style.color, background: style.backgroundColor,
  }), "*");
}, 500))</script>"""


def browser() -> str | None:
    """Where Chromium is, if it is installed."""
    return next((found for name in _BROWSERS if (found := shutil.which(name))), None)


def _run(url: str, *options: str) -> str:
    found = browser()
    if found is None:
        raise SystemExit(f"one of {', '.join(_BROWSERS)} must be installed")
    command = [found, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=5000"]
    return subprocess.run([*command, *options, url], check=True, capture_output=True, text=True).stdout


def measured(site: pathlib.Path, page: str, width: int, *, is_dark: bool) -> dict[str, Any]:
    """What a page of the built site is like in a window so wide: see `_PROBE`."""
    of = (site / f"{page}.html").resolve()
    probe, frame = of.with_name("_probe.html"), of.with_name("_frame.html")
    probe.write_text(of.read_text().replace("</body>", _PROBE + "</body>"))
    frame.write_text(_FRAME.format(page=probe.name, width=width))
    try:
        shown = _run(frame.as_uri(), "--window-size=1400,1000", *(_DARK if is_dark else ()), "--dump-dom")
    finally:
        probe.unlink()
        frame.unlink()
    text = re.search(r'<pre id="measured">(.*?)</pre>', shown, re.DOTALL)
    if text is None:
        raise ValueError(f"page={page!r} was not measured: {shown[:500]}")
    found: dict[str, Any] = json.loads(html.unescape(text[1]))
    return found


def main(site: pathlib.Path, out: pathlib.Path) -> None:
    """A PNG file for each page, width and scheme of colours."""
    out.mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        for kind, width in _WIDTHS.items():
            for colors, options in (("light", ()), ("dark", _DARK)):
                height = _HEIGHT.get(page.partition("/")[0], _SHORT)
                target = out / f"{page.replace('/', '-')}-{kind}-{colors}.png"
                url = (site / f"{page}.html").resolve().as_uri()
                _run(url, f"--window-size={width},{height}", *options, f"--screenshot={target}")
                print(target)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
