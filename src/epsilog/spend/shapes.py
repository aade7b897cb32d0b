"""What an entry of each verb is made of: a chain with right hashes and other fields was not written by a ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epsilog.spend.entries import Entry, Verb, sha256
from epsilog.spend.filters import filter_of
from epsilog.spend.requests import request_of
from epsilog.spend.scopes import check_key
from epsilog.spend.states import RULES
from epsilog.terms import check


def check_shape(entry: Entry) -> None:
    """Requires the fields of an entry's verb; anything else is a ``ValueError``."""
    rule = RULES[entry.verb]
    if set(entry.body) != rule.says:
        raise ValueError(f"body of {entry.verb} must name {sorted(rule.says)}, got {sorted(entry.body)}")
    if (entry.key is not None) != bool(rule.needs):
        raise ValueError(f"key of {entry.verb} must be that of a charge, got {entry.key!r}")
    if entry.key is not None:
        check_key(entry.key)
    if bool(entry.amounts) != rule.moves:
        raise ValueError(f"amounts of {entry.verb} must be there where money moves, got {dict(entry.amounts)}")
    for kind, amount in entry.amounts.items():
        _quantities(kind, amount)
    _CHECKS.get(entry.verb, lambda _: None)(entry.body)


def _quantities(kind: str, amount: Mapping[str, Any]) -> None:
    if set(amount) != set(filter_of(kind).quantities):
        raise ValueError(f"a {kind} amount must be of {filter_of(kind).quantities}, got {sorted(amount)}")


def _budget(body: Mapping[str, Any]) -> None:
    _quantities(body["kind"], body["caps"])
    check.instance(bool)(simulation=body["simulation"])
    check.optional(check.text())(privacy_unit=body["privacy_unit"])


def _overridden(body: Mapping[str, Any]) -> None:
    check.text()(reason=body["reason"])
    if request_of(body).amount is None:
        raise ValueError("an overridden price must state its amount")


def _cancelled(body: Mapping[str, Any]) -> None:
    check.text()(reason=body["reason"])


def _reserved(body: Mapping[str, Any]) -> None:
    request_of(body)
    for kind, method in body["methods"].items():
        check.text()(**{kind: method})


def _committed(body: Mapping[str, Any]) -> None:
    for name, value in body["evidence"].items():
        sha256(**{check.text()(evidence=name): value})


_CHECKS = {
    Verb.BUDGET_CREATED: _budget,
    Verb.PRICE_OVERRIDDEN: _overridden,
    Verb.RESERVED: _reserved,
    Verb.ROUND_RELEASED: lambda body: sha256(output_hash=body["output_hash"]),
    Verb.COMMITTED: _committed,
    Verb.CANCELLED: _cancelled,
}
