"""Noisy counts of private rows that are released beside the model, each charged by itself before anything is read.

How many rows can be used, and how well the model does on the rows that it was trained on, are facts of private rows. A
programme that wants to know them says what each may cost. Their epsilons are taken off the budget before the noise of
training is calibrated, and all charges are reserved together, so that model and counts fit the budget. ``answers.ask``
charges a count before any row is read, draws exact discrete noise once, and keeps the answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from epsilog.ledger import Charge, Ledger, LedgerView
from epsilog.pipeline.amounts import Amount
from epsilog.plan import RegisteredPlan
from epsilog.queries import Count as CountRows
from epsilog.queries import Mean, Query, QueryResult, reserve_answer, run_query
from epsilog.terms import CheckError, ConfigError, ConflictError, EpsilogError, RunArtifact
from epsilog.toml_sections import ConfigSection, Count

if TYPE_CHECKING:
    from epsilog.training import Task

__all__ = ["COUNTS", "Counting", "Counts", "require_countable"]

COUNTS = "counts"  # in a plan's details
USABLE, EVALUATION = "usable", "evaluation"
FOLDER = "answers"  # within a run's own folder
_COLUMN = {USABLE: "usable", EVALUATION: "correct"}


class Counts(ConfigSection):
    """[counts]: noisy counts of private rows, by the epsilon of each.

    Attributes:
        usable: of the number of rows that can be used, before training.
        usable_at_least: training is not started, and not charged, where the noisy number is below this.
        evaluation: of the share of rows that the released model classifies correctly, of those that it was trained on.
        rows_per_unit: the most rows of a privacy unit that count: the first that can be used. With 1, ``usable`` counts
            units.
    """

    usable: Amount | None = None
    usable_at_least: Count | None = None
    evaluation: Amount | None = None
    rows_per_unit: Count = 1

    @model_validator(mode="after")
    def _counts_something(self) -> Counts:
        if self.usable is None and self.evaluation is None:
            raise CheckError("usable", "given, or evaluation", "neither")
        if self.usable_at_least is not None and self.usable is None:
            raise CheckError("usable_at_least", "absent where usable is", f"{self.usable_at_least}")
        return self

    @property
    def epsilon(self) -> Decimal:
        """Of all counts together."""
        return sum((each for each in (self.usable, self.evaluation) if each is not None), Decimal(0))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, as a plan holds them."""
        return self.model_dump(mode="json", exclude_none=True)


def require_countable(counts: Counts | None, task: Task) -> None:
    """Refuses an evaluation of what has no classes, and several rows of a unit that is a row.

    Raises:
        CheckError: named within [counts].
    """
    if counts is None:
        return
    if counts.evaluation is not None and task.model.classes is None:
        raise CheckError("counts.evaluation", "absent where the target is a number: it counts right classes", "given")
    if counts.rows_per_unit != 1 and not task.unit_is_client:
        raise CheckError("counts.rows_per_unit", f"1 where one {task.unit} is protected", f"{counts.rows_per_unit}")


@dataclass(frozen=True, slots=True, eq=False)
class Counting:
    """The counts of one run.

    Attributes:
        plan: that states them.
        task: whose rows are counted.
        folder: of the run.
        seed: of a simulation; None where people are counted.
        key: of the run's own charge; the counts' keys are made of it.
    """

    plan: RegisteredPlan
    task: Task
    folder: Path
    seed: int | None
    key: str

    @property
    def stated(self) -> Counts | None:
        """What the plan states; None for no counts."""
        found = self.plan.details.get(COUNTS)
        return None if found is None else Counts.model_validate(found)

    def reserve(self, books: Ledger) -> list[Charge]:
        """Reserves the price of every count, or of none.

        Raises:
            BudgetExceededError: a budget cannot bear one.
            ConfigError: an earlier call counted too few rows.
        """
        made: list[Charge] = []
        for name in self._names:
            known = books.find(self._key(books, name), scope=self._scope)
            if name == USABLE and known is not None and known.state == "committed":
                self.require_enough(books, [])  # an earlier call ended there
        try:
            for name in self._names:
                made.append(reserve_answer(books, *self._get_query(name), **self._how(books, name)))  # noqa: PERF401
        except EpsilogError as refusal:
            give_back(made, f"another charge of the run was refused: {refusal}"[:1000])
            raise
        return made

    def require_enough(self, books: Ledger, reserved: list[Charge]) -> None:
        """Counts the units with a usable row; where they are too few, gives back what has not started.

        Raises:
            ConfigError: the noisy count is below what the programme states; nothing else is charged.
        """
        stated = self.stated
        if stated is None or stated.usable is None:
            return
        found = self._answer(books, USABLE, lambda: self.task.clients.usable(self.task.model))
        if stated.usable_at_least is None or found.value >= stated.usable_at_least:
            return
        said = (
            f"counts.usable_at_least: about {found.value} (+- {found.error:g}) rows can be used, at most "
            f"{stated.rows_per_unit} of one {self.task.unit}, and the programme asks for {stated.usable_at_least}; the "
            f"count cost epsilon {stated.usable}, and nothing else was charged. Hold [data.features] against the file: "
            "a range, a list or a type may misread a column"
        )
        give_back(reserved, "too few rows can be used")
        raise ConfigError(self.plan.name, [said])

    def told(self, books: Ledger, vector: NDArray[np.float64]) -> tuple[dict[str, Any], ...]:
        """Every count, drawn by now, as the owner's word tells it."""
        stated = self.stated
        if stated is None:
            return ()
        found = []
        if stated.usable is not None:
            usable = self._answer(books, USABLE, lambda: self.task.clients.usable(self.task.model))
            found.append(_count_to_json(USABLE, usable))
        if stated.evaluation is not None:
            right = self._answer(books, EVALUATION, lambda: self._right(vector))
            found.append(_count_to_json(EVALUATION, right))
        return tuple(found)

    @property
    def _names(self) -> list[str]:
        stated = self.stated
        return [] if stated is None else [n for n in (USABLE, EVALUATION) if getattr(stated, n) is not None]

    def _get_query(self, name: str) -> tuple[str, Query]:
        column = _COLUMN[name]
        query: Query = CountRows(column) if name == USABLE else Mean(column, (0.0, 1.0))
        return self._scope, query

    @property
    def _scope(self) -> str:
        return str(self.plan.budget["scope"])

    def _key(self, books: Ledger, name: str) -> str:
        """The charge's key: another one where an earlier reservation was given back."""
        return live_key(books, f"{self.key}-{name}", scope=self._scope)

    def _how(self, books: Ledger, name: str) -> dict[str, Any]:
        stated, unit = self.stated, self.task.unit
        assert stated is not None, "only what is stated is asked"
        return {
            "unit": unit if self.task.unit_is_client else None,
            "rows": stated.rows_per_unit,
            "key": self._key(books, name),
            "epsilon": str(getattr(stated, name)),
            "simulation": self.plan.simulation,
        }

    def _answer(self, books: Ledger, name: str, counted: Callable[[], NDArray[Any]]) -> QueryResult:
        scope, query = self._get_query(name)
        frame = _Frame(self.task, _COLUMN[name], counted)
        below = None if self.seed is None else random.Random(f"{self.seed}/{name}").randrange  # noqa: S311
        return run_query(books, scope, query, frame, keep=self.folder / FOLDER, below=below, **self._how(books, name))

    def _right(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """1 where the model is right, 0 where it is wrong, NaN in a row that cannot be used; shape (rows,)."""
        from epsilog.training import iterate_blocks
        from epsilog.training.models import ReleasedModel

        clients, made = self.task.clients, ReleasedModel(self.task.model, vector)
        kept = clients.usable(self.task.model)
        right = np.full(len(kept), np.nan)
        for block in iterate_blocks(clients.features):
            predicted = made.predict(clients.features[block])
            right[block] = np.where(kept[block], predicted == clients.targets[block], np.nan)
        return right


class _Frame(dict[str, Any]):
    """The rows as ``run_query`` takes them: whose each is, and what is counted, which is worked out when it is read."""

    def __init__(self, task: Task, column: str, counted: Callable[[], NDArray[Any]]) -> None:
        whose = np.repeat(np.arange(task.clients.count), task.clients.sizes)
        super().__init__({task.unit: whose, column: np.broadcast_to(np.float64(0), whose.shape)})
        self._column, self._counted = column, counted

    def __getitem__(self, name: str) -> Any:
        if name != self._column:
            return super().__getitem__(name)
        found = self._counted()
        return np.where(found, 1.0, np.nan) if found.dtype == np.bool_ else found


def live_key(books: LedgerView, key: str, *, scope: str) -> str:
    """The first of ``key``, ``key-2``, ``key-3`` and so on whose charge at a scope is not cancelled, or not there."""
    number, found = 1, key
    while (known := books.find(found, scope=scope)) is not None and known.state == "cancelled":
        number += 1
        found = f"{key}-{number}"
    return found


def give_back(reserved: list[Charge], reason: str) -> None:
    """Cancels what has not started; what has stays as it is."""
    for charge in reserved:
        if charge.state == "reserved":
            try:
                charge.cancel(reason)
            except ConflictError:  # another process has started it since
                continue


def _count_to_json(name: str, answer: QueryResult) -> dict[str, Any]:
    plain = {"value": answer.value, "error": answer.error, "lower": answer.lower, "upper": answer.upper}
    charged = {kind: dict(amounts) for kind, amounts in answer.charged.items()}
    return {"name": name, "key": answer.key, **plain, "charged": charged}


def released_vector(folder: Path, task: Task) -> NDArray[np.float64]:
    """The parameters that were released last."""
    from epsilog.training.models import ReleasedModel

    return ReleasedModel.read(folder / RunArtifact.MODEL, task.model).vector
