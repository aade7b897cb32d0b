"""Pages to learn from: sessions and notebooks print what stands there, pictures are what their code draws, and every
number in the prose was worked out on the page or has its source beside it.
"""

import re
import runpy

import pytest
from tests.docs import outputs, sessions

from epsilog.reports import make_standalone

LEARN = sorted((outputs.ROOT / "docs/learn").glob("*.md"))
NOTEBOOKS = sorted((outputs.ROOT / "docs/notebooks").glob("*.md"))
REFRESH = "the page shows old output: run `python tests/docs/sessions.py PAGE`"


def by_name(page):
    return page.stem


@pytest.mark.slow
@pytest.mark.parametrize("page", [outputs.ROOT / "docs/index.md", *LEARN], ids=by_name)
def test_a_session_prints_what_stands_there(page):
    text = page.read_text(encoding="utf-8")
    steps = list(sessions.printed(text))
    assert bool(steps) == ("```pycon" in text)
    for source, want, out in steps:
        assert out == want, f"{REFRESH}\n{source}"


@pytest.mark.slow
@pytest.mark.every(2)
@pytest.mark.parametrize("page", NOTEBOOKS, ids=by_name)
def test_a_notebook_prints_what_stands_there(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = list(sessions.cells(page.read_text(encoding="utf-8")))
    assert len(done) >= 5
    for source, want, out in done:
        assert out == (want or ""), f"{REFRESH}\n{source}"


@pytest.mark.parametrize("page", LEARN, ids=by_name)
def test_every_number_was_worked_out_or_has_its_source(page):
    assert sessions.unfounded(page.read_text(encoding="utf-8")) == []


def test_a_number_without_a_source_is_noticed():
    session = "```pycon\n>>> 10 * 0.5\n5.0\n```\n"
    assert sessions.unfounded(f"It costs 5, at 0.5.\n\n{session}") == []
    assert sessions.unfounded(f"It costs 5.1, at 0.5.\n\n{session}") == ["5.1"]
    assert sessions.unfounded("| who | epsilon 4 |\n| [who](https://example.org) | epsilon 8 |\n") == ["4"]


@pytest.mark.parametrize("name", sorted(path.name for path in (outputs.ROOT / "docs/images").glob("learn-*.svg")))
def test_every_figure_is_used_on_a_page_and_described(name):
    pages = "".join(page.read_text(encoding="utf-8") for page in LEARN)
    assert [said for said in re.findall(rf"!\[([^\]]*)\]\(\.\./images/{name}\)", pages) if len(said) > 30]


@pytest.mark.extended
@pytest.mark.parametrize(("script", "prefix"), [("learn_figures", "learn"), ("certificate_figures", "certificate")])
def test_figures_are_what_their_script_draws(script, prefix):
    figures = runpy.run_path(str(outputs.ROOT / f"scripts/{script}.py"))["FIGURES"]
    kept = {path.name: path.read_text() for path in (outputs.ROOT / "docs/images").glob(f"{prefix}-*.svg")}
    assert {f"{prefix}-{name}.svg" for name in figures} == kept.keys()
    for name, draw in figures.items():
        assert make_standalone(draw()) + "\n" == kept[f"{prefix}-{name}.svg"], f"run scripts/{script}.py"
