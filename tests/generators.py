"""Hypothesis strategies: random releases of every kind, small enough to be priced in milliseconds."""

from __future__ import annotations

import dataclasses
import types
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from epsilog.mechanisms import (
    ApproximateDP,
    BallsInBins,
    BestOfTrials,
    BinomialTrialCount,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    Grouped,
    Laplace,
    MatrixMechanism,
    MixtureOfGaussians,
    NegativeBinomialTrialCount,
    PoissonSampled,
    PoissonTrialCount,
    PureDP,
    RandomizedResponse,
    Release,
    Repeated,
    ReportNoisyMax,
    Shuffled,
    SparseVector,
    Staircase,
    ToeplitzStrategy,
    TrialDistribution,
    TruncatedPoissonSampled,
    ZeroConcentratedDP,
)
from epsilog.terms import NeighboringRelation, codec
from epsilog.terms.fields import Field


def noises(low: float = 0.5, high: float = 30.0) -> st.SearchStrategy[float]:
    """Noise multipliers."""
    return st.floats(low, high)


def shares() -> st.SearchStrategy[float]:
    """Sampling probabilities."""
    return st.floats(1e-3, 0.9)


def bases() -> st.SearchStrategy[Release]:
    """Single unsampled releases that both relations can price."""
    return st.one_of(
        noises().map(Gaussian),
        noises().map(Laplace),
        st.builds(DiscreteGaussian, noises(1.0), st.integers(1, 3)),
        st.builds(DiscreteLaplace, noises(1.0), st.integers(1, 3)),
        st.builds(ExponentialMechanism, st.floats(0.01, 2.0), st.booleans()),
        st.builds(Staircase, st.floats(0.01, 2.0), st.none() | st.floats(0, 1)),
        st.builds(ReportNoisyMax, st.floats(0.01, 2.0), st.sampled_from(["exponential", "laplace"]), st.booleans()),
        st.builds(SparseVector, noises(1.0), noises(1.0), st.integers(1, 3), st.booleans()),
        st.floats(0.01, 2.0).map(PureDP),
        st.builds(ApproximateDP, st.floats(0.01, 2.0), st.floats(0, 1e-9)),
    )


def mixtures(
    moves: st.SearchStrategy[float] | None = None, noise: st.SearchStrategy[float] | None = None, most: int = 4
) -> st.SearchStrategy[Release]:
    """Mixtures of Gaussians; probabilities add up to 1 but for rounding, and may be next to none."""
    moved = st.one_of(st.just(0.0), st.floats(0.01, 2.0) if moves is None else moves)
    part = st.tuples(moved, st.sampled_from([1.0, 7.0, 1e-9, 1e-300]))

    def mixed(noise: float, parts: list[tuple[float, float]]) -> Release:
        total = sum(size for _, size in parts)
        return MixtureOfGaussians(noise, tuple(move for move, _ in parts), tuple(size / total for _, size in parts))

    return st.builds(mixed, noises(1.0) if noise is None else noise, st.lists(part, min_size=1, max_size=most))


def singles(relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE) -> st.SearchStrategy[Release]:
    """Single releases, sampled or not, that ``relation`` can price."""
    if relation is NeighboringRelation.REPLACE_ONE:
        sampled = st.builds(lambda base, m: FixedSizeSampled(base, m, 100), bases(), st.integers(1, 60))
        response = st.builds(RandomizedResponse, st.floats(0.05, 0.95), st.integers(2, 6))
        noise = st.one_of(
            noises().map(Gaussian),
            noises().map(Laplace),
            st.builds(DiscreteGaussian, noises(1.0), st.integers(1, 3)),
            st.builds(DiscreteLaplace, noises(1.0), st.integers(1, 3)),
        )
        return st.one_of(bases(), sampled, response, mixtures(), st.builds(PoissonSampled, noise, shares()))
    return st.one_of(bases(), st.builds(PoissonSampled, bases(), shares()), mixtures())


def releases(relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE) -> st.SearchStrategy[Release]:
    """Mixes of a few releases, each repeated."""
    repeated = st.builds(Repeated, singles(relation), st.integers(1, 60))
    return st.lists(repeated, min_size=1, max_size=3).map(Composed)


EDGES = (
    5e-324, 1e-310, 1e-160, 1e-20, 1e-5, 0.01, 0.1, 0.5, 1.0, 3.0, 20.0, 600.0, 24_999.0, 25_000.0, 1e9, 1e160, 1.7e308,
)  # fmt: skip
"""Parameters where something begins: subnormal, tiny, usual, beyond a lattice, beyond a square, huge."""

COUNTS = (1, 2, 3, 16, 17, 32, 33, 64, 65, 100, 256, 257, 1000, 4096, 10**5, 10**6)
"""Whole numbers about which a method may change."""


def edges(low: float = 0.0, high: float = 2e308) -> st.SearchStrategy[float]:
    """Parameters, usual ones in half of the cases."""
    return st.one_of(noises(max(low, 0.3), min(high, 30.0)), st.sampled_from([x for x in EDGES if low <= x <= high]))


def chances() -> st.SearchStrategy[float]:
    """Sampling probabilities up to 1, next to none and next to all among them."""
    return st.one_of(shares(), st.sampled_from([5e-324, 1e-300, 1e-12, 1e-4, 1 - 2**-53, 1.0]))


def counts() -> st.SearchStrategy[int]:
    """Whole numbers from 1 on."""
    return st.one_of(st.integers(1, 60), st.sampled_from(COUNTS))


def extremes() -> st.SearchStrategy[Release]:
    """Single unsampled releases of every kind with any parameters that they accept."""
    small = edges(0.0, 600.0)
    return st.one_of(
        st.builds(Gaussian, edges()),
        st.builds(Laplace, edges()),
        st.builds(DiscreteGaussian, edges(), counts()),
        st.builds(DiscreteLaplace, edges(), counts()),
        st.builds(ExponentialMechanism, edges(), st.booleans()),
        st.builds(Staircase, edges(5e-324), st.none() | st.floats(0, 1)),
        st.builds(ReportNoisyMax, edges(), st.sampled_from(["gumbel", "exponential", "laplace"]), st.booleans()),
        st.builds(SparseVector, edges(), edges(), st.integers(1, 3), st.booleans()),
        st.builds(RandomizedResponse, st.floats(0, 1), st.integers(2, 6)),
        st.builds(PureDP, edges()),
        st.builds(ApproximateDP, small, st.sampled_from([0.0, 5e-324, 1e-12, 1e-6, 0.5, 1.0])),
        st.builds(ZeroConcentratedDP, edges()),
        st.builds(GaussianDP, edges()),
        mixtures(edges(), edges()),
    )


def trials() -> st.SearchStrategy[object]:
    """Laws of the number of trials."""
    return st.one_of(
        st.builds(BinomialTrialCount, st.sampled_from(COUNTS), st.sampled_from([0.01, 0.5, 0.999, 1.0])),
        st.builds(PoissonTrialCount, st.sampled_from([0.01, 1.0, 20.0, 1000.0])),
        st.builds(
            NegativeBinomialTrialCount, st.sampled_from([-0.5, 0.0, 1.0, 5.0]), st.sampled_from([1e-3, 0.1, 0.9])
        ),
    )


def sampled(base: st.SearchStrategy[Release]) -> st.SearchStrategy[Release]:
    """A base in every kind of sample."""
    return st.one_of(
        st.builds(PoissonSampled, base, chances()),
        st.builds(lambda one, q, p: PoissonSampled(PoissonSampled(one, q), p), base, chances(), chances()),
        st.builds(TruncatedPoissonSampled, base, chances(), counts(), counts()),
        st.builds(lambda one, n, part: FixedSizeSampled(one, int(n * part), n), base, counts(), st.floats(0, 1)),
        st.builds(BallsInBins, base, counts(), counts()),
        st.builds(Shuffled, base, counts()),
    )


def anything() -> st.SearchStrategy[Release]:
    """Mixes of whatever can be said: sampled, repeated, the best of trials, of groups, one in another."""
    single = st.one_of(extremes(), bases(), sampled(extremes()), sampled(bases()))
    wrapped = st.one_of(single, single, st.builds(BestOfTrials, single, trials()), st.builds(Grouped, single, counts()))
    repeated = st.builds(Repeated, wrapped, counts())
    return st.one_of(
        wrapped,
        repeated,
        st.lists(repeated, min_size=1, max_size=3).map(Composed),
        st.builds(Grouped, repeated, counts()),
        st.builds(BestOfTrials, repeated, trials()),
    )


SPECIAL = {
    "composed": lambda: st.lists(described("laplace", "gaussian"), max_size=2).map(Composed),
    "mixture-of-gaussians": mixtures,
    "fixed-size-sampled": lambda: st.builds(
        lambda base, size: FixedSizeSampled(base, size, 100), bases(), st.integers(0, 100)
    ),
    "matrix-mechanism": lambda: st.builds(
        MatrixMechanism,
        st.builds(ToeplitzStrategy, st.lists(st.floats(0.1, 1.0), min_size=1, max_size=3).map(tuple)),
        described("full-participation", "bounded-participation"),
        st.integers(1, 8),
        noises(),
    ),
}
"""Terms whose fields depend on one another."""


def described(*tags: str) -> st.SearchStrategy[Any]:
    """Terms whose fields lie within the bounds that their descriptions state, and that are cheap to price."""
    return st.one_of([SPECIAL[tag]() if tag in SPECIAL else _built(codec.type_of[tag]) for tag in tags])


def _built(kind: type) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind, include_extras=True)
    stated = {one.name: get_args(hints[one.name])[:2] for one in dataclasses.fields(kind)}
    return st.builds(kind, **{name: _of(hint, field) for name, (hint, field) in stated.items()})


def _of(hint: Any, field: Field) -> st.SearchStrategy[Any]:
    if get_origin(hint) is types.UnionType:
        return st.one_of([_of(one, field) for one in get_args(hint)])
    if hint is types.NoneType:
        return st.none()
    if field.choices:
        return st.sampled_from(sorted(field.choices))
    if hint is Release:
        return st.one_of(noises().map(Gaussian), noises().map(Laplace), st.floats(0.01, 2.0).map(PureDP))
    if hint is TrialDistribution:
        return trials()
    low = next((one for one in (field.ge, field.gt) if one is not None), 0)
    high = next((one for one in (field.le, field.lt) if one is not None), 30)
    if hint is int:
        return st.integers(int(low), min(int(high), 6))
    return st.booleans() if hint is bool else st.floats(low + 0.01, min(high, 30) - 0.01)
