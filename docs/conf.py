"""How Sphinx builds these pages: Markdown through MyST, the Python reference from docstrings, and a look of our own."""

import gc
import json
import re
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, get_type_hints

import typer
from docutils import nodes
from docutils.parsers.rst import Directive
from latex2mathml.converter import convert
from sphinx.addnodes import toctree
from sphinx.domains.python import PythonDomain
from sphinx.pycode.parser import Parser
from sphinx.search.en import SearchEnglish

project = "epsilog"
author = "the epsilog maintainers"
copyright = "the epsilog maintainers, Apache-2.0"  # noqa: A001 - Sphinx asks for this name
release = metadata.version("epsilog")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "theme"]
html_theme = "theme"
html_theme_path = ["."]
html_title = f"epsilog {release}"
html_favicon = "../web/public/favicon.svg"
html_copy_source = html_show_sourcelink = False
html_use_index = False  # the search knows every name
html_domain_indices = False
toc_object_entries = False
html_math_renderer = "mathml"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Source"]

CELL = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
LINKED = re.compile(r"index|install|learn/.*|notebooks/.*|how-to/.*|tutorial|own-data|playbook|ledger|training|models")
NOT_LINKED = {  # everyday words, which mostly mean something else
    *("advantage", "approximate", "available", "block", "bundle", "cap", "committed", "filter", "head", "pure"),
    *("release", "reserved", "scope", "spent"),
}
NO_PLACE = (nodes.literal, nodes.literal_block, nodes.reference, nodes.title, nodes.raw, nodes.image)


class Quick(PythonDomain):
    """Looks for a name among all that end so only if there is one: ``float`` alone took a sixth of a build's time."""

    def find_obj(self, env: Any, modname: Any, classname: Any, name: str, *kind: Any) -> Any:
        """What Sphinx finds: whatever it is, it ends with the last part of ``name``."""
        if not hasattr(self, "ends") or self.ends[0] != len(self.objects):
            self.ends = len(self.objects), {known.rpartition(".")[2] for known in self.objects}
        if name.removesuffix("()").rpartition(".")[2] not in self.ends[1]:
            return []
        return super().find_obj(env, modname, classname, name, *kind)


@cache
def help_texts() -> dict[str, str]:
    """Return what each command prints for ``--help`` in a window of 88 columns."""
    from epsilog.cli.app import load  # noqa: PLC0415 - the settings alone need no library

    def walk(command: Any, name: str) -> dict[str, str]:
        context = command.context_class(command, info_name=name, terminal_width=86)  # click leaves two columns free
        lines = [line.rstrip() for line in command.get_help(context).splitlines()]
        found = {name: "\n".join(lines).strip("\n")}
        for word, inner in getattr(command, "commands", {}).items():
            found |= walk(inner, f"{name} {word}")
        return found

    return walk(typer.main.get_command(load()), "epsilog")


class Help(Directive):
    """Show the help of a command, as this build's command line prints it."""

    required_arguments, final_argument_whitespace = 1, True

    def run(self) -> list[Any]:
        """Return the block."""
        text = f"$ {self.arguments[0]} --help\n{help_texts()[self.arguments[0]]}"
        block = nodes.literal_block(text, text)
        block["language"] = "console"
        return [block]


def show_plain_types(app: Any, described: Any, bound_method: bool) -> None:  # noqa: ARG001
    """Leave the rules of a field out of its type: the attributes below say them in words."""
    with suppress(AttributeError, NameError, TypeError):  # some names are imported for type checkers only
        described.__annotations__ = get_type_hints(described)


def sections(app: Any) -> list[tuple[str, list[tuple[str, str]]]]:
    """The parts of the site with their pages, as the index lists them; a page's own subpages come after it."""

    def below(page: str) -> list[str]:
        return [page, *(one for child in app.env.toctree_includes.get(page, ()) for one in below(child))]

    found = []
    for tree in app.env.get_doctree(app.config.root_doc).findall(toctree):
        pages = [one for page in tree["includefiles"] for one in below(page)]
        found.append((tree["caption"], [(page, app.env.titles[page].astext()) for page in pages]))
    return found


def in_every_page(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:  # noqa: ARG001
    """What the frame shows around each page."""
    if not hasattr(app, "epsilog_sections"):
        app.epsilog_sections = sections(app)
    context["sections"], context["served"] = app.epsilog_sections, app.tags.has("served")


def name_terms(app: Any, doctree: Any) -> None:
    """Give each term of the glossary its own anchor."""
    if app.env.docname != "glossary":
        return
    for term in doctree.findall(nodes.term):
        for strong in term.findall(nodes.strong):
            for name in strong.astext().split(", "):
                term["ids"].append("term-" + re.sub(r"\W+", "-", name.lower()))


def glossary(app: Any) -> dict[str, tuple[str, str]]:
    """Every term in lower case, with its anchor and the first sentence about it."""
    if getattr(app, "epsilog_terms", None) is None:
        app.epsilog_terms = {}
        for item in app.env.get_doctree("glossary").findall(nodes.definition_list_item):
            says = re.split(r"(?<=[.:;]) ", item.next_node(nodes.definition).astext().replace("\n", " "))[0]
            for strong in item.next_node(nodes.term).findall(nodes.strong):
                for name in strong.astext().split(", "):
                    anchor = "term-" + re.sub(r"\W+", "-", name.lower())
                    if name.lower() not in NOT_LINKED:
                        app.epsilog_terms[name.lower()] = (anchor, says.rstrip(":;"))
    return app.epsilog_terms


def link_terms(app: Any, doctree: Any, page: str) -> None:
    """Links a page's first use of each term with the glossary, where it can be read without clicking."""
    if not LINKED.fullmatch(page):
        return
    terms, seen = glossary(app), set()
    longest_first = sorted(terms, key=len, reverse=True)
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, longest_first))})s?\b", re.IGNORECASE)
    home = app.builder.get_relative_uri(page, "glossary")
    for paragraph in list(doctree.findall(nodes.paragraph)):
        for text in list(paragraph.findall(nodes.Text)):
            place = text.parent
            while place is not paragraph and not isinstance(place, NO_PLACE):
                place = place.parent
            if place is not paragraph or text.parent is not paragraph:
                continue
            pieces, at = [], 0
            for match in pattern.finditer(text):
                term = match[1].lower()
                if term in seen:
                    continue
                seen.add(term)
                anchor, says = terms[term]
                pieces += [nodes.Text(text[at : match.start()])] if match.start() > at else []
                link = nodes.reference("", match[0], internal=True, refuri=f"{home}#{anchor}", reftitle=says)
                link["classes"].append("term")
                pieces.append(link)
                at = match.end()
            if pieces:
                text.parent.replace(text, [*pieces, nodes.Text(text[at:])])


def let_tables_scroll(app: Any, doctree: Any, page: str) -> None:  # noqa: ARG001
    """Puts each table where it may be wider than a narrow screen."""
    for table in list(doctree.findall(nodes.table)):
        place = nodes.container(classes=["scroll"])
        table.replace_self(place)
        place += table


def write_formula(visitor: Any, node: Any) -> None:
    """Write a formula as MathML, which browsers show without a script."""
    block = isinstance(node, nodes.math_block)
    formula = convert(node.astext(), display="block" if block else "inline")
    if unread := re.search(r">(\\[a-zA-Z]*|&)<", formula):  # the converter lets what it does not know stand
        raise ValueError(f"a formula has {unread[1]!r}, which has no MathML here: {node.astext()}")
    visitor.body.append(f'<div class="math scroll">{formula}</div>\n' if block else formula)
    raise nodes.SkipNode


def notebooks(app: Any, failure: Exception | None) -> None:
    """Writes each notebook as one for Jupyter: its text as Markdown, its code with what it prints."""
    if failure is not None or app.builder.name != "html":
        return
    for page in sorted((Path(app.srcdir) / "notebooks").glob("*.md")):
        cells: list[dict[str, Any]] = []
        at, text = 0, page.read_text(encoding="utf-8")
        for match in CELL.finditer(text):
            out = [] if match[2] is None else [{"output_type": "stream", "name": "stdout", "text": match[2]}]
            code = {"execution_count": None, "source": match[1].rstrip("\n"), "outputs": out}
            cells += [_cell("markdown", len(cells), source=text[at : match.start()].strip())]
            cells += [_cell("code", len(cells), **code)]
            at = match.end()
        cells.append(_cell("markdown", len(cells), source=text[at:].strip()))
        python = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": python, "cells": cells}
        out = Path(app.outdir, "notebooks", f"{page.stem}.ipynb")
        out.write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8")


def _cell(kind: str, number: int, **fields: Any) -> dict[str, Any]:
    return {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, **fields}


def before_building(app: Any) -> None:
    """Look for no garbage, and stem each word once: a quarter of the time. A test needs no index of the search.

    Pages show no part of a source file, so the lines of definitions are not looked for: an eighth of the time.
    """
    gc.freeze()
    gc.disable()
    Parser.parse_definition = lambda _: None
    SearchEnglish.stem = cache(SearchEnglish.stem)
    app.builder.search = not app.tags.has("unsearched")


def setup(app: Any) -> None:
    """Connects the above."""
    app.add_domain(Quick, override=True)
    app.add_directive("help", Help)
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
    app.connect("builder-inited", before_building)
    app.connect("autodoc-before-process-signature", show_plain_types)
    app.connect("doctree-read", name_terms)
    app.connect("doctree-resolved", link_terms)
    app.connect("doctree-resolved", let_tables_scroll)
    app.connect("build-finished", notebooks)
    app.connect("html-page-context", in_every_page)
