"""Spending: a durable ledger of privacy budgets that refuses before a limit is passed.

Money is whole numbers of small units, entries are appended and chained by hashes, and every balance is a fold over
them. A charge is reserved, then started (from there on it is spent for ever), then committed; or cancelled before it
starts. Which sums may be compared with a cap is a theorem, and every budget cites its own.

The rooms, as a charge walks through them: ``requests`` (what is asked), ``scopes`` (where), ``pricing`` (what it
costs), ``filters`` and ``folds`` (whether it fits, and what it does, by the table in ``states``), ``entries`` and
``shapes`` (what is written of it), ``charge`` (what its owner holds). ``ledger`` leads through them in one transaction,
``headroom`` says what would fit, ``chain`` works all of it out again. None of them knows a database: they ask a
``store``. What it keeps is in ``rows``, as tables of any SQL database in ``tables``, and in one file in ``sqlite``;
``opening`` chooses.
"""

from epsilog.spend.amounts import Amounts
from epsilog.spend.chain import Verified
from epsilog.spend.charge import Charge, RunCharge
from epsilog.spend.entries import Entry, Verb, digest
from epsilog.spend.filters import FILTERS, Filter
from epsilog.spend.folds import Balance
from epsilog.spend.headroom import Headroom
from epsilog.spend.ledger import Ledger
from epsilog.spend.opening import is_ledger, open_ledger, read_ledger, sqlite_in_use, verify_file
from epsilog.spend.pricing import Price, price
from epsilog.spend.requests import Request
from epsilog.spend.states import AHEAD, CLOSED, RULES, Rule, Stage, State

__all__ = [
    "AHEAD",
    "CLOSED",
    "FILTERS",
    "RULES",
    "Amounts",
    "Balance",
    "Charge",
    "Entry",
    "Filter",
    "Headroom",
    "Ledger",
    "Price",
    "Request",
    "Rule",
    "RunCharge",
    "Stage",
    "State",
    "Verb",
    "Verified",
    "digest",
    "is_ledger",
    "open_ledger",
    "price",
    "read_ledger",
    "sqlite_in_use",
    "verify_file",
]
