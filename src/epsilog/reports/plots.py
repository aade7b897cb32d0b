"""The plots of a report, drawn as SVG from its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epsilog.terms.charts import PlotSeries, draw_line_plot

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
