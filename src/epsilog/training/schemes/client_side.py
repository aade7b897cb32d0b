"""Noise at the client: the mean of the cohort's noisy uploads."""

from __future__ import annotations

from epsilog.schemes import ClientLevelClientSide, ExampleLevelClientSide
from epsilog.terms import CheckError
from epsilog.training.engines import Engine
from epsilog.training.schemes.base import RoundContext, RoundUpdate, register_trainer
from epsilog.training.task import Task

MAX_NORMALS = 500_000_000  # per client and round: 4 GB


def require_draw_memory(scheme: ExampleLevelClientSide, task: Task) -> None:
    """Refuse a round in which a client draws more normals than fit in memory.

    The check depends on steps and model, which are public, and not on the sizes of clients, which are not.
    """
    normals = scheme.local_steps * (task.model.size + 1)
    if normals > MAX_NORMALS:
        bound = f"so few that a client needs at most {MAX_NORMALS} normals in a round"
        raise CheckError("local_steps", bound, f"{scheme.local_steps}")


@register_trainer(ClientLevelClientSide)
@register_trainer(ExampleLevelClientSide, require_fit=require_draw_memory)
def compute_mean_upload(
    scheme: ClientLevelClientSide | ExampleLevelClientSide, engine: Engine, now: RoundContext, /
) -> RoundUpdate:
    """Return the average of the uploads. The padding of a client is its noise on one extra coordinate, per step."""
    noisy = now.sum_uploads(engine, scheme.upload)
    return RoundUpdate(noisy.total / max(now.cohort.size, 1), noisy, noisy.padding)
