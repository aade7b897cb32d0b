"""Every act on the ledger, each described once: fields, table row, and what is written of it.

To add one is to add a class to one of these modules; its entry, HTTP route, options, client and reference follow.
"""

from epsilog.ledger.commands.base import (
    BUDGET,
    CHARGE,
    COMMANDS,
    ENTIRE_LEDGER,
    RESERVATION,
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
from epsilog.ledger.commands.budgets import CreateBudget, DeclarePartition, Retire, SetCap
from epsilog.ledger.commands.charges import (
    Approve,
    ChargeAtOnce,
    Commit,
    Hold,
    OverrideCost,
    RegisterPlan,
    ReleaseRound,
    Reserve,
    Start,
    StartRound,
)
from epsilog.ledger.commands.endings import Abandon, Cancel, Decommission, Expire, Revoke
from epsilog.ledger.commands.restores import AcceptRestored, MarkRestored

__all__ = [
    "BUDGET",
    "CHARGE",
    "COMMANDS",
    "ENTIRE_LEDGER",
    "RESERVATION",
    "Abandon",
    "AcceptRestored",
    "Approve",
    "At",
    "Caller",
    "Cancel",
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
    "OverrideCost",
    "RegisterPlan",
    "ReleaseRound",
    "Reserve",
    "Retire",
    "Revoke",
    "SetCap",
    "Start",
    "StartRound",
    "Step",
    "apply",
    "check_entry",
    "fold",
    "require_own",
]
