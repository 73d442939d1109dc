"""Brings the numbers that pages state up to date, where bench/ measured them.

    python docs/_restate.py

Each claim of `tests/docs/test_stated_numbers.py` that is read from a table of bench/ is found on its page by its words,
and its numbers are written anew. Prints the texts that change, and those that stand on no page, or more than once.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests/docs"))

from support.stated import Claim  # noqa: E402
from test_stated_numbers import MEASURED  # noqa: E402

_PLACE = r"\{[^}]*\}"
_NUMBER = r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?"


def _words(text: str) -> str:
    """A pattern of the same words, wherever their lines break."""
    return re.sub(r"(\\\s)+", lambda _: r"\s+", re.escape(text))


def _alike(value: str) -> str:
    """A pattern of the same words with any numbers."""
    return _NUMBER.join(map(_words, re.split(_NUMBER, value)))


def restated(text: str, claim: Claim) -> str:
    """`text` with the claim's numbers; raises LookupError unless its words stand there once."""
    values = [place.format(n) for place, n in zip(re.findall(_PLACE, claim.text), claim.numbers(), strict=True)]
    first, *others = map(_words, re.split(_PLACE, claim.text))
    pattern = first + "".join(f"({_alike(value)}){after}" for value, after in zip(values, others, strict=True))
    found = list(re.finditer(pattern, text))
    if len(found) != 1:
        raise LookupError(f"stands {len(found)} times on {claim.page}: {claim.text}")
    for group in range(len(values), 0, -1):
        start, end = found[0].span(group)
        text = text[:start] + values[group - 1] + text[end:]
    return text


def main() -> int:
    """0; 1 if a claim was not found on its page."""
    lost = 0
    for claim in MEASURED:
        path = ROOT / claim.page
        before = path.read_text()
        try:
            after = restated(before, claim)
        except LookupError as error:
            print(error)
            lost += 1
            continue
        if after != before:
            path.write_text(after)
            print(f"{claim.page}: {claim.text}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
