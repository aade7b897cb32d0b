"""A release on a Poisson sample that is cut at a largest size."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

from epsilog import numerics
from epsilog.mechanisms.base import ON_SAMPLE, Release
from epsilog.mechanisms.composition import compose_mu, flatten
from epsilog.mechanisms.grouped import Grouped
from epsilog.mechanisms.poisson_sampled import PoissonSampled
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError
from epsilog.terms.fields import Field, term
from epsilog.terms.formatting import format_decimal


@term("truncated-poisson-sampled")
class TruncatedPoissonSampled(Release):
    """As ``PoissonSampled``, but of a sample that is too large the first ``max_batch_size`` units are kept.

    First in an order that the units' data have no part in: a random one, say, or that of their places.
    """

    release: Annotated[Release, ON_SAMPLE]
    sampling_probability: Annotated[float, Field("sampling probability before truncation, in [0, 1]", "q", ge=0, le=1)]
    population: Annotated[int, Field("largest number of units; public", "N", ge=1)]
    max_batch_size: Annotated[int, Field("largest number of units in a sample", ge=1)]

    is_sample: ClassVar[bool] = True
    assumes: ClassVar[tuple[str, ...]] = ("assumes/sampled-independently", "assumes/truncated-samples")
    assumes_of_statements: ClassVar[tuple[str, ...]] = ("assumes/stated-on-every-sample",)

    @property
    def claimed_sample(self) -> str:
        """The chance of a unit, and both sizes."""
        return f"{format_decimal(self.sampling_probability)}, at most {self.max_batch_size} of {self.population}"

    def parts(self) -> tuple[tuple[Release, int], ...] | None:
        """Return the plain sample if no batch is ever truncated."""
        if self.max_batch_size >= self.population or self.sampling_probability == 0:
            return ((PoissonSampled(self.release, self.sampling_probability), 1),)
        return None

    def uncut(self) -> tuple[Release, tuple[int, float, int]]:
        """Return the plain sample, which is cut where more than ``max_batch_size`` units are in it."""
        coins = (self.population, self.sampling_probability, self.max_batch_size)
        return PoissonSampled(self.release, self.sampling_probability), coins

    def reveal_samples(self, relation: NeighboringRelation) -> Release:
        """Return what is computed on the sample, for two units: one that joins may leave another one out."""
        revealed = self.release.reveal_samples(relation)
        return Grouped(revealed, 2) if relation is NeighboringRelation.ADD_OR_REMOVE_ONE else revealed

    def pairs(self, relation: NeighboringRelation, effort: numerics.pairs.Effort) -> numerics.pairs.Pairs:
        """Reveal whether the others alone fill the batch (docs/accounting/certified-bounds.md, 1.9).

        If they do not, nothing is truncated, with the unit or without. If they do, a sampled unit replaces another one,
        which stays hidden. Under zero-out the draw is revealed and its place is kept. A sample of at most the batch
        size is never truncated; this gives the lower bound.
        """
        plain = PoissonSampled(self.release, self.sampling_probability).pairs(relation, effort)
        mu = compose_mu(flatten(self.release), NeighboringRelation.ADD_OR_REMOVE_ONE)
        share = self.sampling_probability
        full = numerics.counts.binomial_tail(self.population - 1, share, self.max_batch_size - 1)
        uppers = None if mu is None else numerics.cut_samples.cut_samples(mu, share, full, relation)
        if uppers is None:
            reason = "a cut sample has a proven pair over Gaussian noise within reach only"
            raise UnsupportedMechanismError(self, method=numerics.pairs.METHOD, reason=reason)
        return {way: replace(plain[way], upper=((pair, 1),)) for way, pair in uppers.items()}
