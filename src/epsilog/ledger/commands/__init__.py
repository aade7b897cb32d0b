"""Every act on the ledger, each described once: fields, table row, and what is written of it.

To add one is to add a class to one of these modules; its entry, HTTP route, options, client and reference follow.
"""

from epsilog.ledger.commands.base import COMMANDS, Command
from epsilog.ledger.commands.budgets import (
    AcceptRestored,
    ApproveCap,
    CreateBudget,
    DeclarePartition,
    MarkRestored,
    Retire,
    SetCap,
)
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

__all__ = [
    "COMMANDS",
    "Abandon",
    "AcceptRestored",
    "Approve",
    "ApproveCap",
    "Cancel",
    "ChargeAtOnce",
    "Command",
    "Commit",
    "CreateBudget",
    "DeclarePartition",
    "Decommission",
    "Expire",
    "Hold",
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
]
