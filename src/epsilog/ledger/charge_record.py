"""Charges and their rounds as folds over entries: what each entry does to them, or why it is refused.

``Ledger`` folds one entry onto the stored state before it writes; ``replay`` folds all of them from nothing and
compares. Both call the same pure functions, and those read the table in ``transitions``: ``apply_to_charge`` for a
charge, ``apply_to_round`` for a round of it; ``refuse_until_accepted`` knows what a ledger that came out of a backup
refuses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from json.encoder import encode_basestring_ascii
from typing import Any, Self

from epsilog.ledger.amounts import Amounts
from epsilog.ledger.entries import ChargeId, Entry, Verb
from epsilog.ledger.fields import hash_overridden_request
from epsilog.ledger.state_json import FOLLOW_UP_VERBS, replace_fields, serialize_state
from epsilog.ledger.transitions import CLOSED_STATES, TRANSITIONS, ChargeState, RoundStage, Transition
from epsilog.terms import ConflictError, check


@dataclass(frozen=True, slots=True)
class ChargeRecord:
    """The state of a charge."""

    key: str  # its idempotency key, which belongs to its scope
    scope: str
    state: ChargeState
    amounts: Mapping[str, Amounts]  # its cost, by kind of budget
    rounds: int | None  # the most rounds it may run; None for no limit
    opened: int  # index of the entry that reserved it, or allowed it, or registered its plan
    closed: int | None = None  # index of the entry that closed it; None while it is open
    override_hash: str | None = (
        None  # SHA-256 of the one request that it may be reserved with, if its cost is overridden
    )
    # SHA-256 of the one plan that it may be reserved for, if that was registered
    plan: str | None = field(default=None, metadata=FOLLOW_UP_VERBS)
    # when anyone may cancel a reservation, UTC, ISO 8601; None for never
    until: str | None = field(default=None, metadata=FOLLOW_UP_VERBS)
    # index of the entry that took what it released out of use; None while it is in use
    decommissioned: int | None = field(default=None, metadata=FOLLOW_UP_VERBS)
    # who registered or reserved it, by the name of their token; None without a name
    actor: str | None = field(default=None, metadata=FOLLOW_UP_VERBS)
    # the owners who approved it, in order; None without any
    approvals: tuple[str, ...] | None = field(default=None, metadata=FOLLOW_UP_VERBS)

    @property
    def id(self) -> ChargeId:
        """Return what it is known by."""
        return self.scope, self.key

    def document(self) -> str:
        """Return the JSON that is stored."""
        return serialize_state(self)

    @classmethod
    def parse(cls, document: str) -> Self:
        """Read what ``document`` wrote."""
        data = json.loads(document)
        amounts = {kind: Amounts.parse(amount) for kind, amount in data["amounts"].items()}
        if "approvals" in data:
            data["approvals"] = tuple(data["approvals"])
        return cls(**data | {"state": ChargeState(data["state"]), "amounts": amounts})


class ChargeText:
    """Writes the documents of charges in one step that differ from a first one in key and index alone."""

    def __init__(self, first: ChargeRecord) -> None:
        text = replace_fields(first, key="", opened=0, closed=0).document()
        self._start, varying, self._end = text.partition('"closed": 0, "key": "", "opened": 0')
        assert varying, "fields are stored in the order of their names"

    def write(self, key: str, index: int) -> str:
        """Return the document of the charge with this key, opened and closed by this entry."""
        return f'{self._start}"closed": {index}, "key": {encode_basestring_ascii(key)}, "opened": {index}{self._end}'


@dataclass(frozen=True, slots=True)
class RoundState:
    """One round of a charge: how often it was begun, and the hash of what it released, once it has."""

    number: int
    attempts: int
    output_hash: str | None = None


@dataclass(frozen=True, slots=True)
class RestoreState:
    """Whether a ledger came out of a backup, and whether its owner has accepted what may be missing since."""

    restored: int = 0  # index of the entry that says so, the last of them; 0 for a ledger that was never restored
    accepted: bool = True  # whether an owner has answered that entry

    @classmethod
    def after(cls, entry: Entry | None) -> Self:
        """Return the restore state of a ledger after its last ledger-wide entry; None without one."""
        if entry is None:
            return cls()
        accepted = entry.verb is Verb.RESTORE_ACCEPTED
        return cls(entry.body["restored"] if accepted else entry.index, accepted)


def apply_restore(restore_state: RestoreState, entry: Entry) -> RestoreState:
    """Return what an entry of the whole ledger does: it is restored, or that restore is accepted, once."""
    if entry.verb is Verb.RESTORE_ACCEPTED and (
        restore_state.accepted or entry.body["restored"] != restore_state.restored
    ):
        raise ConflictError(f"no restoration awaits acceptance, got entry {entry.body['restored']}")
    return RestoreState.after(entry)


def refuse_until_accepted(restore_state: RestoreState, verb: Verb, charge: ChargeRecord | None = None) -> None:
    """Refuse commands of a restored ledger: all until its owner accepts it, then those on charges open in the backup.

    A charge that was open in the backup has an unknown outcome: it may have started, run and released. So it can
    neither continue nor be cancelled; it can only be abandoned, and then it counts as spent.
    """
    if not restore_state.accepted:
        raise ConflictError(
            f"the ledger was restored from a backup (entry {restore_state.restored}): it accepts no command until "
            "an owner accepts what may be missing (accept_restored, `epsilog ledger accept-restore`)"
        )
    if charge is None or charge.closed is not None or charge.opened > restore_state.restored:
        return
    if verb not in (Verb.ABANDONED, Verb.WRITTEN_OFF):
        raise ConflictError(
            f"charge {charge.key!r} was open in the backup from which the ledger was restored (entry "
            f"{restore_state.restored}), and may have run since: it can only be abandoned; use another key"
        )


def get_round_stage(state: RoundState | None) -> RoundStage:
    """Return the state of a round; None is one that never began."""
    if state is None:
        return RoundStage.NOT_STARTED
    return RoundStage.OPEN if state.output_hash is None else RoundStage.RELEASED


def apply_to_charge(charge: ChargeRecord | None, entry: Entry, *, last: RoundState | None = None) -> ChargeRecord:
    """Return what an entry does to its charge; a verb that the charge's state does not allow is a ``ConflictError``."""
    rule = TRANSITIONS[entry.verb]
    if rule.opens:
        return _open_charge(charge, entry, rule)
    if charge is None:
        raise ConflictError(f"charge {entry.key!r} must have been reserved at {entry.scope!r}")
    if charge.state not in rule.from_states:
        needed = " or ".join(str(state) for state in rule.from_states)
        raise ConflictError(f"{entry.verb} requires charge {charge.key!r} to be {needed}, but it is {charge.state}")
    if rule.stage is None and get_round_stage(last) not in rule.rounds:
        assert last is not None, "a charge without rounds has none in a wrong stage"
        raise ConflictError(f"round {last.number} of charge {charge.key!r} is open: release it before the commit")
    if rule.changes_balance and entry.amounts != charge.amounts:
        raise ConflictError(f"charge {charge.key!r} must move what was reserved")
    assert rule.to_state is not None, "every verb of a charge leads to a state"
    closed = charge.closed if charge.closed or rule.to_state not in CLOSED_STATES else entry.index
    return replace_fields(charge, state=rule.to_state, closed=closed, **_read_notes(charge, entry))


def _read_notes(charge: ChargeRecord, entry: Entry) -> dict[str, Any]:
    """Return a charge with what a verb records besides its state."""
    if entry.verb is Verb.EXPIRY_SET:
        return {"until": entry.body["until"]}
    if entry.verb is Verb.DECOMMISSIONED:
        return {"decommissioned": entry.index}
    if entry.verb is Verb.EXPIRED:
        _require_expired(charge, entry)
    if entry.verb is Verb.APPROVED:
        return {"approvals": (*(charge.approvals or ()), _require_other_owner(charge, entry.body["actor"]))}
    return {}


def _require_other_owner(charge: ChargeRecord, actor: str) -> str:
    """Require that an approval is not by the one who reserved the charge, and the first by this owner."""
    if actor == charge.actor:
        raise ConflictError(f"charge {charge.key!r} must be approved by another than {actor!r}, who reserved it")
    if actor in (charge.approvals or ()):
        raise ConflictError(f"charge {charge.key!r} is approved by {actor!r} already: another owner must approve it")
    return actor


def _require_expired(charge: ChargeRecord, entry: Entry) -> None:
    """A reservation expires when its time has come, by the caller's clock.

    Clocks decide nothing else. The order of the entries decides the meaning: a started reservation cannot expire, and
    an expired one does not start. A cancelled reservation was never spent, even if the clock is wrong.
    """
    if charge.until is None or datetime.fromisoformat(entry.time) < datetime.fromisoformat(charge.until):
        held = "is held without an end" if charge.until is None else f"is held until {charge.until}"
        raise ConflictError(f"charge {charge.key!r} {held}, and it is now {entry.time}")


def _open_charge(charge: ChargeRecord | None, entry: Entry, rule: Transition) -> ChargeRecord:
    """Apply a registration, a cost override or a reservation to a charge: once each, in this order.

    What was announced binds what comes: a reservation is for the plan that was registered, and the request allowed.
    """
    key, request = str(entry.key), entry.body.get("request")
    if entry.key is None or (None if charge is None else charge.state) not in rule.from_states:
        raise ConflictError(f"charge {entry.key!r} must be reserved once")
    assert rule.to_state is not None, "every verb of a charge leads to a state"
    if request is None:
        plan, actor = entry.body["plan_hash"], entry.body.get("actor")
        return ChargeRecord(
            key, entry.scope, rule.to_state, entry.amounts, None, opened=entry.index, plan=plan, actor=actor
        )
    override_hash = hash_overridden_request(request) if rule.to_state is ChargeState.OVERRIDDEN else None
    if charge is not None:
        _require_announced(charge, entry)
        override_hash = override_hash or charge.override_hash
    allowing = (
        rule.to_state is ChargeState.OVERRIDDEN
    )  # a cost override leaves the charge with the one who announced it
    return ChargeRecord(
        key,
        entry.scope,
        rule.to_state,
        entry.amounts,
        request["rounds"],
        opened=entry.index,
        closed=entry.index if rule.to_state in CLOSED_STATES else None,
        override_hash=override_hash,
        plan=None if charge is None else charge.plan,
        actor=(None if charge is None else charge.actor) if allowing else entry.body.get("actor"),
    )


def _require_announced(charge: ChargeRecord, entry: Entry) -> None:
    """A known key comes with the plan and the request that it is known for."""
    request = entry.body["request"]
    if charge.override_hash is not None and charge.override_hash != hash_overridden_request(request):
        raise ConflictError(f"charge {charge.key!r} has a cost override for another request (entry {charge.opened})")
    if charge.plan is not None and charge.plan != request["plan_hash"]:
        raise ConflictError(f"charge {charge.key!r} was registered for another plan ({charge.plan})")


def apply_to_round(
    charge: ChargeRecord, state: RoundState | None, entry: Entry, *, last: RoundState | None
) -> RoundState:
    """Return what a round entry does to its round.

    Rounds follow each other: one begins when the one before it is released. A round may begin again, under the same
    charge, as long as nothing of it was released.
    """
    number = check.integer(1)(round=entry.body["round"])
    if charge.rounds is not None and number > charge.rounds:
        raise ConflictError(f"round must be at most {charge.rounds}, the rounds of charge {charge.key!r}, got {number}")
    rule, stage = TRANSITIONS[entry.verb], get_round_stage(state)
    if stage not in rule.rounds:
        refusal = {
            RoundStage.NOT_STARTED: "must start before its release",
            RoundStage.RELEASED: "is released and can be neither rerun nor released again",
        }
        raise ConflictError(f"round {number} of charge {charge.key!r} {refusal[stage]}")
    if state is None:
        _require_turn(charge, number, last)
        return RoundState(number, attempts=1)
    if rule.stage is RoundStage.RELEASED:
        return replace_fields(state, output_hash=entry.body["output_hash"])
    return replace_fields(state, attempts=state.attempts + 1)


def _require_turn(charge: ChargeRecord, number: int, last: RoundState | None) -> None:
    """A round begins when the one before it is released."""
    begun = 0 if last is None else last.number
    if number != begun + 1 or get_round_stage(last) is RoundStage.OPEN:
        raise ConflictError(
            f"round {number} of charge {charge.key!r} must begin after the release of round {number - 1}; the last "
            f"started is {'round ' + str(begun) if begun else 'none'}"
        )
