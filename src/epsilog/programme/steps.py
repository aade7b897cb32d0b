"""The two steps of a run that touch the ledger: reserving a plan, and training under its started charge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from epsilog.plan import RegisteredPlan
from epsilog.programme.prepare import write_json
from epsilog.spend import Charge, Ledger
from epsilog.terms import EpsilogError, RoundRecord
from epsilog.verify import read_evidence

if TYPE_CHECKING:
    from epsilog.train import Task


def reserve(books: Ledger, plan: RegisteredPlan, folder: Path) -> Charge:
    """Stores the plan and reserves its price, once: the same plan again finds the same charge."""
    budget, guarantee, new = plan.budget, plan.guarantee, not (folder / "plan.json").exists()
    if budget["scope"] not in {one.scope for one in books.budgets()}:
        books.create_budget(
            budget["scope"],
            kind="approximate",
            relation=guarantee.relation,
            privacy_unit=guarantee.privacy_unit,
            simulation=plan.simulation,
            epsilon=budget["epsilon"],
            delta=budget["delta"],
        )
    if new:
        write_json(folder / "plan.json", plan.to_json())
    try:
        return books.reserve(
            budget["scope"],
            plan.scheme.release(),
            key=f"{plan.name}-{plan.details['settings'][:16]}",
            delta=budget["delta"],
            relation=guarantee.relation,
            privacy_unit=guarantee.privacy_unit,
            plan_hash=plan.hash,
            rounds=plan.scheme.rounds,
            simulation=plan.simulation,
        )
    except EpsilogError:  # refused, whatever the reason: nothing of the plan stays behind
        if new:
            (folder / "plan.json").unlink()
            folder.rmdir()
        raise


def train(
    plan: RegisteredPlan,
    task: Task,
    *,
    seed: int | None,
    charge: Charge,
    folder: Path,
    on_round: Callable[[RoundRecord, RegisteredPlan], None],
) -> None:
    """Runs the rounds that are still due under a started charge, and commits it with the hashes of the records.

    Without a ``seed`` the noise comes from the operating system; with one, the run is a simulation.
    """
    from epsilog.train import Randomness, run_rounds

    randomness = Randomness.from_os() if seed is None else Randomness.simulated(seed)
    run_rounds(
        plan.scheme,
        task,
        randomness=randomness,
        charge=charge,
        folder=folder,
        progress=lambda record: on_round(record, plan),
    )
    charge.commit(evidence=dict(read_evidence(folder, None).hashes))
