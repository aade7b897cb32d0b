"""A round does what its scheme says: sensitivity, noise, cohorts and caps, seen in the records and in the model."""

import dataclasses

import numpy as np
import pytest
from tests.training.linear import LinearEngine

from epsilog.schemes import ClientLevelCentral, ExampleLevelClientSide
from epsilog.terms.codec import encode
from epsilog.training import Federation, Randomness, noise, rounds
from epsilog.training.engines.compiled import CompiledEngine
from epsilog.training.schemes.base import PADDING

CENTRAL = ClientLevelCentral(clients=12, sampling_probability=0.5, rounds=40, clip_norm=0.2, noise_multiplier=1.5)
CLIENT_SIDE = ExampleLevelClientSide(
    clients=12,
    cohort_size=5,
    rounds=12,
    max_participations=4,
    batch_probability=0.5,
    epochs=2,
    clip_norm=0.3,
    noise_multiplier=2.0,
)


def line(small_task, **settings):
    """A task for the engine of a few lines."""
    return small_task(widths=(3, 1), **settings)


def train(task, scheme, randomness, engine=LinearEngine):
    engine, outcomes = engine(task), [rounds.RoundResult(rounds.make_initial_state(task), None, None)]
    for _ in range(scheme.rounds):
        outcomes.append(rounds.compute_next_round(scheme, engine, outcomes[-1].state, randomness))
    return outcomes[1:]


@pytest.mark.slow
def test_one_example_moves_a_clients_upload_by_at_most_the_clip_a_step(small_task):
    def remove(_features, _targets, present):
        present[0, 0] = False

    scheme = dataclasses.replace(
        CLIENT_SIDE,
        noise_multiplier=0.0,
        batch_probability=1.0,
        epochs=1,
        rounds=1,
        max_participations=1,
        cohort_size=12,
    )
    settings = {"unit_is_client": False, "expected_examples": 4}
    full, less = (
        train(small_task(change=change, **settings), scheme, Randomness.from_seed(3), CompiledEngine)[0]
        for change in (None, remove)
    )
    moved = 12 * np.linalg.norm(full.state.model - less.state.model)
    assert 0 < moved <= 0.1 * 0.3 / 4 + 1e-15


@pytest.mark.slow
def test_nobody_takes_part_more_often_than_the_cap_and_the_rest_are_absent(small_task):
    outcomes = train(line(small_task, unit_is_client=False), CLIENT_SIDE, Randomness.from_seed(2))
    counts = np.bincount([one for outcome in outcomes for one in outcome.custody.participants], minlength=12)
    assert counts.max() == CLIENT_SIDE.max_participations
    assert np.array_equal(counts, outcomes[-1].state.participations)
    assert counts.sum() == 12 * 4  # 12 rounds of 5 would be 60: the last rounds run short
    assert len(outcomes[0].custody.participants) == 5
    assert len(outcomes[-1].record.padding) == len(outcomes[-1].custody.participants)


def test_the_public_record_holds_neither_cohort_nor_norm_nor_client_data(small_task):
    record = train(line(small_task), dataclasses.replace(CENTRAL, rounds=1), Randomness.from_seed(1))[0].record
    assert set(encode(record)) == {
        "type", "round", "output_hash", "noise_stddev", "clip_norm", "padding", "test_loss", "test_score",
            "unclipped", "diverged", "aborted",
    }  # fmt: skip
    assert len(record.padding) == PADDING


def test_an_empty_cohort_is_still_a_noisy_round(small_task):
    rare = dataclasses.replace(CENTRAL, sampling_probability=1e-9)
    outcome = train(line(small_task), dataclasses.replace(rare, rounds=1), Randomness.from_seed(1))[0]
    assert outcome.custody.participants == ()
    assert outcome.custody.clipped_fraction == 0
    assert not np.array_equal(outcome.state.model, rounds.make_initial_state(line(small_task)).model)


@pytest.mark.parametrize("noise_multiplier", [1e160, 1e300])
def test_a_model_without_a_finite_loss_is_released_and_its_record_says_so(small_task, noise_multiplier):
    scheme = dataclasses.replace(CENTRAL, noise_multiplier=noise_multiplier, rounds=1)
    outcome = train(small_task(), scheme, Randomness.from_seed(1), CompiledEngine)[0]
    assert outcome.record.diverged
    assert (outcome.record.test_loss, outcome.record.test_score) == (None, None)
    assert outcome.record.output_hash == rounds.hash_model(outcome.state.model)
    assert not train(line(small_task), dataclasses.replace(CENTRAL, rounds=1), Randomness.from_seed(1))[
        0
    ].record.diverged


@pytest.mark.parametrize(
    ("scheme", "unit_is_client", "error", "says"),
    [
        (CLIENT_SIDE, True, ValueError, "privacy_unit must be the unit that example-level-client-side protects"),
        (CENTRAL, False, ValueError, "privacy_unit must be the unit that client-level-central protects"),
        (dataclasses.replace(CENTRAL, clients=13), True, ValueError, "clients must be 12, .* got 13"),
        (dataclasses.replace(CENTRAL, clip_norm=1e-320), True, ValueError, r"clip_norm must be in \[1e-90, 1e\+90\]"),
        (dataclasses.replace(CENTRAL, clip_norm=1e300), True, ValueError, r"clip_norm must be in \[1e-90, 1e\+90\]"),
        (dataclasses.replace(CENTRAL, noise_multiplier=1e-320), True, ValueError, "noise_stddev must be in"),
        (dataclasses.replace(CENTRAL, noise_multiplier=1e300), True, ValueError, "noise_stddev must be in"),
        (
            dataclasses.replace(CLIENT_SIDE, batch_probability=1e-300),
            False,
            ValueError,
            "local_steps must be so few that a client needs",
        ),
        ("central", True, TypeError, "a registered trainer, got str"),
    ],
)
def test_a_scheme_that_does_not_fit_is_refused(small_task, scheme, unit_is_client, error, says):
    with pytest.raises(error, match=says):
        rounds.require_matching_scheme(scheme, small_task(unit_is_client=unit_is_client))


def test_how_many_rows_a_client_has_decides_no_refusal(small_task):
    """A size that is private must not show in whether a run exists."""
    task = small_task(unit_is_client=False)
    sizes = np.array([1] * 11 + [3_000_000])
    both = (task.clients.features, task.clients.targets)
    rows = [np.broadcast_to(each[:1], (sizes.sum(), *each.shape[1:])) for each in both]
    large = dataclasses.replace(task, clients=Federation(*rows, sizes))
    scheme = dataclasses.replace(CLIENT_SIDE, batch_probability=1 / 200)  # 400 steps: 1.2 billion coins
    for one in (task, large):
        assert rounds.require_matching_scheme(scheme, one) is not None


def test_coins_are_the_same_in_however_large_blocks_they_are_tossed(monkeypatch):
    whole = noise.RandomStream.from_key(3).coins((7, 11), 0.3)
    monkeypatch.setattr(noise, "AT_ONCE", 5)
    assert (noise.RandomStream.from_key(3).coins((7, 11), 0.3) == whole).all()
