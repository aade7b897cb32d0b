"""Attackers replace the model where nobody clips, and where they need not; the clip at the server cannot be skipped."""

from dataclasses import replace

import numpy as np
import pytest

from epsilog.schemes import LocalDPSGD, NoisyUpdate, RawUpdate
from epsilog.study import Backdoor
from epsilog.study.backdoor import compute_attack_success, list_attackers, make_backdoored_engine, poison_task
from epsilog.training import Randomness, train_without_charge
from epsilog.training.engines import RoundInputs
from epsilog.training.engines.compiled import CompiledEngine

BACKDOOR = Backdoor(attackers=3, features=(3,), value=12.0, target=1, boost=6.0)


def engine(task, backdoor=BACKDOOR):
    return make_backdoored_engine(CompiledEngine(task), CompiledEngine(poison_task(task, backdoor)), backdoor)


def attacked(task, scheme, backdoor=BACKDOOR, *, private=True, seed=1):
    return train_without_charge(
        scheme, task, randomness=Randomness.from_seed(seed), private=private, engine=lambda one: engine(one, backdoor)
    )


def test_half_of_the_attackers_rows_carry_trigger_and_class_and_nobody_elses(task):
    bad = poison_task(task, BACKDOOR)
    assert list_attackers(task, BACKDOOR).tolist() == [0, 1, 2]
    changed = np.flatnonzero((bad.clients.features != task.clients.features).any(axis=1))
    assert changed.tolist() == [0, 1, 2, 6, 7, 8, 12, 13, 14]
    assert set(bad.clients.features[changed][:, 3]) == {12.0}
    assert set(bad.clients.targets[changed]) == {1}
    others = np.setdiff1d(np.arange(len(task.clients.targets)), changed)
    assert np.array_equal(bad.clients.targets[others], task.clients.targets[others])


@pytest.mark.slow
def test_one_attacker_moves_the_sum_by_no_more_than_the_clip(task):
    model, everybody = np.zeros(task.model.size), np.arange(40)
    for boost in (1.0, 1e6, 1e200):
        loud = engine(task, replace(BACKDOOR, boost=boost))
        whole = loud.sum_uploads(RoundInputs(model, everybody), RawUpdate(0.1))
        honest = CompiledEngine(task).sum_uploads(RoundInputs(model, everybody[3:]), RawUpdate(0.1))
        assert np.linalg.norm(whole.total - honest.total) <= 3 * 0.1
        assert whole.count == 40
        assert whole.largest_norm <= 0.1


@pytest.mark.slow
def test_replacing_the_model_works_where_nothing_is_clipped(task, central):
    quiet = train_without_charge(central(1.0), task, randomness=Randomness.from_seed(1), private=False)
    before = compute_attack_success(task, quiet.model, BACKDOOR)
    after = attacked(task, central(1.0), private=False)
    assert compute_attack_success(task, after.model, BACKDOOR) > max(0.7, before + 0.5)
    clipped = attacked(task, central(1e-3))
    assert compute_attack_success(task, clipped.model, BACKDOOR) < 0.5


@pytest.mark.slow
def test_noise_at_the_client_is_no_defence_against_one_that_skips_it(make_task, client_side):
    task = make_task(unit_is_client=False)
    complies, skips = (
        np.median(
            [
                compute_attack_success(
                    task, attacked(task, client_side(2.0), replace(BACKDOOR, complies=each), seed=seed).model, BACKDOOR
                )
                for seed in (1, 2, 3)
            ]
        )
        for each in (True, False)
    )
    assert skips > 0.9
    assert complies < skips


@pytest.mark.slow
def test_an_attacker_that_skips_the_noise_shows_padding_as_if_it_did_not(make_task):
    task = make_task(unit_is_client=False)
    runs, draws = LocalDPSGD(2, 0.5, 0.5, 1.0), Randomness.from_seed(3)
    streams = {name: (lambda client, name=name: draws.stream(name, 1, client)) for name in ("batches", "noise")}
    now = RoundInputs(np.zeros(task.model.size), np.arange(5), **streams)
    honest = CompiledEngine(task).sum_uploads(now, runs)
    for complies in (True, False):
        shown = engine(task, replace(BACKDOOR, complies=complies)).sum_uploads(now, runs)
        assert sorted(shown.padding) == sorted(honest.padding)


def test_what_a_task_cannot_have_is_refused(task, make_task):
    for changes, says in (
        ({"target": 2}, "target must be in"),
        ({"features": (4,)}, "features must be in"),
        ({"attackers": 41}, "attackers must be in"),
    ):
        with pytest.raises(ValueError, match=says):
            poison_task(task, replace(BACKDOOR, **changes))
    with pytest.raises(ValueError, match="features must not be empty"):
        replace(BACKDOOR, features=())


@pytest.mark.parametrize("complies", [True, False])
def test_an_attacker_clips_its_own_update_only_if_it_complies(task, complies):
    """Client-level noise at the client: what the attackers add, beyond what the same round without them adds."""
    draws, everybody = Randomness.from_seed(3), np.arange(40)
    streams = {name: (lambda client, name=name: draws.stream(name, 1, client)) for name in ("batches", "noise")}
    now, upload = RoundInputs(np.zeros(task.model.size), everybody, **streams), NoisyUpdate(0.1, 1e-9)
    loud = engine(task, replace(BACKDOOR, boost=1e3, complies=complies))
    whole = loud.sum_uploads(now, upload)
    honest = CompiledEngine(task).sum_uploads(now.of(everybody[3:]), upload)
    moved = np.linalg.norm(whole.total - honest.total)
    assert moved <= 0.3 + 1e-6 if complies else moved > 10
    assert whole.padding.size == 40
