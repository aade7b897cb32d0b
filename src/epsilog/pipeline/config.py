"""The programme file: one federated programme, from purpose to references, checked in full before anything runs.

Nothing that matters is defaulted: unit, relation, population, delta and its reason are stated. Unknown keys, missing
keys and values out of range are reported together, each with its field, its bound and the value that was given.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, Union

from pydantic import ConfigDict, Field, ValidationError, create_model, model_validator

from epsilog import training
from epsilog.pipeline.amounts import Amount, decimal
from epsilog.pipeline.counts import Counts
from epsilog.pipeline.data_sections import KINDS_OF_DATA, Data
from epsilog.pipeline.tuning import TuningSection, require_trial_distribution
from epsilog.reports import require_field
from epsilog.schemes import SCHEMES, Party, ProtectionLevel, Scheme
from epsilog.terms import CheckError, ConfigError, NeighboringRelation, fields
from epsilog.toml_sections import LARGEST, ConfigSection, Count, Positive, Text
from epsilog.training import OPTIMIZERS, SCHEDULES, ServerOptimizer
from epsilog.training.models import ModelKind, is_custom, parse_model_kind, require_factory_name
from epsilog.validation_errors import convert_validation_errors
from epsilog.verification.audits import METHODS, ONE_RUN, AuditProtocol, Guesses

UNSAID = "not said: a simulation"
FEWEST_CANARIES, MOST_CANARIES = 16, 10**5
MANY = LARGEST - 1  # units, where the data has still to tell how many there are
MOST_EPSILON = 1000.0  # of a study: no guarantee is left long before


class IdentitySection(ConfigSection):
    """[programme]: what it is, what for, and who answers for it."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    purpose: Text
    owner: Text


class GuaranteeSection(ConfigSection):
    """[guarantee]: what is protected, against which neighbour, among how many."""

    privacy_unit: Text
    relation: NeighboringRelation
    population: Count | Literal["from data"]
    population_is_public: Annotated[bool, Field(strict=True)] = False
    sizes_are_public: Annotated[bool, Field(strict=True)] = False

    @property
    def to_guarantee(self) -> int | None:
        """The population, where it is stated and not read from the data."""
        return self.population if isinstance(self.population, int) else None


class BudgetSection(ConfigSection):
    """[budget]: the cap, where it is booked, and why this delta."""

    scope: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$")]
    epsilon: Amount
    delta: Annotated[Decimal, decimal("1e-18", "1")] | Literal["1/population"]
    delta_rationale: Text

    def delta_for(self, population: int) -> Decimal:
        """Delta as a number; "1/population" is rounded down to 12 digits."""
        if isinstance(self.delta, Decimal):
            return self.delta
        return (Decimal(1) / population).quantize(Decimal("1e-12"), rounding="ROUND_DOWN")


class SchemeSection(ConfigSection):
    """[scheme]: the fields of a scheme's term, except what other sections say; see ``make_scheme_section``."""

    describes: ClassVar[type[Scheme]]

    kind: str
    rounds: Count
    noise_multiplier: Positive | Literal["calibrate"]

    @model_validator(mode="after")
    def _fits(self) -> SchemeSection:
        stated = type(self).model_fields
        for name, described in fields.list_fields(self.describes).items():
            value = getattr(self, name, None)
            if described.le_field in stated and value is not None and value > getattr(self, described.le_field):
                most = getattr(self, described.le_field)
                raise CheckError(name, f"at most {described.le_field} = {most}", f"{value}")
        return self

    def term(self, population: int, noise_multiplier: float) -> Scheme:
        """The scheme with its noise filled in; ``population`` counts privacy units."""
        given = {name: getattr(self, name, population) for name in fields.list_fields(self.describes)}
        return self.describes(**given | {"noise_multiplier": noise_multiplier})


def make_scheme_section(scheme: type[Scheme]) -> type[SchemeSection]:
    """[scheme] for one kind, made from its term; where whole clients are protected, the population counts them."""
    made: dict[str, Any] = {"kind": (Literal[scheme.kind], ...)}
    for name, described in fields.list_fields(scheme).items():
        if name != "noise_multiplier" and not (name == "clients" and scheme.unit_is_client):
            made[name] = _field(scheme, name, described)
    found = create_model(scheme.__name__, __base__=SchemeSection, __doc__=scheme.summary, **made)
    found.describes = scheme
    return found


def _field(scheme: type[Scheme], name: str, described: fields.Field) -> tuple[Any, Any]:
    """A field of the file with its default, which few have."""
    stated = (
        Literal[tuple(described.choices)]
        if described.choices
        else _build_section_field(fields.field_type(scheme, name), described)
    )
    if fields.is_list(scheme, name):
        stated = tuple[stated, ...]  # type: ignore[valid-type]
    if described.default is fields.REQUIRED:
        return stated, ...
    return (stated | None if described.default is None else stated), described.default


def _build_section_field(kind: type, described: fields.Field) -> Any:
    """A field of the file that keeps to the bounds of a scheme's field."""
    bounds: dict[str, Any] = {"ge": described.ge, "gt": described.gt, "lt": described.lt, "le": described.le}
    if kind is int:
        return Annotated[int, Field(strict=True, **bounds | {"lt": LARGEST})]
    return Annotated[kind, Field(strict=True, allow_inf_nan=False, **bounds)]


def _usual_relation(scheme: type[Scheme], stated: dict[str, Any], population: int) -> NeighboringRelation:
    """The first neighbours that a scheme is priced for; of one that does not hold together, whichever."""
    try:
        return make_scheme_section(scheme).model_validate(stated).term(population, 1.0).relations[0]
    except ValueError:  # told where the whole programme is read
        return NeighboringRelation.ADD_OR_REMOVE_ONE


class ModelSection(ConfigSection):
    """[model]: what is trained: a kind of model, and that kind's options."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: Text
    initial: Text | None = None

    @model_validator(mode="after")
    def _check_options(self) -> ModelSection:
        if is_custom(self.kind):
            require_factory_name(self.kind)
        else:
            parse_model_kind(self.kind, **(self.model_extra or {}))
        return self

    def to_model_kind(self, beside: Path) -> ModelKind:
        """The kind of model with its options; a module of the user's own is read from the folder ``beside``."""
        return parse_model_kind(self.kind, beside, self.initial, **(self.model_extra or {}))


class ServerSection(ConfigSection):
    """The part of [training] that says how fast everybody goes, and how far; all of it may be left out."""

    schedule: Literal[SCHEDULES] | None = None  # type: ignore[valid-type]
    server_optimizer: Literal[OPTIMIZERS] | None = None  # type: ignore[valid-type]
    server_learning_rate: Positive | None = None
    server_momentum: Annotated[float, Field(ge=0, lt=1, strict=True)] | None = None
    server_schedule: Literal[SCHEDULES] | None = None  # type: ignore[valid-type]
    example_cap: Count | None = None

    @model_validator(mode="after")
    def _check_server(self) -> ServerSection:
        self.server()
        return self

    def server(self) -> ServerOptimizer:
        """How the server moves the model."""
        stated = {
            name: getattr(self, f"server_{name}") for name in ("optimizer", "learning_rate", "momentum", "schedule")
        }
        try:
            return ServerOptimizer(**{name: value for name, value in stated.items() if value is not None})
        except CheckError as error:
            raise CheckError(f"server_{error.field}", error.bound, error.value) from None


class TrainingSection(ServerSection):
    """[training]: how a client computes its update; everything here is public."""

    learning_rate: Positive
    local_steps: Count | None = None
    nominal_examples: Count | None = None

    def to_local_training(self) -> training.LocalTraining:
        """The same as the trainer takes it."""
        stated = {
            name: getattr(self, name)
            for name in ("learning_rate", "local_steps", "nominal_examples", "schedule", "example_cap")
        }
        given = {name: value for name, value in stated.items() if value is not None}
        return training.LocalTraining(**given, server=self.server())


class BoundarySection(ConfigSection):
    """[boundary]: what the claim covers, and what it does not."""

    participation: Text
    rounds_per_release: Count
    adaptive_clip: Annotated[bool, Field(strict=True)]
    post_processing: Text
    records_per_person: Count | None = None


class AuditSection(ConfigSection):
    """[audit]: canaries among the units, and what is guessed of them; all of it fixed before the run."""

    canaries: Annotated[int, Field(ge=FEWEST_CANARIES, le=MOST_CANARIES, strict=True)]
    confidence: Annotated[float, Field(gt=0, lt=1, strict=True)] = 0.95
    method: Literal[tuple(METHODS)] = ONE_RUN  # type: ignore[valid-type]
    guesses: tuple[tuple[int, int], ...] = ()

    def protocol(self, delta: float) -> AuditProtocol:
        """What is guessed, at the claim's delta."""
        made = tuple(Guesses(*one) for one in self.guesses)
        return AuditProtocol(self.canaries, delta, self.confidence, self.method, made)


class ReportingSection(ConfigSection):
    """[reporting]: the calendar period that the report belongs to, and what else the publisher says of it.

    The further fields are those of ``epsilog.reports.FIELDS``; each may be left out.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    period: Text

    @model_validator(mode="after")
    def _asked_for(self) -> ReportingSection:
        for name, value in (self.model_extra or {}).items():
            require_field(name, value)
        return self


class RunSection(ConfigSection):
    """[run]: whether this is a simulation, and what is shown only then."""

    simulation: Annotated[bool, Field(strict=True)]
    seed: Annotated[int, Field(ge=0, lt=LARGEST - 1, strict=True)] | None = None
    study: tuple[Annotated[float, Field(gt=0, le=MOST_EPSILON, strict=True)], ...] = ()
    dropout: Annotated[float, Field(gt=0, lt=1, strict=True)] | None = None
    checkpoints: Literal["keep", "remove"] = "keep"

    @model_validator(mode="after")
    def _seeded_only_in_simulation(self) -> RunSection:
        if self.simulation and self.seed is None:
            raise CheckError("seed", "given when simulation = true", "nothing")
        if not self.simulation and (self.seed is not None or self.study):
            raise CheckError(
                "seed" if self.seed is not None else "study",
                "absent when simulation = false: a real budget refuses fixed seeds",
                f"{self.seed if self.seed is not None else list(self.study)}",
            )
        if not self.simulation and self.dropout is not None:
            raise CheckError("dropout", "absent when simulation = false: who stays silent shows", f"{self.dropout}")
        return self


class PlanConfig(ConfigSection):
    """What is promised, and how it is kept: a programme file without its data and model."""

    programme: IdentitySection
    guarantee: GuaranteeSection
    budget: BudgetSection
    scheme: SchemeSection
    boundary: BoundarySection
    reporting: ReportingSection
    run: RunSection
    references: dict[str, str] = Field(default_factory=dict)
    audit: AuditSection | None = None
    tuning: TuningSection | None = None
    counts: Counts | None = None

    @model_validator(mode="after")
    def _holds_together(self) -> PlanConfig:
        priced = [relation.value for relation in self._scheme_among(self.guarantee.to_guarantee or MANY).relations]
        if self.guarantee.relation not in priced:
            bound = f"{' or '.join(priced)} for {self.scheme.kind}"
            raise CheckError("guarantee.relation", bound, self.guarantee.relation.value)
        if self.boundary.adaptive_clip != self.scheme.describes.adaptive_clip:
            bound = f"{str(self.scheme.describes.adaptive_clip).lower()} for {self.scheme.kind}"
            raise CheckError("boundary.adaptive_clip", bound, str(self.boundary.adaptive_clip).lower())
        if self.boundary.rounds_per_release != self.scheme.rounds:
            bound = f"scheme.rounds = {self.scheme.rounds} (one release per run)"
            raise CheckError("boundary.rounds_per_release", bound, f"{self.boundary.rounds_per_release}")
        self._audit_fits()
        self._tuning_fits()
        if self.counts is not None and not self.for_training > 0:
            bound = f"such that their epsilons leave some of budget.epsilon = {self.budget.epsilon} for training"
            raise CheckError("counts", bound, f"{self.counts.epsilon}")
        return self

    @property
    def for_training(self) -> Decimal:
        """The epsilon that the budget leaves for training, beside the counts."""
        return self.budget.epsilon - (Decimal(0) if self.counts is None else self.counts.epsilon)

    def _tuning_fits(self) -> None:
        """A sweep has a law that can be run, and nothing beside it that is said of one run."""
        if self.tuning is None:
            return
        try:
            require_trial_distribution(self.tuning, simulation=self.run.simulation)
        except CheckError as error:
            raise error.under("tuning") from None
        if not any(party.holds is ProtectionLevel.NOTHING for party in self._parties if party.name == "Server"):
            bound = f"absent for {self.scheme.kind}, whose server is not trusted: it would see every trial"
            raise CheckError("tuning", bound, "given")
        if self.audit is not None:
            raise CheckError("audit", "absent beside [tuning]: canaries of one run tell little of a sweep", "given")
        if self.run.study:
            raise CheckError(
                "run.study", "absent beside [tuning]: it trains one run a budget", f"{list(self.run.study)}"
            )

    @property
    def _parties(self) -> tuple[Party, ...]:
        return self._scheme_among(self.guarantee.to_guarantee or MANY).parties

    def _audit_fits(self) -> None:
        """What is guessed is of so many canaries; and there is somebody besides."""
        if self.audit is None:
            return
        try:
            self.audit.protocol(0.5)
        except CheckError as error:
            raise error.under("audit") from None
        most = (self.guarantee.to_guarantee or MANY) - 1
        if self.audit.canaries > most:
            raise CheckError("audit.canaries", f"at most {most}, below the population", f"{self.audit.canaries}")

    def _scheme_among(self, population: int) -> Scheme:
        """Where whole clients are protected, the population is what a scheme's counts are held against at its birth."""
        try:
            return self.scheme.term(population, 1.0)
        except CheckError as error:
            raise error.under("scheme") from None

    @property
    def population(self) -> int:
        """Privacy units in all; known once the data is."""
        assert isinstance(self.guarantee.population, int)
        return self.guarantee.population

    @property
    def delta(self) -> Decimal:
        """The delta of the claim."""
        return self.budget.delta_for(self.population)

    def counting(self, population: int) -> Self:
        """The same with the population that the data has, where it is read from there."""
        stated = self.model_copy(update={"guarantee": self.guarantee.model_copy(update={"population": population})})
        stated._scheme_among(population)
        return stated

    @classmethod
    def of(cls, **sections: Any) -> Self:
        """Reads and checks the sections of a programme, each a dictionary that says what the file's section says.

        Raises:
            ConfigError: unknown, missing or wrong fields; all are named.
        """
        return _check_document(cls, sections, "programme")

    @classmethod
    def simulated(
        cls,
        task: training.Task,
        scheme: str,
        *,
        epsilon: Any,
        delta: Any,
        seed: int = 0,
        study: Sequence[float] = (),
        noise_multiplier: float | Literal["calibrate"] = "calibrate",
        audit: Mapping[str, Any] | None = None,
        counts: Mapping[str, Any] | None = None,
        **facts: Any,
    ) -> Self:
        """A programme to try things out: it protects nobody, so who owns it, and why, may stay unsaid.

        Args:
            task: what is trained on what; it says the privacy unit and how many there are.
            scheme: a kind of scheme.
            epsilon: the budget to calibrate the noise to.
            delta: of the claim; text such as "1e-5", or "1/population".
            seed: of everything that is drawn.
            study: other budgets to train at, for comparison.
            noise_multiplier: instead of calibrated noise.
            audit: canaries among the task's units, as the section [audit] says; the task has places for them.
            counts: noisy counts beside the model, as the section [counts] says.
            **facts: what else the scheme states, such as ``rounds`` and ``clip_norm``.

        Raises:
            ConfigError: unknown, missing or wrong facts; all are named.
        """
        kind = SCHEMES.get(scheme)
        if kind is None:
            raise ConfigError("programme", [CheckError("scheme.kind", f"one of {', '.join(SCHEMES)}", repr(scheme))])
        name = re.sub("[^a-z0-9]+", "-", task.name.lower()).strip("-")[:63] or "simulation"
        clients = {} if kind.unit_is_client else {"clients": task.clients.count}
        stated = {"kind": scheme, "noise_multiplier": noise_multiplier, **clients, **facts}
        relation = _usual_relation(kind, stated, task.units)
        told = {"budget": f"{epsilon} {delta}", "seed": seed, "study": list(study), "audit": audit, "counts": counts}
        digest = hashlib.sha256(repr((task.describe(), task.training, stated, told)).encode()).hexdigest()[:12]
        return cls.of(
            programme={"name": name, "purpose": UNSAID, "owner": UNSAID},
            guarantee={"privacy_unit": task.unit, "relation": relation.value, "population": task.units},
            budget={
                "scope": f"simulations/{name}-{digest}",
                "epsilon": epsilon,
                "delta": delta,
                "delta_rationale": UNSAID,
            },
            scheme=stated,
            boundary={
                "participation": UNSAID,
                "rounds_per_release": facts.get("rounds"),
                "adaptive_clip": kind.adaptive_clip,
                "post_processing": UNSAID,
            },
            reporting={"period": UNSAID},
            run={"simulation": True, "seed": seed, "study": study},
            **({} if audit is None else {"audit": dict(audit)}),
            **({} if counts is None else {"counts": dict(counts)}),
        )


class RunConfig(PlanConfig):
    """A whole programme file."""

    data: Data
    model: ModelSection
    training: TrainingSection

    @model_validator(mode="after")
    def _fits_its_data(self) -> RunConfig:
        self._training_fits()
        public = self.data.is_public
        if self.guarantee.to_guarantee is None and not (public or self.guarantee.population_is_public):
            raise CheckError("guarantee.population_is_public", "true for a population from data", "false")
        if self.run.simulation and not public:
            bound = "false for data that is not stated to be public (data.public): a simulation protects nobody"
            raise CheckError("run.simulation", bound, "true")
        if self.data.withdrawn is not None and self.scheme.describes.replies_are_public:
            bound = f"absent for {self.scheme.kind}, whose public records tell how many replied"
            raise CheckError("data.withdrawn", bound, self.data.withdrawn)
        return self

    def _training_fits(self) -> None:
        """A scheme's training settings are stated, and no others: they would say something that is not done."""
        kind, wanted = self.scheme.kind, self.scheme.describes.local_settings
        for name, field in TrainingSection.model_fields.items():
            if field.is_required() or name in ServerSection.model_fields:
                continue
            stated = getattr(self.training, name) is not None
            if stated != (name in wanted):
                value = getattr(self.training, name) if stated else "nothing"
                raise CheckError(f"training.{name}", f"{'absent' if stated else 'given'} for {kind}", f"{value}")


P = TypeVar("P", bound=PlanConfig)


def _check_document(kind: type[P], document: Any, source: str) -> P:
    """Checks a document against a kind of programme, with a [scheme] section of every scheme that is known by now."""
    model: type[P] = _of_schemes(kind, tuple(SCHEMES.values()))
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise ConfigError(
            source, convert_validation_errors(error.errors(), hidden={*SCHEMES, *KINDS_OF_DATA})
        ) from error


@cache
def _of_schemes(kind: type[PlanConfig], schemes: tuple[type[Any], ...]) -> Any:
    sections: Any = Union[tuple(make_scheme_section(scheme) for scheme in schemes)]  # noqa: UP007 - made at run time
    told: Any = Annotated[sections, Field(discriminator="kind")]
    return create_model(kind.__name__, __base__=kind, scheme=(told, ...))


def load_run_config(path: Path) -> RunConfig:
    """Reads and checks a programme file.

    Raises:
        ConfigError: the file is missing, is no TOML, or holds unknown, missing or wrong fields; all are named.
    """
    return _check_document(RunConfig, _document(path), str(path))


def load_plan_config(path: Path) -> PlanConfig:
    """Reads and checks a programme file, or one that stops at what is promised: without [data], [model] and [training].

    Raises:
        ConfigError: as ``load_run_config`` does.
    """
    document = _document(path)
    whole = any(name in document for name in ("data", "model", "training"))
    return _check_document(RunConfig if whole else PlanConfig, document, str(path))


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, or numbers and nesting beyond all bounds
        raise ConfigError(str(path), [f"is not TOML: {error}"]) from error
