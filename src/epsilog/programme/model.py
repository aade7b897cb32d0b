"""The programme file: one federated programme, from purpose to references, checked in full before anything runs.

Nothing that matters is defaulted: unit, relation, population, delta and its reason are stated. Unknown keys, missing
keys and values out of range are reported together, each with its field, its bound and the value that was given.
"""

from __future__ import annotations

import re
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from epsilog.terms import ClientLevelCentral, ExampleLevelClientSide, NeighboringRelation, ProgrammeError, Scheme

_NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d{1,3})?|\.\d+([eE][+-]?\d{1,3})?", re.ASCII)  # as the ledger reads them


def _decimal(least: str, below: str) -> BeforeValidator:
    """Amounts are decimal strings; a bare TOML number is accepted through its shortest form."""

    def read(value: Any) -> Decimal:
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        text = repr(value) if plain else value
        if not (isinstance(text, str) and _NUMBER.fullmatch(text) and Decimal(least) <= Decimal(text) < Decimal(below)):
            raise ValueError(f'must be a decimal number such as "0.5", at least {least} and below {below}')
        return Decimal(text)

    return BeforeValidator(read)


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


Text = Annotated[str, AfterValidator(_not_blank)]
Amount = Annotated[Decimal, _decimal("1e-9", "1e9")]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
MOST_EPSILON = 1000.0  # of a study: no guarantee is left long before
LARGEST = 2**53  # whole numbers above it are not the same in everybody's JSON
Count = Annotated[int, Field(ge=1, lt=LARGEST, strict=True)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Identity(_Part):
    """[programme]: what it is, what for, and who answers for it."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    purpose: Text
    owner: Text


class Promise(_Part):
    """[guarantee]: what is protected, against which neighbour, among how many."""

    privacy_unit: Text
    relation: NeighboringRelation
    population: Count


class Budget(_Part):
    """[budget]: the cap, where it is booked, and why this delta."""

    scope: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$")]
    epsilon: Amount
    delta: Annotated[Decimal, _decimal("1e-18", "1")] | Literal["1/population"]
    delta_rationale: Text

    def delta_for(self, population: int) -> Decimal:
        """Delta as a number; "1/population" is rounded down to 12 digits."""
        if isinstance(self.delta, Decimal):
            return self.delta
        return (Decimal(1) / population).quantize(Decimal("1e-12"), rounding="ROUND_DOWN")


class CentralScheme(_Part):
    """[scheme] for ``client-level-central``: noise at the server, on the sum of clipped client updates."""

    kind: Literal["client-level-central"]
    clip_norm: Positive
    sampling_probability: Annotated[float, Field(gt=0, le=1, strict=True)]
    rounds: Count
    noise_multiplier: Positive | Literal["calibrate"]

    def term(self, population: int, noise_multiplier: float) -> Scheme:
        """The scheme with its noise filled in; ``population`` counts clients, which are the privacy units."""
        return ClientLevelCentral(
            clients=population,
            sampling_probability=self.sampling_probability,
            rounds=self.rounds,
            clip_norm=self.clip_norm,
            noise_multiplier=noise_multiplier,
        )


class ClientSideScheme(_Part):
    """[scheme] for ``example-level-client-side``: every client runs DP-SGD on its own examples."""

    kind: Literal["example-level-client-side"]
    clip_norm: Positive
    clients: Count
    cohort_size: Count
    max_participations: Count
    batch_probability: Annotated[float, Field(gt=0, le=1, strict=True)]
    epochs: Count
    rounds: Count
    noise_multiplier: Positive | Literal["calibrate"]

    @model_validator(mode="after")
    def _fits(self) -> ClientSideScheme:
        if self.cohort_size > self.clients:
            raise ValueError(f"cohort_size must be at most clients = {self.clients}, got {self.cohort_size}")
        if self.max_participations > self.rounds:
            raise ValueError(
                f"max_participations must be at most rounds = {self.rounds}, got {self.max_participations}"
            )
        return self

    def term(self, population: int, noise_multiplier: float) -> Scheme:  # noqa: ARG002 - the unit is an example
        """The scheme with its noise filled in; it counts ``clients``, the population counts examples."""
        return ExampleLevelClientSide(
            clients=self.clients,
            cohort_size=self.cohort_size,
            rounds=self.rounds,
            max_participations=self.max_participations,
            batch_probability=self.batch_probability,
            epochs=self.epochs,
            clip_norm=self.clip_norm,
            noise_multiplier=noise_multiplier,
        )


class Training(_Part):
    """[training]: data and model; everything here is public."""

    data: Text
    model: Text
    learning_rate: Positive
    local_steps: Count | None = None
    nominal_examples: Count | None = None


class Boundary(_Part):
    """[boundary]: what the claim covers, and what it does not."""

    participation: Text
    rounds_per_release: Count
    adaptive_clip: Literal[False]
    post_processing: Text


class Reporting(_Part):
    """[reporting]: the calendar period that the report belongs to."""

    period: Text


class Run(_Part):
    """[run]: whether this is a simulation, and what is shown only then."""

    simulation: Annotated[bool, Field(strict=True)]
    seed: Annotated[int, Field(ge=0, lt=LARGEST - 1, strict=True)] | None = None
    study: tuple[Annotated[float, Field(gt=0, le=MOST_EPSILON, strict=True)], ...] = ()

    @model_validator(mode="after")
    def _seeded_only_in_simulation(self) -> Run:
        if self.simulation and self.seed is None:
            raise ValueError("seed must be given when simulation = true")
        if not self.simulation and (self.seed is not None or self.study):
            raise ValueError("seed and study must be absent when simulation = false: a real budget refuses fixed seeds")
        return self


class Programme(_Part):
    """A whole programme file."""

    programme: Identity
    guarantee: Promise
    budget: Budget
    scheme: Annotated[CentralScheme | ClientSideScheme, Field(discriminator="kind")]
    training: Training
    boundary: Boundary
    reporting: Reporting
    run: Run
    references: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _holds_together(self) -> Programme:
        if self.guarantee.relation is NeighboringRelation.REPLACE_ONE:
            raise ValueError("guarantee.relation must be add-or-remove-one or zero-out for these schemes")
        self._training_fits()
        if self.boundary.rounds_per_release != self.scheme.rounds:
            raise ValueError(
                f"boundary.rounds_per_release must be scheme.rounds = {self.scheme.rounds} (one release per run), "
                f"got {self.boundary.rounds_per_release}"
            )
        return self

    def _training_fits(self) -> None:
        """Each scheme takes one of the two training numbers: the other would say something that is not done."""
        central = isinstance(self.scheme, CentralScheme)
        wanted, other = ("local_steps", "nominal_examples") if central else ("nominal_examples", "local_steps")
        if getattr(self.training, wanted) is None:
            raise ValueError(f"training.{wanted} must be given for {self.scheme.kind}")
        if getattr(self.training, other) is not None:
            raise ValueError(f"training.{other} must be absent for {self.scheme.kind}")

    @property
    def delta(self) -> Decimal:
        """The delta of the claim."""
        return self.budget.delta_for(self.guarantee.population)


def load(path: Path) -> Programme:
    """Reads and checks a programme file.

    Raises:
        ProgrammeError: the file is missing, is no TOML, or holds unknown, missing or wrong fields; all are named.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProgrammeError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, or numbers and nesting beyond all bounds
        raise ProgrammeError(str(path), [f"is not TOML: {error}"]) from error
    try:
        return Programme.model_validate(document)
    except ValidationError as error:
        raise ProgrammeError(str(path), [_finding(item) for item in error.errors()]) from error


def _finding(item: Any) -> str:
    """One finding as "field: bound, got value"."""
    tags = {"client-level-central", "example-level-client-side"}
    field = ".".join(str(step) for step in item["loc"] if step not in tags) or "programme file"
    if item["type"] == "extra_forbidden":
        return f"{field}: unknown key, got {_short(item['input'])}"
    if item["type"] == "missing":
        return f"{field}: required, but missing"
    message = item["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if item["type"] == "value_error" and isinstance(item["input"], dict):
        return f"{field}: {message}"
    return f"{field}: {message}, got {_short(item['input'])}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
