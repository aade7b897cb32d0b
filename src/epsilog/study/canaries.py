"""Clients that send a direction of their own: how well are they found again in the models?

Each canary sends a random direction of the clip norm's length whenever it takes part. After the run the cosine between
its direction and what the training changed is compared with the cosines of directions that nobody sent. Both are fitted
by normal laws, and epsilon is that of the two: an estimate, not a bound from either side.

Source: Andrew, Kairouz, Oh, Oprea, McMahan & Suriyakumar 2023 (arXiv:2302.03098), Algorithms 1 to 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from epsilog.study.trial import Trial, engine_of, same, unscored
from epsilog.terms import CheckError, check
from epsilog.train import Randomness, Task
from epsilog.train.engines import Clipped, Engine, NoisyRuns, Round, noisy_updates, together
from epsilog.train.rounds import Outcome, State

Vector = NDArray[np.float64]
Ids = NDArray[np.int64]
HAIR = 1e-9  # how far below the bound a canary stays
MOST = 100.0  # the largest epsilon that is estimated; more is called this


@dataclass(frozen=True, slots=True)
class Canaries:
    """How many there are.

    Attributes:
        count: clients that send a direction instead of an update; twice as many directions more are sent by nobody.
    """

    count: int = 100
    name: ClassVar[str] = "canaries"

    def __post_init__(self) -> None:
        check.fields(self, count=check.integer(3))

    def require_fit(self, task: Task) -> None:
        """Refuses more canaries than clients."""
        check.integer(3, task.clients.count)(canaries=self.count)


class CanaryEngine:
    """An engine some of whose clients are canaries; see ``train.engines.Engine``.

    Attributes:
        task: what the others train on.
    """

    def __init__(self, honest: Engine, ids: Ids, directions: Vector, length: float) -> None:
        """Takes the canaries, a direction of length 1 for each, and how long it is where nobody clips."""
        self.task = honest.task
        self._honest, self._length = honest, length
        self._directions = dict(zip(ids.tolist(), directions, strict=True))

    def unusable(self, cohort: Ids) -> int:
        """As the honest engine says."""
        return self._honest.unusable(cohort)

    def evaluate(self, model: Vector) -> tuple[float, float]:
        """As the honest engine says."""
        return self._honest.evaluate(model)

    def sum_of_updates(self, now: Round, *, clip_norm: float) -> Clipped:
        """A canary's update is its direction, as long as the clip lets it be."""
        sends = np.isin(now.cohort, list(self._directions))
        honest = self._honest.sum_of_updates(now.of(now.cohort[~sends]), clip_norm=clip_norm)
        if not sends.any():
            return honest
        length = (1 - HAIR) * (clip_norm if math.isfinite(clip_norm) else self._length)
        sent = length * np.sum([self._directions[one] for one in now.cohort[sends].tolist()], axis=0)
        return together([honest, Clipped(sent, length, 0, 0, int(sends.sum()))], size=now.model.size)

    sum_of_noisy_updates = noisy_updates

    def sum_of_noisy_runs(self, now: Round, runs: NoisyRuns) -> Clipped:  # noqa: ARG002 - as every engine
        """There are no canaries among examples: a whole client's direction is not what this noise hides."""
        raise CheckError("canaries", "absent where a scheme protects examples", f"{len(self._directions)}")


def told_of_canaries(question: Canaries, trial: Trial) -> dict[str, float] | None:
    """Epsilon as estimated from the last model, and from all of them; None where training diverged.

    Of all models only a direction's largest cosine is kept. The control compares directions with
    others that nobody sent either: what it shows is what so few canaries show by chance.
    """
    plain = unscored(trial.task)
    size, draws = plain.model.size, Randomness.simulated(trial.seed)
    directions = draws.stream("canaries", 0).normals((3 * question.count, size))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    order = np.argsort(draws.stream("canaries", 1).words(plain.clients.count), kind="stable")
    ids, sent = np.sort(order[: question.count]), directions[: question.count]
    engine = CanaryEngine(engine_of(plain), ids, sent, trial.scheme.clip_norm)
    closest = np.full(3 * question.count, -1.0)

    def watch(before: State, after: Outcome) -> None:
        np.maximum(closest, _cosines(directions, after.state.model - before.model), out=closest)

    model = trial.trained(engines=same(engine), watch=watch)
    if model is None:
        return None
    last = _cosines(sent, model - plain.model.start)
    there, absent, others = np.split(closest, 3)
    return {
        "last_model": estimated_epsilon((0.0, size**-0.5), _fitted(last), delta=trial.delta),
        "all_models": estimated_epsilon(_fitted(absent), _fitted(there), delta=trial.delta),
        "control": estimated_epsilon(_fitted(absent), _fitted(others), delta=trial.delta),
    }


def estimated_epsilon(absent: tuple[float, float], there: tuple[float, float], *, delta: float) -> float:
    """Epsilon at delta of two normal laws, given by mean and standard deviation; at most 100.

    >>> round(estimated_epsilon((0.0, 1.0), (1.0, 1.0), delta=1e-5), 3)  # mu = 1 of Gaussian DP
    4.377
    """
    delta = check.between(0, 1)(delta=delta)
    low, high = 0.0, MOST

    def met(epsilon: float) -> bool:
        return max(_excess(absent, there, epsilon), _excess(there, absent, epsilon)) <= delta

    if met(low):
        return low
    if not met(high):
        return high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if met(middle) else (middle, high)
    return high


def _excess(one: tuple[float, float], other: tuple[float, float], epsilon: float) -> float:
    """The hockey-stick divergence of two normal laws: where ln p - ln q is above epsilon, P less e^epsilon Q."""
    (m, s), (n, t) = one, other
    # ln p - ln q - epsilon = a x^2 + b x + c
    a, b = (1 / t**2 - 1 / s**2) / 2, m / s**2 - n / t**2
    c = (n / t) ** 2 / 2 - (m / s) ** 2 / 2 + math.log(t / s) - epsilon
    if abs(a) < 1e-12 * (1 / t**2 + 1 / s**2):
        if b == 0:
            return max(0.0, 1 - math.exp(epsilon)) if c > 0 else 0.0
        edges = [(-c / b, math.inf)] if b > 0 else [(-math.inf, -c / b)]
    else:
        root = b * b - 4 * a * c
        if root <= 0:
            edges = [(-math.inf, math.inf)] if a > 0 else []
        else:
            q = -(b + math.copysign(math.sqrt(root), b)) / 2
            left, right = sorted((q / a, c / q))
            edges = [(-math.inf, left), (right, math.inf)] if a > 0 else [(left, right)]
    p, q = (sum(_mass(law, edge) for edge in edges) for law in (one, other))
    return max(0.0, p - math.exp(epsilon) * q)


def _mass(law: tuple[float, float], edge: tuple[float, float]) -> float:
    low, high = ((each - law[0]) / law[1] for each in edge)
    return float(norm.sf(low) - norm.sf(high)) if low > 0 else float(norm.cdf(high) - norm.cdf(low))


def _cosines(directions: Vector, moved: Vector) -> Vector:
    length = np.linalg.norm(moved)
    return np.asarray(directions @ moved / length) if length > 0 else np.zeros(len(directions))


def _fitted(values: Vector) -> tuple[float, float]:
    return float(values.mean()), max(float(values.std(ddof=1)), 1e-12)
