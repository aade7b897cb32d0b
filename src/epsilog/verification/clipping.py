"""Was every contribution clipped to the norm that the noise was scaled to?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from epsilog.schemes import Scheme
from epsilog.terms import CustodyRecord, Finding, RoundRecord, Status
from epsilog.verification.hidden import TOO_RARE
from epsilog.verification.noise import FALSE_ALARM, check_count

ROUNDING = 1e-5  # float32 norms: a few thousand terms at 6e-8 each


SAME = 1e-12  # relatively: how far an exponential may come out elsewhere


def check_clipping(records: Sequence[RoundRecord], scheme: Scheme) -> Finding:
    """Compares the clip norm and the noise that the records declare with the plan."""
    differing = [
        record.round
        for record, clip_norm in zip(records, scheme.clip_norms(records), strict=True)
        if not math.isclose(record.clip_norm, clip_norm, rel_tol=SAME)
        or record.noise_stddev != scheme.noise_multiplier * record.clip_norm
        or (record.unclipped is not None) != scheme.adaptive_clip
    ]
    planned = (scheme.clip_norm, scheme.noise_stddev)
    if differing:
        says = f"Rounds {_some(differing)} declare another clip norm or noise than the planned {planned}."
        return Finding("clipping/other-settings", Status.FAILED, says)
    says = f"Every round declares the planned clip norm {planned[0]:g} and noise {planned[1]:.6g}."
    if scheme.adaptive_clip and records:
        says = (
            f"Clip norms go from {planned[0]:g} to {records[-1].clip_norm:g} as the released shares of unclipped "
            "updates make them, and the noise with them."
        )
    return Finding("clipping/holds", Status.PASSED, says)


def check_norms(
    custody: Sequence[CustodyRecord] | None,
    records: Sequence[RoundRecord],
    scheme: Scheme,
    *,
    false_alarm: float = FALSE_ALARM,
) -> Finding:
    """Compares the norms that the curator noted with the clip norm: the plan's, or what the public records declare.

    Args:
        custody: the curator's records; None if they are not here.
        records: the public records, for a clip norm that moves.
        scheme: as planned.
        false_alarm: how often a sound run may be rejected for the noise on its counts; 0 if that must not be checked.
    """
    if custody is None:
        says = "The curator's records are not here, so norms were not checked."
        return Finding("norms/not-checked", Status.NOT_CHECKED, says, lacks="custody")
    if not custody:
        return Finding("norms/not-checked", Status.NOT_CHECKED, "The curator's records hold no round.")
    declared = {record.round: record.clip_norm for record in records if scheme.adaptive_clip}
    limits = [declared.get(record.round, scheme.clip_norm) for record in custody]
    over = [
        record.round
        for record, limit in zip(custody, limits, strict=True)
        if record.largest_norm is not None and not record.largest_norm <= limit * (1 + ROUNDING)
    ]
    seen = [record.largest_norm for record in custody if record.largest_norm is not None]
    if len(seen) < len(custody) and not over:
        says = "Clients clipped where their rows lie, and nobody else saw a norm."
        return Finding("norms/not-checked", Status.NOT_CHECKED, says)
    clip_norm, largest = max(limits), max(seen)
    shortened = sum(record.clipped_fraction for record in custody) / len(custody)
    dropped, unusable = (sum(getattr(one, name) for one in custody) for name in ("dropped", "unusable_rows"))
    numbers = (
        ("clip_norm", clip_norm),
        ("largest_norm", largest),
        ("clipped_fraction", shortened),
        ("dropped", float(dropped)),
        ("unusable_rows", float(unusable)),
    )
    if over:
        return Finding(
            "norms/too-large", Status.FAILED, f"Rounds {_some(over)} hold norms above {clip_norm:g}.", numbers
        )
    rate = 0.0 if scheme.count_noise is None else false_alarm
    if scheme.count_noise is not None and not rate:
        return Finding("norms/not-checked", Status.NOT_CHECKED, TOO_RARE)
    counted = check_count(custody, records, scheme, false_alarm=rate) if len(custody) == len(records) else None
    if counted is not None:
        return counted
    says = (
        f"No norm exceeds {clip_norm:g} (largest {largest:.6g}); clipping shortened {shortened:.0%} of contributions."
    )
    if dropped or unusable:
        says += f" {dropped} contributions were not finite and counted as zero; {unusable} rows could not be used."
    return Finding("norms/holds", Status.PASSED, says, numbers, false_alarm=rate)


def _some(rounds: Sequence[int]) -> str:
    shown = ", ".join(map(str, rounds[:5]))
    return shown + (f" and {len(rounds) - 5} more" if len(rounds) > 5 else "")
