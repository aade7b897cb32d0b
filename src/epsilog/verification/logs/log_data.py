"""A run's logs as arrays: rounds, who was in them, padding, enrolment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilog.verification.logs.tables import ReadSummary
from epsilog.verification.participation import ObservedCohort
from epsilog.verification.sampler_tests import Ids, Numbers


@dataclass(frozen=True, slots=True, eq=False)
class RoundLog:
    """One row a round, in the order of the file. What was not logged is None.

    Attributes:
        number: which round, from 1.
        cohort: how many took part.
        clip_norm: the norm bound of all groups of parameters together.
        noise_stddev: of the noise on the sum, in its own unit.
        divisor: what the noisy sum was divided by.
        attempts: how often the round was begun.
        ended: when, in seconds since 1970.
        copies: rows left out because another row says just the same.
    """

    number: Ids
    cohort: Ids | None = None
    clip_norm: Numbers | None = None
    noise_stddev: Numbers | None = None
    divisor: Numbers | None = None
    attempts: Ids | None = None
    ended: Numbers | None = None
    copies: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ParticipationData:
    """Who was in which round.

    Attributes:
        rounds: the last round that is named.
        clients: how many different clients are named.
        outside: how many of them are on no list of those who could take part.
        withdrawn: how many of them took part before they had joined, or after they had left.
        repeated: rows beyond the first of a client in a round.
        copies: of those, rows that say just the same as another.
        late: rows with a time outside their round.
        largest_norm: by round, the largest norm; nan where nobody took part; None where no norm is logged.
        members: rounds and places as one ascending number, round * width + place.
        width: more than the largest place.
        span: the first and the last time; None where none is logged.
    """

    rounds: int
    clients: int
    outside: int
    withdrawn: int
    repeated: int
    copies: int
    late: int | None
    largest_norm: Numbers | None
    members: Ids
    width: int
    span: tuple[float, float] | None = None

    @property
    def sizes(self) -> Ids:
        """Clients in each round, from the first."""
        return np.bincount(self.members // self.width, minlength=self.rounds + 1)[1:]

    def cohorts(self, rounds: int) -> Iterator[ObservedCohort]:
        """Who was in each of the first ``rounds`` rounds."""
        starts = np.searchsorted(self.members, np.arange(1, rounds + 2) * self.width)
        for number in range(1, rounds + 1):
            places = self.members[starts[number - 1] : starts[number]] - number * self.width
            yield ObservedCohort(number, places, places)


@dataclass(frozen=True, slots=True, eq=False)
class EnrollmentData:
    """Who could take part.

    Attributes:
        names: of everybody on the list, ascending.
        joined: when, in seconds since 1970.
        left: when; inf for who never did.
        counted: whether each counts to N at the date.
        copies: rows left out because another row says just the same.
        counted_on: that date, in seconds since 1970.
    """

    names: list[str]
    joined: Numbers
    left: Numbers
    counted: NDArray[np.bool_]
    copies: int
    counted_on: float

    @property
    def population(self) -> int:
        """N at the date."""
        return int(self.counted.sum())

    def at(self, time: float) -> int:
        """How many had joined and not left."""
        return int(((self.joined <= time) & (self.left > time)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class LogData:
    """All that was logged.

    Attributes:
        rounds: one row a round; None where there is no such log.
        lists: who was in which round; None likewise.
        padding: noise on sums that are truly 0, by round and in the sum's own unit; None likewise.
        enrolled: who could take part; None likewise.
        told: what was read, file by file.
        digits: how many significant ones padding was logged with.
        padding_copies: rows of padding beyond the first with the same round and value, where values have all digits.
    """

    rounds: RoundLog | None = None
    lists: ParticipationData | None = None
    padding: Mapping[int, Numbers] | None = None
    enrolled: EnrollmentData | None = None
    told: tuple[ReadSummary, ...] = ()
    digits: int = 17
    padding_copies: int = 0


@dataclass(frozen=True, slots=True)
class LogUnits:
    """What the claim says, for columns that are measured in it.

    Attributes:
        population: N as claimed.
        clip_norm: as claimed.
        divisor: the public number that the sum was to be divided by; None where the claim has none.
    """

    population: int
    clip_norm: float
    divisor: float | None
