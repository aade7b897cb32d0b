"""A charge as its owner holds it: reserved, then started, its rounds noted, then committed; or cancelled before.

The handle gives commands to whoever keeps the charge, so it is the same one over a file and over a network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from epsilog.ledger import commands
from epsilog.ledger.amounts import Amounts
from epsilog.ledger.entries import Entry
from epsilog.ledger.records import RoundState
from epsilog.ledger.requests import Request

if TYPE_CHECKING:
    from epsilog.ledger.ledger import Ledger
    from epsilog.ledger.view import LedgerView


class RunCharge(Protocol):
    """What a run needs of the charge that pays for it: a ``Charge``, or whatever else keeps these promises."""

    @property
    def request(self) -> Request:
        """What was asked of the ledger and priced."""

    @property
    def state(self) -> str:
        """One of those in ``State``, from reserved on."""

    @property
    def rounds_released(self) -> Mapping[int, str]:
        """Output hash of every released round, by round number."""

    def start(self) -> None:
        """Spends the amount."""

    def round_started(self, number: int, /) -> None:
        """Notes that a round begins; called again for a round that was started and never released."""

    def round_released(self, number: int, /, *, output_hash: str) -> None:
        """Notes durably that a round's output, which is already on disk, is released."""


class ChargeView:
    """A charge to look at; it always tells the stored state.

    Attributes:
        entry: the one that reserved it.
        key: its idempotency key, which belongs to its scope.
        scope: where it is charged.
        amounts: what it costs, by kind of budget.
    """

    def __init__(self, charges: LedgerView, entry: Entry) -> None:
        self._charges, self.entry = charges, entry
        self.key = str(entry.key)
        self.scope = entry.scope
        self.amounts: Mapping[str, Amounts] = entry.amounts

    def __repr__(self) -> str:
        return f"{type(self).__name__}(key={self.key!r}, scope={self.scope!r}, amounts={dict(self.amounts)})"

    @property
    def request(self) -> Request:
        """What was asked."""
        return Request.from_json(self.entry.body["request"])

    @property
    def state(self) -> str:
        """One of those in ``State``, from reserved on."""
        return self._charges.charge_record(self.key, scope=self.scope).state

    @property
    def rounds_started(self) -> dict[int, int]:
        """Rounds that began, and how often."""
        return {state.number: state.attempts for state in self._rounds()}

    @property
    def rounds_released(self) -> dict[int, str]:
        """Rounds that released something, and its SHA-256."""
        return {state.number: state.output_hash for state in self._rounds() if state.output_hash is not None}

    def _rounds(self) -> Sequence[RoundState]:
        return self._charges.charge_rounds(self.key, scope=self.scope)


class Charge(ChargeView):
    """A handle of a charge: what its owner does next.

    Attributes:
        replayed: whether the key was known already, so that nothing new was charged: what it released must be looked
            up, not released again.
    """

    _charges: Ledger

    def __init__(self, charges: Ledger, entry: Entry, *, replayed: bool) -> None:
        super().__init__(charges, entry)
        self.replayed = replayed

    def start(self) -> None:
        """Spends the amount, for ever; called before data is first touched.

        Raises:
            ConflictError: it has started before. Whoever resumes a run asks for ``state`` and does not start again.
        """
        self._charges.execute(commands.Start(self.key, scope=self.scope))

    def round_started(self, number: int) -> None:
        """Notes that a round begins; it may begin again as long as nothing of it was released."""
        self._charges.execute(commands.StartRound(self.key, scope=self.scope, round=number))

    def round_released(self, number: int, *, output_hash: str) -> None:
        """Notes what a round is about to release; called before it leaves the process. Twice the same is once."""
        released = commands.ReleaseRound(self.key, scope=self.scope, round=number, output_hash=output_hash)
        self._charges.execute(released)

    def commit(self, evidence: Mapping[str, str] | None = None) -> None:
        """Closes a started charge; ``evidence`` names SHA-256 values. Twice the same is once."""
        self._charges.execute(commands.Commit(self.key, scope=self.scope, evidence=evidence or {}))

    def hold(self, until: datetime) -> None:
        """Says when anybody may give the reservation back if it has not started; what was said last stands."""
        self._charges.execute(commands.Hold(self.key, scope=self.scope, until=until))

    def cancel(self, reason: str) -> None:
        """Gives back a reservation that never started. Twice the same is once."""
        self._charges.execute(commands.Cancel(self.key, scope=self.scope, reason=reason))
