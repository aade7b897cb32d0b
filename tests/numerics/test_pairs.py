"""What a dominating pair says of its own largest loss."""

import math

import numpy as np
import pytest

from epsilog.numerics.distributions.base import DiscretePair, GaussianPair
from epsilog.numerics.pairs import AdjacencyType, DominatingPair


@pytest.mark.parametrize("q", [1e-3, 0.3, 0.9])
def test_the_largest_loss_is_what_a_sample_cannot_hide(q):
    """Adding one unit: the loss is at most -log(1 - q). Removing it from a Gaussian: without bound."""
    low, high = DominatingPair(GaussianPair(1.0), q, AdjacencyType.ADD).largest_loss()
    assert low <= -math.log1p(-q) <= high
    assert high == pytest.approx(low, rel=1e-12)
    assert DominatingPair(GaussianPair(1.0), q, AdjacencyType.REMOVE).largest_loss() == (math.inf, math.inf)
    assert DominatingPair(GaussianPair(1.0)).largest_loss() == (math.inf, math.inf)
    coin = DiscretePair(np.array([-1.0, 1.0]), np.array([1.0, math.e]) / (1 + math.e))
    low, high = DominatingPair(coin, q, AdjacencyType.REMOVE).largest_loss()
    assert low <= math.log1p(q * math.expm1(1.0)) <= high == pytest.approx(low, rel=1e-12)


def test_the_outcomes_of_both_directions_are_no_table():
    """What is above 0 is of removing a unit and what is below of adding one: no pair has such atoms."""
    coin = DiscretePair(np.array([-1.0, 1.0]), np.array([1.0, math.e]) / (1 + math.e))
    assert DominatingPair(coin, 0.3, AdjacencyType.BOTH).outcomes() is None
    assert DominatingPair(GaussianPair(1.0), 0.3, AdjacencyType.ADD).outcomes() is None
    assert DominatingPair(coin, 0.3, AdjacencyType.ADD).outcomes() is not None
