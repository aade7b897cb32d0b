"""From a programme file to a registered plan and a task: everything that can be refused is refused here."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilog import disk
from epsilog.plan import RegisteredPlan, register
from epsilog.programme.model import Programme, Promise
from epsilog.terms import CheckError, ProgrammeError, RecordsError, codec

if TYPE_CHECKING:
    from epsilog.train import Task

OF_A_MODEL = ("kind", "initial", "inputs", "init", "apply", "loss", "score")  # what a model may be refused for


def load_programme_task(programme: Programme, source: str) -> Task:
    """Loads the data and compares it with what the programme declares.

    Raises:
        ProgrammeError: an unknown data set, model or unit, or declared counts that the data contradicts.
    """
    from epsilog.train import load_task

    training = programme.training
    try:
        task = load_task(
            training.data,
            unit=programme.guarantee.privacy_unit,
            model=programme.model.chosen(Path(source).parent),
            learning_rate=training.learning_rate,
            local_steps=training.local_steps or 1,
            nominal_examples=training.nominal_examples or 1,
        )
    except CheckError as error:
        sections = {"guarantee": Promise.model_fields, "model": OF_A_MODEL}
        section = next((name for name, fields in sections.items() if error.field in fields), "training")
        raise ProgrammeError(source, [error.under(section)]) from error
    paced = dataclasses.replace(task.training, schedule=training.schedule or "constant", server=training.server())
    task = dataclasses.replace(task, training=paced)
    scheme, unit, stated = programme.scheme, programme.guarantee.privacy_unit, programme.guarantee.population
    found = []
    if task.unit_is_client != scheme.describes.unit_is_client:
        found.append(CheckError("scheme.kind", f"one that protects one {unit}", repr(scheme.kind)))
    if stated != task.units:
        found.append(CheckError("guarantee.population", f"{task.units} for this data", f"{stated}"))
    clients = getattr(scheme, "clients", task.clients.count)
    if clients != task.clients.count:
        found.append(CheckError("scheme.clients", f"{task.clients.count} for this data", f"{clients}"))
    if found:
        raise ProgrammeError(source, found)
    return task


def settings_hash(programme: Programme) -> str:
    """SHA-256 of the programme as stated; runs, folders and charges are told apart by it."""
    return codec.fingerprint(programme.model_dump(mode="json"))


def require_same(plan: RegisteredPlan, task: Task, folder: Path) -> None:
    """Refuses to go on with a stored plan whose data or model are no longer what it says.

    Raises:
        ProgrammeError: the code of a model, or a file of data, has changed since the plan was registered.
    """
    stated, found = plan.details["data"], task.describe()
    names = sorted({*stated, *found})
    differ = [name for name in names if codec.canonical(stated.get(name)) != codec.canonical(found.get(name))]
    if differ:
        raise ProgrammeError(plan.name, [f"{folder} holds a plan that was made for another {' and '.join(differ)}"])


def make_plan(programme: Programme, task: Task, base: Path) -> RegisteredPlan:
    """Prices a programme; references are read relative to ``base``.

    Raises:
        CalibrationError: the budget cannot be met.
        ProgrammeError: a reference that is not there.
    """
    scheme, guarantee, budget = programme.scheme, programme.guarantee, programme.budget
    given = None if scheme.noise_multiplier == "calibrate" else scheme.noise_multiplier
    return register(
        lambda z: scheme.term(guarantee.population, z),
        name=programme.programme.name,
        noise_multiplier=given,
        budget_epsilon=budget.epsilon,
        delta=programme.delta,
        relation=guarantee.relation,
        privacy_unit=guarantee.privacy_unit,
        population=guarantee.population,
        budget={
            "scope": budget.scope,
            "epsilon": str(budget.epsilon),
            "delta": str(programme.delta),
            "delta_rationale": budget.delta_rationale,
        },
        simulation=programme.run.simulation,
        details={
            "settings": settings_hash(programme),
            "programme": programme.programme.model_dump(mode="json"),
            "model": programme.model.model_dump(mode="json", exclude_none=True),
            "training": programme.training.model_dump(mode="json", exclude_none=True),
            "data": task.describe(),
            "boundary": programme.boundary.model_dump(mode="json"),
            "reporting": programme.reporting.model_dump(mode="json"),
            "references": _hashed(programme.references, base),
        },
    )


def _hashed(references: dict[str, str], base: Path) -> dict[str, str]:
    hashes = {}
    for name, file in references.items():
        try:
            hashes[name] = hashlib.sha256((base / file).read_bytes()).hexdigest()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ProgrammeError(f"references.{name}", [f"{file} cannot be read: {reason}"]) from error
    return hashes


def stored_plan(file: Path) -> RegisteredPlan | None:
    """The plan that an earlier call registered, if any: a resumed run keeps to it, whatever has been upgraded since."""
    if not file.exists():
        return None
    try:
        return RegisteredPlan.from_json(codec.parse(file.read_bytes()))
    except (ValueError, TypeError, KeyError) as error:
        raise RecordsError(f"{file} is not a plan: {error}") from error


def write_atomically(file: Path, content: bytes) -> None:
    """Replaces a file so that a kill or a power cut leaves the old one or the new one, never half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    waiting = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    disk.write(waiting, content)
    waiting.replace(file)
    disk.sync_folder(file.parent)


def write_json(file: Path, document: Any) -> None:
    """Writes plain JSON values as canonical JSON, atomically."""
    write_atomically(file, codec.canonical(document) + b"\n")
