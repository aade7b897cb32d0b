"""Discrete noise against the sum over all its outcomes, also where one unit moves the sum by several steps."""

import mpmath
import pytest

from epsilog.accounting import delta, epsilon
from epsilog.mechanisms import Composed, DiscreteGaussian, DiscreteLaplace, PoissonSampled, Repeated
from epsilog.terms import NeighboringRelation

CUT = 60  # leaves out 3e-9 of Laplace noise of scale 3
ADD = NeighboringRelation.ADD_OR_REMOVE_ONE


def masses(kind, scale, far=400):
    weigh = {
        DiscreteLaplace: lambda k: mpmath.exp(-abs(k) / mpmath.mpf(scale)),
        DiscreteGaussian: lambda k: mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * mpmath.mpf(scale) ** 2)),
    }[kind]
    weights = {k: weigh(k) for k in range(-far, far + 1)}
    total = mpmath.fsum(weights.values())
    return {k: w / total for k, w in weights.items()}


def hockey_stick(p, q, at):
    """Delta but for outcomes that were cut off in one of the two, which are nothing in truth."""
    return mpmath.fsum(max(p[k] - mpmath.exp(at) * q[k], 0) for k in p if k in q)


def shifted(law, by):
    return {k + by: mass for k, mass in law.items()}


def convolved(one, other):
    found = {}
    for i, a in one.items():
        for j, b in other.items():
            found[i, j] = a * b
    return found


@pytest.mark.slow_beyond(4)
@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize("shift", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("scale", [1.5, 4.0])
def test_delta_is_the_sum_over_all_outcomes(kind, shift, scale):
    with mpmath.workdps(40):
        law = masses(kind, scale)
        for at in (0.0, 0.3, 0.9, 1.3):
            truth = hockey_stick(shifted(law, shift), law, mpmath.mpf(at))
            found = delta(kind(scale, shift), epsilon=at)
            assert found.lower <= truth * (1 + mpmath.mpf("1e-25"))
            assert truth <= found.upper
            assert found.upper - found.lower <= 1e-3 * found.upper + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian])
def test_two_in_a_sample_or_together_are_the_sum_over_all_outcomes(kind):
    """A sampled release, and two releases of which the inner outcomes count."""
    with mpmath.workdps(40):
        law, other = masses(kind, 2.0, far=CUT), masses(kind, 3.0, far=CUT)
        share = mpmath.mpf("0.25")
        mixed = {k: (1 - share) * law.get(k, 0) + share * shifted(law, 3).get(k, 0) for k in range(-CUT, CUT + 4)}
        for at in (0.05, 0.2):
            ways = hockey_stick(mixed, law, mpmath.mpf(at)), hockey_stick(law, mixed, mpmath.mpf(at))
            found = delta(PoissonSampled(kind(2.0, 3), 0.25), epsilon=at, relation=ADD)
            assert found.lower <= max(ways) + mpmath.mpf("1e-8")
            assert max(ways) - mpmath.mpf("1e-8") <= found.upper
            assert found.upper - found.lower <= 0.01 * found.upper
        both = hockey_stick(convolved(shifted(law, 3), shifted(other, 2)), convolved(law, other), mpmath.mpf(1))
        found = delta(Composed([kind(2.0, 3), kind(3.0, 2)]), epsilon=1.0)
        assert found.lower <= both + mpmath.mpf("1e-8")
        assert both - mpmath.mpf("1e-8") <= found.upper
        assert found.upper - found.lower <= 0.01 * found.upper
    assert epsilon(Repeated(kind(20.0, 3), 2), delta=1e-5).relative_width < 0.01
