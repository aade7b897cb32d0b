"""How Sphinx builds these pages: Markdown through MyST, the Python reference from docstrings."""

import re
from fnmatch import fnmatch
from importlib import metadata
from typing import Any

project = "epsilog"
author = "the epsilog maintainers"
copyright = "the epsilog maintainers, Apache-2.0"  # noqa: A001 - Sphinx asks for this name
release = metadata.version("epsilog")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"epsilog {release}"
html_copy_source = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Source"]


def keep_what_exists(app: Any, page: str, source: list[str]) -> None:
    """Leaves out of the index the globs of parts whose pages are not written yet."""
    if page == "index":
        lines = source[0].split("\n")
        globs = [line for line in lines if re.fullmatch(r"[\w/-]+\*", line)]
        empty = {glob for glob in globs if not any(fnmatch(name, glob) for name in app.env.found_docs)}
        source[0] = "\n".join(line for line in lines if line not in empty)


def setup(app: Any) -> None:
    """Connects the above."""
    app.connect("source-read", keep_what_exists)
