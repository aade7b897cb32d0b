"""How a round's clients are picked: what training draws, and what a verifier tests the curator's lists against."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BallsInBinsSampler", "CappedSampler", "Cohorts", "FixedSizeSampler", "PoissonSampler", "RoundRobinSampler"]


@dataclass(frozen=True, slots=True)
class PoissonSampler:
    """Every client joins every round by its own coin.

    Attributes:
        clients: clients in all.
        probability: of heads.
    """

    clients: int
    probability: float

    def count_max_participations(self, rounds: int) -> int:
        """Return the most of these rounds that one client takes part in."""
        return rounds


@dataclass(frozen=True, slots=True)
class FixedSizeSampler:
    """Every round takes the same number of clients; all subsets are equally likely, independently of earlier rounds.

    Attributes:
        clients: clients in all.
        cohort_size: clients in a round.
    """

    clients: int
    cohort_size: int

    def count_max_participations(self, rounds: int) -> int:
        """Return the most of these rounds that one client takes part in."""
        return rounds


@dataclass(frozen=True, slots=True)
class BallsInBinsSampler:
    """Every client takes part in one round of every cycle, drawn anew for each cycle and each client alone.

    Attributes:
        clients: clients in all.
        cycle_length: rounds in a cycle.
        separation: divides it; a client's rounds leave the same rest in all cycles, so they lie as far apart at least.
    """

    clients: int
    cycle_length: int
    separation: int = 1

    def slot(self, round: int) -> int:  # noqa: A002 (the field's word)
        """A round's place in its cycle, from 0."""
        return (round - 1) % self.cycle_length

    def count_max_participations(self, rounds: int) -> int:
        """Return the most of these rounds that one client takes part in."""
        return -(-rounds // self.cycle_length)


@dataclass(frozen=True, slots=True)
class CappedSampler:
    """Cohorts of one size, drawn at random from the clients that are below their cap; smaller when few are left.

    Attributes:
        clients: clients in all.
        cohort_size: clients in a round.
        max_participations: rounds after which a client is left out.
    """

    clients: int
    cohort_size: int
    max_participations: int

    def count_max_participations(self, rounds: int) -> int:
        """Return the most of these rounds that one client takes part in."""
        return min(self.max_participations, rounds)


@dataclass(frozen=True, slots=True)
class RoundRobinSampler:
    """Round-robin turns: client i takes part in round t if t - 1 and i have the same remainder.

    Attributes:
        clients: clients in all.
        cycle_length: rounds from one turn to the next.
    """

    clients: int
    cycle_length: int

    def due(self, round: int) -> range:  # noqa: A002 (the field's word)
        """Return the clients of a round."""
        return range((round - 1) % self.cycle_length, self.clients, self.cycle_length)

    def count_max_participations(self, rounds: int) -> int:
        """Return the most of these rounds that one client takes part in."""
        return -(-rounds // self.cycle_length)


Cohorts = PoissonSampler | FixedSizeSampler | BallsInBinsSampler | CappedSampler | RoundRobinSampler
