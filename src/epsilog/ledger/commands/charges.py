"""Commands on charges and their rounds: what spenders do, and what owners do to the charges of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Annotated, Any, ClassVar, NamedTuple

from epsilog.ledger import balances, budget_path, charge_record, fields, headroom
from epsilog.ledger.amounts import Amounts
from epsilog.ledger.balances import Balance
from epsilog.ledger.charge_record import ChargeRecord
from epsilog.ledger.commands.base import CHARGE, OWN, RESERVATION, At, Command, lazy, require_reserved
from epsilog.ledger.commands.budgets import OfScope
from epsilog.ledger.cost import Cost, ProvenClaim, compute_stated_cost, has_stated_cost, require_no_weaker
from epsilog.ledger.entries import Entry, Verb, hash_entry
from epsilog.ledger.fields import (
    HASH,
    HASHES,
    MOMENT,
    Arg,
    By,
    ChargeRequest,
    Hash,
    Kind,
    Reason,
    hash_overridden_request,
)
from epsilog.ledger.headroom import CostModel
from epsilog.ledger.partitions import require_path
from epsilog.ledger.transitions import CLOSED_STATES, TRANSITIONS, UNRESERVED_STATES, ChargeState, RoundStage
from epsilog.terms import BudgetExceededError, CheckError, ConflictError, RunArtifact, check

REGISTERED, ALLOWED, RESERVED, STARTED, COMMITTED, CANCELLED, ABANDONED, DECOMMISSIONED = ChargeState
_PRIVATE_FILES = {RunArtifact.CUSTODY.value, RunArtifact.KEY.value, RunArtifact.SECRET.value}


def _require_request(name: str, value: Any) -> Mapping[str, Any]:
    return ChargeRequest.from_json(check.instance_of(Mapping)(**{name: value})).to_json()


def _methods(name: str, value: Any) -> dict[str, str]:
    return {
        kind: check.text()(**{kind: method}) for kind, method in check.instance_of(Mapping)(**{name: value}).items()
    }


_Request = Annotated[Mapping[str, Any], Arg("what was asked", kind=Kind(_require_request))]
_Methods = Annotated[Mapping[str, str], Arg("how the cost was found, by kind of budget", kind=Kind(_methods))]
_RESERVATION = {"request": _Request, "methods": _Methods}
_RESERVATION_BESIDES = {"actor": By, "certificate": Hash}


class RegisterPlan(
    OfScope,
    name="register-plan",
    verb="plan-registered",
    subject=CHARGE,
    may_store={"actor": By},
    from_states=(None,),
    to_state=REGISTERED,
):
    """Register a plan before anything is reserved for it.

    Its key in this scope is then reserved for this plan.

    Example: epsilog ledger register-plan acme/claims $(sha256sum plan.json | cut -c-64) --key run-17
    """

    key: fields.Key
    plan_hash: Annotated[str, Arg("SHA-256 of the plan, 64 hex digits", kind=HASH, positional=True)] = field(
        kw_only=False
    )

    def was_done(self, at: At) -> bool:  # noqa: D102
        require_path(at.path, self.scope)
        return at.charge is not None and at.charge.plan == self.plan_hash


class OfRelease(OfScope):
    """What names a release under a scope."""

    key: fields.Key
    release: fields.ReleaseField = field(kw_only=False)
    relation: fields.Relation = None
    privacy_unit: fields.PrivacyUnit = None
    simulation: fields.Simulation = False

    def __post_init__(self) -> None:
        super().__post_init__()
        fields.refuse_delta_of_amount(getattr(self, "delta", None), getattr(self, "amount", None))

    @lazy
    def request(self) -> ChargeRequest:
        """Return the stored request, without what the budgets state."""
        return ChargeRequest.of(self)

    def request_at(self, at: At) -> ChargeRequest:
        """Return what is asked under the budgets of the scope."""
        path, found = self._found
        if found is None or path is not at.path:
            nearest = require_path(at.path, self.scope)[-1]
            found = self.request.under(nearest.relation, nearest.privacy_unit)
            vars(self)["_found"] = at.path, found
        return found

    _found: ClassVar[tuple[Any, ChargeRequest | None]] = (
        None,
        None,
    )  # the path, and the request under it, that were asked for last


class OverrideCost(
    OfRelease,
    name="override-cost",
    verb="cost-overridden",
    role=OWN,
    subject=CHARGE,
    stored={"request": _Request, "reason": Reason},
    may_store={"actor": By},
    from_states=(None, REGISTERED),
    to_state=ALLOWED,
    unproven=True,
):
    """Allow one charge at a cost that is not proven.

    The command of the budget's owner.

    Example: epsilog ledger override-cost acme/claims --key v-1 --release r.json --amount epsilon=1 --reason "proof 12"
    """

    amount: fields.StatedAmount
    reason: Reason
    plan_hash: fields.PlanHash = None
    rounds: fields.Rounds = None

    def body(self, at: At) -> dict[str, Any]:  # noqa: D102
        return {"request": self.request_at(at).to_json(), "reason": self.reason}

    def was_done(self, at: At) -> bool:  # noqa: D102
        body, charge = self.body(at), at.charge
        if charge is None or charge.state is not ALLOWED:
            return False
        return body.items() <= at.entry(charge.opened).body.items()  # the same again, by any owner

    @classmethod
    def check_body(cls, body: Mapping[str, Any]) -> None:
        """Require an amount."""
        if body["request"]["amount"] is None:
            raise ValueError("a cost override must state its amount")


class _Prepared(NamedTuple):
    """What is known before a reservation: its costs, by kind of budget, and what its certificate proves."""

    costs: Mapping[str, Cost] = {}
    proven: ProvenClaim | None = None


class _Terms(NamedTuple):
    """What a charge is due under some budgets: quantities by kind; the costs that are known, and the kinds without."""

    path: Sequence[Balance]
    prepared: _Prepared | None
    due: list[tuple[str, tuple[str, ...]]]
    costs: dict[str, Cost]
    missing: dict[str, tuple[str, ...]]


class Reservation(OfRelease):
    """A charge that is reserved, and what comes then."""

    delta: fields.Delta = None
    amount: fields.Amount = None
    certificate: fields.Certificate = None

    @lazy
    def certificate_hash(self) -> str | None:
        """Return the SHA-256 of the certificate's text."""
        return None if self.certificate is None else hash_entry(self.certificate)

    def at_once(self) -> bool:  # noqa: D102
        return self.certificate is None and has_stated_cost(self.request)

    def prepare(self, at: At) -> Callable[[CostModel], Any] | None:
        """Return the check of the certificate and the computation of missing costs, for the budgets on the path."""
        request, charge = self.request_at(at), at.charge
        if charge is not None and charge.state not in UNRESERVED_STATES:
            return None  # it is known, whatever it would cost now
        charge_record.refuse_until_accepted(at.restore_state, self.verb, charge)
        budget_path.require_certificate(at.path, given=self.certificate is not None)
        known, unpriced = at.prepared or _Prepared(), self._terms_at(at).missing
        checked = self.certificate is None or (known.proven is not None and known.proven.relation == request.relation)
        if checked and not unpriced:
            return None
        allowed = charge is not None and charge.override_hash == hash_overridden_request(request.to_json())

        def work(cost_model: CostModel) -> _Prepared:
            proven = known.proven
            if self.certificate is not None and not checked:
                proven = cost_model.check_certificate(request, self.certificate)
            costs = {kind: cost_model.compute_cost(request, kind, orders, allowed) for kind, orders in unpriced.items()}
            return _Prepared({**known.costs, **costs}, proven)

        return work

    def _terms_at(self, at: At) -> _Terms:
        """Return what is due on the path, and what of it is known."""
        if (known := self._terms) is not None and known.path is at.path and known.prepared is at.prepared:
            return known
        due, costs = sorted(balances.list_cost_quantities(at.path).items()), dict((at.prepared or _Prepared()).costs)
        missing = {}
        for kind, orders in headroom.list_orders(due).items():
            if kind in costs and costs[kind].values.keys() >= set(orders):
                continue
            if (stated := compute_stated_cost(self.request_at(at), kind, orders=orders)) is None:
                missing[kind] = orders
            else:
                costs[kind] = stated
        found = vars(self)["_terms"] = _Terms(at.path, at.prepared, due, costs, missing)
        return found

    _terms: ClassVar[_Terms | None] = None  # that were asked for last

    def compute_costs(self, at: At) -> dict[str, Cost]:
        """Return what it costs, by kind of budget."""
        found = self._terms_at(at)
        assert not found.missing, "costs are computed before"
        return found.costs

    def entry(self, at: At) -> Entry:  # noqa: D102
        costs = self.compute_costs(at)
        headroom.refuse_above_capacity(costs, at.path)
        if self.certificate is not None:
            require_no_weaker(at.prepared.proven, [costs[one.kind] for one in at.path])
        due = self._terms_at(at).due
        amounts = {kind: costs[kind].amounts.part(quantities) for kind, quantities in due}
        methods = {kind: costs[kind].method.code for kind, _ in due}
        body = {"request": self.request_at(at).to_json(), "methods": methods}
        stated = {} if self.certificate_hash is None else {"certificate": self.certificate_hash}
        return self.build_entry(at, amounts, body | stated)

    def was_done(self, at: At) -> bool:
        """Return whether the key is known with the same request: then its charge is what was asked for."""
        request, charge = self.request_at(at), at.charge
        if charge is None or charge.state in UNRESERVED_STATES:
            return False
        stored = at.entry(charge.opened).body
        if stored["request"] != request.to_json():
            raise ConflictError(f"key {charge.key!r} is taken by another request (entry {charge.opened})")
        if self.certificate_hash not in (None, stored.get("certificate")):
            raise ConflictError(f"key {charge.key!r} is taken with another certificate (entry {charge.opened})")
        if charge.state is CANCELLED:
            raise ConflictError(f"charge {charge.key!r} is cancelled: use another key")
        self.require_done(at, charge)
        return True

    def require_done(self, at: At, charge: ChargeRecord) -> None:
        """Require of a charge that is there that what would come then has come."""

    def explain_refusal(self, refusal: BudgetExceededError, at: At, cost_model: CostModel) -> BudgetExceededError:  # noqa: D102
        return headroom.add_remedy(
            refusal, self.request_at(at), at.path, self.compute_costs(at), cost_model.repetitions
        )


class Reserve(
    Reservation,
    name="reserve",
    verb="reserved",
    subject=RESERVATION,
    stored=_RESERVATION,
    may_store=_RESERVATION_BESIDES,
    from_states=(None, REGISTERED, ALLOWED),
    to_state=RESERVED,
):
    """Reserve the cost of a release; nothing is spent yet.

    The same key and request give the same charge, which is then replayed.

    Example: epsilog ledger reserve acme/claims --key run-17 --release release.json --delta 1e-6
    """

    plan_hash: fields.PlanHash = None
    rounds: fields.Rounds = None
    until: fields.Until = None

    def then(self) -> Sequence[Command]:  # noqa: D102
        return () if self.until is None else (Hold(key=self.key, scope=self.scope, until=self.until),)

    def require_done(self, at: At, charge: ChargeRecord) -> None:
        """Held as is asked again, or as when it was made: that time may have been moved since."""
        if self.until is None or charge.until == self.until:
            return
        then = None if charge.until is None else at.entry(charge.opened + 1)  # what said until when came later
        if then is None or (then.verb, then.charge_id, then.body) != (
            Verb.EXPIRY_SET,
            charge.id,
            {"until": self.until},
        ):
            raise ConflictError(f"charge {charge.key!r} is held until {charge.until or 'it is cancelled'}")


class ChargeAtOnce(
    Reservation,
    name="charge",
    verb="charged",
    subject=RESERVATION,
    stored=_RESERVATION,
    may_store=_RESERVATION_BESIDES,
    from_states=(None, REGISTERED, ALLOWED),
    to_state=COMMITTED,
):
    """Reserve, start and commit a charge in one step.

    Run it before the release.

    A key that another caller reserved or started is a conflict: only they, or an owner, may finish it.

    Example: epsilog ledger charge acme/claims --key question-1 --release release.json
    """

    def require_done(self, at: At, charge: ChargeRecord) -> None:  # noqa: ARG002, D102
        if charge.state not in CLOSED_STATES:
            raise ConflictError(f"charge {charge.key!r} is {charge.state}: its owner starts and commits it")


class ChargeCommand(Command, subject=CHARGE):
    """An act on a charge that is there."""

    key: fields.ChargeKey = field(kw_only=False)
    scope: fields.AtScope = None

    def scope_at(self, at: At) -> str:  # noqa: D102
        return self.charge(at).scope

    def charge(self, at: At) -> ChargeRecord:
        """Return the charge, which must be reserved."""
        return require_reserved(at, self.key, self.scope, self.verb)

    def amounts(self, at: At) -> Mapping[str, Amounts]:  # noqa: D102
        return self.charge(at).amounts if TRANSITIONS[self.verb_at(at)].changes_balance else {}

    def was_done(self, at: At) -> bool:  # noqa: D102
        charge, stated = self.charge(at), (self.verb_at(at), self.body(at))
        ends = [at.entry(index) for index in (charge.closed, charge.decommissioned) if index is not None]
        return any((entry.verb, entry.body) == stated for entry in ends)


class Hold(ChargeCommand, name="hold", verb="expiry-set", from_states=(RESERVED,), to_state=RESERVED):
    """Hold a reservation until a time.

    After that anyone may return it. The last time that was set counts.

    Example: epsilog ledger hold run-17 --until 2026-05-01T12:00Z
    """

    until: Annotated[datetime | str, Arg("ISO 8601, with its offset from UTC", kind=MOMENT)]

    def was_done(self, at: At) -> bool:  # noqa: D102
        charge = self.charge(at)
        return charge.state is RESERVED and charge.until == self.until


class Approve(
    ChargeCommand,
    name="approve",
    verb="approved",
    role=OWN,
    stored={"actor": By},
    from_states=(RESERVED,),
    to_state=RESERVED,
):
    """Approve a reservation, where a budget requires approvals before it may start.

    Each owner counts once; whoever reserved it or overrode its cost does not. Over HTTP the token's holder approves.

    Example: epsilog ledger approve run-17 --actor dora
    """

    actor: By

    def approver(self, at: At) -> str:
        """Return who approves."""
        return at.caller.actor or self.actor

    def body(self, at: At) -> dict[str, Any]:  # noqa: D102
        return {"actor": self.approver(at)}

    def was_done(self, at: At) -> bool:  # noqa: D102
        return self.approver(at) in (self.charge(at).approvals or ())

    def entry(self, at: At) -> Entry:
        """Return the entry that it writes, unless the approver allowed the cost; old chains may hold such approvals."""
        charge, actor = self.charge(at), self.approver(at)
        if charge.override_hash is not None and actor == at.overrider():
            raise ConflictError(
                f"charge {charge.key!r} must be approved by another than {actor!r}, who allowed its cost"
            )
        return super().entry(at)


class Start(ChargeCommand, name="start", verb="started", from_states=(RESERVED,), to_state=STARTED, untimed=True):
    """Start a charge: spend its reservation permanently.

    Run it once, before the data are first used.

    Example: epsilog ledger start run-17
    """


class StartRound(
    ChargeCommand,
    name="round-start",
    verb="round-started",
    from_states=(STARTED,),
    to_state=STARTED,
    rounds=(RoundStage.NOT_STARTED, RoundStage.OPEN),
    stage=RoundStage.OPEN,
    untimed=True,
):
    """Begin a round, or begin it again before its release.

    Example: epsilog ledger round-start run-17 --round 1
    """

    round: Annotated[int, Arg("which round, from 1", ge=1)]


class ReleaseRound(
    ChargeCommand,
    name="round-release",
    verb="round-released",
    from_states=(STARTED,),
    to_state=STARTED,
    rounds=(RoundStage.OPEN,),
    stage=RoundStage.RELEASED,
    untimed=True,
):
    """Record the release of a round, before its output leaves.

    Recording the same release again changes nothing.

    Example: epsilog ledger round-release run-17 --round 1 --output-hash $(sha256sum model.bin | cut -c-64)
    """

    round: Annotated[int, Arg("which round, from 1", ge=1)]
    output_hash: Hash

    def was_done(self, at: At) -> bool:  # noqa: D102
        self.charge(at)
        state = at.round(self.round)  # also after the charge was closed
        return state is not None and state.output_hash == self.output_hash


class Commit(
    ChargeCommand,
    name="commit",
    verb="committed",
    from_states=(STARTED,),
    to_state=COMMITTED,
    rounds=(RoundStage.NOT_STARTED, RoundStage.RELEASED),
    untimed=True,
):
    """Commit a started charge, with hashes of its evidence.

    Example: epsilog ledger commit run-17 --evidence rounds.jsonl
    """

    evidence: Annotated[Mapping[str, str], Arg("SHA-256 values by name", kind=HASHES)] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if named := _PRIVATE_FILES & set(self.evidence):  # a plain hash does not hide its input
            bound = "of public files (a run binds the curator's records by a commitment under a key)"
            raise CheckError("evidence", bound, ", ".join(sorted(named)))

    def was_done(self, at: At) -> bool:  # noqa: D102
        charge = self.charge(at)
        at_once = charge.state is COMMITTED and charge.closed == charge.opened
        return (at_once and not self.evidence) or super().was_done(at)
