"""What is no plan or no evidence of ours is refused, whatever is wrong with it."""

import copy
import json
from dataclasses import replace

import pytest
from tests.accounting.montecarlo.simulated import BINS, trial

from epsilog.accounting import montecarlo
from epsilog.accounting.montecarlo import noise_search, shards, tilt
from epsilog.accounting.montecarlo.documents import TrialEvidence, trial_from_json, trial_json
from epsilog.mechanisms import BallsInBins, Gaussian
from epsilog.numerics.pairs import AdjacencyType

TRIAL = trial(samples=3 * shards.SHARD - 100)
FULL = (shards.SHARD, shards.SHARD, shards.SHARD - 100)


def make_plan(noise=1.0, epsilon=1.0):
    return montecarlo.plan_delta_bound(BallsInBins(Gaussian(noise), 4), epsilon=epsilon, seed=3, samples=100)


@pytest.fixture(scope="module")
def plan():
    return make_plan()


@pytest.fixture(scope="module")
def swept():
    return noise_search.plan_noise_search(BINS, epsilon=1.0, target_delta=1e-3, seed=1, noises=(1.1, 1.0))


@pytest.fixture
def document(plan):
    return json.loads(json.dumps(plan.to_json()))


@pytest.mark.parametrize(
    "wrong", [{}, {"v": 1}, {"kind": "montecarlo-delta-bound"}, {"v": 1, "kind": []}, [], None, 7, "v"]
)
def test_what_is_no_plan_is_refused_in_words(wrong):
    with pytest.raises(
        ValueError, match=r"plan must be as plan_delta_bound or plan_noise_search wrote|kind must be one of"
    ):
        montecarlo.plan_from_json(wrong)


def test_a_plan_without_a_field_or_with_another_kind_of_value_is_refused(document):
    others = [
        document | {"kind": kind, field: value}
        for kind in ("montecarlo-delta-bound", "montecarlo-noise-search")
        for field in ("failure", "trials")
        for value in (None, "x", [], {}, [None], -1, [[]], [{}])
    ]
    others += [{key: value for key, value in document.items() if key != name} for name in document]
    for name in document["trials"][0]:
        for value in (None, "x", {}, [], -1):
            others.append(copy.deepcopy(document))
            others[-1]["trials"][0][name] = value if name != "log_bound" or value != -1 else "-1"
        others.append(copy.deepcopy(document))
        del others[-1]["trials"][0][name]
    others += [document | {"v": version} for version in (0, 2, -1, 1.0, True, False, "1", None)]
    for other in others:
        with pytest.raises(ValueError, match="must"):
            montecarlo.plan_from_json(other)


def test_a_bound_is_of_one_release_at_one_epsilon_in_both_directions(plan):
    one, other = plan.trials
    for wrong in (make_plan(noise=1.5), make_plan(epsilon=2.0)):
        with pytest.raises(ValueError, match="trials must be of one release at one epsilon"):
            replace(plan, trials=(one, wrong.trials[1]))
    for trials in ((), (one,), (one, one), (other, one), (one, other, one)):
        with pytest.raises(ValueError, match="trials must be of both directions"):
            replace(plan, trials=trials)
    for failure in (0.0, 1.0, -1.0, 2.0, float("nan")):
        with pytest.raises(ValueError, match="failure must be"):
            replace(plan, failure=failure)


@pytest.mark.slow
def test_a_sweep_is_of_one_release_in_order_at_one_epsilon(swept):
    """The claim is about the candidates that are tested, at the epsilon they are tested at, in both directions."""
    other = noise_search.plan_noise_search(
        BallsInBins(Gaussian(1.0), 99), epsilon=1.0, target_delta=1e-3, seed=1, noises=(1.1,)
    )
    first, second = swept.checks
    for says, change in (
        ("noises must fall", {"noises": swept.noises[::-1]}),
        ("checks must be numbered", {"checks": swept.checks[::-1]}),
        ("checks must match noises", {"checks": swept.checks[:1]}),
        ("checks must match noises", {"noises": (), "checks": ()}),
        ("checks must be at epsilon", {"epsilon": 0.5}),
        ("checks must be of one release", {"checks": ((first[0], other.checks[0][1]), second)}),
        ("checks must be of one release", {"noises": (1.2, 1.0)}),
    ):
        with pytest.raises(ValueError, match=says):
            replace(swept, **change)


@pytest.mark.parametrize("hits", [-1, "one more", 1.0, True])
def test_no_shard_has_more_hits_than_draws(hits):
    for shard in range(3):
        counts = [0, 0, 0]
        counts[shard] = FULL[shard] + 1 if hits == "one more" else hits
        with pytest.raises(ValueError, match=r"hits\S* must be"):
            TrialEvidence(TRIAL, tuple(counts))


def test_counts_of_all_shards_are_the_whole_and_fewer_are_a_beginning():
    assert TrialEvidence(TRIAL, FULL).total == TRIAL.samples
    assert TrialEvidence(TRIAL, FULL).is_complete
    assert not TrialEvidence(TRIAL, FULL[:2]).is_complete
    for wrong in ((), (*FULL, 0)):
        with pytest.raises(ValueError, match="hits must have 1 to 3 entries"):
            TrialEvidence(TRIAL, wrong)


def test_a_direction_is_written_as_plain_text_and_there_are_two():
    for direction in (AdjacencyType.REMOVE, AdjacencyType.ADD):
        written = trial_json(trial(direction=direction))
        assert type(written["direction"]) is str
        assert trial_from_json(written).tilt.direction is direction
    for wrong in ("plain", AdjacencyType.BOTH, "Remove", None):
        with pytest.raises(ValueError, match="direction must be one of remove, add"):
            tilt.Tilt(wrong)
