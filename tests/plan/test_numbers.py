"""Public arguments mean the same however their numbers are written, and answers are of Python's own kinds."""

# ruff: noqa: ARG005  # every question has the same two writers
import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import epsilog as ep
from epsilog import plan
from epsilog.accounting import (
    calibrate,
    classic_gaussian_stddev,
    even_split,
    fl_formula,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    laplace_scale,
    renyi_delta,
    renyi_epsilon,
    rounds_that_fit,
)
from epsilog.accounting.calibration import epsilon_curve
from epsilog.accounting.montecarlo import estimate_noise
from epsilog.accounting.montecarlo.promises.bounds import binomial_delta, integrated_delta, pass_probability
from epsilog.accounting.montecarlo.promises.intervals import clopper_pearson
from epsilog.mechanisms import BallsInBins, Composed, Gaussian, Laplace, PoissonSampled, Repeated
from epsilog.terms import codec
from epsilog.verify.noise import power

FLOATS = [np.float16, np.float32, np.float64, np.longdouble, Decimal, Fraction]
WHOLE = [np.uint8, np.int16, np.uint64]
SGD = Repeated(PoissonSampled(Gaussian(1.0), 0.25), 5)
SCHEDULE = {"population": 100, "cohort_size": 10, "rounds": 5}

# every question takes f, which writes a float (all here are exact in 16 bits), and n, which writes a whole number
QUESTIONS = {
    "epsilon": lambda f, n: ep.epsilon(SGD, delta=f(2**-10), gap=f(2**-6)),
    "delta": lambda f, n: ep.delta(SGD, epsilon=f(1.0), gap=f(2**-6)),
    "tpr": lambda f, n: ep.profile(Gaussian(1.0), gap=f(2**-6)).tpr(f(0.125)),
    "tradeoff": lambda f, n: ep.profile(Gaussian(1.0)).tradeoff(f(0.125)),
    "group": lambda f, n: ep.profile(Laplace(1.0)).group_delta(units=n(3), epsilon=f(1.0)),
    "calibrate": lambda f, n: calibrate(Gaussian, epsilon=f(1.0), delta=f(2**-10), low=f(0.5), high=f(8.0)),
    "advantage": lambda f, n: calibrate(Gaussian, advantage=f(0.25), tolerance=f(2**-7)),
    "rates": lambda f, n: calibrate(Gaussian, tpr=f(0.25), fpr=f(0.125), tolerance=f(2**-7)),
    "rounds_that_fit": lambda f, n: rounds_that_fit(Gaussian(10.0), epsilon=f(1.0), delta=f(2**-10)),
    "epsilon_curve": lambda f, n: epsilon_curve(Gaussian(4.0), [n(1), n(100)], delta=f(2**-10)),
    "gaussian": lambda f, n: (gaussian_delta(f(1.0), f(1.0)), gaussian_epsilon(f(1.0), f(2**-10))),
    "gaussian_mu": lambda f, n: gaussian_mu(epsilon=f(1.0), delta=f(2**-10)),
    "renyi": lambda f, n: (renyi_epsilon(SGD, delta=f(2**-10)), renyi_delta(SGD, epsilon=f(8.0))),
    "forms": lambda f, n: (
        fl_formula(sampling_probability=f(0.125), noise_multiplier=f(1.5), rounds=n(100), delta=f(2**-10)),
        classic_gaussian_stddev(epsilon=f(0.5), delta=f(2**-10), sensitivity=f(2.0)),
        laplace_scale(epsilon=f(0.5), sensitivity=f(2.0)),
        even_split(epsilon=f(0.5), queries=n(100)),
    ),
    "federated": lambda f, n: plan.federated(
        **{name: n(value) for name, value in SCHEDULE.items()}, noise_multiplier=f(1.5), delta=f(2**-10),
        releases_per_period=n(2), clip_norm=f(0.5),
    ).to_json(),
    "noise_for": lambda f, n: plan.noise_for(
        **{name: n(value) for name, value in SCHEDULE.items()}, epsilon=f(2.0), delta=f(2**-10)
    ),
    "rounds_for": lambda f, n: plan.rounds_for(
        population=n(100), cohort_size=n(10), noise_multiplier=f(4.0), epsilon=f(1.0), delta=f(2**-10)
    ),
    "queries": lambda f, n: plan.queries(
        epsilon=f(1.0), queries=n(3), sensitivity=f(0.5), delta=f(2**-10), queries_used=n(1), population=n(100),
        weights=[f(1.0), f(2.0), f(1.0)], magnitude=f(8.0),
    ).to_json(),
    "crossover": lambda f, n: plan.crossover(epsilon=f(1.0), delta=f(2**-10), counts=[n(1), n(10)]),
    "mix": lambda f, n: plan.mix([Gaussian(4.0), Laplace(8.0)], delta=f(2**-10)),
    "view": lambda f, n: plan.profile_view(Gaussian(1.0), delta=f(2**-10), points=n(3)),
    "pair": lambda f, n: plan.side_by_side(Gaussian(2.0), Gaussian(1.0), delta=f(2**-10), fpr=f(2**-5)),
    "sensitivity": lambda f, n: plan.sensitivity("mean", contributions=n(3), low=f(0.0), high=f(2.0), size=n(100)),
    "samples": lambda f, n: (
        pass_probability(delta=f(0.125), samples=n(100), hits=n(3), bound=f(0.5)),
        binomial_delta(samples=n(100), hits=n(3), fallback_delta=f(0.125), bound=f(0.5)),
        integrated_delta(samples=n(100), base_delta=f(0.125), fallback_delta=f(0.25)),
        clopper_pearson(hits=n(3), samples=n(100), failure=f(0.125)),
    ),
    "estimate": lambda f, n: estimate_noise(
        BallsInBins(Gaussian(1.0), bins=4), epsilon=f(1.0), delta=f(2**-6), seed=n(7)
    ),
    "power": lambda f, n: power(n(100), share=f(0.75), false_alarm=f(0.125)),
    "decide": lambda f, n: ep.terms.DeltaPolicy(f(0.125)).decide(f(2**-10), population=n(100)),
    "scheme": lambda f, n: codec.to_json(
        ep.schemes.ExampleLevelClientSide(n(100), n(50), n(100), n(100), f(0.125), n(3), f(0.5), f(1.5)).after(n(100))
    ),
}  # fmt: skip


SLOW = {
    "crossover",
    "rounds_for",
    "noise_for",
    "renyi",
    "queries",
    "estimate",
    "rates",
    "mix",
    "rounds_that_fit",
    "calibrate",
    "federated",
}


@pytest.mark.parametrize(
    "question", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in QUESTIONS]
)
def test_a_question_is_the_same_however_its_numbers_are_written(question):
    ask = QUESTIONS[question]
    plain = ask(float, int)
    for f, n in zip(FLOATS, 2 * WHOLE, strict=True):  # every kind of either once
        assert repr(ask(f, n)) == repr(plain), (f, n)
    if isinstance(plain, dict):
        json.dumps(plain)


def test_an_interval_shows_numbers_that_were_numpys():
    assert str(ep.epsilon(Composed([SGD]), delta=np.float64(1e-5))) == str(ep.epsilon(Composed([SGD]), delta=1e-5))
    assert str(ep.delta(SGD, epsilon=np.float64(1))) == str(ep.delta(SGD, epsilon=1.0))


@pytest.mark.slow
def test_a_charge_takes_any_number(tmp_path):
    with ep.open_ledger(f"sqlite:///{tmp_path}/b.db") as ledger:
        ledger.create_budget("acme", kind="approximate", epsilon=Decimal(4), delta=np.float64(2**-10))
        for key, delta in enumerate((np.float32(2**-20), Decimal("1e-6"), Fraction(1, 2**20), np.float64(2**-20))):
            ledger.reserve("acme", Gaussian(np.float32(16)), key=str(key), delta=delta, rounds=np.uint8(3))
        assert ledger.balance("acme").reserved["epsilon"] != "0"
