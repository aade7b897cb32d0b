"""The built front end as files: small, self-contained, and two calculators as one file each."""

import base64
import gzip
import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import epsilog.server
from epsilog.server import build_embed_html, embeds, pages
from epsilog.server.pages import PAGE_NAMES
from epsilog.terms import EpsilogError
from epsilog.terms.extras import install_command

STATIC = Path(epsilog.server.__file__).parent / "static"
FIRST_LOAD, ALL = 45_000, 180_000  # bytes, gzipped
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


@built
def test_pages_have_no_inline_code(site):
    for path in (
        "/",
        *(f"/{room}" for room in PAGE_NAMES),
        "/runs/exam-scores-1",
        "/embed/federated",
        "/embed/queries",
    ):
        found = site.ask("GET", path)
        assert found.status == 200
        text = found.body.decode()
        assert not re.search(r"<script(?![^>]*\bsrc=)", text)
        assert "<style" not in text
        assert " style=" not in text


@built
def test_an_unknown_address_is_a_page_to_a_browser_and_a_problem_to_others(site):
    found = site.ask("GET", "/nothing", headers={"Accept": "text/html,*/*"})
    assert (found.status, found.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert site.ask("GET", "/nothing").headers["content-type"] == "application/problem+json"


@built
def test_assets_are_cached_for_ever_and_pages_are_not(site):
    page = site.ask("GET", "/")
    assert page.headers["cache-control"] == "no-cache"
    name = re.search(r'src="(/assets/[^"]+\.js)"', page.body.decode())[1]
    asset = site.ask("GET", name, headers={"Accept-Encoding": "gzip"})
    assert "immutable" in asset.headers["cache-control"]
    assert asset.headers["content-encoding"] == "gzip"


@built
@pytest.mark.parametrize("name", ["federated", "queries"])
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


def test_an_unknown_embed_is_refused():
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
