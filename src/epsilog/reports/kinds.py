"""Who vouches for each part of a report: whoever verifies it, by working it out again, or somebody else, by their word.

One table, which the report carries, its renderings show and verification tells. A part that is copied from what the
owner or the ledger states comes out again too, and proves nothing: only what is ``Recomputed`` may be shown as passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
class Part:
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
    *(Part(place, HERE) for place in ("v", "kind", "kinds", "limits", "forgeable")),
    Part("identity", OWNER, "name, purpose, owner and period"),
    Part("simulation", OWNER, "whether randomness was seeded"),
    *(Part(f"claim/{name}", HERE) for name in ("statement", "supported", "epsilon", "unamplified", "parties")),
    Part("claim/guarantee", OWNER, "the claimed guarantee, its unit and population"),
    Part("claim/delta_rationale", OWNER, "the reason for delta"),
    Part("claim/boundary", OWNER, "the boundary"),
    Part("reading", HERE),
    Part("publication/stated", OWNER, "what the publisher says"),
    Part("publication/blank", HERE),
    Part("mechanism/scheme", OWNER, "the settings of the mechanism"),
    Part("mechanism/release", HERE),
    Part("mechanism/noise_stddev", HERE),
    Part("mechanism/training", OWNER, "training"),
    Part("mechanism/data", OWNER, "data"),
    Part("tuning", HERE),
    Part("tuning/trials", OWNER, "how the number of trials was drawn"),
    Part("accounting", HERE),
    Part("budget", OWNER, "the stated budget"),
    *(Part(f"budget/{name}", LEDGER, "what was charged") for name in ("charged", "state")),
    *(Part(f"budget/{name}", LEDGER, "what was spent before") for name in ("spent_before", "binding")),
    Part("rounds", OWNER, "losses and scores"),
    Part("result", OWNER, "losses and scores"),
    Part("result/rounds", HERE),
    Part("utility", OWNER, "a simulation's utility"),
    Part("audit/planned", OWNER, "the planned audit"),
    Part("audit/canaries", OWNER, "coins and scores of canaries"),
    *(Part(f"audit/{name}", HERE) for name in ("bound", "estimate", "says")),
    *(Part(f"audit/bound/{name}", OWNER, "the planned audit") for name in PLANNED_OF_BOUND),
    Part("verification", HERE),
    Part("evidence/plan_hash", HERE),
    Part("evidence/files", LEDGER, "digests of files that are not in the report"),
    *(
        Part(f"evidence/files/{name}", HERE)
        for name in (RunArtifact.PLAN, RunArtifact.ROUNDS, RunArtifact.OWNER, RunArtifact.CANARIES)
    ),
    Part("evidence/ledger", LEDGER, "what was charged"),
    Part("evidence/references", OWNER, "references"),
    Part("evidence/software", OWNER, "software"),
    Part("evidence/made", OWNER, "date, source commit, engine and noise generator"),
    Part("evidence/recompute", HERE),
    Part("evidence/plan", OWNER, "the plan"),
    Part("evidence/records", OWNER, "the records of rounds"),
    Part("owner", OWNER, "how the checks on the curator's records ended"),
)
OF_LOGS = (
    *(
        Part(place, HERE)
        for place in ("v", "kind", "kinds", "limits", "forgeable", "reading", "verification", "observed")
    ),
    Part("identity", WRITER, "name, purpose, owner and period"),
    Part("simulation", WRITER, "whether randomness was seeded"),
    *(Part(f"claim/{name}", HERE) for name in ("statement", "supported", "epsilon", "unamplified")),
    Part("claim/guarantee", WRITER, "the claimed guarantee, its unit and population"),
    Part("publication/stated", WRITER, "what the publisher says"),
    Part("publication/blank", HERE),
    Part("mechanism/scheme", WRITER, "the settings of the mechanism"),
    Part("mechanism/release", HERE),
    Part("mechanism/noise_stddev", HERE),
    Part("mechanism/divisor", WRITER, "the divisor"),
    *(Part(f"evidence/{name}", HERE) for name in ("files", "keyed", "unbound", "software", "recompute")),
)
"""A report of logs is verified with the logs: what is counted in them is worked out again, and the logs are a word."""


def parts_of(report: Mapping[str, Any]) -> tuple[Part, ...]:
    """The table for a report."""
    return OF_LOGS if report["kind"] == "logs-report" else OF_RUNS


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


def kind_of_finding(finding: Mapping[str, Any]) -> Kind:
    """Who vouches for how a check of a report ended."""
    if finding["verdict"] == Status.NOT_CHECKED:
        return Unknown()
    if finding["code"].endswith("/as-published"):
        return OWNER
    return LEDGER if finding["check"] in LEDGER_CHECKS else HERE


def list_parts(parts: Sequence[Part]) -> list[dict[str, str]]:
    """The table as a report carries it."""
    return [
        {"place": part.place, "kind": type(part.kind).__name__.lower()}
        | ({"by": part.kind.by} if isinstance(part.kind, Attested) else {})
        for part in parts
    ]


def words_of(parts: Sequence[Part], kind: Kind) -> list[str]:
    """What somebody attests in a report, each once, for a reader."""
    return list(dict.fromkeys(part.says for part in parts if part.kind == kind))
