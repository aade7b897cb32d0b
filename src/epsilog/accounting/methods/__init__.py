"""The methods: each bounds the answer about a composition, or says None where it does not apply.

``account.run_methods`` asks several in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from epsilog.mechanisms.composition import Composition
from epsilog.numerics.questions import Bounds, Question
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
