"""What an entry of each verb is made of: a chain with right hashes and other fields was not written by a ledger."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from epsilog.spend.amounts import Amounts
from epsilog.spend.entries import Entry, Verb, sha256
from epsilog.spend.filters import filter_of
from epsilog.spend.promises import PROMISED
from epsilog.spend.requests import request_of
from epsilog.spend.scopes import check_key
from epsilog.spend.states import RULES
from epsilog.terms import CheckError, RunFile, check

PRIVATE_FILES = {RunFile.CUSTODY.value, RunFile.KEY.value, RunFile.SECRET.value}


def check_shape(entry: Entry) -> None:
    """Requires the fields of an entry's verb; anything else is a ``ValueError``."""
    rule = RULES[entry.verb]
    if not rule.says <= set(entry.body) <= rule.says | rule.may_say:
        raise ValueError(f"body of {entry.verb} must name {sorted(rule.says)}, got {sorted(entry.body)}")
    if (entry.scope == "") != rule.whole:
        raise ValueError(f"scope of {entry.verb} must be {'blank' if rule.whole else 'named'}, got {entry.scope!r}")
    if (entry.key is not None) != bool(rule.needs):
        raise ValueError(f"key of {entry.verb} must be that of a charge, got {entry.key!r}")
    if entry.key is not None:
        check_key(entry.key)
    if bool(entry.amounts) != rule.moves:
        raise ValueError(f"amounts of {entry.verb} must be there where money moves, got {dict(entry.amounts)}")
    for kind, amount in entry.amounts.items():
        _quantities(kind, amount)
    for name in ("by", "reason"):
        if name in entry.body:
            check.text()(**{name: entry.body[name]})
    _CHECKS.get(entry.verb, lambda _: None)(entry.body)


def moment(**named: object) -> str:
    """A moment as entries spell it: UTC, ISO 8601, to the microsecond."""
    ((name, value),) = named.items()
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise CheckError(name, "a datetime with its offset from UTC", repr(value))
    try:
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    except OverflowError:  # its offset leads out of the calendar
        raise CheckError(name, "in the years 1 to 9999, in UTC", repr(value)) from None


def _quantities(kind: str, amount: Mapping[str, Any]) -> None:
    rule = filter_of(kind)
    if not rule.measures(amount):
        wanted = "of orders" if rule.by_order else f"of {rule.quantities}"
        raise ValueError(f"a {kind} amount must be {wanted}, got {sorted(amount)}")


def _budget(body: Mapping[str, Any]) -> None:
    _quantities(body["kind"], body["caps"])
    _caps(body)
    check.instance(bool)(simulation=body["simulation"])
    check.optional(check.text())(privacy_unit=body["privacy_unit"])


def _caps(body: Mapping[str, Any]) -> None:
    """Amounts that a budget may have."""
    if not isinstance(body["caps"], dict) or dict(Amounts.capped(body["caps"])) != body["caps"] or not body["caps"]:
        raise CheckError("caps", "amounts by quantity", repr(body["caps"]))

    if "promise" in body and (
        set(body["promise"]) != PROMISED or dict(Amounts.capped(body["promise"])) != body["promise"]
    ):
        raise CheckError("promise", "epsilon and delta", repr(body["promise"]))


def _overridden(body: Mapping[str, Any]) -> None:
    if request_of(body).amount is None:
        raise ValueError("an overridden price must state its amount")


def _held_until(body: Mapping[str, Any]) -> None:
    until = check.text()(until=body["until"])
    if moment(until=datetime.fromisoformat(until)) != until:
        raise CheckError("until", "spelled as the ledger spells it", repr(until))


def _reserved(body: Mapping[str, Any]) -> None:
    request_of(body)
    for kind, method in body["methods"].items():
        check.text()(**{kind: method})


def _committed(body: Mapping[str, Any]) -> None:
    for name, value in body["evidence"].items():
        sha256(**{check.text()(evidence=name): value})


def refuse_private(entry: Entry) -> None:
    """Refuses a commit that names a private file of a run: what it binds by a plain hash, anybody can guess."""
    named = PRIVATE_FILES & set(entry.body.get("evidence", ())) if entry.verb is Verb.COMMITTED else set()
    if named:
        bound = "of public files (a run binds the curator's records by a commitment under a key)"
        raise CheckError("evidence", bound, ", ".join(sorted(named)))


def _round(body: Mapping[str, Any]) -> None:
    check.integer(1)(round=body["round"])


def _released(body: Mapping[str, Any]) -> None:
    _round(body)
    sha256(output_hash=body["output_hash"])


def _accepted(body: Mapping[str, Any]) -> None:
    check.integer(1)(restored=body["restored"])


_CHECKS = {
    Verb.BUDGET_CREATED: _budget,
    Verb.QUOTA_CREATED: _budget,
    Verb.PARTITION_DECLARED: _budget,
    Verb.PARTITION_RAISED: _caps,
    Verb.CAP_CHANGED: _caps,
    Verb.PLAN_REGISTERED: lambda body: sha256(plan_hash=body["plan_hash"]),
    Verb.PRICE_OVERRIDDEN: _overridden,
    Verb.RESERVED: _reserved,
    Verb.HELD_UNTIL: _held_until,
    Verb.ROUND_STARTED: _round,
    Verb.ROUND_RELEASED: _released,
    Verb.COMMITTED: _committed,
    Verb.RESTORE_ACCEPTED: _accepted,
}
