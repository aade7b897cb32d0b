"""Commands on a ledger that came out of a backup: note it, and accept what may be missing since."""

from __future__ import annotations

from typing import Annotated, Any

from epsilog.ledger.commands.base import OWN, At, LedgerWideCommand
from epsilog.ledger.fields import Arg, By, Reason
from epsilog.terms import ConflictError


class MarkRestored(LedgerWideCommand, name="mark-restored", verb="ledger-restored", role=OWN, repeatable=False):
    """Record that a ledger was restored from a backup.

    It accepts no command until its owner accepts the restore.

    Example: epsilog ledger mark-restored --actor dora --reason "the disk is as it was on Monday"
    """

    actor: By
    reason: Reason


class AcceptRestored(
    LedgerWideCommand,
    name="accept-restore",
    verb="restore-accepted",
    role=OWN,
    stored={"actor": By, "reason": Reason, "restored": Annotated[int, Arg("the entry that is accepted", ge=1)]},
):
    """Accept a restored ledger, and what may be missing.

    Then charge again the missing charges that are known.

    Example: epsilog ledger accept-restore --actor dora --reason "two answers of that day, a-7 and a-8"
    """

    actor: By
    reason: Reason

    def body(self, at: At) -> dict[str, Any]:  # noqa: D102
        if at.restore_state.accepted:
            raise ConflictError("no restoration of this ledger awaits acceptance")
        return {"actor": self.actor, "reason": self.reason, "restored": at.restore_state.restored}
