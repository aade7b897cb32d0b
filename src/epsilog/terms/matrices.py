"""Matrix mechanisms: training with correlated noise, and who takes part when.

Round t releases the t-th row of C^-1 (C G + Z), that is the clipped sum G of the round plus noise that is correlated
over rounds; what an observer learns is C G + Z with Z independent Gaussian. C is lower triangular and entrywise at
least 0. A unit contributes to the rounds in which it takes part, each contribution at most the clip norm.
"""

from __future__ import annotations

from dataclasses import dataclass

from epsilog.terms import check, codec
from epsilog.terms.errors import CheckError
from epsilog.terms.mechanisms import Release


@codec.term("toeplitz-strategy")
@dataclass(frozen=True, slots=True)
class ToeplitzStrategy:
    """A strategy matrix C with constant diagonals, given by its first column; shorter than the rounds means banded.

    Attributes:
        coefficients: the first column, from the diagonal down; at least 0, the first above 0; (1,) is independent.
    """

    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        check.fields(self, coefficients=check.each(check.at_least(0)))
        if not self.coefficients:
            raise CheckError("coefficients", "empty", "()", verb="not be")
        check.positive()(coefficients=self.coefficients[0])


@codec.term("dense-strategy")
@dataclass(frozen=True, slots=True)
class DenseStrategy:
    """Any lower-triangular strategy matrix C.

    Attributes:
        rows: row t has t + 1 entries, each at least 0, the last (the diagonal) above 0.
    """

    rows: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        check.fields(self, rows=check.each(check.each(check.at_least(0))))
        if not self.rows:
            raise CheckError("rows", "empty", "()", verb="not be")
        for t, row in enumerate(self.rows):
            if len(row) != t + 1:
                raise CheckError("rows", f"lower triangular: row {t} must have {t + 1} entries", f"{len(row)}")
            check.positive()(rows=row[-1])


@codec.term("every-round")
@dataclass(frozen=True, slots=True)
class EveryRound:
    """Every unit takes part in every round: no sampling."""


@codec.term("binned-participation")
@dataclass(frozen=True, slots=True)
class BinnedParticipation:
    """Balls-in-bins: each unit draws one slot of the cycle at random and keeps it in every cycle; slots stay hidden.

    Attributes:
        cycle_length: slots in a cycle, b.
    """

    cycle_length: int

    def __post_init__(self) -> None:
        check.fields(self, cycle_length=check.integer(1))


@codec.term("spaced-participation")
@dataclass(frozen=True, slots=True)
class SpacedParticipation:
    """b-min-sep: a unit joins with a fixed chance unless it took part in the last b - 1 rounds (b = 1: Poisson).

    Attributes:
        min_separation: b, the least distance between two participations.
        probability: the chance to join when allowed, in (0, 1].
        warm_start: whether the process starts in its stationary state instead of with everybody allowed.
    """

    min_separation: int
    probability: float
    warm_start: bool = False

    def __post_init__(self) -> None:
        check.fields(
            self,
            min_separation=check.integer(1),
            probability=check.share(),
            warm_start=check.flag(),
        )


@codec.term("cyclic-participation")
@dataclass(frozen=True, slots=True)
class CyclicParticipation:
    """Cyclic Poisson: each unit draws one slot of the cycle, and joins with a fixed chance whenever its slot comes.

    Attributes:
        cycle_length: slots in a cycle, b.
        probability: the chance to join at one's slot, in (0, 1]; 1 is balls-in-bins.
    """

    cycle_length: int
    probability: float

    def __post_init__(self) -> None:
        check.fields(self, cycle_length=check.integer(1), probability=check.share())


Strategy = ToeplitzStrategy | DenseStrategy
Participation = EveryRound | BinnedParticipation | SpacedParticipation | CyclicParticipation


@codec.term("matrix-mechanism")
@dataclass(frozen=True, slots=True)
class MatrixMechanism(Release):
    """A whole training run with correlated noise.

    Attributes:
        strategy: the matrix C.
        participation: who takes part when; drawn independently per unit, hidden, without truncated batches.
        rounds: training rounds, T.
        noise_stddev: standard deviation of Z over the clip norm (not over the norm of a column); 0: no privacy.
    """

    strategy: Strategy
    participation: Participation
    rounds: int
    noise_stddev: float

    def __post_init__(self) -> None:
        kinds = (EveryRound, BinnedParticipation, SpacedParticipation, CyclicParticipation)
        check.fields(
            self,
            strategy=check.instance((ToeplitzStrategy, DenseStrategy)),
            participation=check.instance(kinds),
            rounds=check.integer(1),
            noise_stddev=check.at_least(0),
        )
        if isinstance(self.strategy, DenseStrategy) and len(self.strategy.rows) != self.rounds:
            raise CheckError("rounds", f"the number of rows, {len(self.strategy.rows)}", f"{self.rounds}")
