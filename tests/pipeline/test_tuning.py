"""A sweep: paid before its first trial, booked trial by trial, chosen by score, released once, and verified."""

import json
import math
import stat
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tests.pipeline.conftest import EXAMPLES, SHORT
from tests.pipeline.test_runner import REAL, SCHOOLS, SETTINGS
from tests.reports.drawn import drawn, lines

from epsilog import training
from epsilog.ledger import read_ledger
from epsilog.mechanisms import (
    TRIAL_FORMATS,
    BestOfTrials,
    BinomialTrialCount,
    NegativeBinomialTrialCount,
    PoissonTrialCount,
    format_trials,
    parse_trials,
)
from epsilog.pipeline import run, train_only, tuning
from epsilog.pipeline.tuning import TuningSection, require_trial_distribution
from epsilog.plan import RegisteredPlan
from epsilog.reports import check_schema, render_html, render_markdown, verify_run
from epsilog.reports.figures import list_tuning_figures
from epsilog.terms import CheckError, ConfigError, Status, codec
from epsilog.training.data import dataset as shipped
from epsilog.verification import LedgerReader, read_run_folder

LOUD = (*SETTINGS, ("noise_multiplier = 6.0", "noise_multiplier = 16.0"))
RATES = (0.03, 0.1, 0.3)
CANDIDATES = ", ".join(f"{{learning_rate = {rate}}}" for rate in RATES)


def sweep(law, candidates=CANDIDATES):
    """What a run config says of a sweep."""
    stated = f'\n[tuning]\ntrials = "{law}"\ncandidates = [{candidates}]\n'
    return "[references]", f"{stated}\n[references]"


class Trials:
    """A trainer that draws: its scores are those that a test gives out, by the order of its trials."""

    def __init__(self, scores):
        self.scores, self.called, self.dies, self.repeats = scores, [], None, None

    def run_rounds(self, paid, task, *, folder, engine, withdrawn):
        assert (engine, withdrawn) == (None, None)
        number = int(folder.name)
        if paid.charge.state == "reserved":
            paid.charge.start()
        public, private = drawn(paid.scheme, paid.randomness.seed or 1000 + number)
        score = self.scores[(number - 1) % len(self.scores)]
        nothing = {"test_loss": None, "diverged": True} if score is None else {}
        public[-1] = replace(public[-1], test_score=score, **nothing)
        for record in public:
            if record.round not in paid.charge.rounds_released:
                for _ in range(2 if (number, record.round) == self.repeats else 1):
                    paid.charge.round_started(record.round)
                paid.charge.round_released(record.round, output_hash=record.output_hash)
        folder.mkdir(exist_ok=True)
        (folder / "rounds.jsonl").write_bytes(lines(public))
        (folder / "custody.jsonl").write_bytes(lines(private))
        self.called.append((number, task.training.learning_rate))
        if len(self.called) == self.dies:
            raise KeyboardInterrupt
        return SimpleNamespace(model=task.model.start, records=tuple(public))


def dataset(unit):
    """A hundred schools of one row each, and a test set."""
    rows = np.zeros((SCHOOLS, 3)), np.zeros(SCHOOLS), np.ones(SCHOOLS, dtype=int)
    facts = {"score": "R squared on the test set"}
    test = shipped.TestSet(np.zeros((2, 3)), np.arange(2.0))
    return training.Dataset("chem97", unit, True, training.Federation(*rows), test, None, facts, counts_are_public=True)


def stand_in(patch, *scores):
    made = Trials(scores)
    patch.setattr(training, "run_rounds", made.run_rounds)
    patch.setattr(training, "require_matching_scheme", lambda scheme, _: scheme)
    patch.setattr(training, "run_smoke_test", lambda _scheme, _task, _folder: None)
    patch.setattr(training, "train_without_charge", lambda scheme, _task, *, randomness, **_: SimpleNamespace(
        records=drawn(scheme, randomness.seed, share=randomness.noise_factor)[0]
    ))  # fmt: skip
    patch.setattr("epsilog.pipeline.data_sections.load_dataset", lambda _, unit: dataset(unit))
    return made


@pytest.fixture
def trials(monkeypatch):
    return lambda *scores: stand_in(monkeypatch, *scores)


def go(path, tmp_path, **more):
    return run(path, runs=tmp_path / "runs", ledger=tmp_path / "ledger.db", **more)


def entries(path):
    return [(entry.verb.value, entry.body) for entry in LedgerReader.read(path).entries]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A simulated sweep of five trials, of which the fourth is the best."""
    folder = tmp_path_factory.mktemp("sweep")
    text = (EXAMPLES / "central.toml").read_text()
    for old, new in (
        *SHORT,
        *LOUD,
        sweep("fixed:5"),
        ("comparison_budgets = [0.25, 1, 8]\ncomparison_seeds = 5\n", ""),
    ):
        assert old in text
        text = text.replace(old, new)
    path = folder / "p.toml"
    path.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        made = stand_in(patch, 0.2, 0.1, None, 0.9, 0.9)
        yield SimpleNamespace(outcome=go(path, folder), trials=made, path=path, ledger=folder / "ledger.db")


@pytest.mark.slow
def test_the_best_of_the_trials_is_released_and_charged_as_such(finished):
    plan, report, folder = finished.outcome.plan, finished.outcome.report, finished.outcome.folder
    assert [number for number, _ in finished.trials.called] == [1, 2, 3, 4, 5]
    assert {rate for _, rate in finished.trials.called} <= set(RATES)
    assert plan.release == BestOfTrials(plan.scheme.release(), BinomialTrialCount(5, 1.0))
    assert plan.guarantee.epsilon == plan.epsilon.upper
    assert finished.outcome.verification.status == Status.PASSED
    told = entries(finished.ledger)
    assert [verb for verb, _ in told][:3] == ["budget-created", "reserved", "started"]
    assert codec.from_json(told[1][1]["request"]["release"]) == plan.release
    assert sum(verb == "round-released" for verb, _ in told) == plan.scheme.rounds, "the winner's rounds, no others"
    assert (folder / "rounds.jsonl").read_bytes() == (folder / "trials/0004/rounds.jsonl").read_bytes()
    assert report["owner"]["selected_settings"] == {"learning_rate": finished.trials.called[3][1]}
    tuning_, supported = report["tuning"], report["claim"]["supported"]
    best = tuning_["best"]["upper"]  # as the claim, it covers the published outcomes of checks
    assert supported == best > tuning_["single_run"]["upper"]
    assert (tuning_["trial_distribution"], tuning_["count"]) == ("fixed:5", 5)
    assert best <= tuning_["all_released"]["upper"]
    check_schema(report)


def test_a_sweep_is_priced_before_its_first_trial_and_trials_are_books_of_their_own(finished):
    plan, folder = finished.outcome.plan, finished.outcome.folder
    with read_ledger(folder / "trials/ledger.db") as books:
        charges = [books.find(f"trial-{number}") for number in range(1, 6)]
        assert [charge.state for charge in charges] == ["committed"] * 5
        assert {charge.request.release for charge in charges} == {plan.scheme.release()}
        assert books.find("trial-6") is None
    main = (finished.ledger).read_bytes()
    assert b"trial-" not in main, "how many there were stays with the curator"
    for name in ("trials/drawn.json", "trials/chosen.json", "custody.jsonl"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "trials").stat().st_mode) == 0o700
    assert not any(name.startswith("trial") for name in finished.outcome.report["evidence"]["files"])


def test_every_rendering_says_what_the_sweep_costs(finished):
    report = finished.outcome.report
    (_, cost, law), (_, one, _), *_ = list_tuning_figures(report)
    for text in (render_html(report), render_markdown(report)):
        assert "epsilon of the tuning" in text
        assert cost in text
        assert one in text
    assert "fixed:5" in law
    epsilon, delta = report["claim"]["epsilon"]["upper"], float(report["claim"]["guarantee"]["delta"])
    assert report["risk_metrics"]["attack"], "rates are proven of trials, too"
    for row in report["risk_metrics"]["attack"]:
        assert row["fpr"] < row["tpr"] <= math.exp(epsilon) * row["fpr"] + delta
    assert report["accounting"]["curve"] == []
    summary = render_markdown(report, kind="summary")
    assert "an attacker knows all other data, looks at the published model" in summary
    assert report["residual_risks"] != [], "and among them the trials that nobody sees"
    assert any("other trials than the tuning distribution drew" in line.lower() for line in report["residual_risks"])


def test_whoever_sees_the_trials_is_not_promised_the_price_of_the_best(finished):
    held = {row["party"]: row["protection"] for row in finished.outcome.report["claim"]["parties"]}
    assert held["Server"].startswith("no guarantee")
    assert "sees every trial" in held["Other clients"]
    assert "epsilon" not in held["Other clients"]
    assert held["Public"].startswith("epsilon")


def test_a_server_that_is_not_trusted_would_see_every_trial(trials, write_config, tmp_path):
    trials(0.1)
    text = (
        (EXAMPLES / "client-noise.toml")
        .read_text()
        .replace("[run]", sweep("fixed:2")[1].replace("[references]", "[run]"))
    )
    path = tmp_path / "noise.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="tuning must be absent for client-level-client-side"):
        go(path, tmp_path)


@pytest.mark.slow
def test_a_sweep_is_verified_from_its_files_and_a_cheaper_law_is_found_out(finished):
    files, books = read_run_folder(finished.outcome.folder), LedgerReader.read(finished.ledger)
    del files["model.npz"]  # nothing was trained
    assert verify_run(files, books).status == Status.PASSED
    report = json.loads(files["report.json"])
    report["tuning"]["best"]["upper"] *= 0.9
    spoilt = files | {"report.json": codec.encode_canonical(report) + b"\n"}
    told = {one.check: one.status for one in verify_run(spoilt, books).findings}
    assert told["report"] is Status.FAILED
    one = json.loads(files["plan.json"])
    one["release"] = codec.encode(finished.outcome.plan.scheme.release())
    claimed = RegisteredPlan.from_json(one)
    assert claimed.trials is None
    lied = files | {"plan.json": codec.encode_canonical(claimed.to_json()) + b"\n"}
    found = {each.check: each.status for each in verify_run(lied, books).findings}
    assert found["charge"] is Status.FAILED
    one["release"] = codec.encode(
        BestOfTrials(replace(finished.outcome.plan.scheme, rounds=1).release(), PoissonTrialCount(1.0))
    )
    with pytest.raises(ValueError, match="release must be"):
        RegisteredPlan.from_json(one)


def test_a_sound_winner_is_rejected_as_often_as_any_of_its_trials(finished):
    outcome = finished.outcome
    rates = {one.check: one.false_alarm_rate for one in outcome.verification.findings}
    assert rates["noise"] == pytest.approx(5e-6)
    published = outcome.report["verification"]["false_alarm_rate"]
    assert published == pytest.approx(
        math.fsum(f["false_alarm_rate"] for f in outcome.report["verification"]["findings"])
    )


@pytest.mark.slow
def test_a_sweep_that_was_killed_goes_on_with_what_was_drawn(trials, write_config, tmp_path):
    stand_in = trials(0.2, 0.9, 0.1)
    path = write_config(*LOUD, sweep("fixed:3"))
    stand_in.dies = 2
    with pytest.raises(KeyboardInterrupt):
        go(path, tmp_path)
    told = [verb for verb, _ in entries(tmp_path / "ledger.db")]
    assert told[-1] == "started", "paid, and nothing of it is out"
    assert not list((tmp_path / "runs").glob("*/rounds.jsonl"))
    drawn_before = next((tmp_path / "runs").glob("*/trials/drawn.json")).read_bytes()
    stand_in.dies = None
    outcome = go(path, tmp_path)
    assert (outcome.folder / "trials/drawn.json").read_bytes() == drawn_before
    assert (outcome.folder / "rounds.jsonl").read_bytes() == (outcome.folder / "trials/0002/rounds.jsonl").read_bytes()
    told = [verb for verb, _ in entries(tmp_path / "ledger.db")]
    assert told.count("started") == told.count("reserved") == 1
    others = [one for one in outcome.verification.findings if one.check != "certificate"]  # none covers trials
    assert {finding.status for finding in others} == {Status.PASSED}


@pytest.mark.slow
def test_a_round_of_the_winner_that_was_run_again_is_told(trials, write_config, tmp_path):
    trials(0.1, 0.9).repeats = (2, 3)
    outcome = go(write_config(*LOUD, sweep("fixed:2")), tmp_path)
    (found,) = (one for one in outcome.verification.findings if one.check == "attempts")
    assert found.status is Status.WARNED
    assert "1 further attempt at a round is recorded, at [3]" in found.message


@pytest.mark.slow
def test_where_a_law_has_a_most_the_time_tells_nothing(trials, write_config, tmp_path, monkeypatch):
    """All four are trained whatever was drawn, and only those that take part are looked at."""
    stand_in = trials(0.1, 0.2, 0.3, 0.4)
    monkeypatch.setattr(BinomialTrialCount, "draw", lambda *_: 2)
    outcome = go(write_config(*LOUD, sweep("binomial:4,0.5", "")), tmp_path)
    assert [number for number, _ in stand_in.called] == [1, 2, 3, 4]
    assert outcome.report["rounds"][-1]["test_score"] == 0.2
    assert outcome.report["owner"]["selected_settings"] == {}


@pytest.mark.slow
def test_where_no_trial_takes_place_nothing_is_released(trials, write_config, tmp_path, monkeypatch):
    stand_in = trials(0.1)
    monkeypatch.setattr(BinomialTrialCount, "draw", lambda *_: 0)
    outcome = go(write_config(*LOUD, sweep("binomial:2,0.5")), tmp_path)
    assert len(stand_in.called) == 2
    assert (outcome.model, outcome.report["rounds"], outcome.report["result"]["model_hash"]) == (None, [], None)
    verbs = [verb for verb, _ in entries(tmp_path / "ledger.db")]
    assert verbs[-2:] == ["started", "committed"]
    assert "selected_settings" not in outcome.report["owner"]
    assert outcome.verification.status is not Status.FAILED


def test_settings_are_drawn_evenly_and_as_many_trials_as_the_law_says(trials, write_config, tmp_path, monkeypatch):
    """Over 400 draws each of three settings comes up a third of the time, within five standard deviations."""
    plan = SimpleNamespace(trials=NegativeBinomialTrialCount(1.0, 0.01), details={"tuning": {"candidates": [1, 2, 3]}})
    counts, among = [], []
    for seed in range(4):
        place = tmp_path / f"{seed}" / "trials"
        place.mkdir(parents=True)
        sweeping = tuning.TrialRunner(plan, None, place.parent, seed, None, None, print)
        looked_at, settings = sweeping._draw_trials()
        assert sweeping._draw_trials() == (looked_at, settings)
        assert looked_at == len(settings)
        counts.append(looked_at)
        among += settings
    assert len(set(counts)) > 1
    share = among.count(0) / len(among)
    assert abs(share - 1 / 3) < 5 * math.sqrt(2 / 9 / len(among))
    assert set(among) == {0, 1, 2}


def test_a_sweep_for_people_has_a_number_that_no_clock_tells(trials, write_config, tmp_path):
    trials(0.1)
    for law in ("geometric:0.1", "poisson:3"):
        with pytest.raises(ConfigError, match=r"tuning\.trials"):
            go(write_config(*LOUD, *REAL, sweep(law)), tmp_path)
    require_trial_distribution(TuningSection(trials="binomial:8,0.5"), simulation=False)
    require_trial_distribution(TuningSection(trials="geometric:0.1"), simulation=True)


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        (sweep("geometric"), r"tuning\.trials must be written as geometric:STOP"),
        (sweep("often:3"), r"tuning\.trials must be one of"),
        (sweep("fixed:1001"), r"tuning\.trials must be of at most 1000 runs"),
        (sweep("geometric:1e-5"), r"tuning\.trials must be of at most 1000 runs"),
        (sweep("fixed:2", "{clip_norm = 1.0}"), r"tuning\.candidates must name settings among learning_rate"),
        (sweep("fixed:2", "{}"), r"tuning\.candidates must name"),
        (sweep("fixed:2", "{learning_rate = -1.0}"), r"tuning\.candidates\.learning_rate must be finite and above 0"),
    ],
)
def test_what_is_no_sweep_is_refused_by_name_and_books_nothing(trials, write_config, tmp_path, stated, says):
    trials(0.1)
    with pytest.raises(ConfigError, match=says):
        go(write_config(*LOUD, stated), tmp_path)
    assert not (tmp_path / "ledger.db").exists()


def test_nothing_that_is_said_of_one_run_stands_beside_a_sweep(trials, write_config, tmp_path):
    trials(0.1)
    for beside, field in (
        (("seed = 20261121", "seed = 7\ncomparison_budgets = [1]"), r"run\.comparison_budgets"),
        (("seed = 20261121", "seed = 7\ncomparison_seeds = 2"), r"run\.comparison_seeds"),
        (("[references]", "[audit]\ncanaries = 16\n\n[references]"), "audit"),
    ):
        stated = sweep("fixed:2")
        changes = (stated, (stated[1], stated[1].replace("[references]", beside[1]))) if beside[0] in stated[0] else (
            stated, beside
        )  # fmt: skip
        with pytest.raises(ConfigError, match=rf"{field} must be absent with \[tuning\]"):
            go(write_config(*LOUD, *changes), tmp_path)
    path = write_config(*LOUD, sweep("fixed:2"))
    with pytest.raises(ConfigError, match="tuning must be absent where clients compute elsewhere"):
        train_only(path, runs=tmp_path / "runs", ledger=tmp_path / "ledger.db", engine=lambda *_: None)


@pytest.mark.parametrize(
    "law",
    [
        NegativeBinomialTrialCount(1.0, 0.1),
        NegativeBinomialTrialCount(0.0, 1e-3),
        NegativeBinomialTrialCount(-0.5, 0.3),
        PoissonTrialCount(2.5),
        BinomialTrialCount(8, 0.25),
        BinomialTrialCount(8, 1.0),
    ],
    ids=repr,
)
def test_a_law_is_read_as_it_is_written(law):
    assert parse_trials(format_trials(law)) == law
    assert format_trials(law).partition(":")[0] in {name.partition(":")[0] for name in TRIAL_FORMATS}


@pytest.mark.parametrize("text", ["", "fixed:2.5", "fixed:0", "geometric:2", "poisson:x", "binomial:3"])
def test_what_is_no_law_is_refused(text):
    with pytest.raises(CheckError):
        parse_trials(text)
