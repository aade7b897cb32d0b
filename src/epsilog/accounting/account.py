"""One question, one interval: the methods are asked in the order of ``METHODS``, and the interval names its own."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import partial
from typing import overload

from epsilog.accounting import composing, grouping, tuning
from epsilog.accounting.enclosed import proofs
from epsilog.accounting.failures import Failure
from epsilog.accounting.intervals import Intervals, Series, each
from epsilog.accounting.methods import (
    added,
    balls_in_bins,
    central_limit,
    concentrated,
    gaussian,
    inversion,
    lattice,
    pure,
    renyi,
    unsampled,
)
from epsilog.accounting.premises import assumed
from epsilog.accounting.prepared import Prepared, prepare
from epsilog.accounting.truncation import Cut
from epsilog.accounting.walk import Method, walk
from epsilog.mechanisms import Grouped, Release, Tuned
from epsilog.numerics.bounds import Bounds
from epsilog.numerics.questions import DeltaAt, EpsilonAt, Question, anything
from epsilog.terms import Interval, NeighboringRelation, UnsupportedMechanismError, check

GAP = 0.002
"""The relative width that is aimed for unless another is asked for."""

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_PERCENTS = 0.02  # a relative width from which on bounds of another kind may do better
_UNCUT = "; truncated samples apart (docs: accounting/certified-bounds, 1.9)"
_TOLD = "batches that others fill told apart (docs: accounting/certified-bounds, 1.9)"
_BETWEEN = "; parts between two that are priced (docs: {})"
_APART = "; stated deltas apart (Kairouz, Oh & Viswanath 2015)"

_OVER = "; one unit by: "
_TUNED = "the best of several trials (docs: accounting/tuning), over one trial by: "

GAUSSIAN = Method("exact Gaussian (Balle & Wang 2018)", gaussian.bounds, last=True)
PURE = Method("pure composition", pure.bounds)
BINS = Method(
    "balls-in-bins: sums of likelihood ratios, bounded in the convex order (docs: accounting/balls-in-bins)",
    balls_in_bins.bounds,
    enough=_PERCENTS,
)
INVERSION = Method("Laplace inversion, every error bounded (docs: accounting/spectral)", inversion.bounds)
CENTRAL_LIMIT = Method(
    "central limit theorem, tilted, every error bounded (docs: accounting/many-rounds)",
    central_limit.bounds,
    enough=GAP,
)
LATTICE = Method(
    "privacy loss distribution: dots connected above (Doroshenko et al. 2022), outcomes merged below",
    lattice.bounds,
    above=lattice.above,
    enough=_PERCENTS,
)
STATED = Method(
    "the best of all Renyi orders, and two answers that attain it (Asoodeh et al. 2021; docs: accounting/moments)",
    concentrated.alone,
)
ZCDP = Method("a Gaussian that satisfies what is stated (Bun & Steinke 2016)", concentrated.bounds, below_only=True)
RENYI = Method("Renyi DP (Mironov 2017; Asoodeh et al. 2021)", renyi.bounds)

PRICED = (GAUSSIAN, PURE, BINS, INVERSION, CENTRAL_LIMIT, LATTICE, STATED, ZCDP, RENYI)
"""What bounds a release as it is, in the order in which it is asked."""

LARGEST = (GAUSSIAN, PURE)
"""What bounds the largest loss."""


def _upper(prepared: Prepared, question: Question, gap: float) -> float:
    if prepared.sampled:  # of a few kinds: asked by itself first, and unsampled only where nothing else answers
        asked = LARGEST if question == EpsilonAt(0) else PRICED
        with suppress(UnsupportedMechanismError):
            found = walk(asked, prepared, question, gap, above=True).bounds.upper
            if found < anything(question).upper:
                return found
    return account(prepared, question, gap, above=True)[0].upper


_UNHIDDEN = "as if sampling hid nothing (docs: accounting/certified-bounds, 1.5)"
UNSAMPLED = Method(_UNHIDDEN, partial(unsampled.likely, upper=_upper), helps=unsampled.helps)
UNSAMPLED_EACH = Method(_UNHIDDEN, partial(unsampled.each, upper=_upper))

ADDED = Method("parts added one by one (Dwork & Roth 2014)", partial(added.bounds, upper=_upper))

TOLD = (PURE, LATTICE)
"""What bounds truncated samples by pairs of their own."""

METHODS = (*PRICED, UNSAMPLED_EACH, UNSAMPLED, ADDED)
"""All of them."""


def account(prepared: Prepared, question: Question, gap: float = GAP, *, above: bool = False) -> tuple[Bounds, str]:
    """Bounds an answer by every method that it takes, and says by which; what claims and searches alike ask.

    With ``above`` the upper bound alone is wanted: the whole interval's is at most that, and takes longer. What no
    method bounds as a whole is bounded by its parts (``composing``).

    Raises:
        UnsupportedMechanismError: a part has no price by itself, or only one; the refusal of the whole.
    """
    by_parts = partial(composing.bounds, prepared, question, above=above, ask=partial(_ask, gap=gap))
    if prepared.has_curves and prepared.enclosed is None:
        found = by_parts()
        if found is not None:
            return found
    try:
        return _whole(prepared, question, gap, above=above)
    except UnsupportedMechanismError:
        found = by_parts()
        if found is None:
            raise
        return found


def _ask(prepared: Prepared, question: Question, above: bool, *, gap: float) -> Bounds:
    return account(prepared, question, gap, above=above)[0]


def _whole(prepared: Prepared, question: Question, gap: float, *, above: bool) -> tuple[Bounds, str]:
    """Bounds an answer about all of a mix together."""
    if prepared.inside is not None:
        return _over(*prepared.inside, question, gap, above=above)
    if prepared.enclosed is not None:
        found, name = _enclosed(*prepared.enclosed, question, gap, above=above)
        return found, name + _BETWEEN.format(proofs(prepared.bag))
    if prepared.untruncated is not None:
        return _truncated(prepared, *prepared.untruncated, question, gap, above=above)
    if prepared.apart is not None:
        bounds, method = _beside(*prepared.apart, question, gap, above=above)
        return bounds, method + _APART
    asked = (*LARGEST, UNSAMPLED_EACH) if question == EpsilonAt(0) else METHODS
    claim = walk(asked, prepared, question, gap, above=above)
    return claim.bounds, claim.method


def _enclosed(most: Prepared, least: Prepared, question: Question, gap: float, *, above: bool) -> tuple[Bounds, str]:
    """Bounds the answer for a mix by those for two that it lies between."""
    found, method = account(most, question, gap, above=above)
    if most.bag != least.bag:
        lower = 0.0 if above else account(least, question, gap)[0].lower
        found = Bounds(min(lower, found.upper), found.upper)
    return found, method


def _truncated(
    prepared: Prepared, rest: Prepared, cut: Cut, question: Question, gap: float, *, above: bool
) -> tuple[Bounds, str]:
    """Bounds the answer for a mix with truncated samples: from that of the ``rest``, where none is cut, or as it is.

    Where cuts are rare the first is best; where they are not, pairs of their own, or that sampling hid nothing. A
    sample of few units is never cut: the rest bounds from below.
    """
    whole, by = account(rest, question, gap, above=above)

    def asked(at: float) -> Bounds:
        return whole if question == EpsilonAt(at) else account(rest, EpsilonAt(at), gap, above=True)[0]

    match question:
        case DeltaAt(epsilon):
            upper = cut.beside(whole, epsilon).upper
        case EpsilonAt(delta):
            upper = cut.epsilon(delta, asked, above=True).upper
    found, name = Bounds(whole.lower, max(upper, whole.lower)), by + _UNCUT
    if found.upper <= (1 + gap) * whole.upper:
        return found, name
    with suppress(UnsupportedMechanismError):
        told = walk(TOLD, prepared, question, gap, above=True)
        if told.bounds.upper < found.upper:
            found, name = found.meet(Bounds(0.0, told.bounds.upper)), f"{told.method}; {_TOLD}"
    with suppress(UnsupportedMechanismError):
        known, method = account(prepared.unsampled(prepared.truncated), question, gap, above=True)
        if known.upper < found.upper:
            found, name = found.meet(Bounds(0.0, known.upper)), f"{method}; {_UNHIDDEN}"
    return found, name


def _over(whole: Tuned | Grouped, one: Prepared, question: Question, gap: float, *, above: bool) -> tuple[Bounds, str]:
    """Bounds the answer about the best of several trials, or about a group, through one trial or unit."""
    methods: dict[str, None] = {}

    def ask(one: Prepared, asked: Question, upper_only: bool) -> Bounds:
        found, method = account(one, asked, gap, above=upper_only)
        if asked != EpsilonAt(0):  # the largest loss only caps what others found
            methods[method] = None
        return found

    if isinstance(whole, Tuned):
        found, name = tuning.bounds(whole, one, question, above=above, ask=ask), _TUNED
    else:
        found, name = grouping.bounds(one, question, units=whole.units, gap=gap, above=above, ask=ask)
        name += _OVER
    return found, name + ("; ".join(methods) or PURE.name)


def _beside(rest: Prepared, failure: Failure, question: Question, gap: float, *, above: bool) -> tuple[Bounds, str]:
    """Bounds the answer for a mix whose statements' deltas were taken apart from the ``rest`` of it."""
    match question:
        case DeltaAt():
            found, method = account(rest, question, gap, above=above)
            return failure.beside(found), method
        case EpsilonAt(delta):
            low, high = failure.left(delta)
            found, method = account(rest, EpsilonAt(low or 0.0), gap, above=above)
            if high is None:  # the statements alone spend more than delta
                return Bounds(math.inf, math.inf), method
            upper = math.inf if low is None else found.upper
            if high == low:
                return Bounds(found.lower, upper), method
            lower = 0.0 if above or high == 1 else account(rest, EpsilonAt(high), gap)[0].lower
            return Bounds(lower, upper), method


@overload
def epsilon(
    release: Release, *, delta: float, relation: NeighboringRelation = ..., gap: float = ..., group: int = ...
) -> Interval: ...
@overload
def epsilon(
    release: Release, *, delta: Series, relation: NeighboringRelation = ..., gap: float = ..., group: int = ...
) -> Intervals: ...
def epsilon(
    release: Release,
    *,
    delta: float | Series,
    relation: NeighboringRelation = _ADD_OR_REMOVE,
    gap: float = GAP,
    group: int = 1,
) -> Interval | Intervals:
    """Bounds epsilon at ``delta`` from both sides.

    Args:
        release: what is released; outputs may steer later queries, parameters are fixed in advance.
        delta: failure probability, in [0, 1); of an array or a list, each, in an answer of its shape.
        relation: which data sets are neighbours.
        gap: the relative width to aim for.
        group: the most units that one person holds; the price is then the person's (docs/accounting/groups.md).

    Returns:
        The interval, in nats; its ``upper`` is ``inf`` when nothing can be promised. Of a series of deltas, the
        intervals: their ``lower`` and ``upper`` are arrays, ``columns()`` makes a frame.

    Raises:
        UnsupportedMechanismError: no method has a proof for a part under this relation.

    Source:
        docs/accounting/certified-bounds.md.

    >>> from epsilog.mechanisms import Gaussian, PoissonSampled, Repeated
    >>> epsilon(Gaussian(noise_multiplier=1.0), delta=1e-5).upper  # doctest: +ELLIPSIS
    4.37717...
    >>> sgd = Repeated(PoissonSampled(Gaussian(noise_multiplier=1.0), sampling_probability=0.01), count=1000)
    >>> round(epsilon(sgd, delta=1e-5).lower, 8), round(epsilon(sgd, delta=1e-5).upper, 8)
    (1.82823667, 1.82823667)
    >>> round(epsilon(sgd, delta=1e-5, group=2).upper, 2)
    3.98
    >>> epsilon(sgd, delta=[1e-5, 1e-6, 1e-7]).upper.round(3).tolist()
    [1.828, 2.125, 2.412]
    """
    prepared = prepare(held(release, group), relation)
    return each(lambda at: interval(prepared, EpsilonAt(at), gap), check.half_open(0, 1, check.DOWN), delta=delta)


@overload
def delta(
    release: Release, *, epsilon: float, relation: NeighboringRelation = ..., gap: float = ..., group: int = ...
) -> Interval: ...
@overload
def delta(
    release: Release, *, epsilon: Series, relation: NeighboringRelation = ..., gap: float = ..., group: int = ...
) -> Intervals: ...
def delta(
    release: Release,
    *,
    epsilon: float | Series,
    relation: NeighboringRelation = _ADD_OR_REMOVE,
    gap: float = GAP,
    group: int = 1,
) -> Interval | Intervals:
    """Bounds delta at ``epsilon``, or at each of a series, from both sides; arguments and errors as for ``epsilon``.

    >>> from epsilog.mechanisms import Gaussian
    >>> round(delta(Gaussian(noise_multiplier=1.0), epsilon=1.0).upper, 9)
    0.126936738
    """
    prepared = prepare(held(release, group), relation)
    return each(lambda at: interval(prepared, DeltaAt(at), gap), check.at_least(0, check.DOWN), epsilon=epsilon)


def held(release: Release, group: int) -> Release:
    """A release as somebody meets it who holds up to ``group`` of its units."""
    group = check.integer(1)(group=group)
    return release if group == 1 else Grouped(check.instance(Release)(release=release), group)


def interval(prepared: Prepared, question: Question, gap: float) -> Interval:
    """The claim about a release that was prepared: bounds on the answer, how they were found, and what they assume."""
    bounds, method = account(prepared, question, check.between(0, 1)(gap=gap))
    match question:
        case EpsilonAt(at):
            quantity, named = "epsilon", [("delta", at)]
        case DeltaAt(at):
            quantity, named = "delta", [("epsilon", at)]
    if isinstance(prepared.alone, Grouped):
        named.append(("units", float(prepared.alone.units)))
    return Interval(
        bounds.lower, bounds.upper, method, prepared.relation,
        assumptions=assumed(prepared.bag), quantity=quantity, given=tuple(named),
    )  # fmt: skip
