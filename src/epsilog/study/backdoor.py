"""Attackers among the clients: they train on rows with a trigger, and scale their updates up to replace the model.

Source: Bagdasaryan, Veit, Hua, Estrin & Shmatikov 2020 (arXiv:1807.00459); Naseri, Hayes & De Cristofaro 2022
(arXiv:2009.03561) for what local and central DP do about it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsilog.schemes import LocalDPSGD, RawUpdate, Scheme, Upload, remove_protection
from epsilog.study.experiment import Experiment, Numbers, StudyRun, drop_test_set, get_engine, reuse_engine, score_model
from epsilog.terms import CheckError, check
from epsilog.training import Federation, Task
from epsilog.training.engines import ClippedSum, Engine, RoundInputs, SplitEngine, combine_sums

Vector = NDArray[np.float64]
Ids = NDArray[np.int64]
HAIR = 1e-9  # relative distance of a clipped norm from its bound


@dataclass(frozen=True, slots=True)
class Backdoor(Experiment):
    """The goal and the means of attackers.

    Attributes:
        attackers: number of attackers, the first clients with rows.
        features: the features of the trigger.
        value: the value of these features with the trigger.
        target: the class that a model should predict for rows with the trigger.
        boost: multiplies an update of an attacker before clipping.
        complies: whether attackers clip and add noise if the scheme requires it of clients; the server does so in any
            case.
        name: the name in tables.
    """

    attackers: Annotated[int, check.integer(0)]
    features: Annotated[tuple[int, ...], check.sequence_of(check.integer(0))]
    value: Annotated[float, check.finite()]
    target: Annotated[int, check.integer(0)]
    boost: Annotated[float, check.positive()] = 1.0
    complies: Annotated[bool, check.boolean()] = True
    name: Annotated[str, check.text()] = "backdoor"
    kind: ClassVar[str] = "backdoor"

    def __post_init__(self) -> None:
        check.check_fields(self)
        if not self.features:
            raise CheckError("features", "empty", "()", verb="not be")

    @property
    def label(self) -> str:
        """Return the name in tables."""
        return self.name

    def add_trigger(self, features: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return rows with the trigger."""
        marked = np.array(features)
        marked[:, list(self.features)] = self.value
        return marked

    def require_fit(self, task: Task) -> None:
        """Refuse a task without classes, or without the features, the target or the attackers."""
        if task.model.classes is None:
            raise CheckError("backdoor", "for a task of classes", task.model.loss_name)
        check.integer(0, task.model.classes - 1)(target=self.target)
        check.integer(0, task.clients.features.shape[1] - 1)(features=max(self.features))
        check.integer(0, int((task.clients.sizes > 0).sum()))(attackers=self.attackers)

    def applies(self, scheme: Scheme) -> bool:
        """Return whether attackers comply or could skip clipping and noise, which they cannot at the server."""
        return self.complies or not isinstance(scheme.upload, RawUpdate)

    def measure(self, run: StudyRun) -> dict[str, Numbers | None]:
        """Return the score of a model that was trained with attackers, and the success rate of the trigger."""
        plain = drop_test_set(run.task)
        rows = replace(self, boost=1.0, complies=True, name="backdoor")  # the fields that rows depend on: one engine
        engine = make_backdoored_engine(get_engine(plain), get_engine(poison_task(plain, rows)), self)
        model = run.train(engines=reuse_engine(engine))
        if model is None:
            return {self.name: None}
        success = compute_attack_success(run.task, model, self)
        return {self.name: {"score": score_model(run.task, model), "success": success}}


class BackdoorClients:
    """The attackers alone, for ``SplitEngine``."""

    def __init__(self, engine: Engine, backdoor: Backdoor) -> None:
        """Take an engine over ``poison_task`` rows."""
        self._engine, self._backdoor = engine, backdoor

    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """Return the sum of boosted updates; the server clips them like all others.

        An attacker that does not comply neither clips nor adds noise, and sends padding as if it did.
        """
        rounds = (now.of(np.array([one])) for one in now.cohort)
        return combine_sums([self._attack(alone, upload) for alone in rounds], size=now.model.size)

    def _attack(self, alone: RoundInputs, upload: Upload) -> ClippedSum:
        boost, complies = self._backdoor.boost, self._backdoor.complies
        if isinstance(upload, LocalDPSGD):
            honest = self._engine.sum_uploads(alone, upload)
            if complies:
                return honest
            return replace(honest, total=boost * self._engine.sum_uploads(alone, remove_protection(upload)).total)
        update = boost * self._engine.sum_uploads(alone, RawUpdate(np.inf)).total
        if isinstance(upload, RawUpdate):
            return _clip_update(update, upload.clip_norm)
        drawn = upload.noise_stddev * alone.noise(int(alone.cohort[0])).normals((alone.model.size + 1,))
        sent = _clip_update(update, upload.clip_norm if complies else np.inf)
        return replace(sent, total=sent.total + drawn[:-1] if complies else sent.total, padding=drawn[-1:])


def list_attackers(task: Task, backdoor: Backdoor) -> Ids:
    """Return the ids of the attackers."""
    return np.flatnonzero(task.clients.sizes)[: backdoor.attackers]


def make_backdoored_engine(honest: Engine, poisoned: Engine, backdoor: Backdoor) -> Engine:
    """Return an engine with attackers from an engine over all rows and one over ``poison_task`` rows."""
    return SplitEngine(honest, list_attackers(honest.task, backdoor).tolist(), BackdoorClients(poisoned, backdoor))


@lru_cache(maxsize=1)
def poison_task(task: Task, backdoor: Backdoor) -> Task:
    """Return the task with the trigger and its class in half of the rows of each attacker.

    The other half keeps the model accurate, so that accuracy does not show the attack.
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
    """Return the fraction of test rows of other classes that get the target class with the trigger; in [0, 1]."""
    features, targets = task.test_set()
    others = targets != backdoor.target
    outputs = task.model.apply(
        task.model.unflatten(model.astype(features.dtype)), backdoor.add_trigger(features[others])
    )
    return float((np.asarray(outputs).argmax(axis=1) == backdoor.target).mean())


def _clip_update(update: Vector, clip_norm: float) -> ClippedSum:
    with np.errstate(over="ignore"):
        norm = float(np.linalg.norm(update))
    if not np.isfinite(norm):
        return ClippedSum(np.zeros_like(update), 0.0, 1, 1, 1)
    factor = 1.0 if norm <= clip_norm else (1 - HAIR) * clip_norm / norm
    return ClippedSum(factor * update, factor * norm, int(factor < 1), 0, 1)
