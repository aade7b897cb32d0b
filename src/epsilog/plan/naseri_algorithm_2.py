"""What Algorithm 2 of Naseri et al. (NDSS 2022, arXiv:2009.03561) spends as it is printed.

A printed step is theta - rate * (sum of clipped gradients / (p |D|) + N(0, sigma^2)): the noise is added after the
division and lacks the clip norm. One example moves the mean by C / (p |D|), so the noise multiplier of the sum is sigma
p |D| / C. It depends on the size of a client. Using sigma as the multiplier is wrong by that factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epsilog.accounting import epsilon as bound_epsilon
from epsilog.mechanisms import Gaussian, PoissonSampled, Repeated
from epsilog.terms import Interval, NeighboringRelation, check, codec

__all__ = ["PrintedAlgorithmCost", "account_algorithm_2"]

ROUNDED = 1.0 - 2.0**-50  # three products and a quotient, rounded down


@dataclass(frozen=True, slots=True)
class PrintedAlgorithmCost:
    """The cost of one client's part of a run, under both readings of E.

    Attributes:
        noise_multiplier: of each step's sum of clipped gradients; what an accountant has to be fed.
        mistaken: the cost with sigma as the noise multiplier, under the second reading.
        iterations: the cost if E counts noisy steps.
        epochs: the cost if E counts passes over the data: round(E / p) noisy steps per participation.
    """

    noise_multiplier: float
    mistaken: Interval
    iterations: Interval
    epochs: Interval

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return codec.plain_fields(self)


def account_algorithm_2(
    *,
    sigma: float,
    batch_probability: float,
    examples: int,
    clip_norm: float,
    epochs: int,
    max_participations: int,
    delta: float,
) -> PrintedAlgorithmCost:
    """Compute the cost of the printed algorithm for one client, in nats.

    The divisor p D is constant only if the size of a client does not change. A neighbor therefore has nothing in one
    example's place (zero-out). Under add or remove the printed step is not a Gaussian mechanism.

    Args:
        sigma: the printed noise magnitude, above 0.
        batch_probability: p, the chance that an example joins a batch, in (0, 1].
        examples: of the client, the printed D.
        clip_norm: C, the L2 norm to which each example's gradient is clipped.
        epochs: E.
        max_participations: largest number of rounds that the client takes part in.
        delta: of the guarantee, in (0, 1).

    >>> found = account_algorithm_2(
    ...     sigma=1.0, batch_probability=0.1, examples=64, clip_norm=1.0, epochs=1, max_participations=10, delta=1e-5
    ... )
    >>> round(found.noise_multiplier, 6), round(found.epochs.upper, 3), round(found.mistaken.upper, 2)
    (6.4, 0.572, 7.05)
    """
    sigma, clip_norm = check.positive()(sigma=sigma), check.positive()(clip_norm=clip_norm)
    p, examples = check.in_unit_interval()(batch_probability=batch_probability), check.integer(1)(examples=examples)
    epochs, max_participations = (
        check.integer(1)(epochs=epochs),
        check.integer(1)(max_participations=max_participations),
    )
    delta = check.in_open_interval(0, 1)(delta=delta)
    multiplier = ROUNDED * sigma * p * examples / clip_norm

    def compute_cost(noise: float, steps: int) -> Interval:
        release = Repeated(PoissonSampled(Gaussian(noise), p), steps * max_participations)
        return bound_epsilon(release, delta=delta, relation=NeighboringRelation.ZERO_OUT)

    passes = max(1, round(epochs / p))
    return PrintedAlgorithmCost(
        multiplier, compute_cost(sigma, passes), compute_cost(multiplier, epochs), compute_cost(multiplier, passes)
    )
