"""Spending: a durable ledger of privacy budgets that refuses before a limit is passed.

Amounts are whole numbers of small units, entries are appended and chained by hashes, and every balance is a fold over
them. A charge is reserved, then started (from then on it is spent permanently), then committed; or cancelled before it
starts. A theorem decides which sums may be compared with a cap, and every budget cites its own.

Every act is a command, described once in ``commands``: its ``fields``, its row in the table of ``transitions``, and its
entry. ``requests`` is the content of a reservation, ``scopes`` its place, ``cost`` its cost. ``cap_conversion``
converts guarantees to caps, ``filters`` decides whether a charge fits, and ``partitions`` which budgets count it.
``budget_path`` and ``charge_record`` apply an entry to budgets and to a charge. ``execute`` reads, applies and writes a
command in one transaction. ``ledger`` has each command as a method, and the handle of a charge; ``view`` reads,
``headroom`` computes what would fit, ``replay`` replays all entries, and ``cycles`` groups them by cycle. None of them
knows a database: they use a ``store``. Its rows are in ``stored_rows``, as tables of any SQL database in ``tables``,
and in one file in ``sqlite``; ``factory`` chooses. Exports are ``checkpoints`` (one hash over all entries, by
``merkle``), ``bundles`` (all of them in a text file) and ``receipts`` (one of them, and its position).
"""

from epsilog.ledger.alerts import Alert, AlertSender, find_alerts
from epsilog.ledger.amounts import MAX_RENYI_ORDERS, Amounts, make_rdp_quantity
from epsilog.ledger.balances import Balance
from epsilog.ledger.budget_path import CREATION_VERBS
from epsilog.ledger.bundles import is_bundle, write_bundle
from epsilog.ledger.certificates import MOST_EXCESS, ProvenClaim, check_charge_certificate
from epsilog.ledger.charge_record import ChargeRecord
from epsilog.ledger.checkpoints import Checkpoint, StoredCheckpoint, prove_consistency
from epsilog.ledger.commands import COMMANDS, Caller, Command
from epsilog.ledger.cost import Cost, compute_cost, compute_stated_cost
from epsilog.ledger.cycles import Cycle, CycleHistory, PlanSummary, ReleasedCharge, read_cycles
from epsilog.ledger.entries import ChargeId, Entry, Verb, hash_entry
from epsilog.ledger.execute import MAX_BATCH, Done
from epsilog.ledger.exports import export_entries
from epsilog.ledger.factory import (
    copy_ledger,
    diagnose_ledger,
    get_sqlite_version,
    is_ledger_file,
    is_remote_address,
    iterate_verified_documents,
    ledger_exists,
    open_ledger,
    open_local_ledger,
    parse_address,
    read_ledger,
    read_verified_entries,
    redact_password,
    restore_backup,
    verify_ledger,
)
from epsilog.ledger.filters import PRIVACY_FILTERS, PrivacyFilter
from epsilog.ledger.headroom import (
    CostModel,
    Headroom,
    compute_headroom,
    format_headroom,
    list_path_orders,
    max_repetitions,
)
from epsilog.ledger.http_codec import (
    TRANSMITTED_ERRORS,
    cost_from_json,
    cost_to_json,
    done_to_json,
    error_from_json,
    error_to_json,
)
from epsilog.ledger.ledger import Charge, ChargeProtocol, Ledger
from epsilog.ledger.partitions import counts_towards_parent, held_under
from epsilog.ledger.receipts import Receipt, is_receipt, read_charge_facts, write_receipt
from epsilog.ledger.replay import LedgerVerification
from epsilog.ledger.requests import ChargeRequest
from epsilog.ledger.scopes import list_ancestors
from epsilog.ledger.transitions import (
    CLOSED_STATES,
    TRANSITIONS,
    UNRESERVED_STATES,
    ChargeState,
    RoundStage,
    Transition,
)
from epsilog.ledger.view import ChargeView, LedgerView

__all__ = [
    "CLOSED_STATES",
    "COMMANDS",
    "CREATION_VERBS",
    "MAX_BATCH",
    "MAX_RENYI_ORDERS",
    "MOST_EXCESS",
    "PRIVACY_FILTERS",
    "TRANSITIONS",
    "TRANSMITTED_ERRORS",
    "UNRESERVED_STATES",
    "Alert",
    "AlertSender",
    "Amounts",
    "Balance",
    "Caller",
    "Charge",
    "ChargeId",
    "ChargeProtocol",
    "ChargeRecord",
    "ChargeRequest",
    "ChargeState",
    "ChargeView",
    "Checkpoint",
    "Command",
    "Cost",
    "CostModel",
    "Cycle",
    "CycleHistory",
    "Done",
    "Entry",
    "Headroom",
    "Ledger",
    "LedgerVerification",
    "LedgerView",
    "PlanSummary",
    "PrivacyFilter",
    "ProvenClaim",
    "Receipt",
    "ReleasedCharge",
    "RoundStage",
    "StoredCheckpoint",
    "Transition",
    "Verb",
    "check_charge_certificate",
    "compute_cost",
    "compute_headroom",
    "compute_stated_cost",
    "copy_ledger",
    "cost_from_json",
    "cost_to_json",
    "counts_towards_parent",
    "diagnose_ledger",
    "done_to_json",
    "error_from_json",
    "error_to_json",
    "export_entries",
    "find_alerts",
    "format_headroom",
    "get_sqlite_version",
    "hash_entry",
    "held_under",
    "is_bundle",
    "is_ledger_file",
    "is_receipt",
    "is_remote_address",
    "iterate_verified_documents",
    "ledger_exists",
    "list_ancestors",
    "list_path_orders",
    "make_rdp_quantity",
    "max_repetitions",
    "open_ledger",
    "open_local_ledger",
    "parse_address",
    "prove_consistency",
    "read_charge_facts",
    "read_cycles",
    "read_ledger",
    "read_verified_entries",
    "redact_password",
    "restore_backup",
    "verify_ledger",
    "write_bundle",
    "write_receipt",
]
