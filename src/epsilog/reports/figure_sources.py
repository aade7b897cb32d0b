"""The source of each figure of a report: it is recomputed, attested or unknown.

The report carries this table, its renderings show it, and verification counts by it. An attested figure is copied into
the rebuilt report, so that it is equal proves nothing. Only a recomputed figure may look passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epsilog.terms import RunArtifact, Status
from epsilog.verification import LEDGER_CHECKS


@dataclass(frozen=True, slots=True)
class FigureSource:
    """Where a figure comes from.

    Attributes:
        source: "recomputed" from attested figures, "attested" and copied, or "unknown": not stated, or not checked.
        attested_by: who attests it; None of other sources.
    """

    source: str
    attested_by: str | None = None

    @property
    def label(self) -> str:
        """The source for a reader."""
        return self.source if self.attested_by is None else f"attested by {ATTESTERS[self.attested_by]}"


ATTESTERS = {"owner": "the owner", "ledger": "the ledger", "writer": "the author of the logs"}
RECOMPUTED, UNKNOWN = FigureSource("recomputed"), FigureSource("unknown")
OWNER, LEDGER, WRITER = (FigureSource("attested", name) for name in ATTESTERS)


@dataclass(frozen=True, slots=True)
class ReportPart:
    """A part of a report.

    Attributes:
        path: names from the top, joined by ``/``; parts with a longer path below it have their own source.
        source: where its figures come from.
        description: its content, for a reader; "" if it is recomputed.
    """

    path: str
    source: FigureSource
    description: str = ""


def _parts(source: FigureSource, paths: str, description: str = "") -> tuple[ReportPart, ...]:
    return tuple(ReportPart(path, source, description) for path in paths.split())


def _expand(parent: str, names: str) -> str:
    return " ".join(f"{parent}/{name}" for name in names.split())


CLAIM = _expand("claim", "statement supported epsilon unamplified")
RUN_PARTS = (
    *_parts(RECOMPUTED, "v kind figure_sources limits residual_risks hazards"),
    *_parts(OWNER, "identity", "name, purpose, owner and period"),
    *_parts(OWNER, "simulation", "whether randomness was seeded"),
    *_parts(RECOMPUTED, f"{CLAIM} claim/parties"),
    *_parts(OWNER, "claim/guarantee", "the claimed guarantee, its unit and population"),
    *_parts(OWNER, "claim/delta_rationale", "the reason for delta"),
    *_parts(OWNER, "claim/coverage", "the coverage"),
    *_parts(RECOMPUTED, "risk_metrics"),
    *_parts(OWNER, "publication/stated", "the publisher's statements"),
    *_parts(RECOMPUTED, "publication/blank"),
    *_parts(OWNER, "mechanism/scheme", "the settings of the mechanism"),
    *_parts(RECOMPUTED, "mechanism/release mechanism/noise_stddev"),
    *_parts(OWNER, "mechanism/training", "training"),
    *_parts(OWNER, "mechanism/data", "data"),
    *_parts(RECOMPUTED, "tuning"),
    *_parts(OWNER, "tuning/trials", "how the number of trials was drawn"),
    *_parts(RECOMPUTED, "accounting"),
    *_parts(OWNER, "budget", "the stated budget"),
    *_parts(LEDGER, "budget/charged budget/state", "the charge"),
    *_parts(LEDGER, "budget/earlier_spending budget/binding", "earlier spending"),
    *_parts(OWNER, "rounds result", "losses and scores"),
    *_parts(RECOMPUTED, "result/rounds"),
    *_parts(OWNER, "utility", "the utility of a simulation"),
    *_parts(OWNER, "audit/planned", "the planned audit"),
    *_parts(OWNER, "audit/canaries", "coins and scores of canaries"),
    *_parts(RECOMPUTED, "audit/bound audit/estimate audit/messages"),
    *_parts(OWNER, _expand("audit/bound", "delta confidence canaries guesses"), "the planned audit"),
    *_parts(RECOMPUTED, "verification evidence/plan_hash"),
    *_parts(OWNER, "evidence/certificate", "the certificate, whose proof is checked"),
    *_parts(LEDGER, "evidence/files", "digests of files outside the report"),
    *_parts(
        RECOMPUTED,
        _expand(
            "evidence/files",
            f"{RunArtifact.PLAN} {RunArtifact.ROUNDS} {RunArtifact.OWNER} {RunArtifact.CANARIES} "
            f"{RunArtifact.CERTIFICATE}",
        ),
    ),
    *_parts(LEDGER, "evidence/ledger", "the charge"),
    *_parts(OWNER, "evidence/references", "references"),
    *_parts(OWNER, "evidence/software", "software"),
    *_parts(OWNER, "evidence/provenance", "date, source commit, engine and noise generator"),
    *_parts(RECOMPUTED, "evidence/recompute"),
    *_parts(OWNER, "evidence/plan", "the plan"),
    *_parts(OWNER, "evidence/records", "the round records"),
    *_parts(OWNER, "owner", "the outcomes of the curator's checks"),
)
LOG_PARTS = (
    *_parts(RECOMPUTED, "v kind figure_sources limits residual_risks hazards risk_metrics verification observed"),
    *_parts(WRITER, "identity", "name, purpose, owner and period"),
    *_parts(WRITER, "simulation", "whether randomness was seeded"),
    *_parts(RECOMPUTED, CLAIM),
    *_parts(WRITER, "claim/guarantee", "the claimed guarantee, its unit and population"),
    *_parts(WRITER, "publication/stated", "the publisher's statements"),
    *_parts(RECOMPUTED, "publication/blank"),
    *_parts(WRITER, "mechanism/scheme", "the settings of the mechanism"),
    *_parts(RECOMPUTED, "mechanism/release mechanism/noise_stddev"),
    *_parts(WRITER, "mechanism/divisor", "the divisor"),
    *_parts(RECOMPUTED, _expand("evidence", "files hmac_files unhashed_files software recompute")),
)
"""A report of logs is verified with the logs: figures counted in them are recomputed, and the logs are attested."""

_SOURCES = tuple({part.path: part.source for part in parts} for parts in (RUN_PARTS, LOG_PARTS))


def list_report_parts(report: Mapping[str, Any]) -> tuple[ReportPart, ...]:
    """Return the table for a report."""
    return LOG_PARTS if report["kind"] == "log-report" else RUN_PARTS


def get_figure_source(report: Mapping[str, Any], path: Sequence[str | int]) -> FigureSource:
    """Return the source of the figure at a path of a report.

    Raises:
        KeyError: no part of the table covers this path.
    """
    value: Any = report
    for step in path:
        value = value[step]
    if value is None:
        return UNKNOWN
    steps = [str(step) for step in path]
    if steps[:2] == ["verification", "findings"] and len(steps) > 2:
        return get_finding_source(report, report["verification"]["findings"][int(steps[2])])
    sources = _SOURCES[list_report_parts(report) is LOG_PARTS]
    for length in range(len(steps), 0, -1):
        if (source := sources.get("/".join(steps[:length]))) is not None:
            return source
    raise KeyError("/".join(steps))


def get_finding_source(report: Mapping[str, Any], finding: Mapping[str, Any]) -> FigureSource:
    """Return the source of a finding's status; no ledger attests logs."""
    if finding["status"] == Status.NOT_CHECKED:
        return UNKNOWN
    if finding["code"].endswith("/attested"):
        return OWNER
    return LEDGER if report["kind"] == "report" and finding["check"] in LEDGER_CHECKS else RECOMPUTED


def list_leaf_paths(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """List the paths of values that hold no others."""
    if isinstance(value, dict | list) and value:
        for step in value if isinstance(value, dict) else range(len(value)):
            yield from list_leaf_paths(value[step], (*at, step))
    else:
        yield at


def classify_figures(report: Mapping[str, Any]) -> dict[str, FigureSource]:
    """Return the source of each figure of a report, by its path."""
    return {"/".join(map(str, path)): get_figure_source(report, path) for path in list_leaf_paths(report)}


def list_parts(parts: Sequence[ReportPart]) -> list[dict[str, str]]:
    """Return the table as a report carries it."""
    return [
        {"path": part.path, "source": part.source.source}
        | ({} if part.source.attested_by is None else {"attested_by": part.source.attested_by})
        for part in parts
    ]


def list_descriptions(parts: Sequence[ReportPart], source: FigureSource) -> list[str]:
    """Return descriptions of the parts of one source, each once, for a reader."""
    return list(dict.fromkeys(part.description for part in parts if part.source == source))
