"""The sensitivity of counts, bounded sums and means: how far one privacy unit can move an answer."""

from __future__ import annotations

from dataclasses import dataclass

from epsilog.terms import CheckError, NeighboringRelation, check
from epsilog.terms.messages import Message

QUERIES = ("count", "sum", "mean")


@dataclass(frozen=True, slots=True)
class QuerySensitivity:
    """The sensitivity of a query.

    Attributes:
        value: the sensitivity, in the answer's unit.
        reason: where it comes from, with what must be true of the data.
    """

    value: float
    reason: Message


def compute_query_sensitivity(
    query: str,
    *,
    contributions: int = 1,
    low: float = 0.0,
    high: float = 1.0,
    size: int | None = None,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
) -> QuerySensitivity:
    """Return the sensitivity of one answer to one privacy unit.

    Args:
        query: "count", "sum" or "mean".
        contributions: the most rows one unit may have; rows beyond it are dropped before the query.
        low: values are clipped to at least this (sum and mean).
        high: values are clipped to at most this, above ``low``.
        size: the declared, public divisor of a mean; it must not depend on the data.
        relation: which data sets are neighbors.

    Returns:
        The sensitivity under that relation, to be used as it is: no factor is left to apply.

    >>> compute_query_sensitivity("sum", low=0, high=100).value, compute_query_sensitivity("mean", low=0, high=100,
    ... size=1000).value
    (100.0, 0.1)
    """
    query = check.one_of(QUERIES)(query=query)
    contributions = check.integer(1)(contributions=contributions)
    relation = check.enum_member(NeighboringRelation)(relation=relation)
    if query == "count":
        return QuerySensitivity(float(contributions), Message.of("sensitivity/count", rows=contributions))
    low = check.finite()(low=low)
    high = check.finite()(high=high)
    if not low < high:
        raise CheckError("high", f"above low = {low!r}", repr(high))
    if relation is NeighboringRelation.REPLACE_ONE:
        ends = {"low": min(low, 0.0), "high": max(high, 0.0)}
        move = contributions * (ends["high"] - ends["low"])
        how = Message.of("sensitivity/sum-replaced", rows=contributions, **ends)
    else:
        largest = max(abs(low), abs(high))
        move, how = contributions * largest, Message.of("sensitivity/sum", rows=contributions, size=largest)
    if query == "sum":
        return QuerySensitivity(move, how)
    if size is None:
        raise CheckError("size", "a declared public divisor for a mean", "None")
    size = check.integer(1)(size=size)
    return QuerySensitivity(move / size, Message.of("sensitivity/mean", sum=how, size=size))
