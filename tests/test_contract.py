"""The import contract holds, and a tree that breaks it is noticed."""

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import epsilog

ROOT = Path(__file__).parents[1]
INNER = ("epsilog.numerics", "epsilog.mechanisms")  # what these are made of, module by module
NUMERICAL = ("epsilog.accounting", "epsilog.accounting.montecarlo", "epsilog.mechanisms")
SAMPLING = "epsilog.mechanisms.sampling"  # exact samplers, of which exact answers are made
LINT = Path(sys.executable).with_name("lint-imports")


def lint(folder):
    import os

    return subprocess.run(
        [LINT, "--no-logo", "--no-cache"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "line", "broken"),
    [
        (None, "", None),
        ("verification/noise.py", "import epsilog.training.noise", "verification and reports never import training"),
        ("terms/check.py", "import epsilog.plan", "imports run one way"),
        ("ledger/ledger.py", "import epsilog.plan", "imports run one way"),
        ("accounting/renyi.py", "import time", "touch no disk, clock, network"),
    ],
)
def test_the_contract_is_kept_and_can_break(tmp_path, file, line, broken):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("static", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    if file is not None:
        path = tmp_path / "src" / "epsilog" / file
        path.write_text(path.read_text() + f"\n{line}\n")
    done = lint(tmp_path)
    assert (done.returncode == 0) is (broken is None), done.stdout
    if broken is not None:
        assert any(broken in row and "BROKEN" in row for row in done.stdout.splitlines()), done.stdout


INTERNAL = (  # modules without a page, which other parts of epsilog read; no user is promised anything of them
    *("adapters.flower_processes", "mechanisms.composition", "mechanisms.sampling", "npz", "numerics"),
    *("numerics.roots", "numerics.rounding", "plan.deployments", "plan.noise_comparison", "plan.questions"),
    *("plan.sentences", "plan.verdict", "schemes.cohorts", "toml_sections", "training.rounds", "training.sampling"),
    *("validation_errors", "cli"),
)


def faces():
    """What a part may be asked for from elsewhere: the modules of the Python reference, and internal ones.

    A package may also hold names that are not public: its face imports them under their own name (``X as X``).
    """
    pages = [page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs/reference/python").glob("*.md"))]
    listed = [face for page in pages for face in re.findall(r"^\.\. automodule:: (\S+)$", page, re.MULTILINE)]
    return {face: list_names(face) for face in [*listed, *(f"epsilog.{name}" for name in INTERNAL)]}


def list_names(face):
    """The names that other parts may import from a module: those of its own face, and no module."""
    module = importlib.import_module(face)
    if not hasattr(module, "__path__"):
        return getattr(module, "__all__", ())
    source = Path(module.__file__).read_text(encoding="utf-8")
    return {*getattr(module, "__all__", ()), *re.findall(r"\b(\w+) as \1\b", source)}


def part(module):
    """The folder that a module belongs to; Monte Carlo is a part of its own."""
    names = module.split(".")
    return ".".join(names[: 3 if names[1:3] == ["accounting", "montecarlo"] else 2])


def imports():
    """Every import of ours, wherever it stands: who, from where, what."""
    for file in (ROOT / "src/epsilog").rglob("*.py"):
        who = ".".join(file.with_suffix("").relative_to(ROOT / "src").parts)
        yield from ((who, *what) for what in imported(file.read_text(encoding="utf-8")))


IMPORT = re.compile(r"^ *(?:from (epsilog\.[\w.]+) import (\([^)]*\)|[^\n]*)|import (epsilog\.[\w.]+))", re.MULTILINE)


def imported(source):
    """What a module imports of ours: from where, what."""
    for module, names, whole in IMPORT.findall(source):
        listed = re.sub("#.*| as \\w+", "", names).strip("()\n ").split(",")
        yield from ((module, name.strip()) for name in listed if name.strip() not in ("*", "__all__", ""))
        if whole:
            yield whole, None


def past_a_face(found):
    """Imports that reach into another part past its face.

    Monte Carlo may read its parent's modules. The accountant and exact answers are made of numerics and mechanisms. The
    faces of ledger and terms are for users: what is built on them reads their modules, and nothing private of them.
    """
    known = faces()
    for who, module, name in found:
        if part(module) in INNER and (part(who) in NUMERICAL or (module, part(who)) == (SAMPLING, "epsilog.queries")):
            continue
        if part(module) in ("epsilog.ledger", "epsilog.terms") and not (name or "_").startswith("_"):
            continue
        inside = f"{who}.".startswith(f"{part(module)}.") or f"{part(who)}.".startswith(f"{part(module)}.")
        if not inside and f"{module}.{name}" not in known and name not in known.get(module, ()):
            yield f"{who}: from {module} import {name}"


@pytest.mark.slow
def test_parts_are_entered_by_their_faces():
    assert not list(past_a_face(imports()))


@pytest.mark.parametrize(
    "line",
    [
        "from epsilog.accounting.renyi import rdp",
        "from epsilog.accounting import _rdp",
        "from epsilog.accounting import renyi",
        "import epsilog.accounting.renyi",
    ],
)
def test_a_way_past_a_face_is_noticed(line):
    ((module, name),) = imported(f"import math\n{line}\n")
    assert len(list(past_a_face([("epsilog.plan.composition", module, name)]))) == 1


@pytest.mark.slow
def test_a_ledger_is_opened_without_the_accountant():
    heavy = "numpy", "scipy", "jax", "flint", "epsilog.accounting"
    code = f"import sys, epsilog, epsilog.ledger; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_itself_gives_few_names_and_loads_them_when_they_are_used():
    code = "import sys, epsilog; print(sum(name.startswith('epsilog') for name in sys.modules), 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False"]
    page = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8").partition("```python")[0]
    listed = [name for row in page.splitlines() if row.startswith("|") for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(epsilog.__all__)
    assert len(listed) <= 40
    assert all(getattr(epsilog, name).__name__ == name for name in listed)
    assert set(listed) < set(dir(epsilog))


@pytest.mark.slow
def test_a_document_is_read_before_any_term_was_used():
    term = epsilog.to_json(epsilog.schemes.ClientLevelCentral(10, 0.5, 2, 1.0, 1.0))
    for source in ("epsilog", "epsilog.terms.codec"):
        code = f"from {source} import from_json; print(type(from_json({term!r})).__name__)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "ClientLevelCentral"
