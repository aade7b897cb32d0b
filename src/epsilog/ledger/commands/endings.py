"""Commands that end a charge, or what it released: by its maker, by owners, or when its time is over."""

from __future__ import annotations

from epsilog.ledger.commands.base import OWN, At
from epsilog.ledger.commands.charges import ChargeCommand
from epsilog.ledger.entries import Verb
from epsilog.ledger.fields import By, Reason
from epsilog.ledger.transitions import ChargeState

RESERVED, STARTED, COMMITTED = ChargeState.RESERVED, ChargeState.STARTED, ChargeState.COMMITTED
CANCELLED, ABANDONED, DECOMMISSIONED = ChargeState.CANCELLED, ChargeState.ABANDONED, ChargeState.DECOMMISSIONED


class Cancel(ChargeCommand, name="cancel", verb="cancelled", from_states=(RESERVED,), to_state=CANCELLED):
    """Cancel your own reservation, before its start.

    Example: epsilog ledger cancel run-17 --reason "not needed"
    """

    reason: Reason


class Revoke(ChargeCommand, name="revoke", verb="revoked", role=OWN, from_states=(RESERVED,), to_state=CANCELLED):
    """Revoke a reservation of others that has not started.

    Example: epsilog ledger revoke run-17 --actor dora --reason "the run was never scheduled"
    """

    actor: By
    reason: Reason


class Expire(
    ChargeCommand, name="expire", verb="expired", own_charge=False, from_states=(RESERVED,), to_state=CANCELLED
):
    """Return an expired reservation that has not started.

    Anyone may do this.

    Example: epsilog ledger expire run-17
    """


class Abandon(
    ChargeCommand,
    name="abandon",
    verb="abandoned",
    role=OWN,
    variants={Verb.WRITTEN_OFF: {"from_states": (RESERVED,)}},
    from_states=(STARTED,),
    to_state=ABANDONED,
):
    """Close a charge whose run is lost; it stays charged.

    A charge that is only reserved counts as spent.

    Example: epsilog ledger abandon run-18 --actor dora --reason "its machine burned down"
    """

    actor: By
    reason: Reason

    def verb_at(self, at: At) -> Verb:  # noqa: D102
        charge = self.charge(at)
        written_off = charge.closed is not None and at.entry(charge.closed).verb is Verb.WRITTEN_OFF
        return Verb.WRITTEN_OFF if charge.state is RESERVED or written_off else Verb.ABANDONED


class Decommission(
    ChargeCommand,
    name="decommission",
    verb="decommissioned",
    role=OWN,
    from_states=(COMMITTED, ABANDONED),
    to_state=DECOMMISSIONED,
    memo="decommissioned",
):
    """Record that a release is out of use; it stays spent.

    Example: epsilog ledger decommission run-18 --actor dora --reason "replaced by run-19"
    """

    actor: By
    reason: Reason
