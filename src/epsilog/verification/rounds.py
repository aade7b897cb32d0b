"""Check that round records are complete and in order, each round starts once, and aborted rounds release nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from epsilog.terms import Finding, Status
from epsilog.verification.columns import ReadSummary, Rounds
from epsilog.verification.evidence import Evidence


def check_rounds(evidence: Evidence) -> Finding:
    """Check that every planned round is recorded once, and that no log names another one.

    Our own records must be in order. Participation lists may have gaps: a round without participants has no row there.
    """
    planned, named, rounds = evidence.claim.scheme.rounds, evidence.round_numbers, evidence.rounds
    last = int(named.max(initial=0))
    counted = (("planned", float(planned)), ("recorded", float(last)))
    if rounds is not None:
        numbers, times = np.unique(rounds.number, return_counts=True)
        in_order = evidence.logs is not None or bool((np.diff(rounds.number) > 0).all())
        if numbers.size != numbers.max(initial=0) or (times > 1).any() or not in_order:
            missing = np.setdiff1d(np.arange(1, min(last, planned + numbers.size) + 1), numbers)
            message = f"Rounds are missing, repeated or out of order: {rounds.number.size} rows, missing rounds "
            message += f"{missing[:5].tolist()}, repeated rounds {numbers[times > 1][:5].tolist()}."
            return Finding("rounds/out-of-order", Status.FAILED, message, counted)
        if (alone := np.setdiff1d(named, numbers)).size:
            message = f"The round log lacks {alone.size} rounds that other logs name, such as "
            return Finding("rounds/missing", Status.FAILED, f"{message}{alone[:5].tolist()}.", counted)
    if aborted := list(_iterate_changed_rounds(evidence)):
        message = f"Rounds {aborted[:5]} are marked as aborted, but their model differs from the previous one."
        return Finding("rounds/aborted-with-output", Status.FAILED, message, counted)
    if last > planned:
        return Finding("rounds/too-many", Status.FAILED, f"{last} rounds were run, {planned} were planned.", counted)
    records = evidence.records or ()
    if any(record.diverged for record in records):
        message = f"Training diverged in round {last} of {planned}: the released model or its loss is not finite. "
        return Finding("rounds/diverged", Status.WARNED, message + "The whole plan stays charged.", counted)
    if records and records[0].aborted:
        message = "The first round was aborted; no record shows that its model is the initial one."
        return Finding("rounds/aborted-immediately", Status.WARNED, message, counted)
    if last < planned:
        message = f"{last} of {planned} planned rounds are recorded: the run stopped early, or records are truncated. "
        return Finding("rounds/stopped-early", Status.WARNED, message + "The whole plan stays charged.", counted)
    return Finding("rounds/passed", Status.PASSED, f"All {planned} rounds are recorded, in order.", counted)


def _iterate_changed_rounds(evidence: Evidence) -> Iterator[int]:
    """Find aborted rounds that changed the model, or that the scheme does not permit."""
    records = evidence.records or ()
    for before, record in zip((None, *records), records, strict=False):
        same = before is None or before.output_hash == record.output_hash
        if record.aborted and not (same and evidence.claim.scheme.aborts_round(0)):
            yield record.round


def check_attempts(evidence: Evidence) -> Finding:
    """Count attempts: a repeated round permits selecting an outcome, so every attempt may cost privacy."""
    attempts = evidence.attempts
    assert attempts is not None
    numbers = (("rounds_begun", float(len(attempts))), ("attempts", float(sum(attempts.values()))))
    further = sum(attempts.values()) - len(attempts)
    unreleased = [] if evidence.ledger is None else sorted(attempts.keys() - evidence.ledger.released.keys())
    if not further and not unreleased:
        return Finding("attempts/passed", Status.PASSED, "Every round was started once.", numbers)
    counted = "1 further attempt at a round is" if further == 1 else f"{further} further attempts at rounds are"
    parts = [f"{counted} recorded"] if further else []
    if further and evidence.logs is None:
        parts[0] += f", at {[number for number, times in sorted(attempts.items()) if times > 1][:5]}"
    parts += [f"rounds {unreleased[:5]} were started and not released"] if unreleased else []
    message = "; ".join(parts) + ". The claim holds if no result of an attempt was seen before the next one."
    return Finding("attempts/repeated", Status.WARNED, message[0].upper() + message[1:], numbers)


def check_columns(evidence: Evidence) -> Iterator[Finding]:
    """Report the rows and columns read, and rows that a log written during the run would not contain."""
    logs = evidence.logs
    assert logs is not None
    parts = {"rounds": logs.rounds, "participation": logs.lists, "enrollment": logs.enrolled}
    copies = {name: part.copies for name, part in parts.items() if part is not None and part.copies}
    numbers = tuple((f"{one.name}_{what}", float(getattr(one, what))) for one in logs.summaries for what in COUNTED)

    def warn(code: str, message: str, **counts: int) -> Finding:
        found = tuple((name, float(count)) for name, count in counts.items())
        return Finding(f"log/{code}", Status.WARNED, message, numbers + found)

    if copies:
        many = ", ".join(f"{count} of {name}" for name, count in copies.items())
        message = f"Identical rows were counted once ({many})."
        yield warn("duplicated-rows", message, **{f"{name}_copies": count for name, count in copies.items()})
    if logs.lists is not None and (late := logs.lists.late):
        message = f"{late} rows have a time outside their round; each was counted in that round."
        yield warn("timestamp-outside-round", message, late=late)
    if logs.rounds is not None and (backwards := int((np.diff(logs.rounds.number) < 0).sum())):
        message = f"{backwards} rows of the round log name an earlier round than the previous row."
        yield warn("out-of-order", message, backwards=backwards)
    if logs.rounds is not None and (earlier := _count_early_ends(logs.rounds)):
        message = f"In the round log, {earlier} rounds ended before the previous round did."
        yield warn("timestamps-decreasing", message, earlier=earlier)
    if again := logs.padding_copies:
        message = f"{again} rows of padding repeat the round and the value of another row."
        yield warn("repeated-padding", message, copies=again)
    for one in logs.summaries:
        if one.like_read:
            message = f"The filter of {one.file} ({_format_filter(one)}) excludes {one.left_out} rows, of which "
            message += f"{one.like_read} are valid: their contents were not checked."
            yield warn("rows-excluded", message, like_read=one.like_read)
    read = "; ".join(map(_format_summary, logs.summaries))
    yield Finding("log/passed", Status.PASSED, f"Every value is valid. {read}.", numbers)


COUNTED = ("rows", "left_out")


def _format_summary(summary: ReadSummary) -> str:
    read = f"{summary.rows} rows of {summary.file}"
    read += f", {summary.left_out} excluded by the filter ({_format_filter(summary)})" if summary.where else ""
    return read + (f", columns not read: {', '.join(summary.unread)}" if summary.unread else "")


def _format_filter(summary: ReadSummary) -> str:
    return ", ".join(f"{column} = {value!r}" for column, value in summary.where.items())


def _count_early_ends(rounds: Rounds) -> int:
    """Count rounds that ended before the previous one."""
    return 0 if rounds.ended is None else int((np.diff(rounds.ended[rounds.order]) < 0).sum())
