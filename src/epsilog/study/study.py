"""Run a study from its file to its tables; the ledger holds the protocol before the first run, and then the result.

A study is a simulation, so it spends no privacy budget. If the ledger is trusted, its entry shows that the protocol was
fixed before the result was known.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

import epsilog
from epsilog import durable_io
from epsilog.ledger import Ledger, open_ledger
from epsilog.mechanisms import Composed
from epsilog.pipeline import prepare_config
from epsilog.study.backdoor import Backdoor
from epsilog.study.canaries import CanaryExperiment
from epsilog.study.experiment import ResultCells
from epsilog.study.membership import MembershipExperiment
from epsilog.study.properties import PropertyExperiment
from epsilog.study.protocol import Condition, StudyProtocol, Subject, describe_inputs, measure_subject
from epsilog.study.results import ResultTable, build_tables, draw_study_plots, write_conclusions
from epsilog.terms import CheckError, ConfigError, check, codec
from epsilog.training.rounds import hash_run_inputs
from epsilog.validation_errors import convert_validation_errors

LEAST = "1e-18"  # smallest delta of a ledger


class _StudySection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Head(_StudySection):
    """[study]: the name, the run configs, the budgets and the seeds."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    configs: Annotated[tuple[str, ...], Field(min_length=1)]
    budgets: tuple[float, ...]
    seeds: tuple[int, ...]


def _make_section(experiment: type) -> Any:
    """Return a section with the fields of an experiment."""
    hints, stated = get_type_hints(experiment), dict[str, Any]()
    for one in fields(experiment):
        stated[one.name] = hints[one.name], ... if one.default is MISSING else one.default
    made: Any = create_model(experiment.__name__, __base__=_StudySection, **stated)
    return made


SINGLE = (MembershipExperiment, PropertyExperiment, CanaryExperiment)
_SECTIONS: dict[str, Any] = {
    "study": _Head,
    "backdoor": (tuple[_make_section(Backdoor), ...], ()),  # type: ignore[misc] # made from its fields
    **{kind.kind: (_make_section(kind) | None, None) for kind in SINGLE},
}
_StudyFile: Any = create_model("_StudyFile", __base__=_StudySection, **_SECTIONS)


def _build_protocol(stated: Any) -> StudyProtocol:
    """Return the protocol of a file; an error names its section."""

    def build(kind: Any, section: Any, name: str) -> Any:
        try:
            return None if section is None else kind(**section.model_dump())
        except CheckError as error:
            raise error.under(name) from None

    backdoors = tuple(build(Backdoor, one, f"backdoor[{place}]") for place, one in enumerate(stated.backdoor))
    single = (build(kind, getattr(stated, kind.kind), kind.kind) for kind in SINGLE)
    return StudyProtocol(stated.study.budgets, stated.study.seeds, backdoors, *single)


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """A study.

    Attributes:
        name: the name of its folder and of its ledger entry.
        subjects: schemes on tasks.
        protocol: the measurements.
    """

    name: Annotated[str, check.text()]
    subjects: tuple[Subject, ...]
    protocol: StudyProtocol

    def __post_init__(self) -> None:
        check.check_fields(self)
        names = [one.name for one in self.subjects]
        if not names or len(set(names)) != len(names):
            raise CheckError("subjects", "a list of subjects with distinct names", repr(names), verb="be")

    @property
    def hash(self) -> str:
        """SHA-256 of all inputs of the result except the data."""
        return codec.hash_canonical({"study": self.name, **describe_inputs(self.subjects, self.protocol)})


def load_study(path: Path) -> Study:
    """Read a study's file, and the run configs that it names, relative to it.

    Raises:
        ConfigError: a file is missing or is no TOML, or has unknown, missing or wrong fields.
    """
    try:
        stated = _StudyFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except ValidationError as error:
        raise ConfigError(str(path), convert_validation_errors(error.errors())) from error
    except ValueError as error:
        raise ConfigError(str(path), [f"is not TOML: {error}"]) from error
    head = stated.study
    try:
        protocol = _build_protocol(stated)
        return Study(head.name, tuple(_subject(path.parent / each) for each in head.configs), protocol)
    except CheckError as error:
        raise ConfigError(str(path), [error]) from error


def _subject(path: Path) -> Subject:
    prepared = prepare_config(path)
    config, task = prepared.config, prepared.task
    if not config.run.simulation:
        raise ConfigError(str(path), ["run.simulation: must be true in a study"])
    return Subject(
        config.identity.name,
        task,
        lambda z: config.scheme.build_scheme(config.population, z),
        float(config.delta),
        config.guarantee.relation,
    )


def run_study(study: Study, *, folder: Path, ledger: str | Path, on_progress: Callable[[str], None]) -> dict[str, Any]:
    """Run a study, write ``study.json``, ``study.md`` and plots, and return the document; a finished one is only read.

    A killed study resumes after the last finished attack, and ends with equal bytes.

    Args:
        study: the study.
        folder: the parent of the folder of this study.
        ledger: receives the hash of the protocol before the first run; created if it is missing.
        on_progress: receives a message about the next computation.

    Returns:
        The document in ``study.json``.

    Raises:
        CalibrationError: no noise meets a budget.
        ConflictError: the ledger has real budgets, or another result than the file.
        RecordError: a finished cell was changed, or is from other data or another version.
    """
    own = folder / f"study-{study.name}-{study.hash[:8]}"
    with open_ledger(ledger) as opened:
        opened.verify()
        charge = _enter_protocol(opened, study)
        file = own / "study.json"
        if charge.state == "committed" and file.exists():
            charge.commit(evidence=_evidence(file))
            kept: dict[str, Any] = codec.parse_json(file.read_bytes())
            return kept
        cells = ResultCells(own / "cells", bound=_bound(study))
        conditions = [
            one
            for subject in study.subjects
            for one in measure_subject(subject, study.protocol, on_progress=on_progress, cells=cells)
        ]
        document = _document(study, conditions)
        durable_io.write_atomically(file, codec.encode_canonical(document) + b"\n")
        durable_io.write_atomically(own / "study.md", _page(study, conditions).encode())
        for name, plot in draw_study_plots(conditions).items():
            durable_io.write_atomically(own / f"{name}.svg", plot.encode())
        charge.commit(evidence=_evidence(file))
        cells.clear()
    return document


def read_tables(document: dict[str, Any]) -> list[ResultTable]:
    """Return the tables of the document of a study."""
    return build_tables([Condition.from_json(one) for one in document["conditions"]])


def _bound(study: Study) -> str:
    """Return the hash of the protocol, all data and the version, which bind finished cells."""
    data = [hash_run_inputs(one.scheme_for(1.0), one.task) for one in study.subjects]
    return codec.hash_canonical({"study": study.hash, "data": data, "version": epsilog.__version__})


def _enter_protocol(ledger: Ledger, study: Study) -> Any:
    """Return the charge for a protocol, created before the first run and found again later."""
    scope = f"studies/{study.name}"
    if not ledger.budgets_above(scope):
        ledger.create_budget(
            scope, kind="approximate", epsilon="1e-9", delta="1e-9", privacy_unit="nobody", simulation=True
        )
    key = f"study-{study.hash[:32]}"
    charge = ledger.reserve(scope, Composed([]), key=key, delta=LEAST, plan_hash=study.hash, simulation=True)
    if charge.state == "reserved":
        charge.start()
    return charge


def _evidence(file: Path) -> dict[str, str]:
    """Return the hash of the result for the ledger, which refuses another one."""
    return {"study.json": hashlib.sha256(file.read_bytes()).hexdigest()}


def _document(study: Study, conditions: list[Condition]) -> dict[str, Any]:
    return {
        "v": 1,
        "kind": "study",
        "name": study.name,
        "hash": study.hash,
        **describe_inputs(study.subjects, study.protocol),
        "conditions": [one.to_json() for one in conditions],
        "found": write_conclusions(conditions, study.protocol),
    }


def _page(study: Study, conditions: list[Condition]) -> str:
    parts = [f"# {study.name}", f"Protocol {study.hash}."]
    for table in build_tables(conditions):
        rows = [table.headings, ["---"] * len(table.headings), *table.rows]
        parts += [f"## {table.title}", "\n".join(f"| {' | '.join(row)} |" for row in rows)]
    parts.append("\n".join(f"- {each}" for each in write_conclusions(conditions, study.protocol)))
    parts.append("\n".join(f"![{name}]({name}.svg)" for name in draw_study_plots(conditions)))
    return "\n\n".join(parts) + "\n"
