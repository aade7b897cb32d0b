"""Every act on the ledger, each described once: fields, table row, and what is written of it.

To add one is to add a class to one of these modules; its entry, HTTP route, options, client and reference follow.
"""

from epsilog.ledger.commands.base import COMMANDS, Command
from epsilog.ledger.commands.budgets import (
    AcceptRestored as AcceptRestored,
    ApproveCap as ApproveCap,
    CreateBudget as CreateBudget,
    DeclarePartition as DeclarePartition,
    MarkRestored as MarkRestored,
    Retire as Retire,
    SetCap as SetCap,
)
from epsilog.ledger.commands.charges import (
    Approve as Approve,
    ChargeAtOnce,
    Commit as Commit,
    Hold as Hold,
    OverrideCost as OverrideCost,
    RegisterPlan as RegisterPlan,
    ReleaseRound as ReleaseRound,
    Reserve as Reserve,
    Start as Start,
    StartRound as StartRound,
)
from epsilog.ledger.commands.endings import (
    Abandon as Abandon,
    Cancel as Cancel,
    Decommission as Decommission,
    Expire as Expire,
    Revoke as Revoke,
)

__all__ = [
    "COMMANDS",
    "ChargeAtOnce",
    "Command",
]
