"""A release on a Poisson sample."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar

from epsilog import numerics
from epsilog.mechanisms.base import ON_SAMPLE, Release
from epsilog.mechanisms.composition import compose_mu, flatten, require_absent_output, require_unshuffled
from epsilog.mechanisms.gaussian import Gaussian
from epsilog.numerics.rounding import round_outward
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError
from epsilog.terms.fields import UP, Field, term
from epsilog.terms.formatting import format_decimal

if TYPE_CHECKING:
    from epsilog.mechanisms.matrix import MatrixMechanism


@term("poisson-sampled")
class PoissonSampled(Release):
    """Each unit takes part independently with the same probability; the sample stays hidden."""

    release: Annotated[Release, ON_SAMPLE]
    sampling_probability: Annotated[
        float, Field("probability that a unit takes part, in [0, 1]", "q", ge=0, le=1, rounding=UP)
    ]

    is_sample: ClassVar[bool] = True
    is_amplified: ClassVar[bool] = True
    assumes: ClassVar[tuple[str, ...]] = ("assumes/sampled-independently", "assumes/whole-samples")
    assumes_of_statements: ClassVar[tuple[str, ...]] = ("assumes/stated-on-every-sample",)

    def parts(self) -> tuple[tuple[Release, int], ...] | None:
        """Nothing, of a sample without units; the release itself, of all units."""
        if self.sampling_probability == 1:
            return ((self.release, 1),)
        return () if self.sampling_probability == 0 else None

    @property
    def sampled_gaussian(self) -> tuple[float, float] | None:
        """Where a Gaussian is sampled once."""
        inner = self.release
        return (inner.noise_multiplier, self.sampling_probability) if isinstance(inner, Gaussian) else None

    @property
    def exact_share(self) -> Fraction:
        """``sampling_probability``."""
        return Fraction(self.sampling_probability)

    @property
    def claimed_sample(self) -> str:
        """``sampling_probability``."""
        return format_decimal(self.sampling_probability)

    def between(self) -> tuple[Release, Release] | None:
        """Of a sample of a sample, or of a mixture: samples with the product of all chances, rounded up and down."""
        chance = Fraction(self.sampling_probability)
        above, below = (self.release.subsample(chance, above=side) for side in (True, False))
        return None if above is None or below is None else (above, below)

    @property
    def proofs(self) -> tuple[str, ...]:  # type: ignore[override]
        """That of samples of samples, and those of what is sampled."""
        return ("accounting/certified-bounds, 1.10", *self.release.proofs)

    def subsample(self, chance: Fraction, *, above: bool) -> Release:
        """With the product of both chances."""
        chance *= Fraction(self.sampling_probability)
        found = self.release.subsample(chance, above=above)
        return PoissonSampled(self.release, round_outward(chance, up=above)) if found is None else found

    def batches(self) -> list[tuple[float, int]]:
        """One."""
        return [(self.sampling_probability, 1)]

    def compute_sampled_count(self, units: int) -> numerics.counts.CountDistribution | None:
        """Return the distribution of the number of units in the sample."""
        from epsilog.numerics.counts import binomial

        return binomial(units, self.sampling_probability, above=True)

    def as_matrix(self, count: int = 1) -> MatrixMechanism | None:
        """Independent noise, and a cycle of one slot."""
        from epsilog.mechanisms.matrix import CyclicPoissonParticipation, MatrixMechanism, ToeplitzStrategy

        if not isinstance(self.release, Gaussian) or self.sampling_probability == 0:
            return None
        drawn = CyclicPoissonParticipation(1, self.sampling_probability)
        return MatrixMechanism(ToeplitzStrategy((1.0,)), drawn, count, self.release.noise_multiplier)

    def with_noise(self, noise: float) -> Release:
        """With another noise inside."""
        return replace(self, release=self.release.with_noise(noise))

    def pairs(self, relation: NeighboringRelation, effort: numerics.pairs.Effort) -> numerics.pairs.Pairs:
        """Return the sampled pairs; under replace-one they are separate symmetric pairs."""
        require_absent_output(self, self.release, relation)
        require_unshuffled(self, self.release)
        if relation is NeighboringRelation.REPLACE_ONE:
            return numerics.pairs.plain(self._build_replace_one_pairs())
        bases, instances = self.release.base_pairs(relation), self.release.instances(alone=effort.alone)
        return numerics.pairs.build_sampled_pairs(bases, (self.sampling_probability,) * 2, instances)

    def _build_replace_one_pairs(self) -> numerics.pairs.BasePairs:
        """Return pairs of the unit's absence and both contributions (docs/accounting/replace-one.md)."""
        sample, share = flatten(self.release), self.sampling_probability
        if not sample:
            return numerics.pairs.use_exact_pair(numerics.pairs.pure(0.0, 0.0))
        bases = next(iter(sample)).replace_one_pairs(sample, share)
        if bases is None:
            reason = (
                f"under {NeighboringRelation.REPLACE_ONE} Poisson sampling has a proven pair over Gaussian noise, over "
                "Laplace noise and over one discrete noise"
            )
            raise UnsupportedMechanismError(self, method=numerics.pairs.METHOD, reason=reason)
        return bases

    def group_pairs(self, relation: NeighboringRelation, units: int) -> numerics.pairs.Pairs:
        """A mixture of Gaussians: how many of the group are in the sample.

        Source:
            Ganesh 2024 (arXiv:2401.10294); docs/accounting/groups.md.
        """
        mu = compose_mu(flatten(self.release), relation)
        if mu is not None and relation is not NeighboringRelation.REPLACE_ONE:
            found = numerics.mixtures.poisson_group(mu, self.sampling_probability, units)
            if found is not None:
                return found
        return Release.group_pairs(self, relation, units)

    def rdp(self, orders: numerics.renyi.Array, relation: NeighboringRelation) -> numerics.renyi.Array:
        """A sampled Gaussian.

        Source:
            Mironov, Talwar & Zhang 2019, Theorem 4 (arXiv:1908.10530).
        """
        if self.sampling_probability == 0:
            return 0 * orders
        if self.sampling_probability == 1:
            return self.release.rdp(orders, relation)
        if relation is NeighboringRelation.REPLACE_ONE or not isinstance(self.release, Gaussian):
            raise UnsupportedMechanismError(self, method="RDP", reason=f"under {relation}")
        noise, plain = self.release.noise_multiplier, self.release.rdp(orders, relation)
        if noise > 1e100:  # no contribution is visible, sampled or not; squares would overflow
            return plain
        if noise < 1e-100:  # the least loss of a sampled round is beyond what doubles can tell from infinity
            return math.inf * orders
        sampled = numerics.renyi.sampled_rdp(noise, self.sampling_probability, orders)
        return numerics.renyi.least(sampled, plain)  # by convexity

    @property
    def attains_rdp(self) -> bool:  # type: ignore[override]
        """Of Gaussians with noise and a probability that leave every step of the bound its digits."""
        inner = self.release
        return isinstance(inner, Gaussian) and 1e-6 < inner.noise_multiplier < 1e6 and self.sampling_probability > 1e-12

    def rdp_orders(self, orders: numerics.renyi.Array) -> numerics.renyi.Array:
        """Whole ones: the bound at others is a chord."""
        return numerics.renyi.floor_orders(orders)
