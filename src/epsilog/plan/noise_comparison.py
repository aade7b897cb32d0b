"""Which noise for a training run: independent with Poisson sampling, or correlated with balls-in-bins?

Both promise the same (epsilon, delta); what differs is how much noise the model carries. The noise of the correlated
rows is a Monte Carlo *estimate*: run ``accounting.montecarlo.tuning_cost`` on the winner before it is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from epsilog import accounting
from epsilog.accounting.montecarlo import estimate_noise, strategies
from epsilog.mechanisms import (
    BallsInBins,
    BallsInBinsParticipation,
    Gaussian,
    MatrixMechanism,
    PoissonSampled,
    Release,
    Repeated,
    ToeplitzStrategy,
)
from epsilog.terms import check, codec
from epsilog.terms.messages import Message

__all__ = ["compare_noise_strategies"]


@dataclass(frozen=True, slots=True)
class NoiseOption:
    """One way to run the training.

    Attributes:
        name: what it is, in words.
        release: the mechanism with the noise that meets the goal.
        noise_stddev: standard deviation of Z over the clip norm.
        error: root mean square of the noise in the model over all rounds, in clip norms.
        certified: whether the noise is on the proven side; otherwise it is an estimate, to be verified by a sweep.
    """

    name: str
    release: Release
    noise_stddev: float
    error: float
    certified: bool


@dataclass(frozen=True, slots=True)
class NoiseComparison:
    """Ways to run the same training under the same guarantee, the least noise first.

    Attributes:
        rounds: training rounds.
        cycle_length: rounds in an epoch; Poisson samples at one over this.
        epsilon: of the guarantee, in nats.
        delta: of the guarantee.
        rows: the ways, by rising error.
    """

    rounds: int
    cycle_length: int
    epsilon: float
    delta: float
    rows: tuple[NoiseOption, ...]

    @property
    def winner(self) -> NoiseOption:
        """Return the way with the least noise in the model."""
        return self.rows[0]

    @property
    def sentence(self) -> Message:
        """Which wins, and by how much."""
        best = self.winner
        base = next(row for row in self.rows if row.release.repeats)
        saved = 100 * (1 - best.error / base.error)
        if best is base:
            return Message.of("noise/independent-wins", winner=best.name)
        kind = "certified" if best.certified else "estimated"
        return Message.of(f"noise/winner-{kind}", winner=best.name, base=base.name, saved=saved)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return codec.plain_fields(self) | {"winner": self.winner.name, "sentence": self.sentence.to_json()}


def compare_noise_strategies(
    *, rounds: int, cycle_length: int, epsilon: float, delta: float, seed: int, bands: Sequence[int] | None = None
) -> NoiseComparison:
    """Compare independent noise + Poisson sampling with correlated noise + balls-in-bins at one guarantee.

    Args:
        rounds: training rounds, T.
        cycle_length: rounds in an epoch, b; each unit takes part once an epoch (Poisson: with probability 1 / b).
        epsilon: goal, in nats.
        delta: goal, in (0, 1).
        seed: of the simulations behind the estimates.
        bands: band counts to try; by default 2, 4, 8, ... up to the cycle length.

    Raises:
        CalibrationError: the goal is out of reach.

    >>> found = compare_noise_strategies(rounds=64, cycle_length=16, epsilon=2.0, delta=1e-5, seed=1, bands=[4])
    >>> found.winner.name
    'correlated noise (4 bands), balls-in-bins'
    """
    rounds = check.integer(1)(rounds=rounds)
    cycle_length = check.integer(1)(cycle_length=cycle_length)
    epsilon = check.positive()(epsilon=epsilon)
    delta = check.in_open_interval(0, 1)(delta=delta)
    if bands is None:
        bands = [2**k for k in range(1, 12) if 2**k <= min(cycle_length, rounds)]
    rows = [
        _poisson(rounds, cycle_length, epsilon=epsilon, delta=delta),
        _account_balls_in_bins(rounds, cycle_length, epsilon=epsilon, delta=delta),
    ]
    for size in check.sequence_of(check.integer(1))(bands=bands):
        strategy = strategies.optimize_banded_column(size, rounds)
        release = MatrixMechanism(strategy, BallsInBinsParticipation(cycle_length), rounds, 1.0)
        noise = estimate_noise(release, epsilon=epsilon, delta=delta, seed=seed)
        made = MatrixMechanism(strategy, BallsInBinsParticipation(cycle_length), rounds, noise)
        name = f"correlated noise ({size} bands), balls-in-bins"
        rows.append(
            NoiseOption(name, made, noise, noise * strategies.compute_prefix_error(strategy, rounds), certified=False)
        )
    return NoiseComparison(rounds, cycle_length, epsilon, delta, tuple(sorted(rows, key=lambda row: row.error)))


def _poisson(rounds: int, cycle_length: int, *, epsilon: float, delta: float) -> NoiseOption:
    def make(noise: float) -> Release:
        return Repeated(PoissonSampled(Gaussian(noise), 1 / cycle_length), rounds)

    noise = accounting.calibrate(make, epsilon=epsilon, delta=delta)
    error = noise * strategies.compute_prefix_error(ToeplitzStrategy((1.0,)), rounds)
    return NoiseOption("independent noise, Poisson sampling", make(noise), noise, error, certified=True)


def _account_balls_in_bins(rounds: int, cycle_length: int, *, epsilon: float, delta: float) -> NoiseOption:
    """If the last epoch is cut short, units differ by one participation; this counts the larger number for all."""

    def make(noise: float) -> Release:
        return BallsInBins(Gaussian(noise), bins=cycle_length, epochs=math.ceil(rounds / cycle_length))

    noise = accounting.calibrate(make, epsilon=epsilon, delta=delta)
    strategy = ToeplitzStrategy((1.0,))
    made = MatrixMechanism(strategy, BallsInBinsParticipation(cycle_length), rounds, noise)
    error = noise * strategies.compute_prefix_error(strategy, rounds)
    return NoiseOption("independent noise, balls-in-bins", made, noise, error, certified=True)
