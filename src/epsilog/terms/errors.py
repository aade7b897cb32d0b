"""The failures a user would act on, one class each.

    EpsilogError
    |-- UnsupportedMechanismError   no proof for this mechanism, relation or method: never a nearby formula
    |-- CalibrationError            a search that met no goal; carries its bracket
    |-- BudgetExceededError         a release that exceeds the budget; carries requested and available
    |-- LedgerIntegrityError        a chain, order or id that does not hold; carries the entry's index
    |-- StorageError                a ledger file that cannot be used in its present state
    |   `-- OutcomeUnknownError         a lost reply of a ledger server: the request may have taken effect or not
    |-- BatchRefusedError          a batch of which one charge was refused; carries its place, key and refusal
    |-- ConflictError               the same idempotency key with another body, or a verb out of order
    |-- PermissionDeniedError                 a token that a ledger's server does not know, or that does not allow this
    |-- ConfigError              a run config that cannot be run; carries every finding, by field
    `-- RecordError                round records that are missing or unreadable

Bad arguments are ``ValueError``: bugs of the caller, not states of the world. Where one argument is out of its bounds,
it is a ``CheckError``, which carries the name, the bound and the value.
"""

from __future__ import annotations

from collections.abc import Sequence


class EpsilogError(Exception):
    """Everything epsilog raises on purpose, bad arguments apart."""


class CheckError(ValueError):
    """An argument that is not what it must be.

    Attributes:
        field: the argument's name.
        bound: what it must be, in words: "in (0, 1)".
        value: what it was, as the message shows it.
        verb: "be", or what else it must do: "hold", "match".

    >>> str(CheckError("delta", "in (0, 1)", "1.5"))
    'delta must be in (0, 1), got 1.5'
    """

    def __init__(self, field: str, bound: str, value: str, verb: str = "be") -> None:
        self.field, self.bound, self.value, self.verb = field, bound, value, verb
        super().__init__(field, bound, value, verb)  # as it was made, so that it can be sent between processes

    def __str__(self) -> str:
        return f"{self.field} {self.requirement}, got {self.value}"

    @property
    def requirement(self) -> str:
        """Return what the argument must be, as a phrase without its name: "must be in (0, 1)"."""
        return f"must {self.verb} {self.bound}"

    def under(self, path: str) -> CheckError:
        """Return the error for an argument nested in another.

        >>> CheckError("count", "at least 1", "0").under("parts[2]").field
        'parts[2].count'
        """
        return CheckError(f"{path}.{self.field}" if path else self.field, self.bound, self.value, self.verb)

    def to_json(self) -> dict[str, str]:
        """Plain JSON values, for programs that mark the field."""
        return {"field": self.field, "message": self.requirement, "bound": self.bound, "value": self.value}


class UnsupportedMechanismError(EpsilogError):
    """A mechanism, relation or combination for which a method has no proof."""

    def __init__(self, term: object, *, method: str, reason: str = "") -> None:
        self.term, self.method, self.reason = term, method, reason
        why = f": {reason}" if reason else ""
        super().__init__(f"{method} has no proven bound for {term!r}{why}")


class CalibrationError(EpsilogError):
    """A search that did not converge, or a goal that nothing meets."""

    def __init__(self, message: str, *, bracket: tuple[float, float] | None = None) -> None:
        self.bracket = bracket
        super().__init__(message if bracket is None else f"{message} (bracket {bracket[0]:.6g} .. {bracket[1]:.6g})")


class BudgetExceededError(EpsilogError):
    """A charge that exceeds some scope's budget; nothing was written. Amounts are decimal strings by unit.

    Attributes:
        scope: the scope that refuses: of several, the highest.
        requested: what was asked, e.g. ``{"epsilon": "2"}``.
        available: what that scope still has, in the same units.
        caps: its limit.
        spent: what of it is gone for ever.
        reserved: what of it is promised.
        set_aside: what of it is kept for the shares of others, where there are any.
        shortfall: what is missing, where anything is.
        reason: why nothing is available, where that is no matter of amounts.
        hint: what would fit, in words.
        owners: the scopes of all owners who must act before the charge fits; empty if no owner can allow it.
    """

    def __init__(
        self,
        *,
        scope: str,
        requested: dict[str, str],
        available: dict[str, str],
        caps: dict[str, str] | None = None,
        spent: dict[str, str] | None = None,
        reserved: dict[str, str] | None = None,
        set_aside: dict[str, str] | None = None,
        shortfall: dict[str, str] | None = None,
        reason: str = "",
        hint: str = "",
        owners: tuple[str, ...] | None = None,
    ) -> None:
        self.scope, self.requested, self.available, self.caps = scope, requested, available, caps or {}
        self.spent, self.reserved, self.shortfall = spent or {}, reserved or {}, shortfall or {}
        self.set_aside = set_aside or {}
        self.reason, self.hint, self.owners = reason, hint, (scope,) if owners is None else owners
        sums = {"requested": requested, "available": available, "short by": self.shortfall, "cap": self.caps}
        sums |= {"spent": self.spent, "reserved": self.reserved, "set aside": self.set_aside}
        amounts = [f"{name} {', '.join(f'{unit} {n}' for unit, n in one.items())}" for name, one in sums.items() if one]
        remedy = f"more requires an owner of {' and of '.join(self.owners)}" if self.owners else ""
        super().__init__(
            f"budget of {scope!r} refuses the charge: {'; '.join(filter(None, [reason, *amounts, hint, remedy]))}"
        )

    def with_remedy(self, *, hint: str, owners: tuple[str, ...]) -> BudgetExceededError:
        """Return the same refusal, with what would fit and who can allow more."""
        return BudgetExceededError(**{name: getattr(self, name) for name in _ARGS} | {"hint": hint, "owners": owners})

    def to_json(self) -> dict[str, object]:
        """Plain JSON values, for programs that show it or act on it."""
        return {name: getattr(self, name) for name in _ARGS} | {"owners": list(self.owners)}


_ARGS = (
    *("scope", "requested", "available", "caps", "spent", "reserved", "set_aside", "shortfall"),
    *("reason", "hint", "owners"),
)


class BatchRefusedError(EpsilogError):
    """A batch of charges of which one was refused; nothing of the batch was charged.

    Attributes:
        index: the place of the refused charge in the batch, from 0.
        key: its idempotency key.
        refusal: why it was refused.
    """

    def __init__(self, index: int, key: str, refusal: Exception, *, place: str = "") -> None:
        self.index, self.key, self.refusal = index, key, refusal
        named = place or f"charges[{index}]"
        super().__init__(f"{named} (key {key!r:.80}) is refused, and nothing was charged: {refusal}")


class LedgerIntegrityError(EpsilogError):
    """A ledger with an invalid chain, order, ids or balances; nothing is repaired silently."""

    def __init__(self, message: str, *, index: int | None = None) -> None:
        self.index = index
        super().__init__(message if index is None else f"entry {index}: {message}")


class StorageError(EpsilogError, OSError):
    """A ledger file that cannot be used: moved, linked twice, locked, read-only, or on a full disk."""


class OutcomeUnknownError(StorageError):
    """A ledger server that did not answer; the request may have taken effect. Repeat it with the same key."""


class PermissionDeniedError(EpsilogError):
    """A refused request to a ledger server: the token is unknown, or its role does not allow the action."""


class ConflictError(EpsilogError):
    """A repeated key with another body, or a verb that the charge's state does not allow."""


class ConfigError(EpsilogError):
    """A run config that cannot be run.

    Attributes:
        source: the file, or the part of it.
        findings: all that is wrong: a ``CheckError`` for each field, a sentence for what belongs to none.
    """

    def __init__(self, source: str, findings: Sequence[CheckError | str]) -> None:
        self.source, self.findings = source, tuple(findings)
        super().__init__(f"{source}: " + "; ".join(map(str, self.findings)))


class RecordError(EpsilogError):
    """Round records that are missing, truncated or unreadable."""
