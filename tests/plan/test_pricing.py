"""One function prices schedules: whole, cut, in parts and repeated."""

import math
from dataclasses import replace

import pytest

from epsilog import Composed, NeighboringRelation, PoissonSampled, Repeated, epsilon
from epsilog.mechanisms import Gaussian
from epsilog.plan import Schedule, bound_schedule_epsilon
from epsilog.schemes import ClientLevelCentral
from epsilog.terms import CheckError

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
PILOT, MAIN = Schedule(1000, 20, 5, 2.0), Schedule(1000, 100, 8, 1.5)


STEPS = PoissonSampled(Gaussian(2.0), 0.02), PoissonSampled(Gaussian(1.5), 0.1)


@pytest.mark.parametrize(("rounds", "left"), [(None, (5, 8)), (13, (5, 8)), (7, (5, 2)), (5, (5, 0)), (3, (3, 0))])
def test_parts_are_composed_up_to_a_round(rounds, left):
    parts = [Repeated(step, count) for step, count in zip(STEPS, left, strict=True) if count]
    found = bound_schedule_epsilon([PILOT, MAIN], 1e-6, ADD, rounds=rounds)
    assert found.upper == epsilon(Composed(parts), delta=1e-6).upper


def test_a_schedule_is_a_list_of_one_and_count_repeats_it():
    assert bound_schedule_epsilon(MAIN, 1e-6, ADD) == bound_schedule_epsilon([MAIN], 1e-6, ADD)
    assert (
        bound_schedule_epsilon(MAIN, 1e-6, ADD, count=3).upper
        == bound_schedule_epsilon(replace(MAIN, rounds=24), 1e-6, ADD).upper
    )
    scheme = ClientLevelCentral(1000, 0.1, 8, 1.0, 1.5)
    assert (
        bound_schedule_epsilon(scheme, 1e-6, ADD, rounds=5).upper
        == bound_schedule_epsilon(MAIN, 1e-6, ADD, rounds=5).upper
    )


def test_rounds_without_noise_promise_nothing_once_they_are_reached():
    parts = [PILOT, replace(MAIN, noise_multiplier=0.0)]
    assert bound_schedule_epsilon(parts, 1e-6, ADD).upper == math.inf
    assert bound_schedule_epsilon(parts, 1e-6, ADD, rounds=5).upper == bound_schedule_epsilon(PILOT, 1e-6, ADD).upper
    with pytest.raises(CheckError, match="rounds must be at least 1"):
        bound_schedule_epsilon(MAIN, 1e-6, ADD, rounds=0)
