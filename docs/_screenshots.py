"""Pictures of the built site, wide and narrow, light and dark, to be looked at: ``_screenshots.py SITE OUT``.

Chromium is needed. Pages are those that a reader meets first, one of a paper, and every notebook with its figures.
"""

import pathlib
import shutil
import subprocess
import sys

_PAGES = (
    *("index", "first_statement", "explorer", "words", "which_sampling", "command_line", "papers/random_allocation"),
    *(f"notebooks/{name}" for name in ("quickstart", "sweeps", "training")),
    *(f"notebooks/{name}" for name in ("random_allocation", "shuffling", "shuffled_batches", "check_ins")),
)
_WIDTHS = {"wide": 1300, "narrow": 420}  # pixels
_HEIGHT = {"notebooks": 7000}  # pixels; of other pages _SHORT
_SHORT = 2200
_DARK = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main(site: pathlib.Path, out: pathlib.Path) -> None:
    """A PNG file for each page, width and scheme of colours."""
    browser = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise SystemExit(f"one of {', '.join(_BROWSERS)} must be installed")
    out.mkdir(parents=True, exist_ok=True)
    for page in _PAGES:
        for kind, width in _WIDTHS.items():
            for colors, options in (("light", ()), ("dark", _DARK)):
                height = _HEIGHT.get(page.partition("/")[0], _SHORT)
                target = out / f"{page.replace('/', '-')}-{kind}-{colors}.png"
                command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
                command += [f"--window-size={width},{height}", "--virtual-time-budget=5000", *options]
                command += [f"--screenshot={target}", (site / f"{page}.html").resolve().as_uri()]
                subprocess.run(command, check=True, capture_output=True)
                print(target)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
