"""Read the enrolled clients, and count N at a date."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from epsilog.terms import CheckError
from epsilog.verification.columns import Enrollment, ReadSummary
from epsilog.verification.logs import tables
from epsilog.verification.logs.fields import make_time_field
from epsilog.verification.logs.mapping import EnrollmentLog
from epsilog.verification.logs.tables import EARLIEST_YEAR, LATEST_YEAR
from epsilog.verification.sampler_tests import Numbers

if TYPE_CHECKING:
    import polars as pl

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
