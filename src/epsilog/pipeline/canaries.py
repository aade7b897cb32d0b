"""Canaries of a programme: drawn once, kept by the curator, and scored when the last round is released."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilog import durable_io
from epsilog.pipeline.config import PlanConfig
from epsilog.pipeline.preparation import PreparedRun, attribute_errors_to, write_json
from epsilog.plan import RegisteredPlan
from epsilog.terms import Canaries, ConfigError, ConflictError, RecordError, RunArtifact
from epsilog.training import Randomness, Task, compute_canary_scores, draw_canaries, insert_canaries
from epsilog.verification import CanaryScores
from epsilog.verification.audits import PLANNED, PlannedAudit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def insert_run_canaries(prepared: PreparedRun, folder: Path) -> PreparedRun:
    """The same with the canaries of the run in this folder among its units: those drawn before, or fresh ones.

    Raises:
        ConfigError: there is no room for them.
        RecordError: what is kept is no secret.
    """
    programme = prepared.programme
    if programme.audit is None:
        return prepared
    with attribute_errors_to(programme.programme.name):
        canaries = _read_kept_canaries(programme.audit.canaries, folder) or _draw_canaries(programme)
        return replace(prepared, task=insert_canaries(prepared.task, canaries))


def _read_kept_canaries(count: int, folder: Path) -> Canaries | None:
    file = folder / RunArtifact.SECRET
    if not file.exists():
        return None
    try:
        return Canaries(count, file.read_text(encoding="ascii").removesuffix("\n"))
    except ValueError as error:
        raise RecordError(f"{file} does not hold the secret of canaries: {error}") from None


def _draw_canaries(programme: PlanConfig) -> Canaries:
    assert programme.audit is not None
    seed = programme.run.seed
    return draw_canaries(programme.audit.canaries, Randomness.from_os() if seed is None else Randomness.simulated(seed))


def describe_audit(programme: PlanConfig, task: Task) -> dict[str, Any]:
    """What the plan's details hold of an audit, under its name; nothing where none is asked for."""
    if programme.audit is None or task.canaries is None:
        return {}
    protocol = programme.audit.protocol(float(programme.delta))
    return {PLANNED: PlannedAudit.create(protocol, task.canaries, unit_is_client=task.unit_is_client).to_json()}


def require_planned_canaries(plan: RegisteredPlan, task: Task, folder: Path) -> None:
    """Refuses to go on with other canaries than those whose hash the plan names: their secret is gone.

    Raises:
        ConfigError: they differ.
    """
    stated = PlannedAudit.of(plan)
    if stated is not None and (task.canaries is None or task.canaries.commitment != stated.commitment):
        raise ConfigError(
            plan.name, [f"{folder} holds a plan for canaries whose secret is not in {RunArtifact.SECRET}"]
        )


def store_secret(canaries: Canaries, folder: Path) -> None:
    """Writes the secret for the curator alone, before anything names its hash; whoever comes second finds it there.

    Raises:
        ConflictError: another process has drawn others meanwhile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, content = folder / RunArtifact.SECRET, f"{canaries.secret}\n".encode()
    waiting = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    waiting.touch(mode=0o600)
    durable_io.write_durably(waiting, content)
    try:
        os.link(waiting, file)
    except FileExistsError:
        if file.read_bytes() != content:
            raise ConflictError(f"another process runs {folder.name!r}") from None
    finally:
        waiting.unlink()
    durable_io.sync_folder(folder)


def write_canary_scores(task: Task, model: NDArray[np.float64], folder: Path) -> None:
    """Writes how the canaries are scored by the model that was released last, and the secret with it."""
    if task.canaries is not None:
        scores = tuple(compute_canary_scores(task, model).tolist())
        write_json(folder / RunArtifact.CANARIES, CanaryScores(task.canaries.secret, scores).to_json())
