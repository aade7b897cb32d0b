"""Two releases side by side, in numbers and in words: which protects better, at which delta, against which attack."""

from __future__ import annotations

from dataclasses import dataclass

from epsilog.accounting import GaussianDPFit, PointComparison, ProfileComparison, compare_profiles
from epsilog.mechanisms import Release
from epsilog.plan.risk_metrics import fit_gaussian_dp_quickly
from epsilog.terms import NeighboringRelation, check
from epsilog.terms.messages import Message

__all__ = ["ReleaseComparison", "compare_releases"]

DELTAS = (0.1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10)
FPRS = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)
_TOLERANCE, _RELATIVE_WIDTH = 0.005, 0.01  # a negligible difference of TPR; the relative width of the drawn intervals


@dataclass(frozen=True, slots=True)
class ReleaseComparison:
    """Two releases, compared as curves and at one point of each.

    Attributes:
        found: the comparison, at many deltas and false positive rates, from large to small and from small to large.
        at_delta: how they stand at the delta that was asked for, by epsilon.
        at_fpr: and at the false positive rate, by the best attack's true positive rate; None where it has no proof.
        fits: the mu that each comes close to; None where none does.
    """

    found: ProfileComparison
    at_delta: PointComparison
    at_fpr: PointComparison | None
    fits: tuple[GaussianDPFit | None, GaussianDPFit | None]

    @property
    def messages(self) -> tuple[Message, ...]:
        """Which protects better, and whether the smaller epsilon is the weaker guarantee."""
        outcome, at_delta, at_fpr = self.found.outcome, self.at_delta, self.at_fpr
        tolerance = {} if outcome in ("neither", "open") else {"tolerance": self.found.tolerance}
        statement = Message.of(f"compare/{outcome}", **tolerance)
        if at_fpr is None or {at_delta.better, at_fpr.better} != {"first", "second"}:
            return (statement,)
        small, other = at_delta.better, at_fpr.better
        weaker = Message.of(
            "compare/weaker",
            delta=at_delta.first.given[0][1],
            fpr=at_fpr.first.given[0][1],
            less=Message(f"better/{small}"),
            more=Message(f"better/{other}"),
            upper=getattr(at_delta, small).upper,
            lower=getattr(at_delta, other).lower,
            least=getattr(at_fpr, small).lower,
            most=getattr(at_fpr, other).upper,
        )
        return statement, weaker


def compare_releases(
    first: Release,
    second: Release,
    *,
    delta: float,
    fpr: float,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
) -> ReleaseComparison:
    """Compare two releases for a reader: whole curves, and one delta and one false positive rate of interest.

    Args:
        first: a release.
        second: another, for the same neighbors.
        delta: the delta of the reported epsilons.
        fpr: the false positive rate of the reported attacks.
        relation: which data sets are neighbors.

    Raises:
        UnsupportedMechanismError: no method has a proof for a part of one under this relation.

    >>> from epsilog.mechanisms import Gaussian
    >>> compare_releases(Gaussian(2.0), Gaussian(1.0), delta=1e-6, fpr=0.01).found.outcome
    'first'
    """
    delta, fpr = check.in_open_interval(0, 1)(delta=delta), check.in_open_interval(0, 1)(fpr=fpr)
    deltas, fprs = sorted({*DELTAS, delta}, reverse=True), sorted({*FPRS, fpr})
    found = compare_profiles(
        first, second, deltas=deltas, fprs=fprs, relation=relation, tolerance=_TOLERANCE, relative_width=_RELATIVE_WIDTH
    )
    at_fpr = found.at_fprs[fprs.index(fpr)] if found.at_fprs else None
    fits = (fit_gaussian_dp_quickly(first, relation), fit_gaussian_dp_quickly(second, relation))
    return ReleaseComparison(found, found.at_deltas[deltas.index(delta)], at_fpr, fits)
