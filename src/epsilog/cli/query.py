"""`epsilog query`: a query on a data file, charged, answered with noise, and kept."""

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
from epsilog.cli.show import print_figures, print_notice
from epsilog.terms import CheckError

if TYPE_CHECKING:
    from epsilog.queries import Query, QueryCostEstimate, QueryResult


class QueryKind(StrEnum):
    """The kind of a query."""

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


@app.command("query")
def query_command(
    scope: Annotated[str, typer.Argument(help="Scope to charge; every budget at or above it is charged.")],
    question: Annotated[QueryKind, typer.Argument(help="The kind of query.")],
    column: Annotated[str | None, typer.Argument(help="The column; optional for a count.")] = None,
    data: Annotated[Path | None, typer.Option(help="A CSV or Parquet file; --estimate does not need it.")] = None,
    separator: Annotated[str, typer.Option(help="Separator of a CSV file.")] = ",",
    unit: Annotated[
        str | None, typer.Option("--unit-column", help="The column that identifies the privacy unit of a row.")
    ] = None,
    each_row: Annotated[
        bool, typer.Option("--row-is-unit", help="Instead of --unit-column: each row is a separate privacy unit.")
    ] = False,
    rows: Annotated[
        int, typer.Option("--max-rows-per-unit", min=1, help="Largest number of rows of a unit that count.")
    ] = 1,
    low: Annotated[float | None, typer.Option(help="Lower bound of values: sum, mean.")] = None,
    high: Annotated[float | None, typer.Option(help="Upper bound of values: sum, mean.")] = None,
    category: Annotated[
        list[str] | None, typer.Option(help="A category; repeatable: histogram, most-common, first-above.")
    ] = None,
    edge: Annotated[
        list[float] | None, typer.Option("--bin-edge", help="A bin edge; repeatable, in rising order: histogram.")
    ] = None,
    population: Annotated[int | None, typer.Option(min=1, help="A public number of rows, the divisor: mean.")] = None,
    threshold: Annotated[int | None, typer.Option(help="The count to reach: above, first-above.")] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Epsilon to spend at most: pure, approximate, zcdp and rdp budgets.")
    ] = None,
    rho: Annotated[str | None, typer.Option(help="Rho to spend at most, where every budget is zcdp or rdp.")] = None,
    mu: Annotated[str | None, typer.Option(help="Mu to spend at most, where budgets are gdp.")] = None,
    error: Annotated[
        float | None, typer.Option(help="Instead: the target error, at the least cost that reaches it.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: the same query under it repeats its answer at no cost.")
    ] = None,
    keep: Annotated[Path, typer.Option("--results-folder", help="The folder that keeps answers.")] = Path("answers"),
    quote: Annotated[bool, typer.Option("--estimate", help="Print the cost; read no data and charge nothing.")] = False,
    simulation: Annotated[bool, typer.Option("--simulation", help="The data are simulated.")] = False,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Charge and answer a query on data, with noise and an error bar.

    Example: epsilog query acme/claims mean age --low 0 --high 99 --data v.csv --unit-column id --epsilon 1 --key q1
    """
    if (unit is None) != each_row:
        raise CheckError("unit", "given, or else --row-is-unit, and not both", repr(unit))
    values = {"low": low, "high": high, "category": category, "edge": edge}
    values |= {"population": population, "threshold": threshold}
    request = _Request(question, column, {name: value for name, value in values.items() if value not in (None, [])})
    terms: dict[str, Any] = {"unit": unit, "rows": rows, "epsilon": epsilon, "rho": rho, "mu": mu, "error": error}
    if quote:
        from epsilog.queries import estimate_query_cost

        with open_for_reading(ledger) as books:
            return _print_estimate(estimate_query_cost(books, scope, request.build(), **terms), as_json=as_json)
    from epsilog.queries import run_query, scan_file

    if data is None or key is None:
        raise CheckError("key" if key is None else "data", "given", "nothing")
    frame = scan_file(data, separator=separator)
    with open_for_writing(ledger) as books:
        query = request.build(integers=_is_integer_column(frame, column))
        result = run_query(books, scope, query, frame, key=key, keep=keep, simulation=simulation, **terms)
    return _print_result(result, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Request:
    """A query as it was typed."""

    question: QueryKind
    column: str | None
    values: dict[str, Any]

    def build(self, *, integers: bool = False) -> Query:
        """Return the library's query; with ``integers``, categories are integers."""
        from epsilog import queries

        for name in self.values.keys() - _TAKES[self.question]:
            raise CheckError(name, f"absent for {self.question}", repr(self.values[name]))
        builders: dict[QueryKind, Callable[[], Query]] = {
            QueryKind.COUNT: lambda: queries.Count(self.column),
            QueryKind.ABOVE: lambda: queries.CountAbove(self._require("threshold"), self.column),
            QueryKind.SUM: lambda: queries.Sum(self._column(), self._bounds()),
            QueryKind.MEAN: lambda: queries.Mean(self._column(), self._bounds(), self.values.get("population")),
            QueryKind.HISTOGRAM: lambda: queries.Histogram(self._column(), self._categories(integers), self._edges()),
            QueryKind.MOST_COMMON: lambda: queries.MostCommonCategory(self._column(), self._categories(integers) or ()),
            QueryKind.FIRST_ABOVE: lambda: queries.FirstCategoryAbove(
                self._require("threshold"), self._column(), self._categories(integers) or ()
            ),
        }
        return builders[self.question]()

    def _require(self, name: str) -> Any:
        if name not in self.values:
            raise CheckError(name, f"given for {self.question}", "nothing")
        return self.values[name]

    def _column(self) -> str:
        if self.column is None:
            raise CheckError("column", f"given for {self.question}", "nothing")
        return self.column

    def _bounds(self) -> tuple[float, float]:
        return self._require("low"), self._require("high")

    def _edges(self) -> tuple[float, ...] | None:
        return tuple(self.values["edge"]) if "edge" in self.values else None

    def _categories(self, integers: bool) -> tuple[str | int, ...] | None:
        names = self.values.get("category")
        if names is None:
            return None
        try:
            return tuple(int(name) for name in names) if integers else tuple(names)
        except ValueError:
            raise CheckError("category", "an integer, like the column", repr(names)) from None


def _is_integer_column(frame: Any, column: str | None) -> bool:
    """Return whether a file declares a column of integers; a CSV file declares text only."""
    from epsilog.queries import get_column_types

    return re.fullmatch(r"U?Int\d+", get_column_types(frame).get(column or "", "")) is not None


def _print_estimate(quote: QueryCostEstimate, *, as_json: bool) -> None:
    if as_json:
        print_json({"charged": quote.charged, "error": quote.error, "release": quote.release.to_json()})
        return
    error = "depends on the count" if quote.error is None else f"{quote.error:.6g}"
    print_figures("Estimate", [("cost", _format_cost(quote.charged)), ("95% error", error)])
    print_notice("Nothing was charged, and no data was read.")


def _print_result(answer: QueryResult, *, as_json: bool) -> None:
    if as_json:
        print_json(json.loads(answer.document))
        return
    rows = [("answer", "none of them" if answer.value is None else _format_number(answer.value))]
    if isinstance(answer.value, dict):
        rows = [(name, _format_number(value)) for name, value in answer.value.items()]
    elif answer.lower is not None:
        rows.append(("between", f"{_format_number(answer.lower)} and {_format_number(answer.upper)}"))
    print_figures(
        f"{answer.question['query']} at {answer.scope}",
        [*rows, ("95% error", f"{answer.error:.6g}"), ("charged", _format_cost(answer.charged))],
    )


def _format_number(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _format_cost(charged: Mapping[str, Mapping[str, str]]) -> str:
    """Return a cost, epsilon before delta."""
    amounts = {kind: sorted(cost.items(), reverse=True) for kind, cost in charged.items()}
    return "; ".join(f"{kind}: {', '.join(f'{name} {n}' for name, n in cost)}" for kind, cost in amounts.items())
