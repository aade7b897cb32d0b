"""Releases that are simulated, and trials of them."""

import itertools
from collections import Counter

import numpy as np
import pytest

from epsilog.accounting.montecarlo import shards, tilt
from epsilog.accounting.montecarlo.pairs import build_simulated_pair
from epsilog.accounting.montecarlo.tilt import HockeyStick
from epsilog.mechanisms import (
    BallsInBins,
    BallsInBinsParticipation,
    FullParticipation,
    Gaussian,
    MatrixMechanism,
    MinSepParticipation,
    RandomAllocationParticipation,
    ToeplitzStrategy,
)

BINS = BallsInBins(Gaussian(1.0), bins=16)  # delta(1) = 6.87625e-4 in the remove direction
BANDED = MatrixMechanism(ToeplitzStrategy((0.9, 0.4, 0.2)), BallsInBinsParticipation(6), 18, 1.5)
ALLOWED = 4.5  # standard errors: false alarms 7e-6 each


def mechanism(column, participation, rounds, noise):
    return MatrixMechanism(ToeplitzStrategy(tuple(map(float, column))), participation, rounds, noise)


def trial(release=BINS, direction="remove", strength=4.0, samples=40_000, epsilon=1.0):
    how, payoff = tilt.Tilt(direction, strength), HockeyStick(epsilon)
    return shards.BernoulliTrial(
        release, payoff, how, tilt.bound_log_value(build_simulated_pair(release), how, payoff), samples
    )


def spread_of(values):
    """A mean and its standard error."""
    return values.mean(), values.std() / np.sqrt(len(values))


def paths(kind, rounds):
    """Every set of rounds that a unit may take, with its chance, straight from the definition."""
    found = Counter()

    def walk(t, chance, taken, *steps):
        stay, join, p = steps
        if chance and t >= rounds:
            found[taken] += chance
        elif chance:
            walk(t + stay, chance * (1 - p), taken, *steps)
            walk(t + join, chance * p, (*taken, t), *steps)

    match kind:
        case FullParticipation():
            found[tuple(range(rounds))] = 1.0
        case RandomAllocationParticipation(participations=often):
            sets = list(itertools.combinations(range(rounds), often))
            found.update(dict.fromkeys(sets, 1 / len(sets)))
        case MinSepParticipation(min_separation=b, probability=p):
            starts = [1.0] + [p] * (b - 1) * kind.warm_start
            for start, weight in enumerate(starts):
                walk(start, weight / sum(starts), (), 1, b, p)
        case _:  # a hidden slot of the cycle, and a coin whenever it comes
            for slot in range(b := kind.cycle_length):
                walk(slot, 1 / b, (), b, b, getattr(kind, "probability", 1.0))
    assert sum(found.values()) == pytest.approx(1)
    return found
