"""From true sums to what is shown: noise, and an error bar that holds with 95% confidence whatever the data is."""

from __future__ import annotations

import secrets
from fractions import Fraction
from typing import Any

from epsilog.mechanisms.sampling import RandBelow
from epsilog.queries.noise import (
    CONFIDENCE,
    NoisePlan,
    compute_half_width,
    compute_noisy_max_margin,
    compute_sparse_vector_margin,
    parse_exact_parameter,
    round_midpoint_down,
)
from epsilog.queries.noisy_max import sample_permute_and_flip
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
from epsilog.queries.sparse_vector import find_first_above
from epsilog.terms import check

__all__ = ["draw_noisy_values", "estimate_error"]


def draw_noisy_values(query: Query, plan: NoisePlan, sums: list[list[int]], below: RandBelow) -> dict[str, Any]:
    """Draws the noise: value and error bar, as ``Answer`` names them.

    Args:
        query: what was asked.
        plan: how it is answered, and paid for.
        sums: the true ones, in steps.
        below: where randomness comes from.
    """
    if isinstance(query, MostCommonCategory):
        return _draw_selection(query, plan, sums[0], below)
    if isinstance(query, FirstCategoryAbove):
        return _first(query, plan, sums[0], below)
    noisy = [[total + noise.sample(below) for total in cells] for cells, noise in zip(sums, plan.noises, strict=True)]
    return _draw_sums(query, plan, noisy)


def estimate_error(query: Query, plan: NoisePlan) -> float | None:
    """How far off an answer will be at most; None for a mean over a noisy count, which that depends on."""
    if isinstance(query, Mean) and query.population is None:
        return None
    nothing = [[0] * part.cells for part in plan.parts]  # a mean is in its middle then, where its interval is longest
    if isinstance(query, FirstCategoryAbove):
        return float(_first(query, plan, nothing[0], secrets.randbelow)["error"])
    if isinstance(query, MostCommonCategory):
        return float(_draw_selection(query, plan, nothing[0], secrets.randbelow)["error"])
    return float(_draw_sums(query, plan, nothing)["error"])


def _draw_selection(query: MostCommonCategory, plan: NoisePlan, counts: list[int], below: RandBelow) -> dict[str, Any]:
    stated = plan.release.statement["epsilon"]
    place = sample_permute_and_flip(counts, plan.spread / parse_exact_parameter(stated), below=below)
    return _describe_value(query.categories[place], compute_noisy_max_margin(stated, len(counts), plan.spread))


def _first(query: FirstCategoryAbove, plan: NoisePlan, counts: list[int], below: RandBelow) -> dict[str, Any]:
    scale = plan.spread / parse_exact_parameter(plan.release.statement["epsilon"])
    place = find_first_above(counts, query.threshold, scale, below=below)
    return _describe_value(
        None if place is None else query.categories[place], compute_sparse_vector_margin(scale, len(counts))
    )


def _draw_sums(query: Query, plan: NoisePlan, noisy: list[list[int]]) -> dict[str, Any]:
    """What is shown of noisy sums."""
    part, noise = plan.parts[0], plan.noises[0]
    match query:
        case CountAbove(threshold=threshold):
            margin = compute_half_width(noise, one_sided=True) + 1
            return _describe_value(noisy[0][0] * part.step >= threshold, float(margin * part.step))
        case Mean():
            return _mean(query, plan, [cells[0] for cells in noisy])
    reach_ = compute_half_width(noise) * part.step
    values = [total * part.step for total in noisy[0]]
    lower, upper = [value - reach_ for value in values], [value + reach_ for value in values]
    rounding = part.step / 2 if isinstance(query, Sum) else Fraction(0)
    if isinstance(query, Histogram):
        cells = [dict(zip(query.labels, map(_plain, each), strict=True)) for each in (values, lower, upper)]
        return _describe_value(cells[0], float(reach_), cells[1], cells[2])
    return _describe_value(_plain(values[0]), float(reach_), _plain(lower[0]), _plain(upper[0]), float(rounding))


def _describe_value(
    value: Any, error: float, lower: Any = None, upper: Any = None, rounding: float = 0.0
) -> dict[str, Any]:
    return {"value": value, "error": float(error), "lower": lower, "upper": upper, "rounding": rounding}


def _plain(value: Fraction) -> int | float:
    """A whole number as such, if JSON carries it."""
    whole = value.denominator == 1 and abs(value.numerator) <= check.LARGEST_INTEGER
    return value.numerator if whole else float(value)


def _mean(query: Mean, plan: NoisePlan, noisy: list[int]) -> dict[str, Any]:
    """A mean about the middle of its bounds, and the interval of all means that sum and count allow together.

    With a noisy count each of the two stays within its own half-width but for half of the chance to miss.
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
    if counts[0] < 1:  # so few that the noise may have hidden all of them
        lower, upper = sides
    else:
        ends = [(total + side) / count for side in (-reach, reach) for count in (counts[0], counts[2])]
        lower, upper = within(middle + min(ends) - rounding), within(middle + max(ends) + rounding)
    wide = max(value - lower, upper - value)
    return _describe_value(float(value), float(wide), float(lower), float(upper), float(rounding))
