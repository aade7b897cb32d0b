"""Answers: questions about a data frame, charged to a budget, answered with exact noise and an error bar, and kept.

``queries`` says what can be asked, ``files`` reads files, ``columns`` says what rows add, ``noise`` what it costs and
how far it is off, ``choice`` how the largest count is found and ``sparse`` the first that is large enough, ``telling``
draws and adds the error bar, ``shelf`` keeps, and ``asking`` leads through them, in the order in which nothing
can be told that was not paid for. ``best`` runs trials of anything and tells the best alone.
"""

from epsilog.queries.best_of_trials import run_best_of_trials
from epsilog.queries.contributions import get_column_types
from epsilog.queries.execution import (
    BudgetReader,
    ChargeClient,
    QueryCostEstimate,
    QueryResult,
    estimate_query_cost,
    reserve_answer,
    run_query,
)
from epsilog.queries.files import scan_file
from epsilog.queries.query_types import (
    Count,
    CountAbove,
    FirstCategoryAbove,
    Histogram,
    Mean,
    MostCommonCategory,
    Query,
    Sum,
)

__all__ = [
    "BudgetReader",
    "ChargeClient",
    "Count",
    "CountAbove",
    "FirstCategoryAbove",
    "Histogram",
    "Mean",
    "MostCommonCategory",
    "Query",
    "QueryCostEstimate",
    "QueryResult",
    "Sum",
    "estimate_query_cost",
    "get_column_types",
    "reserve_answer",
    "run_best_of_trials",
    "run_query",
    "scan_file",
]
