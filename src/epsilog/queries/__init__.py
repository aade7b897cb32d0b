"""Queries on a data frame: charged to a budget, answered with exact noise and an error bar, and stored.

``query_types`` defines the queries and ``files`` reads files. ``contributions`` sums rows, and ``noise`` plans noise,
cost and error. ``choices`` finds the largest count, or the first large one. ``noisy_values`` draws, ``result_store``
stores results, and ``execution`` runs these steps, so that nothing uncharged is released.
``best_of_trials`` runs trials of any mechanism and releases the best one.
"""

from epsilog.queries.best_of_trials import run_best_of_trials
from epsilog.queries.contributions import get_column_types as get_column_types
from epsilog.queries.execution import (
    QueryCostEstimate,
    QueryResult,
    estimate_query_cost,
    reserve_answer as reserve_answer,
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
    "run_best_of_trials",
    "run_query",
    "scan_file",
]
