"""Distributions of counts, against SciPy: the chance of each, of none, and of more than all."""

import math

import pytest
from scipy import stats

from epsilog.numerics import mixtures
from epsilog.numerics.counts import binomial, compute_upper_quantile, hypergeometric
from epsilog.numerics.pairs import AdjacencyType
from epsilog.terms import CalibrationError


@pytest.mark.parametrize(("population", "marked", "drawn"), [(50, 5, 8), (50, 8, 5), (1000, 1, 300), (30, 20, 15)])
@pytest.mark.parametrize("above", [True, False])
def test_draws_without_replacement(population, marked, drawn, above):
    found, known = hypergeometric(population, marked, drawn, above=above), stats.hypergeom(population, marked, drawn)
    assert found.chances == pytest.approx(known.pmf(found.values), rel=1e-9)
    assert found.rest == pytest.approx(known.pmf(0), rel=1e-9, abs=1e-90)
    assert found.least == pytest.approx(known.logpmf(0), rel=1e-9)
    assert found.beyond == 0.0


@pytest.mark.parametrize(("trials", "chance"), [(8, 0.5), (100, 0.03), (12, 1e-4)])
def test_draws_with_replacement(trials, chance):
    found, known = binomial(trials, chance, above=True), stats.binom(trials, chance)
    assert found.chances == pytest.approx(known.pmf(found.values), rel=1e-9)
    assert found.rest == pytest.approx(known.pmf(0), rel=1e-9)
    assert found.least == pytest.approx(trials * math.log1p(-chance), rel=1e-12)
    for rare in (0.3, 1e-3, 1e-9):
        assert compute_upper_quantile(found, rare) == known.isf(rare)


def test_the_place_of_a_ratio_that_is_not_found_is_an_error(monkeypatch):
    found = mixtures.mixture(binomial(8, 0.3, above=True), 1.0, AdjacencyType.REMOVE)
    assert found.masses([-math.inf, 0.0, 1.0, math.inf]).p.sum() == pytest.approx(1.0)
    monkeypatch.setattr(mixtures, "_ROUNDS", 1)
    with pytest.raises(CalibrationError, match="could not be inverted"):
        found.masses([-math.inf, 0.0, 1.0, math.inf])
