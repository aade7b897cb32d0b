"""(epsilon, delta) statements are met at their own delta, exactly, whatever stands beside them."""

import math
from fractions import Fraction

import pytest
from hypothesis import example, given, settings, strategies as st

import epsilog as ep
from epsilog.accounting.account import compute_interval
from epsilog.accounting.delta_split import joint
from epsilog.mechanisms import ApproximateDP, Composed, Laplace, PureDP, Repeated
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt
from epsilog.terms import NeighboringRelation

ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1.0, 500.0])
@pytest.mark.parametrize("delta", [5e-324, 1e-300, 1e-6, 0.1, 1 - 2**-53])
def test_a_statement_holds_at_its_own_delta(epsilon, delta):
    one = ApproximateDP(epsilon, delta)
    found = ep.epsilon(one, delta=delta)
    assert found.upper == pytest.approx(epsilon, rel=1e-12)
    assert compute_interval(Composition.of(one, ADD_OR_REMOVE), EpsilonAt(delta), above=True)[0].upper == found.upper
    assert ep.epsilon(one, delta=math.nextafter(delta, 0)).upper == math.inf
    assert ep.epsilon(one, delta=math.nextafter(delta, 0)).lower == math.inf
    assert ep.delta(one, epsilon=epsilon).lower <= delta <= ep.delta(one, epsilon=epsilon).upper
    assert ep.delta(one, epsilon=2 * epsilon + 1e-9).upper == delta


def test_statements_add_up_to_their_joint_chance():
    two = Repeated(ApproximateDP(1.0, 1e-6), 2)
    joint = 1 - (1 - Fraction(1e-6)) ** 2
    least = float(joint) if Fraction(float(joint)) >= joint else math.nextafter(float(joint), 1)
    assert ep.epsilon(two, delta=least).upper == pytest.approx(2.0)
    assert ep.epsilon(two, delta=2e-6).upper <= 2.0000001
    assert ep.epsilon(two, delta=math.nextafter(least, 0)).upper == math.inf


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    chances=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 20)), min_size=1, max_size=6),
    rest=st.floats(0, 1),
    delta=st.floats(0, 1, exclude_max=True),
)
@example(chances=[(5e-324, 13), (5e-324, 20)], rest=0.0, delta=0.0)  # 33 least doubles, and a little less
def test_chances_are_bounded_from_both_sides(chances, rest, delta):
    mix = Composed(Repeated(ApproximateDP(1.0, chance), count) for chance, count in chances)
    taken = Composition.of(mix, ADD_OR_REMOVE).failing
    if taken is None:
        assert all(chance == 0 for chance, _ in chances)
        return
    survives = Fraction(1)
    for chance, count in chances:
        survives *= (1 - Fraction(chance)) ** count
    failure = joint(taken[1])
    assert Fraction(failure.low) <= 1 - survives <= Fraction(failure.high)
    low, high = failure.add_to(Bounds(rest, rest))
    whole = 1 - survives + survives * Fraction(rest)
    assert Fraction(low) <= whole <= Fraction(high)
    least, most = failure.remaining_delta(delta)
    if least is not None:
        assert Fraction(failure.add_to(Bounds(least, least)).upper) <= Fraction(math.nextafter(delta, 2))
        assert most is not None
        assert least <= most


@pytest.mark.parametrize("chance", [5e-324, 1e-300, 1e-12, 0.5, 1.0])
def test_many_statements(chance):
    count = 10**9
    taken = Composition.of(Repeated(ApproximateDP(1.0, chance), count), ADD_OR_REMOVE).failing
    assert taken is not None
    truth = -math.expm1(count * math.log1p(-chance)) if chance < 1 else 1.0
    found = joint(taken[1])
    assert found.low <= truth <= found.high <= min(1.0, truth * (1 + 1e-13) + 5e-324)


def test_delta_of_a_mix_is_the_known_sum():
    mix = Composed([Laplace(1.0), Repeated(ApproximateDP(0.5, 1e-3), 2)])
    pure = Composed([Laplace(1.0), Repeated(PureDP(0.5), 2)])
    for at in (0.0, 0.5, 1.5):
        alone, both = ep.delta(pure, epsilon=at), ep.delta(mix, epsilon=at)
        failing = 1 - (1 - 1e-3) ** 2
        assert both.upper == pytest.approx(failing + (1 - failing) * alone.upper, rel=1e-12)
        assert compute_interval(Composition.of(mix, ADD_OR_REMOVE), DeltaAt(at), above=True)[0].upper >= both.lower
    assert ep.delta(mix, epsilon=3.0).upper == pytest.approx(failing, rel=1e-12)
