"""The sentences for readers: each number has a formula in the docs, and none printed is better than the truth."""

import importlib
import math
import re
from operator import attrgetter
from pathlib import Path
from string import Formatter

import pytest
from scipy.stats import norm
from tests.plan.test_verdict import draw_points

from epsilog.accounting import profile
from epsilog.mechanisms import GaussianDP
from epsilog.plan import bound_attack, bound_log_odds_factor, write_formula
from epsilog.plan.sentences import list_risk_rows, write_odds
from epsilog.terms import Interval, NeighboringRelation
from epsilog.terms.messages import catalogue

PAGE = (Path(__file__).parents[2] / "docs/accounting/interpretation.md").read_text(encoding="utf-8")
TABLE = re.search(r"^\| sentences .*\n(?:\|.*\n)+", PAGE, re.MULTILINE)[0].splitlines()[2:]
LAY = ("attack", "claim", "delta", "gdp", "headroom", "odds", "page", "profile", "verdict")
NUMBERS = {"upper", "lower", "percent", "factor", "count", "estimate"}


def kinds_of(sentence):
    return {kind for _, _, kind, _ in Formatter().parse(sentence) if kind}


def test_every_number_for_readers_has_its_formula_in_the_docs():
    documented = {one for row in TABLE for one in re.findall(r"`([a-z]+/[a-z-]+)`", row.split("|")[1])}
    numbered = {one for one, text in catalogue().items() if one.split("/")[0] in LAY and kinds_of(text) & NUMBERS}
    assert numbered <= documented <= set(catalogue())


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.split("`")[1])
def test_every_formula_names_functions_that_exist(row):
    for path in re.findall(r"`([\w.]+)`", row.split("|")[3]):
        module, _, rest = path.partition(".")
        if rest.startswith("verdict."):
            module, rest = f"{module}.verdict", rest.removeprefix("verdict.")
        assert callable(attrgetter(rest)(importlib.import_module(f"epsilog.{module}")))


def list_too_good(mu, delta, prior, better=1.0):
    """The printed figures about a Gaussian that its exact rates and tails exceed."""
    del prior
    delta = delta or 1e-6
    told = GaussianDP(mu * better)
    odds = str(write_odds(bound_log_odds_factor(profile(told, relative_width=0.005), delta), delta, "person"))
    bad = []
    if match := re.search(r"factor ([\d.]+), .* at most ([\d.]+)%, and one of 0.1% at most ([\d.]+)%", odds):
        factor, even, rare = map(float, match.groups())
        log = math.log(factor)
        tails = norm.sf((log - mu * mu / 2) / mu) + norm.cdf((-log - mu * mu / 2) / mu)
        bad += ["odds"] if tails > delta * (1 + 1e-9) else []
        told = 0.99 * factor  # the factor itself was rounded up
        bad += ["even"] if even < 100 * told / (1 + told) else []
        bad += ["rare"] if rare < 100 * told / (999 + told) else []
    attack = bound_attack(GaussianDP(mu * better), delta=delta, relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
    rows = list_risk_rows({"attack": attack, "profile": [], "mu": 1.0, "unamplified_mu": None, "fit": None})
    for label, figure in rows:
        values = dict(label.params)
        if label.id.startswith("attack/"):
            tpr = norm.cdf(norm.ppf(values["fpr"]) + mu)
            share = values.get("prior", 1.0)
            exact = share * tpr / (share * tpr + (1 - share) * values["fpr"]) if "prior" in values else tpr
            bad += [label.id] if float(figure.rstrip("%")) < 100 * exact * (1 - 1e-9) else []
    return bad


@pytest.mark.slow
def test_no_printed_figure_is_better_than_the_true_one():
    assert [bad for point in draw_points(3) if (bad := list_too_good(*point))] == []


@pytest.mark.slow
def test_with_less_noise_than_told_every_sentence_is_caught():
    caught = {one for point in draw_points(3) for one in list_too_good(*point, better=0.7)}
    assert caught >= {"odds", "attack/tpr", "attack/posterior"}


@pytest.mark.parametrize("mu", [None, 1.0])
@pytest.mark.parametrize("fit", [None, {"mu": 1.01, "slack": 0.002, "regret": 0.004}])
def test_the_errors_of_a_fit_are_shown_where_no_mu_is_exact(mu, fit):
    rows = list_risk_rows({"attack": [], "profile": [], "mu": mu, "unamplified_mu": None, "fit": fit})
    assert [label.id for label, _ in rows] == ["gdp/mu"] * (mu is not None) + ["gdp/fit"] * (
        mu is None and fit is not None
    )


@pytest.mark.parametrize("total", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_a_closed_form_is_judged_by_the_certified_interval(total):
    found = write_formula(total, Interval(1.0, 2.0, "a method", NeighboringRelation.ZERO_OUT))
    expected = "under-reports" if total < 1 else "below" if total < 2 else "above"
    assert found.id == f"formula/{expected}"
    values = dict(found.params)
    if expected == "under-reports":
        assert (values["lower"], values["factor"] * total if total else values["factor"]) == (
            1.0,
            1.0 if total else math.inf,
        )
    else:
        assert values["upper"] == 2.0
