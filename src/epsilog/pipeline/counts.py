"""Noisy counts of private rows, released with the model; each is charged before any row is read.

The number of usable rows and the accuracy on the training rows are facts about private rows. A run config states what
each count may cost. The counts are charged first, the noise of training is calibrated to the rest, and all
charges are reserved together. ``queries.run_query`` charges a count, draws exact discrete noise once, and stores the
result.
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
from epsilog.plan import RegisteredPlan
from epsilog.queries import Count, Mean, Query, QueryResult, reserve_answer, run_query
from epsilog.terms import CheckError, ConfigError, ConflictError, EpsilogError, RunArtifact
from epsilog.toml_sections import Amount, ConfigSection, PositiveInteger

if TYPE_CHECKING:
    from epsilog.training import Task

__all__ = ["COUNTS", "CountsSection", "RunCounts", "require_countable"]

COUNTS = "counts"  # in the details of a plan
USABLE, EVALUATION = "usable", "evaluation"
FOLDER = "answers"  # inside the folder of a run
_COLUMN = {USABLE: "usable", EVALUATION: "correct"}


class CountsSection(ConfigSection):
    """[counts]: noisy counts of private rows, each with its epsilon.

    Attributes:
        usable: epsilon of the number of usable rows, counted before training.
        usable_at_least: if the noisy number is below this, training is neither started nor charged.
        evaluation: epsilon of the accuracy of the released model on its training rows.
        rows_per_unit: how many rows of a privacy unit count, at most: its first usable ones. With 1, ``usable`` counts
            units.
    """

    usable: Amount | None = None
    usable_at_least: PositiveInteger | None = None
    evaluation: Amount | None = None
    rows_per_unit: PositiveInteger = 1

    @model_validator(mode="after")
    def _check_counts(self) -> CountsSection:
        if self.usable is None and self.evaluation is None:
            raise CheckError("usable", "given, or evaluation", "neither")
        if self.usable_at_least is not None and self.usable is None:
            raise CheckError("usable_at_least", "absent where usable is", f"{self.usable_at_least}")
        return self

    @property
    def epsilon(self) -> Decimal:
        """Return the epsilon of all counts together."""
        return sum((each for each in (self.usable, self.evaluation) if each is not None), Decimal(0))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, as in a plan."""
        return self.model_dump(mode="json", exclude_none=True)


def require_countable(counts: CountsSection | None, task: Task) -> None:
    """Refuse an evaluation without classes, and several rows per unit if the unit is a row.

    Raises:
        CheckError: a field of [counts] does not fit the task.
    """
    if counts is None:
        return
    if counts.evaluation is not None and task.model.classes is None:
        raise CheckError("counts.evaluation", "absent where the target is a number: it counts right classes", "given")
    if counts.rows_per_unit != 1 and not task.unit_is_client:
        raise CheckError("counts.rows_per_unit", f"1 where one {task.unit} is protected", f"{counts.rows_per_unit}")


@dataclass(frozen=True, slots=True, eq=False)
class RunCounts:
    """The counts of one run.

    Attributes:
        plan: the plan that states them.
        task: the task with the rows that are counted.
        folder: the folder of the run.
        seed: of a simulation; None for real data.
        key: the key of the run's own charge, the prefix of the keys of the counts.
    """

    plan: RegisteredPlan
    task: Task
    folder: Path
    seed: int | None
    key: str

    @property
    def section(self) -> CountsSection | None:
        """Return what the plan states; None if it states no counts."""
        found = self.plan.details.get(COUNTS)
        return None if found is None else CountsSection.model_validate(found)

    def reserve(self, ledger: Ledger) -> list[Charge]:
        """Reserve the cost of every count, or of none.

        Raises:
            BudgetExceededError: a count does not fit a budget.
            ConfigError: an earlier call counted too few rows.
        """
        reserved: list[Charge] = []
        for name in self._names:
            known = ledger.find(self._key(ledger, name), scope=self._scope)
            if name == USABLE and known is not None and known.state == "committed":
                self.require_enough(ledger, [])  # an earlier call may have ended here
        try:
            for name in self._names:
                reserved.append(reserve_answer(ledger, *self._get_query(name), **self._options(ledger, name)))  # noqa: PERF401
        except EpsilogError as refusal:
            give_back(reserved, f"another charge of the run was refused: {refusal}"[:1000])
            raise
        return reserved

    def require_enough(self, ledger: Ledger, reserved: list[Charge]) -> None:
        """Count the usable rows; if there are too few, cancel the reserved charges.

        Raises:
            ConfigError: the noisy count is below what the run config requires; nothing else is charged.
        """
        section = self.section
        if section is None or section.usable is None:
            return
        found = self._count_usable(ledger)
        if section.usable_at_least is None or found.value >= section.usable_at_least:
            return
        give_back(reserved, "too few rows can be used")
        message = (
            f"counts.usable_at_least: about {found.value} (+- {found.error:g}) rows can be used, at most "
            f"{section.rows_per_unit} of one {self.task.unit}, and the run config requires {section.usable_at_least}; "
            f"the count cost epsilon {section.usable}, and nothing else was charged. Compare [data.features] with the "
            "file: a range, a list or a type may misread a column"
        )
        raise ConfigError(self.plan.name, [message])

    def draw(self, ledger: Ledger, vector: NDArray[np.float64]) -> tuple[dict[str, Any], ...]:
        """Return every count as the owner attests it; draw those that are not drawn yet."""
        section, found = self.section, []
        if section is not None and section.usable is not None:
            found.append(_count_to_json(USABLE, self._count_usable(ledger)))
        if section is not None and section.evaluation is not None:
            correct = self._run_query(ledger, EVALUATION, lambda: self._mark_correct(vector))
            found.append(_count_to_json(EVALUATION, correct))
        return tuple(found)

    @property
    def _names(self) -> list[str]:
        section = self.section
        return [] if section is None else [n for n in (USABLE, EVALUATION) if getattr(section, n) is not None]

    @property
    def _scope(self) -> str:
        return str(self.plan.budget["scope"])

    def _get_query(self, name: str) -> tuple[str, Query]:
        column = _COLUMN[name]
        query: Query = Count(column) if name == USABLE else Mean(column, (0.0, 1.0))
        return self._scope, query

    def _key(self, ledger: LedgerView, name: str) -> str:
        """Return the key of the charge; another one if an earlier reservation was cancelled."""
        return live_key(ledger, f"{self.key}-{name}", scope=self._scope)

    def _options(self, ledger: LedgerView, name: str) -> dict[str, Any]:
        section, unit = self.section, self.task.unit
        assert section is not None, "only stated counts are drawn"
        return {
            "unit": unit if self.task.unit_is_client else None,
            "rows": section.rows_per_unit,
            "key": self._key(ledger, name),
            "epsilon": str(getattr(section, name)),
            "simulation": self.plan.simulation,
        }

    def _count_usable(self, ledger: Ledger) -> QueryResult:
        return self._run_query(ledger, USABLE, lambda: self.task.clients.usable(self.task.model))

    def _run_query(self, ledger: Ledger, name: str, compute: Callable[[], NDArray[Any]]) -> QueryResult:
        scope, query = self._get_query(name)
        frame = _LazyFrame(self.task, _COLUMN[name], compute)
        below = None if self.seed is None else random.Random(f"{self.seed}/{name}").randrange  # noqa: S311
        keep = self.folder / FOLDER
        return run_query(ledger, scope, query, frame, keep=keep, below=below, **self._options(ledger, name))

    def _mark_correct(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return 1 for a correct prediction, 0 for a wrong one, NaN for an unusable row; shape (rows,)."""
        from epsilog.training import iterate_blocks
        from epsilog.training.models import ReleasedModel

        clients, model = self.task.clients, ReleasedModel(self.task.model, vector)
        usable = clients.usable(self.task.model)
        correct = np.full(len(usable), np.nan)
        for block in iterate_blocks(clients.features):
            predicted = model.predict(clients.features[block])
            correct[block] = np.where(usable[block], predicted == clients.targets[block], np.nan)
        return correct


class _LazyFrame(dict[str, Any]):
    """The columns for ``run_query``: the unit of each row, and the counted column, computed when it is read."""

    def __init__(self, task: Task, column: str, compute: Callable[[], NDArray[Any]]) -> None:
        units = np.repeat(np.arange(task.clients.count), task.clients.sizes)
        super().__init__({task.unit: units, column: np.broadcast_to(np.float64(0), units.shape)})
        self._column, self._compute = column, compute

    def __getitem__(self, name: str) -> Any:
        if name != self._column:
            return super().__getitem__(name)
        found = self._compute()
        return np.where(found, 1.0, np.nan) if found.dtype == np.bool_ else found


def live_key(ledger: LedgerView, key: str, *, scope: str) -> str:
    """Return the first of ``key``, ``key-2``, ... with a charge at a scope that is absent or not cancelled."""
    number, found = 1, key
    while (known := ledger.find(found, scope=scope)) is not None and known.state == "cancelled":
        number += 1
        found = f"{key}-{number}"
    return found


def give_back(reserved: list[Charge], reason: str) -> None:
    """Cancel the charges that have not started."""
    for charge in reserved:
        if charge.state == "reserved":
            try:
                charge.cancel(reason)
            except ConflictError:  # another process has started it since
                continue


def _count_to_json(name: str, result: QueryResult) -> dict[str, Any]:
    plain = {"value": result.value, "error": result.error, "lower": result.lower, "upper": result.upper}
    charged = {kind: dict(amounts) for kind, amounts in result.charged.items()}
    return {"name": name, "key": result.key, **plain, "charged": charged}


def read_released_vector(folder: Path, task: Task) -> NDArray[np.float64]:
    """Return the parameters of the released model."""
    from epsilog.training.models import ReleasedModel

    return ReleasedModel.read(folder / RunArtifact.MODEL, task.model).vector
