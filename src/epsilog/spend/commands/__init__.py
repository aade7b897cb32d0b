"""Every act on the ledger, each described once: fields, table row, and what is written of it.

To add one is to add a class to one of these modules; its entry, HTTP route, options, client and reference follow.
"""

from epsilog.spend.commands.base import (
    COMMANDS,
    At,
    Caller,
    Command,
    Known,
    Step,
    apply,
    check_entry,
    fold,
    require_own,
)
from epsilog.spend.commands.budgets import ChangeCap, CreateBudget, DeclarePartition, Retire
from epsilog.spend.commands.charges import (
    Abandon,
    Cancel,
    ChargeAtOnce,
    Commit,
    Decommission,
    Expire,
    Hold,
    OverridePrice,
    RegisterPlan,
    ReleaseRound,
    Reserve,
    Revoke,
    Start,
    StartRound,
)
from epsilog.spend.commands.restores import AcceptRestored, MarkRestored

__all__ = [
    "COMMANDS",
    "Abandon",
    "AcceptRestored",
    "At",
    "Caller",
    "Cancel",
    "ChangeCap",
    "ChargeAtOnce",
    "Command",
    "Commit",
    "CreateBudget",
    "DeclarePartition",
    "Decommission",
    "Expire",
    "Hold",
    "Known",
    "MarkRestored",
    "OverridePrice",
    "RegisterPlan",
    "ReleaseRound",
    "Reserve",
    "Retire",
    "Revoke",
    "Start",
    "StartRound",
    "Step",
    "apply",
    "check_entry",
    "fold",
    "require_own",
]
