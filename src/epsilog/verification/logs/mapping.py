"""The mapping file (TOML): which column of which log is what, in which unit, and what was claimed of the run.

Nothing is guessed: a standard deviation says whether it is in clip norms or absolute, and on the sum or on the mean; a
log says which number its first round has. Unknown keys, missing keys and values out of range are reported together.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from epsilog.terms import CheckError, ConfigError, NeighboringRelation
from epsilog.toml_sections import ConfigSection, Count, Positive, Text
from epsilog.validation_errors import convert_validation_errors

FORMATS = Literal["csv", "jsonl", "json", "parquet"]
CLIP_NORMS, ABSOLUTE = "clip norms", "absolute"
Chance = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False, strict=True)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False, strict=True)]
Norms = Text | Annotated[dict[str, Text], Field(min_length=1)]
"""One column, or one for each group of parameters that is clipped by itself."""


class NoiseColumn(ConfigSection):
    """A column of standard deviations, or of noise itself, with its unit."""

    column: Text
    unit: Literal["clip norms", "absolute"]
    on: Literal["sum", "mean"]


class TimeColumn(ConfigSection):
    """A column of points in time: seconds or milliseconds since 1970, or ISO 8601 without an offset, or with Z."""

    column: Text
    unit: Literal["s", "ms", "iso"]


class LogFile(ConfigSection):
    """A file of rows.

    ``at`` is for JSON: the way to the rows of a document, or the name that every line has its row under. ``key`` is a
    name for the keys where the rows of a document stand in an object by key. ``where`` keeps only rows with these
    values.
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
    """A file whose rows name a round, and the number that the first round has there."""

    first_round: Annotated[int, Field(ge=0, le=1, strict=True)]


class RoundColumns(ConfigSection):
    """[rounds.columns]: what one row says of one round."""

    round: Text
    cohort: Text | None = None
    clip_norm: Norms | None = None
    noise: NoiseColumn | None = None
    divisor: Text | None = None
    attempts: Text | None = None
    padding: NoiseColumn | None = None
    ended: TimeColumn | None = None


class RoundsLog(RoundLogFile):
    """[rounds]: one row a round."""

    columns: RoundColumns


class ParticipationColumns(ConfigSection):
    """[participation.columns]: what one row says of one client in one round."""

    round: Text
    client: Text
    norm: Norms | None = None
    time: TimeColumn | None = None


class ParticipationLog(RoundLogFile):
    """[participation]: one row for each client in each round."""

    columns: ParticipationColumns


class PaddingColumns(ConfigSection):
    """[padding.columns]: one value of noise whose true sum is 0."""

    round: Text
    value: NoiseColumn


class PaddingLog(RoundLogFile):
    """[padding]: one row for each value."""

    columns: PaddingColumns


class EnrollmentColumns(ConfigSection):
    """[enrollment.columns]: when a client joined, left, and was last active."""

    client: Text
    joined: TimeColumn
    left: TimeColumn | None = None
    last_active: TimeColumn | None = None


class EnrollmentLog(LogFile):
    """[enrollment]: one row for each client; N are those who had joined and not left at a date, and were active."""

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
    """[claim]: what was claimed of the run, in words of this file."""

    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)] | None = None
    delta: Chance
    relation: NeighboringRelation
    privacy_unit: Text
    population: Count
    rounds: Count
    sampling: Literal["poisson", "fixed-size", "balls-in-bins", "cyclic"]
    sampling_probability: Share | None = None
    cohort_size: Count | None = None
    cycle_length: Count | None = None
    clip_norm: Positive
    noise_multiplier: Positive
    divisor: Positive | None = None


class PlannedClaim(ConfigSection):
    """[claim] of a plan of ours: the plan.json that a run left."""

    plan: Text


def _kind(given: Any) -> str:
    return "planned" if isinstance(given, PlannedClaim) or (isinstance(given, dict) and "plan" in given) else "stated"


Claim = Annotated[Annotated[PlannedClaim, Tag("planned")] | Annotated[StatedClaim, Tag("stated")], Discriminator(_kind)]


class IdentityFields(ConfigSection):
    """[identity]: what the run was for, as a report of its logs says it."""

    name: Text = "Logs of a run"
    purpose: Text | None = None
    owner: Text | None = None


class LogMapping(ConfigSection):
    """The whole file.

    Attributes:
        claim: what was claimed.
        identity: what the run was for.
        reporting: the period, and what else the publisher says of it: fields of ``epsilog.reports.FIELDS``.
        public: whether whoever sees a report of these logs may see them too; else it tells no size of a cohort.
        salt: random text of 32 characters or more; with it a report binds logs that are not public by keyed hashes.
        playbook: a file of steps, by the findings that trigger them.
        rounds: one row a round.
        participation: one row for each client in each round.
        padding: one row for each value of noise whose true sum is 0.
        enrollment: who could take part, and when.
        false_alarm_rate: how often each statistical check may reject a sound run; an arbitrarily small rate would let
            every run pass.
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
        """Every file that it names, each once."""
        planned = (self.claim.plan,) if isinstance(self.claim, PlannedClaim) else ()
        beside = (self.playbook,) if self.playbook is not None else ()
        return tuple(dict.fromkeys((*planned, *beside, *self.logs)))

    @property
    def logs(self) -> tuple[str, ...]:
        """Those of them that hold rows of the run."""
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
    """Reads and checks a mapping file.

    Raises:
        ConfigError: with all that is wrong, by field.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(path.name, [f"cannot be read: {error.strerror}"]) from error
    except ValueError as error:
        raise ConfigError(path.name, [f"is not TOML: {error}"]) from error
    return parse_mapping(document, path.name)


def parse_mapping(document: dict[str, object], name: str = "mapping") -> LogMapping:
    """Checks a mapping that was read already."""
    try:
        return LogMapping.model_validate(document)
    except ValidationError as error:
        raise ConfigError(name, convert_validation_errors(error.errors(), hidden=("planned", "stated"))) from error
