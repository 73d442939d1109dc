"""Formulas as MathML, made when the site is built: they are read without a network, and without JavaScript."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml

_MISSING = {r"\dots": r"\ldots", r"\big": r"\bigl", r"\Big": r"\Bigl", r"\bigg": r"\biggl"}
"""What docutils does not know, and what looks the same."""


def _mathml(latex: str, *, as_block: bool) -> str:
    for name, other in _MISSING.items():
        latex = re.sub(re.escape(name) + r"(?![A-Za-z])", lambda _, other=other: other, latex)
    return latex2mathml.tex2mathml(latex.strip(), as_block=as_block)


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="formula") + _mathml(node.astext(), as_block=True) + "</div>")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
