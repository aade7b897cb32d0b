"""Columns that several logs share: round numbers, norms by group, and times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from epsilog.verification.logs import tables
from epsilog.verification.logs.mapping import Norms, TimeColumn
from epsilog.verification.logs.tables import MOST_ROUNDS, LogField
from epsilog.verification.sampler_tests import Ids, Numbers

if TYPE_CHECKING:
    import polars as pl


def make_round_field(section: str, column: str, first: int) -> LogField:
    """Return the field of round numbers, which begin at ``first``."""
    return tables.make_integer_column(f"{section}.round", column, first, MOST_ROUNDS)


def make_norm_fields(name: str, columns: Norms) -> list[LogField]:
    """Return the field of norms, or one for each parameter group."""
    groups = {"": columns} if isinstance(columns, str) else {f".{group}": column for group, column in columns.items()}
    return [tables.make_non_negative_column(f"{name}{group}", column) for group, column in groups.items()]


def make_time_field(name: str, column: TimeColumn | None, *, blank: bool = False) -> list[LogField]:
    """Return the field of times, if they are logged."""
    return [] if column is None else [tables.make_time_column(name, column.column, column.unit, blank=blank)]


def compute_joint_norm(frame: pl.DataFrame, name: str) -> Numbers:
    """Return the joint norm of all groups; the clip norm limits this norm, not each group's."""
    columns = [frame[column].to_numpy() for column in frame.columns if column == name or column.startswith(f"{name}.")]
    return np.asarray(columns[0] if len(columns) == 1 else np.sqrt(np.sum(np.square(columns), axis=0)))


def read_integers(frame: pl.DataFrame, name: str) -> Ids:
    """Return a column of integers."""
    return np.asarray(frame[name].to_numpy().astype(np.int64))
