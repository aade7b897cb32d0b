"""Estimates of epsilon from canary clients, which send fixed random directions.

Each canary sends a random direction of the clip norm whenever it takes part. After the run, cosines between directions
and the change of the model are compared with those of directions that no client sent. Normal distributions are fitted
to both, and epsilon is that between the two: an estimate, not a bound.

Source: Andrew, Kairouz, Oh, Oprea, McMahan & Suriyakumar 2023 (arXiv:2302.03098), Algorithms 1 to 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsilog.schemes import Scheme
from epsilog.study.experiment import Experiment, Numbers, StudyRun, drop_test_set, get_engine, reuse_engine
from epsilog.terms import check
from epsilog.training import Randomness, Task
from epsilog.training.engines import CanaryClients, SplitEngine
from epsilog.training.rounds import RoundResult, TrainingState
from epsilog.verification.audits import estimate_epsilon, fit_normal

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CanaryExperiment(Experiment):
    """The number of canaries.

    Attributes:
        count: clients that send a direction instead of an update; twice as many further directions are not sent.
    """

    count: Annotated[int, check.integer(3)] = 100
    kind: ClassVar[str] = "canaries"

    def __post_init__(self) -> None:
        check.check_fields(self)

    def require_fit(self, task: Task) -> None:
        """Refuse more canaries than clients."""
        check.integer(3, task.clients.count)(canaries=self.count)

    def applies(self, scheme: Scheme) -> bool:
        """Return whether the scheme protects clients, since canaries are clients."""
        return scheme.unit_is_client

    def measure(self, run: StudyRun) -> dict[str, Numbers | None]:
        """Return estimates of epsilon from the last model and from all models.

        The largest cosine of each direction represents all models. The control compares directions with others that no
        client sent either: it shows the estimate that this number of canaries gives by chance.
        """
        plain = drop_test_set(run.task)
        size, draws = plain.model.size, Randomness.from_seed(run.seed)
        directions = draws.stream("canaries", 0).normals((3 * self.count, size))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        order = np.argsort(draws.stream("canaries", 1).words(plain.clients.count), kind="stable")
        ids, sent = np.sort(order[: self.count]), directions[: self.count]
        sends = dict(zip(ids.tolist(), sent, strict=True))
        engine = SplitEngine(get_engine(plain), sends, CanaryClients(sends.get, run.scheme.clip_norm))
        closest = np.full(3 * self.count, -1.0)

        def watch(before: TrainingState, after: RoundResult) -> None:
            np.maximum(closest, _cosines(directions, after.state.model - before.model), out=closest)

        model = run.train(engines=reuse_engine(engine), watch=watch)
        if model is None:
            return {self.kind: None}
        last = _cosines(sent, model - plain.model.start)
        there, absent, others = np.split(closest, 3)
        return {
            self.kind: {
                "last_model": estimate_epsilon((0.0, size**-0.5), fit_normal(last), delta=run.delta),
                "all_models": estimate_epsilon(fit_normal(absent), fit_normal(there), delta=run.delta),
                "control": estimate_epsilon(fit_normal(absent), fit_normal(others), delta=run.delta),
            }
        }


def _cosines(directions: Vector, moved: Vector) -> Vector:
    length = np.linalg.norm(moved)
    return np.asarray(directions @ moved / length) if length > 0 else np.zeros(len(directions))
