"""From a run config to a task and a registered plan; whatever can be refused without a charge is refused here.

Canaries are drawn once, kept secret by the curator, and scored after the last round is released.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilog import durable_io
from epsilog.pipeline.config import SOURCE, PlanConfig, RunConfig, load_run_config
from epsilog.pipeline.counts import COUNTS, require_countable
from epsilog.pipeline.data_sections import CustomDataSection, WithdrawalList
from epsilog.pipeline.tuning import TUNING
from epsilog.plan import RegisteredPlan, build_registered_plan
from epsilog.terms import (
    Canaries,
    CheckError,
    ConfigError,
    ConflictError,
    NeighboringRelation,
    RecordError,
    RunArtifact,
    check,
    codec,
)
from epsilog.terms.disclosed import Public
from epsilog.training import LocalTraining, Randomness, Task, compute_canary_scores, draw_canaries, insert_canaries
from epsilog.training.models import ReleasedModel, get_cached_model
from epsilog.verification import CanaryScores
from epsilog.verification.audits import PLANNED, PlannedAudit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class PreparedRun:
    """A run config with its task.

    Attributes:
        config: with the population as a number.
        task: what is trained on which data.
        learning: the model and training settings of the config, as plain JSON values.
        settings: SHA-256 of everything stated; it distinguishes runs, folders and charges.
        base: the folder that paths are relative to.
        withdrawn: returns the clients that have withdrawn, on each call; None if clients cannot withdraw.
        notes: sentences about the data that may be shown to the user who starts the run.
    """

    config: PlanConfig
    task: Task
    learning: dict[str, Any]
    settings: str
    base: Path
    withdrawn: Callable[[], Collection[int]] | None = None
    notes: tuple[str, ...] = ()


def prepare_config(path: Path) -> PreparedRun:
    """Read a run config, load its data and check one against the other.

    Raises:
        ConfigError: the file is wrong, or the data do not match it.
    """
    config, base = load_run_config(path), path.parent
    with attribute_errors_to(str(path)):
        guarantee = config.guarantee
        dataset = config.data.load(guarantee.privacy_unit, base, counts_are_public=guarantee.population_is_public)
        _require_level(config, guarantee.privacy_unit, unit_is_client=dataset.unit_is_client)
        canaries = 0 if config.audit is None else config.audit.canaries
        config = config.with_population(dataset.units + canaries)
        clients = getattr(config.scheme, "clients", config.population)
        _refuse(str(path), dataset.misfits(population=config.population, clients=clients, canaries=canaries))
        task = dataset.task(
            config.model.to_model_kind(base),
            config.training.to_local_training(),
            population=config.population,
            clients=clients,
            sizes_are_public=guarantee.sizes_are_public,
        )
        _require_matching_sections(config, task)
        withdrawn = None
        if config.data.withdrawn is not None:
            withdrawn = WithdrawalList(base / config.data.withdrawn, dataset)
            withdrawn()
    sections = {"model": config.model, "training": config.training}
    learning = {name: each.model_dump(mode="json", exclude_none=True) for name, each in sections.items()}
    return PreparedRun(config, task, learning, hash_settings(config), base, withdrawn, dataset.notes)


def prepare_task(config: PlanConfig, task: Task) -> PreparedRun:
    """Check a config against a task that was made in Python.

    Raises:
        ConfigError: the task has another privacy unit than the config, or another number of units.
    """
    if isinstance(config, RunConfig):
        raise ConfigError(SOURCE, [CheckError("task", "absent for a run config with [data]", task.name)])
    with attribute_errors_to(SOURCE):
        unit = config.guarantee.privacy_unit
        check.one_of((task.unit,))(privacy_unit=unit)
        _require_level(config, unit, unit_is_client=task.unit_is_client)
        _require_matching_sections(config, task)
        config = config.with_population(task.units)
        counts = {"population": (config.population, task.units)}
        if hasattr(config.scheme, "clients"):
            counts["clients"] = (config.scheme.clients, task.clients.count)
        differ = [(name, stated, found) for name, (stated, found) in counts.items() if stated != found]
        _refuse(SOURCE, [CheckError(name, f"{found} for this task", f"{stated}") for name, stated, found in differ])
    training = {name: value for name, value in asdict(task.training).items() if value is not None}
    learning = {"model": task.model.describe(), "training": training}
    settings = codec.hash_canonical([hash_settings(config), task.describe(), learning])
    return PreparedRun(config, task, learning, settings, Path())


def _require_level(config: PlanConfig, unit: str, *, unit_is_client: bool) -> None:
    if unit_is_client != config.scheme.describes.unit_is_client:
        raise CheckError("scheme.kind", f"one that protects one {unit}", repr(config.scheme.kind))


def _require_matching_sections(config: PlanConfig, task: Task) -> None:
    """Check the sections that depend on the task: [guarantee], [tuning] and [counts]."""
    if task.reveals_sizes and config.guarantee.relation is not NeighboringRelation.ZERO_OUT:
        bound = f"{NeighboringRelation.ZERO_OUT.value} with training.example_cap, since sizes are public"
        raise CheckError("relation", bound, config.guarantee.relation.value)
    if config.tuning is not None:
        if task.test_features is None:
            raise CheckError("tuning", "absent where there is no public test set to choose by", "given")
        for candidate in config.tuning.candidates:
            try:
                replace(task.training, **candidate)
            except CheckError as error:
                raise error.under("tuning.candidates") from None
    require_countable(config.counts, task)


SECTIONS = {
    **dict.fromkeys(
        ("privacy_unit", "relation", "population", "population_is_public", "sizes_are_public"), "guarantee"
    ),
    **dict.fromkeys(
        ("kind", "warm_start", "inputs", "init", "apply", "loss", "score", "filters", "parameters"), "model"
    ),
    "clients": "scheme",
    "canaries": "audit",
    **dict.fromkeys((field.name for field in fields(LocalTraining)), "training"),
}
"""The section of each field that is checked against the data; every other field is in [data]."""


def _add_section(error: CheckError) -> CheckError:
    has_section = error.field.startswith(("scheme.", "tuning", "counts."))
    return error if has_section else error.under(SECTIONS.get(error.field, "data"))


def _refuse(source: str, errors: Sequence[CheckError]) -> None:
    """Raise the errors, each under the section of its field."""
    if errors:
        raise ConfigError(source, [_add_section(each) for each in errors])


@contextlib.contextmanager
def attribute_errors_to(source: str) -> Iterator[None]:
    """Turn a ``CheckError`` into a ``ConfigError`` of ``source``, under the section of its field."""
    try:
        yield
    except CheckError as error:
        raise ConfigError(source, [_add_section(error)]) from None


def hash_settings(config: PlanConfig) -> str:
    """Return the SHA-256 of a config as stated."""
    absent = {name for name in ("audit", "tuning", "counts") if getattr(config, name) is None}
    return codec.hash_canonical(config.model_dump(mode="json", by_alias=True, exclude=absent))


def require_same_inputs(plan: RegisteredPlan, task: Task, folder: Path) -> None:
    """Refuse to resume a stored plan if the data or the model have changed.

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
    """Make the plan of a prepared run, with its cost.

    Args:
        prepared: with its canaries among the units, if it has any.
        audit: the entry of the audit in the details of the plan.

    Raises:
        CalibrationError: the budget cannot be met.
        ConfigError: a referenced file is missing.
    """
    config = prepared.config
    details = {
        "settings": prepared.settings,
        "identity": config.identity.model_dump(mode="json"),
        **prepared.learning,
        "data": prepared.task.describe(),
        "coverage": config.coverage.model_dump(mode="json", exclude_none=True),
        "reporting": config.reporting.model_dump(mode="json"),
        "references": _hash_files(config, prepared.base),
        **audit,
        **({} if config.tuning is None else {TUNING: {"candidates": list(config.tuning.candidates)}}),
        **({} if config.counts is None else {COUNTS: config.counts.to_json()}),
    }
    return compute_plan_interval(config, config.population, details)


def compute_plan_interval(
    config: PlanConfig, population: int, details: dict[str, Any], *, epsilon: Decimal | None = None
) -> RegisteredPlan:
    """Make the plan of a config for a population; the data change nothing about its cost.

    Args:
        config: what is claimed.
        population: number of privacy units.
        details: further entries of the plan.
        epsilon: calibrates the noise to this epsilon; None for the budget and noise of the config.

    Raises:
        CalibrationError: the budget cannot be met.
    """
    scheme, guarantee, budget = config.scheme, config.guarantee, config.budget
    calibrated = epsilon is not None or scheme.noise_multiplier == "calibrate"
    return build_registered_plan(
        lambda z: scheme.build_scheme(population, z),
        name=config.identity.name,
        noise_multiplier=None if calibrated else scheme.noise_multiplier,  # type: ignore[arg-type]
        budget_epsilon=config.training_epsilon if epsilon is None else epsilon,
        delta=config.delta,
        relation=guarantee.relation,
        privacy_unit=guarantee.privacy_unit,
        population=population,
        budget={
            "scope": budget.scope,
            "epsilon": str(budget.epsilon),
            "delta": str(config.delta),
            "delta_rationale": budget.delta_rationale,
        },
        simulation=config.run.simulation,
        trials=None if config.tuning is None else config.tuning.trial_distribution,
        details=details,
    )


def _hash_files(config: PlanConfig, base: Path) -> dict[str, Public]:
    """Return the SHA-256 of each referenced file; never of private data, since a hash confirms a guess."""
    hashes, private = {}, _list_private_files(config, base)
    for name, file in config.references.items():
        try:
            if any(_lies_in(base / file, one) for one in private):
                bound = "another file than the data and the withdrawals: a plan publishes its hash"
                raise ConfigError(config.identity.name, [CheckError(f"references.{name}", bound, file)])
            hashes[name] = Public.of((base / file).read_bytes())
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"references.{name}", [f"{file} cannot be read: {reason}"]) from error
    return hashes


def _list_private_files(config: PlanConfig, base: Path) -> list[Path]:
    """Return the existing files of a config that are not public."""
    if not isinstance(config, RunConfig):
        return []
    data = config.data
    named = (data.withdrawn, data.path if isinstance(data, CustomDataSection) and not data.public else None)
    return [base / one for one in named if one is not None and (base / one).exists()]


def _lies_in(file: Path, private: Path) -> bool:
    return file.samefile(private) or file.resolve().is_relative_to(private.resolve())


def read_stored_plan(file: Path) -> RegisteredPlan | None:
    """Return the plan of an earlier call, if any; a resumed run keeps it after every upgrade."""
    if not file.exists():
        return None
    try:
        return RegisteredPlan.from_json(codec.parse_json(file.read_bytes()))
    except (ValueError, TypeError, KeyError) as error:
        raise RecordError(f"{file} is not a plan: {error}") from error


def write_json(file: Path, document: Any) -> None:
    """Write plain JSON values as canonical JSON, atomically."""
    durable_io.write_atomically(file, codec.encode_canonical(document) + b"\n")


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


def predict_targets(config: Path, model: Path, rows: Path) -> list[Any]:
    """Predict the target of every row of a file.

    Args:
        config: the run config of the model; its [data] defines the columns.
        model: the released model, ``model.npz`` of a run's folder.
        rows: a file with the columns of the features; others may be absent.

    Returns:
        A label, a number or a date per row, within the range of the target; None if a row is unusable.

    Raises:
        ConfigError: the run config, the file of rows or the model is wrong; the error names which.
    """
    stated = load_run_config(config)
    with attribute_errors_to(str(config)):
        if not isinstance(stated.data, CustomDataSection):
            bound = "absent: only a file of one's own says what its columns mean"
            raise CheckError("name", bound, repr(stated.data.name))
        data = stated.data.to_custom_data(config.parent, counts_are_public=False)
        features, goal = data.features(rows), data.schema.goal
        kind = stated.model.to_model_kind(config.parent)
        task_model = get_cached_model(kind, inputs=features.shape[1], classes=data.schema.classes)
        found = ReleasedModel.read(model, task_model).predict(features)
    usable = np.isfinite(found) if task_model.classes is None else found >= 0
    return [goal.describe(value) if can else None for value, can in zip(found.tolist(), usable.tolist(), strict=True)]
