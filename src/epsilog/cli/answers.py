"""`epsilog answer`: a question about a file of data, charged, answered with noise, and kept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilog.cli.app import Json, app, print_json
from epsilog.cli.ledger import DEFAULT_LEDGER, LedgerFile, open_for_reading, open_for_writing
from epsilog.cli.show import escape_control_characters, print_figures, print_notice
from epsilog.terms import CheckError

if TYPE_CHECKING:
    from epsilog.queries import Query, QueryCostEstimate, QueryResult


class QueryKind(StrEnum):
    """What can be asked."""

    COUNT = "count"
    SUM = "sum"
    MEAN = "mean"
    HISTOGRAM = "histogram"
    MOST_COMMON = "most-common"
    ABOVE = "above"
    FIRST_ABOVE = "first-above"


_TAKES = {
    QueryKind.COUNT: {"column"},
    QueryKind.SUM: {"column", "low", "high"},
    QueryKind.MEAN: {"column", "low", "high", "population"},
    QueryKind.HISTOGRAM: {"column", "category", "edge"},
    QueryKind.MOST_COMMON: {"column", "category"},
    QueryKind.ABOVE: {"column", "threshold"},
    QueryKind.FIRST_ABOVE: {"column", "category", "threshold"},
}


@app.command("answer")
def query_command(
    scope: Annotated[str, typer.Argument(help="Where it is charged; every budget at or above it must bear it.")],
    question: Annotated[QueryKind, typer.Argument(help="What is asked.")],
    column: Annotated[str | None, typer.Argument(help="Of which column; a count may do without.")] = None,
    data: Annotated[Path | None, typer.Option("--data", help="A CSV or Parquet file; a quote needs none.")] = None,
    separator: Annotated[str, typer.Option("--separator", help="Between the columns of a CSV file.")] = ",",
    unit: Annotated[str | None, typer.Option("--unit", help="The column that says whose a row is.")] = None,
    each_row: Annotated[
        bool, typer.Option("--each-row", help="Instead: each row is a unit of its own, and none has two.")
    ] = False,
    rows: Annotated[int, typer.Option("--rows", min=1, help="The most rows of a unit that count.")] = 1,
    low: Annotated[float | None, typer.Option("--low", help="The least value: sum, mean.")] = None,
    high: Annotated[float | None, typer.Option("--high", help="The largest value: sum, mean.")] = None,
    category: Annotated[
        list[str] | None,
        typer.Option("--category", help="A category, once for each: histogram, most-common, first-above."),
    ] = None,
    edge: Annotated[
        list[float] | None, typer.Option("--edge", help="An edge between cells, once for each, rising: histogram.")
    ] = None,
    population: Annotated[
        int | None, typer.Option("--population", min=1, help="A public number of rows to divide by: mean.")
    ] = None,
    threshold: Annotated[
        int | None, typer.Option("--threshold", help="That a count is to reach: above, first-above.")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option("--epsilon", help="Its epsilon, at most: pure, approximate, zcdp, rdp budgets.")
    ] = None,
    rho: Annotated[
        str | None, typer.Option("--rho", help="Its rho, at most, where every budget is zcdp or rdp.")
    ] = None,
    mu: Annotated[str | None, typer.Option("--mu", help="Its mu, at most, where budgets are gdp.")] = None,
    error: Annotated[
        float | None, typer.Option("--error", help="Instead: the error that is wanted, for the least that it costs.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="The same key and question give the same answer, for nothing more.")
    ] = None,
    keep: Annotated[Path, typer.Option("--keep", help="The folder where answers are kept.")] = Path("answers"),
    quote: Annotated[
        bool, typer.Option("--quote", help="Say what it would cost; read no data, charge nothing.")
    ] = False,
    simulation: Annotated[bool, typer.Option("--simulation", help="It is no release of real data.")] = False,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Answer a question about data, with exact noise and an error bar, once it is charged.

    Example: epsilog answer acme/claims mean age --low 0 --high 99 --data visits.csv --unit id --epsilon 0.1 --key q1
    """
    if (unit is None) != each_row:
        raise CheckError("unit", "given, or else each-row, and not both", repr(unit))
    said = {"low": low, "high": high, "category": category, "edge": edge}
    said |= {"population": population, "threshold": threshold}
    asked = _Terms(question, column, {name: value for name, value in said.items() if value not in (None, [])})
    terms: dict[str, Any] = {"unit": unit, "rows": rows, "epsilon": epsilon, "rho": rho, "mu": mu, "error": error}
    if quote:
        from epsilog.queries import estimate_query_cost as quoted

        with open_for_reading(ledger) as books:
            _print_estimate(quoted(books, scope, asked.query(), **terms), as_json=as_json)
        return
    from epsilog.queries import run_query, scan_file

    if data is None or key is None:
        raise CheckError("key" if key is None else "data", "given", "nothing")
    frame = scan_file(data, separator=separator)
    with open_for_writing(ledger) as books:
        query = asked.query(whole=_is_integer_column(frame, column))
        _print_result(
            run_query(books, scope, query, frame, key=key, keep=keep, simulation=simulation, **terms), as_json=as_json
        )


@dataclass(frozen=True, slots=True)
class _Terms:
    """A question as it was typed."""

    question: QueryKind
    column: str | None
    said: dict[str, Any]

    def query(self, *, whole: bool = False) -> Query:
        """As the library puts it; ``whole`` says that categories are whole numbers."""
        from epsilog import queries

        for name in self.said.keys() - _TAKES[self.question]:
            raise CheckError(name, f"left out for {self.question}", repr(self.said[name]))
        made: dict[QueryKind, Callable[[], Query]] = {
            QueryKind.COUNT: lambda: queries.Count(self.column),
            QueryKind.ABOVE: lambda: queries.CountAbove(self._require("threshold"), self.column),
            QueryKind.SUM: lambda: queries.Sum(self._column(), self._bounds()),
            QueryKind.MEAN: lambda: queries.Mean(self._column(), self._bounds(), self.said.get("population")),
            QueryKind.HISTOGRAM: lambda: queries.Histogram(self._column(), self._categories(whole), self._edges()),
            QueryKind.MOST_COMMON: lambda: queries.MostCommonCategory(self._column(), self._categories(whole) or ()),
            QueryKind.FIRST_ABOVE: lambda: queries.FirstCategoryAbove(
                self._require("threshold"), self._column(), self._categories(whole) or ()
            ),
        }
        return made[self.question]()

    def _require(self, name: str) -> Any:
        if name not in self.said:
            raise CheckError(name, f"given for {self.question}", "nothing")
        return self.said[name]

    def _column(self) -> str:
        if self.column is None:
            raise CheckError("column", f"given for {self.question}", "nothing")
        return self.column

    def _bounds(self) -> tuple[float, float]:
        return self._require("low"), self._require("high")

    def _edges(self) -> tuple[float, ...] | None:
        return tuple(self.said["edge"]) if "edge" in self.said else None

    def _categories(self, whole: bool) -> tuple[str | int, ...] | None:
        names = self.said.get("category")
        if names is None:
            return None
        try:
            return tuple(int(name) for name in names) if whole else tuple(names)
        except ValueError:
            raise CheckError("category", "a whole number, as the column is", repr(names)) from None


def _is_integer_column(frame: Any, column: str | None) -> bool:
    """Whether a file says that a column is of whole numbers; a CSV file says that all are text."""
    from epsilog.queries import get_column_types

    return re.fullmatch(r"U?Int\d+", get_column_types(frame).get(column or "", "")) is not None


def _print_estimate(quote: QueryCostEstimate, *, as_json: bool) -> None:
    if as_json:
        print_json({"charged": quote.charged, "error": quote.error, "release": quote.release.to_json()})
        return
    wide = "it depends on the count" if quote.error is None else f"{quote.error:.6g}"
    print_figures("It would", [("cost", _cost(quote.charged)), ("be off by at most", wide)])
    print_notice("Nothing was charged, and no data was read.")


def _print_result(answer: QueryResult, *, as_json: bool) -> None:
    if as_json:
        print_json(json.loads(answer.document))
        return
    rows = [("answer", "none of them" if answer.value is None else escape_control_characters(_number(answer.value)))]
    if isinstance(answer.value, dict):
        rows = [(escape_control_characters(name), _number(value)) for name, value in answer.value.items()]
    elif answer.lower is not None:
        rows.append(("between", f"{_number(answer.lower)} and {_number(answer.upper)}"))
    print_figures(
        f"{answer.question['query']} at {answer.scope}",
        [*rows, ("off by at most", f"{answer.error:.6g}, with 95% confidence"), ("charged", _cost(answer.charged))],
    )


def _number(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _cost(charged: Mapping[str, Mapping[str, str]]) -> str:
    """A price, epsilon before delta."""
    amounts = {kind: sorted(price.items(), reverse=True) for kind, price in charged.items()}
    return "; ".join(f"{kind}: {', '.join(f'{name} {n}' for name, n in price)}" for kind, price in amounts.items())
