"""Truncated samples as untruncated ones, and the probability of any truncation.

Whether a sample is cut depends on coins alone. Drawn with the same coins, a run that truncates and one that does not
show the same unless some sample is too large, which has at most the chance c under either of two neighbors. So their
deltas differ by at most c (1 + e^epsilon), whichever units a cut leaves out, and whatever earlier outputs steer: Chua
et al. 2024 (arXiv:2411.04205), Theorem 3.3; docs/accounting/certified-bounds.md, 1.9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from epsilog.mechanisms import Release
from epsilog.numerics.counts import binomial_tail
from epsilog.numerics.questions import Bounds
from epsilog.numerics.rounding import ELEMENTARY, LEAST, ONCE, round_down, round_up
from epsilog.terms import CheckError, Interval, NeighboringRelation, UnsupportedMechanismError, check
from epsilog.terms.messages import Message

_ATTEMPTS = 64  # to find an epsilon with enough of delta left
_MOST_BATCHES = 2**24  # with probabilities that are added
_NUDGE = 1e-4  # by which an epsilon is tried above the last one, as a part of it


@dataclass(frozen=True, slots=True)
class TruncationProbability:
    """The chance that any sample of a run is cut, bounded from above.

    Attributes:
        chance: at most this, for either of two neighbors.
    """

    chance: float

    def added_delta(self, epsilon: float) -> float:
        """Bound from above what truncating may add to delta at ``epsilon``, or take away: c (1 + e^epsilon)."""
        if epsilon > 700:
            return math.inf
        return round_up(self.chance * (1 + math.exp(epsilon)), 2 + ELEMENTARY) + LEAST

    def add_to(self, rest: Bounds, epsilon: float) -> Bounds:
        """Bound delta at ``epsilon`` from bounds on that of the run without truncation."""
        spent = self.added_delta(epsilon)
        return Bounds(max(round_down(rest.lower - spent, ONCE), 0.0), min(round_up(rest.upper + spent, ONCE), 1.0))

    def epsilon(self, delta: float, rest: Callable[[float], Bounds], *, above: bool) -> Bounds:
        """Bound epsilon at ``delta``; ``rest`` bounds that of the run without truncation.

        From above: where ``rest`` proves x at delta - c (1 + e^y) for some y >= x, the delta at x is at most
        ``delta``. From below, by the same: no epsilon under what ``rest`` proves at delta + c (1 + e^y), y being an
        upper bound, has a delta that small.
        """
        upper, tried = math.inf, rest(delta).upper
        for _ in range(_ATTEMPTS):
            tried += _NUDGE * max(tried, _NUDGE)
            left = round_down(delta - self.added_delta(tried), ONCE)
            if not left > 0:
                break
            found = rest(left).upper
            if found <= tried:
                upper = found
                break
            tried = found
        more = round_up(delta + self.added_delta(upper), ONCE)
        lower = rest(more).lower if more < 1 and not above else 0.0
        return Bounds(min(lower, upper), upper)


def build_truncated_poisson_pair(
    interval: Interval, release: Release, *, population: int, max_batch_size: int
) -> Interval:
    """Bound delta of the same run where a batch that is too large keeps its first ``max_batch_size`` units.

    The order is independent of the units' data. The bound holds for any bound on delta, by a formula or by
    Monte Carlo evidence, and for compositions with other releases.

    Args:
        interval: bounds on delta at an epsilon, of the run with untruncated batches.
        release: the part of that run with batches: a matrix mechanism with random participation, or balls-in-bins.
        population: units in all, at most; public.
        max_batch_size: units in a batch, at most.

    Raises:
        UnsupportedMechanismError: nothing of it is drawn.

    Source:
        docs/accounting/balls-in-bins.md, 7; for Poisson samples Chua et al. 2024 (arXiv:2411.04205), Theorem 3.3.

    >>> from epsilog.accounting import delta
    >>> from epsilog.mechanisms import BallsInBins, Gaussian
    >>> run = BallsInBins(Gaussian(1.0), bins=100)
    >>> found = delta(run, epsilon=2.0)
    >>> cut = build_truncated_poisson_pair(found, run, population=10_000, max_batch_size=200)
    >>> round(cut.upper / found.upper, 3), round(build_truncated_poisson_pair(found, run, population=10_000,
    ... max_batch_size=130).upper, 3)
    (1.0, 1.0)
    """
    epsilon = dict(interval.given).get("epsilon")
    if interval.quantity != "delta" or epsilon is None:
        raise CheckError("interval", "bounds on delta at an epsilon", f"bounds on {interval.quantity}", verb="hold")
    if interval.relation is NeighboringRelation.REPLACE_ONE:
        raise UnsupportedMechanismError(release, method=_METHOD, reason=f"under {interval.relation}")
    cut = TruncationProbability(truncation_probability(release, population=population, max_batch_size=max_batch_size))
    found = cut.add_to(Bounds(interval.lower, min(interval.upper, 1.0)), epsilon)
    estimate = interval.estimate if interval.estimate is None else min(max(interval.estimate, found.lower), found.upper)
    return Interval(
        found.lower,
        found.upper,
        Message.of("method/truncated-batches@1", rest=interval.method),
        interval.relation,
        estimate=estimate,
        assumptions=(
            *interval.assumptions,
            Message.of("assumes/truncated-batches", max_batch_size=max_batch_size, population=population),
        ),
        quantity="delta",
        given=(*interval.given, ("population", float(population)), ("max_batch_size", float(max_batch_size))),
    )


_METHOD = "truncation of drawn batches"


def truncation_probability(release: Release, *, population: int, max_batch_size: int) -> float:
    """Bound from above the chance that any batch has more than ``max_batch_size`` of ``population`` units in it.

    Args:
        release: what has the batches.
        population: units in all, at most; public.
        max_batch_size: units in a batch, at most.

    Raises:
        UnsupportedMechanismError: who takes part is not drawn, or not in batches.

    Source:
        The union bound over ``Release.batches``; docs/accounting/certified-bounds.md, 1.9.

    >>> from epsilog.mechanisms import BallsInBins, Gaussian
    >>> truncation_probability(BallsInBins(Gaussian(1.0), bins=4), population=10, max_batch_size=9)  # all in one bin
    ... # doctest: +ELLIPSIS
    3.81469...e-06
    """
    population = check.integer(1)(population=population)
    max_batch_size = check.integer(1)(max_batch_size=max_batch_size)
    batches = check.instance_of(Release)(release=release).batches()
    if batches is None:
        raise UnsupportedMechanismError(
            release, method=_METHOD, reason="who takes part is not drawn, or not in batches"
        )
    total = sum(count * binomial_tail(population, min(chance, 1.0), max_batch_size) for chance, count in batches)
    return min(round_up(float(total), 2 * _MOST_BATCHES), 1.0)
