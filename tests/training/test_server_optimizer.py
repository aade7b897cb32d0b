"""Server optimizers and schedules: against optax, against the slow engine, and over a kill."""

import dataclasses

import numpy as np
import pytest
from tests.training.test_engine import COHORT, agree, batches, noise, noisy_runs, start, updates

from epsilog.schemes import ClientLevelCentral, LocalDPSGD, RawUpdate
from epsilog.terms import CheckError
from epsilog.training import LocalTraining, Randomness, ServerOptimizer, train_without_charge
from epsilog.training.engines import RoundInputs
from epsilog.training.engines.compiled import CompiledEngine
from epsilog.training.engines.reference import ReferenceEngine
from epsilog.training.server_optimizer import SCHEDULES, compute_learning_rate_factor

SERVERS = [
    ServerOptimizer("momentum", 0.5, momentum=0.8),
    ServerOptimizer("adam", 0.05, "cosine"),
    ServerOptimizer("sgd", 0.5, "step"),
]


def moved(server, steps):
    model, memory = np.zeros(steps.shape[1]), np.zeros(0)
    for done, step in enumerate(steps, start=1):
        model, memory = server.apply_step(model, step, memory, done=done, rounds=len(steps))
    return model


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.optimizer)
def test_a_server_moves_as_optax_does(server):
    import jax
    import optax

    peers = {
        "momentum": lambda rate: optax.sgd(rate, momentum=0.8),
        "adam": lambda rate: optax.adam(rate, b1=0.9, b2=0.99, eps=1e-3),
        "sgd": optax.sgd,
    }
    steps = np.random.default_rng(1).standard_normal((8, 3))
    rates = [server.learning_rate * compute_learning_rate_factor(server.schedule, done, 8) for done in range(1, 9)]
    with jax.enable_x64(True):
        peer = peers[server.optimizer](lambda count: jax.numpy.asarray(rates)[count])
        model = jax.numpy.zeros(3, jax.numpy.float64)
        state = peer.init(model)
        for step in steps:
            change, state = peer.update(-step, state, model)  # ours go along the step, optax against a gradient
            model = model + change
    assert moved(server, steps) == pytest.approx(np.asarray(model), rel=1e-6)


def test_without_settings_the_step_itself_is_added():
    model, step = np.array([0.1, 0.2]), np.array([0.7, -0.3])
    after, memory = ServerOptimizer().apply_step(model, step, np.zeros(0), done=1, rounds=9)
    assert np.array_equal(after, model + step)
    assert not memory.size


def test_a_cosine_is_that_of_optax():
    import optax

    theirs = optax.cosine_decay_schedule(1.0, 10)
    ours = [compute_learning_rate_factor("cosine", done, 10) for done in range(1, 11)]
    assert ours == pytest.approx([float(theirs(before)) for before in range(10)], abs=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("rounds", [1, 2, 7, 100])
def test_a_schedule_begins_at_1_and_never_rises_or_ends(schedule, rounds):
    paces = [compute_learning_rate_factor(schedule, done, rounds) for done in range(1, rounds + 1)]
    assert paces[0] == 1
    assert min(paces) > 0
    assert paces == sorted(paces, reverse=True)


@pytest.mark.parametrize("engine", [CompiledEngine, pytest.param(ReferenceEngine, marks=pytest.mark.slow)])
def test_another_pace_is_another_learning_rate(small_task, engine):
    task = small_task()
    halved = dataclasses.replace(task, training=dataclasses.replace(task.training, learning_rate=0.05))
    now = RoundInputs(start(task), COHORT, batches, noise, learning_rate_factor=0.5)
    slow = engine(task).sum_uploads(now, RawUpdate(0.4))
    agree(slow, updates(engine(halved)), 1e-12)
    runs = LocalDPSGD(steps=3, batch_probability=0.5, clip_norm=0.4, noise_stddev=0.1)
    slow = engine(task).sum_uploads(now, runs)
    agree(slow, noisy_runs(engine(halved)), 1e-12)


def test_a_schedule_slows_the_clients_down(small_task):
    """Without clip and noise, a client's one small step is the learning rate's size."""
    lengths = {}
    for schedule in ("constant", "step"):
        task = small_task(widths=(3, 1), local_steps=1, schedule=schedule)
        task = dataclasses.replace(task, training=dataclasses.replace(task.training, learning_rate=1e-6))
        scheme = ClientLevelCentral(12, 1.0, 4, 1.0, 1.0)
        end = train_without_charge(scheme, task, randomness=Randomness.from_seed(1), private=False).model
        lengths[schedule] = np.linalg.norm(end - task.model.start)
    assert lengths["step"] / lengths["constant"] == pytest.approx((1 + 1 + 0.1 + 0.01) / 4, rel=1e-4)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ServerOptimizer("rprop"), "optimizer must be one of sgd, momentum, adam"),
        (lambda: ServerOptimizer("adam"), "learning_rate must be given for adam, got nothing"),
        (lambda: ServerOptimizer("momentum", -1.0), "learning_rate must be finite and above 0, got -1.0"),
        (lambda: ServerOptimizer("momentum", momentum=1.0), r"momentum must be in \[0, 1\), got 1.0"),
        (lambda: ServerOptimizer("sgd", momentum=0.9), "momentum must be absent for sgd, got 0.9"),
        (lambda: ServerOptimizer(schedule="linear"), "schedule must be one of constant, cosine, step"),
        (lambda: LocalTraining(0.1, schedule="linear"), "schedule must be one of constant, cosine, step"),
        (lambda: LocalTraining(0.1, server="adam"), "server must be a ServerOptimizer, got 'adam'"),
    ],
)
def test_bad_settings_are_refused(make, says):
    with pytest.raises(CheckError, match=says):
        make()
