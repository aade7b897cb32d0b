"""The docs under /docs: every link leads somewhere, nothing runs inline, and without them the server says so."""

import json
import re
from collections import defaultdict
from pathlib import Path
from posixpath import dirname, join, normpath

import pytest
from tests.docs.built import built_in, hatch_build

from epsilog.server import docs


@pytest.fixture
def built(monkeypatch, tmp_path):
    """A front and one page, as far as the server is concerned."""
    folder = tmp_path / "built"
    (folder / "how-to").mkdir(parents=True)
    (folder / "index.html").write_text("front", encoding="utf-8")
    (folder / "how-to/a.html").write_text("a page", encoding="utf-8")
    (tmp_path / "secret.html").write_text("no page", encoding="utf-8")
    monkeypatch.setattr(docs, "BUILT", folder)
    return folder


def test_pages_are_served_under_the_policy_of_all_pages(site, built):
    for path, body in (("/docs/", b"front"), ("/docs/index.html", b"front"), ("/docs/how-to/a.html", b"a page")):
        found = site.ask("GET", path)
        assert (found.status, found.body) == (200, body)
        assert found.headers["content-type"] == "text/html; charset=utf-8"
        assert "script-src 'self'; style-src 'self'" in found.headers["content-security-policy"]
    moved = site.ask("GET", "/docs")
    assert (moved.status, moved.headers["location"]) == (308, "/docs/")


@pytest.mark.parametrize(
    "path",
    [
        *("none.html", "how-to", "../secret.html", "%2e%2e/secret.html", "..%2fsecret.html", "index.html/x"),
        pytest.param("a" * 5000, id="longer than any name"),
    ],
)
def test_there_is_nothing_else(site, built, path):
    found = site.ask("GET", f"/docs/{path}")
    assert found.status == 404
    assert b"no page" not in found.body


def test_without_docs_the_server_says_how_to_build_them(site, monkeypatch, tmp_path):
    monkeypatch.setattr(docs, "BUILT", tmp_path)
    found = site.ask("GET", "/docs/")
    assert found.status == 503
    text = found.body.decode()
    assert "make docs" in text
    (page, anchor) = re.search(r'href="https://[^"]*/blob/main/([^"#]+)#([^"]+)"', text).groups()
    there = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    assert re.search(rf"^## {anchor.replace('-', '.{1,2}')}$", there, re.MULTILINE | re.IGNORECASE)
    assert site.ask("GET", "/docs/how-to/a.html").status == 503


def test_a_wheel_carries_docs_of_these_sources_only(monkeypatch, tmp_path, capsys):
    build = hatch_build()
    monkeypatch.setattr(build, "build", lambda: None)
    monkeypatch.setattr(build, "BUILT_DOCS", build.ROOT / "none")
    carried = {"artifacts": []}
    build.CustomBuildHook.initialize(None, "standard", carried)
    assert carried["artifacts"] == []
    assert "make wheel" in capsys.readouterr().err
    monkeypatch.setattr(build, "docs_are_built", lambda: True)
    build.CustomBuildHook.initialize(None, "standard", carried)
    assert carried["artifacts"] == ["none/**"]


def test_docs_answer_to_every_page_and_docstring(monkeypatch, tmp_path):
    build = hatch_build()
    for name in ("DOCS", "ROOT", "BUILT_DOCS"):
        monkeypatch.setattr(build, name, tmp_path / {"DOCS": "docs", "ROOT": "", "BUILT_DOCS": "built"}[name])
    for name in ("docs/a.md", "src/b.py", "pyproject.toml", "built/sources.sha256"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("before", encoding="utf-8")
    for name in ("docs/a.md", "src/b.py"):
        (tmp_path / "built/sources.sha256").write_text(build.docs_fingerprint())
        assert build.docs_are_built()
        (tmp_path / name).write_text("after", encoding="utf-8")
        assert not build.docs_are_built()


def linked(text):
    """The pages of the docs that a page's source leads to: from its fields, from its sentences, and otherwise."""
    learn = (f"learn/{page}.html" for page in re.findall(r'<Learn page="([^"]+)"', text))
    plain = (page or "index.html" for page in re.findall(r'"/docs/([^"]*)"', text))
    return [*re.findall(r'explained: "([^"]+)"', text), *learn, *plain]


def test_fields_of_the_calculators_say_where_they_are_explained():
    """A test of the built docs looks them up."""
    folder = Path(__file__).parents[2] / "web/src/pages"
    for page, many in (("Federated", 18), ("Queries", 9), ("Playground", 8)):
        text = (folder / f"{page}.tsx").read_text(encoding="utf-8")
        assert len(re.findall(r'explained: "', text)) >= many, page


@pytest.mark.slow
def test_every_link_of_the_built_docs_leads_somewhere_and_nothing_is_inline(tmp_path_factory):
    folder = built_in(tmp_path_factory)
    pages = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*.html")}
    assert len(pages) > 70
    ids = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in pages.items()}
    broken = defaultdict(set)
    for page, text in pages.items():
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|<\w[^>]*\s(?:style|on\w+)=|=\"javascript:", text), page
        for tag, target in re.findall(r'<(\w+)\b[^>]*?\s(?:href|src)="([^"]*)"', text):
            if target.startswith(("https://", "http://", "mailto:")):
                assert tag == "a", f"{page} fetches {target}"
                continue
            file, _, anchor = target.partition("#")
            there = page if not file else normpath(join(dirname(page), file.partition("?")[0]))
            unsearched = tag == "script" and there in {"searchindex.js", "_static/language_data.js"}
            if target != "/" and not unsearched and not (folder / there).is_file():
                broken[target].add(page)
            if anchor and there in ids and anchor not in ids[there]:
                broken[target].add(page)
    assert not broken
    unknown = [
        (file.name, target)
        for file in (Path(__file__).parents[2] / "web/src").rglob("*.tsx")
        for target in linked(file.read_text(encoding="utf-8"))
        if (page := target.partition("#")[0]) not in pages
        or ("#" in target and target.partition("#")[2] not in ids[page])
    ]
    assert not unknown, "the pages lead to docs that are not there"
    assert pages["tutorial.html"].count('class="term reference') > 5  # with the glossary
    notebooks = sorted(folder.glob("notebooks/*.ipynb"))
    assert len(notebooks) == 3
    for notebook in notebooks:
        assert f'href="{notebook.name}" download' in pages[f"notebooks/{notebook.stem}.html"]
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        assert [cell["cell_type"] for cell in cells[:3]] == ["markdown", "code", "markdown"]
        assert sum(len(cell.get("outputs", ())) for cell in cells) > 3
