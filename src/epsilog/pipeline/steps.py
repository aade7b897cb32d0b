"""The steps of a run under its charge: reserve the plan, train, and commit."""

from __future__ import annotations

import contextlib
import secrets
import shlex
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilog import durable_io, npz
from epsilog.certificates import certificate, certify_guarantee
from epsilog.ledger import Amounts, Charge, Ledger, ledger_exists, read_ledger
from epsilog.ledger.partitions import held_under
from epsilog.pipeline.counts import live_key
from epsilog.pipeline.preparation import store_secret, write_canary_scores, write_json
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
    Claim,
    OwnerAttestation,
    SimulatedUtility,
    check_private,
    get_certified_delta,
    get_published_verdict,
    parse_evidence,
    read_evidence,
    read_run_folder,
)

if TYPE_CHECKING:
    from epsilog.training import Task
    from epsilog.training.engines import Engine


def make_charge_key(plan: RegisteredPlan) -> str:
    """Return the idempotency key of a plan's first charge; ``live_key`` numbers later ones."""
    return f"{plan.name}-{plan.details['settings'][:16]}"


def is_charge_closed(plan: RegisteredPlan, ledger: str | Path) -> bool:
    """Return whether the plan's charge is committed in a valid ledger, so that only reading is left."""
    if not ledger_exists(ledger):
        return False
    with read_ledger(ledger) as reader:
        scope = plan.budget["scope"]
        charge = reader.find(live_key(reader, make_charge_key(plan), scope=scope), scope=scope)
        if charge is None or charge.state != "committed" or charge.request.plan_hash != plan.hash:
            return False
        reader.verify()
        return True


def run_smoke_tests(plan: RegisteredPlan, task: Task, folder: Path) -> None:
    """Try everything that can fail before anything is charged."""
    from epsilog.training import run_smoke_test

    try:
        for one in [task] if plan.trials is None else list_candidate_tasks(plan, task):
            run_smoke_test(plan.scheme, one, folder)
    except ValueError as error:
        raise ConfigError(plan.name, [str(error)]) from error


def reserve_plan(ledger: Ledger, plan: RegisteredPlan, folder: Path, canaries: Canaries | None = None) -> Charge:
    """Store the plan and reserve its cost once; the same plan finds the same charge, unless that is cancelled.

    The secret of the canaries is stored first.

    Raises:
        BudgetExceededError: the plan does not fit a budget, or the cap that it states for its scope.
        ConfigError: the ledger has no budget for the scope; only its owner creates one.
    """
    budget, guarantee, new = plan.budget, plan.guarantee, not (folder / RunArtifact.PLAN).exists()
    require_budget(ledger, plan)
    if new:
        if canaries is not None:
            store_secret(canaries, folder)
        write_json(folder / RunArtifact.PLAN, plan.to_json())
    try:
        enforced = _is_cap_enforced(ledger, plan)
        key = live_key(ledger, make_charge_key(plan), scope=budget["scope"])
        if not enforced and ledger.find(key, scope=budget["scope"]) is None:
            cost = Amounts.from_charge({"epsilon": guarantee.epsilon, "delta": budget["delta"]})
            _require_stated_cap(plan, _sum_reserved(ledger, budget["scope"]), cost)
        charge = ledger.reserve(
            budget["scope"],
            plan.release,
            key=key,
            delta=budget["delta"],
            relation=guarantee.relation,
            privacy_unit=guarantee.privacy_unit,
            plan_hash=plan.hash,
            rounds=plan.scheme.rounds,
            simulation=plan.simulation,
            certificate=_present_certificate(ledger, plan, folder),
        )
        if charge.state == "reserved":  # meanwhile, another process may have reserved, or an owner raised the cap
            _require_available(ledger, plan, charge)
        return charge
    except EpsilogError:  # a refused plan leaves nothing behind
        if new:
            for name in (RunArtifact.PLAN, RunArtifact.SECRET, RunArtifact.CERTIFICATE):
                (folder / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # another process works in it
                folder.rmdir()
        raise


def require_budget(ledger: Ledger, plan: RegisteredPlan) -> None:
    """Require a budget for the plan; create one for a simulation, which takes simulations only.

    Raises:
        ConfigError: as ``reserve_plan``.
    """
    budget, guarantee = plan.budget, plan.guarantee
    if ledger.budgets_above(budget["scope"]):
        return
    if plan.simulation:
        ledger.create_budget(
            budget["scope"],
            kind="approximate",
            relation=guarantee.relation,
            privacy_unit=guarantee.privacy_unit,
            simulation=True,
            epsilon=budget["epsilon"],
            delta=budget["delta"],
        )
        return
    command = [
        *("epsilog", "ledger", "create", budget["scope"], "--ledger", ledger.address, "--kind", "approximate"),
        *("--epsilon", budget["epsilon"], "--delta", budget["delta"], "--relation", guarantee.relation.value),
        *("--privacy-unit", guarantee.privacy_unit),
    ]
    problem = f"budget.scope: ledger {ledger.address} has no budget for {budget['scope']}; ask its owner to run: "
    raise ConfigError(plan.name, [problem + shlex.join(command)])


def _sum_reserved(ledger: Ledger, scope: str, *, before: int | None = None) -> Amounts:
    """Return what is spent or reserved at and below a scope, by all entries or by those before an index."""
    entries = ledger.history(scope)
    return held_under((e for e in entries if before is None or e.index < before), scope)


def _is_cap_enforced(ledger: Ledger, plan: RegisteredPlan) -> bool:
    """Return whether the ledger enforces the plan's cap: the budget of its scope has caps that are no larger.

    Raises:
        ConfigError: the charge fits no budget of epsilon and delta, so none can enforce the stated cap.
    """
    scope = plan.budget["scope"]
    path = [one for one in ledger.budgets_above(scope) if one.kind == "approximate"]
    if not path:
        bound = "under a budget of epsilon and delta: no other can keep the cap that the plan states"
        raise ConfigError(plan.name, [CheckError("budget.scope", bound, repr(scope))])
    return path[-1].scope == scope and all(Decimal(cap) <= Decimal(plan.budget[q]) for q, cap in path[-1].caps.items())


def _require_available(ledger: Ledger, plan: RegisteredPlan, charge: Charge) -> None:
    """Cancel a reservation that exceeds the stated cap, together with those before it."""
    try:
        reserved = _sum_reserved(ledger, charge.scope, before=charge.entry.index)
        _require_stated_cap(plan, reserved, charge.amounts["approximate"])
    except BudgetExceededError as refusal:
        charge.cancel(f"it does not fit the plan's stated budget: {refusal}"[:1000])
        raise


def _require_stated_cap(plan: RegisteredPlan, reserved: Amounts, cost: Amounts) -> None:
    """Refuse a plan that does not fit its stated cap together with what is reserved, whatever the ledger's caps.

    Raises:
        BudgetExceededError: of the plan's scope, with the stated cap.
    """
    scope, caps = plan.budget["scope"], Amounts.from_cap({name: plan.budget[name] for name in cost})
    if (excess := (reserved + cost).compute_remaining(caps)) == Amounts.zero(caps):
        return
    raise BudgetExceededError(
        scope=scope,
        requested=dict(cost),
        available=dict(caps.compute_remaining(reserved)),
        caps=dict(caps),
        shortfall={name: amount for name, amount in excess.items() if amount != "0"},
        reason=f"the run config {plan.name} states this cap, whatever the ledger allows; "
        f"epsilon {reserved['epsilon']}, delta {reserved['delta']} is spent or reserved",
        owners=(),
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
    """Start a reserved charge, run the rounds that are still due, and write the released model.

    Without a ``seed`` the noise comes from the operating system; with one, the run is a simulation.
    """
    from epsilog.training import AuthorizedRun, Randomness, run_rounds
    from epsilog.training.models import ReleasedModel

    randomness = Randomness.from_os() if seed is None else Randomness.from_seed(seed)
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
    """Write the owner's attestation next to the records, and commit the charge with the hashes of all of them.

    A commitment with a secret key binds the curator's records, since a plain hash would confirm a guess.
    """
    trained = parse_evidence({n: c for n, c in read_run_folder(folder).items() if n != RunArtifact.OWNER}, None)
    private = {finding.check: get_published_verdict(finding) for finding in check_private(trained)}
    attestation = OwnerAttestation(
        software(folder), private, utility, get_selected_settings(folder), counts, describe_provenance(folder)
    )
    write_json(folder / RunArtifact.OWNER, attestation.to_json())
    _store_certificate(folder, trained.claim)
    _store_commitment_key(folder)
    charge.commit(evidence=disclose(read_evidence(folder, None).hashes))


def _present_certificate(ledger: Ledger, plan: RegisteredPlan, folder: Path) -> str | None:
    """Return the certificate of the plan, where a budget requires one; it is stored first, so that a retry finds it.

    Raises:
        UnsupportedMechanismError: no certificate covers the release.
        NotProvenError: none was found.
    """
    if not any(budget.requires_certificate for budget in ledger.budgets_above(plan.budget["scope"])):
        return None
    claim, file = Claim.from_plan(plan), folder / RunArtifact.CERTIFICATE
    _store_certificate(folder, claim)
    if file.exists():
        return file.read_text(encoding="ascii")
    return certificate(claim.release, delta=get_certified_delta(claim), relation=claim.guarantee.relation).text


def _store_certificate(folder: Path, claim: Claim) -> None:
    """Write the proof of the claim, where a certificate covers the release; a function of the plan alone."""
    file = folder / RunArtifact.CERTIFICATE
    if file.exists():  # a resumed run keeps it
        return
    found = certify_guarantee(claim.release, claim.guarantee, delta=get_certified_delta(claim))
    if found is not None:
        durable_io.write_atomically(file, found.text.encode())


def _store_commitment_key(folder: Path) -> None:
    """Draw the key of the commitment to the curator's records once; a resumed run keeps it."""
    file = folder / RunArtifact.KEY
    if not file.exists():
        durable_io.write_atomically(file, CommitmentKey(secrets.token_bytes(KEY_BYTES)).content, private=True)
