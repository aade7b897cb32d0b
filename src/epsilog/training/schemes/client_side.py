"""Noise at the client: the mean of the cohort's noisy uploads."""

from __future__ import annotations

from epsilog.schemes import ClientLevelClientSide, ExampleLevelClientSide
from epsilog.terms import CheckError
from epsilog.training.engines import Engine
from epsilog.training.schemes.base import RoundContext, RoundUpdate, register_trainer
from epsilog.training.task import Task

MAX_NORMALS = 500_000_000  # of one client in a round: 4 GB


def require_draw_memory(scheme: ExampleLevelClientSide, task: Task) -> None:
    """Refuse a round in which a client needs more normals than memory holds.

    Steps and the model are public. How many rows the largest client has is not, so it refuses nothing.
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
    """Average the uploads. A client's padding is its noise on one coordinate more, scaled to one step's."""
    noisy = now.sum_uploads(engine, scheme.upload)
    return RoundUpdate(noisy.total / max(now.cohort.size, 1), noisy, noisy.padding)
