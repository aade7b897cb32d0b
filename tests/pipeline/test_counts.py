"""Noisy counts beside the model: priced in the plan, reserved with it, drawn once, and told in the report."""

import json
from decimal import Decimal

import pytest

from epsilog.ledger import Charge, open_ledger, read_ledger
from epsilog.pipeline import load_run_config, preparation as preparing, run
from epsilog.pipeline.counts import CountsSection, RunCounts, give_back
from epsilog.terms import BudgetExceededError, CheckError, ConfigError
from epsilog.verification import read_evidence, verify_evidence
from epsilog.verification.claim import check_plan

CLINICS = 40
TEXT = """
[identity]
name = "stays"
purpose = "a test"
owner = "tests"

[guarantee]
privacy_unit = "clinic"
relation = "add-or-remove-one"
population = 60

[budget]
scope = "stays"
epsilon = "4"
delta = "1e-3"
delta_rationale = "a test"

[scheme]
kind = "client-level-central"
clip_norm = 1.0
sampling_probability = 0.5
rounds = 3
noise_multiplier = "calibrate"

[data]
path = "visits.csv"
public = true
client = "clinic"
row = "visit"
target = "long"
classes = ["no", "yes"]
test = "none"

[data.features]
age = [0, 110]
admitted = [2024-01-01, 2025-12-31]

[model]
kind = "linear"

[training]
local_steps = 1
learning_rate = 0.5

[counts]
usable = "0.5"
usable_at_least = 20
evaluation = "0.25"

[coverage]
participation = "Poisson"
rounds_per_release = 3
adaptive_clip = false
post_processing = "none"

[reporting]
period = "2026"

[run]
simulation = true
seed = 5
"""


@pytest.fixture
def write(tmp_path):
    def write(*changes, date="2024-05-06"):
        rows = [f"c{n % CLINICS},{20 + n % 60},{date},{'yes' if n % 60 > 20 else 'no'}" for n in range(400)]
        (tmp_path / "visits.csv").write_text("\n".join(["clinic,age,admitted,long", *rows, ""]))
        text = TEXT
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "p.toml"
        path.write_text(text)
        return path

    return write


def spent(tmp_path):
    with read_ledger(tmp_path / "runs" / "ledger.db") as books:
        return books.balance("stays").spent["epsilon"], books.balance("stays").reserved["epsilon"]


@pytest.mark.slow
def test_a_config_whose_column_is_misread_spends_the_count_alone(write, tmp_path):
    """Dates of another form: no row can be used, and the budget of 4 is not spent on nothing."""
    path = write(date="06.05.2024")
    for _ in range(2):  # again: the same answer, and no further charge
        with pytest.raises(ConfigError, match=r"counts.usable_at_least: about -?\d+ \(\+- \d+\) rows can be used"):
            run(path, runs=tmp_path / "runs")
        assert spent(tmp_path) == ("0.5", "0")


@pytest.mark.slow
def test_counts_are_priced_reserved_drawn_and_told(write, tmp_path):
    outcome = run(write(), runs=tmp_path / "runs")
    counts = {one["name"]: one for one in outcome.report["owner"]["counts"]}
    assert abs(counts["usable"]["value"] - CLINICS) <= 3 * counts["usable"]["error"]
    assert 0 <= counts["evaluation"]["value"] <= 1
    assert counts["usable"]["charged"] == {"approximate": {"delta": "0", "epsilon": "0.5"}}
    assert outcome.plan.details["counts"] == {
        "usable": "0.5",
        "usable_at_least": 20,
        "evaluation": "0.25",
        "rows_per_unit": 1,
    }
    assert 3.2 < outcome.plan.epsilon.upper <= 3.25
    assert Decimal(spent(tmp_path)[0]) <= 4
    statement = outcome.report["claim"]["statement"]
    assert "at epsilon 0.75 alone. Model and counts together have epsilon" in statement
    assert outcome.verification.status != "failed"
    page = (outcome.folder / "report.html").read_text()
    assert "usable rows" in page
    assert statement.split(". ")[-1] in page
    with read_ledger(tmp_path / "runs" / "ledger.db") as books:
        for one in counts.values():
            charge = books.find(one["key"])
            assert charge.state == "committed"
            assert len(charge.rounds_released) == 1
    ledger = (tmp_path / "runs" / "ledger.db").read_bytes()
    assert run(write(), runs=tmp_path / "runs").report == outcome.report
    assert (tmp_path / "runs" / "ledger.db").read_bytes() == ledger
    assert verify_evidence(read_evidence(outcome.folder, tmp_path / "runs" / "ledger.db")).status != "failed"


@pytest.mark.slow
def test_a_run_that_is_killed_between_its_charges_counts_once(write, tmp_path, monkeypatch):
    path, runs = write(), tmp_path / "runs"
    commit = Charge.commit

    def dies(charge, *args, **named):
        if not charge.key.endswith(("usable", "evaluation")):
            raise KeyboardInterrupt
        commit(charge, *args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Charge, "commit", dies)
        with pytest.raises(KeyboardInterrupt):
            run(path, runs=runs)
    kept = {one.name: one.read_bytes() for one in runs.glob("*/answers/*.json")}
    assert len(kept) == 2
    outcome = run(path, runs=runs)
    assert {one.name: one.read_bytes() for one in runs.glob("*/answers/*.json")} == kept
    assert Decimal(spent(tmp_path)[0]) <= 4
    assert [one["value"] for one in outcome.report["owner"]["counts"]] == [
        json.loads(kept[name])["value"] for name in sorted(kept, reverse=True)
    ]


@pytest.mark.slow
def test_what_a_budget_cannot_bear_reserves_nothing(write, tmp_path):
    with open_ledger(tmp_path / "runs.db") as books:
        books.create_budget("stays", kind="approximate", epsilon="3.9", delta="1e-3", simulation=True,
                            privacy_unit="clinic")  # fmt: skip
        with pytest.raises(BudgetExceededError):
            run(write(), runs=tmp_path / "runs", ledger=tmp_path / "runs.db")
        assert books.balance("stays").reserved["epsilon"] == "0"
        assert books.balance("stays").spent["epsilon"] == "0"
        prepared = preparing.prepare_config(write())
        counting = RunCounts(preparing.make_plan(prepared), prepared.task, tmp_path / "runs" / "r", 5, "a key")
        for number in range(3):  # what was given back is reserved again, under another key
            reserved = counting.reserve(books)
            assert [one.state for one in reserved] == ["reserved", "reserved"]
            give_back(reserved, "a test")
            assert reserved[0].key == ("a key-usable" if not number else f"a key-usable-{number + 1}")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ([('evaluation = "0.25"', 'evaluation = "3.5"')], "counts must be such that their epsilons leave some"),
        ([('usable = "0.5"\n', "")], "counts.usable_at_least must be absent where usable is"),
        ([('usable = "0.5"\nusable_at_least = 20\nevaluation = "0.25"', "")], "counts.usable must be given"),
        ([('usable = "0.5"', 'usable = "0"')], "counts.usable must be a decimal number"),
        ([("usable_at_least = 20", "rows_per_unit = 0")], "counts.rows_per_unit"),
    ],
)  # fmt: skip
def test_counts_that_make_no_sense_are_refused(write, changes, says):
    with pytest.raises(ConfigError, match=says):
        load_run_config(write(*changes))


def test_an_evaluation_needs_classes(write):
    path = write(('classes = ["no", "yes"]', "target_range = [0, 1]"))
    with pytest.raises(ConfigError, match=r"counts.evaluation must be absent where the target is a number"):
        preparing.prepare_config(path)


def test_a_plan_whose_counts_do_not_fit_its_budget_fails(write, tmp_path):
    plan = preparing.make_plan(preparing.prepare_config(write()))
    document = plan.to_json()
    document["details"]["counts"]["usable"] = "0.76"
    assert check_plan(plan).status != "failed"
    assert "on a budget of 4" in check_plan(type(plan).from_json(document)).message
    document["details"]["counts"]["usable"] = -1
    with pytest.raises(CheckError, match="counts must be decimal numbers"):
        type(plan).from_json(document)
    assert CountsSection(usable="0.1").epsilon == Decimal("0.1")


def test_a_unit_has_one_row_unless_more_are_stated():
    assert CountsSection(usable="0.1").rows_per_unit == 1
