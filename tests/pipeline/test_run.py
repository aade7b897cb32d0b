"""The whole run: once through, again, refused, killed anywhere, and tampered with afterwards."""

import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests import commands
from tests.extent import amount

from epsilog.ledger import Verb, open_ledger, read_ledger
from epsilog.pipeline import run, runner, steps
from epsilog.reports import write_score_cost
from epsilog.terms import (
    BudgetExceededError,
    CalibrationError,
    ConfigError,
    ConflictError,
    LedgerIntegrityError,
    UnsupportedMechanismError,
)
from epsilog.terms.extras import install_command
from epsilog.verification import read_evidence, verify_evidence

sys.path.insert(0, str(Path(__file__).parent))
import killed

pytestmark = pytest.mark.slow


def finished(path, tmp_path, runs="runs"):
    """The outcome of a run, and which rounds were trained."""
    rounds = []
    outcome = run(path, runs=tmp_path / runs, on_round=lambda record: rounds.append(record.round))
    return outcome, rounds


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """One finished short run, copied by the tests that damage it."""
    folder = tmp_path_factory.mktemp("done")
    source = Path(__file__).parents[2] / "examples" / "central.toml"
    text = source.read_text()
    text = text.replace("comparison_budgets = [0.25, 1, 8]", "comparison_budgets = [1]").replace("= 60", "= 12")
    text = text.replace("comparison_seeds = 5", "comparison_seeds = 2")
    text = text.replace("local_steps = 8", "local_steps = 1").replace("learning_rate = 0.1", "learning_rate = 0.5")
    path = folder / "p.toml"
    path.write_text(text)
    return path, *finished(path, folder)


@pytest.fixture
def copied(done, tmp_path):
    _, outcome, _ = done
    shutil.copytree(outcome.folder.parent, tmp_path / "runs")
    return tmp_path / "runs" / outcome.folder.name


def test_plan_to_proof(done):
    _, outcome, rounds = done
    report = outcome.report
    assert rounds == list(range(1, 13))
    assert outcome.verification.status == "passed"
    assert 3.9 < report["claim"]["epsilon"]["upper"] <= 4
    assert report["verification"]["status"] == "passed"
    assert report["utility"]["control"]["status"] == "failed"
    assert report["utility"]["study"][0]["epsilon"] == 1
    assert report["result"]["test_score"] > 0.2
    page = (outcome.folder / "report.html").read_text()
    assert report["evidence"]["plan_hash"] in page
    assert page.count("<script") == 1  # it checks the certificate
    assert "://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert json.loads((outcome.folder / "report.json").read_bytes()) == report


def test_again_charges_nothing_and_trains_nothing(done):
    path, outcome, _ = done
    ledger = outcome.folder.parent / "ledger.db"
    before, report = ledger.read_bytes(), (outcome.folder / "report.json").read_bytes()
    rounds = []
    again = run(path, runs=outcome.folder.parent, ledger=ledger, on_round=rounds.append)
    assert rounds == []
    assert again.folder == outcome.folder
    assert ledger.read_bytes() == before
    assert (outcome.folder / "report.json").read_bytes() == report


def test_another_plan_on_a_spent_budget_is_refused_and_leaves_nothing(done, tmp_path):
    path, outcome, _ = done
    other = tmp_path / "other.toml"
    other.write_text(path.read_text().replace("learning_rate = 0.5", "learning_rate = 0.2"))
    before = sorted(p.name for p in outcome.folder.parent.iterdir())
    with pytest.raises(BudgetExceededError) as refused:
        run(other, runs=outcome.folder.parent)
    assert refused.value.scope == "demo/exams-central/2026"
    assert "epsilon" in refused.value.available
    assert sorted(p.name for p in outcome.folder.parent.iterdir()) == before


def test_a_simulation_is_refused_by_a_real_budget_and_leaves_nothing(write_config, tmp_path):
    (tmp_path / "runs").mkdir()
    with open_ledger(tmp_path / "runs" / "ledger.db") as books:
        books.create_budget(
            "demo/exams-central/2026", kind="approximate", privacy_unit="school", epsilon="4", delta="1e-5"
        )
    with pytest.raises(ConflictError, match="simulation must be that of the budget"):
        finished(write_config(), tmp_path)
    assert [p.name for p in (tmp_path / "runs").iterdir()] == ["ledger.db"]


def test_a_real_run_draws_from_the_operating_system(write_config, tmp_path):
    path = write_config(("simulation = true ", "simulation = false "), ("seed = 20261121\n", ""))
    for runs in ("one", "two"):
        with pytest.raises(ConfigError, match="ask its owner to run") as refused:
            finished(path, tmp_path, runs=runs)
        (command,) = re.findall(r"epsilog (ledger create .*)$", str(refused.value))
        commands.run(*shlex.split(command)).check_returncode()
        assert [file.name for file in (tmp_path / runs).iterdir()] == ["ledger.db"]
    one, _ = finished(path, tmp_path, runs="one")
    two, _ = finished(path, tmp_path, runs="two")
    assert one.report["utility"] is None
    assert one.report["simulation"] is False
    assert one.verification.status == "passed"
    assert one.plan.hash == two.plan.hash
    assert one.report["result"]["model_hash"] != two.report["result"]["model_hash"]


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (("population = 2000", "population = 1999"), ConfigError, "guarantee.population must be 2000"),
        (('privacy_unit = "school"', 'privacy_unit = "teacher"'), ConfigError, "guarantee.privacy_unit must be"),
        (
            ('privacy_unit = "school"', 'privacy_unit = "pupil"'),
            ConfigError,
            "scheme.kind must be one that protects one pupil",
        ),
        (
            ('name = "chem97"', 'name = "mnist"'),
            ConfigError,
            "data.name must be one of chem97, fashion-mnist, got .mnist.",
        ),
        (('noise_multiplier = "calibrate"', "noise_multiplier = 0.3"), CalibrationError, "above the budget of 4"),
        (("[references]", '[references]\ngone = "gone.md"'), ConfigError, "gone.md cannot be read"),
    ],
)
def test_what_cannot_run_leaves_nothing(write_config, tmp_path, change, error, says):
    with pytest.raises(error, match=says):
        finished(write_config(change), tmp_path)
    assert not (tmp_path / "runs").exists()


HIDDEN = """
import sys
class Absent:  # None in sys.modules would do, if SciPy did not look there for arrays of others
    def find_spec(self, name, *_):
        if name.partition(".")[0] in sys.argv[1].split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from pathlib import Path
from epsilog.pipeline import run
from epsilog.terms import ConfigError
for path, runs in zip(sys.argv[2::2], map(Path, sys.argv[3::2])):
    try:
        print(run(Path(path), runs=runs).verification.status)
    except ConfigError as error:
        print(error)
"""


def test_a_missing_engine_books_and_leaves_nothing_and_a_finished_run_needs_none(write_config, done, tmp_path):
    path, outcome, _ = done
    shutil.copytree(outcome.folder.parent, tmp_path / "finished")
    pairs = (write_config(), tmp_path / "runs", path, tmp_path / "finished")
    command = [sys.executable, "-c", HIDDEN, "jax", *map(str, pairs)]
    *refusal, passed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert install_command("train") in " ".join(refusal)
    assert not (tmp_path / "runs").exists()
    assert passed == "passed"


def test_a_study_that_cannot_be_trained_books_nothing_and_leaves_nothing(write_config, tmp_path):
    """Noise for so small an epsilon, times this clip norm, is more than training can hold."""
    path = write_config(
        ("clip_norm = 0.2", "clip_norm = 1e87"), ("seed = 20261121\n", "seed = 1\ncomparison_budgets = [1e-12]\n")
    )
    with pytest.raises(ConfigError, match=r"run\.comparison_budgets: 1e-12 cannot be trained at: noise_stddev must be"):
        finished(path, tmp_path)
    assert not (tmp_path / "runs").exists()


def test_the_largest_seed_has_a_control(write_config, tmp_path):
    outcome, _ = finished(write_config(("seed = 20261121", f"seed = {2**53 - 2}")), tmp_path)
    assert outcome.verification.status != "failed"
    assert outcome.report["utility"]["control"]["check"] == "noise"


def test_settings_that_diverge_and_folders_that_cannot_be_written_book_nothing(write_config, tmp_path):
    wild = ("clip_norm = 0.2", "clip_norm = 1e160")
    with pytest.raises(ConfigError, match="must"):
        finished(write_config(wild), tmp_path)
    assert not (tmp_path / "runs").exists()
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(ConfigError, match="the run cannot be stored here"):
        run(write_config(), runs=tmp_path / "runs", ledger=tmp_path / "ledger.db")
    assert not (tmp_path / "ledger.db").exists()


def test_a_run_that_diverges_is_committed_and_its_report_says_so(tmp_path):
    """Steps so large that the public loss overflows after some rounds; with clip and noise, and without them."""
    source = Path(__file__).parents[2] / "examples" / "local.toml"
    text = source.read_text().replace("= 40", "= 12")
    text = text.replace("learning_rate = 0.05", "learning_rate = 1.1e40").replace(
        "cohort_size = 200", "cohort_size = 20"
    )
    text = text.replace("clip_norm = 1.0", "clip_norm = 1e60")
    text = text.replace("comparison_seeds = 5", "comparison_seeds = 2")
    (tmp_path / "p.toml").write_text(text.replace("comparison_budgets = [0.25, 1, 8]", "comparison_budgets = [0.5]"))
    outcome, rounds = finished(tmp_path / "p.toml", tmp_path)
    last, ledger = len(rounds), tmp_path / "runs" / "ledger.db"
    assert 1 <= last < 12
    assert outcome.report["result"]["diverged"]
    assert outcome.report["result"]["test_loss"] is None
    assert outcome.report["rounds"][-1] == {"round": last, "test_loss": None, "test_score": None}
    assert outcome.report["utility"]["study"][0]["test_loss"] is None
    assert write_score_cost(outcome.report) == ""
    findings = {finding.check: finding for finding in outcome.verification.findings}
    assert "failed" not in {finding.status for finding in findings.values()}
    assert f"Training diverged in round {last} of 12" in findings["rounds"].message
    page = (outcome.folder / "report.html").read_text()
    assert f"Training diverged in round {last}." in page
    with read_ledger(ledger) as books:
        assert [entry.verb for entry in books.history()][-1] is Verb.COMMITTED
    again, rounds = finished(tmp_path / "p.toml", tmp_path)
    assert rounds == []
    assert again.report == outcome.report


def test_two_runs_of_one_config_at_once_charge_once_and_release_once(write_config, tmp_path):
    """The one that comes second stops with a message, or finds everything done; nothing breaks."""
    path, runs = write_config(), tmp_path / "runs"
    said = killed.both_at_once(path, runs, tmp_path)
    assert "" in said
    assert all(not text or "another process is training in" in text for text in said), said
    with read_ledger(runs / "ledger.db") as books:
        verbs = [entry.verb for entry in books.history()]
    assert verbs.count(Verb.STARTED) == verbs.count(Verb.COMMITTED) == 1
    assert verbs.count(Verb.ROUND_STARTED) == verbs.count(Verb.ROUND_RELEASED) == 4
    again, _ = finished(path, tmp_path)
    assert again.verification.status != "failed"


def test_an_edited_ledger_fails(done, copied):
    import sqlite3

    ledger = copied.parent / "ledger.db"
    with sqlite3.connect(ledger) as books:
        (table,) = [n for (n,) in books.execute("select name from sqlite_master where type='table'") if "entr" in n]
        columns = [row[1] for row in books.execute(f"pragma table_info({table})")]
        assert "document" in columns
        books.execute(f"update {table} set document = replace(document, '3.9', '0.9')")  # noqa: S608
    books.close()
    with pytest.raises(LedgerIntegrityError):
        run(done[0], runs=copied.parent)
    findings = {f.check: f for f in verify_evidence(read_evidence(copied, ledger)).findings}
    assert findings["ledger"].status == "failed"
    assert "entry" in findings["ledger"].message


def require_certificates(folder):
    """A ledger whose budget takes no charge of the run without a certificate."""
    folder.mkdir()
    with open_ledger(folder / "ledger.db") as books:
        books.create_budget(
            "demo/exams-central/2026",
            kind="approximate",
            privacy_unit="school",
            simulation=True,
            epsilon="4",
            delta="1e-5",
            requires_certificate=True,
        )


def test_a_run_presents_its_certificate_where_its_scope_requires_one_and_again_after_a_crash(
    write_config, tmp_path, monkeypatch
):
    path = write_config()
    require_certificates(tmp_path / "runs")

    def crash(*_, **__):
        raise OSError("the machine is gone")

    with monkeypatch.context() as during:
        during.setattr(runner, "train_under_charge", crash)
        with pytest.raises(OSError, match="the machine is gone"):
            finished(path, tmp_path)
    monkeypatch.setattr(steps, "certify_guarantee", crash)  # a retry presents what it stored
    outcome, _ = finished(path, tmp_path)
    statuses = {finding.check: finding.status for finding in outcome.verification.findings}
    assert statuses["certificate"] == statuses["ledger"] == statuses["charge"] == "passed"
    hashed = hashlib.sha256((outcome.folder / "certificate.json").read_bytes()).hexdigest()
    with read_ledger(tmp_path / "runs" / "ledger.db") as books:
        (reserved,) = [entry for entry in books.history() if entry.verb is Verb.RESERVED]
        (committed,) = [entry for entry in books.history() if entry.verb is Verb.COMMITTED]
    assert reserved.body["certificate"] == committed.body["evidence"]["certificate.json"] == hashed


def test_a_run_that_no_certificate_covers_is_refused_by_name_and_leaves_nothing(write_config, tmp_path, monkeypatch):
    path = write_config()
    require_certificates(tmp_path / "runs")

    def refuse(release, **_):
        raise UnsupportedMechanismError(release, method="a certificate")

    monkeypatch.setattr(steps, "certify_guarantee", lambda *_, **__: None)
    monkeypatch.setattr(steps, "certificate", refuse)
    with pytest.raises(UnsupportedMechanismError, match="a certificate has no proven bound for Repeated"):
        finished(path, tmp_path)
    assert [file.name for file in (tmp_path / "runs").iterdir()] == ["ledger.db"]


def test_killed_at_any_point_it_resumes(write_config, tmp_path):
    """Deaths at points all over the run, one after another: one charge, one release a round, the same model."""
    path, told = write_config(), tmp_path / "told"
    assert killed.driven(0, path, tmp_path / "whole", told) == 0
    points, model = told.read_text().split()
    assert int(points) > 30
    deaths = 0
    for fraction in amount((0.1, 0.4, 0.3, 0.5), (0.02, 0.1, 0.25, 0.4, 0.3, 0.3, 0.2, 0.5)):
        code = killed.driven(max(1, round(int(points) * fraction)), path, tmp_path / "killed", told)
        assert code in (0, killed.DIED)
        deaths += code == killed.DIED
        if code == 0:
            break
    assert killed.driven(0, path, tmp_path / "killed", told) == 0
    assert deaths >= amount(3, 4)
    assert told.read_text().split()[1] == model
    with read_ledger(tmp_path / "killed" / "ledger.db") as books:
        books.verify()
        verbs = [entry.verb for entry in books.history()]
    assert verbs.count(Verb.RESERVED) == verbs.count(Verb.STARTED) == verbs.count(Verb.COMMITTED) == 1
    assert verbs.count(Verb.ROUND_RELEASED) == 4
    (folder,) = [p for p in (tmp_path / "killed").iterdir() if p.is_dir()]
    assert verify_evidence(read_evidence(folder, tmp_path / "killed" / "ledger.db")).status != "failed"
