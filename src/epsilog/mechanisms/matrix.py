"""Matrix mechanisms: training with correlated noise, and who takes part when.

Round t releases the t-th row of C^-1 (C G + Z): the clipped sum G of the round plus noise that is correlated over
rounds. An observer learns C G + Z with Z independent Gaussian. All entries of C are at least 0, and C is lower
triangular except for trees. A unit contributes at most the clip norm to each round in which it takes part.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, repeat
from operator import mul
from typing import Annotated, ClassVar

from epsilog.mechanisms.balls_in_bins import BallsInBins
from epsilog.mechanisms.base import Release
from epsilog.mechanisms.composition import Composed
from epsilog.mechanisms.gaussian import MOST_NOISE, Gaussian
from epsilog.numerics.rounding import ONCE, round_down, round_outward, round_up
from epsilog.terms import CheckError, NeighboringRelation, check
from epsilog.terms.fields import DOWN, Field, document_fields, term

MOST_BUFFERS = 64  # a few are as good as any number
_SHARES = 10**9  # to whole parts of which a chance is rounded up
_STATIONARY = 4  # roundings of a chance in the stationary state: a product, a sum and a quotient


@term("toeplitz-strategy")
class ToeplitzStrategy:
    """A strategy matrix C with constant diagonals, given by its first column; shorter than the rounds means banded."""

    coefficients: Annotated[
        tuple[float, ...],
        Field(
            "first column, from the diagonal down; at least 0, the first above 0; (1,) is independent noise", "c", ge=0
        ),
    ]

    def __post_init__(self) -> None:
        check.check_fields(self)
        if not self.coefficients:
            raise CheckError("coefficients", "empty", "()", verb="not be")
        check.positive()(coefficients=self.coefficients[0])


@term("dense-strategy")
class DenseStrategy:
    """Any lower-triangular strategy matrix C."""

    rows: Annotated[
        tuple[tuple[float, ...], ...],
        Field("rows; row t has t + 1 entries, each at least 0, the last (the diagonal) above 0", "C", ge=0),
    ]

    def __post_init__(self) -> None:
        check.check_fields(self)
        if not self.rows:
            raise CheckError("rows", "empty", "()", verb="not be")
        for t, row in enumerate(self.rows):
            if len(row) != t + 1:
                raise CheckError("rows", f"lower triangular: row {t} must have {t + 1} entries", f"{len(row)}")
            check.positive()(rows=row[-1])


@term("tree-strategy")
class TreeAggregationStrategy:
    """Tree aggregation (DP-FTRL): of every complete block of 1, 2, 4, 8, ... rounds, in a row, the sum is released.

    C has a row for each block [j 2^h, (j + 1) 2^h) that ends by the last round: 1 for the rounds in it, else 0. Prefix
    sums, with any weights of blocks, are post-processing of this release.

    Source:
        Kairouz, McMahan, Song, Thakkar, Thakurta & Xu 2021 (arXiv:2103.00039), Appendix B.
    """


@document_fields
@dataclass(frozen=True, slots=True)
class BufferedToeplitzStrategy:
    """A buffered linear Toeplitz matrix (BLT) by its parameters: its column is 1, then sum_i w_i d_i^(t-1).

    ``ToeplitzStrategy(strategy.column(rounds))`` is the same matrix written out.

    Source:
        Dvijotham, McMahan, Pillutla, Steinke & Thakurta 2024 (arXiv:2404.16706), where they are theta and omega.
    """

    decays: Annotated[
        tuple[float, ...],
        Field("decay factor of each buffer per round, in [0, 1)", "d", ge=0, lt=1),
    ]
    weights: Annotated[
        tuple[float, ...],
        Field("weight of each buffer in the noise that a round cancels, at least 0", "w", ge=0),
    ]

    def __post_init__(self) -> None:
        check.check_fields(self)
        if not 1 <= len(self.decays) <= MOST_BUFFERS:
            raise CheckError("decays", f"1 to {MOST_BUFFERS} numbers", f"{len(self.decays)}", verb="be")
        if len(self.weights) != len(self.decays):
            raise CheckError("weights", f"as many as decays, {len(self.decays)}", f"{len(self.weights)}")

    def column(self, rounds: int) -> tuple[float, ...]:
        """Return the first column for this many rounds; each entry has at most (rounds + 1) roundings of itself.

        >>> BufferedToeplitzStrategy(decays=(0.5,), weights=(0.5,)).column(4)
        (1.0, 0.5, 0.25, 0.125)
        """
        return _column(self, check.integer(1)(rounds=rounds))

    def turns(self, rounds: int, separation: int) -> tuple[float, float]:
        """Return what a unit with a turn every ``separation`` rounds, from the first on, makes of C: both rounded up.

        Returns:
            The norm of the sum of its columns, which no unit with fewer turns, or with later ones as far apart,
            exceeds; and the largest entry of that sum.

        >>> norm, row = BufferedToeplitzStrategy(decays=(0.5,), weights=(0.5,)).turns(4, 2)
        >>> round(norm**2, 6), round(row, 6)  # 1, 0.5, 1 + 0.25, 0.5 + 0.125
        (3.203125, 1.25)
        """
        return _turns(self, check.integer(1)(rounds=rounds), check.integer(1)(separation=separation))


@lru_cache(maxsize=4)
def _column(strategy: BufferedToeplitzStrategy, rounds: int) -> tuple[float, ...]:
    pairs = zip(strategy.weights, strategy.decays, strict=True)
    fading = (accumulate(repeat(decay, rounds - 2), mul, initial=weight) for weight, decay in pairs)
    return (1.0, *map(math.fsum, zip(*fading, strict=True))) if rounds > 1 else (1.0,)


@lru_cache(maxsize=64)
def _turns(strategy: BufferedToeplitzStrategy, rounds: int, separation: int) -> tuple[float, float]:
    """Sum and products of numbers that are not below 0: each rounding moves the result by a rounding at most.

    An entry of the column has T summands, one per turn, and few roundings in squares and roots. The bound allows twice
    as many, which also covers underflow, since the norm is at least 1.
    """
    seen = list(_column(strategy, rounds))
    for t in range(separation, rounds):
        seen[t] += seen[t - separation]
    outwards = 1.0 + (rounds + rounds // separation + 8) * 2.0**-52
    return outwards * math.sqrt(math.fsum(one * one for one in seen)), outwards * max(seen)


CYCLE_LENGTH = Field("slots in a cycle", "b", ge=1)


class _Participation:
    """Who takes part in which rounds. Abstract."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check.check_fields(self)

    def batches(self, rounds: int) -> list[tuple[float, int]] | None:  # noqa: ARG002
        """Return the batches of a release of this many rounds: see ``Release.batches``."""
        return None


@term("full-participation")
class FullParticipation(_Participation):
    """Every unit takes part in every round: no sampling."""


@term("bounded-participation")
class BoundedParticipation(_Participation):
    """Every unit takes part in few rounds, far apart; they may be public, so nothing is sampled.

    One pass over the data is one participation; several, in the same order, are a pass's rounds apart.
    """

    max_participations: Annotated[int, Field("largest number of rounds that one unit takes part in", "k", ge=1)]
    min_separation: Annotated[int, Field("minimum distance between two of them; 1 means no condition", "b", ge=1)] = 1


@term("balls-in-bins-participation")
class BallsInBinsParticipation(_Participation):
    """Balls-in-bins: each unit draws one slot of the cycle at random and keeps it in every cycle; slots stay hidden."""

    cycle_length: Annotated[int, CYCLE_LENGTH]

    def batches(self, rounds: int) -> list[tuple[float, int]]:
        """Return the slots."""
        return [(round_up(1 / self.cycle_length, ONCE), min(self.cycle_length, rounds))]


@term("min-sep-participation")
class MinSepParticipation(_Participation):
    """b-min-sep: a unit joins with a fixed chance unless it took part in the last b - 1 rounds (b = 1: Poisson)."""

    min_separation: Annotated[int, Field("smallest distance between two participations", "b", ge=1)]
    probability: Annotated[float, Field("probability of joining when allowed, in (0, 1]", "p", gt=0, le=1)]
    warm_start: Annotated[
        bool, Field("whether the process starts in its stationary state instead of with every unit available")
    ] = False

    def batches(self, rounds: int) -> list[tuple[float, int]]:
        """Who is free in a round joins; who joined b rounds ago, or was free and did not, is free."""
        separation, chance = self.min_separation, self.probability
        if self.warm_start:  # stationary: free in a share f of the rounds, f + (b - 1) p f = 1
            return [(round_up(chance / (1 + (separation - 1) * chance), _STATIONARY), rounds)]
        free = [1.0]
        for t in range(1, rounds):
            free.append((1 - chance) * free[t - 1] + (chance * free[t - separation] if t >= separation else 0.0))
        groups = Counter(math.ceil(one * _SHARES) / _SHARES for one in free)  # it settles: most of them are one number
        return [(round_up(chance * one, 4 * rounds + 8), count) for one, count in groups.items()]


@term("cyclic-participation")
class CyclicPoissonParticipation(_Participation):
    """Cyclic Poisson: each unit draws one slot of the cycle, and joins with a fixed chance whenever its slot comes."""

    cycle_length: Annotated[int, CYCLE_LENGTH]
    probability: Annotated[
        float, Field("probability of joining in the unit's slot, in (0, 1]; 1 is balls-in-bins", "p", gt=0, le=1)
    ]

    def batches(self, rounds: int) -> list[tuple[float, int]]:
        """A slot that comes, and a coin."""
        return [(round_up(self.probability / self.cycle_length, ONCE), rounds)]


@term("random-allocation-participation")
class RandomAllocationParticipation(_Participation):
    """k of t, or random allocation: each unit is in exactly this many rounds, drawn uniformly and hidden."""

    participations: Annotated[int, Field("number of rounds that each unit takes part in", "k", ge=1)]

    def batches(self, rounds: int) -> list[tuple[float, int]]:
        """Any round alike."""
        return [(round_up(self.participations / rounds, ONCE), rounds)]


Strategy = ToeplitzStrategy | DenseStrategy | TreeAggregationStrategy
Participation = (
    FullParticipation
    | BoundedParticipation
    | BallsInBinsParticipation
    | MinSepParticipation
    | CyclicPoissonParticipation
    | RandomAllocationParticipation
)


@term("matrix-mechanism")
class MatrixMechanism(Release):
    """A whole training run with correlated noise."""

    strategy: Annotated[Strategy, Field("the matrix C", "C")]
    participation: Annotated[
        Participation,
        Field("participation; if random: hidden, independent per unit, no batch truncated"),
    ]
    rounds: Annotated[int, Field("training rounds", "T", ge=1)]
    noise_stddev: Annotated[
        float,
        Field(
            "standard deviation of Z divided by the clip norm (not by the norm of a column); 0 gives no privacy",
            "σ",
            ge=0,
            rounding=DOWN,
        ),
    ]

    proofs: ClassVar[tuple[str, ...]] = ("accounting/matrices",)
    assumes: ClassVar[tuple[str, ...]] = ("assumes/independent-participation",)

    def __post_init__(self) -> None:
        check.check_fields(self)
        if isinstance(self.strategy, DenseStrategy) and len(self.strategy.rows) != self.rounds:
            raise CheckError("rounds", f"the number of rows, {len(self.strategy.rows)}", f"{self.rounds}")
        if (
            isinstance(self.participation, RandomAllocationParticipation)
            and self.participation.participations > self.rounds
        ):
            raise CheckError(
                "participations", f"at most rounds = {self.rounds}", f"{self.participation.participations}"
            )

    def parts(self) -> tuple[tuple[Release, int], ...] | None:
        """Balls in bins, where the noise is independent and slots are drawn."""
        match self.strategy, self.participation:
            case ToeplitzStrategy((scale, *others)), BallsInBinsParticipation(bins) if not any(others):
                if self.rounds % bins == 0:
                    return ((BallsInBins(Gaussian(self.noise_stddev / scale), bins, self.rounds // bins), 1),)
        return None

    def between(self) -> tuple[Release, Release]:
        """Return the Gaussian of its sensitivity, which is known from both sides (docs/accounting/matrices.md)."""
        from epsilog.mechanisms.matrix_sensitivity import matrix_sensitivity

        noise = self.noise_stddev
        moved = matrix_sensitivity(self)
        weak, strong = round_down(noise / moved.upper, ONCE), round_up(noise / moved.lower, ONCE)
        least = Gaussian(strong) if math.isfinite(strong) and (strong > 0 or noise == 0) else Composed([])
        return Gaussian(min(weak, MOST_NOISE)), least

    def batches(self) -> list[tuple[float, int]] | None:
        """Those of its rounds."""
        return self.participation.batches(self.rounds)

    def as_matrix(self, count: int = 1) -> MatrixMechanism | None:
        """Itself, once."""
        return self if count == 1 else None

    def with_noise(self, noise: float) -> MatrixMechanism:
        """With another ``noise_stddev``."""
        return replace(self, noise_stddev=noise)

    def for_group(self, relation: NeighboringRelation, units: int, *, above: bool) -> MatrixMechanism:  # noqa: ARG002
        """Divide the noise."""
        return replace(self, noise_stddev=round_outward(Fraction(self.noise_stddev) / units, up=not above))
