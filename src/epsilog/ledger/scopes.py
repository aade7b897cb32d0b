"""The tree of scopes: spelling, ancestors, and where budgets may or must exist."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from epsilog.terms import CheckError, ConflictError, check


def list_ancestors(scope: str) -> tuple[str, ...]:
    """Return the scope and its ancestors, from the top; a malformed scope is a ``ValueError``.

    >>> list_ancestors("acme/claims/2026-Q4")
    ('acme', 'acme/claims', 'acme/claims/2026-Q4')
    """
    if type(scope) is not str:
        scope = check.text()(scope=scope)
    return _ancestors(scope)


@lru_cache(maxsize=4096)
def _ancestors(scope: str) -> tuple[str, ...]:
    scope = check.text()(scope=scope)
    parts = scope.split("/")
    if not all(part == part.strip() and part.strip(".") for part in parts) or not _plain(scope):
        raise CheckError("scope", "names joined by '/', printable and without blank ends", repr(scope[:80]))
    return tuple("/".join(parts[: depth + 1]) for depth in range(len(parts)))


def _plain(text: str) -> bool:
    """Return whether a text is short, printable and in normal form C."""
    return len(text) <= 500 and text.isprintable() and unicodedata.is_normalized("NFC", text)


def get_parent(scope: str) -> str:
    """Return the scope above; "" for one at the top."""
    return scope.rpartition("/")[0]


def require_idempotency_key(key: str) -> None:
    """Require an idempotency key: printable text of at most 500 characters."""
    _check_key(key) if type(key) is str else _check_key(check.text()(key=key))


@lru_cache(maxsize=4096)
def _check_key(key: str) -> None:
    key = check.text()(key=key)
    if not _plain(key):
        raise CheckError("key", "printable (NFC) text of at most 500 characters", repr(key[:80]))


def refuse_late_budget(scope: str, *, exists: bool, populated: bool) -> None:
    """Refuse a second creation, and one after a charge or partition below, which the budget could not count."""
    if exists:
        raise ConflictError(f"budget of {scope!r} exists already")
    if populated:
        raise ConflictError(f"budget of {scope!r} must be created before any charge at or under that scope")


def refuse_late_partition(scope: str, *, exists: bool, populated: bool) -> None:
    """Refuse a second declaration, and one after a budget or charge below, which the partition could not bound."""
    if exists:
        raise ConflictError(f"partition of {scope!r} must be declared before the scope has a budget, but it has one")
    if populated:
        raise ConflictError(f"partition of {scope!r} must be declared before any budget or charge under that scope")


def require_budget(scope: str, budgets: Sequence[object]) -> None:
    """Require a budget on the path, so that every charge is counted."""
    if not budgets:
        raise ValueError(
            f"scope must lie at or under a budget, got {scope!r}: its owner can create one with create_budget or "
            f"`epsilog ledger create {scope}`"
        )
