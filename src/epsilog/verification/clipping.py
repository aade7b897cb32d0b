"""Was every contribution clipped to the norm that the noise was scaled to, and every sum divided by a public number?"""

from __future__ import annotations

import math

import numpy as np

from epsilog.terms import Finding, Status
from epsilog.verification.columns import Rounds
from epsilog.verification.evidence import Claim, Evidence
from epsilog.verification.hidden import TOO_RARE
from epsilog.verification.noise import check_count
from epsilog.verification.sampler_tests import Ids, Numbers

ROUNDING = 1e-5  # float32 norms: a few thousand terms at 6e-8 each
SAME = 1e-12  # relatively: how far an exponential may come out elsewhere
CLOSE = 1e-6  # relatively: how well a number in single precision is kept


def check_clipping(evidence: Evidence) -> Finding:
    """Compare the clip norm and the noise that were set with the plan: ours exactly, those of logs by their ratio."""
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
        message = f"{len(differing)} rounds, such as {differing[:5]}, declare another clip norm or noise than the "
        return Finding("clipping/settings-mismatch", Status.FAILED, f"{message}planned {planned}.")
    message = f"Every round declares the planned clip norm {planned[0]:g} and noise {planned[1]:.6g}."
    if scheme.adaptive_clip and records:
        message = (
            f"Clip norms go from {planned[0]:g} to {records[-1].clip_norm:g} as the released shares of unclipped "
            "updates make them, and the noise with them."
        )
    return Finding("clipping/passed", Status.PASSED, message)


def compute_noise_multipliers(rounds: Rounds | None, claim: Claim) -> Numbers | None:
    """Return noise over clip norm, round by round; what is not logged is as claimed; None where neither is."""
    if rounds is None or (rounds.noise_stddev is None and rounds.clip_norm is None):
        return None
    scheme = claim.scheme
    clip_norm = np.full(rounds.number.size, scheme.clip_norm) if rounds.clip_norm is None else rounds.clip_norm
    noise = scheme.noise_stddev if rounds.noise_stddev is None else rounds.noise_stddev
    with np.errstate(divide="ignore", invalid="ignore"):
        found = noise / clip_norm
    return np.asarray(np.where(clip_norm > 0, found, np.inf))  # nothing passes a clip norm of 0


def _check_multipliers(evidence: Evidence) -> Finding:
    """Check that the logged noise is, over the logged clip norm, no less than claimed."""
    scheme, rounds = evidence.claim.scheme, evidence.rounds
    found = compute_noise_multipliers(rounds, evidence.claim)
    assert found is not None
    claimed, low, high = scheme.noise_multiplier, float(found.min()), float(found.max())
    numbers = (("claimed_multiplier", claimed), ("lowest_multiplier", low), ("highest_multiplier", min(high, 1e300)))
    if low < claimed * (1 - CLOSE):
        weak = int((found < claimed * (1 - CLOSE)).sum())
        message = f"In {weak} rounds the noise that was set is less than {claimed:g} clip norms, down to {low:.6g}."
        return Finding("clipping/settings-mismatch", Status.FAILED, message, numbers)
    if high > claimed * (1 + CLOSE):
        message = f"The noise that was set is up to {high:.6g} clip norms, where {claimed:g} is claimed: "
        return Finding("clipping/more-noise", Status.WARNED, message + "is its unit right?", numbers)
    clips = None if rounds is None else rounds.clip_norm
    if clips is not None and not np.allclose(clips, scheme.clip_norm, rtol=CLOSE):
        message = f"Clip norms are {clips.min():g} to {clips.max():g}, where {scheme.clip_norm:g} is claimed; "
        return Finding("clipping/norm-mismatch", Status.WARNED, message + "noise followed.", numbers)
    message = f"The noise that was set is {claimed:g} clip norms in every round."
    return Finding("clipping/passed", Status.PASSED, message, numbers)


def check_norms(evidence: Evidence) -> Finding:
    """Check that no contribution is longer than its round's clip norm, over all groups of parameters together."""
    scheme, lists, rounds = evidence.claim.scheme, evidence.participation, evidence.rounds
    assert lists is not None
    assert lists.largest_norm is not None
    custody, largest = evidence.custody or (), lists.largest_norm
    if not largest.size:
        return Finding("norms/not-checked", Status.NOT_CHECKED, "The curator's records hold no round.")
    limits = np.full(largest.size, scheme.clip_norm)
    if rounds is not None and rounds.clip_norm is not None and (evidence.logs is not None or scheme.adaptive_clip):
        here = rounds.number <= limits.size
        limits[rounds.number[here] - 1] = rounds.clip_norm[here]
    over = np.flatnonzero(~(np.nan_to_num(largest) <= limits * (1 + ROUNDING))) + 1
    if any(record.largest_norm is None for record in custody) and not over.size:
        message = "Clients clipped where their rows lie, and nobody else saw a norm."
        return Finding("norms/not-checked", Status.NOT_CHECKED, message)
    limit, longest = float(limits.max()), float(np.nan_to_num(largest).max())
    numbers = (("clip_norm", limit), ("largest_norm", longest), *_count_changed_contributions(evidence))
    if over.size:
        message = f"{over.size} rounds hold norms above the clip norm, such as {over[:5].tolist()}."
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
    """Count what our own curator noted: clipped contributions, those that were no numbers, and rows of no use."""
    if not (custody := evidence.custody):
        return ()
    shortened = sum(record.clipped_fraction for record in custody) / len(custody)
    dropped, unusable = (sum(getattr(one, name) for one in custody) for name in ("non_finite_updates", "unusable_rows"))
    return ("clipped_fraction", shortened), ("non_finite_updates", float(dropped)), ("unusable_rows", float(unusable))


def check_divisor(evidence: Evidence) -> Finding:
    """Check that the divisor is one public number: the size of the cohort that came about is a function of the data."""
    rounds = evidence.rounds
    assert rounds is not None
    assert rounds.divisor is not None
    divisor, claimed, sizes = rounds.divisor, evidence.claim.divisor, _get_row_sizes(evidence, rounds)
    numbers = (("smallest", float(divisor.min())), ("largest", float(divisor.max())))
    if divisor.max() > divisor.min() * (1 + CLOSE):
        if sizes is not None and np.allclose(divisor, np.maximum(sizes, 1), rtol=CLOSE):
            message = "Sums were divided by the cohort that came about, which no accountant's analysis covers."
            return Finding("divisor/realized-cohort-size", Status.FAILED, message, numbers)
        message = f"The divisor changes from round to round ({divisor.min():g} to {divisor.max():g}): "
        return Finding("divisor/varies", Status.FAILED, message + "what does it depend on?", numbers)
    if claimed is not None and not np.allclose(divisor, claimed, rtol=CLOSE):
        message = f"Sums were divided by {divisor[0]:g}, where {claimed:g} is claimed."
        return Finding("divisor/mismatch", Status.FAILED, message, numbers)
    return Finding("divisor/passed", Status.PASSED, f"Every sum was divided by {divisor[0]:g}.", numbers)


def _get_row_sizes(evidence: Evidence, rounds: Rounds) -> Ids | None:
    """Return the cohort of each row of the log of rounds."""
    if rounds.cohort is not None:
        return rounds.cohort
    sizes = evidence.cohort_sizes
    return None if sizes is None else np.asarray(sizes[rounds.number - 1])
