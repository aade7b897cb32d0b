"""Run a query on a data frame: charge the budget first, draw once, store the result, and only then return it.

Everything public is checked before the charge: the query, the budget, the names and types of columns, the steps of a
lazy frame, the folder. No value is read before the charge, since an error caused by a value would reveal it.
A crash may happen between any two of these steps:

1. The cost is reserved, and spent by ``start``. A repeated call continues.
2. The frame is read and summed, noise is drawn, and the result is written to disk as a draft, which is not returned. If
   reading fails, the draft states only that; it is released like a result, once.
3. The ledger records its SHA-256 as released. If several processes drew for one key, the ledger accepts one draft, and
   the others are discarded.
4. The charge is committed, and the result is returned. From now on the key has this result, wherever it is stored.

Before step 3 nothing has left the process, so a lost result may be drawn again under the same charge. From step 3 on
nothing is drawn again.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epsilog.ledger import (
    Balance,
    Charge,
    ChargeRequest,
    ChargeState,
    Ledger,
    LedgerView,
    compute_cost,
    hash_entry,
)
from epsilog.ledger.headroom import list_path_orders
from epsilog.mechanisms import Release
from epsilog.mechanisms.sampling import RandBelow
from epsilog.queries.contributions import check_frame, sum_contributions
from epsilog.queries.noise import CONFIDENCE, NoisePlan, Number, plan_noise
from epsilog.queries.noisy_values import draw_noisy_values, estimate_error
from epsilog.queries.query_types import Query
from epsilog.queries.result_store import ResultStore
from epsilog.terms import CheckError, ConflictError, NeighboringRelation, RecordError, check
from epsilog.terms.charts import draw_interval_bar
from epsilog.terms.codec import encode_canonical, to_json
from epsilog.terms.notebook import render_html_table

__all__ = [
    "QueryCostEstimate",
    "QueryResult",
    "estimate_query_cost",
    "reserve_answer",
    "run_query",
]

VERSION = 0
_EVIDENCE = "answer.json"
_MAX_ROWS = 1_000_000  # of one unit


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A released result; a repeated call returns the same one.

    Attributes:
        value: a number; one per cell for a histogram; True or False for ``CountAbove``; a category for
            ``MostCommonCategory``; a category or None for ``FirstCategoryAbove``.
        error: bound on the error by noise, with 95% confidence: of each cell of a histogram, of the threshold of
            ``CountAbove`` and ``FirstCategoryAbove``, of the selected count below the largest. For a mean, the longer
            side of its interval.
        lower: lower end of the interval; one per cell for a histogram; else None.
        upper: upper end of the interval.
        rounding: bound on the rounding of each row to the grid; the interval of a sum does not include it.
        charged: the cost, by kind of budget and quantity.
        key: the key of the charge.
        scope: the scope of the charge.
        question: the query with its unit, rows and relation.
        document: the stored bytes, with the SHA-256 that the ledger released.
    """

    value: Any
    error: float
    lower: Any
    upper: Any
    rounding: float
    charged: Mapping[str, Mapping[str, str]]
    key: str
    scope: str
    question: Mapping[str, Any]
    document: bytes = field(repr=False)

    def _repr_html_(self) -> str:
        charged = "; ".join(f"{name} {amount}" for amounts in self.charged.values() for name, amount in amounts.items())
        cost = [("charged", f"{charged} at {self.scope}"), ("key", self.key)]
        title = f"{self.question.get('query', 'answer')}, 95% error {self.error:.6g}"
        if isinstance(self.value, Mapping):
            return render_html_table(title, [*((name, f"{cell:g}") for name, cell in self.value.items()), *cost])
        number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        rows = [("answer", f"{self.value:.7g}" if number else f"{self.value}")]
        if not number or not all(isinstance(end, int | float) for end in (self.lower, self.upper)):
            return render_html_table(title, [*rows, *cost])
        ends = f"{self.lower:.7g} and {self.upper:.7g}"
        label = f"{self.value:.7g}; with 95% confidence between {ends}"
        bar = draw_interval_bar(self.lower, self.upper, title=label, estimate=("answer", self.value), from_zero=False)
        return bar + render_html_table(title, [*rows, ("between", ends), *cost])

    @classmethod
    def read(cls, document: bytes) -> QueryResult:
        """Read a stored result.

        Raises:
            RecordError: the frame could not be read when the result was drawn.
        """
        stored = json.loads(document)
        if stored.pop("v", None) != VERSION:
            raise CheckError("v", f"{VERSION}", "another")
        if stored.get("failed"):
            raise RecordError(
                f"the frame could not be read under key {stored.get('key')!r}; the charge is final, and the key is "
                "used up: ask under another key"
            )
        return cls(**{name: stored[name] for name in cls.__slots__ if name in stored}, document=document)


def run_query(
    ledger: Ledger,
    scope: str,
    query: Query,
    frame: Any,
    *,
    unit: str | None,
    key: str,
    keep: str | Path,
    rows: int = 1,
    epsilon: Number | None = None,
    rho: Number | None = None,
    mu: Number | None = None,
    error: float | None = None,
    simulation: bool = False,
    below: RandBelow | None = None,
) -> QueryResult:
    """Charge a query on a data frame, and answer it with exact discrete noise.

    Args:
        ledger: the ledger with the budgets.
        scope: the scope of the charge; it counts against every budget at and above it.
        query: ``Count``, ``Sum``, ``Mean``, ``Histogram``, ``MostCommonCategory``, ``CountAbove`` or
            ``FirstCategoryAbove``.
        frame: of Polars, pandas or Arrow, a stored table of DuckDB, or a mapping of columns. Its rows may have been
            selected and changed, but each one independently of the rows of other units. A lazy frame of Polars may have
            only steps that no value can make fail.
        unit: the column with the privacy unit of each row; None if each row is a unit, and no unit has two.
        key: idempotency key within the scope; the same scope, key and query give the same result, whatever the frame
            holds by then.
        keep: the folder of results.
        rows: how many rows of a unit count, at most: its first ones with a usable value.
        epsilon: the largest cost, with discrete Laplace noise; a zcdp budget is charged half of its square.
        rho: the largest cost, if every budget is zcdp or rdp, with discrete Gaussian noise.
        mu: the largest cost, if a budget is gdp and the others are zcdp or rdp, with Gaussian noise that is drawn
            exactly and rounded to the grid.
        error: the half-width of the interval, instead of a cost; the least cost that achieves it is charged.
        simulation: whether this is no release of real data; only budgets of simulations accept it.
        below: source of randomness of a simulation; None for the operating system.

    Raises:
        BudgetExceededError: a budget lacks the cost; nothing was charged.
        ConflictError: the key has another query at this scope, or its result is stored elsewhere.
        RecordError: the frame could not be read; the charge is final, and the key has this outcome from now on.
        UnsupportedMechanismError: a budget has no proven cost for the noise (discrete Laplace noise under gdp).

    >>> import tempfile, epsilog as ep
    >>> with tempfile.TemporaryDirectory() as folder, ep.open_ledger(Path(folder) / "budget.db") as ledger:
    ...     _ = ledger.create_budget("acme/claims", kind="pure", epsilon="1")
    ...     frame, query = {"age": [30] * 1000}, ep.queries.Count()
    ...     result = run_query(ledger, "acme/claims", query, frame, unit=None, key="q-1", keep=folder, epsilon="0.5")
    ...     result.error, dict(result.charged["pure"]), abs(result.value - 1000) < 100
    (6, {'epsilon': '0.5'}, True)
    """
    below = _choose_randomness(below, simulation=check.boolean()(simulation=simulation))
    pending = _plan_query(ledger, scope, query, unit=unit, rows=rows, epsilon=epsilon, rho=rho, mu=mu, error=error)
    key = check.text()(key=key)
    check_frame(frame, query, unit)
    store = ResultStore(Path(keep), scope, key)
    if not store.contains():
        store.prepare()
    elif ledger.find(key, scope=scope) is None:  # looked up after the store, since a reservation precedes every draft
        raise ConflictError(f"{store.folder} holds an answer under key {key!r} of {scope!r} that is not this ledger's")
    charge = _reserve(ledger, scope, pending, key=key, simulation=simulation)
    bound = _describe_charge(charge, pending.question)

    def draw() -> bytes:
        sums = _sum_rows(frame, pending)
        values = {"failed": True} if sums is None else draw_noisy_values(query, pending.plan, sums, below)
        return _encode_result(charge, bound, pending.plan, values)

    return QueryResult.read(_release_once(charge, store, bound, draw))


def reserve_answer(
    ledger: Ledger,
    scope: str,
    query: Query,
    *,
    unit: str | None,
    key: str,
    rows: int = 1,
    epsilon: Number | None = None,
    rho: Number | None = None,
    mu: Number | None = None,
    error: float | None = None,
    simulation: bool = False,
) -> Charge:
    """Reserve the cost of a query without reading data; ``run_query`` with the same key continues from there.

    The arguments are those of ``run_query``.

    Raises:
        BudgetExceededError: a budget lacks the cost.
        ConflictError: the key has another query.
    """
    pending = _plan_query(ledger, scope, query, unit=unit, rows=rows, epsilon=epsilon, rho=rho, mu=mu, error=error)
    simulation = check.boolean()(simulation=simulation)
    return _reserve(ledger, scope, pending, key=check.text()(key=key), simulation=simulation)


def estimate_query_cost(
    ledger: LedgerView,
    scope: str,
    query: Query,
    *,
    unit: str | None,
    rows: int = 1,
    epsilon: Number | None = None,
    rho: Number | None = None,
    mu: Number | None = None,
    error: float | None = None,
) -> QueryCostEstimate:
    """Estimate the cost and the error of a query; charge nothing and read no data.

    The arguments are those of ``run_query``.

    >>> import tempfile, epsilog as ep
    >>> with tempfile.TemporaryDirectory() as folder, ep.open_ledger(Path(folder) / "budget.db") as ledger:
    ...     _ = ledger.create_budget("acme/claims", kind="pure", epsilon="1")
    ...     estimate_query_cost(ledger, "acme/claims", ep.queries.Count(), unit=None,
    ... error=20).charged["pure"]["epsilon"]
    '0.146003416'
    """
    pending = _plan_query(ledger, scope, query, unit=unit, rows=rows, epsilon=epsilon, rho=rho, mu=mu, error=error)
    request = ChargeRequest(pending.plan.release, pending.relation)
    due = list_path_orders(pending.path).items()
    charged = {kind: dict(compute_cost(request, kind, orders=orders).amounts) for kind, orders in due}
    return QueryCostEstimate(charged, estimate_error(pending.query, pending.plan), pending.plan.release)


@dataclass(frozen=True, slots=True)
class QueryCostEstimate:
    """The cost and the error of a query.

    Attributes:
        charged: the cost, by kind of budget and quantity.
        error: as in ``QueryResult``; None for a mean without a public count, on which it depends.
        release: the release that would be charged.
    """

    charged: Mapping[str, Mapping[str, str]]
    error: float | None
    release: Release


@dataclass(frozen=True, slots=True)
class _PendingQuery:
    """A query with its budgets and its noise: everything known before the data."""

    query: Query
    unit: str | None
    rows: int
    relation: NeighboringRelation
    path: Sequence[Balance]
    plan: NoisePlan

    @property
    def question(self) -> dict[str, Any]:
        """Return the query as stored, and as the hash for the key covers it."""
        return {**self.query.to_json(), "unit": self.unit, "rows": self.rows, "relation": self.relation.value}


def _plan_query(
    ledger: LedgerView,
    scope: str,
    query: Query,
    *,
    unit: str | None,
    rows: int,
    **goal: Any,
) -> _PendingQuery:
    """Check a query and plan its noise."""
    query, unit = check.instance_of(Query)(query=query), check.optional(check.text())(unit=unit)
    rows = check.integer(1, _MAX_ROWS)(rows=rows)
    if unit is None and rows != 1:
        raise CheckError("rows", "1 where each row is a unit", repr(rows))
    path = ledger.budgets_above(scope)
    if not path:
        raise CheckError("scope", "a budget at or above it", repr(scope), verb="have")
    relation, kinds = path[-1].relation, frozenset(budget.kind for budget in path)
    plan = plan_noise(query, rows=rows, relation=relation, kinds=kinds, **goal)
    return _PendingQuery(query, unit, rows, relation, path, plan)


def _reserve(ledger: Ledger, scope: str, pending: _PendingQuery, *, key: str, simulation: bool) -> Charge:
    return ledger.reserve(
        scope,
        pending.plan.release,
        key=key,
        relation=pending.relation,
        plan_hash=hashlib.sha256(encode_canonical(pending.question)).hexdigest(),
        rounds=1,
        simulation=simulation,
    )


def _sum_rows(frame: Any, pending: _PendingQuery) -> list[list[int]] | None:
    """Return the true sums; None if the frame cannot be read for any reason, since the reason may be a value."""
    try:
        return sum_contributions(frame, pending.query, pending.plan.parts, unit=pending.unit, rows=pending.rows)
    except Exception:  # noqa: BLE001 - see above
        return None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of a Rust library; all others end the process
            raise
        return None


def _choose_randomness(below: RandBelow | None, *, simulation: bool) -> RandBelow:
    """Return the source of randomness: the operating system, except in a simulation."""
    if below is not None and not simulation:
        raise CheckError("below", "left out: randomness that protects people is the operating system's", "another")
    return secrets.randbelow if below is None else below


def _describe_charge(charge: Charge, question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that every result of this charge has; a result with others is of another ledger.

    The hash of the reservation distinguishes it from all other charges. So the draft of a simulation, with known noise,
    is never returned as a private result.
    """
    release, opened = to_json(charge.request.release), hash_entry(charge.entry.document())
    names = {"key": charge.key, "scope": charge.scope, "opened": opened}
    return {"v": VERSION, **names, "question": dict(question), "release": release}


def _release_once(charge: Charge, store: ResultStore, bound: Mapping[str, Any], draw: Callable[[], bytes]) -> bytes:
    """Return the released result of a charge; draw and release it now unless it was before."""
    _start(charge)
    while 1 not in charge.rounds_released:
        try:
            charge.round_started(1)
            drafted = store.read_draft(bound, draw)
            charge.round_released(1, output_hash=hashlib.sha256(drafted).hexdigest())
        except ConflictError:
            if 1 not in charge.rounds_released:  # no other process released a result
                raise
    digest = charge.rounds_released[1]
    document = store.find(digest)
    if document is None:
        store.discard(bound)
        raise ConflictError(
            f"key {charge.key!r} already has an answer (SHA-256 {digest}), and {store.folder} does not hold it: "
            "give its folder, or another key at additional cost"
        )
    store.publish(digest)
    if charge.state == ChargeState.STARTED:
        charge.commit({_EVIDENCE: digest})
    return document


def _start(charge: Charge) -> None:
    """Spend the cost once, even under concurrent calls."""
    if charge.state != ChargeState.RESERVED:
        return
    try:
        charge.start()
    except ConflictError:
        if charge.state == ChargeState.RESERVED:
            raise


def _encode_result(charge: Charge, bound: Mapping[str, Any], plan: NoisePlan, values: Mapping[str, Any]) -> bytes:
    """Return everything that is stored of a result.

    The nonce distinguishes two equal draws, since their equality would depend on the data.
    """
    noise = [
        {"law": to_json(one), "step": float(part.step)} for part, one in zip(plan.parts, plan.noises, strict=False)
    ]
    charged = {kind: dict(amount) for kind, amount in charge.amounts.items()}
    return encode_canonical(
        {
            **bound,
            "nonce": secrets.token_hex(16),
            "noise": noise,
            "confidence": CONFIDENCE,
            "charged": charged,
            **values,
        }
    )
