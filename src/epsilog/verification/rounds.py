"""The records of rounds: complete, in order, and given up only where nothing came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from epsilog.terms import Finding, Status
from epsilog.verification.evidence import RunEvidence


def check_rounds(evidence: RunEvidence) -> Finding:
    """Rounds are complete and in order."""
    planned = evidence.plan.scheme.rounds
    numbers = [record.round for record in evidence.records]
    counted = (("planned", float(planned)), ("recorded", float(len(numbers))))
    if numbers != list(range(1, len(numbers) + 1)):
        repeated = [n for n, times in Counter(numbers).items() if times > 1]
        says = f"Rounds are missing, repeated or out of order ({len(numbers)} lines, repeated: {repeated[:5]})."
        return Finding("rounds/out-of-order", Status.FAILED, says, counted)
    given_up = list(_given_up_in_name(evidence))
    if given_up:
        says = f"Rounds {given_up[:5]} are said to be given up, and their model is another than the one before."
        return Finding("rounds/given-up-in-name", Status.FAILED, says, counted)
    if len(numbers) > planned:
        return Finding(
            "rounds/too-many", Status.FAILED, f"{len(numbers)} rounds were run, {planned} were planned.", counted
        )
    if any(record.diverged for record in evidence.records):
        says = f"Training diverged in round {len(numbers)} of {planned}: the released model or its loss is not finite. "
        return Finding("rounds/diverged", Status.WARNED, says + "The whole plan stays charged.", counted)
    if evidence.records and evidence.records[0].given_up:
        says = "The first round was given up: that its model is the starting one, no record shows."
        return Finding("rounds/given-up-at-once", Status.WARNED, says, counted)
    if len(numbers) < planned:
        says = f"{len(numbers)} of {planned} planned rounds were run; the whole plan stays charged."
        return Finding("rounds/stopped-early", Status.WARNED, says, counted)
    return Finding("rounds/holds", Status.PASSED, f"All {planned} rounds are recorded, in order.", counted)


def _given_up_in_name(evidence: RunEvidence) -> Iterator[int]:
    """Rounds that released something after all, or under a scheme that gives nothing up."""
    for before, record in zip((None, *evidence.records), evidence.records, strict=False):
        same = before is None or before.output_hash == record.output_hash
        if record.given_up and not (same and evidence.plan.scheme.gives_up(0)):
            yield record.round
