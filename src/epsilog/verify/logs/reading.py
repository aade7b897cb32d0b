"""A run's logs as arrays: rounds, who was in them, padding, enrolment. Read, converted to one unit, and not believed.

Millions of rows go by in pieces; what stays is one integer for each client in each round.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import CheckError, check
from epsilog.verify.chances import Ids, Numbers
from epsilog.verify.logs import tables
from epsilog.verify.logs.mapping import (
    CLIP_NORMS,
    Enrolment,
    LogMapping,
    Noise,
    Norms,
    PaddingLog,
    ParticipationLog,
    RoundsLog,
    Time,
)
from epsilog.verify.logs.reuse import significant_digits
from epsilog.verify.logs.tables import EARLIEST_YEAR, LATEST_YEAR, MOST_ROUNDS, Field, Rows, Told
from epsilog.verify.participation import Cohort

if TYPE_CHECKING:
    import polars as pl

DAY = 86_400.0
PIECE = 1 << 20  # rows that are looked at together
MOST_CLIENTS = 100_000_000  # whom a log may name: tests hold a number for each


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
class Lists:
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

    def cohorts(self, rounds: int) -> Iterator[Cohort]:
        """Who was in each of the first ``rounds`` rounds."""
        starts = np.searchsorted(self.members, np.arange(1, rounds + 2) * self.width)
        for number in range(1, rounds + 1):
            places = self.members[starts[number - 1] : starts[number]] - number * self.width
            yield Cohort(number, places, places)


@dataclass(frozen=True, slots=True, eq=False)
class Enrolled:
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
class Logs:
    """All that was logged.

    Attributes:
        rounds: one row a round; None where there is no such log.
        lists: who was in which round; None likewise.
        padding: noise on sums that are truly 0, by round and in the sum's own unit; None likewise.
        enrolled: who could take part; None likewise.
        told: what was read, file by file.
        digits: how many significant ones padding was logged with.
    """

    rounds: RoundLog | None = None
    lists: Lists | None = None
    padding: Mapping[int, Numbers] | None = None
    enrolled: Enrolled | None = None
    told: tuple[Told, ...] = ()
    digits: int = 17


@dataclass(frozen=True, slots=True)
class Units:
    """What the claim says, for columns that are measured in it.

    Attributes:
        population: N as claimed.
        clip_norm: as claimed.
        divisor: the public number that the sum was to be divided by; None where the claim has none.
    """

    population: int
    clip_norm: float
    divisor: float | None


def read_logs(mapping: LogMapping, base: Path, units: Units) -> Logs:
    """Reads every file that a mapping names; paths are relative to ``base``.

    Raises:
        CheckError: a value or a column that is not what the mapping says, by field, bound and value.
    """
    told: list[Told] = []
    enrolled = rounds = padding = lists = None
    digits = 17
    if mapping.enrolment is not None:
        enrolled = _enrolled(mapping.enrolment, base, told)
    if mapping.rounds is not None:
        rounds, padding, digits = _rounds(mapping.rounds, base, units, told)
    if mapping.padding is not None:
        padding, digits = _padding(mapping.padding, base, units, rounds, told)
    if mapping.participation is not None:
        check.integer(1, MOST_CLIENTS)(population=units.population)
        lists = _Reader(mapping.participation, base, told).lists(units.population, enrolled, rounds)
    return Logs(rounds, lists, padding, enrolled, tuple(told), digits)


def _round(section: str, column: str, first: int) -> Field:
    return tables.whole(f"{section}.round", column, first, MOST_ROUNDS)


def _norms(name: str, columns: Norms) -> list[Field]:
    groups = {"": columns} if isinstance(columns, str) else {f".{group}": column for group, column in columns.items()}
    return [tables.at_least_zero(f"{name}{group}", column) for group, column in groups.items()]


def _time(name: str, told: Time | None, *, blank: bool = False) -> list[Field]:
    return [] if told is None else [tables.point_in_time(name, told.column, told.unit, blank=blank)]


def _joint(frame: pl.DataFrame, name: str) -> Numbers:
    """The norm of all groups together; every group's own is no proof for it."""
    columns = [frame[column].to_numpy() for column in frame.columns if column == name or column.startswith(f"{name}.")]
    return np.asarray(columns[0] if len(columns) == 1 else np.sqrt(np.sum(np.square(columns), axis=0)))


def _rounds(
    log: RoundsLog, base: Path, units: Units, told: list[Told]
) -> tuple[RoundLog, dict[int, Numbers] | None, int]:
    columns, name = log.columns, "rounds"
    fields = [_round(name, columns.round, log.first_round)]
    fields += [tables.whole("rounds.cohort", columns.cohort, 0)] if columns.cohort else []
    fields += _norms("rounds.clip_norm", columns.clip_norm) if columns.clip_norm else []
    fields += [tables.at_least_zero("rounds.noise", columns.noise.column)] if columns.noise else []
    fields += [tables.positive("rounds.divisor", columns.divisor)] if columns.divisor else []
    fields += [tables.whole("rounds.attempts", columns.attempts, 1)] if columns.attempts else []
    fields += [tables.text("rounds.padding", columns.padding.column)] if columns.padding else []
    fields += _time("rounds.ended", columns.ended)
    rows = tables.read(log, base, name, fields)
    told.append(rows.told)
    every = rows.collect()
    frame = every.unique(maintain_order=True)
    number = _whole(frame, "rounds.round") + (1 - log.first_round)
    clip_norm = _joint(frame, "rounds.clip_norm") if columns.clip_norm else None
    divisor = frame["rounds.divisor"].to_numpy() if columns.divisor else None
    found = RoundLog(
        number=number,
        cohort=_whole(frame, "rounds.cohort") if columns.cohort else None,
        clip_norm=clip_norm,
        divisor=divisor,
        attempts=_whole(frame, "rounds.attempts") if columns.attempts else None,
        ended=frame["rounds.ended"].to_numpy() if columns.ended else None,
        noise_stddev=(
            frame["rounds.noise"].to_numpy() * _unit("rounds.columns.noise", columns.noise, units, clip_norm, divisor)
            if columns.noise
            else None
        ),
        copies=every.height - frame.height,
    )
    if columns.padding is None:
        return found, None, 17
    unit = _unit("rounds.columns.padding", columns.padding, units, clip_norm, divisor) * np.ones(number.size)
    padding: dict[int, Numbers] = {}
    cells = [_values(written, i, columns.padding.column) for i, written in enumerate(frame["rounds.padding"])]
    for at, values in zip(number.tolist(), (values * by for values, by in zip(cells, unit, strict=True)), strict=True):
        padding[at] = np.concatenate([padding.get(at, np.zeros(0)), values])
    return found, padding, significant_digits(np.concatenate([np.zeros(0), *cells]))


def _whole(frame: pl.DataFrame, name: str) -> Ids:
    return np.asarray(frame[name].to_numpy().astype(np.int64))


def _unit(name: str, told: Noise, units: Units, clip_norm: Numbers | None, divisor: Numbers | None) -> Numbers | float:
    """What turns logged noise into noise on the sum, in the sum's own unit."""
    unit: Numbers | float = 1.0
    if told.unit == CLIP_NORMS:
        unit = units.clip_norm if clip_norm is None else clip_norm
    if told.on == "mean":
        by = units.divisor if divisor is None else divisor
        if by is None:
            raise CheckError(f"{name}.on", "sum, where neither a column nor the claim has a divisor", "'mean'")
        unit = unit * by
    return unit


def _values(written: str, place: int, column: str) -> Numbers:
    """A cell with several numbers: a JSON list, or numbers with blanks between them."""
    try:
        parsed = json.loads(written) if written.startswith("[") else [float(word) for word in written.split()]
        values = np.array(parsed, dtype=np.float64)
    except (ValueError, TypeError):
        values = np.array([math.nan])
    if values.ndim != 1 or not np.isfinite(values).all():
        bound = "a list of finite numbers, such as [0.1, -0.2]"
        raise CheckError(f"rounds.padding (column {column})", bound, f"{written[:60]!r} in row {place + 1}")
    return values


def _padding(
    log: PaddingLog, base: Path, units: Units, rounds: RoundLog | None, told: list[Told]
) -> tuple[dict[int, Numbers], int]:
    value = log.columns.value
    fields = [_round("padding", log.columns.round, log.first_round), tables.finite("padding.value", value.column)]
    rows = tables.read(log, base, "padding", fields)
    told.append(rows.told)
    frame = rows.collect()
    number = _whole(frame, "padding.round") + (1 - log.first_round)
    clips = _by_round(number, rounds, "clip_norm") if value.unit == CLIP_NORMS else None
    divisors = _by_round(number, rounds, "divisor") if value.on == "mean" else None
    values = frame["padding.value"].to_numpy() * _unit("padding.columns.value", value, units, clips, divisors)
    order = np.argsort(number, kind="stable")
    seen, starts = np.unique(number[order], return_index=True)
    digits = significant_digits(frame["padding.value"].to_numpy())
    return dict(zip(seen.tolist(), np.split(values[order], starts[1:]), strict=True)), digits


def _by_round(number: Ids, rounds: RoundLog | None, name: str) -> Numbers | None:
    """What the log of rounds says of each of these rounds; None where it says nothing of it."""
    said = None if rounds is None else getattr(rounds, name)
    if rounds is None or said is None:
        return None
    order = np.argsort(rounds.number, kind="stable")
    at = np.searchsorted(rounds.number[order], number)
    known = at < order.size
    known[known] = rounds.number[order][at[known]] == number[known]
    if not known.all():
        missing = f"round {number[~known][0]}"
        raise CheckError("padding.round", "a round of the log of rounds, which has its unit", missing)
    return np.asarray(said[order][at])


def _enrolled(log: Enrolment, base: Path, told: list[Told]) -> Enrolled:
    columns = log.columns
    fields = [
        tables.text("enrolment.client", columns.client),
        *_time("enrolment.joined", columns.joined),
        *_time("enrolment.left", columns.left, blank=True),
        *_time("enrolment.last_active", columns.last_active, blank=True),
    ]
    rows = tables.read(log, base, "enrolment", fields)
    told.append(rows.told)
    every = rows.collect()
    frame = every.unique().sort("enrolment.client")
    names = frame["enrolment.client"].to_list()
    twice = next((one for one, other in itertools.pairwise(names) if one == other), None)
    if twice is not None:
        bound = "in one row, or in rows that say the same"
        raise CheckError(f"enrolment.client ({log.file}, column {columns.client})", bound, f"{twice!r} in several")
    at = _date(log.counted_on)
    joined = frame["enrolment.joined"].to_numpy()
    left = _or(frame, "enrolment.left", math.inf)
    counted = (joined <= at) & (left > at)
    if log.active_within_days is not None:
        active = _or(frame, "enrolment.last_active", -math.inf)  # nobody knows of any activity
        counted &= active >= at - log.active_within_days * DAY
    return Enrolled(names, joined, left, counted, every.height - frame.height, at)


def _or(frame: pl.DataFrame, name: str, blank: float) -> Numbers:
    if name not in frame.columns:
        return np.full(frame.height, blank)
    return np.asarray(frame[name].fill_null(blank).to_numpy(), dtype=np.float64)


def _date(written: str) -> float:
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        raise CheckError("enrolment.counted_on", "a date such as 2026-01-31", repr(written)) from None
    if not EARLIEST_YEAR <= found.year <= LATEST_YEAR:
        raise CheckError("enrolment.counted_on", f"in the years {tables.YEARS}", repr(written))
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


@dataclass(frozen=True, slots=True, eq=False)
class _Reader:
    """Reads who took part, in a few passes over the file."""

    log: ParticipationLog
    base: Path
    told: list[Told]
    section: str = field(default="participation")

    def lists(self, population: int, enrolled: Enrolled | None, rounds: RoundLog | None) -> Lists:
        columns = self.log.columns
        fields = [
            _round(self.section, columns.round, self.log.first_round),
            tables.text("participation.client", columns.client),
            *(_norms("participation.norm", columns.norm) if columns.norm else []),
            *_time("participation.time", columns.time),
        ]
        rows = tables.read(self.log, self.base, self.section, fields)
        self.told.append(rows.told)
        by_round = self._by_round(rows)
        number, clients, names, times = self._coded(rows)
        late = None if times is None else self._late(number, times, by_round, rounds)
        span = None if times is None else (float(times.min()), float(times.max()))
        del times
        places, outside = _places(names, population, enrolled)
        width = max(population, int(places.max(initial=0)) + 1)
        keys = places[clients]
        del clients
        keys += number.astype(np.int64) * width
        keys.sort()
        twice = keys[1:][keys[1:] == keys[:-1]]
        if twice.size:
            keys = np.concatenate([keys[:1], keys[1:][keys[1:] != keys[:-1]]])
        last = int(keys[-1] // width)
        return Lists(
            rounds=last,
            clients=len(names),
            outside=outside,
            withdrawn=self._withdrawn(rows, enrolled),
            repeated=int(twice.size),
            copies=self._copies(rows, twice, names, places, width) if twice.size else 0,
            late=late,
            largest_norm=self._largest(by_round, last) if columns.norm else None,
            members=keys,
            width=width,
            span=span,
        )

    def _by_round(self, rows: Rows) -> pl.DataFrame:
        """A row for each round: the largest norm, the first and the last time."""
        pl, wanted = tables.polars(), []
        norms = [name for name in rows.frame.collect_schema().names() if name.startswith("participation.norm")]
        if norms:
            joint = sum(pl.col(name) ** 2 for name in norms).sqrt() if len(norms) > 1 else pl.col(norms[0])
            wanted.append(joint.max().alias("norm"))
        if self.log.columns.time:
            wanted.append(pl.col("participation.time").min().alias("first"))
        return rows.collect(rows.frame.group_by("participation.round").agg(*wanted)).sort("participation.round")

    def _coded(self, rows: Rows) -> tuple[Ids, Ids, list[str], Numbers | None]:
        """Each row's round, from 1, its client's place in the list of names, which is ascending, and its time."""
        pl = tables.polars()
        number = (pl.col("participation.round") + (1 - self.log.first_round)).cast(pl.Int32)
        time = ["participation.time"] if self.log.columns.time else []
        found = rows.collect(rows.frame.select(number, pl.col("participation.client").cast(pl.Categorical), *time))
        codes, clients = found["participation.client"].to_physical().to_numpy(), found["participation.client"].unique()
        names, known = clients.cast(pl.String).to_list(), clients.to_physical().to_numpy()
        order = sorted(range(len(names)), key=names.__getitem__)
        places = np.zeros(int(known.max()) + 1, dtype=np.int64)
        places[known[order]] = np.arange(len(order))
        times = found["participation.time"].to_numpy() if time else None
        return found["participation.round"].to_numpy(), places[codes], [names[i] for i in order], times

    def _copies(self, rows: Rows, twice: Ids, names: list[str], places: Ids, width: int) -> int:
        """Of the rows of clients that are in a round more than once, those that say just the same as another."""
        pl = tables.polars()
        name_at = dict(zip(places.tolist(), names, strict=True))
        pairs = np.unique(twice)
        wanted = pl.LazyFrame(
            {
                "participation.round": (pairs // width - (1 - self.log.first_round)).astype(np.float64),
                "participation.client": [name_at[int(place)] for place in pairs % width],
            }
        )
        there = rows.collect(rows.frame.join(wanted, on=["participation.round", "participation.client"], how="semi"))
        return there.height - there.unique().height

    def _late(self, number: Ids, times: Numbers, by_round: pl.DataFrame, rounds: RoundLog | None) -> int:
        """Rows with a time after their round ended, or before the one before it did.

        Without a log of when rounds ended, rows that are later than the first of a later round.
        """
        last = int(number.max())
        begins, ends = np.full(last + 1, -math.inf), np.full(last + 1, math.inf)
        if rounds is not None and rounds.ended is not None:
            order = np.argsort(rounds.number, kind="stable")
            known, ended = rounds.number[order], rounds.ended[order]
            here = known <= last
            ends[known[here]] = ended[here]
            before = np.searchsorted(known, np.arange(last + 1)) - 1  # the last round before
            begins[before >= 0] = ended[before[before >= 0]]
        else:
            first = np.full(last + 1, math.inf)
            first[_whole(by_round, "participation.round") + (1 - self.log.first_round)] = by_round["first"].to_numpy()
            ends[:-1] = np.minimum.accumulate(first[::-1])[::-1][1:]
        late = 0
        for start in range(0, number.size, PIECE):
            of, at = number[start : start + PIECE], times[start : start + PIECE]
            late += int(((at > ends[of]) | (at < begins[of])).sum())
        return late

    def _largest(self, by_round: pl.DataFrame, last: int) -> Numbers:
        largest = np.full(last, math.nan)
        largest[_whole(by_round, "participation.round") - self.log.first_round] = by_round["norm"].to_numpy()
        return largest

    def _withdrawn(self, rows: Rows, enrolled: Enrolled | None) -> int:
        """How many took part before they had joined or after they had left, where rows have a time."""
        if enrolled is None or not self.log.columns.time:
            return 0
        pl = tables.polars()
        time = pl.col("participation.time")
        seen = rows.frame.group_by("participation.client").agg(time.min().alias("first"), time.max().alias("last"))
        known = pl.LazyFrame({"participation.client": enrolled.names, "joined": enrolled.joined, "left": enrolled.left})
        out = (pl.col("first") < pl.col("joined")) | (pl.col("last") > pl.col("left"))
        return int(rows.collect(seen.join(known, on="participation.client").select(out.sum())).item())


def _places(names: list[str], population: int, enrolled: Enrolled | None) -> tuple[Ids, int]:
    """Each client's place among N, and how many are on no list of those who could take part.

    Whole numbers from 0 or from 1 are places, and so is the order of an enrolment list; otherwise places are drawn
    under a public seed: who never took part has no name, and tests by place must not take the others for all.
    """
    if enrolled is not None:
        place = {name: i for i, name in enumerate(enrolled.names)}
        outside = sum(name not in place or not enrolled.counted[place[name]] for name in names)
        if enrolled.population == len(place) == population and not outside:
            return np.array([place[name] for name in names], dtype=np.int64), 0
        return _drawn(names, population), outside
    numbers = _numbers(names)
    if numbers is not None:
        low, high = int(numbers.min()), int(numbers.max())
        if low >= 0 and high < population:
            return numbers, 0
        if low >= 1 and high == population:
            return numbers - 1, 0
    return _drawn(names, population), 0


def _drawn(names: list[str], population: int) -> Ids:
    """Different places at random, the same for everybody."""
    among = max(population, len(names))
    return np.random.default_rng(population).choice(among, len(names), replace=False).astype(np.int64)


def _numbers(names: list[str]) -> Ids | None:
    """Names that are whole numbers in their one spelling; None where one is not."""
    if not all(name.isascii() and name.isdigit() and len(name) <= 15 for name in names):
        return None
    numbers = np.array(names, dtype=np.int64)
    return numbers if all(str(number) == name for number, name in zip(numbers.tolist(), names, strict=True)) else None
