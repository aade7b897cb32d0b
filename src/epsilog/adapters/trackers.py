"""Released rounds in TensorBoard, MLflow, Weights & Biases or OpenTelemetry, by the one method that each has for it.

    from torch.utils.tensorboard import SummaryWriter
    run_rounds(paid, task, folder=folder, progress=tracked(SummaryWriter("logs"), paid.scheme, delta=1e-5))
    run(programme, task, observer=Tracked(SummaryWriter("logs")))

What is shown is what ``rounds.jsonl`` holds, which is public, and epsilon so far: certified from above, for the first
rounds of the schedule. Nothing of the curator's records goes to a tracker.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from epsilog.plan import RegisteredPlan, price
from epsilog.terms import CheckError, Interval, NeighboringRelation, RoundRecord, Scheme, check

BOUND = "something with add_scalar, log_metric, create_gauge, or log and a summary"
SAYS = {
    "test/loss": "loss on the public test set",
    "test/score": "score on the public test set",
    "dp/clip_norm": "clip norm that was enforced",
    "dp/rounds_left": "rounds of the schedule still to come",
    "dp/epsilon": "epsilon of the rounds so far, certified from above",
}
EVERY = 50  # prices in a whole run, about: each is a question to the accountant


def tracked(
    tracker: Any,
    scheme: Scheme,
    *,
    delta: float,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
) -> Callable[[RoundRecord], None]:
    """Returns what ``run_rounds`` calls with every released round.

    Args:
        tracker: a TensorBoard writer, MLflow itself or a run of it, a run of Weights & Biases, a meter of OpenTelemetry
            (1.23 or later), or anything with one of their methods: ``add_scalar(name, value, step)``,
            ``log_metric(name, value, step=step)``, ``log({name: value}, step=step)`` beside a ``summary``, or
            ``create_gauge(name, unit, description)``, of whose gauges ``set(value)`` is called. A gauge has no steps,
            and shows the last round.
        scheme: what is trained.
        delta: of the guarantee, in (0, 1).
        relation: which data sets are neighbours.

    Raises:
        CheckError: a tracker with none of these methods.
    """
    at = check.between(0, 1)(delta=delta)
    log = _method(tracker)
    return lambda record: _tell(log, record, scheme.rounds, lambda done: price(scheme, at, relation, rounds=done))


class Tracked:
    """Watches ``epsilog.programme.run`` or ``train_only`` for a tracker; delta and relation are the plan's.

    Args:
        tracker: as ``tracked`` takes it.

    Raises:
        CheckError: a tracker with none of these methods.
    """

    def __init__(self, tracker: Any) -> None:
        self._log = _method(tracker)

    def stage(self, says: str) -> None:
        """A new stage begins: no number."""

    def round(self, record: RoundRecord, plan: RegisteredPlan) -> None:
        """A round was released."""
        _tell(self._log, record, plan.scheme.rounds, plan.epsilon_after)


def _tell(
    log: Callable[[str, float, int], object], record: RoundRecord, rounds: int, so_far: Callable[[int], Interval]
) -> None:
    done, told = record.round, {"test/loss": record.test_loss, "test/score": record.test_score}
    told |= {"dp/clip_norm": record.clip_norm, "dp/rounds_left": rounds - done}
    if done % -(-rounds // EVERY) == 0 or done in (1, rounds):
        told["dp/epsilon"] = so_far(done).upper
    for name, value in told.items():
        if value is not None:
            log(name, float(value), done)


def _method(tracker: Any) -> Callable[[str, float, int], object]:
    """How a tracker takes one number of one round."""
    if callable(getattr(tracker, "add_scalar", None)):
        scalar: Callable[[str, float, int], object] = tracker.add_scalar
        return scalar
    if callable(getattr(tracker, "log_metric", None)):
        return lambda name, value, step: tracker.log_metric(name, value, step=step)
    if callable(getattr(tracker, "create_gauge", None)):
        return _gauges(tracker)
    if callable(getattr(tracker, "log", None)) and hasattr(tracker, "summary"):  # and no logger of Python's
        return lambda name, value, step: tracker.log({name: value}, step=step)
    raise CheckError("tracker", BOUND, f"a {type(tracker).__name__}")


def _gauges(meter: Any) -> Callable[[str, float, int], object]:
    """A gauge of OpenTelemetry for each name, made when it is first needed; slashes are dots there."""

    @cache
    def gauge(name: str) -> Any:
        return meter.create_gauge(f"epsilog.{name.replace('/', '.')}", unit="1", description=SAYS[name])

    return lambda name, value, _: gauge(name).set(value)
