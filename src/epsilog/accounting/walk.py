"""One walk over methods: each is asked while what the others proved is too wide, and what they prove is met."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from epsilog.mechanisms.composition import Composition
from epsilog.numerics.questions import FAINT, Bounds, Question, anything
from epsilog.terms import UnsupportedMechanismError
from epsilog.terms.messages import Message

Bound = Callable[[Composition, Question, float], Bounds | None]


@dataclass(frozen=True, eq=False)
class Method:
    """One way to bound an answer.

    Attributes:
        id: of its message in the catalogue, which gives its source.
        bound: bounds the answer about a release, aiming for a relative width; None where it does not apply.
        above: bounds it from above only, where that saves work; never better than ``bound``.
        enough: a relative width at which no further method is asked once this one has answered.
        last: whether no further method is asked once this one has answered.
        below_only: whether it bounds from below only, so that a refusal of the others stands.
        helps: whether it may move an interval that is narrow enough already; if not given, it is not asked then.
    """

    id: str
    bound: Bound
    above: Bound | None = None
    enough: float = 0.0
    last: bool = False
    below_only: bool = False
    helps: Callable[[Composition, Question, Bounds], bool] | None = None


class Claim(NamedTuple):
    """What is proven, and by which method on either side."""

    bounds: Bounds
    above: Method | None
    below: Method | None

    @property
    def method(self) -> Message:
        """The method, or that of each side."""
        ids = dict.fromkeys(method.id for method in (self.above, self.below) if method is not None)
        named = tuple(map(Message, ids))
        if len(named) < 2:
            return named[0] if named else Message("method/nothing@1")
        return Message.of("method/each-side@1", above=named[0], below=named[1])


def walk(
    methods: Sequence[Method], composition: Composition, question: Question, gap: float, *, above: bool = False
) -> Claim:
    """Asks the methods in turn until the interval is narrow enough.

    With ``above`` the upper bound alone is wanted: it is no better than that of the whole interval, and cheap. A method
    that refuses, or whose numbers leave the doubles, proves nothing, and the next one is asked.

    Args:
        methods: in the order in which they are asked.
        composition: what is released.
        question: an epsilon at a delta, or a delta at an epsilon.
        gap: the relative width at which no more are asked.
        above: whether the upper bound alone is wanted.

    Raises:
        ArithmeticError: two proven bounds contradict each other.
        UnsupportedMechanismError: no method has a proof under this relation; the first refusal.
    """
    claim, wanted = Claim(anything(question), None, None), gap
    refusal, answered = None, False
    for method in methods:
        if claim.bounds.within(wanted, least=FAINT) and not (
            method.helps and method.helps(composition, question, claim.bounds)
        ):
            continue
        one_sided = above and method.above is not None
        bound = method.above if one_sided and method.above is not None else method.bound
        try:
            found = bound(composition, question, gap)
        except UnsupportedMechanismError as problem:
            refusal = refusal or problem
            continue
        except (OverflowError, ZeroDivisionError):
            continue
        if found is None:
            continue
        claim, answered = _met(claim, found, method), answered or not method.below_only
        known = math.isfinite(claim.bounds.upper)
        if method.last and known:
            break
        wanted = math.inf if one_sided and known else max(wanted, method.enough)
    if refusal is not None and not answered:
        raise refusal
    return claim


def _met(claim: Claim, found: Bounds, method: Method) -> Claim:
    """What both say; a side is named after the method that moved it last."""
    bounds = claim.bounds.meet(found)
    return Claim(
        bounds,
        method if claim.above is None or bounds.upper < claim.bounds.upper else claim.above,
        method if bounds.lower > claim.bounds.lower else claim.below,
    )
