"""A statement of a report on each privacy hazard of NIST SP 800-226, from its own figures; and its residual risks.

The hazards have the numbers and sections of the initial public draft (December 2023), in our words; the final text of
March 2025 may name them otherwise. A rule reads the report and returns a sentence of ``terms/en.json`` with the paths
of the figures in it, so that each figure keeps its source. What no figure of the report shows is left open. Residual
risks are deceptions that verification cannot detect, listed for the plans that they apply to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from epsilog.plan import RegisteredPlan
from epsilog.plan.sentences import grade_delta
from epsilog.plan.verdict import FPR, NEARLY_ALL
from epsilog.reports.figure_sources import RECOMPUTED, UNKNOWN, FigureSource, get_figure_source
from epsilog.schemes import ProtectionLevel, Scheme
from epsilog.terms import Status, codec
from epsilog.terms.formatting import count_of_thousand
from epsilog.terms.messages import Message
from epsilog.verification.audits import PLANNED

SAID, NOT_APPLICABLE, OPEN = "said", "not applicable", "left open"
Report = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Statement:
    """What a report says of one hazard.

    Attributes:
        status: "said", "not applicable" or "left open".
        sentence: its name in the catalogue, without "hazard/".
        figures: the paths of the figures in the sentence, by parameter.
    """

    status: str
    sentence: str
    figures: Mapping[str, str] = field(default_factory=dict)


class Hazard(NamedTuple):
    """A hazard.

    Attributes:
        name: its identifier; its title in the catalogue is "hazard/NAME".
        section: of the draft.
        rule: what a report says of it.
    """

    name: str
    section: str
    rule: Callable[[Report], Statement]


def _answer(sentence: str, **figures: str) -> Statement:
    return Statement(SAID, sentence, figures)


def _absent(sentence: str, **figures: str) -> Statement:
    return Statement(NOT_APPLICABLE, sentence, figures)


def _open(sentence: str, **figures: str) -> Statement:
    return Statement(OPEN, sentence, figures)


def _find(report: Report, path: str) -> Any:
    """Return the value at a path; None without one."""
    value: Any = report
    for step in path.split("/"):
        try:
            value = value[int(step) if isinstance(value, list) else step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _is_supported(report: Report) -> bool:
    failed = report["verification"]["status"] == Status.FAILED and report["kind"] == "report"
    return not failed and math.isfinite(float(report["claim"]["supported"])) and report["risk_metrics"] is not None


def _state_large_epsilon(report: Report) -> Statement:
    if not _is_supported(report):
        return _answer("large-epsilon-unsupported", status="verification/status")
    attack = report["risk_metrics"]["attack"]
    at = next((i for i, point in enumerate(attack) if point["fpr"] == FPR), None)
    if at is None:
        return _answer("large-epsilon-alone", epsilon="claim/supported")
    which = "all" if count_of_thousand(attack[at]["tpr"]) >= NEARLY_ALL else "found"
    return _answer(f"large-epsilon-{which}", epsilon="claim/supported", found=f"risk_metrics/attack/{at}/tpr")


def _state_native_parameters(report: Report) -> Statement:
    if not _is_supported(report):
        return _open("no-bound")
    points = report["risk_metrics"]["profile"]
    at = min(range(len(points)), key=lambda one: points[one]["delta"])
    which = "fails" if points[at]["epsilon"] == "inf" else "holds"
    figures = {"noise": "mechanism/scheme/noise_multiplier", "rounds": "mechanism/scheme/rounds"}
    figures |= {} if which == "fails" else {"epsilon": f"risk_metrics/profile/{at}/epsilon"}
    return _answer(f"native-parameters-{which}", delta=f"risk_metrics/profile/{at}/delta", **figures)


def _find_group(report: Report) -> str | None:
    """Return the path of the smallest group of several units with a finite bound."""
    groups = (report["risk_metrics"] or {}).get("groups", [])
    bounded = [i for i, one in enumerate(groups) if one["units"] > 1 and one["epsilon"] not in (None, "inf")]
    return f"risk_metrics/groups/{min(bounded, key=lambda i: groups[i]['units'])}" if bounded else None


def _state_outside_unit(report: Report) -> Statement:
    unit = "claim/guarantee/privacy_unit"
    if (group := _find_group(report)) is None:
        return _answer("outside-unit-unbounded", unit=unit)
    return _answer("outside-unit-group", unit=unit, units=f"{group}/units", epsilon=f"{group}/epsilon")


def _state_event_level(report: Report) -> Statement:
    unit = "claim/guarantee/privacy_unit"
    if "unit_details" in report["publication"]["stated"]:
        return _answer("event-level-stated", unit=unit, details="publication/stated/unit_details")
    scheme = codec.decode(report["mechanism"]["scheme"])
    assert isinstance(scheme, Scheme)
    which = "client" if scheme.unit_is_client else "example"
    return _answer(f"event-level-{which}", unit=unit, scheme="mechanism/scheme/type")


def _state_compared_deltas(report: Report) -> Statement:
    if not _is_supported(report) or not report["risk_metrics"]["profile"]:
        return _open("no-bound")
    other = {"epsilon_there": "risk_metrics/profile/0/epsilon", "delta_there": "risk_metrics/profile/0/delta"}
    return _answer("compared-deltas-both", epsilon="claim/supported", delta="claim/guarantee/delta", **other)


def _state_compared_units(report: Report) -> Statement:
    guarantee = report["claim"]["guarantee"]
    figures = {name: f"claim/guarantee/{name}" for name in ("privacy_unit", "relation", "population")}
    if guarantee["population"] is None:
        del figures["population"]
        return _answer("compared-units-unsized", **figures)
    return _answer("compared-units-sized", **figures)


def _state_large_delta(report: Report) -> Statement:
    guarantee = report["claim"]["guarantee"]
    if guarantee["population"] is None:
        return _open("large-delta-unsized", delta="claim/guarantee/delta")
    grade, _ = grade_delta(guarantee["delta"], guarantee["population"])
    figures = {name: f"claim/guarantee/{name}" for name in ("delta", "population")}
    return _answer(f"large-delta-{grade}", **figures)


def _state_other_releases(report: Report) -> Statement:
    ledger = "budget/binding/spent_or_reserved/epsilon"
    if _find(report, ledger) is None:
        ledger = "budget/earlier_spending/epsilon"
    counted = {} if _find(report, ledger) is None else {"before": ledger}
    if "prior_releases" in report["publication"]["stated"]:
        which = "both" if counted else "stated"
        return _answer(f"other-releases-{which}", others="publication/stated/prior_releases", **counted)
    return _answer("other-releases-ledger", **counted) if counted else _open("other-releases-open")


def _state_own_implementation(report: Report) -> Statement:
    if report["kind"] == "log-report":
        return _answer("own-implementation-logs", status="verification/status")
    version = {"version": "evidence/software/epsilog"}
    if _find(report, version["version"]) is None:
        return _open("own-implementation-open")
    findings = report["verification"]["findings"]
    at = next((i for i, one in enumerate(findings) if one["check"] == "noise"), None)
    if at is None or _find(report, "evidence/provenance/engine") is None:
        return _answer("own-implementation-version", **version)
    figures = {"engine": "evidence/provenance/engine", "status": f"verification/findings/{at}/status"}
    return _answer("own-implementation-checked", **version, **figures)


def _state_systemic_bias(report: Report) -> Statement:
    if _find(report, "result/test_score") is None:
        return _open("systemic-bias-unscored")
    return _open("systemic-bias-scored", score="result/test_score", name="result/score_name")


def _state_human_bias(report: Report) -> Statement:
    if not _find(report, "owner/counts"):
        return _absent("human-bias-none", scheme="mechanism/scheme/type")
    return _answer("human-bias-counts", **{one: f"owner/counts/0/{one}" for one in ("name", "value", "lower", "upper")})


def _state_clipping_bias(report: Report) -> Statement:
    clip = {"clip": "mechanism/scheme/clip_norm"}
    baseline = _find(report, "utility/baseline_rounds") or []
    if not baseline or _find(report, "result/test_score") is None or baseline[-1]["test_score"] is None:
        return _answer("clipping-bias-unmeasured", **clip)
    without = f"utility/baseline_rounds/{len(baseline) - 1}/test_score"
    return _answer("clipping-bias-measured", **clip, score="result/test_score", without=without)


def _state_contribution_bounds(report: Report) -> Statement:
    figures = {"clip": "mechanism/scheme/clip_norm", "stddev": "mechanism/noise_stddev"}
    which = "noise" if report["mechanism"]["noise_stddev"] else "exact"
    return _answer(f"contribution-bounds-{which}", unit="claim/guarantee/privacy_unit", **figures)


def _state_bins(report: Report) -> Statement:
    if not _find(report, "owner/counts"):
        return _absent("bins-none", scheme="mechanism/scheme/type")
    return _answer("bins-total", name="owner/counts/0/name")


def _state_memorization(report: Report) -> Statement:
    if _find(report, "audit/bound/epsilon") is not None:
        figures = {"epsilon": "audit/bound/epsilon", "confidence": "audit/bound/confidence"}
        return _answer("memorization-audited", **figures)
    if (group := _find_group(report)) is None:
        return _open("no-bound")
    return _answer("memorization-copies", copies=f"{group}/units", epsilon=f"{group}/epsilon")


def _state_synthetic_data(report: Report) -> Statement:
    rounds = "mechanism/scheme/rounds" if _find(report, "result/rounds") is None else "result/rounds"
    return _absent("synthetic-data-none", scheme="mechanism/scheme/type", rounds=rounds)


def _state_deep_synthesis(report: Report) -> Statement:
    kind = _find(report, "mechanism/data/model/kind")
    if kind is None or _find(report, "mechanism/data/score") is None:
        return _open("deep-synthesis-open", scheme="mechanism/scheme/type")
    if ":" in kind:  # a model of the curator's own, by module and function
        return _open("deep-synthesis-own", model="mechanism/data/model/kind")
    return _absent("deep-synthesis-none", model="mechanism/data/model/kind", score="mechanism/data/score")


def _state_unstructured_data(report: Report) -> Statement:
    for name, path in (("stated", "publication/stated/unit_details"), ("partition", "mechanism/data/partition")):
        if _find(report, path) is not None:
            return _answer(f"unstructured-data-{name}", unit="claim/guarantee/privacy_unit", details=path)
    return _open("unstructured-data-open", unit="claim/guarantee/privacy_unit")


def _state_interactive_queries(report: Report) -> Statement:
    if report["publication"]["stated"].get("access_type") == "Interactive":
        return _open("interactive-queries-stated", access="publication/stated/access_type")
    if _find(report, "budget/charged/epsilon") is None:
        return _absent("interactive-queries-fixed", rounds="mechanism/scheme/rounds")
    figures = {"cap": "budget/epsilon", "scope": "budget/scope", "state": "budget/state"}
    return _answer("interactive-queries-charged", rounds="mechanism/scheme/rounds", **figures)


def _state_trust(report: Report) -> Statement:
    parties = report["claim"].get("parties", [])
    if not parties:
        return _open("trust-open", scheme="mechanism/scheme/type")
    at = next((i for i, one in enumerate(parties) if not one["protected"]), None)
    if at is None:
        return _answer("trust-nobody", party="claim/parties/0/party", view="claim/parties/0/view")
    return _answer("trust-party", party=f"claim/parties/{at}/party", view=f"claim/parties/{at}/view")


def _state_side_channels(report: Report) -> Statement:
    generator = "evidence/provenance/generator"
    if _find(report, generator) is None:
        return _open("side-channels-open")
    which = "rehearsal" if report["simulation"] else "generator"
    return _answer(f"side-channels-{which}", generator=generator)


def _state_data_security(report: Report) -> Statement:
    if "retention" in report["publication"]["stated"]:
        return _answer("data-security-stated", retention="publication/stated/retention")
    return _open("data-security-open")


def _state_collection(report: Report) -> Statement:
    figures = {"purpose": "identity/purpose", "data": "mechanism/data/data"}
    missing = [name for name, path in figures.items() if _find(report, path) is None]
    return _open("collection-open") if missing else _answer("collection-stated", **figures)


HAZARDS = (
    Hazard("large-epsilon", "2.2", _state_large_epsilon),
    Hazard("native-parameters", "2.3", _state_native_parameters),
    Hazard("outside-unit", "2.4", _state_outside_unit),
    Hazard("event-level", "2.4", _state_event_level),
    Hazard("compared-deltas", "2.5", _state_compared_deltas),
    Hazard("compared-units", "2.5", _state_compared_units),
    Hazard("large-delta", "2.5", _state_large_delta),
    Hazard("other-releases", "2.6", _state_other_releases),
    Hazard("own-implementation", "3", _state_own_implementation),
    Hazard("systemic-bias", "3.3.1", _state_systemic_bias),
    Hazard("human-bias", "3.3.2", _state_human_bias),
    Hazard("clipping-bias", "3.3.3", _state_clipping_bias),
    Hazard("contribution-bounds", "3.4.1", _state_contribution_bounds),
    Hazard("bins", "3.4.1", _state_bins),
    Hazard("memorization", "3.5", _state_memorization),
    Hazard("synthetic-data", "3.6", _state_synthetic_data),
    Hazard("deep-synthesis", "3.6", _state_deep_synthesis),
    Hazard("unstructured-data", "3.7", _state_unstructured_data),
    Hazard("interactive-queries", "4.1", _state_interactive_queries),
    Hazard("trust", "4.2", _state_trust),
    Hazard("side-channels", "4.3", _state_side_channels),
    Hazard("data-security", "4.4", _state_data_security),
    Hazard("collection", "4.5", _state_collection),
)


def state_hazards(report: Report) -> list[dict[str, Any]]:
    """Return the statement on each hazard: status, sentence, paths of its figures, and the weakest of their sources."""
    return [_state(report, hazard) for hazard in HAZARDS]


def _state(report: Report, hazard: Hazard) -> dict[str, Any]:
    found = hazard.rule(report)
    sources = [get_figure_source(report, _split(report, path)) for path in found.figures.values()]
    weakest = _pick_weakest(sources)
    return {
        "hazard": hazard.name,
        "section": hazard.section,
        "status": found.status,
        "sentence": f"hazard/{found.sentence}",
        "figures": dict(found.figures),
        "source": weakest.source,
    } | ({} if weakest.attested_by is None else {"attested_by": weakest.attested_by})


def _pick_weakest(sources: list[FigureSource]) -> FigureSource:
    """Return the source that proves least: unknown, then attested, then recomputed."""
    attested = next((one for one in sources if one.attested_by is not None), RECOMPUTED)
    return UNKNOWN if UNKNOWN in sources or not sources else attested


def _split(report: Report, path: str) -> list[str | int]:
    """Return the steps of a path, with numbers for places in lists."""
    steps: list[str | int] = []
    value: Any = report
    for step in path.split("/"):
        at = int(step) if isinstance(value, list) else step
        steps.append(at)
        value = value[at]
    return steps


def _read_figure(report: Report, path: str) -> Any:
    """Return the value at a path; amounts of a ledger, which are decimals in text, as numbers."""
    value = _find(report, path)
    is_amount = path.startswith("budget/") and path.endswith("/epsilon")
    return float(value) if is_amount or value == "inf" else value


def count_answered(report: Report) -> int:
    """Return how many hazards a report does not leave open."""
    return sum(hazard.rule(report).status != OPEN for hazard in HAZARDS)


def list_hazard_rows(report: Report) -> Iterator[dict[str, str]]:
    """List title, answer, sentence and style of each hazard, for a reader: only what is recomputed looks so."""
    for row in state_hazards(report):
        values = {name: _read_figure(report, path) for name, path in row["figures"].items()}
        source = FigureSource(row["source"], row.get("attested_by"))
        yield {
            "title": f"{Message('hazard/' + row['hazard'])} ({row['section']})",
            "answer": OPEN if row["status"] == OPEN else f"{row['status']}; {source.label}",
            "sentence": str(Message.of(row["sentence"], **values)),
            "style": "not" if row["status"] == OPEN else "passed" if source == RECOMPUTED else source.source,
        }


@dataclass(frozen=True, slots=True)
class ResidualRisk:
    """One deception that leaves no trace in plan, records, ledger and report.

    Attributes:
        description: the deception, as the table in the docs names it.
        detected_by: what would detect or prevent it.
        applies: whether it is possible in a run of this plan.
    """

    description: str
    detected_by: str
    applies: Callable[[RegisteredPlan], bool] = lambda _: True

    def to_sentence(self) -> str:
        """Return the risk for a reader of the report."""
        return f"{self.description[0].upper()}{self.description[1:]}. What would detect it: {self.detected_by}."


def _is_server_trusted(plan: RegisteredPlan) -> bool:
    return any(party.name == "Server" and party.holds is ProtectionLevel.NOTHING for party in plan.scheme.parties)


RUN_RISKS = (
    ResidualRisk(
        "the curator fabricated all records from the start, padding and lists included, and committed them",
        "a trusted execution environment, or noise from more than one party",
        _is_server_trusted,
    ),
    ResidualRisk(
        "the curator fabricated all records from the start, padding and lists included, and committed them",
        "clients who keep what they sent",
        lambda plan: not _is_server_trusted(plan),
    ),
    ResidualRisk(
        "clients added too little noise, or only on the padding",
        "an audit of the clients' code",
        lambda plan: not _is_server_trusted(plan),
    ),
    ResidualRisk("training on other data, or on more people, than planned", "access to the data"),
    ResidualRisk(
        "another name for the unit in plan, charge and data, or another number of units",
        "access to the data",
    ),
    ResidualRisk(
        "withholding custody.jsonl, with participation and norms attested to pass",
        "that file with its key, which the commit binds",
    ),
    ResidualRisk(
        "a round repeated without a record or on a copy of the ledger, and the better result kept",
        "noise that no one can draw again",
    ),
    ResidualRisk(
        "other trials than the tuning distribution drew, or their number disclosed",
        "access to the trial ledger, and a witness of the draw",
        lambda plan: plan.trials is not None,
    ),
    ResidualRisk(
        "coins seen before the plan was charged, or fabricated canary scores",
        "scoring the canaries again from the released model",
        lambda plan: PLANNED in plan.details,
    ),
    ResidualRisk(
        "the ledger truncated or rewritten, and the reports too, before a checkpoint was kept",
        "frequent external checkpoints from the start",
    ),
    ResidualRisk("different ledgers shown to different readers", "readers who compare their checkpoints"),
    ResidualRisk("two runs on the same people charged to two ledgers", "the data owner keeping the only ledger"),
    ResidualRisk("a release that bypasses the ledger", "nothing in these files"),
    ResidualRisk(
        "a seeded run called real",
        "nothing in these files: seeds can be kept",
        lambda plan: not plan.simulation,
    ),
)


LOG_RISKS = (
    ResidualRisk(
        "the author of the logs fabricated all of them consistently",
        "records that a ledger binds during the run, and noise from more than one party",
    ),
    ResidualRisk(
        "training in other rounds, on other data, or on more people, than the logs state",
        "access to the data, and to what ran",
    ),
    ResidualRisk("updates not clipped, or noise other than the logged noise", "an audit of the code that ran"),
    ResidualRisk("another name for the privacy unit, or another number of units", "access to the data"),
    ResidualRisk(
        "the run restarted without a record in the logs, and the better result kept",
        "noise that no one can draw again",
    ),
    ResidualRisk(
        "another release about the same people: the logs of one run hold no budget",
        "one ledger for all releases about them",
    ),
)
SEEDED_RISK = ResidualRisk("seeded randomness: anyone who kept the seed can remove the noise", "nothing in these files")


def list_residual_log_risks(*, simulation: bool) -> list[str]:
    """Return what verified logs do not rule out, a sentence each."""
    return [risk.to_sentence() for risk in (*LOG_RISKS, *(() if simulation else (SEEDED_RISK,)))]


def list_residual_risks(plan: RegisteredPlan) -> list[str]:
    """Return what a passed verification of this plan's run does not rule out, a sentence each."""
    return [risk.to_sentence() for risk in RUN_RISKS if risk.applies(plan)]
