"""Plots as inline SVG: no scripts, no fonts to fetch, readable without colour, described in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from epsilog.terms.charts import choose_ticks

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 132, 20, 46
COLOURS = ("#0b5cad", "#b3470b", "#2a7f62", "#6b4fa0")  # told apart by dash and label as well
DASHES = ("", "7 4", "2 4", "9 3 2 3")

LOOK = (
    "<style>svg { background: #fff } text { font: 12px system-ui, sans-serif; fill: #333 } "
    ".grid { stroke: #e6e9ec } .frame { fill: none; stroke: #888 }</style>"
)


@dataclass(frozen=True, slots=True)
class PlotSeries:
    """One line: a label and its points, in data units, and for each point the ends of its error bar, or no bars."""

    label: str
    points: tuple[tuple[float, float], ...]
    markers: bool = False
    bars: tuple[tuple[float, float], ...] = ()


def _finite(series: PlotSeries) -> PlotSeries:
    """The points of which every number is finite, with their bars."""
    bars = series.bars or ((0.0, 0.0),) * len(series.points)
    kept = [(p, b) for p, b in zip(series.points, bars, strict=True) if all(map(math.isfinite, (*p, *b)))]
    points, ends = tuple(p for p, _ in kept), tuple(b for _, b in kept) if series.bars else ()
    return PlotSeries(series.label, points, series.markers, ends)


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
    """Draws lines over a common frame.

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
    lines = [_finite(one) for one in series]
    xs = [x for s in lines for x, _ in s.points] or [0.0, 1.0]
    ys = [y for s in lines for _, y in s.points] + [y for s in lines for bar in s.bars for y in bar] + (
        [mark[1]] if mark and math.isfinite(mark[1]) else []
    ) or [0.0, 1.0]
    scale = math.log10 if log_x else float
    x_low, x_high = scale(min(xs)), scale(max(xs))
    y_low, y_high = (min(0.0, *ys) if from_zero else min(ys)), max(ys)
    y_high += 0.04 * ((y_high - y_low) or 1.0)

    def at_x(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * ((scale(x) - x_low) / ((x_high - x_low) or 1.0))

    def at_y(y: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * ((y - y_low) / ((y_high - y_low) or 1.0))

    x_ticks = sorted(set(xs)) if log_x and len(set(xs)) <= 9 else choose_ticks(min(xs), max(xs))
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" xmlns="http://www.w3.org/2000/svg" class="plot">',
        f"<title>{escape(title)}</title><desc>{escape(_describe_plot(lines, x_label, y_label))}</desc>",
    ]
    for y in choose_ticks(y_low, y_high):
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at_y(y):.1f}" y2="{at_y(y):.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at_y(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    parts += [f'<text x="{at_x(x):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x:g}</text>' for x in x_ticks]
    frame = f"M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"
    parts.append(f'<path class="frame" d="{frame}"/>')
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>'
    )
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>')
    labels: list[tuple[float, str, str]] = []
    if mark and math.isfinite(mark[1]):
        y = at_y(mark[1])
        parts.append(f'<line class="mark" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        labels.append((y, mark[0], "#444"))
    for index, line in enumerate(lines):
        if not line.points:
            continue
        colour, dash = COLOURS[index % len(COLOURS)], DASHES[index % len(DASHES)]
        path = "M" + "L".join(f"{at_x(x):.1f} {at_y(y):.1f}" for x, y in line.points)
        parts.append(f'<path fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}" d="{path}"/>')
        if line.markers:
            dots = (f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3" fill="{colour}"/>' for x, y in line.points)
            parts.extend(dots)
        for (x, _), (low, high) in zip(line.points, line.bars, strict=False):
            bar = f"M{at_x(x):.1f} {at_y(low):.1f}V{at_y(high):.1f}"
            parts.append(f'<path class="bar" fill="none" stroke="{colour}" d="{bar}"/>')
        labels.append((at_y(line.points[-1][1]), line.label, colour))
    for y, label, colour in _spread(labels):
        parts.append(f'<text x="{WIDTH - RIGHT + 6}" y="{y + 4:.1f}" fill="{colour}">{escape(label)}</text>')
    return "".join([*parts, "</svg>"])


def _spread(labels: list[tuple[float, str, str]], gap: float = 15.0) -> list[tuple[float, str, str]]:
    """Moves labels apart so that none covers another."""
    placed: list[tuple[float, str, str]] = []
    for y, label, colour in sorted(labels):
        placed.append((max(y, placed[-1][0] + gap) if placed else y, label, colour))
    return placed


def _describe_plot(lines: Sequence[PlotSeries], x_label: str, y_label: str) -> str:
    """The plot in words: each line's first and last point."""
    told = [
        f"{s.label}: from {s.points[0][1]:.3g} at {s.points[0][0]:g} to {s.points[-1][1]:.3g} at {s.points[-1][0]:g}"
        for s in lines
        if s.points
    ]
    return f"{y_label} over {x_label}. " + "; ".join(told) + "."


def add_inline_style(plot: str) -> str:
    """A plot with a style of its own, for places where no page gives it one."""
    return plot.replace("<title>", f"{LOOK}<title>", 1)
