"""Asking a ledger's budget a question about a data frame: charged first, drawn once, kept, and only then told.

A crash may come between any two of these steps:

1. Everything is checked; the price is reserved, and spent by ``start``. No value was read yet. Asked again, it goes on.
2. The frame is read, noise is drawn, and the answer is written to disk as a draft: durable, and told to nobody.
3. The ledger notes its SHA-256 as released. Of several who drew for one key the ledger takes one; others are discarded.
4. The charge is committed, and the answer is told. From here on the key stands for this answer, wherever it is kept.

Before step 3 nothing has left the process, so an answer that was lost may be drawn anew for the same charge. From
step 3 on nothing is drawn for it again, whatever happens.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

from epsilog.answers.choice import permute_and_flip, spread
from epsilog.answers.columns import check_frame, totals
from epsilog.answers.noise import (
    CONFIDENCE,
    Number,
    Plan,
    half_width,
    margin_of_choice,
    middle_of,
    planned,
    worth,
)
from epsilog.answers.queries import Above, Histogram, Mean, MostCommon, Query, Sum, grid
from epsilog.answers.samplers import RandBelow, noisy_count
from epsilog.answers.shelf import Shelf
from epsilog.spend import Balance, Charge, State
from epsilog.terms import CheckError, ConflictError, NeighboringRelation, PureDP, Release, check
from epsilog.terms.codec import canonical, to_json

__all__ = ["Answer", "Budgets", "ask"]

VERSION = 0
_EVIDENCE = "answer.json"
_LARGEST_ROWS = 1_000_000  # that one unit may add


class Budgets(Protocol):
    """What is asked of a ledger, in this process or far away."""

    def budgets_above(self, scope: str) -> Sequence[Balance]:
        """The budgets that a charge at this scope must fit."""

    def find(self, key: str) -> Charge | None:
        """The charge with a key, if there is one."""

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
class Answer:
    """What was released: the same whenever it is asked for again.

    Attributes:
        value: a number; of a histogram one for each cell; of ``Above`` True or False; of ``MostCommon`` a category.
        error: with 95% confidence noise moved the answer no further: each cell of a histogram, the threshold of
            ``Above``, the count of what was chosen below the largest. Of a mean, the longer side of its interval.
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

    @classmethod
    def read(cls, document: bytes) -> Answer:
        """Reads what is kept."""
        said = json.loads(document)
        if said.pop("v", None) != VERSION:
            raise CheckError("v", f"{VERSION}", "another")
        return cls(**{name: said[name] for name in cls.__slots__ if name in said}, document=document)


def ask(
    ledger: Budgets,
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
    error: float | None = None,
    simulation: bool = False,
    below: RandBelow | None = None,
) -> Answer:
    """Answers a question about a data frame with exact discrete noise, once it is charged.

    Args:
        ledger: that has the budgets.
        scope: where it is charged; every budget at or above it must bear it.
        query: ``Count``, ``Sum``, ``Mean``, ``Histogram``, ``MostCommon`` or ``Above``.
        frame: of Polars (lazy too) or pandas, or a mapping of columns. Its rows may have been chosen and changed each
            by itself, and by nothing that depends on other units' rows.
        unit: the column that says whose a row is, in the sense of the budget's privacy unit; None if each row is a unit
            of its own, and no unit has two.
        key: idempotency key: the same key and question give the same answer, whatever the frame holds by then.
        keep: the folder where answers are kept.
        rows: the most rows of a unit that count: the first of its rows that have what is asked for.
        epsilon: what is charged, at most; under pure and approximate budgets, with discrete Laplace noise.
        rho: what is charged, at most; where every budget is zcdp, with discrete Gaussian noise.
        error: the half-width that is wanted, instead of a price; it is charged the least that gives it.
        simulation: whether this is no release of real data; only budgets of simulations take it.
        below: where a simulation's randomness comes from; None for the operating system.

    Raises:
        BudgetExceededError: some budget cannot bear it; nothing was charged.
        ConflictError: the key came with another question, or its answer is kept elsewhere.
        UnsupportedMechanismError: no discrete noise has a proven price under a budget (those of kind gdp).

    >>> import tempfile, epsilog as ep
    >>> with tempfile.TemporaryDirectory() as folder, ep.open_ledger(Path(folder) / "budget.db") as ledger:
    ...     _ = ledger.create_budget("acme/claims", kind="pure", epsilon="1")
    ...     frame, query = {"age": [30] * 1000}, ep.answers.Count()
    ...     told = ask(ledger, "acme/claims", query, frame, unit=None, key="q-1", keep=folder, epsilon="0.5")
    ...     told.error, dict(told.charged["pure"]), abs(told.value - 1000) < 100
    (6, {'epsilon': '0.5'}, True)
    """
    query = check.instance(Query)(query=query)
    unit, key = check.optional(check.text())(unit=unit), check.text()(key=key)
    rows, simulation = check.integer(1, _LARGEST_ROWS)(rows=rows), check.flag()(simulation=simulation)
    if unit is None and rows != 1:
        raise CheckError("rows", "1 where each row is a unit of its own", repr(rows))
    if below is not None and not simulation:
        raise CheckError("below", "left out: randomness that protects people is the operating system's", "another")
    check_frame(frame, query, unit)
    path = ledger.budgets_above(scope)
    if not path:
        raise CheckError("scope", "a budget at or above it", repr(scope), verb="have")
    relation = path[-1].relation
    plan = planned(
        query,
        rows=rows,
        relation=relation,
        kinds=frozenset(budget.kind for budget in path),
        epsilon=epsilon,
        rho=rho,
        error=error,
    )
    question = {**query.to_json(), "unit": unit, "rows": rows, "relation": relation.value}
    shelf = Shelf(_folder(keep), key)
    if shelf.holds() and ledger.find(key) is None:  # looked up in this order: whoever drew had reserved before
        raise ConflictError(f"{shelf.folder} holds an answer under key {key!r} that is not this ledger's")
    charge = ledger.reserve(
        scope,
        plan.release,
        key=key,
        relation=relation,
        plan_hash=hashlib.sha256(canonical(question)).hexdigest(),
        rounds=1,
        simulation=simulation,
    )

    def draw() -> bytes:
        sums = totals(frame, query, plan.parts, unit=unit, rows=rows)
        told = _told(query, plan, sums, rows=rows, relation=relation, below=below or secrets.randbelow)
        return _document(charge, _bound(charge, question), plan, told)

    return Answer.read(_once(charge, shelf, _bound(charge, question), draw))


def _folder(keep: str | Path) -> Path:
    """The folder where answers are kept, made if need be, before anything is spent."""
    folder = Path(keep)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckError("keep", "a folder that can be made", f"{folder} ({type(error).__name__})") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CheckError("keep", "a folder that can be written to", f"{folder}")
    return folder


def _bound(charge: Charge, question: Mapping[str, Any]) -> dict[str, Any]:
    """What an answer to this charge says for sure; one that says otherwise is of another ledger."""
    release = to_json(charge.request.release)
    return {"v": VERSION, "key": charge.key, "scope": charge.scope, "question": dict(question), "release": release}


def _once(charge: Charge, shelf: Shelf, bound: Mapping[str, Any], draw: Callable[[], bytes]) -> bytes:
    """What a charge released: drawn and released now, unless it was before."""
    _start(charge)
    while 1 not in charge.rounds_released:
        try:
            charge.round_started(1)
            drafted = shelf.drafted(bound, draw)
            charge.round_released(1, output_hash=hashlib.sha256(drafted).hexdigest())
        except ConflictError:
            if 1 not in charge.rounds_released:  # nobody was faster
                raise
    digest = charge.rounds_released[1]
    document = shelf.find(digest)
    if document is None:
        shelf.discard()
        raise ConflictError(
            f"key {charge.key!r} was answered already, and the answer (SHA-256 {digest}) is not in {shelf.folder}: "
            "look it up where it is kept, or ask under another key, at its price"
        )
    shelf.publish()
    if charge.state == State.STARTED:
        charge.commit({_EVIDENCE: digest})
    return document


def _start(charge: Charge) -> None:
    """Spends the price, unless it is spent; of two who do so at once, one does."""
    if charge.state != State.RESERVED:
        return
    try:
        charge.start()
    except ConflictError:
        if charge.state == State.RESERVED:
            raise


def _told(
    query: Query,
    plan: Plan,
    sums: list[list[int]],
    *,
    rows: int,
    relation: NeighboringRelation,
    below: RandBelow,
) -> dict[str, Any]:
    """The noisy answer with its error bar: what ``Answer`` says of it."""
    if isinstance(query, MostCommon):
        assert isinstance(plan.release, PureDP), "a choice is charged by its statement"
        reach = spread(rows, relation)
        place = permute_and_flip(sums[0], reach / worth(plan.release.epsilon), below=below)
        margin = margin_of_choice(plan.release, len(query.categories), reach)
        return _said(query.categories[place], margin)
    noisy = [
        [noisy_count(total, noise, below=below) for total in cells]
        for cells, noise in zip(sums, plan.noises, strict=True)
    ]
    part, noise = plan.parts[0], plan.noises[0]
    match query:
        case Above(threshold=threshold):
            margin = half_width(noise, one_sided=True) + 1
            return _said(noisy[0][0] * part.step >= threshold, float(margin * part.step))
        case Mean():
            return _mean(query, plan, [cells[0] for cells in noisy])
    reach_ = half_width(noise) * part.step
    values = [total * part.step for total in noisy[0]]
    lower, upper = [value - reach_ for value in values], [value + reach_ for value in values]
    rounding = part.step / 2 if isinstance(query, Sum) else Fraction(0)
    if isinstance(query, Histogram):
        cells = [dict(zip(query.labels, map(_plain, each), strict=True)) for each in (values, lower, upper)]
        return _said(cells[0], float(reach_), cells[1], cells[2])
    return _said(_plain(values[0]), float(reach_), _plain(lower[0]), _plain(upper[0]), float(rounding))


def _said(value: Any, error: float, lower: Any = None, upper: Any = None, rounding: float = 0.0) -> dict[str, Any]:
    return {"value": value, "error": float(error), "lower": lower, "upper": upper, "rounding": rounding}


def _plain(value: Fraction) -> int | float:
    """A whole number as such, if JSON carries it."""
    whole = value.denominator == 1 and abs(value.numerator) <= check.LARGEST_INTEGER
    return value.numerator if whole else float(value)


def _mean(query: Mean, plan: Plan, noisy: list[int]) -> dict[str, Any]:
    """A mean about the middle of its bounds, and the interval of all means that sum and count allow together.

    With a noisy count each of the two stays within its own half-width but for half of the chance to miss.
    """
    step, low, high = grid(query.bounds)
    middle = middle_of(low, high) * step
    about, total = plan.parts[0], noisy[0] * step
    if query.population is not None:
        reach, counts = half_width(plan.noises[0]) * about.step, (Fraction(query.population),) * 3
    else:
        miss = (1 - CONFIDENCE) / 2
        reach = half_width(plan.noises[0], miss=miss) * about.step
        part = plan.parts[1]
        margin, count = half_width(plan.noises[1], miss=miss) * part.step, noisy[1] * part.step
        counts = (count - margin, count, count + margin)
    rounding = step / 2
    sides = [(low * step - rounding), (high * step + rounding)]

    def within(value: Fraction) -> Fraction:
        return min(max(value, sides[0]), sides[1])

    value = within(middle + total / counts[1]) if counts[1] >= 1 else middle
    if counts[0] < 1:  # so few that the noise may have hidden all of them
        lower, upper = sides
    else:
        ends = [(total + side) / count for side in (-reach, reach) for count in (counts[0], counts[2])]
        lower, upper = within(middle + min(ends) - rounding), within(middle + max(ends) + rounding)
    wide = max(value - lower, upper - value)
    return _said(float(value), float(wide), float(lower), float(upper), float(rounding))


def _document(charge: Charge, bound: Mapping[str, Any], plan: Plan, told: Mapping[str, Any]) -> bytes:
    """What is kept of an answer, and all that is."""
    noise = [
        {"law": to_json(law), "step": float(part.step)} for part, law in zip(plan.parts, plan.noises, strict=False)
    ]
    charged = {kind: dict(amount) for kind, amount in charge.amounts.items()}
    return canonical({**bound, "noise": noise, "confidence": CONFIDENCE, "charged": charged, **told})
