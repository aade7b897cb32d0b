"""One function prices schedules: whole, cut, in parts and repeated."""

import math
from dataclasses import replace

import pytest

from epsilog import Composed, NeighboringRelation, PoissonSampled, Repeated, epsilon
from epsilog.mechanisms import Gaussian
from epsilog.plan import Schedule, price
from epsilog.schemes import ClientLevelCentral
from epsilog.terms import CheckError

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
PILOT, MAIN = Schedule(1000, 20, 5, 2.0), Schedule(1000, 100, 8, 1.5)


STEPS = PoissonSampled(Gaussian(2.0), 0.02), PoissonSampled(Gaussian(1.5), 0.1)


@pytest.mark.parametrize(("rounds", "left"), [(None, (5, 8)), (13, (5, 8)), (7, (5, 2)), (5, (5, 0)), (3, (3, 0))])
def test_parts_are_composed_up_to_a_round(rounds, left):
    parts = [Repeated(step, count) for step, count in zip(STEPS, left, strict=True) if count]
    found = price([PILOT, MAIN], 1e-6, ADD, rounds=rounds)
    assert found.upper == epsilon(Composed(parts), delta=1e-6).upper


def test_a_schedule_is_a_list_of_one_and_count_repeats_it():
    assert price(MAIN, 1e-6, ADD) == price([MAIN], 1e-6, ADD)
    assert price(MAIN, 1e-6, ADD, count=3).upper == price(replace(MAIN, rounds=24), 1e-6, ADD).upper
    scheme = ClientLevelCentral(1000, 0.1, 8, 1.0, 1.5)
    assert price(scheme, 1e-6, ADD, rounds=5).upper == price(MAIN, 1e-6, ADD, rounds=5).upper


def test_rounds_without_noise_promise_nothing_once_they_are_reached():
    parts = [PILOT, replace(MAIN, noise_multiplier=0.0)]
    assert price(parts, 1e-6, ADD).upper == math.inf
    assert price(parts, 1e-6, ADD, rounds=5).upper == price(PILOT, 1e-6, ADD).upper
    with pytest.raises(CheckError, match="rounds must be at least 1"):
        price(MAIN, 1e-6, ADD, rounds=0)
