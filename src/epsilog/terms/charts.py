"""Small charts as inline SVG, for notebooks and wherever HTML is shown: no script, no style sheet, described in words.

Colors match the pages: claims are teal, estimates rust, spent amounts violet. A cap is a dashed line in the text color,
and amounts over it are red. Text takes the color of its surroundings. Each color has a contrast of at least 3 : 1 on
white and on black, so a chart works on both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

__all__ = ["choose_ticks", "draw_band_plot", "draw_budget_gauge", "draw_interval_bar"]

CLAIM, ESTIMATE, SPENT, OVER = "#12877f", "#bf5b16", "#7765c4", "#cc3a32"
WIDTH = 560
_TEXT = 'font-family="system-ui, sans-serif" font-size="12" fill="currentColor"'
_LETTER = 6.8  # pixels, at most about
_MARGIN = 1.12  # past the largest number of a bar


def choose_ticks(low: float, high: float, *, wanted: int = 5) -> list[float]:
    """Round numbers that cover ``[low, high]``, about ``wanted`` of them.

    >>> choose_ticks(0.0, 4.2)
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    span = high - low
    if not span > 0:
        return [low]
    raw = span / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def draw_interval_bar(
    lower: float,
    upper: float,
    *,
    title: str,
    estimate: tuple[str, float] | None = None,
    cap: tuple[str, float] | None = None,
    from_zero: bool = True,
) -> str:
    """A number as it is known: a band from its lower to its upper bound, an estimate as a tick, a cap as a dashed line.

    Args:
        lower: of the band.
        upper: of the band, with a firm edge.
        title: read aloud by screen readers, and shown where the pointer rests.
        estimate: a label and a number of which nothing is claimed.
        cap: a label and a goal, or a truth.
        from_zero: whether the axis begins at 0.

    Returns:
        An ``<svg>`` element; nothing where the bounds are infinite.

    >>> draw_interval_bar(1.0, float("inf"), title="epsilon")
    ''
    """
    shapes = [
        (label, value, colour, dash)
        for mark, colour, dash in ((estimate, ESTIMATE, ""), (cap, "currentColor", "4 3"))
        if mark is not None and math.isfinite(mark[1])
        for label, value in [mark]
    ]
    numbers = [lower, upper, *(value for _, value, *_ in shapes)]
    if not (math.isfinite(lower) and math.isfinite(upper)):
        return ""
    least = 0.0 if from_zero else min(numbers)
    most = max(*numbers, least)
    pad = (_MARGIN - 1) * ((most - least) or abs(most) or 1.0)
    least, most = (least if from_zero else least - pad), most + pad

    def at(value: float) -> float:
        return 8 + (WIDTH - 16) * (value - least) / (most - least)

    rail = f'<path d="M8 28H{WIDTH - 8}" stroke="currentColor" stroke-opacity=".35"/>'
    wide = max(2.0, at(upper) - at(lower))
    band = f'<rect x="{at(upper) - wide:.1f}" y="21" width="{wide:.1f}" height="14" fill="{CLAIM}" fill-opacity=".35"/>'
    edge = f'<path d="M{at(upper):.1f} 15V41" stroke="{CLAIM}" stroke-width="3"/>'
    parts = [rail, band, edge]
    for label, value, colour, dash in shapes:
        parts.append(f'<path d="M{at(value):.1f} 15V41" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>')
        parts.append(_label(at(value), 11, label))
    parts += [_label(at(tick), 56, f"{tick:g}") for tick in choose_ticks(least, most)]
    return _svg(parts, 62, title)


def draw_budget_gauge(parts: Sequence[tuple[str, float]], cap: float, *, title: str) -> str:
    """How full a budget is: parts side by side, up to a dashed line at the cap; what is over it is red.

    Args:
        parts: labels and amounts, at least 0, in the cap's own unit.
        cap: what all of them together may be.
        title: read aloud by screen readers, and shown where the pointer rests.

    Returns:
        An ``<svg>`` element.
    """
    total = math.fsum(amount for _, amount in parts)
    most = max(cap, total if math.isfinite(total) else cap) or 1.0

    def at(value: float) -> float:
        return 8 + (WIDTH - 24) * min(value, most) / most

    drawn = [f'<rect x="8" y="6" width="{at(cap) - 8:.1f}" height="14" fill="currentColor" fill-opacity=".12"/>']
    held = 0.0
    for place, (_, amount) in enumerate(parts):
        fill = f'fill="{SPENT}" fill-opacity="{1 / (1 + 0.9 * place):.2f}"'
        drawn.append(f'<rect x="{at(held):.1f}" y="6" width="{at(held + amount) - at(held):.1f}" height="14" {fill}/>')
        held += amount
    if total > cap:
        drawn.append(f'<rect x="{at(cap):.1f}" y="6" width="{at(total) - at(cap):.1f}" height="14" fill="{OVER}"/>')
    drawn.append(f'<path d="M{at(cap):.1f} 1V25" stroke="currentColor" stroke-width="2" stroke-dasharray="4 3"/>')
    return _svg(drawn, 26, title)


def draw_band_plot(
    bands: Sequence[tuple[str, Sequence[tuple[float, float, float]]]],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    mark: tuple[str, float] | None = None,
) -> str:
    """Bands between a lower and an upper bound, each named at its end; the upper edge is firm.

    Args:
        bands: labels, and of each its points: place, lower and upper bound. What is not finite is left out.
        title: read aloud by screen readers.
        x_label: what the horizontal axis counts.
        y_label: what the vertical axis counts.
        log_x: spreads the horizontal axis by powers of ten; places at 0 or below are left out.
        log_y: likewise; lower bounds at 0 are drawn at the least number that there is.
        mark: a label and a height, drawn dashed: a cap.

    Returns:
        An ``<svg>`` element; nothing where there is nothing finite.
    """
    lines = [(label, _drawable(points, log_x=log_x, log_y=log_y)) for label, points in bands]
    lines = [(label, points) for label, points in lines if points]
    if not lines:
        return ""
    heights = [value for _, points in lines for _, low, high in points for value in (low, high)]
    heights += [mark[1]] if mark is not None and math.isfinite(mark[1]) else []
    places = [x for _, points in lines for x, _, _ in points]
    floor = min(value for value in heights if value > 0) if log_y else min(0.0, *heights)
    named = [label for label, _ in lines] + ([] if mark is None else [mark[0]])
    right = WIDTH - 14 - _LETTER * max(map(len, named))
    left, top, bottom = 62.0, 10.0, 210.0
    across, ups = _axis(min(places), max(places), log=log_x), _axis(floor, max(heights), log=log_y)

    def at_x(x: float) -> float:
        return round(left + (right - left) * across(x), 1)

    def at_y(y: float) -> float:
        return round(bottom - (bottom - top) * ups(max(y, floor)), 1)

    parts = []
    for tick in _list_ticks(floor, max(heights), log=log_y):
        parts.append(f'<path d="M{left} {at_y(tick)}H{right:.1f}" stroke="currentColor" stroke-opacity=".15"/>')
        parts.append(_label(left - 6, at_y(tick) + 4, f"{tick:g}", anchor="end"))
    along = _list_ticks(min(places), max(places), log=log_x)
    parts += [_label(at_x(tick), bottom + 17, f"{tick:g}") for tick in along]
    parts.append(_label((left + right) / 2, bottom + 34, x_label))
    ends: list[tuple[float, str]] = []
    if mark is not None and math.isfinite(mark[1]):
        parts.append(f'<path d="M{left} {at_y(mark[1])}H{right:.1f}" stroke="currentColor" stroke-dasharray="5 4"/>')
        ends.append((at_y(mark[1]), mark[0]))
    for place, (label, points) in enumerate(lines):
        dash = ("", "7 4", "2 4", "9 3 2 3")[place % 4]
        upper = "L".join(f"{at_x(x)} {at_y(high)}" for x, _, high in points)
        lower = "L".join(f"{at_x(x)} {at_y(low)}" for x, low, _ in reversed(points))
        parts.append(f'<path d="M{upper}L{lower}Z" fill="{CLAIM}" fill-opacity=".22"/>')
        line = f'fill="none" stroke="{CLAIM}" stroke-width="2" stroke-dasharray="{dash}"'
        parts.append(f'<path d="M{upper}" {line}/>')
        ends.append((at_y(points[-1][2]), label))
    reached = -math.inf
    for height, label in sorted(ends):
        reached = max(height, reached + 14)
        parts.append(_label(right + 6, reached + 4, label, anchor="start"))
    description = "; ".join(
        f"{label}: between {low:.3g} and {high:.3g} at {x:g}"
        for label, points in lines
        for x, low, high in dict.fromkeys((points[0], points[-1]))
    )
    return _svg(parts, 250, f"{title}. {y_label} over {x_label}: {description}")


def _drawable(
    points: Sequence[tuple[float, float, float]], *, log_x: bool, log_y: bool
) -> list[tuple[float, float, float]]:
    kept = [point for point in points if all(map(math.isfinite, point))]
    return [(x, low, high) for x, low, high in kept if (x > 0 or not log_x) and (high > 0 or not log_y)]


def _axis(low: float, high: float, *, log: bool) -> Callable[[float], float]:
    """From a number to its place between the two, in [0, 1]."""
    scale: Callable[[float], float] = math.log if log else float
    span = (scale(high) - scale(low)) or 1.0
    return lambda value: (scale(value) - scale(low)) / span


def _list_ticks(low: float, high: float, *, log: bool) -> list[float]:
    """Round numbers between; on a logarithmic axis powers of ten, with numbers between them where there are few."""
    even = [tick for tick in choose_ticks(low, high) if low <= tick <= high]
    if not log:
        return even
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5)):
        found = [m * 10.0**power for power in powers for m in steps if low <= m * 10.0**power * (1 + 1e-9)]
        found = [tick for tick in found if tick <= high * (1 + 1e-9)]
        if len(found) >= 3:
            return found[:: math.ceil(len(found) / 6)]
    return even


def _label(x: float, y: float, text: str, *, anchor: str = "middle") -> str:
    """A text that stays within the drawing."""
    half = _LETTER * len(text) / 2
    x = min(max(x, half), WIDTH - half) if anchor == "middle" else x
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {_TEXT}>{escape(text)}</text>'


def _svg(parts: Sequence[str], height: int, title: str) -> str:
    label = escape(title)
    head = f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-label="{label}"'
    return f'{head} style="display:block;max-width:100%;height:auto"><title>{label}</title>{"".join(parts)}</svg>'
