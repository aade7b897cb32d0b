"""A run config with canaries: drawn and bound before the run, scored after it, and told of in every place."""

import json
import stat
from pathlib import Path

import pytest
from tests import commands

from epsilog.ledger import open_ledger
from epsilog.pipeline import PlanConfig, run, train_only
from epsilog.pipeline.preparation import store_secret
from epsilog.reports import check_schema, render_markdown
from epsilog.reports.rendering import extract_document
from epsilog.terms import BudgetExceededError, Canaries, ConfigError, ConflictError, RecordError, codec
from epsilog.training import add_canary_slots

AUDIT = [("[references]", "[audit]\ncanaries = 200\n\n[references]"), ("population = 2000", "population = 2200")]
REAL = [("simulation = true ", "simulation = false "), ("seed = 20261121\n", "")]


class KilledError(BaseException):
    pass


def kill_in_the_second(record):
    if record.round == 2:
        raise KilledError


def went(path, folder, **options):
    runs = Path(folder) / "runs"
    return run(path, runs=runs, **options)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """One finished run of twelve rounds with canaries."""
    from tests.pipeline.conftest import EXAMPLES, SHORT

    folder = tmp_path_factory.mktemp("done")
    text = (EXAMPLES / "central.toml").read_text()
    twelve = (("= 60", "= 12"), SHORT[-1])
    for old, new in (*twelve, *AUDIT, ("comparison_budgets = [0.25, 1, 8]\ncomparison_seeds = 5\n", "")):
        assert old in text, old
        text = text.replace(old, new)
    (folder / "p.toml").write_text(text)
    return folder / "p.toml", went(folder / "p.toml", folder)


def called(*arguments):
    found = commands.run(*arguments)
    return found.returncode, found.stdout + found.stderr


@pytest.mark.slow
def test_a_run_tells_of_its_canaries_and_counts_them(done):
    _, outcome = done
    report, plan = outcome.report, outcome.plan
    part = report["audit"]
    assert outcome.verification.status == "passed"
    check_schema(report)
    assert plan.guarantee.population == plan.scheme.clients == 2200
    assert plan.details["data"]["canaries"] == 200
    canaries = Canaries(200, part["canaries"]["secret"])
    assert canaries.commitment == plan.details["audit"]["commitment"]
    assert canaries.secret not in json.dumps(plan.to_json())
    assert part["bound"]["side"] == "lower"
    assert 0 <= part["bound"]["epsilon"] <= plan.guarantee.epsilon
    assert part["bound"]["delta"] == plan.guarantee.delta
    assert "200 of the N = 2,200 units are canaries" in part["messages"][0]
    assert "proves little" in " ".join(part["messages"])
    assert "This is not a bound" in " ".join(part["messages"])
    told = {finding["check"]: finding for finding in report["verification"]["findings"]}
    assert told["audit"]["code"] == "audit/not-refuted"
    assert report["evidence"]["files"]["canaries.json"]
    page = (outcome.folder / "report.html").read_text()
    markdown, summary = (render_markdown(report, kind=kind) for kind in ("markdown", "summary"))
    assert ("shows no leak" if part["bound"]["epsilon"] == 0 else "lower bound") in summary
    for text in (page, markdown):
        assert "lower bound" in text
    for text in (page, markdown, summary):
        assert "cannot confirm a guarantee" in text or "proves little" in text
    assert json.loads(extract_document(page.encode()))["audit"] == part


@pytest.mark.slow
def test_a_page_and_a_pdf_show_the_bound(done):
    _, outcome = done
    code, told = called("report", outcome.folder, "--format", "pdf", "-o", outcome.folder.parent / "r.pdf")
    assert code == 0, told
    assert (outcome.folder.parent / "r.pdf").read_bytes().startswith(b"%PDF")
    code, told = called("run", done[0], "--runs", outcome.folder.parent)
    assert code == 0, told
    assert "it cannot confirm a guarantee" in " ".join(told.split())


@pytest.mark.slow
def test_the_command_reads_the_runs_own_canaries(done):
    _, outcome = done
    code, told = called("audit", outcome.folder)
    assert code == 0, told
    assert "not refuted" in told
    code, told = called("audit", outcome.folder, "--json")
    found = json.loads(told)
    assert found["epsilon"] == outcome.report["audit"]["bound"]["epsilon"]
    assert found["claim"]["protocol_in_plan"] is True
    assert found["claim"]["epsilon"] == outcome.plan.guarantee.epsilon
    for option in (("--delta", "1e-5"), ("--run", outcome.folder), ("--protocol", "x.toml")):
        code, told = called("audit", outcome.folder, *option)
        assert code != 0
        assert "absent for a run with its own canaries" in " ".join(told.split())


@pytest.mark.slow
def test_a_bound_on_gaussian_mechanisms_says_so_wherever_it_stands(write_config, tmp_path):
    method = ("canaries = 200", 'canaries = 200\nmethod = "one-run-gaussian"\nconfidence = 0.9')
    report = went(write_config(*AUDIT, method), tmp_path).report
    assert report["audit"]["planned"]["method"] == "one-run-gaussian"
    page = (next((tmp_path / "runs").glob("exam*")) / "report.html").read_text()
    assert "from coins and scores attested by the owner, if the mechanism is Gaussian; it cannot confirm" in page
    assert "by attack, at confidence 0.9" in page
    assert "if the mechanism is Gaussian; it cannot confirm a guarantee" in render_markdown(report)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["score", "coins", "gone"])
def test_other_scores_other_coins_and_none_do_not_pass(done, tmp_path, how):
    import shutil

    _, outcome = done
    shutil.copytree(outcome.folder.parent, tmp_path / "runs")
    folder = tmp_path / "runs" / outcome.folder.name
    file = folder / "canaries.json"
    document = json.loads(file.read_bytes())
    if how == "gone":
        file.unlink()
    else:
        document["scores"][0] += 0.5 if how == "score" else 0.0
        document["secret"] = "0" * 64 if how == "coins" else document["secret"]
        from epsilog.pipeline.preparation import write_json

        write_json(file, document)
    code, told = called("verify", folder, "--ledger", tmp_path / "runs" / "ledger.db", "--json")
    failed = {one["check"] for one in json.loads(told)["findings"] if one["status"] == "failed"}
    assert code == 4
    assert failed >= {"score": {"files", "report"}, "coins": {"files", "audit"}, "gone": {"audit", "report"}}[how]
    code, told = called("audit", folder)
    assert (code == 0) == (how == "score")
    assert how == "score" or "canaries" in told


@pytest.mark.slow
def test_a_real_run_keeps_its_secret_through_a_kill_and_draws_another_next_time(write_config, tmp_path):
    path, commitments = write_config(*AUDIT, *REAL), []
    for name in ("one", "two"):
        runs = tmp_path / name
        runs.mkdir()
        with open_ledger(runs / "ledger.db") as books:
            books.create_budget(
                "demo/exams-central/2026", kind="approximate", privacy_unit="school", epsilon="4", delta="1e-5"
            )
        with pytest.raises(KilledError):
            run(path, runs=runs, on_round=kill_in_the_second)
        (folder,) = (each for each in runs.iterdir() if each.is_dir())
        secret = folder / "canaries.secret"
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        assert not (folder / "canaries.json").exists()
        plan = json.loads((folder / "plan.json").read_bytes())
        assert secret.read_text().strip() not in json.dumps(plan)
        outcome = run(path, runs=runs)
        assert outcome.verification.status in ("passed", "warned")  # a kill may show as an attempt
        assert json.loads((folder / "canaries.json").read_bytes())["secret"] == secret.read_text().strip()
        commitments.append(plan["details"]["audit"]["commitment"])
    assert len(set(commitments)) == 2


@pytest.mark.slow
def test_a_secret_that_is_lost_or_torn_stops_a_run_that_is_not_over(write_config, tmp_path):
    path, runs = write_config(*AUDIT, *REAL), tmp_path / "runs"
    runs.mkdir()
    with open_ledger(runs / "ledger.db") as books:
        books.create_budget(
            "demo/exams-central/2026", kind="approximate", privacy_unit="school", epsilon="4", delta="1e-5"
        )
    with pytest.raises(KilledError):
        run(path, runs=runs, on_round=kill_in_the_second)
    (folder,) = (each for each in runs.iterdir() if each.is_dir())
    secret = (folder / "canaries.secret").read_text()
    (folder / "canaries.secret").write_text(secret[:10])
    with pytest.raises(RecordError, match="does not hold the secret of canaries"):
        run(path, runs=runs)
    (folder / "canaries.secret").unlink()
    with pytest.raises(ConfigError, match=r"a plan for canaries with a secret that is not in canaries\.secret"):
        run(path, runs=runs)
    (folder / "canaries.secret").write_text(secret)
    assert run(path, runs=runs).report["audit"]["bound"]


def test_who_comes_second_finds_the_first_ones_secret(tmp_path):
    one, other = Canaries(20, "5c" * 32), Canaries(20, "5d" * 32)
    for _ in range(2):
        store_secret(one, tmp_path / "run")
    with pytest.raises(ConflictError, match="another process runs 'run'"):
        store_secret(other, tmp_path / "run")
    assert [each.name for each in (tmp_path / "run").iterdir()] == ["canaries.secret"]
    assert (tmp_path / "run" / "canaries.secret").read_text() == f"{one.secret}\n"


@pytest.mark.slow
def test_a_kill_before_the_plan_or_before_the_model_loses_no_secret(write_config, tmp_path, monkeypatch):
    """Two files are written after something that depends on the secret; both times the same one goes on."""
    path, runs, seen = write_config(*AUDIT, *REAL), tmp_path / "runs", []
    runs.mkdir()
    with open_ledger(runs / "ledger.db") as books:
        books.create_budget(
            "demo/exams-central/2026", kind="approximate", privacy_unit="school", epsilon="4", delta="1e-5"
        )

    def killed(*_):
        (folder,) = (each for each in runs.iterdir() if each.is_dir())
        seen.append((folder / "canaries.secret").read_text())
        raise KilledError

    for place in ("epsilog.pipeline.steps.write_json", "epsilog.pipeline.steps.npz.encode_npz"):
        with monkeypatch.context() as broken:
            broken.setattr(place, killed)
            with pytest.raises(KilledError):
                run(path, runs=runs)
    report = run(path, runs=runs).report
    assert seen == [report["audit"]["canaries"]["secret"] + "\n"] * 2


@pytest.mark.slow
def test_a_refusal_leaves_no_secret(write_config, tmp_path):
    went(write_config(), tmp_path)
    path = write_config(*AUDIT, ("learning_rate = 0.1", "learning_rate = 0.2"), name="other.toml")
    before = sorted(each.name for each in (tmp_path / "runs").iterdir())
    with pytest.raises((BudgetExceededError, ConflictError)):
        went(path, tmp_path)
    assert sorted(each.name for each in (tmp_path / "runs").iterdir()) == before


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([AUDIT[0]], r"guarantee.population must be 2200 for these data"),
        ([AUDIT[1]], r"guarantee.population must be 2000 for these data"),
        ([("[references]", "[audit]\ncanaries = 15\n\n[references]")], r"audit.canaries must be .*16"),
        ([("[references]", "[audit]\ncanaries = 2000\n\n[references]")], r"audit.canaries must be at most 1999"),
        ([("[references]", "[audit]\ncanaries = 20\nguesses = [[11, 10]]\n\n[references]")], r"audit.guesses must be"),
        ([("[references]", "[audit]\ncanaries = 20\nconfidence = 1.0\n\n[references]")], r"audit.confidence must be"),
        ([("[references]", "[audit]\ncanaries = 20\nmethod = 'magic'\n\n[references]")], r"audit.method must be"),
        ([("[references]", "[audit]\n\n[references]")], r"audit.canaries must be given"),
    ],
)
def test_canaries_that_do_not_fit_are_refused_and_leave_nothing(write_config, tmp_path, changes, told):
    with pytest.raises(ConfigError, match=told):
        went(write_config(*changes), tmp_path)
    assert not (tmp_path / "runs").exists()


def test_other_hosts_are_refused_before_anything_is_written(write_config, tmp_path):
    with pytest.raises(ConfigError, match="audit must be absent where clients compute elsewhere, got 200 canaries"):
        train_only(write_config(*AUDIT), runs=tmp_path / "runs", engine=lambda *_: None)
    assert not (tmp_path / "runs").exists()


def test_what_is_not_said_changes_no_name_of_a_run(write_config):
    from epsilog.pipeline import load_run_config
    from epsilog.pipeline.preparation import hash_settings

    stated = load_run_config(write_config())
    document = stated.model_dump(mode="json", by_alias=True)
    assert document.pop("audit") is document.pop("tuning") is document.pop("counts") is None
    assert hash_settings(stated) == codec.hash_canonical(document)
    assert hash_settings(load_run_config(write_config(*AUDIT))) != hash_settings(stated)


@pytest.mark.slow
@pytest.mark.every(2)  # the fixture's run holds canaries that are clients
@pytest.mark.parametrize("unit_is_client", [False, True])
def test_a_task_made_in_python_has_room_made_for_its_canaries(tmp_path, unit_is_client):
    from tests.study.conftest import classes_task

    task = classes_task(unit_is_client=unit_is_client)
    kind = "client-level-central" if unit_is_client else "example-level-client-side"
    facts = {"rounds": 3, "clip_norm": 0.5}
    facts |= (
        {"sampling_probability": 0.5}
        if unit_is_client
        else {"cohort_size": 10, "max_participations": 3, "batch_probability": 0.5, "epochs": 1}
    )
    room = add_canary_slots(task, 60)
    config = PlanConfig.for_simulation(room, kind, epsilon="4", delta="1e-4", audit={"canaries": 60}, **facts)
    outcome = went(config, tmp_path, task=room)
    part = outcome.report["audit"]
    assert outcome.plan.guarantee.population == room.units
    assert part["planned"]["score"] == ("cosine" if unit_is_client else "loss")
    assert (part["estimate"] is not None) == unit_is_client
    assert outcome.verification.status in ("passed", "warned")
    tight = PlanConfig.for_simulation(task, kind, epsilon="4", delta="1e-4", audit={"canaries": 30}, **facts)
    with pytest.raises(ConfigError, match=r"audit\.canaries must be at most the number of empty slots"):
        went(tight, tmp_path / "tight", task=task)
