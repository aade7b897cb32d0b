"""The steps of a run that touch the ledger: reserving a plan, training under its started charge, and closing it."""

from __future__ import annotations

import contextlib
import secrets
import shlex
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilog import durable_io, npz
from epsilog.ledger import Amounts, Charge, Ledger, held_under, ledger_exists, read_ledger
from epsilog.pipeline.canaries import store_secret, write_canary_scores
from epsilog.pipeline.counts import live_key
from epsilog.pipeline.preparation import write_json
from epsilog.pipeline.provenance import describe_provenance, software
from epsilog.pipeline.tuning import get_selected_settings, list_candidate_tasks
from epsilog.plan import RegisteredPlan
from epsilog.terms import (
    BudgetExceededError,
    Canaries,
    CheckError,
    ConfigError,
    EpsilogError,
    RoundRecord,
    RunArtifact,
)
from epsilog.terms.disclosed import KEY_BYTES, CommitmentKey, disclose
from epsilog.verification import (
    OwnerAttestation,
    SimulatedUtility,
    check_private,
    get_published_verdict,
    parse_evidence,
    read_evidence,
    read_run_folder,
)

if TYPE_CHECKING:
    from epsilog.training import Task
    from epsilog.training.engines import Engine


def make_charge_key(plan: RegisteredPlan) -> str:
    """The idempotency key of a plan's first charge; ``live_key`` numbers the later ones."""
    return f"{plan.name}-{plan.details['settings'][:16]}"


def is_charge_closed(plan: RegisteredPlan, ledger: str | Path) -> bool:
    """Whether the plan's charge is committed, in a ledger that holds: then nothing is left but to read."""
    if not ledger_exists(ledger):
        return False
    with read_ledger(ledger) as books:
        scope = plan.budget["scope"]
        charge = books.find(live_key(books, make_charge_key(plan), scope=scope), scope=scope)
        if charge is None or charge.state != "committed" or charge.request.plan_hash != plan.hash:
            return False
        books.verify()
        return True


def run_smoke_tests(plan: RegisteredPlan, task: Task, folder: Path) -> None:
    """Tries everything that can fail before money moves."""
    from epsilog.training import run_smoke_test

    try:
        for one in [task] if plan.trials is None else list_candidate_tasks(plan, task):
            run_smoke_test(plan.scheme, one, folder)
    except ValueError as error:
        raise ConfigError(plan.name, [str(error)]) from error


def reserve_plan(books: Ledger, plan: RegisteredPlan, folder: Path, canaries: Canaries | None = None) -> Charge:
    """Stores the plan and reserves its price, once: the same plan again finds the same charge, unless it is cancelled.

    The secret of its canaries, where it has any, is kept before.

    Raises:
        BudgetExceededError: a budget, or the cap that the plan states for its scope, cannot bear it.
        ConfigError: the ledger has no budget at or above the scope; making one is its owner's act.
    """
    budget, guarantee, new = plan.budget, plan.guarantee, not (folder / RunArtifact.PLAN).exists()
    require_budget(books, plan)
    if new and canaries is not None:
        store_secret(canaries, folder)
    if new:
        write_json(folder / RunArtifact.PLAN, plan.to_json())
    try:
        kept, key = _is_kept_by_ledger(books, plan), live_key(books, make_charge_key(plan), scope=budget["scope"])
        if not kept and books.find(key, scope=budget["scope"]) is None:
            price = Amounts.from_charge({"epsilon": guarantee.epsilon, "delta": budget["delta"]})
            _require_stated(plan, _sum_reserved(books, budget["scope"]), price)
        charge = books.reserve(
            budget["scope"],
            plan.release,
            key=key,
            delta=budget["delta"],
            relation=guarantee.relation,
            privacy_unit=guarantee.privacy_unit,
            plan_hash=plan.hash,
            rounds=plan.scheme.rounds,
            simulation=plan.simulation,
        )
        if charge.state == "reserved":  # another process may have reserved since, or an owner raised the cap
            _require_available(books, plan, charge)
        return charge
    except EpsilogError:  # refused, whatever the reason: nothing of the plan stays behind
        if new:
            for name in (RunArtifact.PLAN, RunArtifact.SECRET):
                (folder / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # another process is at work in it
                folder.rmdir()
        raise


def require_budget(books: Ledger, plan: RegisteredPlan) -> None:
    """Requires a budget for the plan; a simulation makes itself one.

    Raises:
        ConfigError: as ``reserve_plan``.
    """
    if not books.budgets_above(plan.budget["scope"]):
        _make_simulated_budget(books, plan)


def _sum_reserved(books: Ledger, scope: str, *, before: int | None = None) -> Amounts:
    """What is spent or reserved at and under a scope: by all entries, or by those before an index."""
    entries = books.history(scope)
    return held_under((e for e in entries if before is None or e.index < before), scope)


def _is_kept_by_ledger(books: Ledger, plan: RegisteredPlan) -> bool:
    """Whether the budget of the plan's own scope has caps that are no larger than the plan's: then it refuses itself.

    Raises:
        ConfigError: no budget of epsilon and delta bears the charge, so none can keep what the plan states.
    """
    scope = plan.budget["scope"]
    path = [one for one in books.budgets_above(scope) if one.kind == "approximate"]
    if not path:
        bound = "under a budget of epsilon and delta: no other can keep the cap that the plan states"
        raise ConfigError(plan.name, [CheckError("budget.scope", bound, repr(scope))])
    return path[-1].scope == scope and all(Decimal(cap) <= Decimal(plan.budget[q]) for q, cap in path[-1].caps.items())


def _require_available(books: Ledger, plan: RegisteredPlan, charge: Charge) -> None:
    """Gives a reservation back that the stated budget cannot bear beside those before it."""
    try:
        held = _sum_reserved(books, charge.scope, before=charge.entry.index)
        _require_stated(plan, held, charge.amounts["approximate"])
    except BudgetExceededError as refusal:
        charge.cancel(f"the plan's stated budget cannot bear it: {refusal}"[:1000])
        raise


def _require_stated(plan: RegisteredPlan, held: Amounts, price: Amounts) -> None:
    """Refuses a plan where what stands against its scope leaves its stated budget no room, whatever the ledger's caps.

    Raises:
        BudgetExceededError: of the plan's own scope, with the stated cap.
    """
    scope, caps = plan.budget["scope"], Amounts.from_cap({name: plan.budget[name] for name in price})
    if (over := (held + price).left_after(caps)) == Amounts.zero(caps):
        return
    raise BudgetExceededError(
        scope=scope,
        requested=dict(price),
        available=dict(caps.left_after(held)),
        caps=dict(caps),
        shortfall={name: amount for name, amount in over.items() if amount != "0"},
        reason=f"the programme {plan.name} states this cap, whatever the ledger allows; "
        f"epsilon {held['epsilon']}, delta {held['delta']} is spent or reserved",
        owners=(),
    )


def _make_simulated_budget(books: Ledger, plan: RegisteredPlan) -> None:
    """A simulation spends nobody's privacy and makes itself a budget, which takes simulations only."""
    budget, guarantee = plan.budget, plan.guarantee
    if not plan.simulation:
        command = [
            *("epsilog", "ledger", "create", budget["scope"], "--ledger", books.address, "--kind", "approximate"),
            *("--epsilon", budget["epsilon"], "--delta", budget["delta"], "--relation", guarantee.relation.value),
            *("--privacy-unit", guarantee.privacy_unit),
        ]
        raise ConfigError(
            plan.name,
            [
                f"budget.scope: {budget['scope']} has no budget in {books.address}, and a programme makes none; "
                f"its owner does: {shlex.join(command)}"
            ],
        )
    books.create_budget(
        budget["scope"],
        kind="approximate",
        relation=guarantee.relation,
        privacy_unit=guarantee.privacy_unit,
        simulation=True,
        epsilon=budget["epsilon"],
        delta=budget["delta"],
    )


def train_under_charge(
    plan: RegisteredPlan,
    task: Task,
    *,
    seed: int | None,
    charge: Charge,
    folder: Path,
    on_round: Callable[[RoundRecord], object],
    engine: Callable[[Task], Engine] | None = None,
    withdrawn: Callable[[], Collection[int]] | None = None,
) -> None:
    """Starts a reserved charge, runs the rounds that are still due, and leaves the model that was released last.

    Without a ``seed`` the noise comes from the operating system; with one, the run is a simulation.
    """
    from epsilog.training import AuthorizedRun, Randomness, run_rounds
    from epsilog.training.models import ReleasedModel

    randomness = Randomness.from_os() if seed is None else Randomness.simulated(seed)
    trained = run_rounds(
        AuthorizedRun(plan.scheme, charge, randomness),
        task,
        folder=folder,
        on_round=on_round,
        engine=engine,
        withdrawn=withdrawn,
    )
    write_canary_scores(task, trained.model, folder)
    durable_io.write_atomically(
        folder / RunArtifact.MODEL, npz.encode_npz(ReleasedModel(task.model, trained.model).arrays)
    )


def commit_charge(
    charge: Charge, folder: Path, utility: SimulatedUtility | None, counts: tuple[Mapping[str, Any], ...] = ()
) -> None:
    """Writes the owner's word beside the records, and commits the charge with the digests of all of them.

    The curator's records are bound by a commitment, whose key is kept beside them: a hash could be guessed against.
    """
    trained = parse_evidence({n: c for n, c in read_run_folder(folder).items() if n != RunArtifact.OWNER}, None)
    private = {finding.check: get_published_verdict(finding) for finding in check_private(trained)}
    word = OwnerAttestation(
        software(folder), private, utility, get_selected_settings(folder), counts, describe_provenance(folder)
    )
    write_json(folder / RunArtifact.OWNER, word.to_json())
    _keep_key(folder)
    charge.commit(evidence=disclose(read_evidence(folder, None).hashes))


def _keep_key(folder: Path) -> None:
    """Draws the key of the commitment to the curator's records, once: a run that goes on keeps it."""
    file = folder / RunArtifact.KEY
    if not file.exists():
        durable_io.write_atomically(file, CommitmentKey(secrets.token_bytes(KEY_BYTES)).content, private=True)
