"""Worked examples; the formulas are shown, never charged."""

import math

import pytest

from epsilog.accounting import (
    classic_gaussian_stddev,
    federated_closed_form,
    laplace_scale,
    split_epsilon_evenly,
    tpr_upper_bound,
)


def test_worked_example_with_delta_one_over_n():
    worked = federated_closed_form(
        sampling_probability=500 / 50_000, noise_multiplier=1.2, rounds=200, delta=1 / 50_000
    )
    assert round(worked.total, 4) == 0.5621
    assert (round(worked.root_term, 4), round(worked.linear_term, 4)) == (0.5482, 0.0139)
    assert worked.dominant_term == "root"


def test_worked_example_whose_second_term_is_misprinted_in_the_wild():
    worked = federated_closed_form(sampling_probability=200 / 10_000, noise_multiplier=1.0, rounds=100, delta=1e-6)
    assert round(worked.total, 4) == 1.0913
    assert (round(worked.root_term, 4), round(worked.linear_term, 4)) == (1.0513, 0.0400)


def test_no_noise_has_no_bound_and_the_linear_term_can_dominate():
    assert federated_closed_form(sampling_probability=0.1, noise_multiplier=0, rounds=1, delta=1e-5).total == math.inf
    assert (
        federated_closed_form(sampling_probability=1, noise_multiplier=0.1, rounds=100, delta=1e-5).dominant_term
        == "linear"
    )


def test_the_rate_of_an_attacker_is_that_of_the_worst_mechanism():
    """Answering at random with odds e^epsilon attains epsilon; releasing all with probability delta, (0, delta)."""
    truth = math.e / (1 + math.e)
    assert tpr_upper_bound([(1.0, 0.0)], fpr=1 - truth) == pytest.approx(truth, rel=1e-11)
    assert tpr_upper_bound([(0.0, 0.01)], fpr=0.2) == pytest.approx(0.21, rel=1e-11)
    assert tpr_upper_bound([(1.0, 0.0), (0.0, 0.01)], fpr=0.2) == pytest.approx(0.21, rel=1e-11)
    assert tpr_upper_bound([(math.inf, 0.0)], fpr=0.0) == 1
    with pytest.raises(ValueError, match="fpr must be in"):
        tpr_upper_bound([(1.0, 0.0)], fpr=1.5)


def test_queries_split_evenly():
    assert laplace_scale(epsilon=split_epsilon_evenly(epsilon=1.0, queries=100), sensitivity=1.0) == 100
    assert 40 * split_epsilon_evenly(epsilon=1.0, queries=100) == pytest.approx(0.4)
    assert round(classic_gaussian_stddev(epsilon=0.01, delta=1e-6), 1) == 529.9


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"noise_multiplier": -1.0}, "noise_multiplier must be finite and at least 0, got -1.0"),
        ({"noise_multiplier": math.nan}, "noise_multiplier must be finite"),
        ({"sampling_probability": 1.1}, r"sampling_probability must be in \[0, 1\], got 1.1"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"delta": 0.0}, r"delta must be in \(0, 1\), got 0.0"),
    ],
)
def test_bad_input_is_named(changed, message):
    good = {"sampling_probability": 0.01, "noise_multiplier": 1.0, "rounds": 10, "delta": 1e-5}
    with pytest.raises(ValueError, match=message):
        federated_closed_form(**(good | changed))
