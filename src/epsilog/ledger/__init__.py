"""Spending: a durable ledger of privacy budgets that refuses before a limit is passed.

Amounts are whole numbers of small units, entries are appended and chained by hashes, and every balance is a fold over
them. A charge is reserved, then started (from then on it is spent permanently), then committed; or cancelled before it
starts. A theorem decides which sums may be compared with a cap, and every budget cites its own.

Every act is a command, described once in ``commands``: its ``fields``, its row in the table of ``transitions``, and its
entry. A request has a place (``scopes``) and a ``cost``. ``cap_conversion`` converts guarantees to caps, ``filters``
decides whether a charge fits, and ``partitions`` which budgets count it. ``budget_path`` and ``charge_record`` apply an
entry to budgets and to a charge. ``execute`` reads, applies and writes a command in one transaction. ``ledger`` has
each command as a method, and the handle of a charge. ``view`` reads, ``pending`` lists what waits for owners,
``headroom`` computes what would fit, and ``cycles`` groups entries by cycle. ``replay`` replays all entries; those
that repeat a charge are written by ``templates`` and replayed by ``charge_runs``. None of them knows a database: they
use a ``store``, whose rows are tables of any SQL database in ``tables``; ``factory`` chooses. Exports are
``checkpoints`` (one hash over all entries, by ``merkle``), ``bundles`` (all of them in a text file) and ``receipts``
(one of them, and its position).
"""

from epsilog.ledger.alerts import AlertSender, find_alerts
from epsilog.ledger.amounts import Amounts
from epsilog.ledger.balances import Balance
from epsilog.ledger.bundles import write_bundle
from epsilog.ledger.checkpoints import Checkpoint, StoredCheckpoint, prove_consistency
from epsilog.ledger.cost import Cost as Cost, compute_cost as compute_cost
from epsilog.ledger.cycles import CycleHistory, PlanSummary as PlanSummary, read_cycles
from epsilog.ledger.entries import Entry, Verb, hash_entry as hash_entry
from epsilog.ledger.exports import export_entries
from epsilog.ledger.factory import (
    iterate_verified_documents as iterate_verified_documents,
    ledger_exists as ledger_exists,
    open_ledger,
    parse_address as parse_address,
    read_ledger,
    read_verified_entries as read_verified_entries,
    verify_ledger,
)
from epsilog.ledger.fields import ChargeRequest as ChargeRequest
from epsilog.ledger.headroom import Headroom
from epsilog.ledger.ledger import Charge, Ledger
from epsilog.ledger.pending import PendingApproval
from epsilog.ledger.receipts import Receipt, write_receipt
from epsilog.ledger.replay import LedgerVerification
from epsilog.ledger.transitions import ChargeState
from epsilog.ledger.view import LedgerView

__all__ = [
    "AlertSender",
    "Amounts",
    "Balance",
    "Charge",
    "ChargeState",
    "Checkpoint",
    "CycleHistory",
    "Entry",
    "Headroom",
    "Ledger",
    "LedgerVerification",
    "LedgerView",
    "PendingApproval",
    "Receipt",
    "StoredCheckpoint",
    "Verb",
    "export_entries",
    "find_alerts",
    "open_ledger",
    "prove_consistency",
    "read_cycles",
    "read_ledger",
    "verify_ledger",
    "write_bundle",
    "write_receipt",
]
