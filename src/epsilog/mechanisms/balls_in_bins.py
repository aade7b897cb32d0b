"""A release in each round of an epoch, where each unit takes part in one of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar

from epsilog import numerics
from epsilog.mechanisms.base import Release
from epsilog.mechanisms.composition import Repeated, compose_mu, flatten, require_absent_output
from epsilog.mechanisms.gaussian import Gaussian
from epsilog.numerics.rounding import ONCE, round_up
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError, check
from epsilog.terms.fields import Field, term

if TYPE_CHECKING:
    from epsilog.mechanisms.matrix import MatrixMechanism


@term("balls-in-bins")
class BallsInBins(Release):
    """Each unit is put into one of ``bins`` rounds at random and takes part in that round of every epoch."""

    release: Annotated[Release, Field("release of each round")]
    bins: Annotated[int, Field("rounds in an epoch", "b", ge=1)]
    epochs: Annotated[int, Field("number of epochs, all with the same assignment", "E", ge=1)] = 1

    is_sample: ClassVar[bool] = True
    is_binned: ClassVar[bool] = True
    is_amplified: ClassVar[bool] = True
    assumes: ClassVar[tuple[str, ...]] = ("assumes/random-bins", "assumes/whole-samples")
    assumes_of_statements: ClassVar[tuple[str, ...]] = ("assumes/stated-on-every-sample",)

    def parts(self) -> tuple[tuple[Release, int], ...] | None:
        """Return the release in each epoch, where there is one bin."""
        return ((self.release, self.epochs),) if self.bins == 1 else None

    def batches(self) -> list[tuple[float, int]]:
        """Return the bins."""
        return [(round_up(1 / self.bins, ONCE), self.bins)]

    def as_matrix(self, count: int = 1) -> MatrixMechanism | None:
        """Return the participation: independent noise, and whole cycles with one slot per bin."""
        from epsilog.mechanisms.matrix import BallsInBinsParticipation, MatrixMechanism, ToeplitzStrategy

        rounds = self.bins * self.epochs
        if count > 1 or not isinstance(self.release, Gaussian) or rounds > check.LARGEST_INTEGER:
            return None
        noise = self.release.noise_multiplier
        return MatrixMechanism(ToeplitzStrategy((1.0,)), BallsInBinsParticipation(self.bins), rounds, noise)

    def with_noise(self, noise: float) -> Release:
        """With another noise inside."""
        return replace(self, release=self.release.with_noise(noise))

    def reveal_samples(self, relation: NeighboringRelation) -> Release:
        """Return the release of each epoch if the bins are known."""
        return Repeated(self.release.reveal_samples(relation), self.epochs)

    def allocation(self, relation: NeighboringRelation) -> tuple[int, float]:
        """Return the distance of the base Gaussians over the noise, all epochs of the same bins together."""
        if relation is NeighboringRelation.REPLACE_ONE:
            raise self._refusal(f"no pair is proven under {relation}")
        require_absent_output(self, self.release, relation)
        base = compose_mu(flatten(self.release), relation)
        if base is None:
            raise self._refusal("only independent Gaussian noise is proven")
        return self.bins, math.sqrt(self.epochs) * base

    def _refusal(self, reason: str) -> UnsupportedMechanismError:
        return UnsupportedMechanismError(self, method="balls-in-bins", reason=reason)

    def pairs(self, relation: NeighboringRelation, effort: numerics.pairs.Effort) -> numerics.pairs.Pairs:
        """Sum of likelihood ratios, bounded in the convex order (docs/accounting/balls-in-bins.md)."""
        from epsilog.numerics.balls_in_bins.pair import build_balls_in_bins_pair

        return build_balls_in_bins_pair(*self.allocation(relation), effort.tail_mass)
