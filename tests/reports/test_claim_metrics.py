"""Risk metrics of a report are those of the accountant."""

import html
from dataclasses import replace

import pytest
from scipy.stats import norm
from tests.reports.drawn import central, make_plan

from epsilog.accounting import epsilon, group_privacy, profile
from epsilog.mechanisms import GaussianDP
from epsilog.plan import bound_attack, compute_risk_metrics, interpret_guarantee
from epsilog.plan.interpretation import SLACK
from epsilog.reports import (
    render_html,
)
from epsilog.reports.report import compute_claim_metrics, get_unamplified_release
from epsilog.terms import CalibrationError, codec
from epsilog.verification import Claim, compute_certified_interval


def of_model(plan):
    """Without the published outcomes of checks, which readings leave out: 1e-10 of epsilon at most."""
    found = compute_certified_interval(plan.release, plan.guarantee.delta, plan.guarantee.relation)
    assert plan.epsilon.upper * (1 - 1e-10) < found.upper < plan.epsilon.upper
    return found


def read_plan(plan):
    claim = Claim.from_plan(plan)
    return compute_claim_metrics(claim, claim.release, get_unamplified_release(claim))


def test_readings_are_the_accountants(report):
    plan = make_plan()
    reading = compute_risk_metrics(
        plan.scheme.release(),
        delta=plan.guarantee.delta,
        relation=plan.guarantee.relation,
        known=plan.scheme.unamplified_release(),
    )
    told = interpret_guarantee(
        plan.scheme.release(),
        plan.epsilon,
        delta=plan.guarantee.delta,
        relation=plan.guarantee.relation,
        privacy_unit=plan.guarantee.privacy_unit,
    )
    known = bound_attack(
        plan.scheme.unamplified_release(), delta=plan.guarantee.delta, relation=plan.guarantee.relation
    )
    further = {"log_odds_factor": told.log_odds_factor, "unamplified_attack": known}
    assert report["risk_metrics"] == codec.parse_json(codec.encode_canonical(reading | further))
    for hidden, point in zip(reading["attack"], known, strict=True):  # Gaussian: Phi(Phi^-1(fpr) + mu)
        exact = norm.cdf(norm.ppf(point["fpr"]) + 2 / 3)
        assert hidden["tpr"] < exact <= point["tpr"] < 1.01 * exact
    assert f"<p>{told.odds}</p>" in html.unescape(render_html(report | {"simulation": False}))
    supposed = f"<p>With fresh randomness, this would hold: {told.odds}</p>"
    assert supposed in html.unescape(render_html(report)), "seeded noise protects no one"
    assert reading["mu"] is None, "sampling leaves no mu"
    assert reading["unamplified_mu"] == pytest.approx(2 / 3), "four rounds at noise 3"
    for point in reading["attack"]:
        assert point["fpr"] < point["tpr"] < 3 * point["fpr"]
    epsilons = [point["epsilon"] for point in reading["profile"]]
    assert epsilons == sorted(epsilons)
    one, two, eight, many = reading["groups"]
    assert (one["epsilon"], one["lower"]) == (of_model(plan).upper, plan.epsilon.lower)
    assert [point["units"] for point in reading["groups"]] == [1, 2, 8, 64]
    assert 2 * one["epsilon"] <= two["epsilon"]
    assert 4 * two["epsilon"] <= eight["epsilon"] < many["epsilon"] / 4
    for point in reading["groups"]:
        assert 0 < point["lower"] <= point["epsilon"] < 1.05 * point["lower"], "from both sides"


@pytest.mark.slow
def test_a_fitted_mu_is_within_its_stated_error(report):
    """At some rates, the best test stays below the Gaussian's within the stated slack."""
    plan, fit = make_plan(), report["risk_metrics"]["fit"]
    gaussian, curve = profile(GaussianDP(fit["mu"])), profile(plan.scheme.release())
    assert 0 < fit["slack"] <= SLACK
    assert 0 <= fit["regret"] < 0.01
    for fpr in (0.01, 0.4):
        assert curve.tpr(fpr).lower <= gaussian.tpr(fpr + fit["slack"]).upper + fit["slack"]
        assert gaussian.tpr(fpr).lower <= curve.tpr(fpr + fit["regret"]).upper + fit["regret"]
    assert curve.tpr(0.2).lower > gaussian.tpr(0.2).upper, "without the slack the mu would be too small"


@pytest.mark.slow
def test_group_bounds_that_cannot_be_computed_are_none(monkeypatch):
    def fails(*_, **__):
        raise CalibrationError("no root", bracket=(0.0, 1.0))

    monkeypatch.setattr(group_privacy, "bound_on_lattice", fails)
    plan = make_plan(lambda z: central(z + 0.125))
    one, *others = read_plan(plan)["groups"]
    assert one["epsilon"] == of_model(plan).upper
    assert {(point["lower"], point["epsilon"]) for point in others} == {(None, None)}


def test_the_stated_group_size_comes_first():
    plan = make_plan()
    stated = replace(plan, details=plan.details | {"coverage": {"group_size": 3}})
    found = {one["units"]: one["epsilon"] for one in read_plan(stated)["groups"]}
    assert list(found) == [3, 1, 2, 8, 64]
    assert found[2] < found[3] < found[8]
    exact = epsilon(plan.scheme.release(), delta=plan.guarantee.delta, relation=plan.guarantee.relation, group_size=3)
    assert found[3] == pytest.approx(exact.upper, rel=0.01)
    for told in (1, 8):
        stated = replace(plan, details=plan.details | {"coverage": {"group_size": told}})
        assert sorted(one["units"] for one in read_plan(stated)["groups"]) == [1, 2, 8, 64]
