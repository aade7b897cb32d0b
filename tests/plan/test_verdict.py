"""The verdict card: no printed number is better than the accountant's, and the hash covers the text as it is."""

import hashlib
import math
import re

import numpy as np
import pytest
from scipy.stats import norm
from tests.extent import amount

from epsilog.accounting import profile
from epsilog.mechanisms import ApproximateDP, Gaussian, GaussianDP, Laplace, PoissonSampled, PureDP, Repeated
from epsilog.plan import bound_log_odds_growth, bound_posterior, build_card
from epsilog.plan.verdict import count_units, pluralize, write_found
from epsilog.terms import CheckError, NeighboringRelation

POINTS = amount(40, 200)


def draw_points(seed):
    """Epsilon (or mu), delta and prior, spread over what is asked."""
    rng = np.random.default_rng(seed)
    for i in range(POINTS):
        delta = 0.0 if i % 5 == 0 else 10 ** rng.uniform(-12, -1)
        yield 10 ** rng.uniform(-3, 1.1), delta, float(rng.choice([0.001, 0.01, 0.1, 0.5, rng.uniform(0.001, 0.99)]))


def read_numbers(card):
    """What the sentences print: units of 1,000, both posteriors, and the odds with their chance."""
    found = re.search(r"at most ([\d,]+) of 1,000", str(card.headline))
    posterior = re.search(r"at most ([\d.]+)%", str(card.suspicion))
    highest = re.search(r"above ([\d.]+)%: odds grow at most ([\d.]+) times", str(card.highest))
    chance = re.search(r"probability ([\d.e-]+),", str(card.highest))
    return {
        "found": int(found[1].replace(",", "")) if found else 1000,
        "posterior": float(posterior[1]) / 100 if posterior else 1.0,
        "highest": float(highest[1]) / 100 if highest else 1.0,
        "factor": float(highest[2]) if highest else math.inf if "above 99.9%" in str(card.highest) else 1.0,
        "chance": float(chance[1]) if chance else 0.0,
    }


def list_too_good(card, tpr, has_chance, prior):
    """The sentences that print less than a rate, or odds that are exceeded too often, allow."""
    printed = read_numbers(card)
    chance = max(printed["chance"], 2 * card.delta)
    bad = ["found"] if printed["found"] < 1000 * tpr * (1 - 1e-12) and printed["found"] < 990 else []
    bad += (
        ["posterior"] if printed["posterior"] < prior * tpr / (prior * tpr + (1 - prior) * 0.01) * (1 - 1e-12) else []
    )
    bad += ["odds"] if math.isfinite(printed["factor"]) and not has_chance(math.log(printed["factor"]), chance) else []
    odds = printed["factor"] * (1 - 1e-2) * prior / (1 - prior)
    bad += ["highest"] if math.isfinite(odds) and printed["highest"] < odds / (1 + odds) * (1 - 1e-2) else []
    return bad


def judge_pair(epsilon, delta, prior, better=1.0):
    """The formulas of docs/accounting/interpretation.md, written again; ``better`` shrinks what the card is told."""
    tpr = min(math.exp(epsilon) * 0.01 + delta, 1 - math.exp(-epsilon) * (1 - delta - 0.01), 1.0)
    card = build_card(epsilon=epsilon * better, delta=delta, prior=prior)
    least = epsilon if delta == 0 else epsilon + math.log(2)
    return list_too_good(card, tpr, lambda log, _: log >= least - 1e-12, prior)


def judge_curve(mu, delta, prior, better=1.0):
    """A Gaussian, whose rates and tails are exact."""
    delta = delta or 1e-5
    tpr = norm.cdf(norm.ppf(0.01) + mu)
    card = build_card(GaussianDP(mu * better), delta=delta, prior=prior)
    tail = lambda log, chance: norm.sf((log - mu * mu / 2) / mu) <= chance * (1 + 1e-9)  # noqa: E731
    return list_too_good(card, tpr, tail, prior)


@pytest.mark.slow
@pytest.mark.parametrize("judge", [judge_pair, judge_curve])
def test_no_printed_number_is_better_than_the_true_one(judge):
    assert [bad for point in draw_points(1) if (bad := judge(*point))] == []


@pytest.mark.slow
@pytest.mark.parametrize("judge", [judge_pair, judge_curve])
def test_with_three_tenths_less_epsilon_every_sentence_is_caught(judge):
    caught = [judge(*point, better=0.7) for point in draw_points(1)]
    assert sum(map(bool, caught)) > POINTS // 2
    assert {one for bad in caught for one in bad} >= {"found", "posterior", "odds"}


@pytest.mark.slow
def test_printed_numbers_are_not_below_the_accountants_own_bounds():
    for mu, delta, prior in list(draw_points(2))[: amount(2, 40)]:
        release = Repeated(PoissonSampled(Gaussian(2 / mu), 0.1), 3) if mu < 2 else Laplace(1 / mu)
        card, curve = build_card(release, delta=delta or 1e-6, prior=prior), profile(release, relative_width=0.005)
        printed = read_numbers(card)
        assert printed["found"] >= min(1000 * curve.tpr(0.01).upper, 1000)
        assert printed["posterior"] >= min(bound_posterior(prior, tpr=curve.tpr(0.01).upper), 0.999)


@pytest.mark.slow
def test_the_numbers_of_the_design_come_out():
    pair = build_card(epsilon=4.0, delta=1e-5)
    assert str(pair.headline) == "The best attack could pick out at most 546 of 1,000 people."
    run = build_card(Repeated(PoissonSampled(Gaussian(1.93824), 0.2), 60), delta=1e-5)
    assert (run.found, run.leaked) == (73, 880)
    assert "far less" in pair.text
    assert "full curve" in run.text
    assert "far less" not in run.text


@pytest.mark.parametrize(
    ("found", "says"),
    [(11, "Hardly better than guessing"), (12, "The best attack"), (989, "at most 989"), (990, "nearly every person")],
)
def test_extremes_are_said_in_words(found, says):
    assert says in str(write_found(found, "person", NeighboringRelation.ADD_OR_REMOVE_ONE))


@pytest.mark.parametrize("epsilon", [0.0, 3.0, 30.0, 1e4])
@pytest.mark.parametrize("prior", [1e-9, 0.5, 0.999999999])
def test_a_posterior_never_prints_certainty(epsilon, prior):
    for delta in (0.0, 1e-5, 0.7):
        text = build_card(epsilon=epsilon, delta=delta, prior=prior).text
        assert "100%" not in text
        assert "inf" not in text
        assert "nan" not in text


def test_the_hash_is_of_the_text_and_the_text_says_it_all():
    card = build_card(epsilon=1.0, delta=0.0, date="2026-11-28", simulation=True, name="Exam\nscores", verdict="Holds")
    assert card.sha256 == hashlib.sha256(card.text.encode()).hexdigest() == card.to_json()["sha256"]
    lines = card.text.splitlines()
    assert lines[0] == "Rehearsal. Seeded noise protects nobody; figures assume fresh noise."
    assert lines[-1].startswith("2026-11-28, epsilog ")
    assert card.text.endswith("\n")
    assert "Exam\\nscores" in lines, "foreign text adds no line"
    others = [
        {"epsilon": 1.1},
        {"date": "2026-11-29"},
        {"simulation": False},
        {"name": "x"},
        {"verdict": "Cannot tell"},
    ]
    given = {"epsilon": 1.0, "delta": 0.0, "date": "2026-11-28", "simulation": True, "name": "a", "verdict": "Holds"}
    assert len({build_card(**given | other).sha256 for other in ({}, *others)}) == len(others) + 1


def test_odds_of_a_pair_double_and_those_of_pure_privacy_do_not():
    assert bound_log_odds_growth(profile(PureDP(2.0)), 0.0) == 2.0
    assert bound_log_odds_growth(profile(ApproximateDP(2.0, 1e-6)), 1e-6) == pytest.approx(2 + math.log(2), rel=1e-12)


def test_a_card_is_of_a_release_or_of_epsilon():
    with pytest.raises(CheckError, match="epsilon must be given, or else a release, got neither"):
        build_card(delta=0.0)
    with pytest.raises(CheckError, match="got both"):
        build_card(PureDP(1.0), epsilon=1.0, delta=0.0)


@pytest.mark.parametrize(("rate", "units"), [(0.0, 10), (0.0100000001, 11), (0.0721, 73), (0.072, 73), (1.0, 1000)])
def test_a_rate_is_rounded_up_to_whole_units(rate, units):
    assert count_units(rate) == units


@pytest.mark.parametrize(
    ("unit", "plural"),
    [
        ("person", "people"),
        ("user-day", "user-days"),
        ("county", "counties"),
        ("class", "classes"),
        ("patient visit", "patient visits"),
        ("Élève", "units (Élève)"),
        ("<b>", "units (<b>)"),
    ],
)
def test_plurals(unit, plural):
    assert pluralize(unit) == plural


@pytest.mark.slow
def test_the_cards_that_the_element_is_compared_with_are_the_librarys():
    """web/tests/verdict.test.ts compares the browser's sentences with these."""
    import json

    from tests.server import verdict_pairs

    assert json.loads(verdict_pairs.FILE.read_text(encoding="utf-8")) == verdict_pairs.build()
