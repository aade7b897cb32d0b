"""What a third party holds: a report alone, or a ledger alone. Told apart by content, recomputed offline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from epsilog.spend import verify_file
from epsilog.terms import EpsilogError, LedgerIntegrityError, RecordsError, codec
from epsilog.verify.evidence import PLAN, ask_ledger
from epsilog.verify.findings import Finding, Verdict
from epsilog.verify.reconcile import Reconciliation, check_claim

SQLITE = b"SQLite format 3\x00"


def identify(path: Path) -> str:
    """Says what lies at a path: "run", "ledger" or "report".

    Raises:
        RecordsError: it is none of them, or is not there.
    """
    if path.is_dir():
        if (path / PLAN).exists():
            return "run"
        raise RecordsError(f"{path} is a folder without {PLAN}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RecordsError(f"{path} cannot be read: {error.strerror}") from error
    if content.startswith(SQLITE):
        return "ledger"
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if isinstance(document, dict) and document.get("kind") == "report":
        return "report"
    raise RecordsError(f"{path} is neither a run folder, nor a report, nor a ledger")


def check_chain(path: Path) -> Finding:
    """Works a whole ledger out again."""
    try:
        verified = verify_file(path)
    except LedgerIntegrityError as error:
        return Finding("ledger", Verdict.FAILED, f"The ledger does not hold: {error}")
    says = f"All {verified.count} entries, {len(verified.charges)} charges and {len(verified.balances)} balances hold; "
    return Finding("ledger", Verdict.PASSED, says + f"head {verified.head}")


def recompute_report(report: dict[str, Any], ledger: Path | None) -> Reconciliation:
    """Recomputes a report's claim from its release; with a ledger, looks for the charge that names its plan."""
    findings = [check_reported_claim(report)]
    stated = report.get("verification", {}).get("verdict")
    if stated == Verdict.FAILED:
        findings.append(
            Finding("stated verdict", Verdict.FAILED, "The report itself says that its verification failed.")
        )
    if ledger is None:
        findings.append(Finding("ledger", Verdict.NOT_CHECKED, "No ledger was given; the records were not looked at."))
    else:
        findings.append(_check_filed(report, ledger))
    return Reconciliation(tuple(findings))


def check_reported_claim(report: dict[str, Any]) -> Finding:
    """The claim follows from the release: the certified interval is computed afresh."""
    try:
        guarantee = codec.decode(report["claim"]["guarantee"])
        scheme = codec.decode(report["mechanism"]["scheme"])
        release = codec.decode(report["mechanism"]["release"])
        if release != scheme.release():
            return Finding("claim", Verdict.FAILED, "The release is not what the scheme releases.")
        return check_claim(guarantee, scheme)
    except (EpsilogError, ValueError, KeyError, TypeError, AttributeError) as error:
        return Finding("claim", Verdict.FAILED, f"The report's terms cannot be read: {error}")


def _check_filed(report: dict[str, Any], ledger: Path) -> Finding:
    word = ask_ledger(ledger, str(report.get("evidence", {}).get("plan_hash")))
    if not word.sound:
        return Finding("ledger", Verdict.FAILED, f"The ledger does not hold: {word.trouble}")
    if word.key is None:
        return Finding("ledger", Verdict.FAILED, "No charge in the ledger names the report's plan.")
    rounds = len(report.get("rounds", []))
    if len(word.released) != rounds or word.released.get(rounds) != report["result"]["model_hash"]:
        return Finding("ledger", Verdict.FAILED, "The ledger released other models than the report names.")
    says = (
        f"Charge {word.key} names this plan and released these {rounds} rounds; epsilon {word.amounts.get('epsilon')}."
    )
    return Finding("ledger", Verdict.PASSED, says)
