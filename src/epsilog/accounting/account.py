"""One question, one interval: through another composition where a reduction applies, else by the methods in turn.

``METHODS`` and ``REDUCTIONS`` are the orders in which they are asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypedDict, Unpack, overload

from epsilog.accounting import composing, delta_split, group_privacy, renyi, tuning
from epsilog.accounting.intervals import ArrayLike, Intervals, parse_points, wrap_intervals
from epsilog.accounting.inversion.integral import bound_by_inversion
from epsilog.accounting.inversion.sampled import InversionInfeasibleError
from epsilog.accounting.methods import Answer, Method, lattice, unsampled, zcdp
from epsilog.accounting.truncation import TruncationProbability
from epsilog.mechanisms import Grouped, Release
from epsilog.mechanisms.composition import Composition, ReleaseCounts, flatten
from epsilog.numerics.balls_in_bins import search
from epsilog.numerics.gaussian import bound_gaussian
from epsilog.numerics.questions import (
    FAINT,
    Bounds,
    DeltaAt,
    EpsilonAt,
    Question,
    bound_from_max_loss,
    relevant_delta,
    trivial_bounds,
)
from epsilog.terms import Interval, NeighboringRelation, UnsupportedMechanismError, check
from epsilog.terms.messages import Message

RELATIVE_WIDTH = 0.002
"""The relative width that is aimed for unless another is asked for."""

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_FIXED = Message("assumes/fixed-parameters")


def gaussian(composition: Composition, question: Question, relative_width: float) -> Bounds | None:  # noqa: ARG001
    """Bound the answer about Gaussians and statements of mu-GDP; None as soon as one part is something else."""
    return None if composition.mu is None else bound_gaussian(composition.mu, question)


def pure(composition: Composition, question: Question, relative_width: float) -> Bounds | None:  # noqa: ARG001
    """Bound epsilon at delta 0, and other answers from above; None where no loss is the largest."""
    largest = composition.largest_loss
    if question == EpsilonAt(0):
        return largest
    found = Bounds(0.0, bound_from_max_loss(question, largest.upper))
    return None if found == trivial_bounds(question) else found


def balls_in_bins(composition: Composition, question: Question, relative_width: float) -> Bounds | None:
    """Bound the answer about epochs of the same bins over Gaussians; None for anything else."""
    return (
        None
        if composition.bins is None
        else search.bound_balls_in_bins(*composition.bins, question, relative_width=relative_width)
    )


def inversion(composition: Composition, question: Question, relative_width: float) -> Bounds | None:
    """Bound the answer about several releases with pairs; None where no useful bound on the error is known."""
    if composition.has_pairs and composition.orderings(relevant_delta(question))[0].rounds > 1:
        with suppress(InversionInfeasibleError):
            return bound_by_inversion(composition.orderings(relevant_delta(question)), question, relative_width)
    return None


PURE = Method(Message("method/pure-composition@1"), pure)
LATTICE = Method(
    Message("method/lattice@1"),
    lattice.bound,
    above=lattice.bound_above,
    enough=0.02,  # a relative width from which on bounds of another kind may do better
)

_PAIR_METHODS = (PURE, LATTICE)  # bounds of truncated samples by their pairs

GAUSSIAN = Method(Message("method/gaussian@1"), gaussian, last=True)
BINS = Method(Message("method/balls-in-bins@1"), balls_in_bins, enough=LATTICE.enough)
INVERSION = Method(Message("method/inversion@1"), inversion)
STATED = Method(Message("method/renyi-orders@1"), zcdp.bound_lone_zcdp)
ZCDP = Method(Message("method/zcdp-gaussian@1"), zcdp.bound, below_only=True)
RENYI = Method(Message("method/renyi@1"), renyi.bound)

DIRECT = (GAUSSIAN, PURE, BINS, INVERSION, LATTICE, STATED, ZCDP, RENYI)
"""What bounds a release as it is, in the order in which it is asked."""

LARGEST = (GAUSSIAN, PURE)
"""What bounds the largest loss."""


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


def _upper(composition: Composition, question: Question, relative_width: float) -> float:
    if composition.sampled:  # of a few kinds: direct methods first, and unsampled only if none of them answers
        methods = LARGEST if question == EpsilonAt(0) else DIRECT
        with suppress(UnsupportedMechanismError):
            found = run_methods(methods, composition, question, relative_width, above=True)[0].upper
            if found < trivial_bounds(question).upper:
                return found
    return compute_interval(composition, question, relative_width, above=True)[0].upper


UNSAMPLED = Method(
    Message("method/unamplified@1"), partial(unsampled.bound_if_cheap, upper=_upper), helps=unsampled.can_improve
)
UNSAMPLED_EACH = Method(Message("method/unamplified@1"), partial(unsampled.bound_without_sampling, upper=_upper))

ADDED = Method(Message("method/basic-composition@1"), partial(composing.one_by_one, upper=_upper))

METHODS = (*DIRECT, UNSAMPLED_EACH, UNSAMPLED, ADDED)
"""All of them."""


def curves(composition: Composition, question: Question, relative_width: float, *, above: bool) -> Answer | None:
    """Bound a composition with parts without a pair by the profiles of those parts."""
    if not composition.has_curves or composition.enclosed is not None:
        return None
    return by_parts(composition, question, relative_width, above=above)


def by_parts(composition: Composition, question: Question, relative_width: float, *, above: bool) -> Answer | None:
    """Several parts, each by itself, and then together; None about a single one, or where each has a pair."""
    return composing.bounds(composition, question, above=above, ask=_make_trial_question(relative_width)[0])


def trials(composition: Composition, question: Question, relative_width: float, *, above: bool) -> Answer | None:
    """Return the best of several trials, through one trial."""
    if composition.trials is None:
        return None
    one, law = composition.trials
    ask, named = _make_trial_question(relative_width)
    found = tuning.bound_best_of_trials(law, one, question, above=above, ask=ask)
    return found, named("method/best-of-trials@1")


def groups(composition: Composition, question: Question, relative_width: float, *, above: bool) -> Answer | None:
    """Return what a group loses, through one unit."""
    if composition.group is None:
        return None
    one, units = composition.group
    ask, named = _make_trial_question(relative_width)
    found, how = group_privacy.bound_group(
        one, question, units=units, relative_width=relative_width, above=above, ask=ask
    )
    return found, named(how)


def _make_trial_question(relative_width: float) -> tuple[tuning.Ask, Callable[[str], Message]]:
    """Who answers about one of several, and what names the methods by which that was done."""
    methods: dict[Message, None] = {}

    def ask(one: Composition, asked: Question, upper_only: bool) -> Bounds:
        found, method = compute_interval(one, asked, relative_width, above=upper_only)
        if asked != EpsilonAt(0):  # the largest loss only caps what others found
            methods[method] = None
        return found

    return ask, lambda how: Message.of(how, one=tuple(methods) or (PURE.name,))


def between(composition: Composition, question: Question, relative_width: float, *, above: bool) -> Answer | None:
    """Bound parts through an upper and a lower release."""
    if composition.enclosed is None:
        return None
    most, least = composition.enclosed
    found, method = compute_interval(most, question, relative_width, above=above)
    if most.counts != least.counts:
        lower = 0.0 if above else compute_interval(least, question, relative_width)[0].lower
        found = Bounds(min(lower, found.upper), found.upper)
    proofs = dict.fromkeys(page for part in composition.counts if part.between() for page in part.proofs)
    return found, Message.of("method/enclosed@1", rest=method, pages="; ".join(proofs))


def uncut(composition: Composition, question: Question, relative_width: float, *, above: bool) -> Answer | None:
    """Truncated samples: through a run in which none is cut, or as they are.

    If truncation is rare the first is best; otherwise the pairs of truncated samples, or the unsampled bound. A sample
    of few units is never truncated: the rest bounds from below.
    """
    if composition.uncut is None:
        return None
    rest, chance = composition.uncut
    spent = TruncationProbability(chance)
    whole, by = compute_interval(rest, question, relative_width, above=above)

    def bound_at(at: float) -> Bounds:
        return (
            whole if question == EpsilonAt(at) else compute_interval(rest, EpsilonAt(at), relative_width, above=True)[0]
        )

    match question:
        case DeltaAt(epsilon):
            upper = spent.add_to(whole, epsilon).upper
        case EpsilonAt(delta):
            upper = spent.epsilon(delta, bound_at, above=True).upper
    found = Bounds(whole.lower, max(upper, whole.lower))
    name = Message.of("method/truncation-apart@1", rest=by)
    if found.upper <= (1 + relative_width) * whole.upper:
        return found, name
    others: dict[str, Callable[[], Answer]] = {
        "method/truncated-pairs@1": lambda: run_methods(
            _PAIR_METHODS, composition, question, relative_width, above=True
        ),
        "method/without-amplification@1": lambda: compute_interval(
            composition.without_sampling(composition.truncated), question, relative_width, above=True
        ),
    }
    for how, ask in others.items():
        with suppress(UnsupportedMechanismError):
            known, method = ask()
            if known.upper < found.upper:
                found, name = found.intersect(Bounds(0.0, known.upper)), Message.of(how, rest=method)
    return found, name


def failing(composition: Composition, question: Question, relative_width: float, *, above: bool) -> Answer | None:
    """Bound statements with infinity mass through the rest, and the probability of that mass."""
    if composition.failing is None:
        return None
    rest, chances = composition.failing
    failure = delta_split.joint(chances)
    match question:
        case DeltaAt():
            found, method = compute_interval(rest, question, relative_width, above=above)
            found = failure.add_to(found)
        case EpsilonAt(delta):
            low, high = failure.remaining_delta(delta)
            found, method = compute_interval(rest, EpsilonAt(low or 0.0), relative_width, above=above)
            upper = math.inf if low is None or high is None else found.upper
            lower = found.lower
            if high is None:  # the statements alone spend more than delta
                lower = math.inf
            elif high != low:
                lower = 0.0 if above or high == 1 else compute_interval(rest, EpsilonAt(high), relative_width)[0].lower
            found = Bounds(lower, upper)
    return found, Message.of("method/stated-deltas-apart@1", rest=method)


REDUCTIONS = (curves, trials, groups, between, uncut, failing)
"""What answers through other compositions, in the order in which it is asked."""


def compute_interval(
    composition: Composition, question: Question, relative_width: float = RELATIVE_WIDTH, *, above: bool = False
) -> tuple[Bounds, Message]:
    """Bound an answer through the first reduction that applies, else by the methods; what claims and searches ask.

    What no method bounds as a whole is bounded by its parts (``composing``).

    Args:
        composition: what is released.
        question: an epsilon at a delta, or a delta at an epsilon.
        relative_width: the target relative width.
        above: whether the upper bound alone is wanted: the whole interval's is at most that, and takes longer.

    Raises:
        UnsupportedMechanismError: a part has no bound alone, or only one side; the refusal of the whole.
    """
    try:
        for reduce in REDUCTIONS:
            if (found := reduce(composition, question, relative_width, above=above)) is not None:
                return found
        methods = (*LARGEST, UNSAMPLED_EACH) if question == EpsilonAt(0) else METHODS
        return run_methods(methods, composition, question, relative_width, above=above)
    except UnsupportedMechanismError:
        found = by_parts(composition, question, relative_width, above=above)
        if found is None:
            raise
        return found


class _Options(TypedDict, total=False):
    """What both questions take besides their number."""

    relation: NeighboringRelation
    relative_width: float
    group_size: int


@overload
def epsilon(release: Release, *, delta: float, **options: Unpack[_Options]) -> Interval: ...
@overload
def epsilon(release: Release, *, delta: ArrayLike, **options: Unpack[_Options]) -> Intervals: ...
def epsilon(
    release: Release,
    *,
    delta: float | ArrayLike,
    relation: NeighboringRelation = _ADD_OR_REMOVE,
    relative_width: float = RELATIVE_WIDTH,
    group_size: int = 1,
) -> Interval | Intervals:
    """Bound epsilon at ``delta`` from both sides.

    Args:
        release: what is released; outputs may steer later queries, parameters are fixed in advance.
        delta: failure probability, in [0, 1); of an array or a list, each, in an answer of its shape.
        relation: which data sets are neighbors.
        relative_width: the target relative width.
        group_size: the most units that one person holds; the bound is then for the person (docs/accounting/groups.md).

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
    >>> round(epsilon(sgd, delta=1e-5, group_size=2).upper, 2)
    3.98
    >>> epsilon(sgd, delta=[1e-5, 1e-6, 1e-7]).upper.round(3).tolist()
    [1.828, 2.125, 2.412]
    """
    composition = Composition.of(apply_group_size(release, group_size), relation)
    return each(
        lambda at: build_interval(composition, EpsilonAt(at), relative_width),
        check.in_half_open_interval(0, 1, check.DOWN),
        delta=delta,
    )


@overload
def delta(release: Release, *, epsilon: float, **options: Unpack[_Options]) -> Interval: ...
@overload
def delta(release: Release, *, epsilon: ArrayLike, **options: Unpack[_Options]) -> Intervals: ...
def delta(
    release: Release,
    *,
    epsilon: float | ArrayLike,
    relation: NeighboringRelation = _ADD_OR_REMOVE,
    relative_width: float = RELATIVE_WIDTH,
    group_size: int = 1,
) -> Interval | Intervals:
    """Bound delta at ``epsilon`` from both sides.

    Args:
        release: what is released; outputs may steer later queries, parameters are fixed in advance.
        epsilon: in nats, at least 0; of an array or a list, each, in an answer of its shape.
        relation: which data sets are neighbors.
        relative_width: the target relative width.
        group_size: the most units that one person holds; the bound is then for the person (docs/accounting/groups.md).

    Raises:
        UnsupportedMechanismError: no method has a proof for a part under this relation.

    Source:
        docs/accounting/certified-bounds.md.

    >>> from epsilog.mechanisms import Gaussian
    >>> round(delta(Gaussian(noise_multiplier=1.0), epsilon=1.0).upper, 9)
    0.126936738
    """
    composition = Composition.of(apply_group_size(release, group_size), relation)
    return each(
        lambda at: build_interval(composition, DeltaAt(at), relative_width),
        check.at_least(0, check.DOWN),
        epsilon=epsilon,
    )


def each(ask: Callable[[float], Interval], rule: check.Validator[float], **named: object) -> Interval | Intervals:
    """Ask about the number given by keyword, or about each of a series; nothing is asked unless all are good."""
    if not any(map(check.is_series, named.values())):
        return ask(rule(**named))
    numbers, shape = parse_points(rule, **named)
    return wrap_intervals(map(ask, numbers), shape)


def apply_group_size(release: Release, group_size: int) -> Release:
    """Return a release for a holder of up to ``group_size`` of its units."""
    group_size = check.integer(1)(group_size=group_size)
    return release if group_size == 1 else Grouped(check.instance_of(Release)(release=release), group_size)


def build_interval(composition: Composition, question: Question, relative_width: float) -> Interval:
    """Return the claim about a composition: bounds on the answer, how they were found, and what they assume."""
    bounds, method = compute_interval(
        composition, question, check.in_open_interval(0, 1)(relative_width=relative_width)
    )
    match question:
        case EpsilonAt(at):
            quantity, named = "epsilon", [("delta", at)]
        case DeltaAt(at):
            quantity, named = "delta", [("epsilon", at)]
    if composition.group is not None:
        named.append(("units", float(composition.group[1])))
    return Interval(
        bounds.lower, bounds.upper, method, composition.relation,
        assumptions=_list_assumptions(composition.counts), quantity=quantity, given=tuple(named),
    )  # fmt: skip


def list_assumptions(release: Release) -> tuple[Message, ...]:
    """List what the accountant takes for granted about ``release``.

    >>> from epsilog.mechanisms import PureDP
    >>> str(list_assumptions(PureDP(1.0))[1])
    'the stated guarantee of a part is correct'
    """
    return _list_assumptions(flatten(check.instance_of(Release)(release=release)))


def _list_assumptions(counts: ReleaseCounts) -> tuple[Message, ...]:
    """Return the same about single releases with their counts."""
    return tuple(dict.fromkeys([_FIXED, *(assumed for part in counts for assumed in part.assumptions())]))
