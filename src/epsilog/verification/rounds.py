"""Check the rounds, and each round's settings: clip norm, configured noise, norms and divisor."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from epsilog.terms import Finding, Status
from epsilog.verification.columns import ReadSummary, Rounds
from epsilog.verification.evidence import Claim, Evidence
from epsilog.verification.hidden import TOO_RARE
from epsilog.verification.noise import check_count
from epsilog.verification.sampler_tests import Ids, Numbers


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


ROUNDING = 1e-5  # float32 norms: a few thousand terms at 6e-8 each
SAME = 1e-12  # relative difference of exponentials between platforms
CLOSE = 1e-6  # relative rounding error of numbers in single precision


def check_clipping(evidence: Evidence) -> Finding:
    """Compare configured clip norms and noise with the claim: exactly for our records, by their ratio for logs."""
    return _check_declared_settings(evidence) if evidence.logs is None else _check_multipliers(evidence)


def _check_declared_settings(evidence: Evidence) -> Finding:
    scheme, records = evidence.claim.scheme, evidence.records or ()
    differing = [
        record.round
        for record, clip_norm in zip(records, scheme.clip_norms(records), strict=True)
        if not math.isclose(record.clip_norm, clip_norm, rel_tol=SAME)
        or record.noise_stddev != scheme.noise_multiplier * record.clip_norm
        or (record.unclipped is not None) != scheme.adaptive_clip
    ]
    planned = (scheme.clip_norm, scheme.noise_stddev)
    if differing:
        message = f"{len(differing)} rounds, such as {differing[:5]}, declare a clip norm or noise that differs from "
        return Finding("clipping/settings-mismatch", Status.FAILED, f"{message}the planned {planned}.")
    message = f"Every round declares the planned clip norm {planned[0]:g} and noise {planned[1]:.6g}."
    if scheme.adaptive_clip and records:
        message = (
            f"Clip norms go from {planned[0]:g} to {records[-1].clip_norm:g}, as the released fractions of unclipped "
            "updates imply, and the noise is proportional to them."
        )
    return Finding("clipping/passed", Status.PASSED, message)


def compute_noise_multipliers(rounds: Rounds | None, claim: Claim) -> Numbers | None:
    """Return noise over clip norm of each round; an unlogged column is taken as claimed; None if both are unlogged."""
    if rounds is None or (rounds.noise_stddev is None and rounds.clip_norm is None):
        return None
    scheme = claim.scheme
    clip_norm = np.full(rounds.number.size, scheme.clip_norm) if rounds.clip_norm is None else rounds.clip_norm
    noise = scheme.noise_stddev if rounds.noise_stddev is None else rounds.noise_stddev
    with np.errstate(divide="ignore", invalid="ignore"):
        found = noise / clip_norm
    return np.asarray(np.where(clip_norm > 0, found, np.inf))  # a clip norm of 0 releases no data


def _check_multipliers(evidence: Evidence) -> Finding:
    """Check that the logged ratio of noise to clip norm is at least the claimed one."""
    scheme, rounds = evidence.claim.scheme, evidence.rounds
    found = compute_noise_multipliers(rounds, evidence.claim)
    assert found is not None
    claimed, low, high = scheme.noise_multiplier, float(found.min()), float(found.max())
    numbers = (("claimed_multiplier", claimed), ("lowest_multiplier", low), ("highest_multiplier", min(high, 1e300)))
    if low < claimed * (1 - CLOSE):
        weak = int((found < claimed * (1 - CLOSE)).sum())
        message = f"In {weak} rounds the configured noise is below {claimed:g} clip norms, down to {low:.6g}."
        return Finding("clipping/settings-mismatch", Status.FAILED, message, numbers)
    if high > claimed * (1 + CLOSE):
        message = f"The configured noise is up to {high:.6g} clip norms, but {claimed:g} is claimed. "
        return Finding("clipping/more-noise", Status.WARNED, message + "Check its unit.", numbers)
    clips = None if rounds is None else rounds.clip_norm
    if clips is not None and not np.allclose(clips, scheme.clip_norm, rtol=CLOSE):
        message = f"Clip norms are {clips.min():g} to {clips.max():g}, but {scheme.clip_norm:g} is claimed; "
        return Finding("clipping/norm-mismatch", Status.WARNED, message + "the noise is proportional.", numbers)
    message = f"The configured noise is {claimed:g} clip norms in every round."
    return Finding("clipping/passed", Status.PASSED, message, numbers)


def check_norms(evidence: Evidence) -> Finding:
    """Check that no contribution exceeds its round's clip norm, over all parameter groups together."""
    scheme, lists, rounds = evidence.claim.scheme, evidence.participation, evidence.rounds
    assert lists is not None
    assert lists.largest_norm is not None
    custody, largest = evidence.custody or (), lists.largest_norm
    if not largest.size:
        return Finding("norms/not-checked", Status.NOT_CHECKED, "The curator's records contain no round.")
    limits = np.full(largest.size, scheme.clip_norm)
    if rounds is not None and rounds.clip_norm is not None and (evidence.logs is not None or scheme.adaptive_clip):
        here = rounds.number <= limits.size
        limits[rounds.number[here] - 1] = rounds.clip_norm[here]
    over = np.flatnonzero(~(np.nan_to_num(largest) <= limits * (1 + ROUNDING))) + 1
    if any(record.largest_norm is None for record in custody) and not over.size:
        message = "Clients clipped locally and reported no norms."
        return Finding("norms/not-checked", Status.NOT_CHECKED, message)
    limit, longest = float(limits.max()), float(np.nan_to_num(largest).max())
    numbers = (("clip_norm", limit), ("largest_norm", longest), *_count_changed_contributions(evidence))
    if over.size:
        message = f"{over.size} rounds contain norms above the clip norm, such as {over[:5].tolist()}."
        return Finding("norms/too-large", Status.FAILED, message, numbers)
    rate = 0.0 if scheme.count_noise is None else evidence.hidden_false_alarm_rate
    if scheme.count_noise is not None and not rate:
        return Finding("norms/not-checked", Status.NOT_CHECKED, TOO_RARE)
    records = evidence.records or ()
    if len(custody) == len(records) and (found := check_count(custody, records, scheme, false_alarm_rate=rate)):
        return found
    message = f"No norm exceeds {limit:g} (largest {longest:.6g}); "
    message += ", ".join(f"{name.replace('_', ' ')}: {value:g}" for name, value in numbers[2:])
    return Finding("norms/passed", Status.PASSED, f"{message.removesuffix('; ')}.", numbers, false_alarm_rate=rate)


def _count_changed_contributions(evidence: Evidence) -> tuple[tuple[str, float], ...]:
    """Return counts from our curator's records: clipped and non-finite contributions, and unusable rows."""
    if not (custody := evidence.custody):
        return ()
    shortened = sum(record.clipped_fraction for record in custody) / len(custody)
    dropped, unusable = (sum(getattr(one, name) for one in custody) for name in ("non_finite_updates", "unusable_rows"))
    return ("clipped_fraction", shortened), ("non_finite_updates", float(dropped)), ("unusable_rows", float(unusable))


def check_divisor(evidence: Evidence) -> Finding:
    """Check that the divisor is a public constant; realized cohort sizes depend on the data."""
    rounds = evidence.rounds
    assert rounds is not None
    assert rounds.divisor is not None
    divisor, claimed, sizes = rounds.divisor, evidence.claim.divisor, _get_row_sizes(evidence, rounds)
    numbers = (("smallest", float(divisor.min())), ("largest", float(divisor.max())))
    if divisor.max() > divisor.min() * (1 + CLOSE):
        if sizes is not None and np.allclose(divisor, np.maximum(sizes, 1), rtol=CLOSE):
            message = "Sums were divided by the realized cohort size, which no accountant's analysis covers."
            return Finding("divisor/realized-cohort-size", Status.FAILED, message, numbers)
        message = f"The divisor varies between rounds ({divisor.min():g} to {divisor.max():g}); "
        return Finding("divisor/varies", Status.FAILED, message + "it may depend on the data.", numbers)
    if claimed is not None and not np.allclose(divisor, claimed, rtol=CLOSE):
        message = f"Sums were divided by {divisor[0]:g}, but {claimed:g} is claimed."
        return Finding("divisor/mismatch", Status.FAILED, message, numbers)
    return Finding("divisor/passed", Status.PASSED, f"Every sum was divided by {divisor[0]:g}.", numbers)


def _get_row_sizes(evidence: Evidence, rounds: Rounds) -> Ids | None:
    """Return the cohort size for each row of the round log."""
    if rounds.cohort is not None:
        return rounds.cohort
    sizes = evidence.cohort_sizes
    return None if sizes is None else np.asarray(sizes[rounds.number - 1])
