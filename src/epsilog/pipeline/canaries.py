"""Canaries of a programme: drawn once, kept by the curator, and scored when the last round is released."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilog import disk
from epsilog.pipeline.model import Programme
from epsilog.pipeline.prepare import Prepared, told_of, write_json
from epsilog.plan import RegisteredPlan
from epsilog.terms import Canaries, ConflictError, ProgrammeError, RecordsError, RunFile
from epsilog.training import Randomness, Task, canary_scores, draw_canaries, enrol
from epsilog.verification import CanaryScores
from epsilog.verification.audits import PLANNED, PlannedAudit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def enrolled(prepared: Prepared, folder: Path) -> Prepared:
    """The same with the canaries of the run in this folder among its units: those drawn before, or fresh ones.

    Raises:
        ProgrammeError: there is no room for them.
        RecordsError: what is kept is no secret.
    """
    programme = prepared.programme
    if programme.audit is None:
        return prepared
    with told_of(programme.programme.name):
        canaries = _kept(programme.audit.canaries, folder) or _drawn(programme)
        return replace(prepared, task=enrol(prepared.task, canaries))


def _kept(count: int, folder: Path) -> Canaries | None:
    file = folder / RunFile.SECRET
    if not file.exists():
        return None
    try:
        return Canaries(count, file.read_text(encoding="ascii").removesuffix("\n"))
    except ValueError as error:
        raise RecordsError(f"{file} does not hold the secret of canaries: {error}") from None


def _drawn(programme: Programme) -> Canaries:
    assert programme.audit is not None
    seed = programme.run.seed
    return draw_canaries(programme.audit.canaries, Randomness.from_os() if seed is None else Randomness.simulated(seed))


def planned(programme: Programme, task: Task) -> dict[str, Any]:
    """What the plan's details hold of an audit, under its name; nothing where none is asked for."""
    if programme.audit is None or task.canaries is None:
        return {}
    protocol = programme.audit.protocol(float(programme.delta))
    return {PLANNED: PlannedAudit.made(protocol, task.canaries, unit_is_client=task.unit_is_client).to_json()}


def require_canaries(plan: RegisteredPlan, task: Task, folder: Path) -> None:
    """Refuses to go on with other canaries than those whose hash the plan names: their secret is gone.

    Raises:
        ProgrammeError: they differ.
    """
    stated = PlannedAudit.of(plan)
    if stated is not None and (task.canaries is None or task.canaries.commitment != stated.commitment):
        raise ProgrammeError(plan.name, [f"{folder} holds a plan for canaries whose secret is not in {RunFile.SECRET}"])


def keep(canaries: Canaries, folder: Path) -> None:
    """Writes the secret for the curator alone, before anything names its hash; whoever comes second finds it there.

    Raises:
        ConflictError: another process has drawn others meanwhile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, content = folder / RunFile.SECRET, f"{canaries.secret}\n".encode()
    waiting = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    waiting.touch(mode=0o600)
    disk.write(waiting, content)
    try:
        os.link(waiting, file)
    except FileExistsError:
        if file.read_bytes() != content:
            raise ConflictError(f"another process runs {folder.name!r}") from None
    finally:
        waiting.unlink()
    disk.sync_folder(folder)


def score(task: Task, model: NDArray[np.float64], folder: Path) -> None:
    """Writes how the canaries are scored by the model that was released last, and the secret with it."""
    if task.canaries is not None:
        scores = tuple(canary_scores(task, model).tolist())
        write_json(folder / RunFile.CANARIES, CanaryScores(task.canaries.secret, scores).to_json())
