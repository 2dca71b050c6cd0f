"""Settings of Sphinx for the site; ``build.py`` calls it."""

import re
from functools import cache
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

from framefold import __version__

project = "framefold"
author = "the framefold developers"
project_copyright = "the framefold developers; MIT or Apache-2.0"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
# Links to headings, as code hosts make them.
myst_heading_anchors = 4
# Formulas are MathML, which browsers draw themselves: no script, from here or elsewhere.
html_math_renderer = "mathml"

autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
# Types as they are written, not all that they stand for.
autodoc_type_aliases = {
    "npt.DTypeLike": "numpy.typing.DTypeLike",
    "npt.ArrayLike": "numpy.typing.ArrayLike",
}
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Results", "params_style")]
# Attributes are members that are listed anyway.
napoleon_use_ivar = True
# Python's own `slice` in an annotation is also what several classes have an attribute for.
suppress_warnings = ["ref.python"]

html_title = "framefold"
html_theme = "pydata_sphinx_theme"
html_favicon = "_static/framefold.svg"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["framefold.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "logo": {
        "text": "framefold",
        "image_light": "_static/framefold.svg",
        "image_dark": "_static/framefold.svg",
    },
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def _inline(translator: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    """Write a formula on lines of its own."""
    translator.body.append(tex2mathml(node.astext(), as_block=True))
    raise nodes.SkipNode


def _short_types(_app: Sphinx, *args: Any) -> tuple[str | None, str | None]:
    """Write `DTypeLike | None` where Sphinx writes how it keeps that name unresolved."""
    signature, returned = args[-2:]
    shorter = [
        text and re.sub(r"TypeAliasForwardRef\('(?:\w+\.)*(\w+)'\)", r"\1", text)
        for text in (signature, returned)
    ]
    return shorter[0], shorter[1]


class _English(SearchEnglish):
    """English words for the search: each is taken to its stem once, not once for every page."""

    @cache  # noqa: B019 - there is one, as long as the site is built
    def stem(self, word: str) -> str:
        return super().stem(word)


def setup(app: Sphinx) -> None:
    """Add what Sphinx does not have."""
    app.add_search_language(_English)
    app.connect("autodoc-process-signature", _short_types)
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
