"""Canaries of a run: drawn once, kept secret by the curator, and scored after the last round is released."""

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
    """Insert the canaries of the run in this folder: those drawn earlier, or new ones.

    Raises:
        ConfigError: the data have too few slots for them.
        RecordError: the stored secret is invalid.
    """
    config = prepared.config
    if config.audit is None:
        return prepared
    with attribute_errors_to(config.identity.name):
        canaries = _read_canaries(config.audit.canaries, folder) or _draw_canaries(config)
        return replace(prepared, task=insert_canaries(prepared.task, canaries))


def _read_canaries(count: int, folder: Path) -> Canaries | None:
    file = folder / RunArtifact.SECRET
    if not file.exists():
        return None
    try:
        return Canaries(count, file.read_text(encoding="ascii").removesuffix("\n"))
    except ValueError as error:
        raise RecordError(f"{file} does not hold the secret of canaries: {error}") from None


def _draw_canaries(config: PlanConfig) -> Canaries:
    assert config.audit is not None
    seed = config.run.seed
    return draw_canaries(config.audit.canaries, Randomness.from_os() if seed is None else Randomness.from_seed(seed))


def describe_audit(config: PlanConfig, task: Task) -> dict[str, Any]:
    """Return the entry of an audit in the details of the plan; empty without an audit."""
    if config.audit is None or task.canaries is None:
        return {}
    protocol = config.audit.to_protocol(float(config.delta))
    return {PLANNED: PlannedAudit.create(protocol, task.canaries, unit_is_client=task.unit_is_client).to_json()}


def require_planned_canaries(plan: RegisteredPlan, task: Task, folder: Path) -> None:
    """Refuse to resume with canaries other than those with the hash in the plan.

    Raises:
        ConfigError: the canaries differ, since the secret of the planned ones is lost.
    """
    planned = PlannedAudit.of(plan)
    if planned is not None and (task.canaries is None or task.canaries.commitment != planned.commitment):
        raise ConfigError(
            plan.name, [f"{folder} holds a plan for canaries with a secret that is not in {RunArtifact.SECRET}"]
        )


def store_secret(canaries: Canaries, folder: Path) -> None:
    """Write the secret for the curator alone, before anything holds its hash.

    Raises:
        ConflictError: another process has drawn other canaries since.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, content = folder / RunArtifact.SECRET, f"{canaries.secret}\n".encode()
    temporary = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    temporary.touch(mode=0o600)
    durable_io.write_durably(temporary, content)
    try:
        os.link(temporary, file)  # fails if the file exists, unlike a rename
    except FileExistsError:
        if file.read_bytes() != content:
            raise ConflictError(f"another process runs {folder.name!r}") from None
    finally:
        temporary.unlink()
    durable_io.sync_folder(folder)


def write_canary_scores(task: Task, model: NDArray[np.float64], folder: Path) -> None:
    """Write the scores of the canaries under the released model, with their secret."""
    if task.canaries is not None:
        scores = tuple(compute_canary_scores(task, model).tolist())
        write_json(folder / RunArtifact.CANARIES, CanaryScores(task.canaries.secret, scores).to_json())
