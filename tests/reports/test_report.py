"""Each field of a report agrees with plan, records, files and ledger of its run."""

import hashlib
import hmac
import importlib
import itertools
import json
import math
from dataclasses import replace

import pytest
from tests.reports.drawn import central, drawn, finish, lines, local, make_plan

from epsilog.accounting import epsilon, federated_closed_form
from epsilog.ledger import verify_ledger
from epsilog.mechanisms import BestOfTrials, BinomialTrialCount, Repeated
from epsilog.plan import RegisteredPlan
from epsilog.reports import build_report, check_schema, load_report_schema
from epsilog.reports.statements import format_statement
from epsilog.terms import OUTCOME_SHARE, RecordError, codec
from epsilog.verification import Claim, compute_certified_interval, read_evidence, verify_evidence

module = importlib.import_module("epsilog.reports.report")


@pytest.fixture(scope="module", params=["central", "local"])
def run(request, tmp_path_factory):
    """Plan, report and folder of a finished run; the ledger is in the parent folder."""
    plan = make_plan({"central": central, "local": local}[request.param])
    folder = tmp_path_factory.mktemp("said") / "run"
    finish(folder, folder.parent / "ledger.db", plan)
    return plan, json.loads((folder / "report.json").read_text()), folder


@pytest.mark.slow_beyond(1)
def test_the_claim_is_the_plans(run):
    plan, report, _ = run
    claim = report["claim"]
    assert claim["statement"] == format_statement(plan.guarantee, simulation=True)
    assert codec.decode(claim["guarantee"]) == plan.guarantee
    assert codec.decode(claim["epsilon"]) == plan.epsilon
    assert codec.decode(claim["unamplified"]) == plan.unamplified
    assert (claim["delta_rationale"], claim["coverage"]) == ("policy cap", plan.details["coverage"])
    assert [row["party"] for row in claim["parties"]] == [party.name for party in plan.scheme.parties]
    assert report["identity"] == plan.details["identity"] | {"period": "2026-Q4"}
    assert (report["v"], report["kind"], report["simulation"]) == (2, "report", True)


def test_the_mechanism_is_the_plans(run):
    plan, report, _ = run
    mechanism = report["mechanism"]
    assert codec.decode(mechanism["scheme"]) == plan.scheme
    assert codec.decode(mechanism["release"]) == plan.scheme.release()
    assert mechanism["noise_stddev"] == plan.scheme.noise_stddev
    assert (mechanism["training"], mechanism["data"]) == (plan.details["training"], plan.details["data"])


@pytest.mark.slow_beyond(1)
def test_accounting_covers_each_round_and_the_run(run):
    plan, report, _ = run
    accounts, scheme = report["accounting"], plan.scheme
    said = {number: (at["lower"], at["upper"]) for at in accounts["curve"] for number in [at["round"]]}
    assert list(said) == list(range(1, scheme.rounds + 1))
    for number, (lower, upper) in said.items():
        costs = epsilon(scheme.after(number), delta=plan.guarantee.delta, relation=plan.guarantee.relation)
        assert lower == pytest.approx(costs.lower, rel=1e-9)
        assert upper == pytest.approx(costs.upper, rel=1e-9)
    assert said[scheme.rounds][1] == pytest.approx(plan.guarantee.epsilon, rel=1e-9)
    formula = federated_closed_form(
        sampling_probability=scheme.step().sampling_probability,
        noise_multiplier=scheme.noise_multiplier,
        rounds=scheme.noisy_sums(scheme.rounds),
        delta=plan.guarantee.delta,
    )
    shown = accounts["closed_form"]
    assert (shown["root_term"], shown["linear_term"], shown["total"]) == (
        formula.root_term,
        formula.linear_term,
        formula.root_term + formula.linear_term,
    )
    assert shown["dominant_term"] == ("root" if formula.root_term >= formula.linear_term else "linear")
    assert shown["side"] == "estimate"
    assert shown["note"]


def test_rounds_and_result_are_the_records(run):
    plan, report, folder = run
    records = [json.loads(line)["term"] for line in (folder / "rounds.jsonl").read_text().splitlines()]
    for told, record in zip(report["rounds"], records, strict=True):
        assert told == {name: record[name] for name in ("round", "test_loss", "test_score")}
    assert report["result"] == {
        "rounds": plan.scheme.rounds,
        "diverged": False,
        "score_name": "R squared on the test set",
        "test_loss": records[-1]["test_loss"],
        "test_score": records[-1]["test_score"],
        "model_hash": records[-1]["output_hash"],
    }


def test_the_evidence_binds_files_and_ledger(run):
    plan, report, folder = run
    evidence, ledger = report["evidence"], verify_ledger(folder.parent / "ledger.db")
    assert evidence["plan_hash"] == plan.hash
    public = ("plan.json", "rounds.jsonl", "owner.json", "certificate.json")
    digests = {name: hashlib.sha256((folder / name).read_bytes()) for name in public}
    secret = bytes.fromhex((folder / "custody.key").read_text())
    digests["custody.commitment"] = hmac.new(secret, (folder / "custody.jsonl").read_bytes(), "sha256")
    assert evidence["files"] == {name: digest.hexdigest() for name, digest in digests.items()}
    assert evidence["ledger"]["head"] == ledger.head
    caps = {"epsilon": "30", "delta": "0.001"}
    assert report["budget"] == plan.budget | {
        "charged": {"epsilon": report["budget"]["charged"]["epsilon"], "delta": "0.00001"},
        "state": "committed",
        "earlier_spending": {"epsilon": "0", "delta": "0"},
        "binding": {
            "scope": "acme/2026",
            "source": "ledger",
            "caps": caps,
            "spent_or_reserved": {"epsilon": "0", "delta": "0"},
        },
    }
    spent = ledger.balances["acme/2026"].committed
    assert report["budget"]["charged"] == dict(spent)
    assert evidence["references"] == {"playbook": "a" * 64}
    assert (evidence["plan"], len(evidence["records"])) == (plan.to_json(), plan.scheme.rounds)
    assert report["verification"]["status"] == "passed"
    assert report["utility"]["baseline_rounds"]
    assert {"path": "claim/coverage", "source": "attested", "attested_by": "owner"} in report["figure_sources"]


def test_files_within_a_report_are_those_of_the_folder(run):
    _, report, folder = run
    files = module.extract_files(report)
    assert set(files) == {"plan.json", "rounds.jsonl", "owner.json", "certificate.json", "report.json"}
    for name, content in files.items():
        assert content == (folder / name).read_bytes(), name
    for broken in ({}, {"evidence": None}, report | {"evidence": {}}, [], None):
        with pytest.raises(RecordError, match="does not carry"):
            module.extract_files(broken)


@pytest.mark.slow
def test_what_a_plan_leaves_out_is_left_blank(tmp_path):
    blank = replace(make_plan(), details={})
    finish(tmp_path / "run", tmp_path / "ledger.db", make_plan())
    evidence = read_evidence(tmp_path / "run", tmp_path / "ledger.db")
    outcome = verify_evidence(evidence)
    report = build_report(replace(outcome, evidence=replace(evidence, claim=Claim.from_plan(blank), records=())))
    assert report["identity"] == {"name": "drawn", "period": ""}
    assert report["claim"]["coverage"] == report["mechanism"]["training"] == report["mechanism"]["data"] == {}
    assert report["evidence"]["references"] == {}
    assert report["rounds"] == report["accounting"]["curve"] == []
    nothing = {"rounds": 0, "diverged": False, "score_name": "score"}
    assert report["result"] == nothing | dict.fromkeys(("test_loss", "test_score", "model_hash"))
    with pytest.raises(RecordError, match=r"a report contains owner\.json, which is missing"):
        build_report(replace(outcome, evidence=replace(evidence, owner=None)))
    quiet = replace(evidence, owner=replace(evidence.owner, utility=None))
    assert build_report(replace(outcome, evidence=quiet))["utility"] is None


@pytest.mark.slow
def test_a_diverged_run_is_marked(tmp_path):
    plan = make_plan()
    public, private = drawn(plan.scheme, 1)
    public[-1] = replace(public[-1], test_loss=None, test_score=None, diverged=True)
    finish(tmp_path / "run", tmp_path / "ledger.db", plan, records=(public, private))
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert (report["result"]["diverged"], report["result"]["test_score"]) == (True, None)
    assert report["rounds"][-1]["test_loss"] is None
    assert report["rounds"][-2]["test_loss"] is not None
    assert (tmp_path / "run" / "rounds.jsonl").read_bytes() == lines(public)


@pytest.mark.slow
def test_a_run_without_a_test_set_has_no_score_and_did_not_diverge(tmp_path):
    plan = make_plan()
    public, private = drawn(plan.scheme, 1)
    public = [replace(record, test_loss=None, test_score=None) for record in public]
    finish(tmp_path / "run", tmp_path / "ledger.db", plan, records=(public, private))
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert (report["result"]["diverged"], report["result"]["test_score"]) == (False, None)
    assert "rounds" not in {f["check"] for f in report["verification"]["findings"] if f["status"] != "passed"}
    page = (tmp_path / "run" / "report.html").read_text()
    assert "No score was released: there is no test set." in page
    assert "Training diverged" not in page


@pytest.mark.slow_beyond(3)
@pytest.mark.parametrize("rounds", [0, 1, 2, 39, 40, 41, 79, 500])
def test_a_curve_has_about_forty_points_with_both_ends(monkeypatch, rounds):
    asked = []

    def epsilon_after(plan, rounds):
        asked.append(rounds)
        return replace(plan.epsilon, upper=math.nextafter(float(len(asked)), math.inf), lower=len(asked) / 2)

    plan = make_plan()
    long = replace(plan, scheme=replace(plan.scheme, rounds=max(rounds, 1)))
    monkeypatch.setattr(RegisteredPlan, "epsilon_after", epsilon_after)
    curve = module.sample_epsilon_curve(long, rounds)
    at = [point["round"] for point in curve]
    assert len(at) == min(rounds, 40)
    if rounds:
        assert (at[0], at[-1]) == (1, rounds)
        steps = [later - earlier for earlier, later in itertools.pairwise(at)]
        assert all(1 <= step <= math.ceil(rounds / 39) for step in steps)
        assert max(steps, default=0) - min(steps, default=0) <= 1
    assert asked == at
    assert [point["lower"] for point in curve] == [k / 2 for k in range(1, len(at) + 1)]
    monkeypatch.setattr(RegisteredPlan, "epsilon_after", lambda *_: replace(plan.epsilon, upper=math.inf))
    assert all(point["upper"] == "inf" for point in module.sample_epsilon_curve(long, rounds))


def test_curves_cover_published_outcomes_as_the_claim_does():
    plan = make_plan()
    last = module.sample_epsilon_curve(plan, plan.scheme.rounds)[-1]
    assert last["upper"] == plan.guarantee.epsilon
    guarantee = plan.guarantee
    uncovered = compute_certified_interval(plan.scheme.release(), guarantee.delta, guarantee.relation).upper
    assert uncovered < last["upper"] < uncovered * (1 + 1e-9)


def test_an_empty_or_foreign_document_is_no_report():
    assert load_report_schema()["title"].startswith("epsilog report")
    for document in ({}, {"kind": "report"}, []):
        with pytest.raises(ValueError, match=r"required|not of type"):
            check_schema(document)


def test_the_costs_of_tuning_cover_the_published_outcomes_of_checks():
    plan = replace(make_plan(central), trials=BinomialTrialCount(5, 1.0))
    found, one = module._build_tuning_section(plan), plan.scheme.release()
    for delta in (plan.guarantee.delta, plan.guarantee.delta * (1 - OUTCOME_SHARE)):
        for name, release in (
            ("single_run", one),
            ("best", BestOfTrials(one, plan.trials)),
            ("all_released", Repeated(one, 5)),
        ):
            cost = epsilon(release, delta=delta, relation=plan.guarantee.relation)
            assert cost.lower <= found[name]["upper"] * (1 + 1e-9), name
            assert found[name]["lower"] <= cost.upper * (1 + 1e-9), name
    assert found["single_run"]["upper"] < found["best"]["upper"] <= found["all_released"]["upper"]
    assert module._build_tuning_section(make_plan(central)) is None
