"""Was the noise as strong as planned? A chi-square test on padding coordinates, whose true sum is 0.

With n values of known mean 0 and planned standard deviation s, sum(x^2) / s^2 is chi-square with n degrees of freedom.
The same statistic gives a confidence interval for the standard deviation that was really used; the claim is also priced
at the interval's weak end, as a what-if.
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
from epsilog.verification.drift import bound_noise_drift
from epsilog.verification.evidence import FALSE_ALARM, Evidence
from epsilog.verification.reuse import PaddingRound, check_noise_reuse, clamp

REUSE_SHARE, REUSE_SHARE_OF_LOGS = 1e-3, 0.5  # of false alarms, for noise that repeats; logs may lack digits
COARSEST = 0.25  # standard deviations: the widest step between values that is taken for how they were rounded


def compute_stddev_interval(padding: Sequence[float], *, failure_probability: float) -> tuple[float, float]:
    """Two-sided interval for the standard deviation of mean-zero Gaussian values.

    Args:
        padding: the values; at least one.
        failure_probability: chance that the interval misses, in (0, 1).

    Returns:
        Lower and upper end, in the values' own unit.

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
    """The sum of squares in a unit; the largest double where that is beyond all of them."""
    try:
        return clamp(math.fsum((x / unit) * (x / unit) for x in values))
    except (OverflowError, ValueError):  # in between, or infinities
        return sys.float_info.max


def compute_power(values: int, *, share: float, false_alarm_rate: float = FALSE_ALARM) -> float:
    """The chance that ``check_noise`` rejects noise at ``share`` of the planned standard deviation.

    >>> compute_power(960, share=0.7) > 0.999999, compute_power(48, share=0.7) < 0.2
    (True, True)
    """
    values = check.integer(1)(values=values)
    share = check.in_open_interval(0, 1)(share=share)
    false_alarm_rate = check.in_open_interval(0, 1)(false_alarm_rate=false_alarm_rate)
    return float(chdtr(values, chdtri(values, 1 - false_alarm_rate / 2) / share**2))


def check_noise(evidence: Evidence) -> Finding:
    """Check that noise has the claimed standard deviation in every round, and that none of it repeats."""
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
    if bare := evidence.unpadded_rounds:
        message = f"{len(bare)} rounds have no padding, such as {bare[:5]}."
        counted = (("rounds_without_padding", float(len(bare))),)
        return Finding("noise/not-checked", Status.NOT_CHECKED, message, counted, missing_evidence=lacks)
    return found if again is None or evidence.logs is None else again  # our records hold every digit


def compare_padding(
    records: Sequence[PaddingRound], noise_stddev: float, false_alarm_rate: float = FALSE_ALARM
) -> Finding:
    """Compare padding, of which there is some, with the planned noise."""
    padding = [value for record in records for value in record.padding]
    if noise_stddev == 0:
        quiet = not any(padding)
        says = "No noise was planned" + (" and none was drawn." if quiet else ", yet padding holds noise.")
        return (
            Finding("noise/passed", Status.PASSED, says) if quiet else Finding("noise/unplanned", Status.FAILED, says)
        )
    count, ratio = len(padding), _squares(padding, noise_stddev)
    weak, strong = float(chdtr(count, ratio)), float(chdtrc(count, ratio))
    low, high = compute_stddev_interval(padding, failure_probability=0.05)
    chances = _as_weak(records, noise_stddev)
    quietest, p_quietest = _quietest(chances)
    p_uneven = _together([p for p, _ in chances])
    p_drift, drifted = bound_noise_drift(*_sums(records, noise_stddev))
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
    if weak < false_alarm_rate / 2:
        says = f"The noise is too weak: {share:.1%} of the planned standard deviation on {count} padding values."
        return Finding("noise/too-weak", Status.FAILED, says, numbers, false_alarm_rate=false_alarm_rate)
    if p_quietest < false_alarm_rate / 4:
        says = f"The noise of round {quietest} is too weak for the plan, whatever that of the others."
        return Finding("noise/too-weak-in-a-round", Status.FAILED, says, numbers, false_alarm_rate=false_alarm_rate)
    if p_uneven < false_alarm_rate / 8:
        says = "The noise is too weak in too many rounds, though that of the others makes up for it in the mean."
        return Finding("noise/uneven", Status.FAILED, says, numbers, false_alarm_rate=false_alarm_rate)
    if p_drift < false_alarm_rate / 8:
        says = f"The noise falls on the way: by round {records[drifted - 1].round} it had been too weak for a while."
        return Finding("noise/drift", Status.FAILED, says, numbers, false_alarm_rate=false_alarm_rate)
    if strong < false_alarm_rate / 2:
        says = f"The noise is stronger than planned ({share:.1%} of its stddev): the claim holds, utility suffers."
        return Finding("noise/too-strong", Status.WARNED, says, numbers, false_alarm_rate=false_alarm_rate)
    says = f"The noise agrees with the plan: {share:.1%} of its standard deviation on {count} padding values."
    return Finding("noise/passed", Status.PASSED, says, numbers, false_alarm_rate=false_alarm_rate)


def _sums(records: Sequence[PaddingRound], noise_stddev: float) -> tuple[list[int], list[float]]:
    """How many values each round has, and the sum of their squares."""
    return [len(one.padding) for one in records], [_squares(one.padding, noise_stddev) for one in records]


def check_count(
    custody: Sequence[CustodyRecord],
    records: Sequence[RoundRecord],
    scheme: Scheme,
    *,
    false_alarm_rate: float = FALSE_ALARM,
) -> Finding | None:
    """Compares the noise on the released counts of clipped updates with the plan; None where nothing is wrong.

    The curator's records hold the true count of every round, so its noise is what the released share adds to it.

    Args:
        custody: the curator's records, of the same rounds.
        records: the public records, with the released shares.
        scheme: as planned; one that releases a count.
        false_alarm_rate: chance of rejecting a sound run, in (0, 1).
    """
    if scheme.count_noise is None or any(record.unclipped is None for record in records):
        return None  # that a share is missing is for ``check_clipping`` to say
    planned, divisor = scheme.count_noise
    noise = [_of_count(private, public, divisor) for private, public in zip(custody, records, strict=True)]
    count, ratio = len(noise), _squares(noise, planned)
    share = math.sqrt(ratio / count)
    numbers = (("rounds", float(count)), ("planned_stddev", planned), ("observed_stddev", clamp(planned * share)))
    told = f"{share:.1%} of the planned standard deviation in {count} rounds."
    if float(chdtr(count, ratio)) < false_alarm_rate / 2:
        says = f"The noise on the counts of clipped updates is too weak: {told}"
        return Finding("norms/count-noise-too-weak", Status.FAILED, says, numbers, false_alarm_rate=false_alarm_rate)
    if float(chdtrc(count, ratio)) < false_alarm_rate / 2:
        says = f"The noise on the counts of clipped updates is too strong, or they are others: {told}"
        return Finding("norms/count-noise-too-strong", Status.WARNED, says, numbers, false_alarm_rate=false_alarm_rate)
    return None


def _of_count(private: CustodyRecord, public: RoundRecord, divisor: float) -> float:
    """What was added to one round's count of updates within the clip norm, less a half each."""
    assert public.unclipped is not None
    answered = len(private.participants) - private.non_responders
    above_half = answered / 2 - private.clipped_fraction * answered
    return (public.unclipped - 0.5) * divisor - above_half


def _as_weak(records: Sequence[PaddingRound], noise_stddev: float) -> list[tuple[float, int]]:
    """How likely each round's padding is so quiet, or quieter, beside its number.

    What was written 0 may have been half a cell of its grid: each value is taken at the far end of its cell, so that
    the chances are too large at most.
    """
    half = _half_a_cell(records, noise_stddev)
    furthest = [([abs(value) + half for value in one.padding], one.round) for one in records]
    return [(float(chdtr(len(values), _squares(values, noise_stddev))), number) for values, number in furthest]


def _half_a_cell(records: Sequence[PaddingRound], noise_stddev: float) -> float:
    """Half the smallest step between values, which is no less than that of a grid on which they lie."""
    values = sorted({0.0} | {abs(value) for one in records for value in one.padding})
    step = min((after - before for before, after in pairwise(values)), default=0.0)
    return min(step, noise_stddev * COARSEST) / 2


def _quietest(chances: Sequence[tuple[float, int]]) -> tuple[int, float]:
    """The round whose padding is least likely, and how likely some round is that quiet (union bound)."""
    p, quietest = min(chances)
    return quietest, min(1.0, len(chances) * p)


def _together(chances: Sequence[float]) -> float:
    """How likely independent chances, each uniform under the plan, are so small together.

    Source: Fisher 1932: -2 sum ln p is chi-square with two degrees of freedom for each.
    """
    logs = math.fsum(math.log(p) if p > 0 else -math.inf for p in chances)
    return float(chdtrc(2 * len(chances), -2 * logs)) if math.isfinite(logs) else 0.0
