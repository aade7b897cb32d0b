"""Release cycles of a ledger's budget beside the plans that paid from it, as a document for people."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from epsilog.ledger import Amounts, Cycles, Stated
from epsilog.plan import RegisteredPlan
from epsilog.reports.examination import read_report
from epsilog.reports.rendering import as_markdown
from epsilog.terms import RecordsError, RunFile, codec
from epsilog.terms.digits import upper_text
from epsilog.verification import read_file


def read_plans(paths: Iterable[Path]) -> dict[str, Stated]:
    """What plans say of their releases, by the hash that the ledger has of each.

    Args:
        paths: run folders, ``plan.json`` files, or reports, as JSON or HTML: told apart by content.

    Raises:
        RecordsError: one that holds no plan.
    """
    return dict(map(_stated, paths))


def _stated(path: Path) -> tuple[str, Stated]:
    document = read_report(read_file(path / RunFile.PLAN if path.is_dir() else path))[1]
    try:
        held = document["evidence"]["plan"] if document.get("kind") == "report" else document
        plan = RegisteredPlan.from_json(held)
        period = str(plan.details.get("reporting", {}).get("period", ""))
        return plan.hash, Stated(plan.name, period, plan.guarantee.population)
    except codec.UNREADABLE as error:
        raise RecordsError(f"{path} holds no plan: {error!r}") from error


def render_cycles(found: Cycles) -> str:
    """Renders the release cycles of a budget as Markdown, in which whatever it quotes is plain text."""
    return as_markdown("cycles.md.j2", found=found, budget=found.budget, rows=cycle_rows(found), sums=cycle_sums(found))


def cycle_rows(found: Cycles) -> list[tuple[str, ...]]:
    """A row a cycle: its name, N, its models, and what was spent in it, up to and with it, and of that is in use."""
    return [
        (
            cycle.name,
            " and ".join(f"{n:,}" for n in cycle.populations) or "not given",
            "; ".join(
                one.name + ("" if one.state == "committed" else f" ({one.state}{_why(one.ended)})")
                for one in cycle.releases
            ),
            *(_money(found, amounts) for amounts in (cycle.spent, cycle.lifetime, cycle.active)),
        )
        for cycle in found.cycles
    ]


def cycle_sums(found: Cycles) -> list[tuple[str, str]]:
    """The budget's sums by name."""
    budget = found.budget
    sums = {"cap": budget.caps, "lifetime": budget.spent, "of that in use": budget.active}
    sums |= {"reserved": budget.reserved, "available": budget.available}
    return [(name, _money(found, amounts)) for name, amounts in sums.items()]


def _why(ended: str) -> str:
    return f" by {ended}" if ended else ""


def _money(found: Cycles, amounts: Amounts) -> str:
    """An amount in its own quantities, and the epsilon that it means where that is another one."""
    told = ", ".join(f"{quantity} {amount}" for quantity, amount in amounts.items())
    read = None if "epsilon" in amounts else found.epsilon(amounts)
    return told if read is None else f"{told} (epsilon {upper_text(read)})"
