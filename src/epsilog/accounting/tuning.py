"""Repeat and select: the best of a random number of trials, bounded through the curve of one trial from both sides.

With G the generating function of the number of trials, an outcome at rank F has G'(F) times its density in one trial.
Above, G' is at most the mean number of trials, and neighbors differ in it by at most ``shift``. Below are tests for
some order of the outcomes. Proofs: docs/accounting/tuning.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

from epsilog.accounting import tradeoff
from epsilog.mechanisms import TrialDistribution
from epsilog.mechanisms.composition import Composition
from epsilog.mechanisms.tuned import TRIALS_ROUNDINGS
from epsilog.numerics.distributions.base import LARGEST_LOSS
from epsilog.numerics.lattice.discretize import WorkCounter
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt, Question
from epsilog.numerics.roots import find_safe_root
from epsilog.numerics.rounding import ELEMENTARY, LEAST, ONCE, TWICE, gamma, round_down, round_up
from epsilog.terms import UnsupportedMechanismError, check

Ask = Callable[[Composition, Question, bool], Bounds]  # bounds an answer about one trial; with True from above only

_NEAR = 1e-3  # relatively: how far above the least the loss is at which shifts are read off
_STEP = 1e-3  # of an epsilon, below which a curve's slope is estimated
_INSIDE = 0.999  # of a set's chance: two ends of the outcomes then leave something between them
_RELATIVE_WIDTH = 0.02  # of rates, for lower bounds
_CHANCES = 4  # roundings of two differences of chances, absolute: each is at most 1
_CHANCES_AND_COST = 8  # likewise, plus a product that is rounded up separately


def expected_trials(trials: TrialDistribution) -> float:
    """Return the expected number of trials, rounded up.

    >>> from epsilog.mechanisms import BinomialTrialCount, PoissonTrialCount
    >>> expected_trials(PoissonTrialCount(20.0)), expected_trials(BinomialTrialCount(8, 0.5)) > 3.999
    (20.0, True)
    """
    return check.instance_of(TrialDistribution)(trials=trials).expected_trials  # type: ignore[no-any-return]


def epsilon_shift(
    trials: TrialDistribution, trial: Callable[[float], float], largest: Callable[[], float]
) -> tuple[float, float]:
    """Bound ln G'(F) - ln G'(F') over all ranks that neighbors can give one outcome; and the loss it is read at.

    Args:
        trials: the distribution of the number of trials; G is its generating function.
        trial: bounds delta of one trial from above at each epsilon.
        largest: bounds the largest loss of one trial from above.
    """
    if trials.rank_odds is None:
        return round_up(trials.expected_trials * trial(0.0), ONCE), 0.0
    power, odds = trials.rank_odds
    if power == 0:
        return 0.0, 0.0
    loss = min(largest(), _least_loss(trial, odds) if odds > 0 else math.inf)
    return round_up(power * loss, ONCE), loss


def _least_loss(trial: Callable[[float], float], odds: float) -> float:
    """Return about the least x with delta(x) at most odds (e^x - 1), verified there; inf if out of reach."""

    def excess(x: float) -> float:
        held = round_down(odds * math.expm1(min(x, LARGEST_LOSS)), TRIALS_ROUNDINGS)
        return math.log(max(trial(x), LEAST)) - math.log(max(held, LEAST)) if held > 0 else math.inf

    start = trial(0.0)
    if start == 0:
        return 0.0
    guess = math.log1p(start / odds)  # delta falls, so it holds there up to rounding
    return find_safe_root(excess, max(guess / 2, 1e-12), relative_width=_NEAR, most=LARGEST_LOSS)


def bound_best_of_trials(
    trials: TrialDistribution, one: Composition, question: Question, *, above: bool, ask: Ask
) -> Bounds:
    """Bound the answer about the best of several trials.

    Args:
        trials: the distribution of their number.
        one: one of them.
        question: about the best.
        above: whether the upper bound alone is wanted.
        ask: bounds an answer about one.

    Raises:
        UnsupportedMechanismError: no bound for one trial under this relation.

    Source:
        Liu & Talwar 2019 (arXiv:1811.07971); Papernot & Steinke 2022 (arXiv:2110.03620v2); Koskela, Redberg & Wang 2024
        (arXiv:2402.06701); derived in docs/accounting/tuning.md.
    """

    def trial(epsilon: float) -> float:
        return ask(one, DeltaAt(epsilon), True).upper

    if trials not in one.loss_shifts:
        one.loss_shifts[trials] = epsilon_shift(trials, trial, lambda: ask(one, EpsilonAt(0), True).upper)
    shift, at = one.loss_shifts[trials]
    upper = _above(trials, shift, question, lambda asked: ask(one, asked, True).upper)
    if (most := trials.most_trials) is not None:  # all trials, shown
        with suppress(UnsupportedMechanismError):  # the repeated release may have no bound
            released = Composition({part: most * count for part, count in one.counts.items()}, one.relation)
            upper = min(upper, ask(released, question, above).upper)
    if above:
        return Bounds(0.0, upper)
    lower = _silent(trials, question, lambda asked: ask(one, asked, False).lower)
    for test in _tests(trials, one, question, (shift, at), ask):
        lower = max(lower, test)
    return Bounds(lower, upper)


def _above(trials: TrialDistribution, shift: float, question: Question, one: Callable[[Question], float]) -> float:
    """delta(epsilon) <= mean * delta_1(epsilon - shift); below 0 the curve of one trial continues as usual."""
    mean = trials.expected_trials
    match question:
        case EpsilonAt(delta):
            left = round_down(delta / mean, ONCE)
            return 0.0 if left >= 1 else round_up(shift + one(EpsilonAt(left)), ONCE)
        case DeltaAt(epsilon):
            if math.isinf(shift):
                return 1.0
            rest = round_down(epsilon - shift, ONCE) if epsilon >= shift else round_up(shift - epsilon, ONCE)
            if epsilon >= shift:
                return min(round_up(mean * one(DeltaAt(rest)), ONCE), 1.0)
            reversed_delta = -math.expm1(-rest) + math.exp(-rest) * one(DeltaAt(rest))  # of the reversed pair
            return min(round_up(mean * reversed_delta, TRIALS_ROUNDINGS // 2), 1.0)


def _silent(trials: TrialDistribution, question: Question, one: Callable[[Question], float]) -> float:
    """Return an order that says nothing picks a trial at random: one trial is shown, if there is any."""
    some = trials.any_trial_probability(1.0)[0]
    match question:
        case EpsilonAt(delta):
            left = round_up(delta / some, ONCE) if some > 0 else 1.0
            return one(EpsilonAt(left)) if left < 1 else 0.0
        case DeltaAt():
            return max(round_down(some * one(question), ONCE), 0.0)


def _tests(
    trials: TrialDistribution, one: Composition, question: Question, shifted: tuple[float, float], ask: Ask
) -> list[float]:
    """Lower bounds by orders that put unlikely outcomes on top and the likely ones right below, or on top themselves.

    "Unlikely" and "likely" compare a data set with its neighbor: two ends of the same likelihood ratio.
    """
    shift, at = shifted
    if not math.isfinite(shift) or one.uncut is not None or one.enclosed is not None:
        return []
    attained, work = one.attained, WorkCounter()
    try:
        several = any(len(order.lowers) > 1 for order in attained.orderings()) if _has_pairs(attained) else False
    except UnsupportedMechanismError:
        return []

    def trial(epsilon: float) -> float:
        return ask(one, DeltaAt(epsilon), True).upper

    def rates(fpr: float) -> list[Bounds]:
        found = [
            found.bounds for found in tradeoff.bound_tprs(attained, fpr, relative_width=_RELATIVE_WIDTH, work=work)
        ]
        return found * 2 if len(found) == 1 else found

    def threshold(loss: float) -> float:
        """About how likely, where it is unlikely, an outcome of more than this loss is."""
        loss = max(loss, _STEP**2)
        start = loss * (1 - _STEP)
        return _INSIDE * (trial(start) - trial(loss)) / (math.exp(start) * math.expm1(loss - start))

    none = [Bounds(0.0, 0.0)] * 2
    tops = [(0.0, none)]
    if not several and at <= 0.5 * LARGEST_LOSS:
        share = _on_top(trials, at, threshold, trial)
        tops += [(share, rates(share))] if 0 < share < 1 else []
    found = []
    for top, above in tops:
        match question:
            case EpsilonAt(delta):
                left = min(
                    delta / trials.expected_trials * math.exp(min(trials.tail_correction(top), LARGEST_LOSS)), 0.5
                )
                loss = ask(one, EpsilonAt(left), True).upper
            case DeltaAt(epsilon):
                gained = max(trials.tail_correction(rate.lower) for rate in above) - trials.tail_correction(top)
                loss = max(epsilon - gained, 0.0)
        probability = threshold(min(loss, 0.5 * LARGEST_LOSS))
        if not 0 < probability < 1:
            continue
        lower_rates = rates(probability)
        for own, other in ((0, 1), (1, 0)):
            if lower_rates[own].upper + top <= 1:
                found.append(_test(trials, question, (lower_rates[own].lower, probability), (top, above[other].lower)))
    return found


def _has_pairs(composition: Composition) -> bool:
    return composition.mu is None and composition.bins is None


def _on_top(
    trials: TrialDistribution, at: float, threshold: Callable[[float], float], trial: Callable[[float], float]
) -> float:
    """Estimate the probability of the top outcomes at the largest rank difference of neighbors."""
    probability = threshold(at)
    if trials.most_trials is not None:
        return 1 - trial(at) - math.exp(at) * probability
    return probability


def _test(
    trials: TrialDistribution, question: Question, lower_set: tuple[float, float], top: tuple[float, float]
) -> float:
    """Return the bound from a test: the best is in one set with another above it; each has two probabilities."""
    (ours, theirs), (our_top, their_top) = lower_set, top
    revealed = (
        trials.any_trial_probability(min(round_down(our_top + ours, TWICE), 1.0))[0]
        - trials.any_trial_probability(our_top)[1]
    )
    hidden = (
        trials.any_trial_probability(min(round_up(their_top + theirs, TWICE), 1.0))[1]
        - trials.any_trial_probability(their_top)[0]
    )
    hidden = max(hidden, LEAST)
    match question:
        case EpsilonAt(delta):
            left = revealed - delta - gamma(_CHANCES)
            if not left > 0:
                return 0.0
            ours, theirs = math.log(left), math.log(hidden)  # apart: their quotient may overflow
            return max(ours - theirs - gamma(TRIALS_ROUNDINGS) * (1 + abs(ours) + abs(theirs)), 0.0)
        case DeltaAt(epsilon) if epsilon > LARGEST_LOSS:
            return 0.0
        case DeltaAt(epsilon):
            lost = round_up(math.exp(epsilon) * hidden, ELEMENTARY + 2)
            return max(revealed - lost - gamma(_CHANCES_AND_COST), 0.0)
