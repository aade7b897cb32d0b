"""Stretches as people keep them: rows of a spreadsheet, a line a stretch, or a list of objects from TOML or JSON."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from epsilog.plan.changing import MOST_STRETCHES
from epsilog.plan.federated_plan import Schedule
from epsilog.plan.tables import At, Columns
from epsilog.terms import CheckError, check

STRETCHES = Columns(
    aliases={
        "population": ("population", "n", "units", "clients"),
        "cohort_size": ("cohort_size", "m", "cohort"),
        "rounds": ("rounds", "t"),
        "noise_multiplier": ("noise_multiplier", "sigma", "\u03c3", "z"),
        "noise_stddev": ("noise_stddev", "s"),
        "clip_norm": ("clip_norm", "c", "clip"),
        "sampling": ("sampling",),
    },
    plain=("population", "cohort_size", "rounds", "noise_multiplier"),
    whole=("population", "cohort_size", "rounds"),
    words=("sampling",),
    row="stretch",
    most=MOST_STRETCHES,
)


def read_stretches(text: str) -> tuple[Schedule, ...]:
    r"""Reads a table of stretches, pasted from a spreadsheet or out of a CSV file.

    Columns are N, m, T and sigma, or what a first line names, in any order. ``noise_stddev`` beside ``clip_norm`` is
    the noise in the sum's own unit.

    Args:
        text: its lines; blank ones, and those that begin with #, are passed over.

    Raises:
        CheckError: names the line and the column that is wrong.

    >>> [stretch.cohort_size for stretch in read_stretches("T, N, sigma, m\n50, 1000, 1.5, 10\n20, 1000, 1.2, 40")]
    [10, 40]
    >>> read_stretches("1000, 10, 50, 1.5\n1000, 4o, 20, 1.2")
    Traceback (most recent call last):
    epsilog.terms.errors.CheckError: line 2, column cohort_size must be a number, got '4o'
    """
    return tuple(_made(given, at) for given, at in STRETCHES.read(text))


def stretches_of(document: Any) -> tuple[Schedule, ...]:
    """Stretches from plain values: a list of objects, or an object that holds one under ``stretches``.

    Raises:
        CheckError: names the stretch and the field that is wrong.

    >>> stretches_of([{"population": 900, "cohort_size": 9, "rounds": 5, "noise_multiplier": 2.0}])[0].rounds
    5
    """
    return tuple(_made(given, at) for given, at in STRETCHES.listed(document, "stretches"))


def _made(given: dict[str, Any], at: At) -> Schedule:
    """One stretch; noise in the sum's own unit is divided by the clip norm, rounded down."""
    stddev = given.pop("noise_stddev", None)
    if stddev is not None and "noise_multiplier" in given:
        raise CheckError(at("noise_stddev"), "blank where noise_multiplier is given", f"{stddev}")
    needed = ("clip_norm",) if stddev is not None else ("noise_multiplier",)
    for name in ("population", "cohort_size", "rounds", *needed):
        if name not in given:
            raise CheckError(at(name), "given", "nothing")
    try:
        if stddev is not None:
            given["noise_multiplier"] = _below(stddev, given["clip_norm"])
        return Schedule(**given)
    except CheckError as error:
        raise CheckError(at(error.field), error.bound, error.value, error.verb) from error


def _below(stddev: float, clip: float) -> float:
    """Noise over clip norm, rounded down: less noise is never better than it is."""
    stddev, clip = check.at_least(0)(noise_stddev=stddev), check.positive()(clip_norm=clip)
    ratio = stddev / clip
    if math.isinf(ratio):
        raise CheckError("noise_stddev", "within range of the clip norm", f"{stddev}")
    return math.nextafter(ratio, 0.0) if Fraction(ratio) * Fraction(clip) > Fraction(stddev) else ratio
