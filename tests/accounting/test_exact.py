"""Pure losses add up without round-off, and are rounded once, outwards."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from epsilog.accounting import epsilon
from epsilog.mechanisms import Composed, DiscreteLaplace, Gaussian, Laplace, PoissonSampled, PureDP, Repeated
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.rounding import round_outward
from epsilog.terms import NeighboringRelation

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE


@pytest.mark.slow
@given(st.fractions(0, 10**300))
def test_rounding_takes_the_nearest_double_on_its_side(number):
    low, high = round_outward(number, up=False), round_outward(number, up=True)
    assert Fraction(low) <= number <= Fraction(high)
    assert high in (low, math.nextafter(low, math.inf))


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.sampled_from(["laplace", "pure", "discrete"]), st.floats(1e-3, 1e3), st.integers(1, 10**6)),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([ADD, REPLACE]),
)
def test_the_interval_is_two_neighboring_doubles_around_the_sum(parts, relation):
    far = 2 if relation is REPLACE else 1
    kinds = {"laplace": Laplace, "pure": PureDP, "discrete": lambda scale: DiscreteLaplace(scale, sensitivity=3)}
    costs = {
        "laplace": lambda noise: far / Fraction(noise),
        "pure": Fraction,
        "discrete": lambda scale: 3 * far / Fraction(scale),
    }
    truth = sum(count * costs[kind](at) for kind, at, count in parts)
    found = epsilon(
        Composed([Repeated(kinds[kind](at), count) for kind, at, count in parts]), delta=0.0, relation=relation
    )
    assert Fraction(found.lower) <= truth <= Fraction(found.upper)
    assert found.upper <= math.nextafter(found.lower, math.inf)


@pytest.mark.parametrize("other", [Gaussian(1.0), PoissonSampled(PureDP(1.0), 0.5), Laplace(0.0)])
def test_other_releases_are_not_taken_for_pure(other):
    assert Composition.of(Composed([PureDP(1.0), other])).pure_loss is None
