"""The docs keep their word: code runs, links lead somewhere, commands and names have their place, output is real."""

import html
import importlib
import math
import re
import shutil
import sys
import tomllib
import zlib
from pathlib import Path

import pytest
import typer
from tests.test_contract import INTERNAL

sys.path.insert(0, str(Path(__file__).parent))
import outputs
from built import built_in

import epsilog as ep
from epsilog.plan import bound_attack
from epsilog.terms.formatting import format_lower, format_upper

ROOT = outputs.ROOT
PYTHON = ROOT / "docs/reference/python.md"
FACES = [
    face
    for page in sorted((ROOT / "docs/reference/python").glob("*.md"))
    for face in re.findall(r"^\.\. automodule:: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
]
LINK = re.compile(r"(?<!`)\[[^\]\n]*\]\(([^)\s]+)\)")
PARTS = sorted(
    f"epsilog.{face.parent.name}"
    for face in (ROOT / "src/epsilog").glob("*/__init__.py")
    if face.parent.name not in INTERNAL
)
ADAPTERS = [
    f"epsilog.adapters.{file.stem}"
    for file in sorted((ROOT / "src/epsilog/adapters").glob("[a-z]*.py"))
    if f"adapters.{file.stem}" not in INTERNAL
]


def commands():
    """Every command of the command line, as words."""
    from epsilog.cli.app import load

    app = load()

    def walk(command, name):
        inner = getattr(command, "commands", {})
        itself = [name] if not inner or command.invoke_without_command else []
        return itself + [found for word, one in inner.items() for found in walk(one, f"{name} {word}")]

    return walk(typer.main.get_command(app), "epsilog")


def sections():
    """The sections of the command reference: heading and text."""
    texts = [page.read_text(encoding="utf-8") for page in outputs.COMMANDS]
    parts = [part for text in texts for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]]
    return [(part.split("\n", 1)[0], part) for part in parts]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[] if page.stem == "README" else pytest.mark.slow)
        for page in (ROOT / "README.md", PYTHON, *sorted((ROOT / "docs/how-to").glob("*.md")))
        # tests/adapters/in_opacus runs the first, where PyTorch is, and test_monitor_a_run.py the second
        if page.stem not in ("train-with-pytorch", "monitor-a-run")
    ],
)
def test_python_in_the_docs_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = outputs.CODE.findall(page.read_text(encoding="utf-8"))
    if page.name in ("README.md", "python.md", "plan-a-schedule.md", "answer-queries.md", "charge-a-release.md"):
        assert blocks, f"{page.name} has lost its code"
    names = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)  # noqa: S102 - the docs are ours


@pytest.mark.slow
def test_arrays_become_a_report_as_the_page_on_own_data_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in outputs.CODE.findall((ROOT / "docs/own-data.md").read_text(encoding="utf-8")):
        exec(compile(block, "own-data.md", "exec"), names)  # noqa: S102 - the docs are ours
    assert names["outcome"].verification.status == "passed"
    assert names["outcome"].report["result"]["test_score"] > 0.8
    assert capsys.readouterr().out.endswith("2 [ 1.  0. nan]\n")


def test_the_readme_begins_with_the_two_commands():
    lines = [line.strip() for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line.strip()]
    assert [line.split("#")[0].strip() for line in lines[1:3]] == ["make run", "make test"]
    assert (ROOT / "docs/images/report.webp").stat().st_size < 200_000


def test_the_readmes_one_result_is_what_the_accountant_says():
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    sgd = ep.Repeated(ep.PoissonSampled(ep.Gaussian(1.0), 0.01), 1_000)
    cost = ep.epsilon(sgd, delta=1e-5)
    rates = bound_attack(sgd, delta=1e-5, relation=cost.relation)
    (found,) = (math.ceil(1000 * one["tpr"]) for one in rates if one["fpr"] == 0.01)
    assert f"costs epsilon {math.ceil(100 * cost.upper) / 100} at delta 1e-5" in text
    assert f"The best attack could pick out at most {found} of 1,000 people. Guessing finds 10." in text
    assert f"[{format_lower(cost.lower, 7)}, {format_upper(cost.upper, 7)}]" in text


@pytest.mark.parametrize("page", [*outputs.pages(), *ROOT.glob("[CS]*.md")], ids=lambda page: page.stem)
def test_links_lead_to_files(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if re.match(r"https?://|mailto:", target):
            continue
        file, _, anchor = target.partition("#")
        there = page.parent / file if file else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor and there.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), flags=re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs | {heading.lower().replace(".", "-") for heading in headings}, target


def test_every_command_has_a_section_with_an_example():
    texts = dict(sections())
    for command in commands():
        shown = texts[command]
        assert f"```{{help}} {command}\n" in shown
        typed = re.findall(r"^(?:    (?:\$ )?|\$ )(.*)$", shown, re.MULTILINE)
        assert any(f"{line} ".startswith(f"{command} ") for line in typed), f"{command} needs an example"


def test_the_command_reference_knows_no_others():
    assert sorted(heading for heading, _ in sections()) == sorted(commands())
    assert set(outputs.COMMANDS) == set((ROOT / "docs/reference/cli").glob("*.md"))


@pytest.mark.slow
def test_the_index_of_commands_links_each(tmp_path_factory):
    index = (built_in(tmp_path_factory) / "reference/cli.html").read_text(encoding="utf-8")
    for page in outputs.COMMANDS:
        for heading in re.findall(r"^## (epsilog .*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
            assert f'href="cli/{page.stem}.html#{heading.replace(" ", "-")}">{heading}</a>' in index


def quick():
    found = {}
    for page in outputs.pages():
        for command, output in outputs.blocks(page):
            if outputs.is_quick(command):
                found.setdefault((command, output), page)
    return [pytest.param(*key, id=f"{page.stem}: {key[0]}") for key, page in found.items()]


@pytest.mark.slow
@pytest.mark.parametrize(("command", "output"), quick())
def test_output_in_the_docs_is_what_the_command_prints(command, output, tmp_path):
    message = "the docs show old output: run `python tests/docs/outputs.py`"
    shutil.copytree(ROOT / "docs/examples", tmp_path / "docs/examples")
    assert outputs.printed(command, tmp_path) == output, message


def test_every_block_of_output_is_filled():
    for page in outputs.pages():
        for command, output in outputs.blocks(page):
            assert output.strip(), f"{page.name}: {command} shows nothing"
            assert "Traceback" not in output
            assert "cannot be read" not in output, f"{page.name}: {command} found nothing"


@pytest.mark.parametrize("part", PARTS + ADAPTERS)
def test_every_part_stands_in_the_python_reference_once(part):
    assert FACES.count(part) == 1


def test_every_recipe_and_every_page_of_the_reference_is_linked_from_its_index():
    for index, folder in ((ROOT / "docs/index.md", "how-to"), (PYTHON, "python")):
        table = [line for line in index.read_text(encoding="utf-8").splitlines() if line.startswith(("| ", "- ["))]
        for page in (index.parent / folder).glob("*.md"):
            assert any(f"]({folder}/{page.name})" in line for line in table), (
                f"{index.name} does not lead to {page.stem}"
            )


def test_the_install_page_has_every_extra_with_what_it_brings():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = re.findall(
        r"^\| `([\w-]+)` \| (.*?) \|", (ROOT / "docs/install.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    told = {extra: set(re.findall(r"`([\w-]+)`", brings)) for extra, brings in rows}
    wanted = {
        extra: {re.match(r"[\w-]+", package)[0] for package in packages}
        for extra, packages in project["optional-dependencies"].items()
    }
    assert told == wanted | {"all": set()}


def test_the_tutorial_begins_with_pip():
    text = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    assert 0 < text.index("pip install '.[train") < text.index("## 1.")
    assert "make run" not in text


@pytest.mark.slow
def test_formulas_are_mathml_without_a_script(tmp_path_factory):
    site = built_in(tmp_path_factory)
    for page in (ROOT / "docs").rglob("*.md"):
        count = page.read_text(encoding="utf-8").count("```{math}\n")
        if count:
            built = (site / page.relative_to(ROOT / "docs")).with_suffix(".html").read_text(encoding="utf-8")
            assert built.count('<div class="math scroll"><math ') == count, page
            assert "mathjax" not in built.lower()


@pytest.mark.slow
@pytest.mark.parametrize("page", outputs.COMMANDS, ids=lambda page: page.stem)
def test_the_built_reference_shows_the_help_of_every_command(page, tmp_path_factory):
    built = (built_in(tmp_path_factory) / f"reference/cli/{page.stem}.html").read_text(encoding="utf-8")
    text = html.unescape(re.sub(r"<[^>]*>", "", built))
    for command in re.findall(r"^## (epsilog .*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        assert f"$ {command} --help\nUsage: {command} [OPTIONS]" in text


@pytest.mark.slow
def test_the_docs_build_and_hold_every_public_name(tmp_path_factory):
    inventory = (built_in(tmp_path_factory) / "objects.inv").read_bytes().split(b"\n", 4)[4]
    known = {line.split(" ", 1)[0] for line in zlib.decompress(inventory).decode().splitlines()}
    shown = [importlib.import_module(face) for face in FACES]
    public = [f"{face.__name__}.{name}" for face in shown for name in getattr(face, "__all__", ())]
    assert len(public) > 300
    missing = [name for name in public if name not in known]
    assert not missing, f"no page describes {missing}"


def test_the_changelog_names_this_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{version}]" in changelog or "## [Unreleased]" in changelog


def test_the_citation_states_this_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert {"cff-version: 1.2.0", f"version: {project['version']}", f"license: {project['license']}"} <= set(lines)
    assert all(any(line.startswith(f"{key}:") for line in lines) for key in ("authors", "message", "title"))


def test_no_page_names_a_machine():
    for page in outputs.pages():
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"(?<![\w.])/(work|root|tmp|home)/", text), page.name
