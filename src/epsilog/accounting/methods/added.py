"""Parts added one by one, each with its share of delta (Dwork & Roth 2014, Theorem 3.16): for the smallest deltas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from epsilog.mechanisms.composition import Composition
from epsilog.numerics.questions import Bounds, EpsilonAt, Question
from epsilog.numerics.rounding import rounded, rounded_sum

_SMALL = 1e-250  # what tails of many rounds are cut by begins to count

Upper = Callable[[Composition, Question, float], float]  # bounds an answer from above by the other methods


def bounds(composition: Composition, question: Question, gap: float, *, upper: Upper) -> Bounds | None:
    """Bounds epsilon by those of each kind of part, or of each round of one kind; None for any delta of use."""
    if not isinstance(question, EpsilonAt) or not 0 < question.delta < _SMALL or composition.rounds < 2:
        return None
    kinds = list(composition.bag.items())
    alone = [(Composition({part: 1}, composition.relation), count) for part, count in kinds]
    together = (
        [(Composition({part: count}, composition.relation), 1) for part, count in kinds] if len(kinds) > 1 else alone
    )

    def ask(one: Composition, at: EpsilonAt) -> float:
        return upper(one, at, gap)

    return Bounds(0.0, min(added(parts, question.delta, ask) for parts in (alone, together)))


def added(
    parts: Sequence[tuple[Composition, int]], delta: float, upper: Callable[[Composition, EpsilonAt], float]
) -> float:
    """The sum of the epsilons of so many of each part, all at the same share of delta, rounded down."""
    share = rounded(Fraction(delta) / sum(count for _, count in parts), up=False)
    return rounded_sum((upper(one, EpsilonAt(share)), count) for one, count in parts)
