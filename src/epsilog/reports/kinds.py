"""Who vouches for each part of a report: whoever verifies it, by working it out again, or somebody else, by their word.

One table, which the report carries, its renderings show and verification tells. A part that is copied from what the
owner or the ledger states comes out again too, and proves nothing: only what is ``Recomputed`` may be shown as passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epsilog.terms import RunArtifact, Status
from epsilog.verification import LEDGER_CHECKS


@dataclass(frozen=True, slots=True)
class Recomputed:
    """The verifier works it out again, from what is attested."""

    label = "recomputed"


@dataclass(frozen=True, slots=True)
class Attested:
    """Somebody states it, and the verifier copies it.

    Attributes:
        by: who.
    """

    by: str

    @property
    def label(self) -> str:
        """In words, for a reader."""
        return f"the {self.by}'s word"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody states it, or it was not checked."""

    label = "unknown"


Kind = Recomputed | Attested | Unknown
HERE, OWNER, LEDGER, WRITER = Recomputed(), Attested("owner"), Attested("ledger"), Attested("writer")


@dataclass(frozen=True, slots=True)
class ReportPart:
    """A part of a report.

    Attributes:
        place: names from the top, joined by ``/``; what lies below is of the same kind, but for parts of its own.
        kind: who vouches for it.
        says: what it is, for a reader; "" for what is recomputed.
    """

    place: str
    kind: Kind
    says: str = ""


PLANNED_OF_BOUND = ("delta", "confidence", "canaries", "guesses")  # what a bound repeats of the audit's plan

OF_RUNS = (
    *(ReportPart(place, HERE) for place in ("v", "kind", "figure_sources", "limits", "residual_risks")),
    ReportPart("identity", OWNER, "name, purpose, owner and period"),
    ReportPart("simulation", OWNER, "whether randomness was seeded"),
    *(ReportPart(f"claim/{name}", HERE) for name in ("statement", "supported", "epsilon", "unamplified", "parties")),
    ReportPart("claim/guarantee", OWNER, "the claimed guarantee, its unit and population"),
    ReportPart("claim/delta_rationale", OWNER, "the reason for delta"),
    ReportPart("claim/coverage", OWNER, "the coverage"),
    ReportPart("risk_metrics", HERE),
    ReportPart("publication/stated", OWNER, "what the publisher says"),
    ReportPart("publication/blank", HERE),
    ReportPart("mechanism/scheme", OWNER, "the settings of the mechanism"),
    ReportPart("mechanism/release", HERE),
    ReportPart("mechanism/noise_stddev", HERE),
    ReportPart("mechanism/training", OWNER, "training"),
    ReportPart("mechanism/data", OWNER, "data"),
    ReportPart("tuning", HERE),
    ReportPart("tuning/trials", OWNER, "how the number of trials was drawn"),
    ReportPart("accounting", HERE),
    ReportPart("budget", OWNER, "the stated budget"),
    *(ReportPart(f"budget/{name}", LEDGER, "what was charged") for name in ("charged", "state")),
    *(ReportPart(f"budget/{name}", LEDGER, "what was spent before") for name in ("earlier_spending", "binding")),
    ReportPart("rounds", OWNER, "losses and scores"),
    ReportPart("result", OWNER, "losses and scores"),
    ReportPart("result/rounds", HERE),
    ReportPart("utility", OWNER, "a simulation's utility"),
    ReportPart("audit/planned", OWNER, "the planned audit"),
    ReportPart("audit/canaries", OWNER, "coins and scores of canaries"),
    *(ReportPart(f"audit/{name}", HERE) for name in ("bound", "estimate", "messages")),
    *(ReportPart(f"audit/bound/{name}", OWNER, "the planned audit") for name in PLANNED_OF_BOUND),
    ReportPart("verification", HERE),
    ReportPart("evidence/plan_hash", HERE),
    ReportPart("evidence/files", LEDGER, "digests of files that are not in the report"),
    *(
        ReportPart(f"evidence/files/{name}", HERE)
        for name in (RunArtifact.PLAN, RunArtifact.ROUNDS, RunArtifact.OWNER, RunArtifact.CANARIES)
    ),
    ReportPart("evidence/ledger", LEDGER, "what was charged"),
    ReportPart("evidence/references", OWNER, "references"),
    ReportPart("evidence/software", OWNER, "software"),
    ReportPart("evidence/provenance", OWNER, "date, source commit, engine and noise generator"),
    ReportPart("evidence/recompute", HERE),
    ReportPart("evidence/plan", OWNER, "the plan"),
    ReportPart("evidence/records", OWNER, "the records of rounds"),
    ReportPart("owner", OWNER, "how the checks on the curator's records ended"),
)
OF_LOGS = (
    *(
        ReportPart(place, HERE)
        for place in (
            "v",
            "kind",
            "figure_sources",
            "limits",
            "residual_risks",
            "risk_metrics",
            "verification",
            "observed",
        )
    ),
    ReportPart("identity", WRITER, "name, purpose, owner and period"),
    ReportPart("simulation", WRITER, "whether randomness was seeded"),
    *(ReportPart(f"claim/{name}", HERE) for name in ("statement", "supported", "epsilon", "unamplified")),
    ReportPart("claim/guarantee", WRITER, "the claimed guarantee, its unit and population"),
    ReportPart("publication/stated", WRITER, "what the publisher says"),
    ReportPart("publication/blank", HERE),
    ReportPart("mechanism/scheme", WRITER, "the settings of the mechanism"),
    ReportPart("mechanism/release", HERE),
    ReportPart("mechanism/noise_stddev", HERE),
    ReportPart("mechanism/divisor", WRITER, "the divisor"),
    *(
        ReportPart(f"evidence/{name}", HERE)
        for name in ("files", "hmac_files", "unhashed_files", "software", "recompute")
    ),
)
"""A report of logs is verified with the logs: what is counted in them is worked out again, and the logs are a word."""


def parts_of(report: Mapping[str, Any]) -> tuple[ReportPart, ...]:
    """The table for a report."""
    return OF_LOGS if report["kind"] == "log-report" else OF_RUNS


def kind_at(report: Mapping[str, Any], place: Sequence[str | int]) -> Kind:
    """Who vouches for what stands at a place of a report.

    Raises:
        KeyError: a place that no part of the table covers.
    """
    value: Any = report
    for step in place:
        value = value[step]
    if value is None:
        return Unknown()
    steps = [str(step) for step in place]
    if steps[:2] == ["verification", "findings"] and len(steps) > 2:
        return kind_of_finding(report["verification"]["findings"][int(steps[2])])
    found = [part for part in parts_of(report) if (at := part.place.split("/")) == steps[: len(at)]]
    if not found:
        raise KeyError("/".join(steps))
    return max(found, key=lambda part: len(part.place.split("/"))).kind


def leaves(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """List places of the values in a document that hold no others."""
    if isinstance(value, dict | list) and value:
        for step in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[step], (*at, step))
    else:
        yield at


def classify_figures(report: Mapping[str, Any]) -> dict[str, Kind]:
    """Return who vouches for each figure of a report, by its path."""
    return {"/".join(map(str, place)): kind_at(report, place) for place in leaves(report)}


def kind_of_finding(finding: Mapping[str, Any]) -> Kind:
    """Who vouches for how a check of a report ended."""
    if finding["status"] == Status.NOT_CHECKED:
        return Unknown()
    if finding["code"].endswith("/attested"):
        return OWNER
    return LEDGER if finding["check"] in LEDGER_CHECKS else HERE


def list_parts(parts: Sequence[ReportPart]) -> list[dict[str, str]]:
    """The table as a report carries it."""
    return [
        {"path": part.place, "source": type(part.kind).__name__.lower()}
        | ({"attested_by": part.kind.by} if isinstance(part.kind, Attested) else {})
        for part in parts
    ]


def words_of(parts: Sequence[ReportPart], kind: Kind) -> list[str]:
    """What somebody attests in a report, each once, for a reader."""
    return list(dict.fromkeys(part.says for part in parts if part.kind == kind))
