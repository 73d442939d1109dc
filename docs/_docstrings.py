"""Docstrings are plain prose: what reStructuredText would take for markup is made literal, papers become links."""

import itertools
import re
from typing import Any

from jaxacct._citations import linked

_SECTION = re.compile(r"^(Args|Returns|Raises|Attributes|Yields):$")
_ITEM = re.compile(r"^\s*([-*]|\d+\.) ")
_CODE = re.compile(r"(``?[^`]+``?)")
_PAGE = re.compile(r"docs/([\w/]+)\.md")


def _escaped(line: str) -> str:
    """`line` with stars, bars and trailing underscores outside `code` taken as they are."""
    parts = _CODE.split(line)
    return "".join(p if i % 2 else re.sub(r"([*|]|_(?=\W|$))", r"\\\1", p) for i, p in enumerate(parts))


def literal(lines: list[str]) -> list[str]:
    """The docstring with formulas and code, which are indented blocks after a blank line, as literal blocks."""
    out: list[str] = []
    in_section = in_block = is_item = False
    for i, line in enumerate(lines):
        blank, indented = not line.strip(), line.startswith("  ")
        after_blank = i > 0 and not lines[i - 1].strip()
        if not blank and not indented:
            in_section, in_block, is_item = bool(_SECTION.match(line)), False, bool(_ITEM.match(line))
        elif indented and after_blank and not in_section and not in_block and not _ITEM.match(line) and not is_item:
            out += ["::", ""]
            in_block = True
        plain = in_block or blank or line.lstrip().startswith((">>>", "...")) or _is_output(lines, i)
        if plain:
            out.append(line)
            continue
        if _ITEM.match(line):
            marker = _ITEM.match(line).group()  # type: ignore[union-attr]
            out.append(marker + _escaped(line[len(marker) :]))
        else:
            out.append(_escaped(line))
    return out


def _is_output(lines: list[str], i: int) -> bool:
    """Whether line i is what a doctest prints."""
    while i >= 0 and lines[i].strip():
        if lines[i].lstrip().startswith(">>>"):
            return True
        i -= 1
    return False


def with_links(lines: list[str]) -> list[str]:
    """The docstring with links to papers, outside code and blocks."""
    runs = itertools.groupby(enumerate(lines), lambda pair: _is_output(lines, pair[0]) or pair[1].startswith("    "))
    out: list[str] = []
    for is_plain, run in runs:
        text = "\n".join(line for _, line in run)
        parts = [text] if is_plain else _CODE.split(text)
        parts[::2] = parts[::2] if is_plain else [_PAGE.sub(_page_link, linked(part, _link)) for part in parts[::2]]
        out += "".join(parts).split("\n")
    return out


def _link(name: str, address: str) -> str:
    return f"`{name} <{address}>`__"


def _page_link(found: re.Match[str]) -> str:
    """From a page of the reference, which is one folder down."""
    return _link(found[0], f"../{found[1]}.html")


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """For `autodoc-process-docstring`, before napoleon."""
    lines[:] = with_links(literal(lines))
