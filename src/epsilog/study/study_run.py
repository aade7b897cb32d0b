"""One run of a study: a scheme on a task from a seed, with DP or without, watched round by round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from epsilog.schemes import Scheme
from epsilog.study.result_cells import Shelf
from epsilog.training import Randomness, Task, require_matching_scheme
from epsilog.training.engines import Engine, make_engine
from epsilog.training.rounds import RoundResult, TrainingState, compute_next_round, make_initial_state

Vector = NDArray[np.float64]
Engines = Callable[[int], Engine]
"""The engine of a round, by its number."""
Watch = Callable[[TrainingState, RoundResult], None]
"""Sees the state before a round, and the round."""


@dataclass(frozen=True, slots=True, eq=False)
class StudyRun:
    """What attacks are made on.

    Attributes:
        task: what is trained on what.
        scheme: with the noise that its budget asks for.
        quiet: the same without noise, for an attacker's own rehearsals.
        private: False leaves out clip and noise.
        delta: of the guarantee.
        seed: of every draw.
        shared: what the attacks of one scheme and budget have in common, over all seeds; by name.
    """

    task: Task
    scheme: Scheme
    quiet: Scheme
    private: bool
    delta: float
    seed: int
    shared: Shelf

    @property
    def draws(self) -> Randomness:
        """Where the run's draws come from."""
        return Randomness.simulated(self.seed)

    def train(
        self, task: Task | None = None, *, engines: Engines | None = None, watch: Watch | None = None
    ) -> Vector | None:
        """The last model; None if training diverges. Models are not scored on the way.

        Args:
            task: whose clients train, used this once; None for the trial's own.
            engines: what computes the rounds; None for the compiled one.
            watch: called after every round.
        """
        whole = drop_test_set(self.task) if task is None else task
        scheme, state = require_matching_scheme(self.scheme, whole), make_initial_state(whole)
        if engines is None:
            engines = reuse_engine(get_engine(whole) if task is None else make_engine(None, whole))
        for done in range(1, scheme.rounds + 1):
            engine = engines(done)
            outcome = compute_next_round(scheme, engine, state, self.draws, private=self.private)
            if outcome.record.diverged:
                return None
            if watch is not None:
                watch(state, outcome)
            state = outcome.state
        return state.model


@lru_cache(maxsize=1)
def drop_test_set(task: Task) -> Task:
    """The same task without its test set: what is scored once need not be scored in every round."""
    return replace(task, test_features=None, test_targets=None)


@lru_cache(maxsize=5)
def get_engine(task: Task) -> Engine:
    """The compiled engine for a task, which holds its rows on the device: made once for all seeds and budgets.

    There is room for everybody's rows, those with a trigger or a mark, and an attacker's own, with a mark and without.
    """
    return make_engine(None, task)


def score_model(task: Task, model: Vector) -> float | None:
    """A model's score on the public test set; None where it, or the loss, is not finite."""
    features, targets = task.test_set()
    outputs = task.model.apply(task.model.unflatten(model.astype(features.dtype)), features)
    told = float(np.asarray(task.model.losses(outputs, targets)).mean()), float(task.model.scored(outputs, targets))
    return told[1] if np.isfinite(told).all() else None


def reuse_engine(engine: Engine) -> Engines:
    """One engine for every round."""
    return partial(_same, engine)


def _same(engine: Engine, _round: int) -> Engine:
    return engine
