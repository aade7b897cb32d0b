"""Was every contribution clipped to the norm that the noise was scaled to?"""

from __future__ import annotations

from collections.abc import Sequence

from epsilog.terms import CustodyRecord, Finding, RoundRecord, Verdict

ROUNDING = 1e-5  # float32 norms: a few thousand terms at 6e-8 each


def check_clipping(records: Sequence[RoundRecord], *, clip_norm: float, noise_stddev: float) -> Finding:
    """Compares the clip norm and the noise that the records declare with the plan."""
    planned = (clip_norm, noise_stddev)
    differing = [record.round for record in records if (record.clip_norm, record.noise_stddev) != planned]
    if differing:
        says = f"Rounds {_some(differing)} declare another clip norm or noise than the planned {planned}."
        return Finding("clipping/other-settings", Verdict.FAILED, says)
    says = f"Every round declares the planned clip norm {clip_norm:g} and noise {noise_stddev:.6g}."
    return Finding("clipping/holds", Verdict.PASSED, says)


def check_norms(custody: Sequence[CustodyRecord] | None, *, clip_norm: float) -> Finding:
    """Compares the norms that the curator noted with the clip norm."""
    if custody is None:
        says = "The curator's records are not here, so norms were not checked."
        return Finding("norms/not-checked", Verdict.NOT_CHECKED, says, lacks="custody")
    if not custody:
        return Finding("norms/not-checked", Verdict.NOT_CHECKED, "The curator's records hold no round.")
    over = [record.round for record in custody if not record.largest_norm <= clip_norm * (1 + ROUNDING)]
    largest = max(record.largest_norm for record in custody)
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
            "norms/too-large", Verdict.FAILED, f"Rounds {_some(over)} hold norms above {clip_norm:g}.", numbers
        )
    says = (
        f"No norm exceeds {clip_norm:g} (largest {largest:.6g}); clipping shortened {shortened:.0%} of contributions."
    )
    if dropped or unusable:
        says += f" {dropped} contributions were not finite and counted as zero; {unusable} rows could not be used."
    return Finding("norms/holds", Verdict.PASSED, says, numbers)


def _some(rounds: Sequence[int]) -> str:
    shown = ", ".join(map(str, rounds[:5]))
    return shown + (f" and {len(rounds) - 5} more" if len(rounds) > 5 else "")
