"""Draw noisy values from true sums, with an error bar that holds with 95% confidence for any data."""

from __future__ import annotations

import secrets
from fractions import Fraction
from typing import Any

from epsilog.mechanisms.sampling import RandBelow
from epsilog.queries.choices import find_first_above, sample_permute_and_flip
from epsilog.queries.noise import (
    CONFIDENCE,
    NoisePlan,
    compute_half_width,
    compute_noisy_max_margin,
    compute_sparse_vector_margin,
    parse_exact_parameter,
    round_midpoint_down,
)
from epsilog.queries.query_types import (
    CountAbove,
    FirstCategoryAbove,
    Histogram,
    Mean,
    MostCommonCategory,
    Query,
    Sum,
    build_value_grid,
)
from epsilog.terms import check

__all__ = ["draw_noisy_values", "estimate_error"]


def draw_noisy_values(query: Query, plan: NoisePlan, sums: list[list[int]], below: RandBelow) -> dict[str, Any]:
    """Return noisy values with 95% error bounds, by the names of ``QueryResult``.

    Args:
        query: the query.
        plan: the noise that was charged.
        sums: the true sums, in steps.
        below: source of randomness.
    """
    if isinstance(query, MostCommonCategory):
        return _draw_selection(query, plan, sums[0], below)
    if isinstance(query, FirstCategoryAbove):
        return _draw_first_above(query, plan, sums[0], below)
    noisy = [[total + noise.sample(below) for total in cells] for cells, noise in zip(sums, plan.noises, strict=True)]
    return _describe_sums(query, plan, noisy)


def estimate_error(query: Query, plan: NoisePlan) -> float | None:
    """Return the error bound of a query; None for a mean over a noisy count, on which it depends."""
    if isinstance(query, Mean) and query.population is None:
        return None
    nothing = [[0] * part.cells for part in plan.parts]  # a mean is then in the middle, where its interval is longest
    if isinstance(query, FirstCategoryAbove):
        return float(_draw_first_above(query, plan, nothing[0], secrets.randbelow)["error"])
    if isinstance(query, MostCommonCategory):
        return float(_draw_selection(query, plan, nothing[0], secrets.randbelow)["error"])
    return float(_describe_sums(query, plan, nothing)["error"])


def _draw_selection(query: MostCommonCategory, plan: NoisePlan, counts: list[int], below: RandBelow) -> dict[str, Any]:
    stated = plan.release.statement["epsilon"]
    place = sample_permute_and_flip(counts, plan.spread / parse_exact_parameter(stated), below=below)
    return _describe_value(query.categories[place], compute_noisy_max_margin(stated, len(counts), plan.spread))


def _draw_first_above(
    query: FirstCategoryAbove, plan: NoisePlan, counts: list[int], below: RandBelow
) -> dict[str, Any]:
    scale = plan.spread / parse_exact_parameter(plan.release.statement["epsilon"])
    place = find_first_above(counts, query.threshold, scale, below=below)
    return _describe_value(
        None if place is None else query.categories[place], compute_sparse_vector_margin(scale, len(counts))
    )


def _describe_sums(query: Query, plan: NoisePlan, noisy: list[list[int]]) -> dict[str, Any]:
    """Return value and error bar of noisy sums."""
    part, noise = plan.parts[0], plan.noises[0]
    match query:
        case CountAbove(threshold=threshold):
            margin = compute_half_width(noise, one_sided=True) + 1
            return _describe_value(noisy[0][0] * part.step >= threshold, float(margin * part.step))
        case Mean():
            return _describe_mean(query, plan, [cells[0] for cells in noisy])
    reach = compute_half_width(noise) * part.step
    values = [total * part.step for total in noisy[0]]
    lower, upper = [value - reach for value in values], [value + reach for value in values]
    rounding = part.step / 2 if isinstance(query, Sum) else Fraction(0)
    if isinstance(query, Histogram):
        cells = [dict(zip(query.labels, map(_plain, each), strict=True)) for each in (values, lower, upper)]
        return _describe_value(cells[0], float(reach), cells[1], cells[2])
    return _describe_value(_plain(values[0]), float(reach), _plain(lower[0]), _plain(upper[0]), float(rounding))


def _describe_value(
    value: Any, error: float, lower: Any = None, upper: Any = None, rounding: float = 0.0
) -> dict[str, Any]:
    return {"value": value, "error": float(error), "lower": lower, "upper": upper, "rounding": rounding}


def _plain(value: Fraction) -> int | float:
    """Return a whole number as an int if JSON carries it exactly, else a float."""
    whole = value.denominator == 1 and abs(value.numerator) <= check.LARGEST_INTEGER
    return value.numerator if whole else float(value)


def _describe_mean(query: Mean, plan: NoisePlan, noisy: list[int]) -> dict[str, Any]:
    """Return a mean relative to the middle of its bounds, and the interval of all means for these sums and counts.

    With a noisy count, sum and count are each within their half-width except with half of the probability to miss.
    """
    step, low, high = build_value_grid(query.bounds)
    middle = round_midpoint_down(low, high) * step
    about, total = plan.parts[0], noisy[0] * step
    if query.population is not None:
        reach, counts = compute_half_width(plan.noises[0]) * about.step, (Fraction(query.population),) * 3
    else:
        miss = (1 - CONFIDENCE) / 2
        reach = compute_half_width(plan.noises[0], miss=miss) * about.step
        part = plan.parts[1]
        margin, count = compute_half_width(plan.noises[1], miss=miss) * part.step, noisy[1] * part.step
        counts = (count - margin, count, count + margin)
    rounding, sides = step / 2, [Fraction(side) for side in query.bounds]

    def within(value: Fraction) -> Fraction:
        return min(max(value, sides[0]), sides[1])

    value = within(middle + total / counts[1]) if counts[1] >= 1 else middle
    if counts[0] < 1:  # the true count may be 0
        lower, upper = sides
    else:
        ends = [(total + side) / count for side in (-reach, reach) for count in (counts[0], counts[2])]
        lower, upper = within(middle + min(ends) - rounding), within(middle + max(ends) + rounding)
    wide = max(value - lower, upper - value)
    return _describe_value(float(value), float(wide), float(lower), float(upper), float(rounding))
