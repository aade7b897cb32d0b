"""Sensitivities of matrix mechanisms against every way to take part, one by one; prices against those of Gaussians."""

import itertools
import math

import numpy as np
import pytest

from epsilog.accounting import delta, epsilon, list_assumptions, mu, profile, rdp, rho
from epsilog.mechanisms import (
    BoundedParticipation,
    BufferedToeplitzStrategy,
    Composed,
    DenseStrategy,
    FullParticipation,
    Gaussian,
    GaussianDP,
    Laplace,
    MatrixMechanism,
    PoissonSampled,
    PureDP,
    Repeated,
    ToeplitzStrategy,
    TreeAggregationStrategy,
    ZeroConcentratedDP,
)
from epsilog.mechanisms.matrix_sensitivity import matrix_sensitivity
from epsilog.numerics.rounding import round_down, round_up
from epsilog.terms import NeighboringRelation

ADD, REPLACE, ZERO = NeighboringRelation


def written_out(release):
    """C with all its rows."""
    rounds, strategy = release.rounds, release.strategy
    if isinstance(strategy, TreeAggregationStrategy):
        sizes = [2**h for h in range(60) if 2**h <= rounds]
        blocks = [(j, j + size) for size in sizes for j in range(0, rounds - size + 1, size)]
        return np.array([[float(low <= t < high) for t in range(rounds)] for low, high in blocks])
    if isinstance(strategy, DenseStrategy):
        return np.array([[*row, *[0.0] * (rounds - len(row))] for row in strategy.rows])
    padded = [*strategy.coefficients, *[0.0] * rounds]
    return np.array([[padded[t - s] if t >= s else 0.0 for s in range(rounds)] for t in range(rounds)])


def worst(release):
    """The norm of C u over every way to take part, one by one."""
    rounds, kind, matrix = release.rounds, release.participation, written_out(release)
    most, apart = (rounds, 1) if isinstance(kind, FullParticipation) else (kind.max_participations, kind.min_separation)
    found, scale = 0.0, float(matrix.max())
    matrix /= scale
    for size in range(1, min(most, rounds) + 1):
        for ways in itertools.combinations(range(rounds), size):
            if all(later - one >= apart for one, later in itertools.pairwise(ways)):
                found = max(found, float(np.linalg.norm(matrix[:, list(ways)].sum(axis=1))))
    return scale * found


def mechanisms(seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        rounds = int(rng.integers(1, 11))
        turns = BoundedParticipation(int(rng.integers(1, rounds + 2)), int(rng.integers(1, rounds + 2)))
        size = 10.0 ** rng.integers(-200, 140)
        sparse = [(1.0, *row) for row in rng.random((rounds, rounds)) * (rng.random((rounds, rounds)) < 0.6)]
        column = rng.random(int(rng.integers(1, rounds + 3))) + 1e-3
        strategy = [
            TreeAggregationStrategy(),
            DenseStrategy(tuple(tuple(size * v for v in (*sparse[t][1 : t + 1], 0.5)) for t in range(rounds))),
            ToeplitzStrategy(tuple(size * column)),
            ToeplitzStrategy(tuple(size * -np.sort(-column))),
        ][rng.integers(4)]
        yield MatrixMechanism(strategy, FullParticipation() if rng.random() < 0.1 else turns, rounds, 1.0)


def is_exact(release):
    """Whether the page promises an exact sensitivity."""
    kind, strategy = release.participation, release.strategy
    if isinstance(kind, FullParticipation):
        return True
    if isinstance(strategy, ToeplitzStrategy):
        column = strategy.coefficients[: release.rounds]
        return len(column) <= kind.min_separation or all(a >= b for a, b in itertools.pairwise(column))
    return isinstance(strategy, TreeAggregationStrategy) and kind.max_participations == 1


@pytest.mark.slow
def test_every_way_to_take_part_is_within_the_bounds_and_where_the_page_says_so_they_meet():
    exact = 0
    for release in mechanisms(seed=1, count=250):
        found, truth = matrix_sensitivity(release), worst(release)
        assert round_down(found.lower, 20) <= truth <= round_up(found.upper, 20), release
        assert found.upper <= 1.3 * found.lower, release
        if is_exact(release):
            exact += 1
            assert found.upper <= found.lower * (1 + 1e-12), release
    assert exact > 80


def test_a_round_that_weighs_most_may_leave_no_place_for_another():
    """Both neighbors are too near: fewer turns than allowed are the worst, and each is counted once."""
    for least in (1.0, 1e-200):  # of which an entry may be far from the largest
        rows = ((least,), (0.0, 9.0), (0.0, 0.0, 2 * least))
        release = MatrixMechanism(DenseStrategy(rows), BoundedParticipation(2, 2), 3, 1.0)
        found = matrix_sensitivity(release)
        assert worst(release) == 9.0
        assert round_down(found.lower, 20) <= 9.0 <= round_up(found.upper, 20)


def test_the_first_turns_are_not_the_worst_of_any_column():  # the control: a rising column, which the page sets apart
    release = MatrixMechanism(ToeplitzStrategy((0.1, 1.0, 0.1, 2.0)), BoundedParticipation(3, 1), 10, 1.0)
    matrix = written_out(release)
    first = float(np.linalg.norm(matrix[:, :3].sum(axis=1)))
    found = matrix_sensitivity(release)
    assert first < 0.99 * worst(release) <= 0.99 * found.upper


def test_a_buffered_column_is_priced_as_its_scheme_prices_it():
    for separation, rounds in ((7, 100), (16, 64), (1, 40)):
        strategy = BufferedToeplitzStrategy((0.9, 0.5), (0.3, 0.1))
        norm, _ = strategy.turns(rounds, separation)
        turns = BoundedParticipation(rounds, separation)
        column = ToeplitzStrategy(strategy.column(rounds))
        assert matrix_sensitivity(MatrixMechanism(column, turns, rounds, 1.0)).upper == pytest.approx(norm, rel=1e-12)


@pytest.mark.slow
def test_a_tree_gone_through_once_is_as_dp_accounting_prices_it():
    from dp_accounting import NeighboringRelation as Theirs, dp_event
    from dp_accounting.rdp import RdpAccountant

    for rounds in (1, 2, 3, 4, 7, 8, 9, 1000, 1024, 4095, 4096):
        release = MatrixMechanism(TreeAggregationStrategy(), BoundedParticipation(1), rounds, 3.0)
        event = dp_event.SingleEpochTreeAggregationDpEvent(3.0, rounds)
        ours = rdp(release, np.array([2.0, 16.0]), relation=ZERO)
        accountant = RdpAccountant([2.0, 16.0], Theirs.REPLACE_SPECIAL).compose(event)
        assert ours == pytest.approx(np.array(accountant._rdp), rel=1e-12)


@pytest.mark.slow
def test_trees_of_many_rounds_have_close_bounds():
    for rounds, most, apart in ((2**20, 4, 2**18), (10**6, 10, 10**5), (5000, 10, 500), (2**20, 2**20, 1)):
        found = matrix_sensitivity(
            MatrixMechanism(TreeAggregationStrategy(), BoundedParticipation(most, apart), rounds, 1.0)
        )
        assert found.lower <= found.upper <= 1.05 * found.lower
    everyone = matrix_sensitivity(MatrixMechanism(TreeAggregationStrategy(), FullParticipation(), 2**20, 1.0))
    assert everyone.upper**2 == pytest.approx(2**20 * (2**21 - 1), rel=1e-12)


@pytest.mark.parametrize("relation", [ADD, REPLACE, ZERO])
def test_it_is_the_gaussian_of_its_sensitivity_alone_and_beside_others(relation):
    banded = MatrixMechanism(ToeplitzStrategy((3.0, 4.0)), BoundedParticipation(4, 25), 100, 20.0)
    gaussian = Gaussian(2.0)  # four columns of norm 5 that share no row: 10
    for release, same in (
        (banded, gaussian),
        (Repeated(banded, 9), Repeated(gaussian, 9)),
        (Composed([banded, Laplace(4.0), PureDP(0.1)]), Composed([gaussian, Laplace(4.0), PureDP(0.1)])),
        (Composed([banded, ZeroConcentratedDP(0.01)]), Composed([gaussian, ZeroConcentratedDP(0.01)])),
    ):
        found, truth = (epsilon(one, delta=1e-6, relation=relation) for one in (release, same))
        assert found.lower <= truth.upper * (1 + 1e-9)
        assert (found.lower, found.upper) == pytest.approx((truth.lower, truth.upper), rel=1e-9)
        at = delta(release, epsilon=1.0, relation=relation)
        assert at.upper == pytest.approx(delta(same, epsilon=1.0, relation=relation).upper, rel=1e-9)
    assert mu(banded, relation) == pytest.approx(mu(gaussian, relation), rel=1e-12)
    assert rho(banded, relation) == pytest.approx(rho(gaussian, relation), rel=1e-12)
    one, other = (profile(release, relation=relation) for release in (banded, gaussian))
    assert one.tpr(0.1).upper == pytest.approx(other.tpr(0.1).upper, rel=1e-6)
    for units in (1, 3):
        groups = [it.group_epsilon(units=units, delta=1e-6) for it in (one, other)]
        assert groups[0].upper == pytest.approx(groups[1].upper, rel=1e-9)
    assert "assumes/independent-participation" in {one.id for one in list_assumptions(Composed([banded, Laplace(1.0)]))}


def test_two_sides_are_told_apart_where_the_worst_way_is_not_known():
    loose = MatrixMechanism(TreeAggregationStrategy(), BoundedParticipation(10, 500), 5000, 8.0)
    moved = matrix_sensitivity(loose)
    found = epsilon(loose, delta=1e-6)
    assert found.lower == pytest.approx(epsilon(GaussianDP(moved.lower / 8), delta=1e-6).lower)
    assert found.upper == pytest.approx(epsilon(GaussianDP(moved.upper / 8), delta=1e-6).upper)
    assert profile(loose).tpr(0.1).lower < profile(loose).tpr(0.1).upper - 1e-3


@pytest.mark.parametrize(
    ("noise", "least", "most"), [(0.0, math.inf, math.inf), (1e300, 0, 1e-6), (1e-300, 1e300, math.inf)]
)
def test_no_noise_and_more_than_any(noise, least, most):
    release = MatrixMechanism(ToeplitzStrategy((1e-20, 1e-30)), BoundedParticipation(2), 5, noise)
    found = epsilon(release, delta=1e-6)
    assert (found.lower >= least, found.upper <= most) == (True, True)


TREE = MatrixMechanism(TreeAggregationStrategy(), BoundedParticipation(2), 8, 1.0)
BANDED = ToeplitzStrategy((1.0, 0.5))


def test_an_entry_below_zero_is_no_strategy():
    with pytest.raises(ValueError, match=r"coefficients\[1\] must be"):
        ToeplitzStrategy((1.0, -0.5))


@pytest.mark.parametrize("relation", [ADD, REPLACE, ZERO])
def test_a_sample_of_a_sample_has_both_chances(relation):
    nested = PoissonSampled(PoissonSampled(PoissonSampled(Gaussian(1.5), 0.5), 0.25), 0.125)
    same = PoissonSampled(Gaussian(1.5), 1 / 64)
    for count in (1, 50):
        found, truth = (epsilon(Repeated(it, count), delta=1e-6, relation=relation) for it in (nested, same))
        assert (found.lower, found.upper) == (truth.lower, truth.upper)
    uneven = PoissonSampled(PoissonSampled(Laplace(1.5), 0.1), 0.1)
    if relation is not REPLACE:
        found, truth = (
            delta(it, epsilon=0.0, relation=relation) for it in (uneven, PoissonSampled(Laplace(1.5), 0.01))
        )
        assert found.lower <= 0.01 * -math.expm1(-1 / 3) <= found.upper  # one hundredth of that of Laplace
        assert found.upper == pytest.approx(truth.upper, rel=1e-12)
    assert (
        list_assumptions(PoissonSampled(PoissonSampled(PureDP(1.0), 0.1), 0.1))[-1].id
        == "assumes/stated-on-every-sample"
    )
    zero = PoissonSampled(PoissonSampled(Gaussian(1.0), 5e-324), 5e-324)
    assert epsilon(zero, delta=1e-6, relation=relation).upper == 0


def test_absolute_values_bound_a_matrix_with_entries_below_0_whatever_units_send():
    """The claim of docs/accounting/matrices.md; with entries as they are the norm of equal vectors is no bound."""
    rng, passed = np.random.default_rng(8), 0
    for _ in range(50):
        rows = [tuple(rng.normal(size=t) + 3 * np.eye(t)[-1]) for t in range(1, 7)]
        strategy = DenseStrategy(tuple(tuple(abs(float(entry)) for entry in row) for row in rows))
        price = matrix_sensitivity(MatrixMechanism(strategy, BoundedParticipation(3), 6, 1.0)).upper
        signed = np.array([[*row, *[0.0] * (6 - len(row))] for row in rows])
        for turns in itertools.combinations(range(6), 3):
            sent = np.zeros((6, 2))
            sent[list(turns)] = (way := rng.normal(size=(3, 2))) / np.linalg.norm(way, axis=1, keepdims=True)
            found = np.linalg.norm(signed @ sent)
            assert found <= price
            passed += found > np.linalg.norm(signed[:, list(turns)].sum(axis=1))
    assert passed > 100
