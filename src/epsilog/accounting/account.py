"""One question, one interval: the methods are asked in the order of ``METHODS``, and the interval names its own."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import overload

from epsilog.accounting import reductions
from epsilog.accounting.intervals import Intervals, Series, each
from epsilog.accounting.methods import added, central_limit, concentrated, direct, renyi, unsampled
from epsilog.accounting.premises import assumed
from epsilog.accounting.reductions import LATTICE, PURE, Reduction
from epsilog.accounting.walk import Method, walk
from epsilog.mechanisms import Grouped, Release
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt, Question, anything
from epsilog.terms import Interval, NeighboringRelation, UnsupportedMechanismError, check
from epsilog.terms.messages import Message

GAP = 0.002
"""The relative width that is aimed for unless another is asked for."""

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE

GAUSSIAN = Method("method/gaussian@1", direct.gaussian, last=True)
BINS = Method("method/balls-in-bins@1", direct.balls_in_bins, enough=LATTICE.enough)
INVERSION = Method("method/inversion@1", direct.inversion)
CENTRAL_LIMIT = Method("method/central-limit@1", central_limit.bounds, enough=GAP)
STATED = Method("method/renyi-orders@1", concentrated.alone)
ZCDP = Method("method/zcdp-gaussian@1", concentrated.bounds, below_only=True)
RENYI = Method("method/renyi@1", renyi.bounds)

PRICED = (GAUSSIAN, PURE, BINS, INVERSION, CENTRAL_LIMIT, LATTICE, STATED, ZCDP, RENYI)
"""What bounds a release as it is, in the order in which it is asked."""

LARGEST = (GAUSSIAN, PURE)
"""What bounds the largest loss."""


def _upper(composition: Composition, question: Question, gap: float) -> float:
    if composition.sampled:  # of a few kinds: asked by itself first, and unsampled only where nothing else answers
        asked = LARGEST if question == EpsilonAt(0) else PRICED
        with suppress(UnsupportedMechanismError):
            found = walk(asked, composition, question, gap, above=True).bounds.upper
            if found < anything(question).upper:
                return found
    return account(composition, question, gap, above=True)[0].upper


UNSAMPLED = Method("method/unamplified@1", partial(unsampled.likely, upper=_upper), helps=unsampled.helps)
UNSAMPLED_EACH = Method("method/unamplified@1", partial(unsampled.each, upper=_upper))

ADDED = Method("method/basic-composition@1", partial(added.bounds, upper=_upper))

REDUCTIONS: tuple[Reduction, ...] = (
    reductions.curves,
    reductions.trials,
    reductions.groups,
    reductions.between,
    reductions.cut,
    reductions.failing,
)
"""What answers through other compositions, in the order in which it is asked."""

METHODS = (*PRICED, UNSAMPLED_EACH, UNSAMPLED, ADDED)
"""All of them."""


def account(
    composition: Composition, question: Question, gap: float = GAP, *, above: bool = False
) -> tuple[Bounds, Message]:
    """Bounds an answer through the first reduction that applies, else by the methods; what claims and searches ask.

    With ``above`` the upper bound alone is wanted: the whole interval's is at most that, and takes longer. What no
    method bounds as a whole is bounded by its parts (``composing``).

    Args:
        composition: what is released.
        question: an epsilon at a delta, or a delta at an epsilon.
        gap: the relative width to aim for.
        above: whether the upper bound alone is wanted.

    Raises:
        UnsupportedMechanismError: a part has no price by itself, or only one; the refusal of the whole.
    """
    try:
        for reduce in REDUCTIONS:
            if (found := reduce(composition, question, gap, above=above, account=account)) is not None:
                return found
        asked = (*LARGEST, UNSAMPLED_EACH) if question == EpsilonAt(0) else METHODS
        claim = walk(asked, composition, question, gap, above=above)
        return claim.bounds, claim.method
    except UnsupportedMechanismError:
        found = reductions.by_parts(composition, question, gap, above=above, account=account)
        if found is None:
            raise
        return found


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
    composition = Composition.of(held(release, group), relation)
    return each(lambda at: interval(composition, EpsilonAt(at), gap), check.half_open(0, 1, check.DOWN), delta=delta)


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
    composition = Composition.of(held(release, group), relation)
    return each(lambda at: interval(composition, DeltaAt(at), gap), check.at_least(0, check.DOWN), epsilon=epsilon)


def held(release: Release, group: int) -> Release:
    """A release as somebody meets it who holds up to ``group`` of its units."""
    group = check.integer(1)(group=group)
    return release if group == 1 else Grouped(check.instance(Release)(release=release), group)


def interval(composition: Composition, question: Question, gap: float) -> Interval:
    """The claim about a composition: bounds on the answer, how they were found, and what they assume."""
    bounds, method = account(composition, question, check.between(0, 1)(gap=gap))
    match question:
        case EpsilonAt(at):
            quantity, named = "epsilon", [("delta", at)]
        case DeltaAt(at):
            quantity, named = "delta", [("epsilon", at)]
    if composition.group is not None:
        named.append(("units", float(composition.group[1])))
    return Interval(
        bounds.lower, bounds.upper, method, composition.relation,
        assumptions=assumed(composition.bag), quantity=quantity, given=tuple(named),
    )  # fmt: skip
