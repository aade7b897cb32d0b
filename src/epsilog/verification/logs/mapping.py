"""The mapping file (TOML): the columns of each log with their units, and the claim.

Nothing is inferred: noise has a unit (clip norms or absolute) and a place (sum or mean), and each log states the number
of its first round. Unknown keys, missing keys and values out of range are reported together.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from epsilog.terms import CheckError, ConfigError, NeighboringRelation
from epsilog.toml_sections import ConfigSection, Positive, PositiveInteger, Text
from epsilog.validation_errors import convert_validation_errors

FORMATS = Literal["csv", "jsonl", "json", "parquet"]
CLIP_NORMS, ABSOLUTE = "clip norms", "absolute"
Chance = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False, strict=True)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False, strict=True)]
Norms = Text | Annotated[dict[str, Text], Field(min_length=1)]
"""One column, or one for each separately clipped parameter group."""


class NoiseColumn(ConfigSection):
    """A column of standard deviations or of noise values, with its unit."""

    column: Text
    unit: Literal["clip norms", "absolute"]
    on: Literal["sum", "mean"]


class TimeColumn(ConfigSection):
    """A column of times: seconds or milliseconds since 1970, or ISO 8601 without an offset, or with Z."""

    column: Text
    unit: Literal["s", "ms", "iso"]


class LogFile(ConfigSection):
    """A file of rows.

    ``at`` is the path to the rows of a JSON document, or the name of the row in each JSON line. ``key`` names a column
    for the keys of a JSON object of rows. ``where`` keeps only rows with these values.
    """

    file: Text
    format: FORMATS
    at: Text | None = None
    key: Text | None = None
    where: dict[str, Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.key is not None and self.format != "json":
            raise CheckError("key", 'absent unless format = "json"', repr(self.key))
        if self.at is not None and self.format not in ("json", "jsonl"):
            raise CheckError("at", 'absent unless format = "json" or "jsonl"', repr(self.at))
        return self


class RoundLogFile(LogFile):
    """A file with rows that name a round, and the number of its first round."""

    first_round: Annotated[int, Field(ge=0, le=1, strict=True)]


class RoundColumns(ConfigSection):
    """[rounds.columns]: the columns of one round."""

    round: Text
    cohort: Text | None = None
    clip_norm: Norms | None = None
    noise: NoiseColumn | None = None
    divisor: Text | None = None
    attempts: Text | None = None
    padding: NoiseColumn | None = None
    ended: TimeColumn | None = None


class RoundsLog(RoundLogFile):
    """[rounds]: one row per round."""

    columns: RoundColumns


class ParticipationColumns(ConfigSection):
    """[participation.columns]: the columns of one client in one round."""

    round: Text
    client: Text
    norm: Norms | None = None
    time: TimeColumn | None = None


class ParticipationLog(RoundLogFile):
    """[participation]: one row for each client in each round."""

    columns: ParticipationColumns


class PaddingColumns(ConfigSection):
    """[padding.columns]: one noise value on a coordinate with true sum 0."""

    round: Text
    value: NoiseColumn


class PaddingLog(RoundLogFile):
    """[padding]: one row per value."""

    columns: PaddingColumns


class EnrollmentColumns(ConfigSection):
    """[enrollment.columns]: the times when a client joined, left, and was last active."""

    client: Text
    joined: TimeColumn
    left: TimeColumn | None = None
    last_active: TimeColumn | None = None


class EnrollmentLog(LogFile):
    """[enrollment]: one row per client; N counts the active clients that had joined and not left at a date."""

    columns: EnrollmentColumns
    counted_on: Text
    active_within_days: Positive | None = None

    @model_validator(mode="after")
    def _has_its_window(self) -> Self:
        if (self.active_within_days is None) != (self.columns.last_active is None):
            bound = "given together with columns.last_active, or neither"
            raise CheckError("active_within_days", bound, repr(self.active_within_days))
        return self


class StatedClaim(ConfigSection):
    """[claim]: a claim that the mapping itself states."""

    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)] | None = None
    delta: Chance
    relation: NeighboringRelation
    privacy_unit: Text
    population: PositiveInteger
    rounds: PositiveInteger
    sampling: Literal["poisson", "fixed-size", "balls-in-bins", "cyclic"]
    sampling_probability: Share | None = None
    cohort_size: PositiveInteger | None = None
    cycle_length: PositiveInteger | None = None
    clip_norm: Positive
    noise_multiplier: Positive
    divisor: Positive | None = None


class PlannedClaim(ConfigSection):
    """[claim] of our own plan: the plan.json of a run."""

    plan: Text


def _kind(given: Any) -> str:
    return "planned" if isinstance(given, PlannedClaim) or (isinstance(given, dict) and "plan" in given) else "stated"


Claim = Annotated[Annotated[PlannedClaim, Tag("planned")] | Annotated[StatedClaim, Tag("stated")], Discriminator(_kind)]


class IdentityFields(ConfigSection):
    """[identity]: name, purpose and owner of the run, for its report."""

    name: Text = "Logs of a run"
    purpose: Text | None = None
    owner: Text | None = None


class LogMapping(ConfigSection):
    """The whole file.

    Attributes:
        claim: the claim, stated or registered.
        identity: name, purpose and owner of the run.
        reporting: the period, and further fields of the publisher (see ``epsilog.reports.FIELDS``).
        public: whether readers of the report may see these logs; otherwise the report omits cohort sizes.
        salt: random text of at least 32 characters, the key of hashes that commit a report to private logs.
        playbook: a file of steps, by the findings that trigger them.
        rounds: one row per round.
        participation: one row per client and round.
        padding: one row per noise value on a coordinate with true sum 0.
        enrollment: the enrolled clients, with times.
        false_alarm_rate: the largest probability that a statistical check rejects a sound run; at an arbitrarily small
            rate, every run would pass.
    """

    claim: Claim
    identity: IdentityFields = IdentityFields()
    reporting: dict[str, Any] = Field(default_factory=dict)
    public: Annotated[bool, Field(strict=True)] = False
    salt: Annotated[Text, Field(min_length=32)] | None = None
    playbook: Text | None = None
    rounds: RoundsLog | None = None
    participation: ParticipationLog | None = None
    padding: PaddingLog | None = None
    enrollment: EnrollmentLog | None = None
    false_alarm_rate: Annotated[float, Field(ge=1e-9, le=0.1, allow_inf_nan=False, strict=True)] = 1e-6

    @property
    def files(self) -> tuple[str, ...]:
        """Return every file that the mapping names, each once."""
        plan = (self.claim.plan,) if isinstance(self.claim, PlannedClaim) else ()
        playbook = (self.playbook,) if self.playbook is not None else ()
        return tuple(dict.fromkeys((*plan, *playbook, *self.logs)))

    @property
    def logs(self) -> tuple[str, ...]:
        """Return the files that contain rows of the run, each once."""
        sources = (self.rounds, self.participation, self.padding, self.enrollment)
        return tuple(dict.fromkeys(source.file for source in sources if source is not None))

    @model_validator(mode="after")
    def _has_rounds(self) -> Self:
        if self.rounds is None and self.participation is None:
            raise CheckError("rounds", "given, or participation", "neither")
        padded = self.rounds is not None and self.rounds.columns.padding is not None
        if padded and self.padding is not None:
            raise CheckError("padding", "absent where rounds.columns.padding is given", "both")
        return self


def read_mapping(path: Path) -> LogMapping:
    """Read and check a mapping file.

    Raises:
        ConfigError: all errors, by field.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(path.name, [f"cannot be read: {error.strerror}"]) from error
    except ValueError as error:
        raise ConfigError(path.name, [f"is not TOML: {error}"]) from error
    return parse_mapping(document, path.name)


def parse_mapping(document: dict[str, object], name: str = "mapping") -> LogMapping:
    """Check a parsed mapping."""
    try:
        return LogMapping.model_validate(document)
    except ValidationError as error:
        raise ConfigError(name, convert_validation_errors(error.errors(), hidden=("planned", "stated"))) from error
