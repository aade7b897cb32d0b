"""A run's certificate is checked first, and held against the release that the plan describes."""

import hashlib
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.reports.drawn import finish, make_plan

from epsilog.certificates import certificate, certify_guarantee, describe_claim
from epsilog.ledger import open_ledger
from epsilog.mechanisms import ExponentialMechanism, Gaussian, PureDP, Repeated, Shuffled
from epsilog.reports import REQUIRED_EVIDENCE, verify
from epsilog.reports.proof import build_proof
from epsilog.terms import OUTCOME_SHARE, CheckError, codec
from epsilog.verification import TrustAnchors, get_certified_delta, read_evidence
from epsilog.verification.claim import check_claimed_certificate


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    finish(folder / "run", folder / "ledger.db", make_plan())
    return folder / "run"


def find(folder, **given):
    outcome = verify(folder, **given)
    return outcome, next(one for one in outcome.findings if one.check == "certificate")


def test_a_run_comes_with_a_certificate_that_is_checked_before_anything_else(run):
    outcome, found = find(run)
    assert outcome.status == "passed"
    assert outcome.findings[0] is found
    assert found.code == "certificate/proven"
    stated = json.loads((run / "certificate.json").read_text())["claim"]
    plan = read_evidence(run, None).claim
    assert float(stated["delta"]) == plan.guarantee.delta * (1 - OUTCOME_SHARE) == get_certified_delta(plan)
    values = dict(found.values)
    proven, claimed = values["proven"], values["claimed"]
    assert proven == float(stated["epsilon"]) <= 1.0011 * claimed


@pytest.mark.parametrize("file", ["report.json", "report.html"])
def test_a_report_carries_it(run, file):
    assert find(run / file, require=("certificate",))[1].code == "certificate/proven"
    assert (
        json.loads((run / "report.json").read_text())["evidence"]["certificate"]
        == (run / "certificate.json").read_text()
    )


def test_a_commit_binds_it(run, tmp_path):
    evidence = read_evidence(run, run.parent / "ledger.db")
    assert check_claimed_certificate(replace(evidence, certificate=None)).code == "certificate/missing"
    assert check_claimed_certificate(replace(evidence, certificate=None, ledger=None)).status == "not checked"


@pytest.mark.slow
def test_the_certificate_is_the_one_that_the_reservation_presented(tmp_path):
    plan = make_plan()
    with open_ledger(tmp_path / "ledger.db") as ledger:
        unit, terms = {"privacy_unit": "school"}, {"epsilon": "30", "delta": "1e-3", "requires_certificate": True}
        ledger.create_budget("acme/2026", kind="approximate", simulation=True, **unit, **terms)
    folder = tmp_path / "run"
    report = finish(folder, tmp_path / "ledger.db", plan, make_budget=False)
    presented = report["evidence"]["ledger"]["certificate"]
    assert presented == hashlib.sha256((folder / "certificate.json").read_bytes()).hexdigest()
    for artifact in (folder, folder / "report.json", folder / "report.html"):
        outcome, found = find(artifact, ledger=tmp_path / "ledger.db", require=("report", "ledger"))
        assert (found.code, outcome.status) == ("certificate/proven", "passed")
    evidence = read_evidence(folder, tmp_path / "ledger.db")
    release, delta = evidence.claim.release, get_certified_delta(evidence.claim)
    other = certificate(release, delta=delta, slack=0.002, relation=evidence.claim.guarantee.relation).text
    assert check_claimed_certificate(replace(evidence, certificate=other.encode(), ledger=None)).status == "passed"
    found = check_claimed_certificate(replace(evidence, certificate=other.encode()))
    assert (found.code, found.status) == ("certificate/mismatch", "failed")


def test_the_zcdp_form_of_a_bounded_range_claim_is_about_the_same_release(run):
    evidence = read_evidence(run, None)
    release = Repeated(ExponentialMechanism(0.5), 20)
    made = certificate(release, delta=get_certified_delta(evidence.claim), relation=evidence.claim.guarantee.relation)
    assert made.claim["releases"][0]["mechanisms"][0]["type"] == "zcdp", "the form that composes better"
    guarantee = replace(evidence.claim.guarantee, epsilon=made.epsilon)
    for certified in (release, Repeated(ExponentialMechanism(0.5), 19)):
        claim = SimpleNamespace(release=certified, guarantee=guarantee, plan=evidence.claim.plan)
        found = check_claimed_certificate(replace(evidence, certificate=made.text.encode(), claim=claim))
        assert found.code == ("certificate/proven" if certified is release else "certificate/other-claim")
    report = json.loads((run / "report.json").read_text())
    report["evidence"]["certificate"] = made.text
    report["mechanism"]["release"] = codec.encode(release)
    proof = build_proof(report)
    assert any("zcdp" in value for _, value in proof.rows)
    assert proof.rows == describe_claim(made.claim)


@pytest.mark.parametrize(
    ("alter", "code"),
    [
        (lambda text: text.replace('"delta":"', '"delta":"0'), "certificate/other-claim"),
        (lambda text: text.replace('"count":4', '"count":3'), "certificate/other-claim"),
        (lambda _: certificate(Gaussian(2.0), delta=1e-5).text, "certificate/other-claim"),
        (lambda text: text.replace('"epsilon":"0.', '"epsilon":"0.0'), "certificate/refused"),
        (lambda text: text[:-40], "certificate/refused"),
        (lambda _: "", "certificate/refused"),
    ],
)
def test_another_certificate_fails(run, alter, code):
    evidence = read_evidence(run, None)
    text = alter(evidence.certificate.decode())
    assert text != evidence.certificate.decode()
    found = check_claimed_certificate(replace(evidence, certificate=text.encode()))
    assert (found.code, found.status) == (code, "failed")


@pytest.mark.slow
def test_a_certificate_of_a_much_larger_epsilon_is_no_support_of_the_claim(run):
    evidence = read_evidence(run, None)
    release, guarantee, delta = evidence.claim.release, evidence.claim.guarantee, get_certified_delta(evidence.claim)
    for slack, status in ((0.005, "passed"), (0.05, "warned"), (0.9, "warned")):
        text = certificate(release, delta=delta, slack=slack, relation=guarantee.relation).text
        found = check_claimed_certificate(replace(evidence, certificate=text.encode()))
        assert found.status == status, slack
    assert found.code == "certificate/larger-epsilon"


@pytest.mark.slow
def test_a_guarantee_far_above_the_bound_is_proven_as_it_stands():
    plan = make_plan()
    found = certify_guarantee(plan.release, replace(plan.guarantee, epsilon=2.0), delta=1e-5)
    assert found.claim["epsilon"] == "2"
    near = certify_guarantee(plan.release, replace(plan.guarantee, epsilon=plan.epsilon.upper), delta=1e-5)
    assert plan.epsilon.upper < near.epsilon < 1.0011 * plan.epsilon.upper


def test_what_no_certificate_covers_has_none():
    plan = make_plan()
    assert certify_guarantee(Shuffled(PureDP(1.0), 1000), plan.guarantee, delta=1e-5) is None


def test_a_certificate_is_required_only_on_request(run):
    assert "certificate" not in REQUIRED_EVIDENCE
    with pytest.raises(CheckError, match="require"):
        verify(run, require=("certificates",))


def test_a_ledger_is_not_checked_against_another():
    with pytest.raises(CheckError, match="ledger must be absent for a ledger"):
        verify("https://ledger.example.org", ledger="other.db")


@pytest.mark.parametrize(
    ("name", "value"),
    [("ledger", "other.db"), ("require", ("ledger",)), ("trust", TrustAnchors(head="ab" * 32)), ("signature", "x")],
)
def test_a_certificate_is_checked_alone_and_says_what_it_does_not_take(tmp_path, name, value):
    file = tmp_path / "certificate.json"
    file.write_text(certificate(Gaussian(1.0), delta=1e-5).text)
    assert verify(file).status == "passed"
    with pytest.raises(CheckError, match=f"{name} must be absent for a certificate"):
        verify(file, **{name: value})
