"""What a finding does to the claim, how sure it is, and which step of a playbook it triggers."""

import hashlib
import math

import pytest

from epsilog.terms import CheckError, ClaimEffect, Finding, RecordError, Severity, Status
from epsilog.verification import Playbook, verify_evidence
from epsilog.verification.hidden import compute_plan_alarm


def finding(code, verdict):
    return Finding(code, verdict, "said")


@pytest.mark.parametrize(
    ("code", "verdict", "effect", "grade"),
    [
        ("noise/passed", Status.PASSED, ClaimEffect.SUPPORTED, Severity.NONE),
        ("noise/too-weak", Status.FAILED, ClaimEffect.UNSUPPORTED, Severity.CRITICAL),
        ("noise/too-strong", Status.WARNED, ClaimEffect.SUPPORTED, Severity.NEGLIGIBLE),
        ("noise/not-checked", Status.NOT_CHECKED, ClaimEffect.UNDETERMINED, Severity.THEORETICAL),
        ("participation/sampler-mismatch", Status.FAILED, ClaimEffect.UNAMPLIFIED, Severity.CRITICAL),
        ("population/overstated", Status.FAILED, ClaimEffect.UNAMPLIFIED, Severity.CRITICAL),
        ("attempts/repeated", Status.WARNED, ClaimEffect.SUPPORTED, Severity.THEORETICAL),
    ],
)
def test_a_finding_says_what_it_does_to_the_claim(code, verdict, effect, grade):
    one = finding(code, verdict)
    assert (one.claim_effect, one.severity) == (effect, grade)
    assert one.consequences() == {"severity": grade.value, "claim_effect": effect.value, "false_alarm_rate": 0.0}


def test_findings_of_our_own_runs_carry_them_too(run):
    outcome = verify_evidence(run)
    told = outcome.to_json()
    assert {one["claim_effect"] for one in told["findings"]} <= {"supported", "undetermined"}
    statistical = {one["check"]: one["false_alarm_rate"] for one in told["findings"] if one["false_alarm_rate"]}
    assert statistical == {"noise": 1e-6, "participation": compute_plan_alarm(run.plan)}
    assert math.isclose(told["false_alarm_rate"], math.fsum(statistical.values()))
    assert told["findings"] == [one.to_json() | one.consequences() for one in outcome.findings]


def test_a_playbook_is_bound_by_its_hash(tmp_path, run):
    path = tmp_path / "playbook.toml"
    path.write_text('[steps]\n"noise/too-weak" = ["stop the release", "tell the board"]\nnoise = "ask the operator"\n')
    book = Playbook.read(path)
    assert book.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert book.steps_for(finding("noise/too-weak", Status.FAILED)) == ("stop the release", "tell the board")
    assert book.steps_for(finding("noise/too-strong", Status.WARNED)) == ("ask the operator",)
    assert book.steps_for(finding("noise/passed", Status.PASSED)) == ()
    assert book.steps_for(finding("norms/too-large", Status.FAILED)) == ()
    outcome = verify_evidence(run)
    assert not any("playbook" in one for one in outcome.to_json(book)["findings"])


WRONG = ["", "[steps", '[other]\na = "b"', '[steps]\n"Noise" = "x"', "[steps]\nnoise = 3", "[steps]\nnoise = []"]


@pytest.mark.parametrize("text", WRONG)
def test_a_playbook_that_says_nothing_is_refused(tmp_path, text):
    path = tmp_path / "playbook.toml"
    path.write_text(text)
    with pytest.raises((CheckError, RecordError)):
        Playbook.read(path)
