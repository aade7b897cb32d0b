"""The sensitivity of counts, bounded sums and means: how far one privacy unit can move an answer."""

from __future__ import annotations

from dataclasses import dataclass

from epsilog.terms import CheckError, NeighboringRelation, check

QUERIES = ("count", "sum", "mean")


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far one unit can move an answer.

    Attributes:
        value: the sensitivity, in the answer's unit.
        reason: where it comes from, in words, with what must be true of the data.
    """

    value: float
    reason: str


def sensitivity(
    query: str,
    *,
    contributions: int = 1,
    low: float = 0.0,
    high: float = 1.0,
    size: int | None = None,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
) -> Sensitivity:
    """The sensitivity of one answer to one privacy unit.

    Args:
        query: "count", "sum" or "mean".
        contributions: the most rows one unit may have; rows beyond it are dropped before the query.
        low: values are clipped to at least this (sum and mean).
        high: values are clipped to at most this, above ``low``.
        size: the declared, public divisor of a mean; it must not depend on the data.
        relation: which data sets are neighbours.

    Returns:
        The sensitivity under that relation, to be used as it is: no factor is left to apply.

    >>> sensitivity("sum", low=0, high=100).value, sensitivity("mean", low=0, high=100, size=1000).value
    (100.0, 0.1)
    """
    query = check.one_of(QUERIES)(query=query)
    contributions = check.integer(1)(contributions=contributions)
    relation = check.member(NeighboringRelation)(relation=relation)
    rows = "one row" if contributions == 1 else f"up to {contributions} rows"
    if query == "count":
        return Sensitivity(float(contributions), f"one unit has {rows}, so a count moves by at most {contributions}")
    low = check.finite()(low=low)
    high = check.finite()(high=high)
    if not low < high:
        raise CheckError("high", f"above low = {low!r}", repr(high))
    if relation is NeighboringRelation.REPLACE_ONE:
        move = contributions * (max(high, 0.0) - min(low, 0.0))
        how = f"replacing a unit with {rows} swings its sum between {_g(min(low, 0.0))} and {_g(max(high, 0.0))} a row"
    else:
        move = contributions * max(abs(low), abs(high))
        how = f"a unit has {rows}, each at most {_g(max(abs(low), abs(high)))} in size"
    if query == "sum":
        return Sensitivity(move, how)
    if size is None:
        raise CheckError("size", "a declared public divisor for a mean", "None")
    size = check.integer(1)(size=size)
    return Sensitivity(move / size, f"{how}; the sum is divided by the declared size {size}")


def _g(value: float) -> str:
    return f"{value:g}"
