"""Each guide of docs/contributing.md shows a complete diff: applied to a copy of the sources, it keeps its promises."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/contributing.md").read_text(encoding="utf-8")
DIFFS = {
    part.split("\n", 1)[0]: (ROOT / "docs" / found[0]).read_text(encoding="utf-8")
    for part in PAGE.split("\n## ")
    if (found := re.findall(r"```\{literalinclude\} (\S+\.diff)\n", part))
}
MECHANISM = """
    import json
    import epsilog as ep
    from typer.testing import CliRunner
    from epsilog.cli.app import load
    fields = {"variance": 100.0, "l1_sensitivity": 3.0, "l2_sensitivity": 1.0}
    release = ep.from_json({"v": 1, "term": {"type": "skellam"} | fields})
    releases = {
        "one": release,
        "ten": ep.Repeated(release, 10),
        "group": ep.mechanisms.Grouped(release, 2),
        "sampled": ep.PoissonSampled(release, 0.1),
        "composed": ep.Composed([release, ep.Laplace(2.0)]),
        "gaussian": ep.Gaussian(10.0),
    }
    assert ep.from_json(release.to_json()) == release and "Skellam" in ep.mechanisms.__all__
    found = {name: ep.epsilon(one, delta=1e-6).upper for name, one in releases.items()}
    assert found["gaussian"] < found["one"] < 1.05 * found["gaussian"] + 0.05
    assert found["one"] < found["ten"] < 10 * found["one"]
    assert found["sampled"] <= found["one"] < found["group"]
    assert found["one"] < found["composed"] <= found["one"] + 0.5
    words = ["account", "--mechanism", "skellam", "-z", "100", "--field", "l1_sensitivity=3"]
    words += ["--field", "l2_sensitivity=1", "--delta", "1e-6", "--json"]
    shown = json.loads(CliRunner().invoke(load(), words).output)
    assert shown["release"]["term"] == {"type": "skellam"} | fields
    assert shown["interval"]["upper"] == found["one"]
"""
COMMAND = """
    from typer.testing import CliRunner
    from epsilog.cli.app import load
    from epsilog.ledger import open_ledger, verify_ledger
    from epsilog.ledger.commands import COMMANDS
    from epsilog.server.app import create_app
    from epsilog.terms import CheckError, PermissionDeniedError
    app, Note, path = load(), COMMANDS["note"], Path("b.db")
    remark = Note.from_json({"scope": "acme", "actor": "dora", "remark": "two studies share it"})
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")
        before = ledger.balance("acme")
        assert ledger.execute(remark).balance == before
        for refused, error in (
            (lambda: ledger.on_behalf_of("sam", owns=lambda _: False).execute(remark), PermissionDeniedError),
            (lambda: Note(scope="acme", actor="dora", remark=" "), CheckError),
            (lambda: Note.from_json(remark.to_json() | {"more": 1}), CheckError),
        ):
            with pytest.raises(error):
                refused()
    typed = ["ledger", "note", "acme", "--actor", "emil", "--remark", "typed", "--ledger", str(path), "--json"]
    assert CliRunner().invoke(app, typed).exit_code == 0
    assert "Keep an owner's remark" in CliRunner().invoke(app, ["ledger", "note", "--help"]).output
    description = create_app().openapi()
    route = description["paths"]["/api/v1/ledger/note"]["post"]
    assert (route["x-act"], route["security"]) == ("own", [{"token": ["owner"]}])
    body = description["components"]["schemas"]["NoteRequest"]
    assert (body["additionalProperties"], body["required"]) == (False, ["scope", "actor", "remark"])
    with open_ledger(path) as ledger:
        entries = [(entry.verb, entry.body.get("remark")) for entry in ledger.history()]
    assert entries == [("budget-created", None), ("noted", "two studies share it"), ("noted", "typed")]
    assert verify_ledger(path).count == 3
"""
RULE = """
    from dataclasses import replace
    from tests.reports.drawn import make_plan, train
    from epsilog.verification import LedgerReader, read_run_folder, verify_evidence
    from epsilog.verification.run_folder import parse_evidence
    train(Path("run"), Path("ledger.db"), make_plan())
    evidence = parse_evidence(read_run_folder(Path("run")), LedgerReader.read(Path("ledger.db")))
    first, second, *rest = evidence.records
    same = replace(evidence, records=(first, replace(second, output_hash=first.output_hash), *rest))
    for given, code in ((evidence, "models/passed"), (same, "models/repeated")):
        assert [one.code for one in verify_evidence(given).findings if one.check == "models"] == [code]
        assert f"| `{code}` | " in GUIDE
"""
QUESTION = r"""
    import json, math
    from typer.testing import CliRunner
    from epsilog.cli.app import load
    from epsilog.plan import QUESTIONS
    from epsilog.server.app import create_app
    from epsilog.terms import CheckError
    asked = QUESTIONS["/posterior"].parse({"epsilon": math.log(2), "prior": 0.5})
    assert 2 / 3 <= asked.answer()["posterior"] < 2 / 3 * (1 + 1e-14)
    assert QUESTIONS["/posterior"].parse({"epsilon": 1000, "prior": 0.5}).answer() == {"posterior": 1.0}
    words = ["plan", "posterior", "--epsilon", "1", "--prior", "0.01", "--json"]
    assert json.loads(CliRunner().invoke(load(), words).output)["posterior"] < 0.0268
    with pytest.raises(CheckError, match=r"prior must be in \(0, 1\), got 1"):
        QUESTIONS["/posterior"].parse({"epsilon": 1.0, "prior": 1.0})
    description = create_app().openapi()
    assert description["paths"]["/api/v1/posterior"]["post"]["summary"].startswith("Bound the posterior probability")
    model = description["components"]["schemas"]["PosteriorResponse"]
    assert (model["additionalProperties"], model["required"]) == (False, ["posterior"])
"""
ENGINE = """
    from tests.training.conftest import small_task
    from tests.training.test_engine import COHORT, noisy_runs, noisy_updates, updates
    from epsilog.training.engines.compiled import CompiledEngine
    from epsilog.training.engines.sequential import SequentialEngine
    task = small_task()
    ours, compiled = SequentialEngine(task), CompiledEngine(task)
    for sums in (updates, noisy_updates, noisy_runs):
        one, other = sums(ours), sums(compiled)
        assert one.total == pytest.approx(other.total, abs=1e-12) and one.total.any()
        assert (one.count, one.clipped, one.dropped) == (other.count, other.clipped, other.dropped)
    assert ours.unusable(COHORT) == compiled.unusable(COHORT)
"""
PROMISES = {
    "Add a mechanism": MECHANISM,
    "Add a ledger command": COMMAND,
    "Add a verification rule": RULE,
    "Add a question": QUESTION,
    "Add a training engine": ENGINE,
}
PREAMBLE = f"""
import sys, types
import pytest
from pathlib import Path
sys.modules["tests"] = types.ModuleType("tests")  # another package of this name is installed
sys.modules["tests"].__path__ = [{str(ROOT / "tests")!r}]
GUIDE = {PAGE!r}
"""
PLUGIN = """
from epsilog.training.engines import reference, sequential
reference.ReferenceEngine = sequential.SequentialEngine
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The sources in a folder, with the diffs of all guides, which touch no line of each other."""
    folder = tmp_path_factory.mktemp("copy")
    left_out = shutil.ignore_patterns("built_docs", "static")  # compiled modules are as good as where they lay
    shutil.copytree(ROOT / "src/epsilog", folder / "src/epsilog", ignore=left_out)
    (folder / "src/epsilog/server/static").symlink_to(ROOT / "src/epsilog/server/static")
    (folder / "checker").symlink_to(ROOT / "checker")
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(folder.parent)}
    command = [shutil.which("git"), "apply", "--whitespace=nowarn", "-"]
    for guide, diff in DIFFS.items():
        done = subprocess.run(
            command, cwd=folder, env=environment, input=diff.encode(), capture_output=True, check=False
        )
        assert done.returncode == 0, f"the guide {guide!r} shows other lines than the sources: {done.stderr}"
    return folder


def python(folder, *words):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(folder / "src"), str(folder)))}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_each_guide_has_one_diff_and_a_test():
    assert DIFFS.keys() == PROMISES.keys()


@pytest.mark.slow
def test_each_diff_does_what_its_guide_promises(copy):
    promises = [f"def promise():{textwrap.indent(promise, '    ')}\npromise()\n" for promise in PROMISES.values()]
    (copy / "promises.py").write_text(PREAMBLE + "".join(promises), encoding="utf-8")
    python(copy, "promises.py")
    python(copy, "-m", "ruff", "check", "--quiet", "--config", str(ROOT / "pyproject.toml"), "src")


@pytest.mark.extended
@pytest.mark.parametrize(
    ("tests", "name", "least"),
    [("mechanisms/test_every_mechanism.py", "skellam", 3), ("training/test_engines.py", "SequentialEngine", 10)],
)
def test_what_is_added_passes_the_contract_of_its_kind(tests, name, least, copy):
    (copy / "in_its_place.py").write_text(PLUGIN if "engine" in tests else "", encoding="utf-8")
    words = ("-p", "no:cacheprovider", "-p", "in_its_place", "-m", "", "-k", name, "-v", str(ROOT / "tests" / tests))
    assert int(re.search(r"(\d+) passed", python(copy, "-m", "pytest", *words))[1]) >= least
