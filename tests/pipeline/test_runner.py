"""The story of a run with training that is drawn and not trained: what is called, what it is told, what is booked."""

import hashlib
import time
from types import SimpleNamespace

import numpy as np
import pytest
from tests.reports.drawn import drawn, lines

from epsilog import training
from epsilog.ledger import open_ledger
from epsilog.pipeline import run, runner, train_only
from epsilog.pipeline.steps import is_charge_closed, make_charge_key
from epsilog.terms import ConfigError, RecordError, RoundRecord
from epsilog.verification import LedgerReader

ROUNDS, SCHOOLS = 12, 100  # fewer rounds would be too few to notice weak noise
SETTINGS = (
    ('noise_multiplier = "calibrate"', "noise_multiplier = 6.0"),
    ("sampling_probability = 0.2", "sampling_probability = 1.0"),  # priced in closed form
    ("population = 2000 ", f"population = {SCHOOLS} "),
    ("rounds = 4", f"rounds = {ROUNDS}"),
    ("rounds_per_release = 4", f"rounds_per_release = {ROUNDS}"),
)
REAL = (("simulation = true ", "simulation = false "), ("seed = 20261121\n", ""))


def dataset(unit):
    """A hundred schools of one row each."""
    rows = np.zeros((SCHOOLS, 3)), np.zeros(SCHOOLS), np.ones(SCHOOLS, dtype=int)
    facts = {"score": "R squared on the test set"}
    return training.Dataset("chem97", unit, True, training.Federation(*rows), None, None, facts, counts_are_public=True)


class Training:
    """What ``epsilog.training`` offers to a run config; notes how it is called."""

    def __init__(self):
        self.called, self.fails, self.withdrawn = [], None, ()

    def require_matching_scheme(self, scheme, task):
        assert task.units == SCHOOLS
        return scheme

    def run_smoke_test(self, _scheme, _task, folder):
        self.called.append("rehearse")
        assert not folder.exists() or (folder / "plan.json").exists()

    def train_without_charge(self, scheme, _task, *, randomness, private=True, engine=None, withdrawn=()):
        assert (engine, withdrawn) == (None, self.withdrawn)  # the model's own
        self.called.append(("dry run", scheme.noise_multiplier if private else None, randomness))
        records, _ = drawn(scheme, randomness.seed, share=randomness.noise_factor)
        return SimpleNamespace(records=records)

    def run_rounds(self, paid, _task, *, folder, on_round, engine, withdrawn):
        assert (engine, withdrawn() if withdrawn else ()) == (None, self.withdrawn)  # the model's own
        self.called.append(("train", paid.randomness))
        public, private = drawn(paid.scheme, 1)
        if paid.charge.state == "reserved":
            paid.charge.start()
        for record in public:
            if record.round not in paid.charge.rounds_released:
                paid.charge.round_started(record.round)
                paid.charge.round_released(record.round, output_hash=record.output_hash)
                on_round(record)
        (folder / "rounds.jsonl").write_bytes(lines(public))
        (folder / "custody.jsonl").write_bytes(lines(private))
        if self.fails:
            raise self.fails
        return SimpleNamespace(model=_task.model.start)


@pytest.fixture
def stand_in(monkeypatch):
    found = Training()
    for name in ("require_matching_scheme", "run_smoke_test", "train_without_charge", "run_rounds"):
        monkeypatch.setattr(training, name, getattr(found, name))
    monkeypatch.setattr("epsilog.pipeline.data_sections.load_dataset", lambda _, unit: dataset(unit))
    return found


class Observer:
    def __init__(self):
        self.stages, self.rounds = [], []

    def stage(self, says):
        self.stages.append(says.split()[0].strip(","))

    def comparison(self, done, total):
        pass

    def round(self, record, plan):
        assert plan.scheme.rounds == ROUNDS
        self.rounds.append(record.round)


def told(path, tmp_path, ledger=None):
    observer = Observer()
    outcome = run(path, runs=tmp_path / "runs", ledger=ledger or tmp_path / "ledger.db", observer=observer)
    return outcome, observer


def test_each_round_of_the_model_is_shown(stand_in, write_config, tmp_path):
    shown = []
    places = {"runs": tmp_path, "ledger": tmp_path / "ledger.db"}
    _, folder = train_only(write_config(*SETTINGS), **places, on_round=shown.append)
    assert [type(record) for record in shown] == [RoundRecord] * ROUNDS
    assert lines(shown) == (folder / "rounds.jsonl").read_bytes()


@pytest.mark.slow
def test_a_simulation_is_rehearsed_trained_compared_and_proved_once(stand_in, write_config, tmp_path):
    path = write_config(*SETTINGS, ("seed = 20261121", "seed = 7\ncomparison_budgets = [1]"))
    outcome, observer = told(path, tmp_path)
    assert outcome.verification.status == "passed"
    assert observer.stages == [
        *("reading", "planning", "smoke", "training", "training", "training", "a", "verifying"),
    ]
    assert observer.rounds == list(range(1, ROUNDS + 1))
    seeded = training.Randomness.from_seed(7)
    assert stand_in.called[:3] == ["rehearse", ("train", seeded), ("dry run", None, seeded)]
    studied, control = stand_in.called[3:]
    assert studied[1] > 6  # less epsilon, more noise
    assert studied[2] == seeded
    assert control[1:] == (6.0, training.Randomness.with_weaker_noise(8, noise_factor=control[2].noise_factor))
    assert control[2].noise_factor < 1
    shown = f"{outcome._repr_html_()} {outcome!r}"  # by a notebook, which may be given away
    assert "The curator checked this on custody.jsonl" in shown
    assert "lists name each client" not in shown
    assert "Cohorts of" not in shown
    utility = outcome.report["utility"]
    assert [(point["epsilon"], point["noise_multiplier"]) for point in utility["study"]] == [(1, studied[1])]
    assert [one["test_score"] for one in utility["baseline_rounds"]] == [
        record.test_score for record in drawn_for(outcome)
    ]
    books, content = LedgerReader.read(tmp_path / "ledger.db"), (tmp_path / "ledger.db").read_bytes()
    again, observer = told(path, tmp_path)
    assert observer.stages == ["reading", "planning", "verifying"]
    assert len(stand_in.called) == 5
    assert again.report == outcome.report
    assert (tmp_path / "ledger.db").read_bytes() == content
    assert len(books.entries) == len(LedgerReader.read(tmp_path / "ledger.db").entries)


@pytest.mark.slow
def test_no_time_of_a_run_tells_how_long_it_took(stand_in, write_config, tmp_path, monkeypatch):
    """Neither what the ledger notes nor when files were written: copies, archives and servers repeat that."""
    path, where = write_config(*SETTINGS), {"runs": tmp_path / "runs", "ledger": tmp_path / "ledger.db"}
    slow, quick = training.run_rounds, time.time_ns()
    monkeypatch.setattr(training, "run_rounds", lambda *args, **given: [slow(*args, **given), time.sleep(0.02)][0])
    for step in (train_only, run):
        folder = (step(path, **where)[1]) if step is train_only else step(path, **where).folder
        times = {file.stat().st_mtime_ns for file in (folder, *folder.rglob("*"))}
        assert len(times) == 1
        assert quick <= times.pop() < time.time_ns() - 20_000_000
    with open_ledger(tmp_path / "ledger.db") as books:
        assert len({entry.time for entry in books.history() if entry.key is not None}) == 1


@pytest.mark.slow
def test_nothing_of_a_simulation_is_computed_on_who_withdrew(stand_in, write_config, tmp_path):
    """The run, and what it is compared with: without DP, another budget, the control."""
    stand_in.withdrawn = {3, 17}
    (tmp_path / "gone.txt").write_text("3\n17\nnobody\n")
    data = ('name = "chem97"', 'name = "chem97"\nwithdrawn = "gone.txt"')
    told(write_config(*SETTINGS, data, ("seed = 20261121", "seed = 7\ncomparison_budgets = [1]")), tmp_path)
    assert [each[0] for each in stand_in.called[1:]] == ["train", *["dry run"] * 3]


def drawn_for(outcome):
    return drawn(outcome.plan.scheme, 7)[0]


@pytest.mark.slow
def test_training_alone_stops_before_the_proof_and_a_run_goes_on_from_there(stand_in, write_config, tmp_path):
    path, where = write_config(*SETTINGS), {"runs": tmp_path / "runs", "ledger": tmp_path / "ledger.db"}
    model, folder = train_only(path, **where)
    assert [call[0] for call in stand_in.called] == ["r", "train"]  # rehearsed and trained, and nothing compared
    assert sorted(file.name for file in folder.glob("*.*")) == [
        "custody.jsonl",
        "model.npz",
        "plan.json",
        "rounds.jsonl",
        "software.json",
    ]
    with open_ledger(tmp_path / "ledger.db") as books:
        (charge,) = (entry for entry in books.history() if entry.verb == "reserved")
        assert books.find(charge.key).state == "started"
    outcome, observer = told(path, tmp_path)
    assert outcome.verification.status == "passed"
    assert observer.rounds == []
    assert outcome.model.vector.tobytes() == model.vector.tobytes()
    stand_in.called.clear()
    assert train_only(path, **where)[1] == folder  # closed by now: only read
    assert stand_in.called == []
    (folder / "model.npz").unlink()
    assert told(path, tmp_path)[0].model is None


@pytest.mark.slow
def test_closed_is_the_charge_of_this_very_plan_committed_in_a_ledger_that_is_there(stand_in, write_config, tmp_path):
    path, ledger = write_config(*SETTINGS), tmp_path / "ledger.db"
    stand_in.fails = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        told(path, tmp_path)
    stand_in.fails = None
    (folder,) = (tmp_path / "runs").iterdir()
    from epsilog.pipeline.preparation import read_stored_plan

    plan = read_stored_plan(folder / "plan.json")
    assert not is_charge_closed(plan, ledger)  # started, and not committed
    assert not is_charge_closed(plan, tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()
    told(path, tmp_path)
    assert is_charge_closed(plan, ledger)
    other = SimpleNamespace(name=plan.name, details=plan.details, budget=plan.budget, hash="0" * 64)
    assert make_charge_key(other) == make_charge_key(plan)
    assert not is_charge_closed(other, ledger)  # priced by another version: its own charge it is not
    another = SimpleNamespace(name="another", details=plan.details, budget=plan.budget, hash=plan.hash)
    assert not is_charge_closed(another, ledger)


@pytest.mark.slow
def test_another_process_that_was_faster_is_not_trained_again(stand_in, write_config, tmp_path, monkeypatch):
    """It committed after this one had looked, and before this one had the folder to itself."""
    path = write_config(*SETTINGS)
    told(path, tmp_path)
    monkeypatch.setattr(runner, "is_charge_closed", lambda *_: False)
    stand_in.called.clear()
    outcome, observer = told(path, tmp_path)
    assert stand_in.called == ["rehearse"]
    assert observer.stages[-1] == "verifying"
    assert outcome.verification.status == "passed"


@pytest.mark.slow
def test_references_are_read_beside_the_config_and_kept_by_their_hash(stand_in, write_config, tmp_path):
    (tmp_path / "beside.md").write_bytes(b"what was agreed")
    path = write_config(*SETTINGS, ("[references]", '[references]\nagreed = "beside.md"'))
    outcome, _ = told(path, tmp_path)
    assert outcome.plan.details["references"]["agreed"] == hashlib.sha256(b"what was agreed").hexdigest()
    missing = write_config(*SETTINGS, ("[references]", '[references]\nagreed = "nowhere.md"'), name="q.toml")
    with pytest.raises(ConfigError, match=r"references.agreed: nowhere.md cannot be read: No such file"):
        told(missing, tmp_path)


@pytest.mark.slow
def test_a_plan_file_that_is_none_is_an_error_of_the_records(stand_in, write_config, tmp_path):
    path = write_config(*SETTINGS)
    outcome, _ = told(path, tmp_path)
    (outcome.folder / "plan.json").write_text('{"v": 0}')
    with pytest.raises(RecordError, match="is not a plan"):
        told(path, tmp_path)
