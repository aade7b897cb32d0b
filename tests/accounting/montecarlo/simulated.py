"""Releases that are simulated, and trials of them."""

import numpy as np

from epsilog.accounting.montecarlo import shards, tilt
from epsilog.accounting.montecarlo.pairs import build_simulated_pair
from epsilog.accounting.montecarlo.payoff import HockeyStick
from epsilog.mechanisms import BallsInBins, BallsInBinsParticipation, Gaussian, MatrixMechanism, ToeplitzStrategy

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
