"""Canaries are what their secret says, in where their coins say, and tell from the models what noise does not cover."""

import dataclasses
from functools import cache, partial

import numpy as np
import pytest
from scipy.stats import binom
from tests.training.fixed import Fixed

from epsilog.plan import compute_profile_view
from epsilog.schemes import ClientLevelCentral, ClientLevelDistributed, ExampleLevelClientSide, NoisyUpdate, RawUpdate
from epsilog.terms import Canaries, NeighboringRelation
from epsilog.training import (
    Federation,
    Randomness,
    add_canary_slots,
    compute_canary_scores,
    draw_canaries,
    insert_canaries,
    rounds,
    run_smoke_test,
    train_without_charge,
)
from epsilog.training.canaries import make_canary_direction, make_canary_rows
from epsilog.training.engines import RoundInputs, add_dropout, make_engine
from epsilog.training.engines.compiled import CompiledEngine
from epsilog.training.engines.remote import make_simulated_remote_engine
from epsilog.training.models import build_model
from epsilog.verification.audits import (
    AuditProtocol,
    audit_one_run,
    bound_p_value,
    count_correct_guesses,
    refutes_profile,
)

SECRET = "5c" * 32


def drawn(count, seed=1):
    return draw_canaries(count, Randomness.from_seed(seed))


def test_a_secret_says_all_and_its_hash_says_nothing():
    one, other = Canaries(4000, SECRET), Canaries(4000, "5d" + SECRET[2:])
    assert (one.included == Canaries(4000, SECRET).included).all()
    assert one.commitment != other.commitment
    assert SECRET not in repr(one) + one.commitment
    assert 5e-7 < binom.cdf(int(one.included.sum()), 4000, 0.5) < 1 - 5e-7
    assert 5e-7 < binom.cdf(int((one.included == other.included).sum()), 4000, 0.5) < 1 - 5e-7
    assert one.key("row", 1) != one.key("direction", 1) != one.key("direction", 2)
    assert (Canaries(9, SECRET).included == one.included[:9]).all()


def test_the_operating_system_draws_another_secret_every_time_and_a_seed_the_same():
    secrets = {draw_canaries(5, Randomness.from_os()).secret for _ in range(20)}
    assert len(secrets) == 20
    assert drawn(5) == drawn(5) != drawn(5, seed=2)


@pytest.mark.parametrize("wrong", ["ab" * 31, "AB" * 32, "g" * 64, 7, SECRET + "\n"])
def test_what_is_no_secret_is_refused_and_not_repeated(wrong):
    with pytest.raises(ValueError, match="secret must be 64 hex digits, got a"):
        Canaries(5, wrong)


@pytest.mark.parametrize("count", [1, 0, -1, 10**6 + 1, 2.5, True])
def test_counts_have_bounds(count):
    with pytest.raises(ValueError, match="count must be"):
        Canaries(count, SECRET)


def test_clients_take_places_that_are_empty_and_are_counted(small_task):
    task = small_task()
    room = add_canary_slots(task, 5)
    assert (room.units, room.clients.count, room.examples) == (task.units + 5, task.clients.count + 5, task.examples)
    there = insert_canaries(room, drawn(5))
    assert there.describe() == room.describe() | {"canaries": 5}
    assert (there.units, there.clients.count) == (room.units, room.clients.count)
    with pytest.raises(ValueError, match="canaries must be at most the number of empty slots after all clients"):
        insert_canaries(room, drawn(6))
    with pytest.raises(ValueError, match="canaries must be absent before they are inserted, got 5"):
        insert_canaries(there, drawn(5))
    for count in (17, 18):
        with pytest.raises(ValueError, match="empty slots"):
            insert_canaries(room, drawn(count))
    away = Federation.remote_clients(["a", "b"], width=3)
    with pytest.raises(ValueError, match="canaries must be absent if clients hold their own rows"):
        insert_canaries(dataclasses.replace(task, clients=away), drawn(5))
    with pytest.raises(ValueError, match="canaries must be at least 1"):
        add_canary_slots(task, 0)


@pytest.mark.parametrize("widths", [(3, 1), (3, 4, 3)])
def test_examples_lie_behind_their_clients_rows_and_blank_ones_are_of_no_use(small_task, widths):
    loss = "half-squared-error" if widths[-1] == 1 else "cross-entropy"
    task = small_task(unit_is_client=False, widths=widths, loss=loss)
    there = insert_canaries(add_canary_slots(task, 30), canaries := drawn(30))
    assert (there.units, there.examples, there.clients.count) == (task.units + 30, task.units + 30, 12)
    assert there.clients.sizes.tolist() == [size + 2 + (place < 6) for place, size in enumerate(task.clients.sizes)]
    features, targets = make_canary_rows(canaries, there)
    usable, seen = there.clients.usable(there.model), []
    for client in range(12):
        lies, own = there.clients.rows_of(client), int(task.clients.sizes[client])
        before = task.clients.rows_of(client)
        assert (there.clients.features[lies][:own] == task.clients.features[before]).all()
        assert (there.clients.targets[lies][:own] == task.clients.targets[before]).all()
        for place, one in enumerate(range(client, 30, 12)):
            row = lies.start + own + place
            assert usable[row] == canaries.included[one]
            assert there.clients.targets[row] == targets[one]
            assert not usable[row] or (there.clients.features[row] == features[one]).all()
            seen.append(one)
    assert sorted(seen) == list(range(30))
    assert np.abs(features).max() < 1
    assert np.unique(features).size == features.size


def test_rows_of_ids_are_ids(small_task):
    task = small_task(unit_is_client=False)
    words = build_model("next-character", inputs=3, classes=4, symbols=7, width=2, hidden=(3,))
    ids = np.array(np.round(np.abs(task.clients.features)))
    clients = dataclasses.replace(task.clients, features=ids, targets=np.zeros(len(ids), dtype=int))
    task = dataclasses.replace(task, model=words, clients=clients, test_features=None, test_targets=None)
    there = insert_canaries(add_canary_slots(task, 40), canaries := drawn(40))
    features, targets = make_canary_rows(canaries, there)
    assert set(features.reshape(-1)) == set(range(7))
    assert set(targets) == set(range(4))
    assert int(there.clients.usable(words).sum()) == int(task.clients.usable(words).sum() + canaries.included.sum())


@pytest.mark.slow
def test_who_is_in_sends_a_direction_and_who_is_out_nothing(small_task):
    task = add_canary_slots(small_task(), 6)
    there = insert_canaries(task, canaries := drawn(6, seed=3))
    assert 0 < canaries.included.sum() < 6
    model, cohort = np.zeros(task.model.size), np.array([0, 2, 12, 13, 14, 15, 16, 17])
    engine, honest = make_engine(None, there), CompiledEngine(task)
    sent = sum(make_canary_direction(canaries, one, model.size) for one in np.flatnonzero(canaries.included))
    for clip_norm, length in ((0.1, 0.1), (np.inf, 0.0)):
        found = engine.sum_uploads(RoundInputs(model, cohort), RawUpdate(clip_norm))
        alone = honest.sum_uploads(RoundInputs(model, cohort), RawUpdate(clip_norm))
        assert np.allclose(found.total - alone.total, length * sent)
        assert (found.count, found.clipped, found.dropped) == (alone.count, alone.clipped, alone.dropped)
        assert found.largest_norm <= clip_norm
    assert np.linalg.norm(make_canary_direction(canaries, 0, model.size)) == pytest.approx(1)
    assert engine.unusable(cohort) == honest.unusable(cohort)


def test_a_canary_adds_its_own_noise_whether_it_is_in_or_out(small_task):
    task = add_canary_slots(small_task(), 6)
    there = insert_canaries(task, drawn(6, seed=3))
    cohort, streams = np.array([0, 2, 12, 13, 17]), Randomness.from_seed(4)
    now = RoundInputs(np.zeros(task.model.size), cohort, noise=lambda client: streams.stream("noise", 1, client))
    engine = make_engine(None, there)
    found = engine.sum_uploads(now, NoisyUpdate(0.1, 2.0))
    updates = engine.sum_uploads(now, RawUpdate(0.1))
    noise = [2.0 * streams.stream("noise", 1, one).normals((task.model.size + 1,)) for one in cohort.tolist()]
    assert np.allclose(found.total - updates.total, sum(noise)[:-1])
    assert found.padding.tolist() == [each[-1] for each in noise]


CENTRAL = ClientLevelCentral(18, 0.5, 2, 0.2, 1.5)


def test_shares_of_noise_are_nothing_for_canaries(small_task, tmp_path):
    there = insert_canaries(add_canary_slots(small_task(), 6), drawn(6))
    scheme = ClientLevelDistributed(18, 6, 2, 2, 2, 0.2, 1e-3, 32, 1.5)
    with pytest.raises(
        ValueError, match="canaries must be absent if clients share the noise, since the operator of a canary"
    ):
        run_smoke_test(scheme, there, tmp_path)


def test_simulated_silence_is_that_of_others_and_other_hosts_are_refused(small_task):
    there = insert_canaries(add_canary_slots(small_task(), 6), canaries := drawn(6))
    now = RoundInputs(
        np.zeros(there.model.size), np.arange(18), replies=lambda one: Randomness.from_seed(1).stream("replies", 1, one)
    )
    found = make_engine(add_dropout(0.999), there).sum_uploads(now, RawUpdate(0.1))
    assert found.silent == 12
    sent = sum(make_canary_direction(canaries, one, now.model.size) for one in np.flatnonzero(canaries.included))
    assert np.allclose(found.total, 0.1 * sent)
    with pytest.raises(ValueError, match="canaries must be absent if clients compute remotely, got 6"):
        make_simulated_remote_engine(None, CENTRAL, "run", there)


def test_a_run_is_bound_to_its_canaries(small_task):
    room = add_canary_slots(small_task(), 6)
    bound = {
        rounds.hash_run_inputs(CENTRAL, task)
        for task in (room, insert_canaries(room, drawn(6)), insert_canaries(room, drawn(6, seed=2)))
    }
    assert len(bound) == 3


@pytest.mark.slow
def test_scores_tell_nothing_of_a_model_that_is_not_finite_or_has_not_moved(small_task):
    for unit_is_client in (True, False):
        task = insert_canaries(add_canary_slots(small_task(unit_is_client=unit_is_client), 6), drawn(6))
        for model in (np.full(task.model.size, np.nan), np.full(task.model.size, np.inf), task.model.start):
            assert compute_canary_scores(task, model).tolist() == [0.0] * 6
    with pytest.raises(ValueError, match="canaries must be inserted into the task first, got none"):
        compute_canary_scores(small_task(), np.zeros(3))


WIDE = 4000
CANARIES = 2000
RELATION = NeighboringRelation.ADD_OR_REMOVE_ONE


@pytest.fixture(scope="module")
def crowd():
    """Two thousand canaries beside two clients, in so many dimensions that canaries do not hide each other."""
    from tests.training.conftest import small_task

    small = small_task()
    model = build_model("linear", inputs=WIDE - 1, classes=None)
    clients = Federation.from_arrays([np.zeros((1, WIDE - 1))] * 2, [np.zeros(1)] * 2)
    task = dataclasses.replace(small, model=model, clients=clients, test_features=None, test_targets=None)
    return insert_canaries(add_canary_slots(task, CANARIES), drawn(CANARIES))


def scored(task, scheme, *, noise_factor=1.0, seed=5):
    """The scores after a run whose noise is so many times the planned one."""
    quiet = np.zeros((task.clients.count, 1))
    draws = Randomness.with_weaker_noise(seed, noise_factor=noise_factor)
    engine = lambda honest: Fixed(honest, np.broadcast_to(quiet, (task.clients.count, task.model.size)))  # noqa: E731
    return compute_canary_scores(task, train_without_charge(scheme, task, randomness=draws, engine=engine).model)


@pytest.fixture(scope="module")
def scores(crowd):
    """Of runs of that crowd, each once."""
    return cache(partial(scored, crowd))


@pytest.mark.slow
def test_noise_that_is_removed_or_halved_is_caught_and_a_sound_run_is_not(crowd, scores):
    """One round with everybody and noise multiplier 2: claims of (epsilon, delta) and of the whole profile."""
    scheme = ClientLevelCentral(CANARIES + 2, 1.0, 1, 0.5, 2.0)
    asked, coins = AuditProtocol(CANARIES, 1e-5), crowd.canaries.included
    view = compute_profile_view(scheme.release(), delta=1e-5, relation=RELATION)
    points = list(zip(view.epsilons, (one.upper for one in view.deltas), strict=True))
    claimed = view.epsilons[-1] / 1.1
    sound, halved, none = (
        audit_one_run(scores(scheme, noise_factor=factor), coins, asked) for factor in (1.0, 0.5, 0.0)
    )
    assert not sound.refutes(claimed)
    assert not refutes_profile(sound, points)
    assert sound.epsilon > 0, "the attack sees what is there"
    assert refutes_profile(halved, points)
    assert none.refutes(claimed)
    assert refutes_profile(none, points)


@pytest.mark.slow
def test_coins_of_others_are_guessed_as_seldom_as_they_say(crowd, scores):
    """Scores of a real run without noise, against coins that were not tossed for it; the control is its own."""
    found = scores(ClientLevelCentral(CANARIES + 2, 1.0, 1, 0.5, 2.0), noise_factor=0.0)
    asked = AuditProtocol(CANARIES, 1e-5)
    assert audit_one_run(found, crowd.canaries.included, asked).epsilon > 3
    alarms = sum(alarmed(found, drawn(CANARIES, seed=seed).included, asked) for seed in range(2, 402))
    assert 0 < alarms <= binom.isf(1e-6, 400, 0.05)


def alarmed(scores, coins, asked):
    right = [count_correct_guesses(scores, coins, one) for one in asked.guesses]
    chances = (
        bound_p_value(CANARIES, one.total, n, epsilon=0.0, delta=1e-5)
        for one, n in zip(asked.guesses, right, strict=True)
    )
    return min(chances) <= asked.level


@pytest.mark.slow
def test_sampling_hides_less_than_the_claim_allows(crowd):
    """Eight rounds: the bound stays below the certified epsilon, and sees more once there is no noise."""
    scheme = ClientLevelCentral(CANARIES + 2, 0.2, 8, 0.5, 1.0)
    claimed = compute_profile_view(scheme.release(), delta=1e-5, relation=RELATION).epsilons[-1] / 1.1
    asked, coins = AuditProtocol(CANARIES, 1e-5), crowd.canaries.included
    assert audit_one_run(scored(crowd, scheme), coins, asked).epsilon <= claimed
    assert audit_one_run(scored(crowd, scheme, noise_factor=0.0), coins, asked).epsilon > 1


@pytest.mark.slow
def test_examples_that_were_learnt_without_noise_are_told_and_with_noise_are_not():
    """Random rows in many dimensions are remembered by a linear model."""
    from tests.study.conftest import classes_task

    task = insert_canaries(add_canary_slots(classes_task(unit_is_client=False, width=2000), 150), drawn(150))
    scheme, asked = ExampleLevelClientSide(40, 20, 8, 8, 0.5, 2, 0.5, 4.0), AuditProtocol(150, 1e-5)
    claimed = compute_profile_view(scheme.release(), delta=1e-5, relation=RELATION).epsilons[-1] / 1.1
    found = {}
    for factor in (0.0, 1.0):
        model = train_without_charge(
            scheme, task, randomness=Randomness.with_weaker_noise(1, noise_factor=factor)
        ).model
        found[factor] = audit_one_run(compute_canary_scores(task, model), task.canaries.included, asked).epsilon
    assert found[0.0] > 1
    assert found[1.0] <= min(claimed, found[0.0])
