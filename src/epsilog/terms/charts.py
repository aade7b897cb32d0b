"""Charts as inline SVG: no scripts, no fonts to fetch, no style sheet, readable without color, described in words.

A claim is teal, an estimate rust, spent amounts are violet, a cap is dashed in the text color, the excess over it red.
Text takes the color of the place. All colors stand out from white and from black (3 : 1 and more), so a chart need not
know the background.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

__all__ = [
    "PlotSeries",
    "choose_ticks",
    "draw_band_plot",
    "draw_budget_gauge",
    "draw_interval_bar",
    "draw_line_plot",
    "make_standalone",
]

CLAIM, ESTIMATE, SPENT, OVER = "#12877f", "#bf5b16", "#7765c4", "#cc3a32"
WIDTH = 560
_FONT = 'font-family="system-ui, sans-serif" font-size="12" fill="currentColor"'
_LETTER = 6.8  # pixels, at most about
_MARGIN = 1.12  # past the largest number of a bar
PLOT_WIDTH, PLOT_HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 132, 20, 46
COLORS, DASHES = (CLAIM, ESTIMATE, SPENT, OVER), ("", "7 4", "2 4", "9 3 2 3")
_AXIS = 'fill="none" stroke="currentColor" stroke-opacity'


@dataclass(frozen=True, slots=True)
class PlotSeries:
    """One line: a label and its points, in data units, and for each point the ends of its error bar, or no bars.

    With ``band`` the bars are the edges of an area, and only its upper edge is drawn as a line.
    """

    label: str
    points: tuple[tuple[float, float], ...]
    markers: bool = False
    bars: tuple[tuple[float, float], ...] = ()
    band: bool = False


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
        (label, value, color, dash)
        for mark, color, dash in ((estimate, ESTIMATE, ""), (cap, "currentColor", "4 3"))
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
    for label, value, color, dash in shapes:
        parts.append(f'<path d="M{at(value):.1f} 15V41" stroke="{color}" stroke-width="2" stroke-dasharray="{dash}"/>')
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


def draw_line_plot(
    series: Sequence[PlotSeries],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    from_zero: bool = True,
    mark: tuple[str, float] | None = None,
) -> str:
    """Draw lines over a common frame; see also ``make_standalone``.

    Args:
        series: the lines; points with a value that is not finite are left out.
        title: read aloud by screen readers.
        x_label: what the horizontal axis counts.
        y_label: what the vertical axis counts.
        log_x: spreads the horizontal axis by powers of ten.
        from_zero: lets the vertical axis start at 0.
        mark: a label and a height, drawn as a thin horizontal line (a budget, a baseline).

    Returns:
        An ``<svg>`` element.
    """
    lines = [kept for one in series if (kept := _keep_drawable(one)).points]
    said = "; ".join(
        f"{s.label}: from {s.points[0][1]:.3g} at {s.points[0][0]:g} to {s.points[-1][1]:.3g} at {s.points[-1][0]:g}"
        for s in lines
    )
    frame = _Frame(lines, log_x=log_x, from_zero=from_zero, mark=mark)
    return _draw_plot(lines, frame, f"{title}. {y_label} over {x_label}: {said}", (x_label, y_label))


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
    """Draw bands between a lower and an upper bound, each named at its end; the upper edge is firm.

    Args:
        bands: labels, and of each its points: place, lower and upper bound. Numbers that are not finite are left out.
        title: read aloud by screen readers.
        x_label: what the horizontal axis counts.
        y_label: what the vertical axis counts.
        log_x: spreads the horizontal axis by powers of ten; places at 0 or below are left out.
        log_y: likewise; lower bounds at 0 are drawn at the least number that there is.
        mark: a label and a height, drawn dashed: a cap.

    Returns:
        An ``<svg>`` element; nothing where there is nothing finite.
    """
    lines = [
        PlotSeries(
            label, tuple((x, up) for x, _, up in points), bars=tuple((low, up) for _, low, up in points), band=True
        )
        for label, points in bands
    ]
    lines = [kept for one in lines if (kept := _keep_drawable(one, log_x=log_x, log_y=log_y)).points]
    if not lines:
        return ""
    ends = [(one.label, *end) for one in lines for end in _list_ends(one)]
    said = "; ".join(f"{label}: between {low:.3g} and {up:.3g} at {x:g}" for label, x, low, up in ends)
    frame = _Frame(lines, log_x=log_x, log_y=log_y, mark=mark)
    return _draw_plot(lines, frame, f"{title}. {y_label} over {x_label}: {said}", (x_label, y_label))


def make_standalone(chart: str) -> str:
    """Return a chart as a standalone file on white."""
    return chart.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(
        'style="', 'style="background:#fff;', 1
    )


class _Frame:
    """The axes of a plot: where numbers lie, and which of them are named."""

    def __init__(
        self,
        lines: Sequence[PlotSeries],
        *,
        log_x: bool = False,
        log_y: bool = False,
        from_zero: bool = True,
        mark: tuple[str, float] | None = None,
    ) -> None:
        self.mark = mark if mark and math.isfinite(mark[1]) else None
        xs = [x for s in lines for x, _ in s.points] or [0.0, 1.0]
        ys = [y for s in lines for _, y in s.points] + [y for s in lines for bar in s.bars for y in bar]
        ys = ys + ([self.mark[1]] if self.mark else []) or [0.0, 1.0]
        low = min(y for y in ys if y > 0) if log_y else min(0.0, *ys) if from_zero else min(ys)
        high = max(ys) if log_y else max(ys) + 0.04 * ((max(ys) - low) or 1.0)
        labels = [s.label for s in lines] + ([self.mark[0]] if self.mark else [])
        self.right = PLOT_WIDTH - max(RIGHT, math.ceil(10 + _LETTER * max(map(len, labels), default=0)))
        self._scales = (math.log10 if log_x else float), (math.log10 if log_y else float)
        self._x, self._y = (min(xs), max(xs)), (low, high)
        few = log_x and len(set(xs)) <= 9
        self.x_ticks = sorted(set(xs)) if few else _list_ticks(*self._x, log=log_x)
        self.y_ticks = _list_ticks(low, high, log=log_y)

    def at_x(self, x: float) -> float:
        """Return the horizontal position of a number."""
        return LEFT + (self.right - LEFT) * _place(x, self._x, self._scales[0])

    def at_y(self, y: float) -> float:
        """Return the vertical position of a number, at most the lower edge."""
        return (
            PLOT_HEIGHT - BOTTOM - (PLOT_HEIGHT - TOP - BOTTOM) * _place(max(y, self._y[0]), self._y, self._scales[1])
        )


def _place(value: float, ends: tuple[float, float], scale: Callable[[float], float]) -> float:
    low, high = map(scale, ends)
    return (scale(value) - low) / ((high - low) or 1.0)


def _draw_plot(lines: Sequence[PlotSeries], frame: _Frame, title: str, axes: tuple[str, str]) -> str:
    """Draw the frame with its numbers, then the mark, the lines and their labels."""
    at_x, at_y, right, floor = frame.at_x, frame.at_y, frame.right, PLOT_HEIGHT - BOTTOM
    parts, labels = [], list[tuple[float, str, str]]()
    for y in frame.y_ticks:
        parts.append(f'<path class="grid" {_AXIS}=".15" d="M{LEFT} {at_y(y):.1f}H{right}"/>')
        parts.append(_text(LEFT - 8, at_y(y) + 4, f"{y:g}", anchor="end"))
    parts += [_text(at_x(x), floor + 18, f"{x:g}") for x in frame.x_ticks]
    parts.append(f'<path class="frame" {_AXIS}=".5" d="M{LEFT} {TOP}V{floor}H{right}"/>')
    parts.append(_text((LEFT + right) / 2, PLOT_HEIGHT - 8, axes[0]))
    parts.append(_text(0, 0, axes[1], more=f' transform="translate(16 {(TOP + floor) / 2}) rotate(-90)"'))
    if frame.mark:
        y = at_y(frame.mark[1])
        parts.append(f'<path class="mark" {_AXIS}=".7" stroke-dasharray="5 4" d="M{LEFT} {y:.1f}H{right}"/>')
        labels.append((y, frame.mark[0], "currentColor"))
    for index, line in enumerate(lines):
        color = CLAIM if line.band else COLORS[index % len(COLORS)]
        parts += _draw_line(line, frame, color, DASHES[index % len(DASHES)])
        labels.append((at_y(line.points[-1][1]), line.label, color))
    reached = -math.inf
    for y, label, color in sorted(labels):  # apart, so that none covers another
        reached = max(y, reached + 15)
        parts.append(_text(right + 6, reached + 4, label, anchor="start", more=f' fill="{color}"'))
    return _svg(parts, PLOT_HEIGHT, title, width=PLOT_WIDTH)


def _draw_line(line: PlotSeries, frame: _Frame, color: str, dash: str) -> list[str]:
    """Draw one line, with its area, or its markers and error bars."""
    at_x, at_y = frame.at_x, frame.at_y
    path = "M" + "L".join(f"{at_x(x):.1f} {at_y(y):.1f}" for x, y in line.points)
    parts = []
    if line.band:
        under = zip(reversed(line.points), reversed(line.bars), strict=True)
        lower = "L".join(f"{at_x(x):.1f} {at_y(low):.1f}" for (x, _), (low, _) in under)
        parts.append(f'<path d="{path}L{lower}Z" fill="{color}" fill-opacity=".22"/>')
    parts.append(f'<path fill="none" stroke="{color}" stroke-width="2" stroke-dasharray="{dash}" d="{path}"/>')
    if line.markers:
        dots = (f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3" fill="{color}"/>' for x, y in line.points)
        parts.extend(dots)
    for (x, _), (low, high) in zip(line.points, () if line.band else line.bars, strict=False):
        bar = f"M{at_x(x):.1f} {at_y(low):.1f}V{at_y(high):.1f}"
        parts.append(f'<path class="bar" fill="none" stroke="{color}" d="{bar}"/>')
    return parts


def _keep_drawable(series: PlotSeries, *, log_x: bool = False, log_y: bool = False) -> PlotSeries:
    """Keep the points of which every number is finite, and above 0 on an axis of powers, with their bars."""
    bars = series.bars or ((0.0, 0.0),) * len(series.points)
    kept = [
        (p, b)
        for p, b in zip(series.points, bars, strict=True)
        if all(map(math.isfinite, (*p, *b))) and (p[0] > 0 or not log_x) and (p[1] > 0 or not log_y)
    ]
    points, ends = tuple(p for p, _ in kept), tuple(b for _, b in kept) if series.bars else ()
    return PlotSeries(series.label, points, series.markers, ends, series.band)


def _list_ends(band: PlotSeries) -> list[tuple[float, float, float]]:
    """Return the first and the last point of a band: place, lower and upper bound; one that is both only once."""
    triples = [(x, low, up) for (x, up), (low, _) in zip(band.points, band.bars, strict=True)]
    return list(dict.fromkeys((triples[0], triples[-1])))


def _list_ticks(low: float, high: float, *, log: bool) -> list[float]:
    """Round numbers between; on a logarithmic axis powers of ten, with numbers between them where there are few."""
    even = choose_ticks(low, high)
    if not log:
        return even
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5)):
        found = [m * 10.0**power for power in powers for m in steps if low <= m * 10.0**power * (1 + 1e-9)]
        found = [tick for tick in found if tick <= high * (1 + 1e-9)]
        if len(found) >= 3:
            return found[:: math.ceil(len(found) / 6)]
    return even


def _label(x: float, y: float, text: str) -> str:
    """A text that stays within the drawing."""
    half = _LETTER * len(text) / 2
    return _text(min(max(x, half), WIDTH - half), y, text)


def _text(x: float, y: float, text: str, *, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def _svg(parts: Sequence[str], height: int, title: str, *, width: int = WIDTH) -> str:
    words = escape(title)
    head = f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{words}"'
    return (
        f'{head} {_FONT} style="display:block;max-width:100%;height:auto"><title>{words}</title>{"".join(parts)}</svg>'
    )
