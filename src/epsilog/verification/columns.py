"""Columns over rounds 1..T: settings of rounds, who was in them, and who could be; of our own records, or of logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import CustodyRecord, RoundRecord
from epsilog.verification.playbook import Playbook
from epsilog.verification.sampler_tests import Ids, Numbers

SETTINGS = ("clip_norm", "noise_stddev")


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """One row a round, in the order of the file. What was not recorded is None.

    Attributes:
        number: which round, from 1.
        cohort: how many took part.
        clip_norm: the norm bound of all groups of parameters together.
        noise_stddev: of the noise on the sum, in its own unit.
        divisor: what the noisy sum was divided by.
        attempts: how often the round was started.
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

    @classmethod
    def from_records(cls, records: Sequence[RoundRecord]) -> Self:
        """Return the columns of our own public records."""
        clip_norm, noise_stddev = (np.array([getattr(one, name) for one in records]) for name in SETTINGS)
        return cls(np.array([one.round for one in records], dtype=np.int64), None, clip_norm, noise_stddev)

    @property
    def order(self) -> Ids:
        """Places of the rows, by their round."""
        return np.argsort(self.number, kind="stable")


@dataclass(frozen=True, slots=True, eq=False)
class Cohort:
    """Who was in one round.

    Attributes:
        round: 1, 2, ...
        drawn: places of those whom the sampler picked, from 0.
        participants: of those that then took part.
    """

    round: int
    drawn: Ids
    participants: Ids


@dataclass(frozen=True, slots=True, eq=False)
class Participation:
    """Who was in which round.

    Attributes:
        rounds: the last round that is named.
        clients: how many different clients are named.
        outside: how many of them are on no list of those who could take part.
        withdrawn: how many took part before they had joined, or after they had left.
        repeated: entries beyond the first of a client in a round.
        copies: of those, rows that say just the same as another.
        late: rows with a time outside their round.
        largest_norm: by round, the largest norm; nan where there is none; None where no norm is recorded.
        members: rounds and places as one ascending number, round * width + place.
        width: more than the largest place.
        span: the first and the last time; None where none is recorded.
        responders: those members who then took part; None if all did.
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
    responders: Ids | None = None

    @classmethod
    def from_custody(cls, custody: Sequence[CustodyRecord], clients: int) -> Self:
        """Return the lists of a curator's records, a round each, of the clients 0..N-1."""
        drawn, gone, withdrawn = [one.drawn for one in custody], set[int](), 0
        for record in custody:
            gone |= set(record.withdrawn)
            withdrawn += len(gone & set(record.participants))
        norms = [np.nan if one.largest_norm is None else one.largest_norm for one in custody]
        named = {client for ids in drawn for client in ids}
        return cls(
            rounds=len(custody),
            clients=len(named),
            outside=sum(not 0 <= client < clients for client in named),
            withdrawn=withdrawn,
            repeated=sum(len(ids) - len(set(ids)) for ids in drawn),
            copies=0,
            late=None,
            largest_norm=np.array(norms),
            members=_encode_members(drawn, clients),
            width=clients,
            responders=_encode_members([one.participants for one in custody], clients),
        )

    @property
    def sizes(self) -> Ids:
        """Clients in each round, from the first."""
        return np.bincount(self.members // self.width, minlength=self.rounds + 1)[1:]

    def iterate_cohorts(self, rounds: int) -> Iterator[Cohort]:
        """Who was in each of the first ``rounds`` rounds."""
        present = self.members if self.responders is None else self.responders
        for number, drawn in enumerate(self._split(self.members, rounds), 1):
            there = np.searchsorted(present, [number * self.width, (number + 1) * self.width])
            yield Cohort(number, drawn, drawn if present is self.members else present[slice(*there)] % self.width)

    def _split(self, members: Ids, rounds: int) -> Iterator[Ids]:
        starts = np.searchsorted(members, np.arange(1, rounds + 2) * self.width)
        return (members[starts[i] : starts[i + 1]] - (i + 1) * self.width for i in range(rounds))


def _encode_members(lists: Sequence[Sequence[int]], clients: int) -> Ids:
    """Return the clients of 0..N-1 in some rounds, each once, as ``Participation.members`` has them."""
    pairs = [number * clients + one for number, ids in enumerate(lists, 1) for one in ids if 0 <= one < clients]
    return np.unique(np.array(pairs, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Enrollment:
    """Who could take part.

    Attributes:
        names: of everybody on the list, ascending.
        joined: when, in seconds since 1970.
        left: when; inf for those who never did.
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

    def count_at(self, time: float) -> int:
        """How many had joined and not left."""
        return int(((self.joined <= time) & (self.left > time)).sum())


@dataclass(frozen=True, slots=True)
class ReadSummary:
    """What was read of a file, and what was not.

    Attributes:
        name: the mapping's section.
        file: its name.
        rows: read.
        left_out: not read, since ``where`` says so.
        like_read: of those, rows in which every column that is read is in its bounds: they could have been read.
        where: the filter, by column.
        unread: columns that the mapping does not name.
    """

    name: str
    file: str
    rows: int
    left_out: int
    unread: tuple[str, ...]
    like_read: int = 0
    where: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogSource:
    """Where logs come from, and what their mapping says of the run.

    Attributes:
        identity: name, purpose and owner.
        reporting: the period, and what else the publisher says of it.
        files: SHA-256 of the mapping and of each file that it names, as they were once the checks were done.
        logs: those of them that hold rows of the run.
        salt: binds logs that are not public by keyed hashes; None for none.
        playbook: steps that the mapping names; None for none.
    """

    identity: Mapping[str, str]
    reporting: Mapping[str, Any]
    files: Mapping[str, str]
    logs: tuple[str, ...]
    salt: str | None = None
    playbook: Playbook | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LogData:
    """All that was logged.

    Attributes:
        rounds: one row a round; None where there is no such log.
        lists: who was in which round; None likewise.
        padding: noise on sums that are truly 0, by round and in the sum's own unit; None likewise.
        enrolled: who could take part; None likewise.
        summaries: what was read, file by file.
        digits: how many significant ones padding was logged with.
        padding_copies: rows of padding beyond the first with the same round and value, where values have all digits.
        source: the files; None where rows were made up.
    """

    rounds: Rounds | None = None
    lists: Participation | None = None
    padding: Mapping[int, Numbers] | None = None
    enrolled: Enrollment | None = None
    summaries: tuple[ReadSummary, ...] = ()
    digits: int = 17
    padding_copies: int = 0
    source: LogSource | None = None


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
