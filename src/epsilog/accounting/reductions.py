"""Answers that follow from answers about other compositions: each one a function, asked in the order of a list.

``account.REDUCTIONS`` is that list. A reduction answers None about what it does not apply to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from epsilog.accounting import composing, failures, grouping, tuning
from epsilog.accounting.methods import direct, lattice
from epsilog.accounting.truncation import Cut
from epsilog.accounting.walk import Method, walk
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt, Question
from epsilog.terms import UnsupportedMechanismError
from epsilog.terms.messages import Message

Answer = tuple[Bounds, Message]
"""Bounds, and by which method."""

PURE = Method("method/pure-composition@1", direct.pure)
LATTICE = Method(
    "method/lattice@1",
    lattice.bounds,
    above=lattice.above,
    enough=0.02,  # a relative width from which on bounds of another kind may do better
)

_TOLD = (PURE, LATTICE)  # what bounds truncated samples by pairs of their own


class Account(Protocol):
    """Who answers: ``account.account``."""

    def __call__(self, composition: Composition, question: Question, gap: float, *, above: bool = ...) -> Answer:
        """Bounds an answer, and says by which method."""
        ...


class Reduction(Protocol):
    """One way to answer through others."""

    def __call__(
        self, composition: Composition, question: Question, gap: float, *, above: bool, account: Account
    ) -> Answer | None:
        """Bounds an answer, and says how; None about what it does not apply to."""
        ...


def curves(composition: Composition, question: Question, gap: float, *, above: bool, account: Account) -> Answer | None:
    """Parts without a pair, beside others, by their own curves."""
    if not composition.has_curves or composition.enclosed is not None:
        return None
    return by_parts(composition, question, gap, above=above, account=account)


def by_parts(
    composition: Composition, question: Question, gap: float, *, above: bool, account: Account
) -> Answer | None:
    """Several parts, each by itself, and then together; None about a single one, or where each has a pair."""

    def ask(one: Composition, asked: Question, upper_only: bool) -> Bounds:
        return account(one, asked, gap, above=upper_only)[0]

    return composing.bounds(composition, question, above=above, ask=ask)


def trials(composition: Composition, question: Question, gap: float, *, above: bool, account: Account) -> Answer | None:
    """The best of several trials, through one trial."""
    if composition.trials is None:
        return None
    one, law = composition.trials
    ask, named = _asked(account, gap)
    found = tuning.bounds(law, one, question, above=above, ask=ask)
    return found, named("method/best-of-trials@1")


def groups(composition: Composition, question: Question, gap: float, *, above: bool, account: Account) -> Answer | None:
    """What a group loses, through one unit."""
    if composition.group is None:
        return None
    one, units = composition.group
    ask, named = _asked(account, gap)
    found, how = grouping.bounds(one, question, units=units, gap=gap, above=above, ask=ask)
    return found, named(how)


def _asked(account: Account, gap: float) -> tuple[tuning.Ask, Callable[[str], Message]]:
    """Who answers about one of several, and what names the methods by which that was done."""
    methods: dict[Message, None] = {}

    def ask(one: Composition, asked: Question, upper_only: bool) -> Bounds:
        found, method = account(one, asked, gap, above=upper_only)
        if asked != EpsilonAt(0):  # the largest loss only caps what others found
            methods[method] = None
        return found

    return ask, lambda how: Message.of(how, one=tuple(methods) or (Message(PURE.id),))


def between(
    composition: Composition, question: Question, gap: float, *, above: bool, account: Account
) -> Answer | None:
    """Parts that lie between two that are priced."""
    if composition.enclosed is None:
        return None
    most, least = composition.enclosed
    found, method = account(most, question, gap, above=above)
    if most.bag != least.bag:
        lower = 0.0 if above else account(least, question, gap)[0].lower
        found = Bounds(min(lower, found.upper), found.upper)
    proofs = dict.fromkeys(page for part in composition.bag if part.between() for page in part.proofs)
    return found, Message.of("method/enclosed@1", rest=method, pages="; ".join(proofs))


def cut(composition: Composition, question: Question, gap: float, *, above: bool, account: Account) -> Answer | None:
    """Truncated samples: through a run in which none is cut, or as they are.

    Where cuts are rare the first is best; where they are not, pairs of their own, or that sampling hid nothing. A
    sample of few units is never cut: the rest bounds from below.
    """
    if composition.uncut is None:
        return None
    rest, chance = composition.uncut
    spent = Cut(chance)
    whole, by = account(rest, question, gap, above=above)

    def asked(at: float) -> Bounds:
        return whole if question == EpsilonAt(at) else account(rest, EpsilonAt(at), gap, above=True)[0]

    match question:
        case DeltaAt(epsilon):
            upper = spent.beside(whole, epsilon).upper
        case EpsilonAt(delta):
            upper = spent.epsilon(delta, asked, above=True).upper
    found = Bounds(whole.lower, max(upper, whole.lower))
    name = Message.of("method/truncation-apart@1", rest=by)
    if found.upper <= (1 + gap) * whole.upper:
        return found, name
    with suppress(UnsupportedMechanismError):
        told = walk(_TOLD, composition, question, gap, above=True)
        if told.bounds.upper < found.upper:
            found = found.meet(Bounds(0.0, told.bounds.upper))
            name = Message.of("method/truncated-pairs@1", rest=told.method)
    with suppress(UnsupportedMechanismError):
        known, method = account(composition.unsampled(composition.truncated), question, gap, above=True)
        if known.upper < found.upper:
            found = found.meet(Bounds(0.0, known.upper))
            name = Message.of("method/without-amplification@1", rest=method)
    return found, name


def failing(
    composition: Composition, question: Question, gap: float, *, above: bool, account: Account
) -> Answer | None:
    """Statements that may give everything away: through the rest, beside the chance that one does."""
    if composition.failing is None:
        return None
    rest, chances = composition.failing
    failure = failures.joint(chances)
    match question:
        case DeltaAt():
            found, method = account(rest, question, gap, above=above)
            found = failure.beside(found)
        case EpsilonAt(delta):
            low, high = failure.left(delta)
            found, method = account(rest, EpsilonAt(low or 0.0), gap, above=above)
            upper = math.inf if low is None or high is None else found.upper
            lower = found.lower
            if high is None:  # the statements alone spend more than delta
                lower = math.inf
            elif high != low:
                lower = 0.0 if above or high == 1 else account(rest, EpsilonAt(high), gap)[0].lower
            found = Bounds(lower, upper)
    return found, Message.of("method/stated-deltas-apart@1", rest=method)
