"""Hypothesis strategies: random releases of every kind, small enough to be priced in milliseconds."""

from __future__ import annotations

from hypothesis import strategies as st

from epsilog.terms import (
    ApproximateDP,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    NeighboringRelation,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Release,
    Repeated,
    ReportNoisyMax,
    SparseVector,
    Staircase,
)


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
        return st.one_of(bases(), sampled, response, st.builds(PoissonSampled, noise, shares()))
    return st.one_of(bases(), st.builds(PoissonSampled, bases(), shares()))


def releases(relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE) -> st.SearchStrategy[Release]:
    """Mixes of a few releases, each repeated."""
    repeated = st.builds(Repeated, singles(relation), st.integers(1, 60))
    return st.lists(repeated, min_size=1, max_size=3).map(Composed)
