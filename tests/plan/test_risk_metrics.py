"""What a reading of risk tells: rates of the best attack, and never more than the claim itself leaves."""

import math
from types import SimpleNamespace

import pytest
from scipy import stats

from epsilog.accounting import epsilon
from epsilog.mechanisms import ApproximateDP, Gaussian
from epsilog.plan.interpretation import _attack, compute_risk_metrics
from epsilog.terms import NeighboringRelation

RELATION = NeighboringRelation.ADD_OR_REMOVE_ONE


def rates(release, delta=1e-6):
    return compute_risk_metrics(release, delta=delta, relation=RELATION, known=release, fit=False)["attack"]


def test_the_best_attack_on_gaussian_noise_has_its_known_rate():
    for row in rates(Gaussian(2.0)):
        assert row["tpr"] == pytest.approx(stats.norm.sf(stats.norm.isf(row["fpr"]) - 0.5), rel=1e-3)


@pytest.mark.parametrize("release", [Gaussian(2.0), Gaussian(0.5), ApproximateDP(1.0, 1e-6)])
def test_no_rate_is_above_what_the_claim_leaves(release):
    claimed = epsilon(release, delta=1e-6, relation=RELATION).upper
    rows = rates(release)
    assert [row["fpr"] for row in rows] == [0.001, 0.01]
    for row in rows:
        assert row["fpr"] <= row["tpr"] <= min(1.0, math.exp(claimed) * row["fpr"] * (1 + 1e-9) + 1e-6)


def test_a_claim_caps_what_a_wider_curve_leaves():
    wide = SimpleNamespace(tpr=lambda _: SimpleNamespace(upper=1.0))
    for claimed in (0.0, 0.5, 3.0):
        for row in _attack(wide, claimed, 1e-6):
            assert row["tpr"] == pytest.approx(math.exp(claimed) * row["fpr"] + 1e-6, rel=1e-9)
    assert [row["tpr"] for row in _attack(wide, math.inf, 1e-6)] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("held", "sizes"), [(None, [1, 2, 8, 64]), (1, [1, 2, 8, 64]), (8, [8, 1, 2, 64]), (5, [5, 1, 2, 8, 64])]
)
def test_what_a_person_holds_stands_before_the_usual_group_sizes(held, sizes):
    """Gaussian noise costs a group of k what a k-th of the noise costs one."""
    noise = Gaussian(100.0)
    found = compute_risk_metrics(noise, delta=1e-6, relation=RELATION, known=noise, held=held, fit=False)["groups"]
    assert [row["units"] for row in found] == sizes
    for row in found:
        assert row["epsilon"] == pytest.approx(epsilon(Gaussian(100.0 / row["units"]), delta=1e-6).upper, rel=1e-6)
