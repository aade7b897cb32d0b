"""A run's logs, read, converted to one unit, and not believed."""

from __future__ import annotations

from pathlib import Path

from epsilog.verification.logs.enrollment import read_enrollment
from epsilog.verification.logs.lists import read_lists
from epsilog.verification.logs.log_data import LogData, LogUnits
from epsilog.verification.logs.mapping import LogMapping
from epsilog.verification.logs.rounds import read_padding, read_rounds
from epsilog.verification.logs.tables import ReadSummary


def read_logs(mapping: LogMapping, base: Path, units: LogUnits) -> LogData:
    """Reads every file that a mapping names; paths are relative to ``base``.

    Raises:
        CheckError: a value or a column that is not what the mapping says, by field, bound and value.
    """
    told: list[ReadSummary] = []
    enrolled = rounds = padding = lists = None
    digits, copies = 17, 0
    if mapping.enrolment is not None:
        enrolled = read_enrollment(mapping.enrolment, base, told)
    if mapping.rounds is not None:
        rounds, padding, digits = read_rounds(mapping.rounds, base, units, told)
    if mapping.padding is not None:
        padding, digits, copies = read_padding(mapping.padding, base, units, rounds, told)
    if mapping.participation is not None:
        lists = read_lists(mapping.participation, base, told, enrolled, rounds, population=units.population)
    return LogData(rounds, lists, padding, enrolled, tuple(told), digits, copies)
