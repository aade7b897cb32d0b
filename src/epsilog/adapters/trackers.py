"""Released rounds in TensorBoard or MLflow: whatever has ``add_scalar`` or ``log_metric`` will do.

    from torch.utils.tensorboard import SummaryWriter
    run_rounds(paid, task, folder=folder, progress=tracked(SummaryWriter("logs"), paid.scheme, delta=1e-5))

What is shown is what ``rounds.jsonl`` holds, which is public, and epsilon so far: certified from above, for the first
rounds of the schedule. Nothing of the curator's records goes to a tracker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from epsilog.plan import price
from epsilog.terms import CheckError, NeighboringRelation, RoundRecord, Scheme, check

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
        tracker: a TensorBoard writer, MLflow itself or a run of it, or anything with one of their two methods:
            ``add_scalar(name, value, step)`` or ``log_metric(name, value, step=step)``.
        scheme: what is trained.
        delta: of the guarantee, in (0, 1).
        relation: which data sets are neighbours.

    Raises:
        CheckError: a tracker with neither method.
    """
    at = check.between(0, 1)(delta=delta)
    log = _method(tracker)
    apart = -(-scheme.rounds // EVERY)

    def show(record: RoundRecord) -> None:
        done, told = record.round, {"test/loss": record.test_loss, "test/score": record.test_score}
        told |= {"dp/clip_norm": record.clip_norm, "dp/rounds_left": scheme.rounds - done}
        if done % apart == 0 or done in (1, scheme.rounds):
            told["dp/epsilon"] = price(scheme, at, relation, rounds=done).upper
        for name, value in told.items():
            if value is not None:
                log(name, float(value), done)

    return show


def _method(tracker: Any) -> Callable[[str, float, int], object]:
    if callable(getattr(tracker, "add_scalar", None)):
        scalar: Callable[[str, float, int], object] = tracker.add_scalar
        return scalar
    if callable(getattr(tracker, "log_metric", None)):
        return lambda name, value, step: tracker.log_metric(name, value, step=step)
    raise CheckError("tracker", "something with add_scalar or log_metric", f"a {type(tracker).__name__}")
