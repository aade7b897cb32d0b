import json

import pytest

from epsilog import accounting
from epsilog.accounting import montecarlo
from epsilog.accounting.montecarlo import strategies
from epsilog.mechanisms import MatrixMechanism, Repeated
from epsilog.plan.noise_comparison import compare_noise_strategies
from epsilog.terms import codec

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def comparison():
    return compare_noise_strategies(rounds=64, cycle_length=16, epsilon=2.0, delta=1e-5, seed=1, bands=[4])


def test_rows_rise_and_the_sentence_names_the_winner(comparison):
    errors = [row.error for row in comparison.rows]
    assert errors == sorted(errors)
    assert comparison.winner.name in str(comparison.sentence)
    assert len(comparison.rows) == 3


def test_every_row_meets_the_goal(comparison):
    """By its certified accountant, by the oracle, or by Monte Carlo evidence at failure 1e-6 with 15% room."""
    assert [row.certified for row in comparison.rows].count(True) == 2
    for row in comparison.rows:
        if isinstance(row.release, Repeated):
            assert row.certified
            assert accounting.delta(row.release, epsilon=2.0).upper <= 1e-5
        elif row.certified:
            exact = montecarlo.compute_balls_in_bins_delta(
                bins=16, noise_stddev=row.noise_stddev, epsilon=2.0, epochs=4
            )
            assert exact.upper <= 1e-5
        else:
            found = montecarlo.bound_delta(row.release, epsilon=2.0, relative_width=0.1, seed=2).interval
            assert 0.85e-5 <= found.estimate <= 1.15e-5


def test_the_error_is_noise_times_the_strategys(comparison):
    for row in comparison.rows:
        if isinstance(row.release, MatrixMechanism):
            carried = strategies.compute_prefix_error(row.release.strategy, 64)
            assert row.error == pytest.approx(row.noise_stddev * carried)


def test_json_says_which_rows_may_be_claimed(comparison):
    assert comparison.sentence.id == "noise/winner-estimated"
    document = json.loads(json.dumps(comparison.to_json()))
    assert document["winner"] == comparison.winner.name
    assert document["sentence"] == comparison.sentence.to_json()
    for row, written in zip(comparison.rows, document["rows"], strict=True):
        assert codec.decode(written["release"]) == row.release
        assert (written["noise_stddev"], written["error"], written["certified"]) == (
            row.noise_stddev,
            row.error,
            row.certified,
        )


def test_a_little_less_noise_would_miss_the_goal():
    found = compare_noise_strategies(rounds=16, cycle_length=16, epsilon=2.0, delta=1e-5, seed=1, bands=[])
    noise = next(row.noise_stddev for row in found.rows if "balls-in-bins" in row.name)
    delta = [
        montecarlo.compute_balls_in_bins_delta(bins=16, noise_stddev=z, epsilon=2.0) for z in (noise, 0.999 * noise)
    ]
    assert delta[0].upper <= 1e-5 < delta[1].lower
