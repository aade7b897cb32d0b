"""From a programme file to a registered plan and a task: everything that can be refused is refused here."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from epsilog import durable_io
from epsilog.pipeline.config import PlanConfig, RunConfig, load_run_config
from epsilog.pipeline.counts import COUNTS, require_countable
from epsilog.pipeline.data_sections import CustomDataSection, WithdrawalList
from epsilog.pipeline.tuning import TUNING
from epsilog.plan import RegisteredPlan, build_registered_plan
from epsilog.terms import CheckError, ConfigError, NeighboringRelation, RecordError, check, codec
from epsilog.terms.disclosed import Public
from epsilog.training import LocalTraining, Task

OF_A_MODEL = (
    "kind",
    "initial",
    "inputs",
    "init",
    "apply",
    "loss",
    "score",
    "filters",
    "parameters",
)  # what a model may be refused for


@dataclass(frozen=True, slots=True, eq=False)
class PreparedRun:
    """A programme with the task that it is about.

    Attributes:
        programme: with its population as a number.
        task: what is trained on what.
        learning: what the programme states of model and training, as plain JSON values.
        settings: SHA-256 of all that is stated; runs, folders and charges are told apart by it.
        base: the folder that paths are relative to.
        withdrawn: says, whenever it is asked, which clients take part no more; None where nobody can withdraw.
        notes: sentences on the data that may be told, for whoever starts a run.
    """

    programme: PlanConfig
    task: Task
    learning: dict[str, Any]
    settings: str
    base: Path
    withdrawn: Callable[[], Collection[int]] | None = None
    notes: tuple[str, ...] = ()


def prepare_config(path: Path) -> PreparedRun:
    """Reads a programme file, brings in its data and holds one against the other.

    Raises:
        ConfigError: the file is wrong, the data is not what it says, or counts do not fit.
    """
    stated = load_run_config(path)
    with attribute_errors_to(str(path)):
        unit, public = stated.guarantee.privacy_unit, stated.guarantee.population_is_public
        dataset = stated.data.load(unit, path.parent, counts_are_public=public)
        _require_level(stated, unit, unit_is_client=dataset.unit_is_client)
        canaries = 0 if stated.audit is None else stated.audit.canaries
        programme = stated.counting(dataset.units + canaries) if stated.guarantee.to_guarantee is None else stated
        clients = getattr(programme.scheme, "clients", programme.population)
        misfits = dataset.misfits(population=programme.population, clients=clients, canaries=canaries)
        _refuse(str(path), misfits)
        task = dataset.task(
            stated.model.to_model_kind(path.parent),
            stated.training.to_local_training(),
            population=programme.population,
            clients=clients,
            sizes_are_public=stated.guarantee.sizes_are_public,
        )
        _require_kept_rows(stated, task)
        _require_scored(stated, task)
        require_countable(stated.counts, task)
        withdrawn = None
        if stated.data.withdrawn is not None:
            withdrawn = WithdrawalList(path.parent / stated.data.withdrawn, dataset)
            withdrawn()
    sections = {"model": stated.model, "training": stated.training}
    learning = {name: each.model_dump(mode="json", exclude_none=True) for name, each in sections.items()}
    return PreparedRun(programme, task, learning, hash_settings(programme), path.parent, withdrawn, dataset.notes)


def prepare_task(programme: PlanConfig, task: Task) -> PreparedRun:
    """Holds a programme against a task that was made in Python.

    Raises:
        ConfigError: the task protects another unit than the programme says, or another number of them.
    """
    if isinstance(programme, RunConfig):
        raise ConfigError("programme", [CheckError("task", "absent for a programme that brings its data", task.name)])
    with attribute_errors_to("programme"):
        unit = programme.guarantee.privacy_unit
        check.one_of((task.unit,))(privacy_unit=unit)
        _require_level(programme, unit, unit_is_client=task.unit_is_client)
        _require_kept_rows(programme, task)
        _require_scored(programme, task)
        require_countable(programme.counts, task)
        programme = programme.counting(task.units) if programme.guarantee.to_guarantee is None else programme
        counted = {"population": (programme.population, task.units)}
        if hasattr(programme.scheme, "clients"):
            counted["clients"] = (programme.scheme.clients, task.clients.count)
        wrong = ((name, *both) for name, both in counted.items() if both[0] != both[1])
        _refuse("programme", [CheckError(name, f"{there} for this task", f"{said}") for name, said, there in wrong])
    training = {name: value for name, value in asdict(task.training).items() if value is not None}
    learning = {"model": task.model.describe(), "training": training}
    settings = codec.hash_canonical([hash_settings(programme), task.describe(), learning])
    return PreparedRun(programme, task, learning, settings, Path())


def _require_level(programme: PlanConfig, unit: str, *, unit_is_client: bool) -> None:
    if unit_is_client != programme.scheme.describes.unit_is_client:
        raise CheckError("scheme.kind", f"one that protects one {unit}", repr(programme.scheme.kind))


def _require_scored(programme: PlanConfig, task: Task) -> None:
    """Trials are compared by their score on a public test set, and their settings are settings."""
    if programme.tuning is None:
        return
    if task.test_features is None:
        raise CheckError("tuning", "absent where there is no public test set to choose by", "given")
    for one in programme.tuning.candidates:
        try:
            replace(task.training, **one)
        except CheckError as error:
            raise error.under("tuning.candidates") from None


def _require_kept_rows(programme: PlanConfig, task: Task) -> None:
    """Where sizes show, the promise is for neighbours that keep all their rows."""
    if task.reveals_sizes and programme.guarantee.relation is not NeighboringRelation.ZERO_OUT:
        bound = f"{NeighboringRelation.ZERO_OUT.value} with training.example_cap, since sizes are public"
        raise CheckError("relation", bound, programme.guarantee.relation.value)


SECTIONS = {
    **dict.fromkeys(
        ("privacy_unit", "relation", "population", "population_is_public", "sizes_are_public"), "guarantee"
    ),
    **dict.fromkeys(OF_A_MODEL, "model"),
    "clients": "scheme",
    "canaries": "audit",
    **dict.fromkeys((field.name for field in fields(LocalTraining)), "training"),
}
"""Where a field stands that is held against the data; the rest is about the data."""


def _add_path(error: CheckError) -> CheckError:
    placed = error.field.startswith(("scheme.", "tuning", "counts."))
    return error if placed else error.under(SECTIONS.get(error.field, "data"))


def _refuse(source: str, wrong: Sequence[CheckError]) -> None:
    """What does not fit is told by the section and the field where it stands."""
    if wrong:
        raise ConfigError(source, [_add_path(each) for each in wrong])


@contextlib.contextmanager
def attribute_errors_to(source: str) -> Iterator[None]:
    """What is wrong with a field is told of the section where it stands, in ``source``."""
    try:
        yield
    except CheckError as error:
        raise ConfigError(source, [_add_path(error)]) from None


def hash_settings(programme: PlanConfig) -> str:
    """SHA-256 of the programme as stated."""
    unsaid = {name for name in ("audit", "tuning", "counts") if getattr(programme, name) is None}
    return codec.hash_canonical(programme.model_dump(mode="json", exclude=unsaid))


def require_same_inputs(plan: RegisteredPlan, task: Task, folder: Path) -> None:
    """Refuses to go on with a stored plan whose data or model are no longer what it says.

    Raises:
        ConfigError: the code of a model, or a file of data, has changed since the plan was registered.
    """
    stated, found = plan.details["data"], task.describe()
    names = sorted({*stated, *found})
    differ = [
        name for name in names if codec.encode_canonical(stated.get(name)) != codec.encode_canonical(found.get(name))
    ]
    if differ:
        raise ConfigError(plan.name, [f"{folder} holds a plan that was made for another {' and '.join(differ)}"])


def make_plan(prepared: PreparedRun, *, audit: Mapping[str, Any] = MappingProxyType({})) -> RegisteredPlan:
    """Prices a programme.

    Args:
        prepared: with its canaries among its units, where it has any.
        audit: what the plan says of those besides, by name.

    Raises:
        CalibrationError: the budget cannot be met.
        ConfigError: a reference that is not there.
    """
    programme = prepared.programme
    details = {
        "settings": prepared.settings,
        "programme": programme.programme.model_dump(mode="json"),
        **prepared.learning,
        "data": prepared.task.describe(),
        "boundary": programme.boundary.model_dump(mode="json", exclude_none=True),
        "reporting": programme.reporting.model_dump(mode="json"),
        "references": _hash_files(programme, prepared.base),
        **audit,
        **({} if programme.tuning is None else {TUNING: {"candidates": list(programme.tuning.candidates)}}),
        **({} if programme.counts is None else {COUNTS: programme.counts.to_json()}),
    }
    return compute_plan_interval(programme, programme.population, details)


def compute_plan_interval(programme: PlanConfig, population: int, details: dict[str, Any]) -> RegisteredPlan:
    """What a programme promises and costs: the same before its data is read and after.

    Args:
        programme: what promises.
        population: how many units there are.
        details: what the plan says besides, by name.

    Raises:
        CalibrationError: the budget cannot be met.
    """
    scheme, guarantee, budget = programme.scheme, programme.guarantee, programme.budget
    return build_registered_plan(
        lambda z: scheme.term(population, z),
        name=programme.programme.name,
        noise_multiplier=None if scheme.noise_multiplier == "calibrate" else scheme.noise_multiplier,
        budget_epsilon=programme.for_training,
        delta=programme.delta,
        relation=guarantee.relation,
        privacy_unit=guarantee.privacy_unit,
        population=population,
        budget={
            "scope": budget.scope,
            "epsilon": str(budget.epsilon),
            "delta": str(programme.delta),
            "delta_rationale": budget.delta_rationale,
        },
        simulation=programme.run.simulation,
        trials=None if programme.tuning is None else programme.tuning.law,
        details=details,
    )


def _hash_files(programme: PlanConfig, base: Path) -> dict[str, Public]:
    """SHA-256 of each file that the plan refers to; never of the data, since whoever guesses them could check it."""
    hashes, private = {}, _private_files(programme, base)
    for name, file in programme.references.items():
        try:
            if any(_lies_in(base / file, one) for one in private):
                bound = "another file than the data and the withdrawals: a plan publishes its hash"
                raise ConfigError(programme.programme.name, [CheckError(f"references.{name}", bound, file)])
            hashes[name] = Public.of((base / file).read_bytes())
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"references.{name}", [f"{file} cannot be read: {reason}"]) from error
    return hashes


def _private_files(programme: PlanConfig, base: Path) -> list[Path]:
    """The files of a programme that are not public, as far as they are there."""
    if not isinstance(programme, RunConfig):
        return []
    data = programme.data
    named = (data.withdrawn, data.path if isinstance(data, CustomDataSection) and not data.public else None)
    return [base / one for one in named if one is not None and (base / one).exists()]


def _lies_in(file: Path, private: Path) -> bool:
    return file.samefile(private) or file.resolve().is_relative_to(private.resolve())


def read_stored_plan(file: Path) -> RegisteredPlan | None:
    """The plan that an earlier call registered, if any: a resumed run keeps to it, whatever has been upgraded since."""
    if not file.exists():
        return None
    try:
        return RegisteredPlan.from_json(codec.parse_json(file.read_bytes()))
    except (ValueError, TypeError, KeyError) as error:
        raise RecordError(f"{file} is not a plan: {error}") from error


def write_json(file: Path, document: Any) -> None:
    """Writes plain JSON values as canonical JSON, atomically."""
    durable_io.write_atomically(file, codec.encode_canonical(document) + b"\n")
