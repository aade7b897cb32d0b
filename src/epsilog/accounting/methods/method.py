"""One way to bound an answer, and how several are asked in turn.

Each is asked while what the others proved is too wide, and the interval is what all of them proved together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from epsilog.mechanisms.composition import Composition
from epsilog.numerics.questions import FAINT, Bounds, Question, trivial_bounds
from epsilog.terms import UnsupportedMechanismError
from epsilog.terms.messages import Message

Bound = Callable[[Composition, Question, float], Bounds | None]

Answer = tuple[Bounds, Message]
"""Bounds, and by which method."""


@dataclass(frozen=True, eq=False)
class Method:
    """One way to bound an answer.

    Attributes:
        name: its message in the catalogue, which gives its source.
        bound: bounds the answer about a release, aiming for a relative width; None where it does not apply.
        above: bounds it from above only, if that is cheaper; at least the bound of ``bound``.
        enough: a relative width at which no further method is asked once this one has answered.
        last: whether no further method is asked once this one has answered.
        below_only: whether it bounds from below only, so that a refusal by the others is final.
        helps: whether it may move an interval that is narrow enough already; if not given, it is not asked then.
    """

    name: Message
    bound: Bound
    above: Bound | None = None
    enough: float = 0.0
    last: bool = False
    below_only: bool = False
    helps: Callable[[Composition, Question, Bounds], bool] | None = None


def run_methods(
    methods: Sequence[Method],
    composition: Composition,
    question: Question,
    relative_width: float,
    *,
    above: bool = False,
) -> Answer:
    """Ask the methods in turn until the interval is narrow enough, and name those that moved its sides last.

    A method that refuses, or that leaves double range, proves nothing, and the next one is asked.

    Args:
        methods: in the order in which they are asked.
        composition: what is released.
        question: an epsilon at a delta, or a delta at an epsilon.
        relative_width: the relative width at which no more are asked.
        above: whether the upper bound alone is wanted, which is then no better than the whole interval's, and cheap.

    Raises:
        ArithmeticError: two proven bounds contradict each other.
        UnsupportedMechanismError: no method has a proof under this relation; the first refusal.
    """
    bounds, upper_by, lower_by, wanted = trivial_bounds(question), None, None, relative_width
    refusal, answered = None, False
    for method in methods:
        if bounds.within(wanted, least=FAINT) and not (method.helps and method.helps(composition, question, bounds)):
            continue
        bound = (above and method.above) or method.bound
        try:
            found = bound(composition, question, relative_width)
        except UnsupportedMechanismError as problem:
            refusal = refusal or problem
            continue
        except (OverflowError, ZeroDivisionError):
            continue
        if found is None:
            continue
        before, bounds, answered = bounds, bounds.intersect(found), answered or not method.below_only
        upper_by = method.name if upper_by is None or bounds.upper < before.upper else upper_by
        lower_by = method.name if bounds.lower > before.lower else lower_by
        known = math.isfinite(bounds.upper)
        if method.last and known:
            break
        wanted = math.inf if bound is method.above and known else max(wanted, method.enough)
    if refusal is not None and not answered:
        raise refusal
    return bounds, _name_methods(upper_by, lower_by)


def _name_methods(above: Message | None, below: Message | None) -> Message:
    """Return the methods that moved the sides last, as one."""
    if above is None or below in (None, above):
        return above or below or Message("method/nothing@1")
    return Message.of("method/each-side@1", above=above, below=below)
