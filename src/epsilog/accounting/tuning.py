"""Repeat and select: the best of a random number of trials, bounded through the curve of one trial from both sides.

With G the generating function of the number of trials, an outcome at rank F has G'(F) times its density in one trial.
Above, G' is at most the mean number of trials, and neighbors differ in it by at most ``shift``. Below are tests for
some order of the outcomes. Proofs: docs/accounting/tuning.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from epsilog.accounting import tradeoff
from epsilog.mechanisms import BinomialTrialCount, NegativeBinomialTrialCount, PoissonTrialCount, TrialDistribution
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.distributions.base import LARGEST_LOSS
from epsilog.numerics.lattice.discretize import WorkCounter
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt, Question
from epsilog.numerics.roots import find_safe_root
from epsilog.numerics.rounding import ELEMENTARY, LEAST, ONCE, TWICE, gamma, round_down, round_up
from epsilog.terms import UnsupportedMechanismError, check

Ask = Callable[[Composition, Question, bool], Bounds]  # bounds an answer about one trial; with True from above only

_LOGARITHMIC = 1e-100  # a shape that is 0 to far more than any digit
_NEAR = 1e-3  # relatively: how far above the least the loss is at which shifts are read off
_STEP = 1e-3  # of an epsilon, below which a curve's slope is estimated
_INSIDE = 0.999  # of a set's chance: two ends of the outcomes then leave something between them
_GAP = 0.02  # of rates, for lower bounds
_TRIALS_ROUNDINGS = 64  # roundings: fewer than 16 in up to four quotients, products and differences and two functions
_ROUNDINGS = 1e4  # far above those of a few functions whose condition is at most 1 + ``spread``
_CHANCES = 4  # roundings of two differences of chances, absolute: each is at most 1
_CHANCES_AND_COST = 8  # likewise, beside a product that is rounded up by itself


@dataclass(frozen=True, slots=True)
class TrialCountGenerator:
    """Bounds from the distribution of the number of trials; G is its generating function.

    Attributes:
        trials: the distribution.
    """

    trials: TrialDistribution

    @property
    def spread(self) -> float:
        """What the arguments of its exponentials amount to: digits that their roundings may cost."""
        match self.trials:
            case NegativeBinomialTrialCount(shape, stops):
                return abs(shape) * -math.log(stops) + 1 / stops
            case PoissonTrialCount(mean):
                return mean
            case BinomialTrialCount(most, probability):
                return most / (1 - probability) if probability < 1 else float(most)
        raise UnsupportedMechanismError(self.trials, method="tuning")

    @property
    def mean(self) -> float:
        """The mean number of trials, G'(1), rounded up.

        >>> round(TrialCountGenerator(NegativeBinomialTrialCount(1.0, 0.125)).mean, 9)
        8.0
        """
        match self.trials:
            case NegativeBinomialTrialCount(shape, stops):
                log = math.log(stops)
                if abs(shape) < _LOGARITHMIC:
                    return round_up((1 - stops) / stops / -log, _TRIALS_ROUNDINGS)
                part = -math.expm1(shape * log)  # 1 - stops^shape: its condition is at most 1 + |shape log|
                return round_up(shape * (1 - stops) / stops / part, _TRIALS_ROUNDINGS + 16 * abs(shape * log))
            case PoissonTrialCount(mean):
                return mean
            case BinomialTrialCount(most, probability):
                return round_up(most * probability, ONCE)
        raise UnsupportedMechanismError(self.trials, method="tuning")

    def any_trial_probability(self, chance: float) -> tuple[float, float]:
        """Bounds 1 - G(1 - chance): how likely at least one trial hits what each hits with that chance.

        >>> low, high = TrialCountGenerator(PoissonTrialCount(2.0)).any_trial_probability(0.5)
        >>> low < 1 - math.exp(-1) < high < low + 1e-10
        True
        """
        chance = min(chance, 1.0)
        match self.trials:
            case NegativeBinomialTrialCount(shape, stops):
                log, grown = -math.log(stops), math.log1p((1 - stops) / stops * chance)
                if abs(shape) < _LOGARITHMIC:
                    found = grown / log
                elif shape > 0:
                    found = math.expm1(-shape * grown) / math.expm1(-shape * log)
                else:  # the larger exponential is divided by, and not met
                    found = math.exp(-shape * (grown - log)) * math.expm1(shape * grown) / math.expm1(shape * log)
            case PoissonTrialCount(mean):
                found = -math.expm1(-mean * chance)
            case BinomialTrialCount(most, probability):
                part = probability * chance
                found = 1.0 if part >= 1 else -math.expm1(most * math.log1p(-part))
            case _:
                raise UnsupportedMechanismError(self.trials, method="tuning")
        off = _ROUNDINGS * (1 + self.spread)
        return max(round_down(found, off) - LEAST, 0.0), min(round_up(found, off) + LEAST, 1.0)

    def tail_correction(self, top: float) -> float:
        """How far ln G'(1) is above ln G'(1 - top), about: what an outcome with so much above it loses by that."""
        match self.trials:
            case NegativeBinomialTrialCount(shape, stops):
                return (1 + shape) * math.log1p((1 - stops) / stops * top)
            case PoissonTrialCount(mean):
                return mean * top
            case BinomialTrialCount(most, probability) if probability * top < 1:
                return (1 - most) * math.log1p(-probability * top)
        return LARGEST_LOSS

    def epsilon_shift(self, trial: Callable[[float], float], largest: Callable[[], float]) -> tuple[float, float]:
        """Bounds ln G'(F) - ln G'(F') over all ranks that neighbours can give one outcome; and the loss it is read at.

        Args:
            trial: bounds delta of one trial from above at each epsilon.
            largest: bounds the largest loss of one trial from above.
        """
        match self.trials:
            case PoissonTrialCount(mean):
                return round_up(mean * trial(0.0), ONCE), 0.0
            case NegativeBinomialTrialCount(shape, stops):
                power, odds = round_up(1 + shape, ONCE), stops / (1 - stops)
            case BinomialTrialCount(most, probability):
                power, odds = float(most - 1), (1 - probability) / probability
            case _:
                raise UnsupportedMechanismError(self.trials, method="tuning")
        if power == 0:
            return 0.0, 0.0
        loss = min(largest(), _least_loss(trial, odds) if odds > 0 else math.inf)
        return round_up(power * loss, ONCE), loss


def expected_trials(trials: TrialDistribution) -> float:
    """Return the expected number of trials, rounded up.

    >>> from epsilog.mechanisms import BinomialTrialCount
    >>> expected_trials(PoissonTrialCount(20.0)), expected_trials(BinomialTrialCount(8, 0.5)) > 3.999
    (20.0, True)
    """
    return TrialCountGenerator(check.instance_of(TrialDistribution)(trials=trials)).mean


def _least_loss(trial: Callable[[float], float], odds: float) -> float:
    """Return about the least x with delta(x) at most odds (e^x - 1), verified there; inf if out of reach."""

    def excess(x: float) -> float:
        held = round_down(odds * math.expm1(min(x, LARGEST_LOSS)), _TRIALS_ROUNDINGS)
        return math.log(max(trial(x), LEAST)) - math.log(max(held, LEAST)) if held > 0 else math.inf

    start = trial(0.0)
    if start == 0:
        return 0.0
    guess = math.log1p(start / odds)  # delta falls, so it holds there up to rounding
    return find_safe_root(excess, max(guess / 2, 1e-12), gap=_NEAR, most=LARGEST_LOSS)


def bound_best_of_trials(
    trials: TrialDistribution, one: Composition, question: Question, *, above: bool, ask: Ask
) -> Bounds:
    """Bounds the answer about the best of several trials.

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
    generator = TrialCountGenerator(trials)

    def trial(epsilon: float) -> float:
        return ask(one, DeltaAt(epsilon), True).upper

    if trials not in one.loss_shifts:
        one.loss_shifts[trials] = generator.epsilon_shift(trial, lambda: ask(one, EpsilonAt(0), True).upper)
    shift, at = one.loss_shifts[trials]
    upper = _above(generator, shift, question, lambda asked: ask(one, asked, True).upper)
    if isinstance(trials, BinomialTrialCount):  # all trials, shown
        with suppress(UnsupportedMechanismError):  # the repeated release may have no bound
            released = Composition({part: trials.most * count for part, count in one.counts.items()}, one.relation)
            upper = min(upper, ask(released, question, above).upper)
    if above:
        return Bounds(0.0, upper)
    lower = _silent(generator, question, lambda asked: ask(one, asked, False).lower)
    for test in _tests(generator, one, question, (shift, at), ask):
        lower = max(lower, test)
    return Bounds(lower, upper)


def _above(generator: TrialCountGenerator, shift: float, question: Question, one: Callable[[Question], float]) -> float:
    """delta(epsilon) <= mean * delta_1(epsilon - shift); below 0 the curve of one trial continues as usual."""
    mean = generator.mean
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
            return min(round_up(mean * reversed_delta, _TRIALS_ROUNDINGS // 2), 1.0)


def _silent(generator: TrialCountGenerator, question: Question, one: Callable[[Question], float]) -> float:
    """An order that says nothing picks a trial at random: one trial is shown, if there is any."""
    some = generator.any_trial_probability(1.0)[0]
    match question:
        case EpsilonAt(delta):
            left = round_up(delta / some, ONCE) if some > 0 else 1.0
            return one(EpsilonAt(left)) if left < 1 else 0.0
        case DeltaAt():
            return max(round_down(some * one(question), ONCE), 0.0)


def _tests(
    generator: TrialCountGenerator, one: Composition, question: Question, shifted: tuple[float, float], ask: Ask
) -> list[float]:
    """Lower bounds by orders that put unlikely outcomes on top and the likely ones right below, or on top themselves.

    "Unlikely" and "likely" compare a data set with its neighbour: two ends of the same likelihood ratio.
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
        found = [found.bounds for found in tradeoff.bound_tprs(attained, fpr, gap=_GAP, work=work)]
        return found * 2 if len(found) == 1 else found

    def threshold(loss: float) -> float:
        """About how likely, where it is unlikely, an outcome of more than this loss is."""
        loss = max(loss, _STEP**2)
        start = loss * (1 - _STEP)
        return _INSIDE * (trial(start) - trial(loss)) / (math.exp(start) * math.expm1(loss - start))

    none = [Bounds(0.0, 0.0)] * 2
    tops = [(0.0, none)]
    if not several and at <= 0.5 * LARGEST_LOSS:
        share = _on_top(generator, at, threshold, trial)
        tops += [(share, rates(share))] if 0 < share < 1 else []
    found = []
    for top, above in tops:
        match question:
            case EpsilonAt(delta):
                left = min(delta / generator.mean * math.exp(min(generator.tail_correction(top), LARGEST_LOSS)), 0.5)
                loss = ask(one, EpsilonAt(left), True).upper
            case DeltaAt(epsilon):
                gained = max(generator.tail_correction(rate.lower) for rate in above) - generator.tail_correction(top)
                loss = max(epsilon - gained, 0.0)
        probability = threshold(min(loss, 0.5 * LARGEST_LOSS))
        if not 0 < probability < 1:
            continue
        lower_rates = rates(probability)
        for own, other in ((0, 1), (1, 0)):
            if lower_rates[own].upper + top <= 1:
                found.append(
                    _test(generator, question, (lower_rates[own].lower, probability), (top, above[other].lower))
                )
    return found


def _has_pairs(composition: Composition) -> bool:
    return composition.mu is None and composition.bins is None


def _on_top(
    generator: TrialCountGenerator, at: float, threshold: Callable[[float], float], trial: Callable[[float], float]
) -> float:
    """Estimate the probability of the top outcomes at the largest rank difference of neighbors."""
    probability = threshold(at)
    if isinstance(generator.trials, BinomialTrialCount):
        return 1 - trial(at) - math.exp(at) * probability
    return probability


def _test(
    generator: TrialCountGenerator, question: Question, lower_set: tuple[float, float], top: tuple[float, float]
) -> float:
    """Return the bound from a test: the best is in one set with another above it; each has two probabilities."""
    (ours, theirs), (our_top, their_top) = lower_set, top
    revealed = (
        generator.any_trial_probability(min(round_down(our_top + ours, TWICE), 1.0))[0]
        - generator.any_trial_probability(our_top)[1]
    )
    hidden = (
        generator.any_trial_probability(min(round_up(their_top + theirs, TWICE), 1.0))[1]
        - generator.any_trial_probability(their_top)[0]
    )
    hidden = max(hidden, LEAST)
    match question:
        case EpsilonAt(delta):
            left = revealed - delta - gamma(_CHANCES)
            if not left > 0:
                return 0.0
            ours, theirs = math.log(left), math.log(hidden)  # apart: their quotient may overflow
            return max(ours - theirs - gamma(_TRIALS_ROUNDINGS) * (1 + abs(ours) + abs(theirs)), 0.0)
        case DeltaAt(epsilon) if epsilon > LARGEST_LOSS:
            return 0.0
        case DeltaAt(epsilon):
            lost = round_up(math.exp(epsilon) * hidden, ELEMENTARY + 2)
            return max(revealed - lost - gamma(_CHANCES_AND_COST), 0.0)
