"""A release: what was, or will be, computed from private data and shown.

A release says everything an accountant needs and nothing about how it was run. Sensitivities and noise multipliers
refer to *one unit's contribution*: the most that adding or removing a unit (or zeroing it out) moves the sum. Replacing
one unit by another moves it up to twice as far; accountants apply that factor, callers never do.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from epsilog import numerics
from epsilog.numerics.rounding import UNDERFLOW, round_outward
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError, check, codec
from epsilog.terms.fields import Field, list_fields
from epsilog.terms.formatting import format_decimal
from epsilog.terms.messages import Message

if TYPE_CHECKING:
    from epsilog.mechanisms.composition import ReleaseCounts
    from epsilog.mechanisms.matrix import MatrixMechanism
    from epsilog.mechanisms.sampling import RandBelow
    from epsilog.mechanisms.tuned import TrialDistribution
    from epsilog.numerics.distributions.base import BasePair

SENSITIVITY = "largest change of the sum by one privacy unit, in {} norm"

COUNT_SENSITIVITY = Field("largest change of the count by one privacy unit, a whole number", "Δ", ge=1)

MONOTONE = Field("whether no neighbor changes two scores in opposite directions; the loss is then at most epsilon / 2")

ON_SAMPLE = Field("release on the sample")


def sensitivity_factor(relation: NeighboringRelation) -> int:
    """How far one neighbor can move a sum, in contributions of one unit: 2 for replace-one, else 1."""
    return 2 if relation is NeighboringRelation.REPLACE_ONE else 1


def times(number: float, factor: int, *, above: bool) -> float:
    """A parameter times a whole number, rounded outwards; what no double holds becomes a very large one."""
    found = round_outward(Fraction(number) * factor, up=above)
    return found if math.isfinite(found) else 1e300


def half_square(distance: float) -> float:
    """Half the square of a distance from 0 on: what underflows is not nothing, what overflows is infinite."""
    return distance * distance / 2 + UNDERFLOW if distance > 0 else 0.0


def lacking(release: Release, hook: str, *, method: str) -> UnsupportedMechanismError:
    """The refusal of what a mechanism does not say of itself; it names the hook that would."""
    reason = f"{type(release).__name__} has no {hook}()"
    return UnsupportedMechanismError(release, method=method, reason=reason)


class Release:
    """Something that was, or will be, computed from private data and shown. Abstract; every subclass is final.

    A mechanism is one file: its fields, then the hooks below for which there is a proof. Each has a default that claims
    nothing.

    Attributes:
        is_sample: whether it is computed on a random part of the units.
        is_amplified: whether the accountant may use that a unit's part in it is random and hidden.
        fixes_population: whether it is for a fixed number of units, so that neighbors replace one.
        is_binned: whether each unit is in one of several rounds, so that its pairs have a tail that is cut.
        is_shuffled: whether it hides the reports of units among each other, so that in a sample it hides them less.
        has_pairs: whether anything has a pair of which nothing is known but what is said of this.
        proofs: the pages of docs/ that prove the two releases of ``between``.
        states_absence: whether it says what is released without the unit, where the relation puts nothing in its place.
        is_stated: whether nothing is known of it but what its fields state.
        attains_rdp: whether ``rdp`` rounds up what some neighbors attain, and bounds nothing beyond that.
        assumes: identifiers of what must be true of a run.
        assumes_of_statements: the same, where it is computed on what a statement inside it holds for.
    """

    __slots__ = ()

    is_sample: ClassVar[bool] = False
    is_amplified: ClassVar[bool] = False
    fixes_population: ClassVar[bool] = False
    is_binned: ClassVar[bool] = False
    is_shuffled: ClassVar[bool] = False
    has_pairs: ClassVar[bool] = True
    states_absence: ClassVar[bool] = True
    is_stated: ClassVar[bool] = False
    attains_rdp: ClassVar[bool] = False
    proofs: ClassVar[tuple[str, ...]] = ()
    assumes: ClassVar[tuple[str, ...]] = ()
    assumes_of_statements: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        check.check_fields(self)

    @property
    def inner(self) -> tuple[Release, ...]:
        """The releases that it is made of, with any of their parts inside them: those that its fields hold."""
        found = (getattr(self, name) for name in getattr(self, "__dataclass_fields__", ()))
        return tuple(one for one in found if isinstance(one, Release))

    def parts(self) -> tuple[tuple[Release, int], ...] | None:
        """Simpler releases, with their counts, that are together exactly the same; None if it is single already."""
        return None

    def singles(self) -> Iterator[Release]:
        """Yield the single releases that it is made of, as ``parts`` takes it apart."""
        simpler = self.parts()
        if simpler is None:
            yield self
        else:
            for one, _ in simpler:
                yield from one.singles()

    def assumptions(self) -> tuple[Message, ...]:
        """List what must be true of a run, beyond what is assumed of every release."""
        found = dict.fromkeys(map(Message, self.assumes))
        for one in (single for inside in self.inner for single in inside.singles()):
            found |= dict.fromkeys(one.assumptions())
            if one.statement:
                found |= dict.fromkeys(map(Message, self.assumes_of_statements))
        return tuple(found)

    def canonicalize(self) -> Release:
        """The same mechanism by its plainest name."""
        return self

    def reveal_samples(self, relation: NeighboringRelation) -> Release:
        """What dominates it for an adversary who sees every sample (docs/accounting/certified-bounds.md, 1.5).

        What is computed on a sample; of what has one ``release`` in it, the same with that revealed.
        """
        if not self.inner:
            return self
        inside = self.inner[0].reveal_samples(relation)
        made: Any = self
        return inside if self.is_sample else replace(made, release=inside)

    def without_sampling(self, relation: NeighboringRelation) -> Release:
        """The same for an adversary from whom nothing random about the unit's part is hidden."""
        return self.reveal_samples(relation)

    def gaussian_mu(self, relation: NeighboringRelation) -> float | None:  # noqa: ARG002
        """Return mu if the release is exactly one Gaussian, else None."""
        return None

    def pure_loss(self, relation: NeighboringRelation) -> Fraction | None:  # noqa: ARG002
        """The largest privacy loss, which neighbors attain and which adds up; None if that is not known."""
        return None

    def claim(self, relation: NeighboringRelation) -> dict[str, str | int]:
        """Return its type and parameters in a certificate (docs/accounting/certificates.md).

        By default the statement that it satisfies: mu-GDP, or pure DP. Numbers are the shortest decimals of its fields.

        Raises:
            UnsupportedMechanismError: no certificate covers it.
        """
        if (mu := self.gaussian_mu(relation)) is not None and math.isfinite(mu):
            return {"type": "gdp", "mu": format_decimal(mu)}
        if (loss := self.pure_loss(relation)) is None:
            raise UnsupportedMechanismError(self, method="a certificate")
        return {"type": "approximate", "epsilon": format_decimal(round_outward(loss, up=True)), "delta": "0"}

    @property
    def exact_share(self) -> Fraction | None:
        """The chance that a unit is in each sample; None of what is computed on no such sample."""
        return None

    @property
    def claimed_sample(self) -> str | None:
        """The chance of a unit to be in each sample, as a certificate states it; None where there is no sample."""
        return None

    def zcdp(self, relation: NeighboringRelation) -> float | None:
        """The rho of rho-zCDP that it satisfies, before rounding: by its mu, or by its largest loss; None if unknown.

        Source:
            Bun & Steinke 2016, Propositions 1.4 and 1.6 (arXiv:1605.02065).
        """
        if (mu := self.gaussian_mu(relation)) is not None:
            return half_square(mu)
        loss = self.pure_loss(relation)
        return None if loss is None else half_square(round_outward(loss, up=True))

    @property
    def statement(self) -> dict[str, float]:
        """Return its stated guarantees by quantity, if nothing else is known."""
        return {name: getattr(self, name) for name in list_fields(type(self))} if self.is_stated else {}

    @property
    def sampled_gaussian(self) -> tuple[float, float] | None:
        """Return noise multiplier and sampling probability if it is a Poisson-sampled Gaussian, else None."""
        return None

    def between(self) -> tuple[Release, Release] | None:
        """Return one release that loses no less and one that loses no more, if it has no direct bound.

        The pages that prove it are ``proofs``.

        Raises:
            UnsupportedMechanismError: neither it nor one of the two releases has a bound.
        """
        return None

    def subsample(self, chance: Fraction, *, above: bool) -> Release | None:  # noqa: ARG002
        """What a unit meets that is in a sample with a ``chance``, rounded outwards, if that is no plain sample."""
        return None

    def uncut(self) -> tuple[Release, tuple[int, float, int]] | None:
        """Return the release without truncation, and the truncation event: coins, their probability, the limit."""
        return None

    def failing(self) -> tuple[Release, float] | None:
        """The same without the chance that everything is given away, and that chance."""
        return None

    def batches(self) -> list[tuple[float, int]] | None:
        """Chances, rounded up, that a unit is in a batch, and how many batches have it; the same batch counts once.

        None where who takes part is not drawn, or not in batches.
        """
        return None

    def compute_sampled_count(self, units: int) -> numerics.counts.CountDistribution | None:  # noqa: ARG002
        """Return a dominating distribution of how many group members each sample has; None if there is no bound."""
        return None

    @property
    def group(self) -> tuple[Release, int] | None:
        """What is released, and how many of its units one person holds; None where that is one."""
        return None

    @property
    def repeats(self) -> int | None:
        """How often it repeats one release, as one plan; None if it repeats none."""
        return None

    @property
    def one_trial(self) -> tuple[Release, TrialDistribution] | None:
        """Return one trial and the distribution of the trial count, for a best of trials."""
        return None

    def sample(self, below: RandBelow = secrets.randbelow) -> int:  # noqa: ARG002
        """Draw its noise on one sum, exactly, in whole steps.

        Args:
            below: where randomness comes from; anything but the default is a simulation.

        Raises:
            UnsupportedMechanismError: no exact sampler is known.
        """
        raise UnsupportedMechanismError(self, method="exact sampling")

    def allocation(self, relation: NeighboringRelation) -> tuple[int, float] | None:  # noqa: ARG002
        """Bins, and the mu of what is computed in them in all epochs, of balls-in-bins over Gaussians; None of others.

        Raises:
            UnsupportedMechanismError: balls-in-bins over something else, or under replace-one.
        """
        return None

    def base_pairs(self, relation: NeighboringRelation) -> numerics.pairs.BasePairs:
        """Return base pairs of the unsampled release: one that dominates it, one that some neighbors attain.

        Known of Gaussians, and of what is exactly some simpler releases.

        Raises:
            UnsupportedMechanismError: no pair is proven.
        """
        from epsilog.mechanisms.composition import build_joint_pairs

        if self.parts() is None and self.gaussian_mu(relation) is None:
            raise lacking(self, "laws", method=numerics.pairs.METHOD)
        return build_joint_pairs(self, relation)

    def instances(self, *, alone: bool) -> Sequence[BasePair]:  # noqa: ARG002
        """Return several pairs that neighbors attain if the best depends on the question; more of them if ``alone``."""
        return ()

    def pairs(self, relation: NeighboringRelation, effort: numerics.pairs.Effort) -> numerics.pairs.Pairs:
        """Return dominating pairs by adjacency type, with pairs that some neighbors attain.

        Raises:
            UnsupportedMechanismError: none is proven.
        """
        return numerics.pairs.plain(self.base_pairs(relation), self.instances(alone=effort.alone))

    def group_pairs(self, relation: NeighboringRelation, units: int) -> numerics.pairs.Pairs:
        """Return pairs for a group of this many units that is in or out of the sample together.

        Raises:
            UnsupportedMechanismError: none is proven.
        """
        above, below = (self.for_group(relation, units, above=side) for side in (True, False))
        if above is None or below is None:
            raise UnsupportedMechanismError(self, method=numerics.pairs.METHOD, reason="no pair is proven for a group")
        return numerics.pairs.plain((above.base_pairs(relation)[0], below.base_pairs(relation)[1]))

    def replace_one_pairs(self, sample: ReleaseCounts, share: float) -> numerics.pairs.BasePairs | None:  # noqa: ARG002
        """Return base pairs of Poisson sampling under replace-one: absence and both contributions of the unit.

        Args:
            sample: all that is computed on the sample, with counts; this is the first.
            share: the chance of a unit to be in it.

        Returns:
            None where none is proven.
        """
        return None

    def shuffle_reports(self, units: int, largest: float) -> numerics.shuffling.Reports:  # noqa: ARG002
        """Return what is known of it as this many shuffled reports, beyond its maximum loss."""
        return numerics.shuffling.Reports()

    def rdp(self, orders: numerics.renyi.Array, relation: NeighboringRelation) -> numerics.renyi.Array:  # noqa: ARG002
        """Bound the Renyi divergence from above, in nats, at each order above 1; shape (k,) to (k,).

        Raises:
            UnsupportedMechanismError: no bound is proven.
        """
        raise lacking(self, "rdp", method="RDP")

    def rdp_orders(self, orders: numerics.renyi.Array) -> numerics.renyi.Array:
        """The orders not above those given at which ``rdp`` is known best."""
        return orders

    def for_group(self, relation: NeighboringRelation, units: int, *, above: bool) -> Release | None:  # noqa: ARG002
        """Return the release for a group of this many units, if every distance grows with the group.

        Rounded outwards: it loses no less ``above``, and no more otherwise. None if there is no such release
        (docs/accounting/groups.md).
        """
        return None

    def as_matrix(self, count: int = 1) -> MatrixMechanism | None:  # noqa: ARG002
        """Return the matrix mechanism that equals this many repetitions, for Monte Carlo, or None."""
        return None

    def with_noise(self, noise: float) -> Release:  # noqa: ARG002
        """The same with another noise parameter.

        Raises:
            UnsupportedMechanismError: it has no such parameter, or several.
        """
        raise UnsupportedMechanismError(self, method="a choice of noise", reason="there is no noise to choose")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values with a version; ``epsilog.from_json`` reads them."""
        return codec.to_json(self)
