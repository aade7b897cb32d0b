"""Many answers at once: numbers in the shape of what was asked, each with its side, for frames and for plots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import CheckError, EpsilogError, Interval, NeighboringRelation, arrays, check
from epsilog.terms.charts import draw_band_plot
from epsilog.terms.extras import install_command
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.terms.messages import Message
from epsilog.terms.notebook import render_html_table

__all__ = ["ArrayLike", "Intervals"]

Array = NDArray[np.float64]
ArrayLike = Sequence[float] | Sequence[Sequence[float]] | NDArray[Any]
"""Several numbers in a row or in a table: a list, a range, an array."""

_COUNTS = ("rounds", "units")  # whole numbers
_MOST_LINES, _MOST_ROWS = 6, 12  # that a notebook shows
T = TypeVar("T", int, float)


@dataclass(frozen=True, slots=True)
class Intervals:
    """Certified intervals for one question asked at many points, in the shape of the array that was asked about.

    Only ``upper`` may be claimed or charged, point by point; ``lower`` shows how much of it is slack. An index picks
    as NumPy's do: one interval, or several.

    Attributes:
        points: the intervals in a row, the last axis first.
        shape: of the answer.

    >>> from epsilog.terms import NeighboringRelation
    >>> one, other = (Interval(a, 2 * a, "a method", NeighboringRelation.ZERO_OUT) for a in (1.0, 2.0))
    >>> found = Intervals((one, other), (2,))
    >>> found.upper.tolist(), found[-1] == other
    ([2.0, 4.0], True)
    """

    points: Annotated[tuple[Interval, ...], check.sequence_of(check.instance_of(Interval))]
    shape: Annotated[tuple[int, ...], check.sequence_of(check.integer(1))]

    def __post_init__(self) -> None:
        check.check_fields(self)
        if not self.points or len(self.points) != math.prod(self.shape):
            raise CheckError("shape", f"a place for each of {len(self.points)} points", repr(self.shape), verb="have")
        if len({(at.quantity, at.relation, tuple(name for name, _ in at.given)) for at in self.points}) > 1:
            raise ValueError("points must answer one question under one relation")

    @property
    def lower(self) -> Array:
        """Certified lower bounds; shape ``shape``."""
        return np.array([at.lower for at in self.points]).reshape(self.shape)

    @property
    def upper(self) -> Array:
        """Certified upper bounds, which may be claimed; ``inf`` without a guarantee; shape ``shape``."""
        return np.array([at.upper for at in self.points]).reshape(self.shape)

    @property
    def quantity(self) -> str:
        """Return what is bounded: "epsilon" (nats), "delta", "tpr", ..."""
        return self.points[0].quantity

    @property
    def relation(self) -> NeighboringRelation:
        """Which data sets are neighbors."""
        return self.points[0].relation

    @property
    def assumptions(self) -> tuple[Message, ...]:
        """Return what must be true of the run for all of them to hold."""
        return tuple(dict.fromkeys(line for at in self.points for line in at.assumptions))

    def columns(self) -> dict[str, NDArray[Any] | list[str]]:
        """A row a point, as ``polars.DataFrame`` and ``pandas.DataFrame`` take it.

        The numbers of the question by their names, then both sides with theirs ("epsilon_lower", "epsilon_upper"), and
        the method in words.
        """
        named: dict[str, NDArray[Any] | list[str]] = {}
        for place, (name, _) in enumerate(self.points[0].given):
            kind = np.int64 if name in _COUNTS else np.float64
            named[name] = np.array([at.given[place][1] for at in self.points], dtype=kind)
        named[f"{self.quantity}_lower"] = self.lower.ravel()
        named[f"{self.quantity}_upper"] = self.upper.ravel()
        named["method"] = [str(at.method) for at in self.points]
        return named

    def plot(self, axes: Any = None, *, over: str | None = None) -> Any:
        """Draw the upper bounds as lines, each with a band down to its lower bounds, by Matplotlib.

        Args:
            axes: where to draw; Matplotlib's current axes by default.
            over: the argument along the axis; by default the first that varies. There is a line for each combination of
                the others.

        Returns:
            The axes.

        Raises:
            EpsilogError: the extra ``plot`` is not installed.
        """
        over, lines = self._lines(over)
        axes = _current_axes() if axes is None else axes
        for label, points in lines:
            along, low, high = zip(*points, strict=True)
            (drawn,) = axes.plot(along, high, label=label or "upper bound")
            axes.fill_between(along, low, high, color=drawn.get_color(), alpha=0.3, linewidth=0)
        axes.set_xlabel(over)
        axes.set_ylabel(f"{self.quantity}, at most")
        if self._spread(over):
            axes.set_xscale("log")
        if len(lines) > 1:
            axes.legend()
        return axes

    def _lines(self, over: str | None) -> tuple[str, list[tuple[str, list[tuple[float, float, float]]]]]:
        """Along which number of the question; for each combination of the others a label and its points."""
        names = [name for name, _ in self.points[0].given]
        asked = [dict(at.given) for at in self.points]
        varied = [name for name in names if len({one[name] for one in asked}) > 1]
        over = check.one_of(names)(over=(varied or names)[0] if over is None else over)
        lines: dict[tuple[tuple[str, float], ...], list[tuple[float, float, float]]] = {}
        for at, one in zip(self.points, asked, strict=True):
            others = tuple((name, one[name]) for name in varied if name != over)
            lines.setdefault(others, []).append((one[over], at.lower, at.upper))
        return over, [
            (", ".join(f"{name} {value:g}" for name, value in others), sorted(line, key=lambda point: point[0]))
            for others, line in lines.items()
        ]

    def _spread(self, over: str) -> bool:
        """Return whether powers of ten of it lie evenly."""
        return over in ("delta", "fpr") and all(dict(at.given)[over] > 0 for at in self.points)

    def _repr_html_(self) -> str:
        title = f"{self.quantity} at {len(self.points)} points ({self.relation})"
        drawn = ""
        if self.points[0].given:
            over, lines = self._lines(None)
            bands = [(label or "at most", points) for label, points in lines[:_MOST_LINES]]
            drawn = draw_band_plot(bands, title=title, x_label=over, y_label=self.quantity, log_x=self._spread(over))
        rows = [
            (", ".join(f"{name} {value:g}" for name, value in at.given), format_lower(at.lower), format_upper(at.upper))
            for at in self.points[:_MOST_ROWS]
        ]
        left = len(self.points) - len(rows)
        rows += [(f"and {left} more", "", "")] if left else []
        return drawn + render_html_table(title, rows, ["", "at least", "at most"])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """One interval, or several in the shape that NumPy gives them."""
        places = np.arange(len(self.points)).reshape(self.shape)[key]
        if isinstance(places, np.integer):
            return self.points[int(places)]
        return Intervals(tuple(self.points[int(place)] for place in places.ravel()), places.shape)

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    def __str__(self) -> str:
        return "\n".join(map(str, self.points))


def _current_axes() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise EpsilogError(f"plots need the extra `plot`: {install_command('plot')} ({error})") from error
    return plt.gca()


def parse_points(rule: check.Validator[T], **named: object) -> tuple[tuple[T, ...], tuple[int, ...] | None]:
    """Return the numbers given by keyword, in a row, and their shape; None if it is one number, of no series.

    Raises:
        CheckError: an invalid element, named with its position; or an empty series.

    >>> rule = check.in_open_interval(0, 1)
    >>> parse_points(rule, delta=[[0.25], [0.5]]), parse_points(rule, delta=0.5)
    (((0.25, 0.5), (2, 1)), ((0.5,), None))
    >>> parse_points(check.in_open_interval(0, 1), delta=[0.5, float("nan")])
    Traceback (most recent call last):
    epsilog.terms.errors.CheckError: delta[1] must be in (0, 1), got nan
    """
    ((name, value),) = named.items()
    if not check.is_series(value):
        return (rule(**named),), None
    try:
        table = _table(value)
    except Exception:  # noqa: BLE001 - of other libraries: traced, deleted, without data, ragged
        raise CheckError(
            name, "numbers that can be read now, in rows of one length", check.format_value(value)
        ) from None
    if table.size == 0:
        raise CheckError(name, "at least one number", repr(value), verb="hold")
    items = zip(np.ndindex(table.shape), table.ravel(), strict=True)
    return tuple(rule(**{f"{name}[{', '.join(map(str, place))}]": item}) for place, item in items), table.shape


def _table(value: Any) -> NDArray[Any]:
    """Return an array of what is given, item by item as it is: nothing is rounded or unmasked on the way."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__array__"):
        return np.asarray(arrays.convert_tensor(value))
    items = list(value)
    table = np.empty(len(items), dtype=object)
    if not any(map(check.is_series, items)):
        table[:] = items
        return table
    return np.array(items, dtype=object)


def wrap_intervals(points: Iterable[Interval], shape: tuple[int, ...] | None) -> Interval | Intervals:
    """Return what a question is answered with: one interval, or several in the shape of what was asked."""
    if shape is None:
        (one,) = points
        return one
    return Intervals(tuple(points), shape)
