"""The documentation site: ``sphinx-build -W -b html docs <out>``."""

import pathlib
import sys
from typing import Any

_HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(_HERE), str(_HERE.parent)]

import _docstrings  # noqa: E402
import _generate  # noqa: E402

import jaxacct  # noqa: E402

project = "jaxacct"
author = "the jaxacct authors"
release = version = jaxacct.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
exclude_patterns = ["_*"]
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"jaxacct {release}"
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}

default_role = "py:obj"  # `name` in a docstring: a link where there is such a name, code elsewhere
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # shapes and units are in the text
autodoc_class_signature = "mixed"
napoleon_numpy_docstring = False
napoleon_use_rtype = False

PLACEHOLDERS = {
    "<!-- support matrix -->": _generate.support_matrix,
    "<!-- api reference -->": _generate.api_reference,
}


def _fill(app: Any, docname: str, source: list[str]) -> None:
    for mark, make in PLACEHOLDERS.items():
        if mark in source[0]:
            source[0] = source[0].replace(mark, make())


def setup(app: Any) -> None:
    """Tables are made from the package when their page is read; docstrings are read as the prose that they are."""
    app.connect("source-read", _fill)
    app.connect("autodoc-process-docstring", _docstrings.process, priority=400)
