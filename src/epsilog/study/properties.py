"""Property inference by a passive observer of released models.

In random rounds, the rows of some clients carry a mark that is independent of their classes; the attacker guesses these
rounds. It knows all released models, the scheme, and its own rows (the public test set, as clients of the usual
size). From each model it computes the next one twice, with and without the mark on its rows. From these changes and
their absolute values it builds a meta-classifier: a linear discriminant between the two means, with the diagonal
covariance of the observed changes.

Source: Melis, Song, De Cristofaro & Shmatikov 2019 (arXiv:1805.04049); Naseri, Hayes & De Cristofaro 2022
(arXiv:2009.03561).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsilog.study.experiment import Experiment, Numbers, StudyRun, drop_test_set, get_engine
from epsilog.study.membership import evaluate_attack
from epsilog.terms import CheckError, check
from epsilog.training import Federation, Randomness, Task, compute_learning_rate_factor, sampling
from epsilog.training.engines import Engine
from epsilog.training.rounds import RoundResult, TrainingState
from epsilog.training.schemes import TRAINED, RoundContext

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PropertyExperiment(Experiment):
    """A mark on rows of some clients.

    Attributes:
        features: the features of the mark.
        value: the value of these features with the mark.
        share: probability that the rows of a client carry the mark in marked rounds; 0 is a control.
        every: the attacker observes every n-th round; 1 is all.
    """

    features: Annotated[tuple[int, ...], check.sequence_of(check.integer(0))]
    value: Annotated[float, check.finite()]
    share: Annotated[float, check.in_closed_interval(0, 1)] = 0.5
    every: Annotated[int, check.integer(1)] = 1
    kind: ClassVar[str] = "property"

    def __post_init__(self) -> None:
        check.check_fields(self)
        if not self.features:
            raise CheckError("features", "empty", "()", verb="not be")

    def require_fit(self, task: Task) -> None:
        """Refuse a task without the features, or without a test set for the attacker."""
        check.integer(0, task.clients.features.shape[1] - 1)(features=max(self.features))
        if not task.is_scored:
            raise CheckError("property", "for a task with a test set, from which the attacker learns", task.name)

    def measure(self, run: StudyRun) -> dict[str, Numbers | None]:
        """Return the AUC over rounds with which the attacker recognizes marked rounds."""
        plain = drop_test_set(run.task)
        coins = Randomness.from_seed(run.seed).stream("property", 0).coins((run.scheme.rounds,), 0.5)
        if coins.all() or not coins.any():
            return {self.kind: None}
        marked, unmarked = get_engine(_mark_clients(plain, self)), get_engine(plain)
        observer = _Observer(self, run)
        model = run.train(engines=lambda done: marked if coins[done - 1] else unmarked, watch=observer.look)
        if model is None:
            return {self.kind: None}
        scores, has = observer.scores(), coins[observer.rounds]
        if has.all() or not has.any():
            return {self.kind: None}
        found = evaluate_attack(scores, has, fpr=0.5)
        numbers: Numbers = {"auc": found.auc, "auc_beyond_chance": float(found.beyond_chance)}
        return {self.kind: numbers | {"rounds_with": float(found.members), "rounds_without": float(found.others)}}


class _Observer:
    """Scores rounds by predictions from the attacker's rows, with and without the mark."""

    def __init__(self, question: PropertyExperiment, run: StudyRun) -> None:
        own = _own(run.task)
        self._run, self._every = run, question.every
        self._engines = get_engine(own), get_engine(_mark_clients(own, question))
        self._own: tuple[list[Vector], list[Vector]] = ([], [])
        self._seen: list[Vector] = []
        self.rounds: list[int] = []

    def look(self, before: TrainingState, after: RoundResult) -> None:
        """Observe a round."""
        done = after.state.round
        if (done - 1) % self._every:
            return
        for engine, kept in zip(self._engines, self._own, strict=True):
            kept.append(_select_features(self._predict_model(engine, before, done) - before.model))
        self._seen.append(_select_features(after.state.model - before.model))
        self.rounds.append(done - 1)

    def scores(self) -> Vector:
        """Return a linear discriminant of each observed round; higher for marked ones; shape (observed rounds,)."""
        without, having = (np.mean(kept, axis=0) for kept in self._own)
        off = np.stack(self._seen) - (having + without) / 2
        spread = (off**2).mean(axis=0)
        return np.asarray(off @ np.where(spread > 0, (having - without) / np.where(spread > 0, spread, 1.0), 0.0))

    def _predict_model(self, engine: Engine, before: TrainingState, done: int) -> Vector:
        """Return the next model for a cohort of the attacker's clients, without noise."""
        scheme, training = self._run.quiet, engine.task.training
        draws = partial(Randomness.from_seed(self._run.seed).stream, round=done)
        first, sizes = sampling.SamplerHistory(1, np.zeros(scheme.clients, dtype=np.int64)), draws("observer")
        slots = sampling.draw_slots(scheme.cohorts, sizes, first)
        size = len(sampling.draw_cohort(scheme.cohorts, sizes, replace(first, slots=slots)))
        eligible = np.arange(engine.task.clients.count)
        cohort = sampling.draw_without_replacement(draws("observer's clients"), eligible=eligible, size=size)
        speed = compute_learning_rate_factor(training.schedule, done, scheme.rounds)
        now = RoundContext(done, before.model, np.zeros(0), cohort, draws, self._run.private, speed)
        step = TRAINED[type(scheme)].change(scheme, engine, now).step
        return training.server.apply_step(before.model, step, before.server, done=done, rounds=scheme.rounds)[0]


def _select_features(change: Vector) -> Vector:
    """Return the features of a change of the model: all numbers and their absolute values."""
    return np.concatenate([change, np.abs(change)])


@lru_cache(maxsize=1)
def _own(task: Task) -> Task:
    """Return the attacker's task: the shuffled test set, in clients of the usual size."""
    assert task.test_features is not None
    assert task.test_targets is not None
    sizes = task.clients.sizes[task.clients.sizes > 0]
    each = min(int(np.median(sizes)) if sizes.size else 1, len(task.test_features))
    count = len(task.test_features) // each
    order = np.argsort(Randomness.from_seed(0).stream("own", 0).words(len(task.test_features)), kind="stable")
    rows = order[: count * each]
    features = task.test_features[rows].astype(task.clients.features.dtype)
    clients = Federation(features, task.test_targets[rows], np.full(count, each))
    return replace(task, clients=clients, test_features=None, test_targets=None, population=None)


@lru_cache(maxsize=2)
def _mark_clients(task: Task, question: PropertyExperiment) -> Task:
    """Return the task with the mark on the rows of some clients, equal in all runs."""
    clients = task.clients
    stream = Randomness.from_seed(0).stream("carriers", 0)
    rows = np.repeat(stream.coins((clients.count,), question.share), clients.sizes)
    features = np.array(clients.features)
    features[np.ix_(rows, np.array(question.features))] = question.value
    return replace(task, clients=replace(clients, features=features))
