"""A run's certificate is checked first, and held against the release that the plan describes."""

import json
from dataclasses import replace

import pytest
from tests.reports.drawn import finish, make_plan

from epsilog.certificates import certificate, certify_guarantee
from epsilog.mechanisms import Gaussian, PureDP, Shuffled
from epsilog.reports import REQUIRED_EVIDENCE, verify
from epsilog.terms import OUTCOME_SHARE, CheckError
from epsilog.verification import get_certified_delta, read_evidence
from epsilog.verification.certificates import check_claimed_certificate


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


def test_a_certificate_of_a_much_larger_epsilon_is_no_support_of_the_claim(run):
    evidence = read_evidence(run, None)
    release, guarantee, delta = evidence.claim.release, evidence.claim.guarantee, get_certified_delta(evidence.claim)
    for slack, status in ((0.005, "passed"), (0.05, "warned"), (0.9, "warned")):
        text = certificate(release, delta=delta, slack=slack, relation=guarantee.relation).text
        found = check_claimed_certificate(replace(evidence, certificate=text.encode()))
        assert found.status == status, slack
    assert found.code == "certificate/larger-epsilon"


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
