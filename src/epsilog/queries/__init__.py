"""Answers: questions about a data frame, charged to a budget, answered with exact noise and an error bar, and kept.

``queries`` says what can be asked, ``files`` reads files, ``columns`` says what rows add, ``noise`` what it costs and
how far it is off, ``choice`` how the largest count is found and ``sparse`` the first that is large enough, ``telling``
draws and adds the error bar, ``shelf`` keeps, and ``asking`` leads through them, in the order in which nothing
can be told that was not paid for. ``best`` runs trials of anything and tells the best alone.
"""

from epsilog.queries.asking import Answer, Budgets, Payer, Quote, ask, quote, reserve_answer
from epsilog.queries.best import best_of
from epsilog.queries.columns import types_of
from epsilog.queries.files import scan
from epsilog.queries.queries import Above, Count, FirstAbove, Histogram, Mean, MostCommon, Query, Sum

__all__ = [
    "Above",
    "Answer",
    "Budgets",
    "Count",
    "FirstAbove",
    "Histogram",
    "Mean",
    "MostCommon",
    "Payer",
    "Query",
    "Quote",
    "Sum",
    "ask",
    "best_of",
    "quote",
    "reserve_answer",
    "scan",
    "types_of",
]
