"""Shuffled reports: above by what one report can lose at most, below by reports of a known kind.

docs/accounting/shuffling.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from epsilog.numerics.laws.base import Atoms, BaseLaw
from epsilog.numerics.laws.shuffled import attained, clones, responses
from epsilog.numerics.pairs import LONGEST, NEAREST, pure, same, within_reach
from epsilog.numerics.rounding import RATIO, down


class Reports(NamedTuple):
    """What is known of reports beyond their largest loss.

    Attributes:
        law: what is attained by all of them, shuffled; None out of reach.
        least: a loss that one of them attains.
        categories: how many answers there are.
    """

    law: Atoms | None = None
    least: float = 0.0
    categories: int = 2


def of_statement(epsilon: float, units: int) -> Reports:
    """Reports of a randomizer of three answers, or two, that satisfies the statement."""
    return Reports(attained(min(epsilon, LONGEST), units), epsilon) if epsilon > NEAREST else Reports()


def of_responses(flip: float, categories: int, units: int, *, largest: float) -> Reports:
    """Randomized responses, by their largest loss."""
    return Reports(responses(flip, categories, units), down(largest, 2 * RATIO), categories)


def shuffled(epsilon: float, units: int, reports: Reports) -> tuple[BaseLaw, BaseLaw]:
    """Reports of so many units that lose at most ``epsilon`` each."""
    if epsilon == 0:
        return same(pure(0.0, 0.0))
    above, _ = within_reach(lambda at: clones(at, units, categories=reports.categories), epsilon, (0.0, epsilon))
    if reports.law is None:
        return above, pure(0.0, 0.0)
    return above, replace(reports.law, stated=(reports.least, epsilon))
