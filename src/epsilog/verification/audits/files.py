"""Read audit protocols (TOML) and canary scores (CSV)."""

from __future__ import annotations

import csv
import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import CheckError, RecordError
from epsilog.verification.audits.canaries import AuditProtocol, Guesses
from epsilog.verification.files import read_file

FIELDS = ("canaries", "delta", "confidence", "method", "guesses")
COINS = {"1": True, "0": False, "true": True, "false": False}


def read_protocol(path: Path) -> AuditProtocol:
    """Read a protocol from TOML with the keys ``FIELDS``; only ``canaries`` and ``delta`` are required.

    Raises:
        RecordError: the file cannot be read or is not a protocol.
    """
    try:
        document: dict[str, Any] = tomllib.loads(read_file(path).decode("utf-8"))
        unknown = sorted(set(document) - set(FIELDS))
        if unknown:
            raise CheckError("protocol", f"of the fields {', '.join(FIELDS)}", ", ".join(unknown))
        guesses = document.pop("guesses", [])
        if not all(isinstance(one, list) and len(one) == 2 for one in guesses):
            raise CheckError("guesses", "pairs [inside, outside]", repr(guesses))
        return AuditProtocol(**document, guesses=tuple(Guesses(*one) for one in guesses))
    except (ValueError, TypeError, RecursionError) as error:
        raise RecordError(f"{path}: {error}") from error


def read_scores(path: Path) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Read scores and coins from a CSV file with the columns ``score`` and ``included``, one canary per line.

    Raises:
        RecordError: a missing column, or an invalid line, with its number.
    """
    try:
        rows = csv.DictReader(read_file(path).decode("utf-8-sig").splitlines())
        missing = [name for name in ("score", "included") if name not in (rows.fieldnames or ())]
        if len(set(rows.fieldnames or ())) < len(rows.fieldnames or ()):
            raise CheckError("columns", "each there once", ", ".join(rows.fieldnames or ()))
        if missing:
            raise CheckError("columns", "score and included", f"without {', '.join(missing)}")
        found = [_line(number, row) for number, row in enumerate(rows, start=2)]
    except (ValueError, csv.Error) as error:
        raise RecordError(f"{path}: {error}") from error
    scores, coins = zip(*found, strict=True) if found else ((), ())
    return np.array(scores, dtype=np.float64), np.array(coins, dtype=bool)


def _line(number: int, row: dict[str, str | None]) -> tuple[float, bool]:
    score, coin = (str(row[name] or "").strip() for name in ("score", "included"))
    try:
        value = float(score)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise CheckError(f"line {number}, score", "a number", repr(score))
    if coin.lower() not in COINS:
        raise CheckError(f"line {number}, included", "1, 0, true or false", repr(coin))
    return value, COINS[coin.lower()]
