"""The sections of a run config, each checked by itself; ``config`` checks them against each other."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, create_model, model_validator

from epsilog import training
from epsilog.reports import require_field
from epsilog.schemes import Scheme
from epsilog.terms import CheckError, NeighboringRelation, fields
from epsilog.toml_sections import LARGEST, Amount, ConfigSection, Flag, Positive, PositiveInteger, Text, decimal_between
from epsilog.training import OPTIMIZERS, SCHEDULES, ServerOptimizer
from epsilog.training.models import ModelKind, is_custom, parse_model_kind, require_factory_name
from epsilog.verification.audits import METHODS, ONE_RUN, AuditProtocol, Guesses

MIN_CANARIES, MAX_CANARIES = 16, 10**5
MAX_SEEDS = 100  # of [run] comparison_seeds: pairs of runs that show what DP costs
MAX_EPSILON = 1000.0  # of [run] comparison_budgets; far above every useful guarantee
LOCAL_SETTINGS = ("local_steps", "expected_examples")  # settings of [training] that some schemes lack


class IdentitySection(ConfigSection):
    """[identity]: the name, the purpose and the owner of the run."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    purpose: Text
    owner: Text


class GuaranteeSection(ConfigSection):
    """[guarantee]: the privacy unit, the neighboring relation and the population."""

    privacy_unit: Text
    relation: NeighboringRelation
    population: PositiveInteger | Literal["from data"]
    population_is_public: Flag = False
    sizes_are_public: Flag = False

    @property
    def stated_population(self) -> int | None:
        """Return the population; None if it comes from the data."""
        return self.population if isinstance(self.population, int) else None


class BudgetSection(ConfigSection):
    """[budget]: the scope of the charge, the cap, and the reason for delta."""

    scope: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$")]
    epsilon: Amount
    delta: Annotated[Decimal, decimal_between("1e-18", "1")] | Literal["1/population"]
    delta_rationale: Text

    def delta_for(self, population: int) -> Decimal:
        """Return delta as a number; "1/population" is rounded down to 12 digits."""
        if isinstance(self.delta, Decimal):
            return self.delta
        return (Decimal(1) / population).quantize(Decimal("1e-12"), rounding="ROUND_DOWN")


class SchemeSection(ConfigSection):
    """[scheme]: the fields of a scheme, except those of other sections; see ``make_scheme_section``."""

    describes: ClassVar[type[Scheme]]

    kind: str
    rounds: PositiveInteger
    noise_multiplier: Positive | Literal["calibrate"]

    @model_validator(mode="after")
    def _check_fields(self) -> SchemeSection:
        stated = type(self).model_fields
        for name, described in fields.list_fields(self.describes).items():
            value = getattr(self, name, None)
            if described.le_field in stated and value is not None and value > getattr(self, described.le_field):
                most = getattr(self, described.le_field)
                raise CheckError(name, f"at most {described.le_field} = {most}", f"{value}")
        return self

    def build_scheme(self, population: int, noise_multiplier: float) -> Scheme:
        """Return the scheme with this noise, for a population of this many privacy units."""
        given = {name: getattr(self, name, population) for name in fields.list_fields(self.describes)}
        return self.describes(**given | {"noise_multiplier": noise_multiplier})


def make_scheme_section(scheme: type[Scheme]) -> type[SchemeSection]:
    """Make [scheme] for one kind from its described fields; the population counts the clients if they are protected."""
    made: dict[str, Any] = {"kind": (Literal[scheme.kind], ...)}
    for name, described in fields.list_fields(scheme).items():
        if name != "noise_multiplier" and not (name == "clients" and scheme.unit_is_client):
            made[name] = _make_field(scheme, name, described)
    found = create_model(scheme.__name__, __base__=SchemeSection, __doc__=scheme.summary, **made)
    found.describes = scheme
    return found


def _make_field(scheme: type[Scheme], name: str, described: fields.Field) -> tuple[Any, Any]:
    """Return the type of a field in the file, with the bounds of the scheme's field, and its default."""
    kind, bounds = fields.field_type(scheme, name), {**described.bounds}
    if described.choices:
        stated: Any = Literal[tuple(described.choices)]
    else:
        bounds |= {"lt": LARGEST} if kind is int else {"allow_inf_nan": False}
        stated = Annotated[kind, Field(strict=True, **bounds)]  # type: ignore[call-overload]
    if fields.is_list(scheme, name):
        stated = tuple[stated, ...]
    if described.default is fields.REQUIRED:
        return stated, ...
    return (stated | None if described.default is None else stated), described.default


class ModelSection(ConfigSection):
    """[model]: a kind of model and the options of that kind."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: Text
    warm_start: Text | None = None

    @model_validator(mode="after")
    def _check_options(self) -> ModelSection:
        if is_custom(self.kind):
            require_factory_name(self.kind)
        else:
            parse_model_kind(self.kind, **(self.model_extra or {}))
        return self

    def to_model_kind(self, base: Path) -> ModelKind:
        """Return the kind of model with its options; a module of the user is read from the folder ``base``."""
        return parse_model_kind(self.kind, base, self.warm_start, **(self.model_extra or {}))


class TrainingSection(ConfigSection):
    """[training]: how a client computes its update, and how the server applies the sum; everything here is public."""

    learning_rate: Positive
    local_steps: PositiveInteger | None = None
    expected_examples: PositiveInteger | None = None
    schedule: Literal[SCHEDULES] | None = None  # type: ignore[valid-type]
    example_cap: PositiveInteger | None = None
    server_optimizer: Literal[OPTIMIZERS] | None = None  # type: ignore[valid-type]
    server_learning_rate: Positive | None = None
    server_momentum: Annotated[float, Field(ge=0, lt=1, strict=True)] | None = None
    server_schedule: Literal[SCHEDULES] | None = None  # type: ignore[valid-type]

    @model_validator(mode="after")
    def _check_server(self) -> TrainingSection:
        self.to_local_training()
        return self

    def to_local_training(self) -> training.LocalTraining:
        """Return the settings as the trainer takes them."""
        stated = {name: value for name, value in self if value is not None}
        server = {name.removeprefix("server_"): stated.pop(name) for name in [*stated] if name.startswith("server_")}
        try:
            optimizer = ServerOptimizer(**server)
        except CheckError as error:
            raise CheckError(f"server_{error.field}", error.bound, error.value) from None
        return training.LocalTraining(**stated, server=optimizer)


class CoverageSection(ConfigSection):
    """[coverage]: what the claim covers."""

    participation: Text
    rounds_per_release: PositiveInteger
    adaptive_clip: Flag
    post_processing: Text
    group_size: PositiveInteger | None = None


class AuditSection(ConfigSection):
    """[audit]: canaries among the units and the guesses about them, fixed before the run."""

    canaries: Annotated[int, Field(ge=MIN_CANARIES, le=MAX_CANARIES, strict=True)]
    confidence: Annotated[float, Field(gt=0, lt=1, strict=True)] = 0.95
    method: Literal[tuple(METHODS)] = ONE_RUN  # type: ignore[valid-type]
    guesses: tuple[tuple[int, int], ...] = ()

    def to_protocol(self, delta: float) -> AuditProtocol:
        """Return the protocol of the audit at the delta of the claim."""
        made = tuple(Guesses(*one) for one in self.guesses)
        return AuditProtocol(self.canaries, delta, self.confidence, self.method, made)


class ReportingSection(ConfigSection):
    """[reporting]: the calendar period of the report, and any fields of ``epsilog.reports.FIELDS``."""

    model_config = ConfigDict(extra="allow", frozen=True)

    period: Text

    @model_validator(mode="after")
    def _check_publication_fields(self) -> ReportingSection:
        for name, value in (self.model_extra or {}).items():
            require_field(name, value)
        return self


class RunSection(ConfigSection):
    """[run]: whether the run is a simulation, and the settings of simulations."""

    simulation: Flag
    seed: Annotated[int, Field(ge=0, lt=LARGEST - 1, strict=True)] | None = None
    comparison_budgets: tuple[Annotated[float, Field(gt=0, le=MAX_EPSILON, strict=True)], ...] = ()
    comparison_seeds: Annotated[int, Field(ge=2, le=MAX_SEEDS, strict=True)] | None = None
    dropout: Annotated[float, Field(gt=0, lt=1, strict=True)] | None = None
    checkpoints: Literal["keep", "remove"] = "keep"

    @model_validator(mode="after")
    def _check_simulation(self) -> RunSection:
        if self.simulation:
            if self.seed is None:
                raise CheckError("seed", "given when simulation = true", "nothing")
            return self
        for name, value, reason in (
            ("seed", self.seed, "a real budget refuses fixed seeds"),
            ("comparison_budgets", list(self.comparison_budgets) or None, "a real budget refuses fixed seeds"),
            ("comparison_seeds", self.comparison_seeds, "a real budget refuses fixed seeds"),
            ("dropout", self.dropout, "the server sees which clients do not reply"),
        ):
            if value is not None:
                raise CheckError(name, f"absent when simulation = false: {reason}", f"{value}")
        return self
