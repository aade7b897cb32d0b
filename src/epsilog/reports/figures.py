"""Figures, table rows and plots that renderings of a report show: label, value and note, in a reader's words."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from scipy.special import stdtrit

from epsilog.plan.sentences import list_risk_rows, write_odds
from epsilog.reports.figure_sources import LEDGER, OWNER, get_finding_source
from epsilog.terms import COMMITMENT, Status, codec
from epsilog.terms.charts import PlotSeries, draw_line_plot
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.terms.messages import Message
from epsilog.verification.audits import GAUSSIAN

Rows = list[tuple[str, str]]
Figures = list[tuple[str, str, str]]

COUNT_NAMES = {"usable": "usable rows", "evaluation": "correct predictions on training rows"}
PROVENANCE_NAMES = {"date": "date", "commit": "source commit", "engine": "engine", "generator": "noise generator"}


def list_key_figures(report: Mapping[str, Any]) -> Figures:
    """Return the figures that a reader looks for first."""
    claim = report["claim"]
    figures = [("epsilon", show_upper(get_certified_epsilon(report)), _describe_epsilon(report))]
    if math.isfinite(float(claim["supported"])):
        figures.append(
            (
                "epsilon if participation is known",
                show_upper(claim["unamplified"]["upper"]),
                "no amplification by sampling",
            )
        )
    figures += list_tuning_figures(report) + list_noisy_counts(report)
    if report["kind"] == "log-report":
        return figures
    closed_form, result = report["accounting"]["closed_form"], report["result"]
    return [
        *figures,
        ("budget", report["budget"]["epsilon"], _describe_budget(report["budget"])),
        ("closed form", format_number(closed_form["total"]), "an estimate, not a bound; never charged"),
        *format_audit_bound(report),
        (result["score_name"], format_number(result["test_score"]), _describe_score(report)),
    ]


def _describe_epsilon(report: Mapping[str, Any]) -> str:
    claim, at = report["claim"], f"at delta {show_upper(report['claim']['guarantee']['delta'])}"
    if is_fully_supported(report):
        return f"certified upper bound {at}; lower bound {show_lower(claim['epsilon']['lower'])}"
    records, verb = ("logs", "claimed") if report["kind"] == "log-report" else ("records", "planned")
    support = (
        f"the {records} support this bound" if math.isfinite(float(claim["supported"])) else "no bound is supported"
    )
    return f"{support} {at}; {show_upper(claim['guarantee']['epsilon'])} was {verb}"


def _describe_budget(budget: Mapping[str, Any]) -> str:
    """Return the scope, the charge, and the budget that binds with its cap and earlier spending."""
    note = f"cap of {budget['scope']}, {OWNER.label}"
    if "charged" not in budget:
        return note
    note += f"; charged {budget['charged']['epsilon']}, {LEDGER.label}"
    if (found := budget.get("binding")) is None:
        return note
    cap, held = found["caps"]["epsilon"], found["spent_or_reserved"]["epsilon"]
    of_scope = "" if found["scope"] == budget["scope"] else f" of {found['scope']}"
    return f"{note}; the {found['source']}'s cap{of_scope} binds: {cap}, of which {held} was spent or reserved"


def _describe_score(report: Mapping[str, Any]) -> str:
    baseline = (report["utility"] or {}).get("baseline_rounds") or []
    without = f"; without DP {format_number(baseline[-1]['test_score'])}" if baseline else ""
    cost = f"; {write_score_cost(report)[:-1]}" if (report["utility"] or {}).get("further_pairs") else ""
    return f"after {report['result']['rounds']} rounds{without}{cost}; {OWNER.label}"


def write_score_cost(report: Mapping[str, Any]) -> str:
    """Return what DP costs of the score, with its uncertainty over seeds; nothing where a pair has no score."""
    utility, own = report["utility"] or {}, report["result"]["test_score"]
    baseline = utility.get("baseline_rounds") or []
    if not baseline:
        return ""
    scores = [(own, baseline[-1]["test_score"])]
    scores += [(pair["test_score"], pair["baseline_score"]) for pair in utility.get("further_pairs", ())]
    if any(score is None for pair in scores for score in pair):
        return ""
    if len(scores) == 1:
        return str(Message("score/one-pair"))
    costs = [without - with_dp for with_dp, without in scores]
    cost = statistics.fmean(costs)
    width = float(stdtrit(len(costs) - 1, 0.975)) * statistics.stdev(costs) / math.sqrt(len(costs))
    kind = "cost" if cost > width else "no-visible-cost"
    shown = {"cost": cost, "low": cost - width, "high": cost + width}
    rounded = {name: float(f"{value:.2g}") for name, value in shown.items()}
    return str(Message.of(f"score/{kind}", **rounded, pairs=len(costs)))


def list_noisy_counts(report: Mapping[str, Any]) -> Figures:
    """Return the noisy counts that were released with the model."""
    found = []
    for one in (report.get("owner") or {}).get("counts", ()):
        charged = ", ".join(f"{name} {each}" for amounts in one["charged"].values() for name, each in amounts.items())
        value = f"{format_number(one['value'])} ({format_number(one['lower'])} to {format_number(one['upper'])})"
        name = COUNT_NAMES.get(one["name"], one["name"])
        found.append((name, value, f"noisy count, with a 95% interval; charged {charged}"))
    return found


def list_tuning_figures(report: Mapping[str, Any]) -> Figures:
    """Return the costs of the tuning that chose this run; none without tuning."""
    tuning = report.get("tuning")
    if tuning is None:
        return []
    trials = f"best of {tuning['trial_distribution']}, {format_number(tuning['expected'])} trials expected"
    note = f"charged before the first trial; {trials}; their number stays hidden"
    figures = [
        ("epsilon of the tuning", show_upper(tuning["best"]["upper"]), note),
        ("epsilon of one trial", show_upper(tuning["single_run"]["upper"]), "without selection"),
    ]
    if tuning["all_released"] is not None:
        every = show_upper(tuning["all_released"]["upper"])
        figures.append((f"epsilon of {tuning['count']:,} trials", every, "if all of them were released"))
    if chosen := report["owner"].get("selected_settings"):
        settings = ", ".join(f"{name} = {value}" for name, value in chosen.items())
        figures.append(("selected settings", settings, OWNER.label))
    return figures


def format_audit_bound(report: Mapping[str, Any]) -> Figures:
    """Return the lower bound by an attack as a figure; none without an audit."""
    audit = report.get("audit") or {}
    bound = audit.get("bound")
    if bound is None:
        return []
    note = f"by attack, at confidence {bound['confidence']:g}, from coins and scores {OWNER.label}"
    if audit["planned"]["method"] == GAUSSIAN:
        note += ", if the mechanism is Gaussian"
    return [("epsilon, empirical lower bound", show_lower(bound["epsilon"]), f"{note}; it cannot confirm a guarantee")]


def is_fully_supported(report: Mapping[str, Any]) -> bool:
    """Return whether the records support all of what was planned, or the logs all of what was claimed."""
    return bool(report["claim"]["supported"] == report["claim"]["guarantee"]["epsilon"])


def get_certified_epsilon(report: Mapping[str, Any]) -> float:
    """Return the supported epsilon; where the claim is fully supported, at least the recomputed bound."""
    claim = report["claim"]
    supported = float(claim["supported"])
    return max(supported, float(claim["epsilon"]["upper"])) if is_fully_supported(report) else supported


def format_report_odds(report: Mapping[str, Any]) -> str:
    """Return by how much odds change, in a sentence; blank for an unsupported claim."""
    reading, guarantee = report["risk_metrics"] or {}, report["claim"]["guarantee"]
    if (moved := reading.get("log_odds_factor")) is None:
        return ""
    unit, relation = guarantee["privacy_unit"], guarantee["relation"]
    return str(write_odds(float(moved), guarantee["delta"], unit, relation, simulation=report["simulation"]))


def format_risk_rows(report: Mapping[str, Any]) -> Rows:
    """Return label and figure of each risk metric; none for an unsupported claim."""
    return [(str(label), figure) for label, figure in list_risk_rows(report["risk_metrics"])]


def list_finding_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each finding with its status and source in words, and a style: only recomputed ones look passed."""
    found = []
    for one in report["verification"]["findings"]:
        source = get_finding_source(report, one)
        attested = source.attested_by is not None
        status = f"{one['status']} ({source.label})" if attested else one["status"]
        style = "attested" if attested and one["status"] == Status.PASSED else one["status"].split(" ")[0]
        found.append({**one, "status": status, "style": style})
    return found


def list_settings(report: Mapping[str, Any]) -> Rows:
    """Return mechanism, training and coverage, a setting a row."""
    mechanism = report["mechanism"]
    scheme = {name: value for name, value in mechanism["scheme"].items() if name != "type"}
    own = {
        "scheme": mechanism["scheme"]["type"],
        **scheme,
        "noise stddev on each noisy sum": mechanism["noise_stddev"],
        "divisor of noisy sums": mechanism.get("divisor"),
    }
    parts = (own, mechanism.get("training", {}), report["claim"].get("coverage", {}))
    return [row for part in parts for row in _list_rows(part)]


def list_data_rows(report: Mapping[str, Any]) -> Rows:
    """Return the description of the data; of logs, the rows that filters left out."""
    return [*_list_rows(report["mechanism"].get("data", {})), *_list_filters(report)]


def _list_rows(values: Mapping[str, Any]) -> Rows:
    return [(format_name(name), _flatten(value)) for name, value in values.items() if value is not None]


def _list_filters(report: Mapping[str, Any]) -> Rows:
    return [
        (
            f"rows of {one['file']} that {one['section']} leaves out",
            ("a number that is not public" if one["rows_left_out"] is None else f"{one['rows_left_out']:,}")
            + ": all without "
            + " and ".join(f"{column} = {value!r}" for column, value in one["where"].items()),
        )
        for one in report.get("observed", {}).get("filters", [])
    ]


def list_provenance(report: Mapping[str, Any]) -> Rows:
    """Return when and with what a run was made, as its owner attests, if stated."""
    stated = report["evidence"].get("provenance", {})
    return [(PROVENANCE_NAMES[name], f"{value} ({OWNER.label})") for name, value in stated.items()]


def list_hashes(report: Mapping[str, Any]) -> Rows:
    """Return what binds the evidence: names with SHA-256, or with an identifier."""
    evidence, own = report["evidence"], [("this report (canonical JSON)", codec.hash_canonical(report))]
    if report["kind"] == "log-report":
        keyed = [(f"{name}, under the salt of the mapping", digest) for name, digest in evidence["hmac_files"].items()]
        loose = [
            (name, "not bound: it is not public, and the mapping has no salt") for name in evidence["unhashed_files"]
        ]
        return [*evidence["files"].items(), *keyed, *loose, *own]
    named = {COMMITMENT: f"{COMMITMENT}, HMAC-SHA-256 under the curator's key"}
    rows = [("plan", evidence["plan_hash"])]
    rows += [(named.get(name, name), digest) for name, digest in evidence["files"].items()]
    if ledger := evidence["ledger"]:
        rows += [(f"ledger head after {ledger['count']} entries", ledger["head"]), ("charge", ledger["key"])]
    rows += [("final model", report["result"]["model_hash"]), *evidence["references"].items(), *own]
    return [(name, value) for name, value in rows if value is not None]


def _flatten(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{format_name(name)}: {_flatten(inner)}" for name, inner in value.items())
    return ", ".join(map(_flatten, value)) if isinstance(value, list) else format_number(value)


def format_number(value: Any) -> str:
    """Format a figure at four significant digits; texts stay.

    >>> format_number(0.000012345), format_number(31022), format_number(None), format_number("inf"), format_number(True)
    ('1.234e-05', '31,022', '-', 'inf', 'yes')
    """
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    if not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def format_name(name: str) -> str:
    """Return a field name as words."""
    return name.replace("_", " ").replace("-", " ")


def show_upper(value: float | str) -> str:
    """Format an upper bound, rounded up; "inf" may be a text."""
    return format_upper(float(value))


def show_lower(value: float | str) -> str:
    """Format a lower bound, rounded down; "inf" may be a text."""
    return format_lower(float(value))


Points = tuple[tuple[float, float], ...]


def draw_report_plots(report: Mapping[str, Any]) -> dict[str, str]:
    """Draw the plots of a report by name; one without data is left out."""
    return _draw_cohorts(report) if report["kind"] == "log-report" else _draw_epsilon(report) | _draw_scores(report)


def _draw_epsilon(report: Mapping[str, Any]) -> dict[str, str]:
    curve = [(float(p["round"]), float(p["lower"]), float(p["upper"])) for p in report["accounting"]["curve"]]
    if not curve:
        return {}
    lines = [PlotSeries("upper bound", tuple((number, high) for number, _, high in curve))]
    if any(low > 0 for _, low, _ in curve):
        lines.append(PlotSeries("lower bound", tuple((number, low) for number, low, _ in curve)))
    budget = ("budget", float(report["budget"]["epsilon"]))
    return {"epsilon": draw_line_plot(lines, title="Epsilon by round", x_label="round", y_label="epsilon", mark=budget)}


def _draw_scores(report: Mapping[str, Any]) -> dict[str, str]:
    utility, name = report["utility"] or {}, report["result"]["score_name"].split(" on ")[0]
    baseline, plots = utility.get("baseline_rounds", []), {}
    if scores := _get_scores(report["rounds"], "round"):
        lines = [PlotSeries("with DP", scores)]
        if baseline:
            lines.append(PlotSeries("without DP", _get_scores(baseline, "round")))
        plots["score"] = draw_line_plot(lines, title="Score by round", x_label="round", y_label=name)
    if points := _get_scores(utility.get("study", []), "epsilon"):
        last = baseline[-1]["test_score"] if baseline else None
        plots["study"] = draw_line_plot(
            [PlotSeries("with DP", points, markers=True)],
            title="Score by budget",
            x_label="epsilon of the whole run (one run per point)",
            y_label=name,
            log_x=True,
            mark=None if last is None else ("without DP", last),
        )
    return plots


def _get_scores(points: list[dict[str, Any]], over: str) -> Points:
    """Return the scores to draw; a diverged run has none."""
    return tuple((float(p[over]), p["test_score"]) for p in points if p["test_score"] is not None)


def _draw_cohorts(report: Mapping[str, Any]) -> dict[str, str]:
    """Draw the cohort sizes where the logs are public."""
    if not (cohorts := report["observed"]["cohorts"]):
        return {}
    last = float(len(cohorts))
    lines = [PlotSeries("observed", tuple((float(i), float(size)) for i, size in enumerate(cohorts, 1)))]
    lines += [
        PlotSeries(f"{name} limit", ((1.0, float(limit)), (last, float(limit))))
        for name, limit in zip(("lower", "upper"), report["observed"]["control_limits"] or (), strict=False)
    ]
    return {"cohorts": draw_line_plot(lines, title="Cohort size by round", x_label="round", y_label="participants")}
