"""A release on a sample of a fixed size."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar

from epsilog import numerics
from epsilog.mechanisms.base import ON_SAMPLE, Release
from epsilog.mechanisms.composition import compose_mu, flatten, require_unshuffled
from epsilog.numerics.rounding import round_outward
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError
from epsilog.terms.fields import Field, term


@term("fixed-size-sampled")
class FixedSizeSampled(Release):
    """A sample of exactly ``sample_size`` of ``population`` units, drawn without replacement; it stays hidden."""

    release: Annotated[Release, ON_SAMPLE]
    sample_size: Annotated[int, Field("units in each sample, at most population", "m", ge=0, le_field="population")]
    population: Annotated[int, Field("number of units; public", "N", ge=1)]

    is_sample: ClassVar[bool] = True
    is_amplified: ClassVar[bool] = True
    fixes_population: ClassVar[bool] = True
    assumes: ClassVar[tuple[str, ...]] = ("assumes/fixed-size-samples",)
    assumes_of_statements: ClassVar[tuple[str, ...]] = ("assumes/stated-on-every-sample",)

    @property
    def claimed_sample(self) -> str:
        """Both sizes."""
        return f"{self.sample_size} of {self.population}"

    def parts(self) -> tuple[tuple[Release, int], ...] | None:
        """Nothing, of a sample without units."""
        return () if self.sample_size == 0 else None

    @property
    def exact_share(self) -> Fraction:
        """Return the size of the sample over that of the population."""
        return Fraction(self.sample_size, self.population)

    def compute_sampled_count(self, units: int) -> numerics.counts.CountDistribution | None:
        """Those that are drawn."""
        from epsilog.numerics.counts import hypergeometric

        return hypergeometric(self.population, min(units, self.population), self.sample_size, above=True)

    def pairs(self, relation: NeighboringRelation, effort: numerics.pairs.Effort) -> numerics.pairs.Pairs:
        """Return the sampled pairs."""
        if relation is not NeighboringRelation.REPLACE_ONE:
            reason = f"a fixed size means replace-one, not {relation}"
            raise UnsupportedMechanismError(self, method=numerics.pairs.METHOD, reason=reason)
        require_unshuffled(self, self.release)
        exact = self.exact_share
        bases, instances = self.release.base_pairs(relation), self.release.instances(alone=effort.alone)
        return numerics.pairs.build_sampled_pairs(
            bases, (round_outward(exact, up=False), round_outward(exact, up=True)), instances
        )

    def group_pairs(self, relation: NeighboringRelation, units: int) -> numerics.pairs.Pairs:
        """A mixture of Gaussians: how many of the group are in the sample (docs/accounting/groups.md)."""
        mu = compose_mu(flatten(self.release), relation)
        if mu is not None and relation is NeighboringRelation.REPLACE_ONE:
            found = numerics.mixtures.fixed_size_group(mu, self.population, self.sample_size, units)
            if found is not None:
                return found
        return Release.group_pairs(self, relation, units)
