"""Columns over rounds 1..T, from our records or from logs: round settings, participation and enrollment."""

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
    """One row per round, in file order. An unrecorded column equals None.

    Attributes:
        number: the round, from 1.
        cohort: the number of participants.
        clip_norm: the clip norm of all parameter groups together.
        noise_stddev: of the noise on the sum, in the unit of the sum.
        divisor: the divisor of the noisy sum.
        attempts: the number of times the round started.
        ended: its end, in seconds since 1970.
        copies: the number of omitted duplicate rows.
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
        """Return the row indices, sorted by round."""
        return np.argsort(self.number, kind="stable")


@dataclass(frozen=True, slots=True, eq=False)
class Cohort:
    """The clients of one round.

    Attributes:
        round: 1, 2, ...
        drawn: indices of the sampled clients, from 0.
        participants: indices of those that took part.
    """

    round: int
    drawn: Ids
    participants: Ids


@dataclass(frozen=True, slots=True, eq=False)
class Participation:
    """The clients of all rounds.

    Attributes:
        rounds: the last recorded round.
        clients: the number of distinct clients.
        outside: the number of clients that are not enrolled.
        withdrawn: the number of clients that took part before joining or after leaving.
        repeated: the number of repeated entries of a client in a round.
        copies: the number of those that are identical to another row.
        late: the number of rows with a time outside their round.
        largest_norm: the largest norm of each round, NaN for none; None if no norms are recorded.
        members: sorted keys of the sampled clients, round * width + index.
        width: greater than the largest client index.
        span: the first and the last time; None if no times are recorded.
        responders: the keys of those that took part; None if all did.
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
        """Return the participation of clients 0..N-1 from a curator's records."""
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
        """Return the number of sampled clients in each round."""
        return np.bincount(self.members // self.width, minlength=self.rounds + 1)[1:]

    def iterate_cohorts(self, rounds: int) -> Iterator[Cohort]:
        """Yield the cohort of each of the first ``rounds`` rounds."""
        present = self.members if self.responders is None else self.responders
        for number, drawn in enumerate(self._split(self.members, rounds), 1):
            ends = np.searchsorted(present, [number * self.width, (number + 1) * self.width])
            yield Cohort(number, drawn, drawn if present is self.members else present[slice(*ends)] % self.width)

    def _split(self, members: Ids, rounds: int) -> Iterator[Ids]:
        starts = np.searchsorted(members, np.arange(1, rounds + 2) * self.width)
        return (members[starts[i] : starts[i + 1]] - (i + 1) * self.width for i in range(rounds))


def _encode_members(lists: Sequence[Sequence[int]], clients: int) -> Ids:
    """Return the keys of clients 0..N-1 in some rounds, each once, as in ``Participation.members``."""
    pairs = [number * clients + one for number, ids in enumerate(lists, 1) for one in ids if 0 <= one < clients]
    return np.unique(np.array(pairs, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Enrollment:
    """The enrolled clients.

    Attributes:
        names: of all clients on the list, sorted.
        joined: in seconds since 1970.
        left: likewise; inf for a client that never left.
        counted: whether N includes the client at the counting date.
        copies: the number of omitted duplicate rows.
        counted_on: the counting date, in seconds since 1970.
    """

    names: list[str]
    joined: Numbers
    left: Numbers
    counted: NDArray[np.bool_]
    copies: int
    counted_on: float

    @property
    def population(self) -> int:
        """Return N at the counting date."""
        return int(self.counted.sum())

    def count_at(self, time: float) -> int:
        """Return the number of clients that had joined and not left."""
        return int(((self.joined <= time) & (self.left > time)).sum())


@dataclass(frozen=True, slots=True)
class ReadSummary:
    """The rows and columns of a file that were read, and the others.

    Attributes:
        name: the mapping's section.
        file: the file name.
        rows: the number of rows read.
        left_out: the number of rows that ``where`` excludes.
        like_read: the number of excluded rows that are valid in every column read.
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
    """The files of a run's logs, and the description of the run in their mapping.

    Attributes:
        identity: name, purpose and owner.
        reporting: the period, and the publisher's further fields.
        files: SHA-256 of the mapping and of each file that it names, after the checks.
        logs: the names of the files that contain the run's rows.
        salt: the key of the hashes that commit to private logs; None for none.
        playbook: the playbook that the mapping names; None for none.
    """

    identity: Mapping[str, str]
    reporting: Mapping[str, Any]
    files: Mapping[str, str]
    logs: tuple[str, ...]
    salt: str | None = None
    playbook: Playbook | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LogData:
    """All logs of a run; a missing log equals None.

    Attributes:
        rounds: one row per round.
        lists: the participants of each round.
        padding: noise on coordinates with true sum 0, by round, in the unit of the sum.
        enrolled: the enrolled clients.
        summaries: the rows and columns read from each file.
        digits: the number of significant digits of the logged padding.
        padding_copies: the number of repeated padding rows (round and value), if values are logged in full.
        source: the files; None for synthetic rows.
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
    """The claim's figures that serve as units of columns.

    Attributes:
        population: the claimed N.
        clip_norm: the claimed clip norm.
        divisor: the claimed public divisor of the sum; None if the claim states none.
    """

    population: int
    clip_norm: float
    divisor: float | None
