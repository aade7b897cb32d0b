"""Every client adds its own noise to its own clipped update; only a neighbor with nothing in its place is priced."""

from dataclasses import replace

import numpy as np
import pytest

from epsilog.accounting import epsilon
from epsilog.mechanisms import GaussianDP
from epsilog.schemes import ClientLevelClientSide
from epsilog.terms import NeighboringRelation
from epsilog.training import AuthorizedRun, Randomness

SCHEME = ClientLevelClientSide(
    clients=12, cohort_size=5, rounds=6, max_participations=3, clip_norm=0.2, noise_multiplier=2.0
)


def test_it_costs_one_gaussian_for_each_participation():
    """mu = sqrt(3) / 2; the server's cohorts amplify nothing."""
    found = epsilon(SCHEME.release(), delta=1e-5, relation=NeighboringRelation.ZERO_OUT)
    exact = epsilon(GaussianDP(np.sqrt(3) / 2), delta=1e-5, relation=NeighboringRelation.ZERO_OUT)
    assert found.upper == pytest.approx(exact.upper, rel=1e-6)
    assert SCHEME.unamplified_release() == replace(SCHEME, cohort_size=12).unamplified_release()
    assert SCHEME.noisy_sums(2) == 2
    assert SCHEME.noisy_sums(6) == 3
    every = epsilon(SCHEME.full_participation_release(), delta=1e-5, relation=NeighboringRelation.ZERO_OUT)
    assert every.lower > found.upper


def test_only_nothing_in_its_place_is_a_neighbor(small_task, charge_for):
    task = small_task()
    AuthorizedRun(SCHEME, charge_for(SCHEME, task.unit), Randomness.from_seed(1))
    charge = charge_for(SCHEME, task.unit)
    for relation in (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE):
        charge.request = replace(charge.request, relation=relation)
        with pytest.raises(ValueError, match="relation must be zero-out for client-level-client-side"):
            AuthorizedRun(SCHEME, charge, Randomness.from_seed(1))
