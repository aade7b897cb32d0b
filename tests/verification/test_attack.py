"""What canaries show is held against the claim: it may refute it, and it never speaks for it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from tests.extent import amount
from tests.reports.drawn import audit_of, make_plan, scored

from epsilog.reports.report import build_audit_section
from epsilog.terms import Canaries, CheckError
from epsilog.verification import CanaryScores, Claim, Evidence, evaluate_planned_audit
from epsilog.verification.audits import GAUSSIAN, PLANNED, AuditProtocol, PlannedAudit, refute_claim
from epsilog.verification.claim import check_plan
from epsilog.verification.owner_checks import FALSE_ALARM, check_audit

COUNT = 100
SOUGHT = 2_301_051
ONE = Canaries(COUNT, "5c" * 32)


def evidence(scores, *, epsilon=None, **changes):
    plan = make_plan(**audit_of(ONE) | changes)
    if epsilon is not None:
        plan = replace(plan, guarantee=replace(plan.guarantee, epsilon=epsilon))
    return Evidence(Claim.from_plan(plan), (), None, None, canaries=scores)


def one(found):
    (finding,) = check_audit(found)
    return finding


def test_a_run_without_an_audit_has_no_finding_of_one():
    assert check_audit(Evidence(Claim.from_plan(make_plan()), (), None, None)) == ()
    assert evaluate_planned_audit(Evidence(Claim.from_plan(make_plan()), (), None, None)) is None


@pytest.mark.slow
def test_a_leak_that_no_claim_allows_fails_and_silence_is_not_praised():
    silent, loud = one(evidence(scored(ONE, 0.0))), one(evidence(scored(ONE, 9.0)))
    assert (silent.code, silent.status) == ("audit/not-refuted", "passed")
    assert "does not support it" in silent.message
    assert "proves little" in silent.message
    assert "verified" not in silent.message + loud.message
    assert (loud.code, loud.status, loud.claim_effect) == ("audit/refuted", "failed", "unsupported")
    assert dict(loud.values)["lower_bound"] > dict(loud.values)["claimed"]
    assert silent.false_alarm_rate == loud.false_alarm_rate == FALSE_ALARM


def test_a_bound_at_the_protocols_confidence_only_warns():
    """So many right come once in twenty runs of what is claimed, and not once in a million; with fewer wrong, never."""
    guesses = ((50, 50),)
    found = [
        one(evidence(CanaryScores(ONE.secret, wrong_in(places)), **audit_of(ONE, guesses=guesses)))
        for places in (40, 24, 2)
    ]
    codes = [each.code.removeprefix("audit/") for each in found]
    assert codes == ["not-refuted", "weak-evidence-against-claim", "refuted"]
    assert [each.status for each in found] == ["passed", "warned", "failed"]


def wrong_in(places):
    """Scores that rank all canaries by their coins, but for so many at the ends, half on each side."""
    seems = ONE.included.copy()
    for side in (True, False):
        seems[np.flatnonzero(ONE.included == side)[: places // 2]] = not side
    return tuple((seems / 2 + np.linspace(0, 0.1, COUNT)).tolist())


@pytest.mark.slow
def test_sound_runs_fail_never_and_warn_as_seldom_as_their_confidence_says():
    """Randomized coins of sound runs against a claim of almost nothing."""
    draws, warned, runs = np.random.default_rng(4), 0, amount(100, 500)
    silent = evidence(None, epsilon=1e-9)  # one plan: to price it takes nine tenths of a run's time
    for _ in range(runs):
        found = one(replace(silent, canaries=CanaryScores(ONE.secret, tuple(draws.uniform(-1, 1, COUNT).tolist()))))
        assert found.status != "failed"
        warned += found.status == "warned"
    assert warned <= binom.isf(1e-6, runs, 0.1)


def test_coins_of_another_secret_or_of_another_number_fail():
    for other in (Canaries(COUNT, "5d" * 32), Canaries(COUNT - 1, ONE.secret), Canaries(COUNT + 1, ONE.secret)):
        found = one(evidence(scored(other, 0.0)))
        assert (found.code, found.status) == ("audit/canary-mismatch", "failed")
    assert evaluate_planned_audit(evidence(scored(Canaries(COUNT, "5d" * 32), 0.0))) is None


def test_a_document_says_one_thing():
    scores = scored(ONE, 1.0)
    assert CanaryScores.from_json(scores.to_json()) == scores
    assert (scores.canaries.included == ONE.included).all()
    for wrong in (
        {},
        None,
        [],
        scores.to_json() | {"v": 1},
        scores.to_json() | {"secret": "no"},
        scores.to_json() | {"scores": []},
        scores.to_json() | {"scores": [float("nan")] * 3},
        scores.to_json() | {"scores": "123"},
    ):
        with pytest.raises((ValueError, TypeError)):
            CanaryScores.from_json(wrong)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"delta": 1e-4}, "its audit is at delta 0.0001"),
        ({"score": "loss"}, "its audit scores by loss"),
        ({"canaries": 50, "guesses": [[25, 25]]}, "its data has 100 canaries among its units, its audit 50"),
    ],
)
def test_a_plan_whose_audit_is_of_another_claim_contradicts_itself(change, told):
    stated = audit_of(ONE)
    plan = make_plan(**stated | {PLANNED: stated[PLANNED] | change})
    assert check_plan(make_plan(**stated)).status == "passed"
    found = check_plan(plan)
    assert found.status == "failed"
    assert told in found.message


@pytest.mark.parametrize(
    "change",
    [
        {"surplus": 1},
        {"canaries": 1},
        {"confidence": 1.0},
        {"method": "magic"},
        {"guesses": [[60, 60]]},
        {"score": "x"},
    ],
)
def test_a_plan_states_an_audit_in_one_way(change):
    stated = audit_of(ONE)[PLANNED]
    assert PlannedAudit.from_json(stated).to_json() == stated
    with pytest.raises(CheckError):
        PlannedAudit.from_json(stated | change)


@pytest.mark.parametrize("stated", [{}, [], 7, "x", {"guesses": 7}, {"guesses": [[1]]}, {"guesses": [["a", {}]]}])
def test_what_is_no_planned_audit_is_refused_in_a_sentence(stated):
    whole = audit_of(ONE)[PLANNED]
    for each in (stated, whole | stated) if isinstance(stated, dict) and stated else (stated,):
        with pytest.raises(CheckError, match="audit"):
            PlannedAudit.of(make_plan(**{PLANNED: each}))
    with pytest.raises(CheckError, match=r"audit\.confidence must be"):
        PlannedAudit.from_json(whole | {"confidence": 2})
    with pytest.raises(CheckError, match="audit must be a planned audit"):
        PlannedAudit.from_json({name: value for name, value in whole.items() if name != "delta"})


def test_coins_that_are_sought_are_there_to_be_found():
    """The two-million-three-hundred-thousandth secret has all of its canaries in; the search took three seconds."""
    found = Canaries(22, f"{SOUGHT:064x}")
    assert found.included.all()
    told = one(evidence(scored(found, 0.0), **audit_of(found)))
    assert (told.code, told.status) == ("audit/unlikely-coins", "failed")


@pytest.mark.parametrize(
    ("count", "inside", "code"),
    [
        (100, 100, "unlikely-coins"),
        (100, 0, "unlikely-coins"),
        (100, 76, "unlikely-coins"),
        (100, 24, "unlikely-coins"),
        (100, 75, "not-refuted"),
        (100, 25, "not-refuted"),
        (22, 22, "unlikely-coins"),
        (20, 20, "not-refuted"),  # comes twice in a million
    ],
)
def test_coins_that_somebody_drew_again_until_they_suited_are_told(monkeypatch, count, inside, code):
    """With all of them in, or out, no guess can be right too often; a few too many are chance."""
    monkeypatch.setattr(Canaries, "included", property(lambda self: np.arange(self.count) < inside))
    some = Canaries(count, "5c" * 32)
    scores = CanaryScores(some.secret, tuple(np.random.default_rng(3).uniform(-1, 1, count).tolist()))
    found = one(evidence(scores, **audit_of(some)))
    assert found.code == f"audit/{code}"
    assert found.false_alarm_rate == FALSE_ALARM
    if code == "unlikely-coins":
        assert found.status == "failed"
        assert f"{inside} of {count} canaries were in" in found.message


@pytest.mark.parametrize("beyond", [1.1, -1.1, 1e308, -1e308])
def test_what_is_no_cosine_was_made_up_and_is_not_reckoned_with(beyond):
    """Finite, and in its place among the others it would pass; its square is not finite."""
    sound = scored(ONE, 0.0)
    made_up = evidence(CanaryScores(ONE.secret, (beyond, *sound.scores[1:])))
    assert (one(made_up).code, one(made_up).status) == ("audit/impossible-scores", "failed")
    assert evaluate_planned_audit(made_up) is None
    part = build_audit_section(made_up)
    assert part["bound"] is part["estimate"] is None
    assert one(evidence(CanaryScores(ONE.secret, (1.0 + 1e-12, -1.0, *sound.scores[2:])))).status == "passed"


def test_a_bound_on_gaussian_mechanisms_refutes_no_epsilon_by_itself():
    plan = make_plan(**audit_of(ONE))
    scores = scored(ONE, 9.0)
    from epsilog.verification.audits import audit_one_run

    found = audit_one_run(scores.scores, ONE.included, AuditProtocol(COUNT, 1e-5, method=GAUSSIAN))
    held = refute_claim(found, replace(plan, guarantee=replace(plan.guarantee, epsilon=0.1)))
    assert not held.by_epsilon
    assert held.mistaken == pytest.approx(0.05)
