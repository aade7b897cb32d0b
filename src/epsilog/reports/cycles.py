"""Release cycles of a ledger's budget beside the plans that paid from it, as a document for people."""

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
    """What plans say of their releases, by the hash that the ledger has of each.

    Args:
        paths: run folders, ``plan.json`` files, or reports, as JSON or HTML: told apart by content.

    Raises:
        RecordError: one that holds no plan.
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
        raise RecordError(f"{path} holds no plan: {error!r}") from error


def render_cycles(found: CycleHistory) -> str:
    """Renders the release cycles of a budget as Markdown, in which whatever it quotes is plain text."""
    return fill_markdown_template(
        "cycles.md.j2", found=found, budget=found.budget, rows=list_cycle_rows(found), sums=list_cycle_totals(found)
    )


def list_cycle_rows(found: CycleHistory) -> list[tuple[str, ...]]:
    """A row a cycle: its name, N, its models, and what was spent in it, up to and with it, and of that is in use."""
    return [
        (
            cycle.name,
            " and ".join(f"{n:,}" for n in cycle.populations) or "not given",
            "; ".join(
                one.name + ("" if one.state == "committed" else f" ({one.state}{_why(one.ended)})")
                for one in cycle.releases
            ),
            *(_format_amounts(found, amounts) for amounts in (cycle.spent, cycle.lifetime, cycle.active)),
        )
        for cycle in found.cycles
    ]


def list_cycle_totals(found: CycleHistory) -> list[tuple[str, str]]:
    """The budget's sums by name."""
    budget = found.budget
    sums = {"cap": budget.caps, "lifetime": budget.spent, "of that in use": budget.active}
    sums |= {"reserved": budget.reserved, "available": budget.available}
    return [(name, _format_amounts(found, amounts)) for name, amounts in sums.items()]


def _why(ended: str) -> str:
    return f" by {ended}" if ended else ""


def _format_amounts(found: CycleHistory, amounts: Amounts) -> str:
    """An amount in its own quantities, and the epsilon that it means where that is another one."""
    told = ", ".join(f"{quantity} {amount}" for quantity, amount in amounts.items())
    read = None if "epsilon" in amounts else found.epsilon(amounts)
    return told if read is None else f"{told} (epsilon {format_upper(read)})"
