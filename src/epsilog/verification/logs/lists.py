"""Read participation lists in chunks; only one integer per client and round stays in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from epsilog.terms import check
from epsilog.verification.columns import Enrollment, Participation, ReadSummary, Rounds
from epsilog.verification.logs import tables
from epsilog.verification.logs.mapping import ParticipationLog
from epsilog.verification.logs.tables import (
    CheckedRows,
    make_norm_fields,
    make_round_field,
    make_time_field,
    read_integers,
)
from epsilog.verification.sampler_tests import Ids, Numbers

if TYPE_CHECKING:
    import polars as pl

PIECE = 1 << 20  # rows per chunk
MOST_CLIENTS = 100_000_000  # tests store a number for each client


def read_lists(
    log: ParticipationLog,
    base: Path,
    summaries: list[ReadSummary],
    enrolled: Enrollment | None,
    rounds: Rounds | None,
    *,
    population: int,
) -> Participation:
    """Read the participants of each round, and append to ``summaries``."""
    population = check.integer(1, MOST_CLIENTS)(population=population)
    return _Reader(log, base, summaries).lists(population, enrolled, rounds)


@dataclass(frozen=True, slots=True, eq=False)
class _Reader:
    """Reader of a participation log, in a few passes over the file."""

    log: ParticipationLog
    base: Path
    summaries: list[ReadSummary]
    section: str = field(default="participation")

    def lists(self, population: int, enrolled: Enrollment | None, rounds: Rounds | None) -> Participation:
        columns = self.log.columns
        fields = [
            make_round_field(self.section, columns.round, self.log.first_round),
            tables.make_text_column("participation.client", columns.client),
            *(make_norm_fields("participation.norm", columns.norm) if columns.norm else []),
            *make_time_field("participation.time", columns.time),
        ]
        rows = tables.open_log_file(self.log, self.base, self.section, fields)
        self.summaries.append(rows.summary)
        by_round = self._by_round(rows)
        number, clients, names, times = self._encode_rows(rows)
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
        return Participation(
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

    def _by_round(self, rows: CheckedRows) -> pl.DataFrame:
        """Return one row per round: the largest norm and the first time."""
        pl, wanted = tables.import_polars(), []
        norms = [name for name in rows.frame.collect_schema().names() if name.startswith("participation.norm")]
        if norms:
            joint = sum(pl.col(name) ** 2 for name in norms).sqrt() if len(norms) > 1 else pl.col(norms[0])
            wanted.append(joint.max().alias("norm"))
        if self.log.columns.time:
            wanted.append(pl.col("participation.time").min().alias("first"))
        return rows.collect(rows.frame.group_by("participation.round").agg(*wanted)).sort("participation.round")

    def _encode_rows(self, rows: CheckedRows) -> tuple[Ids, Ids, list[str], Numbers | None]:
        """Return each row's round (from 1), its client's index in the sorted list of names, that list, and times."""
        pl = tables.import_polars()
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

    def _copies(self, rows: CheckedRows, twice: Ids, names: list[str], places: Ids, width: int) -> int:
        """Count the identical ones among repeated rows of a client in a round."""
        pl = tables.import_polars()
        name_at = dict(zip(places.tolist(), names, strict=True))
        pairs = np.unique(twice)
        wanted = pl.LazyFrame(
            {
                "participation.round": (pairs // width - (1 - self.log.first_round)).astype(np.float64),
                "participation.client": [name_at[int(place)] for place in pairs % width],
            }
        )
        found = rows.collect(rows.frame.join(wanted, on=["participation.round", "participation.client"], how="semi"))
        return found.height - found.unique().height

    def _late(self, number: Ids, times: Numbers, by_round: pl.DataFrame, rounds: Rounds | None) -> int:
        """Count rows with a time after their round ended, or before the previous round did.

        Without end times, count rows later than the first row of a later round.
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
            first[read_integers(by_round, "participation.round") + (1 - self.log.first_round)] = by_round[
                "first"
            ].to_numpy()
            ends[:-1] = np.minimum.accumulate(first[::-1])[::-1][1:]
        late = 0
        for start in range(0, number.size, PIECE):
            of, at = number[start : start + PIECE], times[start : start + PIECE]
            late += int(((at > ends[of]) | (at < begins[of])).sum())
        return late

    def _largest(self, by_round: pl.DataFrame, last: int) -> Numbers:
        largest = np.full(last, math.nan)
        largest[read_integers(by_round, "participation.round") - self.log.first_round] = by_round["norm"].to_numpy()
        return largest

    def _withdrawn(self, rows: CheckedRows, enrolled: Enrollment | None) -> int:
        """Count clients that took part before joining or after leaving, if rows have times."""
        if enrolled is None or not self.log.columns.time:
            return 0
        pl = tables.import_polars()
        time = pl.col("participation.time")
        seen = rows.frame.group_by("participation.client").agg(time.min().alias("first"), time.max().alias("last"))
        known = pl.LazyFrame({"participation.client": enrolled.names, "joined": enrolled.joined, "left": enrolled.left})
        out = (pl.col("first") < pl.col("joined")) | (pl.col("last") > pl.col("left"))
        return int(rows.collect(seen.join(known, on="participation.client").select(out.sum())).item())


def _places(names: list[str], population: int, enrolled: Enrollment | None) -> tuple[Ids, int]:
    """Return each client's index among N, and the number of clients that are not enrolled.

    Integer names from 0 or 1, or the order of an enrollment list, give the indices. Otherwise a public seed draws them:
    clients that never took part have no name, and tests by index must not treat the others as all clients.
    """
    if enrolled is not None:
        place = {name: i for i, name in enumerate(enrolled.names)}
        outside = sum(name not in place or not enrolled.counted[place[name]] for name in names)
        if enrolled.population == len(place) == population and not outside:
            return np.array([place[name] for name in names], dtype=np.int64), 0
        return _draw_places(names, population), outside
    numbers = _numbers(names)
    if numbers is not None:
        low, high = int(numbers.min()), int(numbers.max())
        if low >= 0 and high < population:
            return numbers, 0
        if low >= 1 and high == population:
            return numbers - 1, 0
    return _draw_places(names, population), 0


def _draw_places(names: list[str], population: int) -> Ids:
    """Return distinct random indices under a public seed."""
    among = max(population, len(names))
    return np.random.default_rng(population).choice(among, len(names), replace=False).astype(np.int64)


def _numbers(names: list[str]) -> Ids | None:
    """Return names as integers; None unless all are canonical decimal integers."""
    if not all(name.isascii() and name.isdigit() and len(name) <= 15 for name in names):
        return None
    numbers = np.array(names, dtype=np.int64)
    return numbers if all(str(number) == name for number, name in zip(numbers.tolist(), names, strict=True)) else None
