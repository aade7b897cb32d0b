"""What many findings amount to."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from epsilog.terms import EVIDENCE_KINDS, Finding, Status


def combine_statuses(findings: Iterable[Finding], *, required: Collection[str] = EVIDENCE_KINDS) -> Status:
    """The worst verdict of all: failed, else not checked, else warned, else passed; of nothing, not checked.

    Args:
        findings: one for each check.
        required: evidence that must be here; what lacks other evidence does not count.
    """
    counted = [f for f in findings if f.verdict is not Status.NOT_CHECKED or not f.lacks or f.lacks in required]
    verdicts = {finding.verdict for finding in counted}
    for verdict in (Status.FAILED, Status.NOT_CHECKED, Status.WARNED, Status.PASSED):
        if verdict in verdicts:
            return verdict
    return Status.NOT_CHECKED
