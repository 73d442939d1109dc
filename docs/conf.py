"""The documentation site: ``sphinx-build -W -b html docs <out>``."""

import functools
import html
import json
import os
import pathlib
import re
import sys
from typing import Any

_HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(_HERE), str(_HERE.parent)]

import _docstrings  # noqa: E402
import _explorer  # noqa: E402
import _generate  # noqa: E402

import jaxacct  # noqa: E402

project = "jaxacct"
author = "the jaxacct authors"
release = version = jaxacct.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "_mathml"]
html_math_renderer = "mathml"
exclude_patterns = ["_*"]
nb_execution_mode = "cache"  # a notebook runs again where its cells have changed
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_ipywidgets_js = {}  # they would come from another server: the picture below is shown
# widgets need what is not on the page: their picture is shown in their place
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"jaxacct {release}"
html_copy_source = False
html_baseurl = os.environ.get("DOCS_ADDRESS", "").rstrip("/")  # where the site is published
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["filter.js"]
html_favicon = html_logo = "_static/icon.svg"
DESCRIPTION = (
    "Differential privacy accounting in JAX, certified from both sides: Poisson sampling, random allocation, shuffled "
    "batches, shuffled reports and check-ins."
)

default_role = "py:obj"  # `name` in a docstring: a link where there is such a name, code elsewhere
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # shapes and units are in the text
autodoc_class_signature = "mixed"
napoleon_numpy_docstring = False
napoleon_use_rtype = False

PLACEHOLDERS = {
    "<!-- support matrix -->": _generate.support_matrix,
    "<!-- papers -->": _generate.papers,
    "<!-- explorer table -->": _explorer.inline,
    **{f"<!-- reference: {page} -->": functools.partial(_generate.reference, page) for page in _generate.PAGES},
}


def _fill(app: Any, docname: str, source: list[str]) -> None:
    for mark, make in PLACEHOLDERS.items():
        if mark in source[0]:
            source[0] = source[0].replace(mark, make())


def _describe(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """What search engines and links show of a page."""
    title = html.escape(re.sub("<[^>]*>", "", context.get("title") or project))
    facts = {"og:title": title, "og:description": DESCRIPTION, "og:type": "website", "og:site_name": project}
    if app.config.html_baseurl:  # the card's picture needs a whole address
        facts["og:image"] = f"{app.config.html_baseurl}/_static/epsilon.png"
    tags = [f'<meta name="description" content="{title}. {DESCRIPTION}" />']
    tags += [f'<meta property="{name}" content="{text}" />' for name, text in facts.items()]
    context["metatags"] = "\n".join([context.get("metatags", ""), *tags])


def _copy_notebooks(app: Any) -> None:
    """The notebooks of the repository beside the pages, without the cell that installs; they are run by the build."""
    for path in sorted((_HERE.parent / "notebooks").glob("*.ipynb")):
        notebook = json.loads(path.read_text())
        install = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
        notebook["cells"].remove(install)
        text, copy = json.dumps(notebook, indent=1), _HERE / "notebooks" / path.name
        copy.parent.mkdir(exist_ok=True)
        if not copy.exists() or copy.read_text() != text:  # what is unchanged is not run again
            copy.write_text(text)


def setup(app: Any) -> None:
    """Tables are made from the package when their page is read; docstrings are read as the prose that they are."""
    app.connect("builder-inited", _copy_notebooks)
    app.connect("source-read", _fill)
    app.connect("html-page-context", _describe)
    app.connect("autodoc-process-docstring", _docstrings.process, priority=400)
