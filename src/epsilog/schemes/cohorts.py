"""Samplers of cohorts: training draws from them, and a verifier tests participant lists against them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BallsInBinsSampler", "CappedSampler", "Cohorts", "FixedSizeSampler", "PoissonSampler", "RoundRobinSampler"]


@dataclass(frozen=True, slots=True)
class PoissonSampler:
    """Each client joins each round independently.

    Attributes:
        clients: number of clients.
        probability: sampling probability.
    """

    clients: int
    probability: float

    def count_max_participations(self, rounds: int) -> int:
        """Return the most of these rounds that one client takes part in."""
        return rounds


@dataclass(frozen=True, slots=True)
class FixedSizeSampler:
    """Each round draws a fixed number of clients; all subsets are equally likely, independently of earlier rounds.

    Attributes:
        clients: number of clients.
        cohort_size: clients in a round.
    """

    clients: int
    cohort_size: int

    def count_max_participations(self, rounds: int) -> int:
        """Return the most of these rounds that one client takes part in."""
        return rounds


@dataclass(frozen=True, slots=True)
class BallsInBinsSampler:
    """Each client takes part in one round of each cycle, drawn independently for each cycle and client.

    Attributes:
        clients: number of clients.
        cycle_length: rounds in a cycle.
        separation: a divisor of ``cycle_length``. The rounds of a client have one residue modulo it, which makes it
            the least distance between them.
    """

    clients: int
    cycle_length: int
    separation: int = 1

    def slot(self, round: int) -> int:  # noqa: A002 (the field's word)
        """Return the position of a round in its cycle, from 0."""
        return (round - 1) % self.cycle_length

    def count_max_participations(self, rounds: int) -> int:
        """Return the most of these rounds that one client takes part in."""
        return -(-rounds // self.cycle_length)


@dataclass(frozen=True, slots=True)
class CappedSampler:
    """Each round draws a fixed number of the clients below their cap, or all if there are fewer.

    Attributes:
        clients: number of clients.
        cohort_size: clients in a round.
        max_participations: largest number of rounds of a client.
    """

    clients: int
    cohort_size: int
    max_participations: int

    def count_max_participations(self, rounds: int) -> int:
        """Return the most of these rounds that one client takes part in."""
        return min(self.max_participations, rounds)


@dataclass(frozen=True, slots=True)
class RoundRobinSampler:
    """Client i takes part in round t if t - 1 and i are equal modulo the cycle length.

    Attributes:
        clients: number of clients.
        cycle_length: rounds from one turn to the next.
    """

    clients: int
    cycle_length: int

    def due(self, round: int) -> range:  # noqa: A002 (the field's word)
        """Return the ids of the clients of a round."""
        return range((round - 1) % self.cycle_length, self.clients, self.cycle_length)

    def count_max_participations(self, rounds: int) -> int:
        """Return the most of these rounds that one client takes part in."""
        return -(-rounds // self.cycle_length)


Cohorts = PoissonSampler | FixedSizeSampler | BallsInBinsSampler | CappedSampler | RoundRobinSampler
