"""What a run left behind, read and not believed: the plan, the round records, and the ledger's word on both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from epsilog.plan import RegisteredPlan
from epsilog.spend import Entry, Verb, read_ledger
from epsilog.terms import CustodyRecord, LedgerIntegrityError, RecordsError, RoundRecord, codec

R = TypeVar("R", RoundRecord, CustodyRecord)
PLAN, ROUNDS, CUSTODY = "plan.json", "rounds.jsonl", "custody.jsonl"


@dataclass(frozen=True, slots=True)
class LedgerWord:
    """What the ledger says about one plan.

    Attributes:
        sound: whether the whole chain and all balances hold.
        trouble: what does not hold, if anything.
        count: entries in the ledger.
        head: hash of the last one; keep it elsewhere, and a later cut shows.
        key: the charge's idempotency key; None if no charge names the plan.
        state: reserved, started, committed or cancelled.
        amounts: what it was charged under (epsilon, delta) budgets, by quantity (decimal strings).
        caps: the caps of every budget above it, by scope.
        released: output hash of every released round.
        evidence: SHA-256 values that the commit names.
    """

    sound: bool
    trouble: str = ""
    count: int = 0
    head: str = ""
    key: str | None = None
    state: str = ""
    amounts: Mapping[str, str] = field(default_factory=dict)
    caps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    released: Mapping[int, str] = field(default_factory=dict)
    evidence: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything a verdict rests on.

    Attributes:
        plan: as registered.
        records: the public round records, in file order.
        custody: the curator's records; empty when that file is not here.
        hashes: SHA-256 of each file that was read, by name.
        ledger: what the ledger says; None when none was given.
    """

    plan: RegisteredPlan
    records: tuple[RoundRecord, ...]
    custody: tuple[CustodyRecord, ...]
    hashes: Mapping[str, str]
    ledger: LedgerWord | None


def read_evidence(folder: Path, ledger: Path | None) -> Evidence:
    """Reads a run's folder and the ledger that it was charged to.

    Args:
        folder: holds ``plan.json`` and ``rounds.jsonl``, and ``custody.jsonl`` where the curator looks.
        ledger: the ledger file; None leaves its checks out.

    Raises:
        RecordsError: a file that must be there is missing or unreadable; named with its line.
    """
    plan_bytes = _bytes(folder / PLAN)
    try:
        plan = RegisteredPlan.from_json(json.loads(plan_bytes))
    except (ValueError, TypeError, KeyError) as error:
        raise RecordsError(f"{folder / PLAN} is not a plan: {error}") from error
    hashes = {PLAN: hashlib.sha256(plan_bytes).hexdigest()}
    records = read_records(folder / ROUNDS, RoundRecord, hashes)
    custody = read_records(folder / CUSTODY, CustodyRecord, hashes) if (folder / CUSTODY).exists() else ()
    return Evidence(plan, records, custody, hashes, ask_ledger(ledger, plan.hash) if ledger else None)


def read_records(path: Path, kind: type[R], hashes: dict[str, str]) -> tuple[R, ...]:
    """Reads one JSON Lines file of records; notes its SHA-256 in ``hashes``."""
    content = _bytes(path)
    hashes[path.name] = hashlib.sha256(content).hexdigest()
    records = []
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
        try:
            record = codec.from_json(json.loads(line))
        except (ValueError, TypeError) as error:
            raise RecordsError(f"{path}, line {number}: {error}") from error
        if not isinstance(record, kind):
            raise RecordsError(f"{path}, line {number}: must be a {kind.__name__}, got {type(record).__name__}")
        records.append(record)
    return tuple(records)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordsError(f"{path} cannot be read: {error.strerror}") from error


def ask_ledger(path: Path, plan_hash: str) -> LedgerWord:
    """Verifies a ledger and looks up the charge that names a plan; a broken ledger is an answer, not an error."""
    if not path.exists():
        raise RecordsError(f"{path} cannot be read: No such file or directory")
    try:
        with read_ledger(path) as ledger:
            verified = ledger.verify()
            entries = ledger.history()[: verified.count]  # what a writer has added since is not proven
    except LedgerIntegrityError as error:
        return LedgerWord(sound=False, trouble=str(error))
    opened = [e for e in entries if e.verb is Verb.RESERVED and e.body["request"]["plan_hash"] == plan_hash]
    if not opened:
        return LedgerWord(sound=True, count=verified.count, head=verified.head)
    charge = verified.charges[str(opened[-1].key)]
    own = [entry for entry in entries if entry.key == charge.key]
    return LedgerWord(
        sound=True,
        count=verified.count,
        head=verified.head,
        key=charge.key,
        state=charge.state,
        amounts=dict(charge.amounts.get("approximate", {})),
        caps={b.scope: dict(b.caps) for b in verified.balances.values() if _above(b.scope, charge.scope)},
        released={e.body["round"]: e.body["output_hash"] for e in own if e.verb is Verb.ROUND_RELEASED},
        evidence=_evidence(own),
    )


def _above(scope: str, leaf: str) -> bool:
    return leaf == scope or leaf.startswith(scope + "/")


def _evidence(entries: list[Entry]) -> Mapping[str, Any]:
    committed = [entry for entry in entries if entry.verb is Verb.COMMITTED]
    return dict(committed[-1].body["evidence"]) if committed else {}
