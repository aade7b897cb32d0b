"""Formulas people use, shown because they are known. None of them charges a ledger or makes a claim of epsilon.

The federated formula is an *estimate*: neither an upper nor a lower bound (docs: pitfalls). The classic query formulas
are kept for comparison with the exact ones of ``gaussian``, to show what they waste.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from epsilog.terms import check


@dataclass(frozen=True, slots=True)
class FederatedClosedForm:
    """The popular federated formula, term by term: an estimate, never a bound.

    Attributes:
        root_term: q sqrt(2 T ln(1/delta)) / sigma, in nats.
        linear_term: T q^2 / sigma^2, in nats.
    """

    root_term: float
    linear_term: float

    @property
    def total(self) -> float:
        """Return the two terms together, in nats."""
        return self.root_term + self.linear_term

    @property
    def dominant_term(self) -> str:
        """Which term is the larger: "root" or "linear"."""
        return "root" if self.root_term >= self.linear_term else "linear"


def federated_closed_form(
    *, sampling_probability: float, noise_multiplier: float, rounds: int, delta: float
) -> FederatedClosedForm:
    """Evaluate q sqrt(2 T ln(1/delta)) / sigma + T q^2 / sigma^2.

    Args:
        sampling_probability: q, the chance that a client joins a round, in [0, 1].
        noise_multiplier: sigma, noise over sensitivity; 0 gives ``inf``.
        rounds: T, training rounds.
        delta: failure probability, in (0, 1).

    Returns:
        Both terms; an estimate that under-reports at many usual settings (sigma of 1 or less above all).

    Raises:
        CheckError: an argument is out of bounds.

    Source:
        docs/learn/estimates-and-bounds.md, which compares it with certified bounds.

    >>> worked = federated_closed_form(sampling_probability=0.02, noise_multiplier=1.0, rounds=100, delta=1e-6)
    >>> round(worked.total, 4), round(worked.root_term, 4), round(worked.linear_term, 4)
    (1.0913, 1.0513, 0.04)
    """
    sampling_probability = check.in_closed_interval(0, 1, check.UP)(sampling_probability=sampling_probability)
    noise_multiplier = check.at_least(0, check.DOWN)(noise_multiplier=noise_multiplier)
    rounds = check.integer(1)(rounds=rounds)
    delta = check.in_open_interval(0, 1, check.DOWN)(delta=delta)
    if noise_multiplier == 0:
        return FederatedClosedForm(math.inf, math.inf)
    rate = sampling_probability / noise_multiplier
    return FederatedClosedForm(rate * math.sqrt(-2 * rounds * math.log(delta)), rounds * rate * rate)


def classic_gaussian_stddev(*, epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the textbook noise standard deviation, sensitivity sqrt(2 ln(1.25/delta)) / epsilon.

    Proven for epsilon in (0, 1) only; at epsilon 20 it breaks its promise 150 times over, and it wastes noise where it
    holds. Calibrate instead.

    Args:
        epsilon: in nats, above 0.
        delta: failure probability, in (0, 1).
        sensitivity: the largest change by one unit, in L2 norm.

    Raises:
        CheckError: an argument is out of bounds.

    Source:
        Dwork & Roth 2014, Theorem A.1.

    >>> round(classic_gaussian_stddev(epsilon=1.0, delta=1e-6), 3)
    5.299
    """
    epsilon = check.positive(check.DOWN)(epsilon=epsilon)
    sensitivity = check.positive(check.UP)(sensitivity=sensitivity)
    delta = check.in_open_interval(0, 1, check.DOWN)(delta=delta)
    return sensitivity * math.sqrt(2 * (math.log(1.25) - math.log(delta))) / epsilon


def laplace_scale(*, epsilon: float, sensitivity: float = 1.0) -> float:
    """Return the Laplace scale b that gives one query epsilon-DP: sensitivity / epsilon.

    Source: Dwork et al. 2006, Proposition 1.

    >>> laplace_scale(epsilon=0.01)
    100.0
    """
    epsilon = check.positive(check.DOWN)(epsilon=epsilon)
    sensitivity = check.positive(check.UP)(sensitivity=sensitivity)
    return sensitivity / epsilon


def split_epsilon_evenly(*, epsilon: float, queries: int) -> float:
    """Return each query's share of epsilon when basic composition is all one uses; rounded down.

    >>> split_epsilon_evenly(epsilon=1.0, queries=100)
    0.01
    """
    epsilon = check.positive(check.DOWN)(epsilon=epsilon)
    queries = check.integer(1)(queries=queries)
    return epsilon / queries


def tpr_upper_bound(guarantees: Iterable[tuple[float, float]], *, fpr: float) -> float:
    """Bound from above how often an attacker who may be wrong ``fpr`` of the time is right.

    Every pair is a proof, so the least of their bounds holds.

    Args:
        guarantees: pairs of epsilon, in nats, and an upper bound on delta at it.
        fpr: false-positive rate, in [0, 1].

    Returns:
        An upper bound on the true-positive rate, at least ``fpr``.

    Source:
        Kairouz, Oh & Viswanath 2015, Theorem 2.1 (arXiv:1311.0776), solved for the true-positive rate.

    >>> round(tpr_upper_bound([(1.0, 1e-5)], fpr=0.01), 4)
    0.0272
    """
    fpr = check.in_closed_interval(0, 1, check.UP)(fpr=fpr)
    best = 1.0
    proved = check.pair_of(check.bound(check.UP), check.in_closed_interval(0, 1, check.UP))
    for epsilon, delta in check.sequence_of(proved)(guarantees=guarantees):
        down = math.exp(-epsilon)
        best = min(best, fpr / down + delta if down > 0 else 1.0, 1 - down * (1 - delta - fpr))
    return min(1.0, max(best, fpr) * (1 + 1e-12))
