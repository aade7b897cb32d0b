"""The printed algorithm is priced at the multiplier that its steps have, under both readings of E."""

import mpmath
import pytest

from epsilog.accounting import epsilon
from epsilog.mechanisms import Gaussian, PoissonSampled, Repeated
from epsilog.plan import account_algorithm_2
from epsilog.terms import NeighboringRelation

GIVEN = {
    "sigma": 2.0,
    "batch_probability": 0.25,
    "examples": 40,
    "clip_norm": 8.0,
    "epochs": 2,
    "max_participations": 3,
    "delta": 1e-5,
}


def priced(noise, steps):
    release = Repeated(PoissonSampled(Gaussian(noise), 0.25), steps)
    return epsilon(release, delta=1e-5, relation=NeighboringRelation.ZERO_OUT).upper


def test_the_multiplier_is_sigma_p_n_over_c_and_both_readings_are_priced():
    found = account_algorithm_2(**GIVEN)
    assert found.noise_multiplier == pytest.approx(2.5, rel=1e-12)
    assert found.noise_multiplier <= mpmath.mpf(2) * 0.25 * 40 / 8
    assert found.iterations.upper == pytest.approx(priced(2.5, 2 * 3), rel=1e-6)
    assert found.epochs.upper == pytest.approx(priced(2.5, 8 * 3), rel=1e-6)
    assert found.mistaken.upper == pytest.approx(priced(2.0, 8 * 3), rel=1e-6)
    assert set(found.to_json()) == {"noise_multiplier", "mistaken", "iterations", "epochs"}


def test_sigma_may_flatter_or_frighten():
    """For a client of few examples, or a large clip, feeding sigma to an accountant is not even on the safe side."""
    assert account_algorithm_2(**GIVEN).mistaken.lower > account_algorithm_2(**GIVEN).epochs.upper
    small = account_algorithm_2(**GIVEN | {"examples": 4})
    assert small.mistaken.upper < small.epochs.lower


@pytest.mark.parametrize(
    "change", [{"sigma": 0.0}, {"batch_probability": 1.1}, {"examples": 0}, {"epochs": 0}, {"delta": 1.0}]
)
def test_what_has_no_meaning_is_refused_by_name(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        account_algorithm_2(**GIVEN | change)
