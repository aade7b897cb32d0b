"""The run config: one training run, from its purpose to its references, checked in full before anything runs.

Nothing that matters has a default: unit, relation, population, delta and its reason are stated. One error reports all
unknown, missing and wrong keys, each with its field, its bound and its value.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, Union

from pydantic import Field, ValidationError, create_model, model_validator

from epsilog import training
from epsilog.pipeline.counts import CountsSection
from epsilog.pipeline.data_sections import KINDS_OF_DATA, Data
from epsilog.pipeline.sections import (
    LOCAL_SETTINGS,
    AuditSection,
    BudgetSection,
    CoverageSection,
    GuaranteeSection,
    IdentitySection,
    ModelSection,
    ReportingSection,
    RunSection,
    SchemeSection,
    TrainingSection,
    make_scheme_section,
)
from epsilog.pipeline.tuning import TuningSection, require_trial_distribution
from epsilog.schemes import SCHEMES, ProtectionLevel, Scheme
from epsilog.terms import CheckError, ConfigError, NeighboringRelation
from epsilog.toml_sections import LARGEST, ConfigSection
from epsilog.validation_errors import convert_validation_errors

SOURCE = "run config"  # in errors about a config that comes from no file
NOT_STATED = "not said: a simulation"
MAX_POPULATION = LARGEST - 1  # until the data are read


class PlanConfig(ConfigSection):
    """A run config without data and model: what is claimed, and how it is kept."""

    identity: IdentitySection
    guarantee: GuaranteeSection
    budget: BudgetSection
    scheme: SchemeSection
    coverage: CoverageSection
    reporting: ReportingSection
    run: RunSection
    references: dict[str, str] = Field(default_factory=dict)
    audit: AuditSection | None = None
    tuning: TuningSection | None = None
    counts: CountsSection | None = None

    @model_validator(mode="after")
    def _check_sections(self) -> PlanConfig:
        scheme, kind = self._build_scheme(self.guarantee.stated_population or MAX_POPULATION), self.scheme.kind
        relations = [relation.value for relation in scheme.relations]
        if self.guarantee.relation not in relations:
            bound = f"{' or '.join(relations)} for {kind}"
            raise CheckError("guarantee.relation", bound, self.guarantee.relation.value)
        if self.coverage.adaptive_clip != scheme.adaptive_clip:
            bound = f"{str(scheme.adaptive_clip).lower()} for {kind}"
            raise CheckError("coverage.adaptive_clip", bound, str(self.coverage.adaptive_clip).lower())
        if self.coverage.rounds_per_release != self.scheme.rounds:
            bound = f"scheme.rounds = {self.scheme.rounds} (one release per run)"
            raise CheckError("coverage.rounds_per_release", bound, f"{self.coverage.rounds_per_release}")
        self._check_audit()
        self._check_tuning(scheme)
        if self.counts is not None and not self.training_epsilon > 0:
            bound = f"such that their epsilons leave some of budget.epsilon = {self.budget.epsilon} for training"
            raise CheckError("counts", bound, f"{self.counts.epsilon}")
        return self

    def _check_audit(self) -> None:
        if self.audit is None:
            return
        try:
            self.audit.to_protocol(0.5)
        except CheckError as error:
            raise error.under("audit") from None
        most = (self.guarantee.stated_population or MAX_POPULATION) - 1
        if self.audit.canaries > most:
            raise CheckError("audit.canaries", f"at most {most}, below the population", f"{self.audit.canaries}")

    def _check_tuning(self, scheme: Scheme) -> None:
        if self.tuning is None:
            return
        try:
            require_trial_distribution(self.tuning, simulation=self.run.simulation)
        except CheckError as error:
            raise error.under("tuning") from None
        if not any(party.holds is ProtectionLevel.NOTHING for party in scheme.parties if party.name == "Server"):
            bound = f"absent for {self.scheme.kind}: its server is not trusted and would see every trial"
            raise CheckError("tuning", bound, "given")
        if self.audit is not None:
            raise CheckError(
                "audit", "absent with [tuning]: canaries of one trial say little about all trials", "given"
            )
        if self.run.comparison_budgets:
            bound = "absent with [tuning]: it trains one run per budget"
            raise CheckError("run.comparison_budgets", bound, f"{list(self.run.comparison_budgets)}")
        if self.run.comparison_seeds is not None:
            bound = "absent with [tuning]: it trains one run per seed"
            raise CheckError("run.comparison_seeds", bound, f"{self.run.comparison_seeds}")

    def _build_scheme(self, population: int) -> Scheme:
        """Return the scheme with this population, against which it checks its own counts."""
        try:
            return self.scheme.build_scheme(population, 1.0)
        except CheckError as error:
            raise error.under("scheme") from None

    @property
    def training_epsilon(self) -> Decimal:
        """Return the epsilon of the budget that the counts leave for training."""
        return self.budget.epsilon - (Decimal(0) if self.counts is None else self.counts.epsilon)

    @property
    def population(self) -> int:
        """Number of privacy units; known once the data are."""
        assert isinstance(self.guarantee.population, int)
        return self.guarantee.population

    @property
    def delta(self) -> Decimal:
        """Return the delta of the claim."""
        return self.budget.delta_for(self.population)

    def with_population(self, population: int) -> Self:
        """Return this config with the population of the data, unless one is stated."""
        if self.guarantee.stated_population is not None:
            return self
        found = self.model_copy(update={"guarantee": self.guarantee.model_copy(update={"population": population})})
        found._build_scheme(population)
        return found

    @classmethod
    def of(cls, **sections: Any) -> Self:
        """Check sections, each a dictionary with the keys of the section of a file.

        Raises:
            ConfigError: fields are unknown, missing or wrong; the error names all of them.
        """
        return _validate_document(cls, sections, SOURCE)

    @classmethod
    def for_simulation(
        cls,
        task: training.Task,
        scheme: str,
        *,
        epsilon: Any,
        delta: Any,
        seed: int = 0,
        comparison_budgets: Sequence[float] = (),
        noise_multiplier: float | Literal["calibrate"] = "calibrate",
        audit: Mapping[str, Any] | None = None,
        counts: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Self:
        """Return the config of a simulation, which protects no one and needs neither owner nor purpose.

        Args:
            task: what is trained on which data; it states the privacy unit and their number.
            scheme: a kind of scheme.
            epsilon: the budget for which the noise is calibrated.
            delta: of the claim; text such as "1e-5", or "1/population".
            seed: of all randomness.
            comparison_budgets: other budgets to train with, for comparison.
            noise_multiplier: replaces calibrated noise.
            audit: canaries among the units, as in the section [audit]; the task has slots for them.
            counts: noisy counts released with the model, as in the section [counts].
            **settings: further fields of the scheme, such as ``rounds`` and ``clip_norm``.

        Raises:
            ConfigError: settings are unknown, missing or wrong; the error names all of them.
        """
        kind = SCHEMES.get(scheme)
        if kind is None:
            raise ConfigError(SOURCE, [CheckError("scheme.kind", f"one of {', '.join(SCHEMES)}", repr(scheme))])
        name = re.sub("[^a-z0-9]+", "-", task.name.lower()).strip("-")[:63] or "simulation"
        clients = {} if kind.unit_is_client else {"clients": task.clients.count}
        stated = {"kind": scheme, "noise_multiplier": noise_multiplier, **clients, **settings}
        others = {
            "budget": f"{epsilon} {delta}",
            "seed": seed,
            "comparison_budgets": list(comparison_budgets),
            "audit": audit,
            "counts": counts,
        }
        digest = hashlib.sha256(repr((task.describe(), task.training, stated, others)).encode()).hexdigest()[:12]
        return cls.of(
            identity={"name": name, "purpose": NOT_STATED, "owner": NOT_STATED},
            guarantee={
                "privacy_unit": task.unit,
                "relation": _default_relation(kind, stated, task.units).value,
                "population": task.units,
            },
            budget={
                "scope": f"simulations/{name}-{digest}",
                "epsilon": epsilon,
                "delta": delta,
                "delta_rationale": NOT_STATED,
            },
            scheme=stated,
            coverage={
                "participation": NOT_STATED,
                "rounds_per_release": settings.get("rounds"),
                "adaptive_clip": kind.adaptive_clip,
                "post_processing": NOT_STATED,
            },
            reporting={"period": NOT_STATED},
            run={"simulation": True, "seed": seed, "comparison_budgets": comparison_budgets},
            **({} if audit is None else {"audit": dict(audit)}),
            **({} if counts is None else {"counts": dict(counts)}),
        )


def _default_relation(scheme: type[Scheme], stated: dict[str, Any], population: int) -> NeighboringRelation:
    """Return the first relation that a scheme supports; any one if its fields are wrong."""
    try:
        return make_scheme_section(scheme).model_validate(stated).build_scheme(population, 1.0).relations[0]
    except ValueError:  # reported when the whole config is checked
        return NeighboringRelation.ADD_OR_REMOVE_ONE


class RunConfig(PlanConfig):
    """A whole run config."""

    data: Data
    model: ModelSection
    training: TrainingSection

    @model_validator(mode="after")
    def _check_data(self) -> RunConfig:
        self._check_local_settings()
        public = self.data.is_public
        if self.guarantee.stated_population is None and not (public or self.guarantee.population_is_public):
            raise CheckError("guarantee.population_is_public", "true for a population from data", "false")
        if self.run.simulation and not public:
            bound = "false for data that is not stated to be public (data.public): a simulation protects no one"
            raise CheckError("run.simulation", bound, "true")
        if self.data.withdrawn is not None and self.scheme.describes.replies_are_public:
            bound = f"absent for {self.scheme.kind}: its public records reveal how many replied"
            raise CheckError("data.withdrawn", bound, self.data.withdrawn)
        return self

    def _check_local_settings(self) -> None:
        """Require the local settings of the scheme and refuse others, which would have no effect."""
        for name in LOCAL_SETTINGS:
            value = getattr(self.training, name)
            if (value is not None) != (name in self.scheme.describes.local_settings):
                bound = f"{'given' if value is None else 'absent'} for {self.scheme.kind}"
                raise CheckError(f"training.{name}", bound, "nothing" if value is None else f"{value}")


P = TypeVar("P", bound=PlanConfig)


def _validate_document(kind: type[P], document: Any, source: str) -> P:
    """Check a document against a kind of config, with a [scheme] section of every registered scheme."""
    model: type[P] = _add_schemes(kind, tuple(SCHEMES.values()))
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise ConfigError(
            source, convert_validation_errors(error.errors(), hidden={*SCHEMES, *KINDS_OF_DATA})
        ) from error


@cache
def _add_schemes(kind: type[PlanConfig], schemes: tuple[type[Any], ...]) -> Any:
    sections: Any = Union[tuple(make_scheme_section(scheme) for scheme in schemes)]  # noqa: UP007 - made at run time
    section: Any = Annotated[sections, Field(discriminator="kind")]
    return create_model(kind.__name__, __base__=kind, scheme=(section, ...))


def load_run_config(path: Path) -> RunConfig:
    """Read and check a run config.

    Raises:
        ConfigError: the file is missing, is no TOML, or has unknown, missing or wrong fields; the error names all.
    """
    return _validate_document(RunConfig, _read_toml(path), str(path))


def load_plan_config(path: Path) -> PlanConfig:
    """Read and check a run config, or one without [data], [model] and [training].

    Raises:
        ConfigError: as ``load_run_config``.
    """
    document = _read_toml(path)
    complete = any(name in document for name in ("data", "model", "training"))
    return _validate_document(RunConfig if complete else PlanConfig, document, str(path))


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, or extreme numbers or nesting
        raise ConfigError(str(path), [f"is not TOML: {error}"]) from error
