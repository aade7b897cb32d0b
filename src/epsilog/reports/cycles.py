"""Release cycles of a ledger's budget, with the plans that were charged to it, as a document."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from epsilog.ledger import Amounts, CycleHistory, PlanSummary
from epsilog.plan import RegisteredPlan
from epsilog.reports.rendering import fill_markdown_template
from epsilog.reports.verification import read_report
from epsilog.terms import RecordError, RunArtifact, codec
from epsilog.terms.formatting import format_upper
from epsilog.verification import read_file


def read_plan_summaries(paths: Iterable[Path]) -> dict[str, PlanSummary]:
    """Return what plans state of their releases, by the plan hashes in the ledger.

    Args:
        paths: run folders, ``plan.json`` files, or reports (JSON or HTML), recognized by content.

    Raises:
        RecordError: one of them contains no plan.
    """
    return dict(map(_read_plan_summary, paths))


def _read_plan_summary(path: Path) -> tuple[str, PlanSummary]:
    document = read_report(read_file(path / RunArtifact.PLAN if path.is_dir() else path))[1]
    try:
        held = document["evidence"]["plan"] if document.get("kind") == "report" else document
        plan = RegisteredPlan.from_json(held)
        period = str(plan.details.get("reporting", {}).get("period", ""))
        return plan.hash, PlanSummary(plan.name, period, plan.guarantee.population)
    except codec.UNREADABLE as error:
        raise RecordError(f"{path} contains no plan: {error!r}") from error


def render_cycles(found: CycleHistory) -> str:
    """Render the release cycles of a budget as Markdown in which all quoted text is plain."""
    rows, totals = list_cycle_rows(found), list_cycle_totals(found)
    return fill_markdown_template("cycles.md.j2", found=found, budget=found.budget, rows=rows, totals=totals)


def list_cycle_rows(found: CycleHistory) -> list[tuple[str, ...]]:
    """Return a row per cycle: name, N, models, the amounts spent in it and until its end, and the amount in use."""
    return [
        (
            cycle.name,
            " and ".join(f"{n:,}" for n in cycle.populations) or "not given",
            "; ".join(
                one.name
                + ("" if one.state == "committed" else f" ({one.state}{f' by {one.ended}' if one.ended else ''})")
                for one in cycle.releases
            ),
            *(_format_amounts(found, amounts) for amounts in (cycle.spent, cycle.lifetime, cycle.active)),
        )
        for cycle in found.cycles
    ]


def list_cycle_totals(found: CycleHistory) -> list[tuple[str, str]]:
    """Return the budget's totals by name."""
    budget = found.budget
    totals = {"cap": budget.caps, "lifetime": budget.spent, "of that in use": budget.active}
    totals |= {"reserved": budget.reserved, "available": budget.available}
    return [(name, _format_amounts(found, amounts)) for name, amounts in totals.items()]


def _format_amounts(found: CycleHistory, amounts: Amounts) -> str:
    """Return an amount in its own quantities, converted to epsilon if it has none."""
    text = ", ".join(f"{quantity} {amount}" for quantity, amount in amounts.items())
    epsilon = None if "epsilon" in amounts else found.epsilon(amounts)
    return text if epsilon is None else f"{text} (epsilon {format_upper(epsilon)})"
