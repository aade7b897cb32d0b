"""Read the round log, the padding in the unit of the noise on the sum, and the enrolled clients."""

from __future__ import annotations

import itertools
import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from epsilog.terms import CheckError
from epsilog.verification.columns import Enrollment, LogUnits, ReadSummary, Rounds
from epsilog.verification.logs import tables
from epsilog.verification.logs.mapping import CLIP_NORMS, EnrollmentLog, NoiseColumn, PaddingLog, RoundsLog
from epsilog.verification.logs.tables import (
    EARLIEST_YEAR,
    LATEST_YEAR,
    compute_joint_norm,
    make_norm_fields,
    make_round_field,
    make_time_field,
    read_integers,
)
from epsilog.verification.reuse import FULL, count_significant_digits
from epsilog.verification.sampler_tests import Ids, Numbers

if TYPE_CHECKING:
    import polars as pl


def read_rounds(
    log: RoundsLog, base: Path, units: LogUnits, summaries: list[ReadSummary]
) -> tuple[Rounds, dict[int, Numbers] | None, int]:
    """Return one row per round, the padding in its cells, and the padding's number of significant digits."""
    columns, name = log.columns, "rounds"
    fields = [make_round_field(name, columns.round, log.first_round)]
    fields += [tables.make_integer_column("rounds.cohort", columns.cohort, 0)] if columns.cohort else []
    fields += make_norm_fields("rounds.clip_norm", columns.clip_norm) if columns.clip_norm else []
    fields += [tables.make_non_negative_column("rounds.noise", columns.noise.column)] if columns.noise else []
    fields += [tables.make_positive_column("rounds.divisor", columns.divisor)] if columns.divisor else []
    fields += [tables.make_integer_column("rounds.attempts", columns.attempts, 1)] if columns.attempts else []
    fields += [tables.make_text_column("rounds.padding", columns.padding.column)] if columns.padding else []
    fields += make_time_field("rounds.ended", columns.ended)
    rows = tables.open_log_file(log, base, name, fields)
    summaries.append(rows.summary)
    every = rows.collect()
    frame = every.unique(maintain_order=True)
    number = read_integers(frame, "rounds.round") + (1 - log.first_round)
    clip_norm = compute_joint_norm(frame, "rounds.clip_norm") if columns.clip_norm else None
    divisor = frame["rounds.divisor"].to_numpy() if columns.divisor else None
    found = Rounds(
        number=number,
        cohort=read_integers(frame, "rounds.cohort") if columns.cohort else None,
        clip_norm=clip_norm,
        divisor=divisor,
        attempts=read_integers(frame, "rounds.attempts") if columns.attempts else None,
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
    return found, padding, count_significant_digits(np.concatenate([np.zeros(0), *cells]))


def _unit(
    name: str, column: NoiseColumn, units: LogUnits, clip_norm: Numbers | None, divisor: Numbers | None
) -> Numbers | float:
    """Return the factor from logged noise to noise on the sum, in the unit of the sum."""
    unit: Numbers | float = 1.0
    if column.unit == CLIP_NORMS:
        unit = units.clip_norm if clip_norm is None else clip_norm
    if column.on == "mean":
        by = units.divisor if divisor is None else divisor
        if by is None:
            raise CheckError(f"{name}.on", "sum, unless a column or the claim has a divisor", "'mean'")
        unit = unit * by
    return unit


def _values(written: str, place: int, column: str) -> Numbers:
    """Parse a cell of several numbers: a JSON list, or numbers separated by blanks."""
    try:
        parsed = json.loads(written) if written.startswith("[") else [float(word) for word in written.split()]
        values = np.array(parsed, dtype=np.float64)
    except (ValueError, TypeError):
        values = np.array([math.nan])
    if values.ndim != 1 or not np.isfinite(values).all():
        bound = "a list of finite numbers, such as [0.1, -0.2]"
        raise CheckError(f"rounds.padding (column {column})", bound, f"{written[:60]!r} in row {place + 1}")
    return values


def read_padding(
    log: PaddingLog, base: Path, units: LogUnits, rounds: Rounds | None, summaries: list[ReadSummary]
) -> tuple[dict[int, Numbers], int, int]:
    """Return padding by round, its number of significant digits, and the number of repeated rows.

    Rounded values of one round may be equal by chance, so only values in full count as repeated.
    """
    value = log.columns.value
    fields = [
        make_round_field("padding", log.columns.round, log.first_round),
        tables.make_finite_column("padding.value", value.column),
    ]
    rows = tables.open_log_file(log, base, "padding", fields)
    summaries.append(rows.summary)
    frame = rows.collect()
    number = read_integers(frame, "padding.round") + (1 - log.first_round)
    clips = _by_round(number, rounds, "clip_norm") if value.unit == CLIP_NORMS else None
    divisors = _by_round(number, rounds, "divisor") if value.on == "mean" else None
    values = frame["padding.value"].to_numpy() * _unit("padding.columns.value", value, units, clips, divisors)
    order = np.argsort(number, kind="stable")
    seen, starts = np.unique(number[order], return_index=True)
    digits = count_significant_digits(frame["padding.value"].to_numpy())
    copies = frame.height - frame.unique().height if digits >= FULL else 0
    return dict(zip(seen.tolist(), np.split(values[order], starts[1:]), strict=True)), digits, copies


def _by_round(number: Ids, rounds: Rounds | None, name: str) -> Numbers | None:
    """Return a column of the round log for these rounds; None if it has no such column."""
    if rounds is None or (column := getattr(rounds, name)) is None:
        return None
    order = np.argsort(rounds.number, kind="stable")
    at = np.searchsorted(rounds.number[order], number)
    known = at < order.size
    known[known] = rounds.number[order][at[known]] == number[known]
    if not known.all():
        missing = f"round {number[~known][0]}"
        raise CheckError("padding.round", "in the round log, which has its unit", missing)
    return np.asarray(column[order][at])


DAY = 86_400.0


def read_enrollment(log: EnrollmentLog, base: Path, summaries: list[ReadSummary]) -> Enrollment:
    """Read the enrollment list, and append to ``summaries``."""
    columns = log.columns
    fields = [
        tables.make_text_column("enrollment.client", columns.client),
        *make_time_field("enrollment.joined", columns.joined),
        *make_time_field("enrollment.left", columns.left, blank=True),
        *make_time_field("enrollment.last_active", columns.last_active, blank=True),
    ]
    rows = tables.open_log_file(log, base, "enrollment", fields)
    summaries.append(rows.summary)
    every = rows.collect()
    frame = every.unique().sort("enrollment.client")
    names = frame["enrollment.client"].to_list()
    twice = next((one for one, other in itertools.pairwise(names) if one == other), None)
    if twice is not None:
        bound = "in one row, or in identical rows"
        value = f"{twice!r} in several"
        raise CheckError(f"enrollment.client ({log.file}, column {columns.client})", bound, value)
    at = _date(log.counted_on)
    joined = frame["enrollment.joined"].to_numpy()
    left = _or(frame, "enrollment.left", math.inf)
    counted = (joined <= at) & (left > at)
    if log.active_within_days is not None:
        active = _or(frame, "enrollment.last_active", -math.inf)  # a blank means no known activity
        counted &= active >= at - log.active_within_days * DAY
    return Enrollment(names, joined, left, counted, every.height - frame.height, at)


def _or(frame: pl.DataFrame, name: str, blank: float) -> Numbers:
    if name not in frame.columns:
        return np.full(frame.height, blank)
    return np.asarray(frame[name].fill_null(blank).to_numpy(), dtype=np.float64)


def _date(written: str) -> float:
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        raise CheckError("enrollment.counted_on", "a date such as 2026-01-31", repr(written)) from None
    if not EARLIEST_YEAR <= found.year <= LATEST_YEAR:
        raise CheckError("enrollment.counted_on", f"in the years {tables.YEARS}", repr(written))
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
