"""The columns that several logs have: a round's number, norms by group, a time."""

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
    """The column of a round's number, from the log's own first."""
    return tables.make_integer_column(f"{section}.round", column, first, MOST_ROUNDS)


def make_norm_fields(name: str, columns: Norms) -> list[LogField]:
    """A column of norms, or one for each group of parameters."""
    groups = {"": columns} if isinstance(columns, str) else {f".{group}": column for group, column in columns.items()}
    return [tables.make_non_negative_column(f"{name}{group}", column) for group, column in groups.items()]


def make_time_field(name: str, column: TimeColumn | None, *, blank: bool = False) -> list[LogField]:
    """The column of a time, where one is logged."""
    return [] if column is None else [tables.make_time_column(name, column.column, column.unit, blank=blank)]


def compute_joint_norm(frame: pl.DataFrame, name: str) -> Numbers:
    """The norm of all groups together; every group's own is no proof for it."""
    columns = [frame[column].to_numpy() for column in frame.columns if column == name or column.startswith(f"{name}.")]
    return np.asarray(columns[0] if len(columns) == 1 else np.sqrt(np.sum(np.square(columns), axis=0)))


def read_integers(frame: pl.DataFrame, name: str) -> Ids:
    """A column of whole numbers, which was read as such."""
    return np.asarray(frame[name].to_numpy().astype(np.int64))
