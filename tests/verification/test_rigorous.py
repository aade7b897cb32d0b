"""What a proof in ball arithmetic says of a claim, in a finding."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("flint")

from tests.reports.drawn import local, make_plan

from epsilog.mechanisms import ZeroConcentratedDP
from epsilog.terms import ClaimEffect, Status
from epsilog.verification import check_rigorous


@pytest.mark.slow
@pytest.mark.parametrize("kind", [local, None], ids=["local", "central"])
def test_a_claim_is_proven_and_a_lowered_one_is_not(kind):
    plan = make_plan(kind) if kind else make_plan()
    held = check_rigorous(plan.guarantee, plan.release)
    assert (held.code, held.status) == ("ball-arithmetic/proven", Status.PASSED)
    low = check_rigorous(replace(plan.guarantee, epsilon=plan.epsilon.lower * 0.999), plan.release, cells=2048)
    assert (low.code, low.status, low.claim_effect) == (
        "ball-arithmetic/not-proven",
        Status.WARNED,
        ClaimEffect.SUPPORTED,
    )
    numbers = dict(low.values)
    assert numbers["delta_upper"] > plan.guarantee.delta
    assert plan.epsilon.lower <= numbers["epsilon_upper"] <= plan.epsilon.upper * 1.01


def test_what_has_no_profile_is_not_checked():
    plan = make_plan(local)
    found = check_rigorous(plan.guarantee, ZeroConcentratedDP(0.1))
    assert (found.code, found.claim_effect) == ("ball-arithmetic/not-applicable", ClaimEffect.UNDETERMINED)
    assert "ZeroConcentratedDP" in found.message
    assert check_rigorous(SimpleNamespace(epsilon=float("inf")), plan.release).code == "ball-arithmetic/not-applicable"
