"""Which noise for a training run: independent with Poisson sampling, or correlated with balls-in-bins?

Both promise the same (epsilon, delta); what differs is how much noise the model carries. Only the noise of the Poisson
row is certified. That of independent noise with balls-in-bins is a quadrature whose error is estimated, not proven;
that of the correlated rows is a Monte Carlo estimate. Verify the winner by ``accounting.montecarlo.sweep`` before it is
claimed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from epsilog import accounting
from epsilog.accounting.montecarlo import balls_in_bins_delta, estimate_noise, strategies
from epsilog.terms import (
    BinnedParticipation,
    CalibrationError,
    Gaussian,
    MatrixMechanism,
    PoissonSampled,
    Release,
    Repeated,
    ToeplitzStrategy,
    check,
    codec,
)

BASES = ("certified", "computed", "estimated")


@dataclass(frozen=True, slots=True)
class Row:
    """One way to run the training.

    Attributes:
        name: what it is, in words.
        release: the mechanism with the noise that meets the goal.
        noise_stddev: standard deviation of Z over the clip norm.
        error: root mean square of the noise in the model over all rounds, in clip norms.
        basis: what the noise rests on: "certified" (it may be claimed), "computed" (deterministic, about ten digits,
            not proven) or "estimated" (simulated); the last two are to be verified by a sweep.
    """

    name: str
    release: Release
    noise_stddev: float
    error: float
    basis: str

    def __post_init__(self) -> None:
        check.one_of(BASES, basis=self.basis)


@dataclass(frozen=True, slots=True)
class Comparison:
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
    rows: tuple[Row, ...]

    @property
    def winner(self) -> Row:
        """The way with the least noise in the model."""
        return self.rows[0]

    @property
    def sentence(self) -> str:
        """Who wins, by how much, in words."""
        best = self.winner
        base = next(row for row in self.rows if isinstance(row.release, Repeated))
        saved = 100 * (1 - best.error / base.error)
        if best is base:
            return f"{best.name} wins: correlated noise saves nothing here."
        status = best.basis if best.basis == "certified" else f"{best.basis}: verify it with a sweep"
        return f"{best.name} wins: {saved:.1f}% less noise in the model than {base.name} ({status})."

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "rounds": self.rounds,
            "cycle_length": self.cycle_length,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "winner": self.winner.name,
            "sentence": self.sentence,
            "rows": [
                {
                    "name": row.name,
                    "noise_stddev": row.noise_stddev,
                    "error": row.error,
                    "basis": row.basis,
                    "release": codec.encode(row.release),
                }
                for row in self.rows
            ],
        }


def correlated(
    *,
    rounds: int,
    cycle_length: int,
    epsilon: float,
    delta: float,
    seed: int,
    bands: Sequence[int] | None = None,
) -> Comparison:
    """Compares independent noise + Poisson sampling with correlated noise + balls-in-bins at one guarantee.

    Args:
        rounds: training rounds, T.
        cycle_length: rounds in an epoch, b; each unit takes part once an epoch (Poisson: with probability 1 / b).
        epsilon: goal, in nats.
        delta: goal, in (0, 1).
        seed: of the simulations behind the estimates.
        bands: band counts to try; by default 2, 4, 8, ... up to the cycle length.

    Raises:
        CalibrationError: the goal is out of reach.

    >>> found = correlated(rounds=64, cycle_length=16, epsilon=2.0, delta=1e-5, seed=1, bands=[4])
    >>> found.winner.name
    'correlated noise (4 bands), balls-in-bins'
    """
    check.integer(1, rounds=rounds, cycle_length=cycle_length)
    check.positive(epsilon=epsilon)
    check.between(0, 1, delta=delta)
    powers = [2**k for k in range(1, 12) if 2**k <= min(cycle_length, rounds)] if bands is None else list(bands)
    rows = [
        _poisson(rounds, cycle_length, epsilon=epsilon, delta=delta),
        _binned(rounds, cycle_length, epsilon=epsilon, delta=delta),
    ]
    for size in powers:
        strategy = strategies.optimal(size, rounds)
        release = MatrixMechanism(strategy, BinnedParticipation(cycle_length), rounds, 1.0)
        noise = estimate_noise(release, epsilon=epsilon, delta=delta, seed=seed)
        made = MatrixMechanism(strategy, BinnedParticipation(cycle_length), rounds, noise)
        name = f"correlated noise ({size} bands), balls-in-bins"
        rows.append(Row(name, made, noise, noise * strategies.prefix_error(strategy, rounds), "estimated"))
    return Comparison(rounds, cycle_length, epsilon, delta, tuple(sorted(rows, key=lambda row: row.error)))


def _poisson(rounds: int, cycle_length: int, *, epsilon: float, delta: float) -> Row:
    def make(noise: float) -> Release:
        return Repeated(PoissonSampled(Gaussian(noise), 1 / cycle_length), rounds)

    noise = accounting.calibrate(make, epsilon=epsilon, delta=delta)
    error = noise * strategies.prefix_error(ToeplitzStrategy((1.0,)), rounds)
    return Row("independent noise, Poisson sampling", make(noise), noise, error, "certified")


def _binned(rounds: int, cycle_length: int, *, epsilon: float, delta: float) -> Row:
    """Computed: bins are shared evenly up to one epoch more for some, and counted as if all had that one more."""
    epochs = math.ceil(rounds / cycle_length)

    def too_little(noise: float) -> bool:
        return any(
            balls_in_bins_delta(
                bins=cycle_length, noise_stddev=noise, epsilon=epsilon, direction=direction, epochs=epochs
            ).upper
            > delta
            for direction in ("remove", "add")
        )

    noise = _least(too_little)
    strategy = ToeplitzStrategy((1.0,))
    made = MatrixMechanism(strategy, BinnedParticipation(cycle_length), rounds, noise)
    error = noise * strategies.prefix_error(strategy, rounds)
    return Row("independent noise, balls-in-bins", made, noise, error, "computed")


def _least(too_little: Callable[[float], bool]) -> float:
    low = high = 1.0
    while too_little(high):
        low, high = high, 2 * high
        if high > 1e6:
            raise CalibrationError("no noise meets the goal", bracket=(low, high))
    while low == high or not too_little(low):
        low, high = low / 2, min(low, high)
        if low < 1e-3:
            raise CalibrationError("hardly any noise is needed", bracket=(low, high))
    while high > low * (1 + 1e-4):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if too_little(middle) else (low, middle)
    return high
