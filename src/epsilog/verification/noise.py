"""Test the noise against the plan, by chi-square tests on padding coordinates, with true sum 0.

With n values of known mean 0 and planned standard deviation s, sum(x^2) / s^2 is chi-square with n degrees of freedom.
The same statistic gives a confidence interval for the true standard deviation; a what-if recomputes epsilon at its
lower end.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from scipy.special import chdtr, chdtrc, chdtri

from epsilog.schemes import Scheme
from epsilog.terms import CheckError, CustodyRecord, Finding, RoundRecord, Status, arrays, check
from epsilog.verification.evidence import FALSE_ALARM, Evidence
from epsilog.verification.reuse import PaddingRound, check_noise_reuse, clamp
from epsilog.verification.sampler_tests import bound_noise_drift

REUSE_SHARE, REUSE_SHARE_OF_LOGS = 1e-3, 0.5  # the reuse test's part of the false-alarm rate; logs may lack digits
COARSEST = 0.25  # standard deviations: the widest step between values that counts as rounding


def compute_stddev_interval(padding: Sequence[float], *, failure_probability: float) -> tuple[float, float]:
    """Return a two-sided confidence interval for the standard deviation of mean-zero Gaussian values.

    Args:
        padding: the values; at least one.
        failure_probability: probability that the interval misses, in (0, 1).

    Returns:
        Lower and upper end, in the unit of the values.

    >>> low, high = compute_stddev_interval([1.0, -1.0] * 500, failure_probability=0.05)
    >>> round(low, 3), round(high, 3)
    (0.958, 1.046)
    """
    failure_probability = check.in_open_interval(0, 1)(failure_probability=failure_probability)
    values = arrays.doubles("padding", padding)
    count, squares = check.integer(1)(padding=len(values)), _squares(values.tolist(), 1.0)
    if np.isnan(values).any():
        raise CheckError("padding", "numbers", "NaN", verb="hold")
    low = math.sqrt(squares / float(chdtri(count, failure_probability / 2)))
    high = math.sqrt(squares / float(chdtri(count, 1 - failure_probability / 2)))
    return low, high


def _squares(values: Sequence[float], unit: float) -> float:
    """Return the sum of squares in a unit, at most the largest double."""
    try:
        return clamp(math.fsum((x / unit) * (x / unit) for x in values))
    except (OverflowError, ValueError):  # an intermediate overflow, or infinities
        return sys.float_info.max


def compute_power(values: int, *, share: float, false_alarm_rate: float = FALSE_ALARM) -> float:
    """Return the probability that ``check_noise`` rejects noise at ``share`` of the planned standard deviation.

    >>> compute_power(960, share=0.7) > 0.999999, compute_power(48, share=0.7) < 0.2
    (True, True)
    """
    values = check.integer(1)(values=values)
    share = check.in_open_interval(0, 1)(share=share)
    false_alarm_rate = check.in_open_interval(0, 1)(false_alarm_rate=false_alarm_rate)
    return float(chdtr(values, chdtri(values, 1 - false_alarm_rate / 2) / share**2))


def check_noise(evidence: Evidence) -> Finding:
    """Check that noise has the claimed standard deviation in every round, and is never reused."""
    rounds, planned, false_alarm_rate = evidence.padding, evidence.claim.scheme.noise_stddev, evidence.false_alarm_rate
    share = REUSE_SHARE if evidence.logs is None else REUSE_SHARE_OF_LOGS
    found = compare_padding(rounds, planned, false_alarm_rate * (1 - share))
    again = check_noise_reuse(rounds, planned, evidence.digits, false_alarm_rate * share)
    if again is not None and again.status is Status.FAILED:
        found = again
    found = replace(found, false_alarm_rate=false_alarm_rate) if found.false_alarm_rate else found
    if found.status is Status.FAILED:
        return found
    lacks = "" if evidence.logs is None else "padding"
    if unpadded := evidence.unpadded_rounds:
        message = f"{len(unpadded)} rounds have no padding, such as {unpadded[:5]}."
        counted = (("rounds_without_padding", float(len(unpadded))),)
        return Finding("noise/not-checked", Status.NOT_CHECKED, message, counted, missing_evidence=lacks)
    return found if again is None or evidence.logs is None else again  # our records have full precision


def compare_padding(
    records: Sequence[PaddingRound], noise_stddev: float, false_alarm_rate: float = FALSE_ALARM
) -> Finding:
    """Compare nonempty padding with the planned noise."""
    padding = [value for record in records for value in record.padding]
    if noise_stddev == 0:
        if any(padding):
            return Finding("noise/unplanned", Status.FAILED, "No noise was planned, yet the padding contains noise.")
        return Finding("noise/passed", Status.PASSED, "No noise was planned and none was drawn.")
    count, ratio = len(padding), _squares(padding, noise_stddev)
    weak, strong = float(chdtr(count, ratio)), float(chdtrc(count, ratio))
    low, high = compute_stddev_interval(padding, failure_probability=0.05)
    p_values = _compute_weak_p_values(records, noise_stddev)
    least, quietest = min(p_values)
    p_quietest = min(1.0, len(p_values) * least)  # union bound
    p_uneven = _combine_p_values([p for p, _ in p_values])
    squares = [_squares(one.padding, noise_stddev) for one in records]
    p_drift, drifted = bound_noise_drift([len(one.padding) for one in records], squares)
    numbers = (
        ("values", count),
        ("planned_stddev", noise_stddev),
        ("observed_stddev", clamp(noise_stddev * math.sqrt(ratio / count))),
        ("stddev_low", low),
        ("stddev_high", high),
        ("p_too_weak", weak),
        ("p_too_strong", strong),
        ("p_quietest_round", p_quietest),
        ("p_weak_rounds", p_uneven),
        ("p_drift", p_drift),
    )
    share = math.sqrt(ratio / count)
    code, status = "noise/passed", Status.PASSED
    message = f"The noise agrees with the plan: {share:.1%} of its standard deviation on {count} padding values."
    if weak < false_alarm_rate / 2:
        code, status = "noise/too-weak", Status.FAILED
        message = f"The noise is too weak: {share:.1%} of the planned standard deviation on {count} padding values."
    elif p_quietest < false_alarm_rate / 4:
        code, status = "noise/too-weak-in-a-round", Status.FAILED
        message = f"The noise of round {quietest} is too weak for the plan."
    elif p_uneven < false_alarm_rate / 8:
        code, status = "noise/uneven", Status.FAILED
        message = "The noise is too weak in too many rounds, though the mean over all rounds is not."
    elif p_drift < false_alarm_rate / 8:
        code, status = "noise/drift", Status.FAILED
        message = f"The noise drifts: it was too weak over several rounds up to round {records[drifted - 1].round}."
    elif strong < false_alarm_rate / 2:
        code, status = "noise/too-strong", Status.WARNED
        message = f"The noise is stronger than planned ({share:.1%} of its stddev): the claim holds, utility suffers."
    return Finding(code, status, message, numbers, false_alarm_rate=false_alarm_rate)


def check_count(
    custody: Sequence[CustodyRecord],
    records: Sequence[RoundRecord],
    scheme: Scheme,
    *,
    false_alarm_rate: float = FALSE_ALARM,
) -> Finding | None:
    """Compare the noise on released counts of clipped updates with the plan; return None if it agrees.

    The curator's records contain the true count of every round, so the noise is its difference from the released one.

    Args:
        custody: the curator's records, of the same rounds.
        records: the public records, with the released fractions.
        scheme: the planned scheme.
        false_alarm_rate: probability of rejecting a sound run, in (0, 1).
    """
    if scheme.count_noise is None or any(record.unclipped is None for record in records):
        return None  # ``check_clipping`` reports a missing fraction
    planned, divisor = scheme.count_noise
    noise = [_compute_count_noise(private, public, divisor) for private, public in zip(custody, records, strict=True)]
    count, ratio = len(noise), _squares(noise, planned)
    share = math.sqrt(ratio / count)
    numbers = (("rounds", float(count)), ("planned_stddev", planned), ("observed_stddev", clamp(planned * share)))
    if float(chdtr(count, ratio)) < false_alarm_rate / 2:
        code, status, how = "norms/count-noise-too-weak", Status.FAILED, "too weak"
    elif float(chdtrc(count, ratio)) < false_alarm_rate / 2:
        code, status, how = "norms/count-noise-too-strong", Status.WARNED, "too strong, or the counts differ"
    else:
        return None
    message = f"The noise on the counts of clipped updates is {how}: "
    message += f"{share:.1%} of the planned standard deviation in {count} rounds."
    return Finding(code, status, message, numbers, false_alarm_rate=false_alarm_rate)


def _compute_count_noise(private: CustodyRecord, public: RoundRecord, divisor: float) -> float:
    """Return the noise on one round's count of updates within the clip norm, less a half each."""
    assert public.unclipped is not None
    answered = len(private.participants) - private.non_responders
    above_half = answered / 2 - private.clipped_fraction * answered
    return (public.unclipped - 0.5) * divisor - above_half


def _compute_weak_p_values(records: Sequence[PaddingRound], noise_stddev: float) -> list[tuple[float, int]]:
    """Return the p-value of weak noise in each round, with the round's number.

    Each value is moved to the far end of its rounding cell, so that rounding never makes a p-value too small.
    """
    half = _half_a_cell(records, noise_stddev)
    furthest = [([abs(value) + half for value in one.padding], one.round) for one in records]
    return [(float(chdtr(len(values), _squares(values, noise_stddev))), number) for values, number in furthest]


def _half_a_cell(records: Sequence[PaddingRound], noise_stddev: float) -> float:
    """Return half the smallest step between values, which is at least half the step of their grid."""
    values = sorted({0.0} | {abs(value) for one in records for value in one.padding})
    step = min((after - before for before, after in pairwise(values)), default=0.0)
    return min(step, noise_stddev * COARSEST) / 2


def _combine_p_values(p_values: Sequence[float]) -> float:
    """Return the combined p-value of independent ones (Fisher 1932: -2 sum ln p is chi-square, 2 n degrees)."""
    logs = math.fsum(math.log(p) if p > 0 else -math.inf for p in p_values)
    return float(chdtrc(2 * len(p_values), -2 * logs)) if math.isfinite(logs) else 0.0
