"""Attackers among the clients: they train on rows with a trigger, and scale their updates up to replace the model.

Source: Bagdasaryan, Veit, Hua, Estrin & Shmatikov 2020 (arXiv:1807.00459); Naseri, Hayes & De Cristofaro 2022
(arXiv:2009.03561) for what local and central DP do about it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from epsilog.study.study_run import StudyRun, drop_test_set, get_engine, reuse_engine, score_model
from epsilog.terms import CheckError, check
from epsilog.training import Federation, Task
from epsilog.training.engines import ClippedSum, Engine, LocalDPSGD, RoundInputs, combine_sums

Vector = NDArray[np.float64]
Ids = NDArray[np.int64]
HAIR = 1e-9  # how far below the bound a clipped norm stays


@dataclass(frozen=True, slots=True)
class Backdoor:
    """What attackers want, and what they do for it.

    Attributes:
        attackers: how many clients attack; the first ones that have rows.
        features: which features make up the trigger.
        value: what the trigger sets them to.
        target: the class that rows with the trigger are to be given.
        boost: what an attacker multiplies its update by before anybody clips it.
        complies: whether attackers clip and add noise where the scheme tells clients to; at the server they cannot
            help it.
        name: what it is called in the tables.
    """

    attackers: int
    features: tuple[int, ...]
    value: float
    target: int
    boost: float = 1.0
    complies: bool = True
    name: str = "backdoor"

    def __post_init__(self) -> None:
        check.validate_fields(
            self,
            attackers=check.integer(0),
            features=check.sequence_of(check.integer(0)),
            value=check.finite(),
            target=check.integer(0),
            boost=check.positive(),
            complies=check.boolean(),
            name=check.text(),
        )
        if not self.features:
            raise CheckError("features", "empty", "()", verb="not be")

    def add_trigger(self, features: NDArray[np.floating]) -> NDArray[np.floating]:
        """The same rows with the trigger on them."""
        marked = np.array(features)
        marked[:, list(self.features)] = self.value
        return marked

    def require_fit(self, task: Task) -> None:
        """Refuses a task without classes, or without what the trigger and the target name."""
        if task.model.classes is None:
            raise CheckError("backdoor", "for a task of classes", task.model.loss_name)
        check.integer(0, task.model.classes - 1)(target=self.target)
        check.integer(0, task.clients.features.shape[1] - 1)(features=max(self.features))
        check.integer(0, int((task.clients.sizes > 0).sum()))(attackers=self.attackers)


class BackdooredEngine:
    """An engine some of whose clients attack; see ``train.engines.Engine``.

    Attributes:
        task: what the others train on.
    """

    def __init__(self, honest: Engine, attacking: Engine, backdoor: Backdoor) -> None:
        """Takes an engine over everybody's rows, and one over ``poison_task`` rows."""
        self.task = honest.task
        self._honest, self._attacking, self._backdoor = honest, attacking, backdoor
        self._attackers = list_attackers(honest.task, backdoor)

    def unusable(self, cohort: Ids) -> int:
        """As the honest engine says."""
        return self._honest.unusable(cohort)

    def evaluate(self, model: Vector) -> tuple[float, float]:
        """As the honest engine says."""
        return self._honest.evaluate(model)

    def sum_of_updates(self, now: RoundInputs, *, clip_norm: float) -> ClippedSum:
        """An attacker's update is scaled up, and then clipped like everybody's."""
        honest, bad = self._split_round(now)
        parts = [self._honest.sum_of_updates(honest, clip_norm=clip_norm)]
        for alone in bad:
            own = self._attacking.sum_of_updates(alone, clip_norm=np.inf)
            parts.append(_clip_update(self._backdoor.boost * own.total, clip_norm))
        return combine_sums(parts, size=now.model.size)

    def sum_of_noisy_updates(self, now: RoundInputs, *, clip_norm: float, noise_stddev: float) -> ClippedSum:
        """An attacker that does not comply neither clips nor adds noise, and shows padding as if it did."""
        honest, bad = self._split_round(now)
        parts = [self._honest.sum_of_noisy_updates(honest, clip_norm=clip_norm, noise_stddev=noise_stddev)]
        for alone in bad:
            own = self._attacking.sum_of_updates(alone, clip_norm=np.inf)
            drawn = noise_stddev * now.noise(int(alone.cohort[0])).normals((now.model.size + 1,))
            sent = _clip_update(self._backdoor.boost * own.total, clip_norm if self._backdoor.complies else np.inf)
            loud = sent.total + drawn[:-1] if self._backdoor.complies else sent.total
            parts.append(replace(sent, total=loud, padding=drawn[-1:]))
        return combine_sums(parts, size=now.model.size)

    def sum_of_noisy_runs(self, now: RoundInputs, runs: LocalDPSGD) -> ClippedSum:
        """An attacker that does not comply neither clips nor adds noise, and shows padding as if it did."""
        honest, bad = self._split_round(now)
        parts = [self._honest.sum_of_noisy_runs(honest, runs)]
        bare = replace(runs, clip_norm=np.inf, noise_stddev=0.0)
        for alone in bad:
            shown = self._attacking.sum_of_noisy_runs(alone, runs)
            if not self._backdoor.complies:
                own = self._attacking.sum_of_noisy_runs(alone, bare)
                shown = replace(shown, total=self._backdoor.boost * own.total)
            parts.append(shown)
        return combine_sums(parts, size=now.model.size)

    def _split_round(self, now: RoundInputs) -> tuple[RoundInputs, list[RoundInputs]]:
        """The round of those who are honest, and that of each attacker."""
        bad = np.isin(now.cohort, self._attackers)
        return now.of(now.cohort[~bad]), [now.of(np.array([one])) for one in now.cohort[bad]]


def list_attackers(task: Task, backdoor: Backdoor) -> Ids:
    """The clients that attack."""
    return np.flatnonzero(task.clients.sizes)[: backdoor.attackers]


@lru_cache(maxsize=1)
def poison_task(task: Task, backdoor: Backdoor) -> Task:
    """The same task, where half of the rows of every attacker have the trigger and its class.

    The other half keeps the model useful, so that the attack does not show in its accuracy.
    """
    backdoor.require_fit(task)
    clients = task.clients
    features, targets = np.array(clients.features), np.array(clients.targets)
    for one in list_attackers(task, backdoor).tolist():
        rows = clients.rows_of(one)
        marked = slice(rows.start, rows.start + (rows.stop - rows.start + 1) // 2)
        features[marked] = backdoor.add_trigger(features[marked])
        targets[marked] = backdoor.target
    return replace(task, clients=Federation(features, targets, clients.sizes))


def compute_attack_success(task: Task, model: Vector, backdoor: Backdoor) -> float:
    """The share of test rows of other classes that get the target's once they carry the trigger; in [0, 1]."""
    features, targets = task.test_set()
    others = targets != backdoor.target
    outputs = task.model.apply(
        task.model.unflatten(model.astype(features.dtype)), backdoor.add_trigger(features[others])
    )
    return float((np.asarray(outputs).argmax(axis=1) == backdoor.target).mean())


def measure_backdoor(question: Backdoor, trial: StudyRun) -> dict[str, float | None] | None:
    """The score of a model that was trained with attackers, and how often the trigger works; None if it diverged."""
    plain = drop_test_set(trial.task)
    rows = replace(question, boost=1.0, complies=True, name="backdoor")  # what rows depend on, for one engine for all
    engine = BackdooredEngine(get_engine(plain), get_engine(poison_task(plain, rows)), question)
    model = trial.train(engines=reuse_engine(engine))
    if model is None:
        return None
    return {"score": score_model(trial.task, model), "success": compute_attack_success(trial.task, model, question)}


def _clip_update(update: Vector, clip_norm: float) -> ClippedSum:
    with np.errstate(over="ignore"):
        norm = float(np.linalg.norm(update))
    if not np.isfinite(norm):
        return ClippedSum(np.zeros_like(update), 0.0, 1, 1, 1)
    factor = 1.0 if norm <= clip_norm else (1 - HAIR) * clip_norm / norm
    return ClippedSum(factor * update, factor * norm, int(factor < 1), 0, 1)
