"""The built pages, docs and embeds as files: small, self-contained, and nothing inline."""

import base64
import gzip
import hashlib
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from posixpath import dirname, join, normpath

import pytest
from tests.docs.built import built_in, hatch_build

import epsilog.server
from epsilog.certificates import find_checker
from epsilog.server import build_embed_html, embeds, pages
from epsilog.server.pages import EMBED_NAMES, PAGE_NAMES
from epsilog.terms import EpsilogError
from epsilog.terms.extras import install_command

STATIC = Path(epsilog.server.__file__).parent / "static"
FIRST_LOAD, ALL = 45_000, 206_000  # bytes, gzipped; all pages, embeds and single files
built = pytest.mark.skipif(
    not (STATIC / "index.html").is_file(), reason="the pages are not built: run python hatch_build.py"
)


def size(path):
    return len(gzip.compress(path.read_bytes(), 9))


@built
def test_first_load_is_small():
    page = (STATIC / "index.html").read_text()
    named = {STATIC / name for name in re.findall(r'(?:src|href)="/(assets/[^"]+)"', page)}
    imported = {
        STATIC / "assets" / name
        for js in named
        if js.suffix == ".js"
        for name in re.findall(r'from"\./([^"]+)"', js.read_text())
    }
    assert len(named | imported) >= 2
    assert sum(map(size, named | imported)) < FIRST_LOAD
    assert sum(size(path) for path in STATIC.rglob("*.*") if path.suffix in {".js", ".css"}) < ALL


@built
def test_nothing_points_outside():
    for path in STATIC.rglob("*.*"):
        if path.suffix in {".html", ".css", ".js"}:
            found = set(re.findall(r"https?://[^\s\"'`)<]+", path.read_text()))
            assert not {url for url in found if "www.w3.org" not in url}, path


ADDRESSES = ("/", *(f"/{name}" for name in PAGE_NAMES), *(f"/embed/{name}" for name in EMBED_NAMES))


@built
def test_each_page_tells_its_title_description_and_language_without_a_script(site):
    told = {}
    for path in ADDRESSES:
        found = site.ask("GET", path)
        text = found.body.decode()
        assert (found.status, found.headers["cache-control"]) == (200, "no-cache")
        assert '<html lang="en">' in text
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style| style=", text), path
        (title,) = re.findall("<title>(.*?)</title>", text)
        (description,) = re.findall('<meta name="description" content="(.*?)"', text)
        assert title == "epsilog" or title.endswith(" · epsilog")
        assert 40 <= len(description) <= 120, path
        told[title] = told[description] = path
    assert len(told) == 2 * len(ADDRESSES)
    run = site.ask("GET", "/runs/exam-scores-1").body.decode()
    assert "<title>Runs · epsilog</title>" in run
    lost = site.ask("GET", "/nothing", headers={"Accept": "text/html,*/*"})
    assert (lost.status, lost.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "<title>Page not found · epsilog</title>" in lost.body.decode()


@built
@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("br;q=0.8, gzip;q=1", "br"),
        ("gzip, BR ; q=1.0", "br"),
        ("gzip, br;q=0", "gzip"),
        ("br;q=0.000, identity", None),
        ("gzip, brotli, x-br", "gzip"),
        ("br;q=, identity", None),
        ("", None),
    ],
)
def test_an_asset_is_sent_in_an_encoding_that_the_client_accepts(site, accepted, encoding):
    for suffix in ("js", "css"):
        name = re.search(rf'"/(assets/[^"]+\.{suffix})"', site.ask("GET", "/").body.decode())[1]
        plain = (STATIC / name).read_bytes()
        found = site.ask("GET", f"/{name}", headers={"Accept-Encoding": accepted})
        expected = (STATIC / f"{name}.br").read_bytes() if encoding == "br" else plain
        assert (gzip.decompress(found.body) if encoding == "gzip" else found.body) == expected
        assert found.headers.get("content-encoding") == encoding
        assert found.headers["vary"] == "Accept-Encoding"
        assert "immutable" in found.headers["cache-control"]
        assert found.headers["content-type"].startswith(pages._MEDIA_TYPES[f".{suffix}"])
        tags = {site.ask("GET", f"/{name}", headers={"Accept-Encoding": each}).headers["etag"] for each in ("br", "")}
        assert len(tags) == 2


@pytest.mark.parametrize("name", pages.CHECKERS)
def test_checkers_are_served_unchanged(site, name):
    found = site.ask("GET", f"/checker/{name}")
    assert (found.status, found.body) == (200, find_checker(name).read_bytes())
    assert found.headers["content-type"].startswith("text/javascript" if name.endswith("mjs") else "text/x-python")


@built
@pytest.mark.parametrize("name", ["federated", "queries", "verdict"])
def test_an_embed_is_one_file_whose_policy_admits_its_script_only(name):
    page = build_embed_html(name)
    assert f"<epsilog-{name}>" in page
    script = re.search(r"<script>(.*)</script>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{digest}'" in page
    assert "connect-src" not in page  # default-src 'none': it can fetch nothing
    assert not re.search(r"<(?:link|img|iframe)|\ssrc=\"", page.replace(script, ""))


def test_without_built_pages_a_server_says_how_to_build_them(site, monkeypatch, tmp_path):
    monkeypatch.setattr(pages, "STATIC", tmp_path)
    monkeypatch.setattr(embeds, "_SCRIPT", tmp_path / "none.js")
    found = site.ask("GET", "/")
    assert found.status == 503
    assert "run python hatch_build.py" in found.json()["detail"]
    assert site.ask("GET", "/api/openapi.json").status == 200  # all else works
    with pytest.raises(EpsilogError, match=r"run python hatch_build\.py"):
        build_embed_html("queries")


def test_an_embeds_values_stay_in_their_attributes():
    page = build_embed_html("queries", {"epsilon": "2", "weights": '"><script>alert(1)</script>'})
    assert (
        '<epsilog-queries epsilon="2" weights="&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"></epsilog-queries>'
        in page
    )
    for name in ("on click", "x>y", "", "Epsilon", "a__b"):
        with pytest.raises(ValueError, match="values must be named like"):
            build_embed_html("queries", {name: "1"})
    with pytest.raises(ValueError, match="name must be one of"):
        build_embed_html("game")


@pytest.mark.slow
def test_the_front_ends_own_tests_pass():
    """Types and vitest, the shared vectors among them."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "hatch_build.py", "test"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"Tests\D*\d{4,} passed", re.sub(r"\x1b\[[\d;]*m", "", done.stdout)), done.stdout


@pytest.mark.slow
@built
def test_without_the_extra_the_rest_works_and_serve_says_what_is_missing():
    code = (
        "import sys; sys.modules['uvicorn'] = sys.modules['fastapi'] = None\n"
        "import epsilog.server\n"
        "assert '<epsilog-queries>' in epsilog.server.build_embed_html('queries')\n"
        "epsilog.server.serve()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert install_command("server") in done.stderr.splitlines()[-1]


@pytest.fixture
def built_docs(monkeypatch, tmp_path):
    """A front and one page, as far as the server is concerned."""
    folder = tmp_path / "built_docs"
    (folder / "how-to").mkdir(parents=True)
    (folder / "index.html").write_text("front", encoding="utf-8")
    (folder / "how-to/a.html").write_text("a page", encoding="utf-8")
    (tmp_path / "secret.html").write_text("no page", encoding="utf-8")
    monkeypatch.setattr(pages, "DOCS", folder)
    return folder


def test_pages_are_served_under_the_policy_of_all_pages(site, built_docs):
    for path, body in (("/docs/", b"front"), ("/docs/index.html", b"front"), ("/docs/how-to/a.html", b"a page")):
        found = site.ask("GET", path)
        assert (found.status, found.body) == (200, body)
        assert found.headers["content-type"] == "text/html; charset=utf-8"
        assert "script-src 'self'; style-src 'self'" in found.headers["content-security-policy"]
    moved = site.ask("GET", "/docs")
    assert (moved.status, moved.headers["location"]) == (308, "/docs/")
    for path in ("none.html", "how-to", "../secret.html", "%2e%2e/secret.html", "..%2fsecret.html", "index.html/x"):
        found = site.ask("GET", f"/docs/{path}")
        assert (found.status, b"no page" in found.body) == (404, False)
    assert site.ask("GET", f"/docs/{'a' * 5000}").status == 404


def test_without_docs_the_server_says_how_to_build_them(site, monkeypatch, tmp_path):
    monkeypatch.setattr(pages, "DOCS", tmp_path)
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
        monkeypatch.setattr(build, name, tmp_path / {"DOCS": "docs", "ROOT": "", "BUILT_DOCS": "built_docs"}[name])
    for name in ("docs/a.md", "src/b.py", "pyproject.toml", "built_docs/sources.sha256"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("before", encoding="utf-8")
    for name in ("docs/a.md", "src/b.py"):
        (tmp_path / "built_docs/sources.sha256").write_text(build.docs_fingerprint())
        assert build.docs_are_built()
        (tmp_path / name).write_text("after", encoding="utf-8")
        assert not build.docs_are_built()


def test_pages_are_built_anew_for_other_sentences(tmp_path, monkeypatch):
    build = hatch_build()
    before = build.fingerprint()
    monkeypatch.setattr(build, "CATALOGUE", tmp_path / "en.json")
    (tmp_path / "en.json").write_text("{}")
    assert build.fingerprint() != before


def linked(text):
    """The pages of the docs that a page's source leads to: from its fields, from its sentences, and otherwise."""
    learn = (f"learn/{page}.html" for page in re.findall(r'<LearnLink page="([^"]+)"', text))
    plain = (page or "index.html" for page in re.findall(r'"/docs/([^"]*)"', text))
    return [*re.findall(r'helpPage: "([^"]+)"', text), *learn, *plain]


@pytest.mark.slow
@pytest.mark.extended
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
    assert len(notebooks) == 2
    for notebook in notebooks:
        assert f'href="{notebook.name}" download' in pages[f"notebooks/{notebook.stem}.html"]
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        assert [cell["cell_type"] for cell in cells[:3]] == ["markdown", "code", "markdown"]
        assert sum(len(cell.get("outputs", ())) for cell in cells) > 3
