"""Spending: a durable ledger of privacy budgets that refuses before a limit is passed.

Money is whole numbers of small units, entries are appended and chained by hashes, and every balance is a fold over
them. A charge is reserved, then started (from there on it is spent for ever), then committed; or cancelled before it
starts. Which sums may be compared with a cap is a theorem, and every budget cites its own.

Every act is a command, described once in ``commands``: its ``fields``, its row in the table of ``states``, and what is
written of it. ``requests`` is what a reservation asks, ``scopes`` where, ``pricing`` what it costs, ``promises`` what a
cap keeps, ``filters`` whether it fits, ``partitions`` who has paid already; ``paths`` and ``records`` are what an entry
does to budgets and to a charge. ``execute`` reads, applies and writes a command in one transaction, ``ledger`` has each
as a method, and what the owner of a charge holds, ``view`` reads, ``headroom`` says what would fit, ``chain`` folds all
entries again, and ``cycles`` tells them cycle by cycle. None of them knows a database: they ask a ``store``. What it
keeps is in ``rows``, as tables of any SQL database in ``tables``, and in one file in ``sqlite``; ``opening`` chooses.
What leaves the house is in ``checkpoints`` (one hash over all entries, by ``merkle``), ``bundles`` (all of them in a
file of text) and ``receipts`` (one of them, and where it lies).
"""

from epsilog.ledger.amounts import MOST_ORDERS, Amounts, is_quantity, rdp_quantity
from epsilog.ledger.balances import Balance
from epsilog.ledger.bundles import is_bundle, write_bundle
from epsilog.ledger.chain import Verified
from epsilog.ledger.checkpoints import Checkpoint, Kept, since
from epsilog.ledger.commands import COMMANDS, Caller, Command
from epsilog.ledger.cycles import Cycle, Cycles, Released, Stated, read_cycles
from epsilog.ledger.entries import ChargeId, Entry, Verb, digest
from epsilog.ledger.execute import Done
from epsilog.ledger.exports import export
from epsilog.ledger.fields import moment as spelled_moment
from epsilog.ledger.filters import FILTERS, Filter
from epsilog.ledger.headroom import Headroom, Pricing, headroom_for, most_repetitions, orders_on, room_in_words
from epsilog.ledger.ledger import Charge, Ledger, RunCharge
from epsilog.ledger.opening import (
    Transcript,
    back_up,
    examine,
    is_ledger,
    is_served,
    is_there,
    located,
    open_here,
    open_ledger,
    read_ledger,
    read_transcript,
    restore,
    sound_documents,
    sqlite_in_use,
    verify_file,
    without_password,
)
from epsilog.ledger.partitions import held_under, is_counted
from epsilog.ledger.paths import CREATING
from epsilog.ledger.pricing import Price, price, price_at_once
from epsilog.ledger.receipts import Receipt, charge_facts, is_receipt, write_receipt
from epsilog.ledger.records import ChargeRecord
from epsilog.ledger.requests import Request
from epsilog.ledger.scopes import ancestors
from epsilog.ledger.states import AHEAD, CLOSED, RULES, Rule, Stage, State
from epsilog.ledger.view import ChargeView, LedgerView
from epsilog.ledger.wire import (
    REFUSALS,
    done_to_json,
    price_from_json,
    price_to_json,
    refusal_from_json,
    refusal_to_json,
)

__all__ = [
    "AHEAD",
    "CLOSED",
    "COMMANDS",
    "CREATING",
    "FILTERS",
    "MOST_ORDERS",
    "REFUSALS",
    "RULES",
    "Amounts",
    "Balance",
    "Caller",
    "Charge",
    "ChargeId",
    "ChargeRecord",
    "ChargeView",
    "Checkpoint",
    "Command",
    "Cycle",
    "Cycles",
    "Done",
    "Entry",
    "Filter",
    "Headroom",
    "Kept",
    "Ledger",
    "LedgerView",
    "Price",
    "Pricing",
    "Receipt",
    "Released",
    "Request",
    "Rule",
    "RunCharge",
    "Stage",
    "State",
    "Stated",
    "Transcript",
    "Verb",
    "Verified",
    "ancestors",
    "back_up",
    "charge_facts",
    "digest",
    "done_to_json",
    "examine",
    "export",
    "headroom_for",
    "held_under",
    "is_bundle",
    "is_counted",
    "is_ledger",
    "is_quantity",
    "is_receipt",
    "is_served",
    "is_there",
    "located",
    "most_repetitions",
    "open_here",
    "open_ledger",
    "orders_on",
    "price",
    "price_at_once",
    "price_from_json",
    "price_to_json",
    "rdp_quantity",
    "read_cycles",
    "read_ledger",
    "read_transcript",
    "refusal_from_json",
    "refusal_to_json",
    "restore",
    "room_in_words",
    "since",
    "sound_documents",
    "spelled_moment",
    "sqlite_in_use",
    "verify_file",
    "without_password",
    "write_bundle",
    "write_receipt",
]
