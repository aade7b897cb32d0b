"""As if sampling hid nothing: with every unit in every sample no answer is smaller (certified-bounds, 1.5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

from epsilog.accounting import renyi
from epsilog.mechanisms import Release
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.counts import binomial_tail
from epsilog.numerics.gaussian import bound_gaussian, gaussian_delta
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt, Question, no_privacy_answer, spend
from epsilog.numerics.roots import find_first_integer
from epsilog.numerics.rounding import MU, ONCE, round_down, round_up
from epsilog.terms import UnsupportedMechanismError

_MUCH = 0.5  # a share of units in a sample from which on sampling may hide next to nothing
_FEW = 4  # kinds of sampled parts that are unsampled one at a time

Upper = Callable[[Composition, Question, float], float]  # bounds an answer from above by the other methods


def bound_if_cheap(
    composition: Composition, question: Question, relative_width: float, *, upper: Upper
) -> Bounds | None:
    """Bound the answer where it is as good as free, or likely to be good: Gaussians, large samples, bins."""
    bins = tuple(part for part in composition.sampled if part.is_binned)
    if bins or any(map(_much, composition.sampled)):
        return _least(composition, {composition.sampled, bins}, question, relative_width, upper)
    gaussian = composition.sampled and composition.without_sampling(composition.sampled).mu is not None
    return _least(composition, {composition.sampled}, question, relative_width, upper) if gaussian else None


def can_improve(composition: Composition, question: Question, known: Bounds) -> bool:
    """Return whether it may move ``known`` bounds: not where all are Gaussians that lose more, if only unsampled."""
    if not composition.sampled or math.isinf(known.lower):
        return False
    mu = composition.without_sampling(composition.sampled).mu
    if mu is None or any(part.is_binned for part in composition.sampled):
        return True
    match question:
        case EpsilonAt(delta):
            return gaussian_delta(round_down(mu, MU), known.upper)[0] <= delta
        case DeltaAt(epsilon):
            return gaussian_delta(round_down(mu, MU), epsilon)[0] < known.upper


def bound_without_sampling(
    composition: Composition, question: Question, relative_width: float, *, upper: Upper
) -> Bounds | None:
    """Bound the answer with all sampled parts unsampled, all bins, and each of a few kinds by itself."""
    bins = tuple(part for part in composition.sampled if part.is_binned)
    ways = {composition.sampled, bins}
    if len(composition.sampled) <= _FEW:
        ways |= {(part,) for part in composition.sampled}
    found = _least(composition, ways, question, relative_width, upper)
    if question == EpsilonAt(0):
        return found
    with suppress(UnsupportedMechanismError):
        revealed = _bound_revealed_rounds(composition, question)
        if revealed < no_privacy_answer(question):
            found = Bounds(0.0, revealed) if found is None else found.intersect(Bounds(0.0, revealed))
    with suppress(UnsupportedMechanismError):
        rough = (
            renyi.bound(composition.without_sampling(composition.sampled), question, relative_width)
            if composition.sampled
            else None
        )
        return rough if found is None else found if rough is None else found.intersect(rough)
    return found


def _bound_revealed_rounds(composition: Composition, question: Question) -> float:
    """Bound the answer from above by revealing the rounds of the unit, over Gaussians.

    The unit is in no more rounds of a kind than counted, except for a probability taken from delta. Given the rounds,
    their release is one Gaussian (certified-bounds, 1.5).
    """
    if not composition.sampled or any(part.exact_share is None for part in composition.sampled):
        return no_privacy_answer(question)
    composition.without_sampling(composition.sampled)  # checks that coins are all there is to a sample

    def bound_at(chance: float, left: Question) -> float | None:
        share = chance / len(composition.sampled)
        distances = [_distance(composition, part, count, share) for part, count in composition.counts.items()]
        known = [distance for distance in distances if distance is not None]
        return (
            bound_gaussian(math.hypot(*known), left, roundings=2 * MU).upper if len(known) == len(distances) else None
        )

    return spend(question, no_privacy_answer(question), bound_at)


def _distance(composition: Composition, part: Release, count: int, chance: float) -> float | None:
    """Return the mu of the rounds of a part with the unit in them, except for this probability; None without one."""
    if part.exact_share is None:
        return Composition({part: count}, composition.relation).mu
    mu, share = Composition.of(part.inner[0], composition.relation).mu, round_up(float(part.exact_share), ONCE)
    if mu is None or share >= 1:
        return None if mu is None else math.sqrt(count) * mu
    present = find_first_integer(lambda bound_at: binomial_tail(count, share, bound_at) <= chance, -1, count)
    return math.sqrt(present) * mu


def _least(
    composition: Composition, ways: set[tuple[Release, ...]], question: Question, relative_width: float, upper: Upper
) -> Bounds | None:
    least, answered = math.inf, False
    for parts in filter(None, ways):
        with suppress(UnsupportedMechanismError):
            least, answered = min(least, upper(composition.without_sampling(parts), question, relative_width)), True
    if math.isinf(least) and not (answered and question == EpsilonAt(0)):  # where no loss is the largest, that is said
        return None
    return Bounds(0.0, least)


def _much(part: Release) -> bool:
    return part.exact_share is not None and part.exact_share >= _MUCH
