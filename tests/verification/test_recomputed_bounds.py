"""No bound that a plan states below what is worked out here passes, and none is repeated as if it were recomputed."""

from dataclasses import replace

import pytest
from tests.reports.drawn import finish, make_plan

from epsilog.mechanisms import BinomialTrialCount
from epsilog.reports import render_html, render_markdown
from epsilog.terms.formatting import format_upper
from epsilog.verification import (
    Claim,
    bound_any_sampler,
    bound_unamplified,
    read_evidence,
    verify_evidence,
)
from epsilog.verification.claim import check_plan


def lowered(share, **made):
    """A plan whose unamplified bound is stated lower than it is, and all that depends on the plan made anew."""
    plan = make_plan(**made)
    upper = plan.unamplified.upper * share
    return replace(plan, unamplified=replace(plan.unamplified, upper=upper, lower=min(plan.unamplified.lower, upper)))


@pytest.mark.parametrize("share", [0.5, 0.99, 0.9951, 0.9955, 0.999, 1 - 1e-6, 1 - 1e-8])
@pytest.mark.parametrize("trials", [None, BinomialTrialCount(10, 1.0)])  # an interval of no width, and a wide one
def test_no_unamplified_bound_below_ours_passes(share, trials):
    plan = lowered(share, trials=trials)
    again = bound_unamplified(Claim.from_plan(plan))
    found = check_plan(plan)
    warned = plan.unamplified.upper >= max(again.lower, 0.995 * again.upper)
    assert found.status == ("warned" if warned else "failed")
    assert warned == (trials is not None and share > 0.995)
    if found.status == "warned":
        assert (found.code, format_upper(again.upper, 6) in found.message) == ("plan/slightly-low", True)


@pytest.mark.parametrize("share", [1.0, 1 + 1e-6, 1.5])
def test_a_bound_that_is_stated_high_enough_passes(share):
    assert check_plan(lowered(share)).status == "passed"


def test_a_bound_below_the_certified_lower_one_fails_though_it_is_close():
    """Where both sides of the interval nearly meet, half a percent below the upper one is below the lower one."""
    plan = lowered(0.9955)
    assert plan.unamplified.upper < bound_unamplified(Claim.from_plan(plan)).lower
    assert check_plan(plan).code == "plan/inconsistent"


@pytest.mark.slow_beyond(3)
@pytest.mark.parametrize("share", [0.9955, 1 - 1e-5])
def test_every_figure_of_the_unamplified_bound_is_the_one_worked_out(tmp_path, share):
    plan = lowered(share)
    report = finish(tmp_path / "run", tmp_path / "ledger.db", plan)
    again, evidence = (
        bound_unamplified(Claim.from_plan(plan)).upper,
        read_evidence(tmp_path / "run", tmp_path / "ledger.db"),
    )
    outcome = verify_evidence(evidence)
    assert outcome.status in ("failed", "warned")
    known = next(what for what in outcome.what_ifs if what.name == "participation lists known")
    assert known.epsilon == again
    assert bound_any_sampler(Claim.from_plan(plan)) >= again
    assert report["claim"]["unamplified"]["upper"] == again
    told = format_upper(plan.unamplified.upper, 6)
    for page in (render_html(report).split('<pre id="document">')[0], render_markdown(report)):
        assert format_upper(again) in page
        assert page.count(told) <= page.count("The plan states")


def test_what_a_plan_states_of_its_interval_is_not_what_the_report_shows(tmp_path):
    """Method, lower bound and further assumptions are the plan's words; the report works its own out."""
    plan = make_plan()
    stated = replace(plan.epsilon, lower=plan.epsilon.upper, method="a better one", assumptions=("pigs fly",))
    report = finish(tmp_path / "run", tmp_path / "ledger.db", replace(plan, epsilon=stated))
    assert report["claim"]["epsilon"]["method"] == plan.epsilon.method.to_json()
    assert report["claim"]["epsilon"]["lower"] == plan.epsilon.lower
    page = render_html(report).split('<pre id="document">')[0]
    assert "a better one" not in page
    assert "pigs fly" not in page
