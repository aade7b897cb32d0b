"""Asking a ledger's budget a question about a data frame: charged first, drawn once, kept, and only then told.

Everything that is public is checked beforehand: the question, the budget, the names and types of columns, the steps of
a lazy frame, the folder. No value is read before the price is spent, since an error that a value causes would tell of
it, and could be asked for again. A crash may come between any two of these steps:

1. The price is reserved, and spent by ``start``. Asked again, it goes on.
2. The frame is read and summed, noise is drawn, and the answer is written to disk as a draft: durable, and told to
   nobody. If reading fails, the draft says that, and nothing else; it is released as an answer is, once, and for good.
3. The ledger notes its SHA-256 as released. Of several who drew for one key the ledger takes one; others are discarded.
4. The charge is committed, and the answer is told. From here on the key stands for this answer, wherever it is kept.

Before step 3 nothing has left the process, so an answer that was lost may be drawn anew for the same charge. From
step 3 on nothing is drawn for it again, whatever happens.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from epsilog.ledger import Balance, Charge, ChargeRequest, ChargeState, compute_cost, hash_entry, list_path_orders
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
    "BudgetReader",
    "ChargeClient",
    "QueryCostEstimate",
    "QueryResult",
    "estimate_query_cost",
    "reserve_answer",
    "run_query",
]

VERSION = 0
_EVIDENCE = "answer.json"
_LARGEST_ROWS = 1_000_000  # that one unit may add


class BudgetReader(Protocol):
    """What a quote asks of a ledger, in this process or far away, or of one to look at."""

    def budgets_above(self, scope: str) -> Sequence[Balance]:
        """The budgets that a charge at this scope must fit."""


class ChargeClient(BudgetReader, Protocol):
    """What an answer asks of a ledger."""

    def find(self, key: str, *, scope: str | None = None) -> Charge | None:
        """The charge with a key in a scope, if there is one."""

    def reserve(
        self,
        scope: str,
        release: Release,
        *,
        key: str,
        relation: NeighboringRelation | None = None,
        plan_hash: str | None = None,
        rounds: int | None = None,
        simulation: bool = False,
    ) -> Charge:
        """Promises the price of a release."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What was released: the same whenever it is asked for again.

    Attributes:
        value: a number; of a histogram one for each cell; of ``Above`` True or False; of ``MostCommonCategory`` a
        category; of ``FirstCategoryAbove`` a category, or None.
        error: with 95% confidence noise moved the answer no further: each cell of a histogram, the threshold of
            ``Above`` and of ``FirstCategoryAbove``, the count of what was chosen below the largest. Of a mean, the
            longer side of its interval.
        lower: the interval's lower end; of a histogram one for each cell, None where there is none.
        upper: its upper end.
        rounding: what rounding to the grid may have moved each row, at most; it is not in the interval of a sum.
        charged: what it cost, by kind of budget and quantity.
        key: of the charge.
        scope: where it was charged.
        question: all that was asked.
        document: the bytes that are kept, and whose SHA-256 the ledger released.
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
        paid = [("charged", f"{charged} at {self.scope}"), ("key", self.key)]
        title = f"{self.question.get('query', 'answer')}, 95% error {self.error:.6g}"
        if isinstance(self.value, Mapping):
            return render_html_table(title, [*((name, f"{cell:g}") for name, cell in self.value.items()), *paid])
        number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        rows = [("answer", f"{self.value:.7g}" if number else f"{self.value}")]
        if not number or not all(isinstance(end, int | float) for end in (self.lower, self.upper)):
            return render_html_table(title, [*rows, *paid])
        says = f"{self.value:.7g}; with 95% confidence between {self.lower:.7g} and {self.upper:.7g}"
        drawn = draw_interval_bar(self.lower, self.upper, title=says, estimate=("answer", self.value), from_zero=False)
        return drawn + render_html_table(title, [*rows, ("between", f"{self.lower:.7g} and {self.upper:.7g}"), *paid])

    @classmethod
    def read(cls, document: bytes) -> QueryResult:
        """Reads what is kept.

        Raises:
            RecordError: the frame could not be read when the answer was due.
        """
        said = json.loads(document)
        if said.pop("v", None) != VERSION:
            raise CheckError("v", f"{VERSION}", "another")
        if said.get("failed"):
            raise RecordError(
                f"the frame could not be read under key {said.get('key')!r}; the charge stands, and the key is used "
                "up: ask under another key"
            )
        return cls(**{name: said[name] for name in cls.__slots__ if name in said}, document=document)


def run_query(
    ledger: ChargeClient,
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
    """Answers a question about a data frame with exact discrete noise, once it is charged.

    Args:
        ledger: that has the budgets.
        scope: where it is charged; every budget at or above it must bear it.
        query: ``Count``, ``Sum``, ``Mean``, ``Histogram``, ``MostCommonCategory``, ``Above`` or ``FirstCategoryAbove``.
        frame: of Polars, pandas or Arrow, a stored table of DuckDB, or a mapping of columns. Its rows may have been
            chosen and changed each by itself, and by nothing that depends on other units' rows. A lazy frame of Polars
            may have only steps that cannot fail because of a value.
        unit: the column that says whose a row is, in the sense of the budget's privacy unit; None if each row is a unit
            of its own, and no unit has two.
        key: idempotency key, which belongs to the scope: the same scope, key and question give the same answer,
            whatever the frame holds by then.
        keep: the folder where answers are kept.
        rows: the most rows of a unit that count: the first of its rows that have what is asked for.
        epsilon: of the answer, at most; with discrete Laplace noise. A zcdp budget is charged half of its square.
        rho: of the answer, at most, where every budget is zcdp or rdp; with discrete Gaussian noise.
        mu: of the answer, at most, where a budget is gdp, and others zcdp or rdp; with Gaussian noise that is drawn
            exactly and rounded to the grid.
        error: the half-width that is wanted, instead of a price; it is charged the least that gives it.
        simulation: whether this is no release of real data; only budgets of simulations take it.
        below: where a simulation's randomness comes from; None for the operating system.

    Raises:
        BudgetExceededError: some budget cannot bear it; nothing was charged.
        ConflictError: the key came with another question to this scope, or its answer is kept elsewhere.
        RecordError: the frame could not be read; the charge stands, and the key says so from here on.
        UnsupportedMechanismError: the noise has no proven price under a budget (discrete Laplace noise under gdp).

    >>> import tempfile, epsilog as ep
    >>> with tempfile.TemporaryDirectory() as folder, ep.open_ledger(Path(folder) / "budget.db") as ledger:
    ...     _ = ledger.create_budget("acme/claims", kind="pure", epsilon="1")
    ...     frame, query = {"age": [30] * 1000}, ep.queries.Count()
    ...     result = run_query(ledger, "acme/claims", query, frame, unit=None, key="q-1", keep=folder, epsilon="0.5")
    ...     result.error, dict(result.charged["pure"]), abs(result.value - 1000) < 100
    (6, {'epsilon': '0.5'}, True)
    """
    below = _source(below, simulation=check.boolean()(simulation=simulation))
    asked = _plan_query(ledger, scope, query, unit=unit, rows=rows, epsilon=epsilon, rho=rho, mu=mu, error=error)
    key = check.text()(key=key)
    check_frame(frame, query, unit)
    shelf = ResultStore(Path(keep), scope, key)
    if not shelf.holds():
        shelf.prepare()
    elif ledger.find(key, scope=scope) is None:  # looked up after the shelf: whoever drew had reserved before
        raise ConflictError(f"{shelf.folder} holds an answer under key {key!r} of {scope!r} that is not this ledger's")
    charge = _reserve(ledger, scope, asked, key=key, simulation=simulation)
    bound = _bound(charge, asked.question)

    def draw() -> bytes:
        sums = _sum_rows(frame, asked)
        said = {"failed": True} if sums is None else draw_noisy_values(query, asked.plan, sums, below)
        return _document(charge, bound, asked.plan, said)

    return QueryResult.read(_once(charge, shelf, bound, draw))


def reserve_answer(
    ledger: ChargeClient,
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
    """Reserves the price of a question; ``run_query`` with the same key goes on from there. No data is read.

    Args:
        ledger: see ``run_query``.
        scope: see ``run_query``.
        query: see ``run_query``.
        unit: see ``run_query``.
        key: see ``run_query``.
        rows: see ``run_query``.
        epsilon: see ``run_query``.
        rho: see ``run_query``.
        mu: see ``run_query``.
        error: see ``run_query``.
        simulation: see ``run_query``.

    Raises:
        BudgetExceededError: some budget cannot bear it.
        ConflictError: the key came with another question.
    """
    asked = _plan_query(ledger, scope, query, unit=unit, rows=rows, epsilon=epsilon, rho=rho, mu=mu, error=error)
    simulation = check.boolean()(simulation=simulation)
    return _reserve(ledger, scope, asked, key=check.text()(key=key), simulation=simulation)


def estimate_query_cost(
    ledger: BudgetReader,
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
    """Says what a question would cost and how exact its answer would be; charges nothing and reads no data.

    Args:
        ledger: see ``run_query``.
        scope: see ``run_query``.
        query: see ``run_query``.
        unit: see ``run_query``.
        rows: see ``run_query``.
        epsilon: see ``run_query``.
        rho: see ``run_query``.
        mu: see ``run_query``.
        error: see ``run_query``.

    >>> import tempfile, epsilog as ep
    >>> with tempfile.TemporaryDirectory() as folder, ep.open_ledger(Path(folder) / "budget.db") as ledger:
    ...     _ = ledger.create_budget("acme/claims", kind="pure", epsilon="1")
    ...     estimate_query_cost(ledger, "acme/claims", ep.queries.Count(), unit=None,
    ... error=20).charged["pure"]["epsilon"]
    '0.146003416'
    """
    asked = _plan_query(ledger, scope, query, unit=unit, rows=rows, epsilon=epsilon, rho=rho, mu=mu, error=error)
    request = ChargeRequest(asked.plan.release, asked.relation)
    due = list_path_orders(asked.path).items()
    charged = {kind: dict(compute_cost(request, kind, orders=orders).amounts) for kind, orders in due}
    return QueryCostEstimate(charged, estimate_error(asked.query, asked.plan), asked.plan.release)


@dataclass(frozen=True, slots=True)
class QueryCostEstimate:
    """What a question would cost, and how far its answer would be off.

    Attributes:
        charged: its price, by kind of budget and quantity.
        error: as ``QueryResult`` says; None for a mean whose count is not public, since it depends on the count.
        release: what would be charged for.
    """

    charged: Mapping[str, Mapping[str, str]]
    error: float | None
    release: Release


@dataclass(frozen=True, slots=True)
class _PendingQuery:
    """A question under the budgets that pay for it: all that is known before any data is."""

    query: Query
    unit: str | None
    rows: int
    relation: NeighboringRelation
    path: Sequence[Balance]
    plan: NoisePlan

    @property
    def question(self) -> dict[str, Any]:
        """As it is kept, and as its hash binds the key."""
        return {**self.query.to_json(), "unit": self.unit, "rows": self.rows, "relation": self.relation.value}


def _plan_query(
    ledger: BudgetReader,
    scope: str,
    query: Query,
    *,
    unit: str | None,
    rows: int,
    epsilon: Number | None,
    rho: Number | None,
    mu: Number | None,
    error: float | None,
) -> _PendingQuery:
    """Checks a question, and plans the noise that answers it."""
    query, unit = check.instance_of(Query)(query=query), check.optional(check.text())(unit=unit)
    rows = check.integer(1, _LARGEST_ROWS)(rows=rows)
    if unit is None and rows != 1:
        raise CheckError("rows", "1 where each row is a unit of its own", repr(rows))
    path = ledger.budgets_above(scope)
    if not path:
        raise CheckError("scope", "a budget at or above it", repr(scope), verb="have")
    relation, kinds = path[-1].relation, frozenset(budget.kind for budget in path)
    plan = plan_noise(query, rows=rows, relation=relation, kinds=kinds, epsilon=epsilon, rho=rho, mu=mu, error=error)
    return _PendingQuery(query, unit, rows, relation, path, plan)


def _reserve(ledger: ChargeClient, scope: str, asked: _PendingQuery, *, key: str, simulation: bool) -> Charge:
    return ledger.reserve(
        scope,
        asked.plan.release,
        key=key,
        relation=asked.relation,
        plan_hash=hashlib.sha256(encode_canonical(asked.question)).hexdigest(),
        rounds=1,
        simulation=simulation,
    )


def _sum_rows(frame: Any, asked: _PendingQuery) -> list[list[int]] | None:
    """The true sums; None where the frame cannot be read, whatever the reason: it may be a value."""
    try:
        return sum_contributions(frame, asked.query, asked.plan.parts, unit=asked.unit, rows=asked.rows)
    except Exception:  # noqa: BLE001 - see above
        return None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of a library in Rust; others end the process
            raise
        return None


def _source(below: RandBelow | None, *, simulation: bool) -> RandBelow:
    """Where randomness comes from: that of the operating system, unless nobody needs protection."""
    if below is not None and not simulation:
        raise CheckError("below", "left out: randomness that protects people is the operating system's", "another")
    return secrets.randbelow if below is None else below


def _bound(charge: Charge, question: Mapping[str, Any]) -> dict[str, Any]:
    """What an answer to this charge says for sure; one that says otherwise is of another ledger.

    The hash of its reservation tells it from every other charge: a simulation's draft, whose noise somebody may know,
    is never told for one that protects people.
    """
    release, opened = to_json(charge.request.release), hash_entry(charge.entry.document())
    said = {"key": charge.key, "scope": charge.scope, "opened": opened, "question": dict(question), "release": release}
    return {"v": VERSION, **said}


def _once(charge: Charge, shelf: ResultStore, bound: Mapping[str, Any], draw: Callable[[], bytes]) -> bytes:
    """What a charge released: drawn and released now, unless it was before."""
    _start(charge)
    while 1 not in charge.rounds_released:
        try:
            charge.round_started(1)
            drafted = shelf.read_draft(bound, draw)
            charge.round_released(1, output_hash=hashlib.sha256(drafted).hexdigest())
        except ConflictError:
            if 1 not in charge.rounds_released:  # nobody was faster
                raise
    digest = charge.rounds_released[1]
    document = shelf.find(digest)
    if document is None:
        shelf.discard(bound)
        raise ConflictError(
            f"key {charge.key!r} was answered already, and the answer (SHA-256 {digest}) is not in {shelf.folder}: "
            "look it up where it is kept, or ask under another key, at its price"
        )
    shelf.publish(digest)
    if charge.state == ChargeState.STARTED:
        charge.commit({_EVIDENCE: digest})
    return document


def _start(charge: Charge) -> None:
    """Spends the price, unless it is spent; of two who do so at once, one does."""
    if charge.state != ChargeState.RESERVED:
        return
    try:
        charge.start()
    except ConflictError:
        if charge.state == ChargeState.RESERVED:
            raise


def _document(charge: Charge, bound: Mapping[str, Any], plan: NoisePlan, said: Mapping[str, Any]) -> bytes:
    """What is kept of an answer, and all that is.

    The nonce keeps two draws apart that came out the same: whether they did would tell of the data.
    """
    noise = [
        {"law": to_json(law), "step": float(part.step)} for part, law in zip(plan.parts, plan.noises, strict=False)
    ]
    charged = {kind: dict(amount) for kind, amount in charge.amounts.items()}
    return encode_canonical(
        {**bound, "nonce": secrets.token_hex(16), "noise": noise, "confidence": CONFIDENCE, "charged": charged, **said}
    )
