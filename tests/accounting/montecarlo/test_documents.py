"""Evidence holds counts that can have happened, and nothing else."""

import pytest

from epsilog.accounting.montecarlo import shards, tilt
from epsilog.accounting.montecarlo.documents import Evidence, trial_from_json, trial_json
from epsilog.accounting.montecarlo.pairs import pair_of
from epsilog.accounting.montecarlo.payoff import HockeyStick
from epsilog.mechanisms import BallsInBins, Gaussian
from epsilog.numerics.pairs import Direction

BINS = BallsInBins(Gaussian(1.0), bins=16)
HOW, PAYOFF = tilt.Tilt("remove", 4.0), HockeyStick(1.0)
TRIAL = shards.Trial(BINS, PAYOFF, HOW, tilt.log_bound(pair_of(BINS), HOW, PAYOFF), 3 * shards.SHARD - 100)
FULL = (shards.SHARD, shards.SHARD, shards.SHARD - 100)


@pytest.mark.parametrize("shard", range(3))
@pytest.mark.parametrize("hits", [-1, "one more", 1.0, True])
def test_no_shard_has_more_hits_than_draws(shard, hits):
    counts = [0, 0, 0]
    counts[shard] = FULL[shard] + 1 if hits == "one more" else hits
    with pytest.raises(ValueError, match=r"hits\S* must be"):
        Evidence(TRIAL, tuple(counts))


def test_counts_of_all_shards_are_the_whole_and_fewer_are_a_beginning():
    assert Evidence(TRIAL, FULL).total == TRIAL.samples
    assert Evidence(TRIAL, FULL).whole
    assert not Evidence(TRIAL, FULL[:2]).whole
    for wrong in ((), (*FULL, 0)):
        with pytest.raises(ValueError, match="hits must have 1 to 3 entries"):
            Evidence(TRIAL, wrong)


@pytest.mark.parametrize("direction", [Direction.REMOVE, Direction.ADD])
def test_a_direction_is_written_as_plain_text_and_read_as_itself(direction):
    trial = shards.Trial(BINS, PAYOFF, tilt.Tilt(direction, 2.0), 1.0, 100)
    written = trial_json(trial)
    assert type(written["direction"]) is str
    assert written["direction"] == direction.value
    assert trial_from_json(written).tilt.direction is direction


@pytest.mark.parametrize("direction", ["plain", "both", Direction.BOTH, "Remove", None])
def test_draws_know_two_directions_only(direction):
    with pytest.raises(ValueError, match="direction must be one of remove, add"):
        tilt.Tilt(direction)
