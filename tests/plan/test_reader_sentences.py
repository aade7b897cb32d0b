"""Each number in a sentence for readers, against the same number worked out from closed forms or by the accountant.

docs/accounting/interpretation.md has the same table of sentences and formulas.
"""

import json
import math
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from epsilog import plan
from epsilog.accounting import epsilon, fit_gaussian_dp
from epsilog.mechanisms import Gaussian, Laplace, PoissonSampled, PureDP, Repeated
from epsilog.terms.messages import Message
from epsilog.terms.policy import delta_finding

CATALOGUE = json.loads(files("epsilog.terms").joinpath("en.json").read_text(encoding="utf-8"))
DELTA, POPULATION, NOISE = 1e-6, 50_000, 4.0
RUN = {"population": POPULATION, "cohort_size": 500, "rounds": 200, "noise_multiplier": 1.2, "delta": DELTA}


def gaussian_delta(mu, epsilon):
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def gaussian_epsilon(mu, delta):
    return brentq(lambda found: gaussian_delta(mu, found) - delta, 0, 200, xtol=1e-13)


def interpret(cap=None, release=None, delta=DELTA):
    release = release or Gaussian(NOISE)
    found = epsilon(release, delta=delta)
    return plan.interpret_guarantee(
        release, found, delta=delta, relation=None, privacy_unit="person", cap=cap, population=POPULATION
    )


def least(value):
    """At least the true value, and not a thousandth more."""
    return lambda printed: value * (1 - 1e-9) <= printed <= value * (1 + 1e-3)


def exactly(value):
    return lambda printed: printed == pytest.approx(value, rel=1e-12)


def list_cases():
    """Every message with what each of its numbers must keep."""
    mu = 1 / NOISE
    alone = gaussian_epsilon(mu, DELTA)
    yield interpret(alone / 2).headroom_note, "headroom/none", {"cap": exactly(alone / 2), "epsilon": least(alone)}
    for cap in (1.2, 1.5, 2.0, 3.1, 7.0, 30.0):
        count = next(k for k in range(1, 66) if k == 65 or gaussian_epsilon(mu * math.sqrt(k), DELTA) > cap) - 1
        name = "one" if count == 1 else "some" if count < 64 else "many"
        numbers = {"cap": exactly(cap)} | ({} if count == 1 else {"fits": exactly(count)})
        yield interpret(cap).headroom_note, f"headroom/{name}", numbers
    permits, smaller = interpret().delta_notes
    yield permits, "delta/permits-of", {"delta": exactly(DELTA), "records": exactly(POPULATION * DELTA)}
    deeper = {"delta": exactly(DELTA / 1000), "epsilon": least(gaussian_epsilon(mu, DELTA / 1000))}
    yield smaller, "delta/smaller", deeper
    yield interpret().statement, "claim/approximate", {"epsilon": least(alone), "delta": exactly(DELTA)}
    yield interpret(release=PureDP(0.5), delta=0.0).statement, "claim/pure", {"epsilon": exactly(0.5)}
    planned = plan.plan_federated(**RUN)
    share, noise, rounds = 0.01, RUN["noise_multiplier"], RUN["rounds"]
    total = share * math.sqrt(2 * rounds * math.log(1 / DELTA)) / noise + rounds * share**2 / noise**2
    proven = epsilon(Repeated(PoissonSampled(Gaussian(noise), share), rounds), delta=DELTA)
    under = {"total": exactly(total), "lower": exactly(proven.lower), "factor": exactly(proven.lower / total)}
    yield planned.closed_form_note, "formula/under-reports", under


CASES = list(list_cases())


@pytest.mark.parametrize(("message", "name", "numbers"), CASES, ids=[f"{i}-{one[1]}" for i, one in enumerate(CASES)])
def test_a_sentence_has_the_numbers_of_its_formula(message, name, numbers):
    assert isinstance(message, Message)
    assert message.id == name
    given = dict(message.params)
    for field, keeps in numbers.items():
        assert keeps(given[field]), (field, given[field])


@pytest.mark.parametrize(("delta", "name"), [(1e-6, "passed"), (1e-3, "too-large")])
def test_delta_is_compared_with_one_over_the_population(delta, name):
    found = delta_finding(delta, population=POPULATION)
    assert found.code == f"delta/{name}"
    printed = re.findall(r"\d[\d.]*(?:e-?\d+)?", found.message.replace("1/N", "N"))
    assert [float(one.rstrip(".")) for one in printed] == [delta, 1 / POPULATION]


def laplace_rate(fpr):
    """The best test of two Laplace distributions one scale apart, exactly."""
    middle = 1 - math.exp(-1) / (4 * np.maximum(fpr, 1e-300))
    return np.where(fpr < math.exp(-1) / 2, math.e * fpr, np.where(fpr < 0.5, middle, 1 - math.exp(-1) * (1 - fpr)))


def test_the_errors_of_a_gaussian_fit_are_errors_of_the_exact_rates():
    fit = fit_gaussian_dp(Laplace(1.0))
    fprs = np.linspace(1e-6, 1 - 1e-6, 20_001)
    gauss = lambda fpr, mu: norm.cdf(norm.ppf(np.clip(fpr, 1e-300, 1)) + mu)  # noqa: E731
    excess = lambda mu, slack: np.max(laplace_rate(fprs) - gauss(np.minimum(fprs + slack, 1), mu) - slack)  # noqa: E731
    assert excess(fit.mu, fit.slack) <= 1e-9
    assert excess(0.9 * fit.mu, fit.slack) > 1e-3, "a smaller mu is caught"
    regret = lambda off: np.max(gauss(fprs, fit.mu) - laplace_rate(np.minimum(fprs + off, 1)) - off)  # noqa: E731
    assert regret(fit.regret) <= 1e-9
    assert regret(0.5 * fit.regret) > 0, "a smaller regret is caught"


COMPARED_ELSEWHERE = {
    "tests/plan/test_verdict.py": ("page/found-", "page/hardly-", "verdict/suspicion", "verdict/highest"),
    "tests/plan/test_interpretation.py": ("odds/", "attack/", "profile/epsilon"),
    "tests/plan/test_dp_sgd_plan.py": ("loader/",),
    "tests/plan/test_comparison.py": ("compare/",),
}
NOT_A_RESULT = ("delta/permits", "delta/smaller-unbounded", "formula/", "claim/simulated")  # other branches of a case


def test_every_number_of_these_families_is_compared():
    """A new sentence with a number in one of these families needs a case here, or a test that is named here."""
    families = ("headroom/", "delta/", "claim/", "gdp/fit-errors", "formula/", "loader/", "odds/", "compare/")
    numbers = {
        name
        for name, text in CATALOGUE.items()
        if name.startswith(families) and any(f":{kind}}}" in text for kind in ("upper", "lower", "count", "factor"))
    }
    here = {name for _, name, _ in CASES} | {"gdp/fit-errors", "delta/passed", "delta/too-large"}
    elsewhere = tuple(prefix for prefixes in COMPARED_ELSEWHERE.values() for prefix in prefixes)
    assert not {one for one in numbers - here if not one.startswith(elsewhere + NOT_A_RESULT)}
    root = Path(__file__).parents[2]
    assert all((root / file).is_file() for file in COMPARED_ELSEWHERE)
