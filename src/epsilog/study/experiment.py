"""The parts of an attack in a study: an experiment, the runs that it attacks, and the cells of its results.

A run is a scheme on a task from a seed, with or without DP. A cell holds one attack on one run, or a shadow model that
several attacks share. A killed study resumes after the last finished cell. A cell is written atomically and names its
study; its checksum detects accidents and careless edits, not forgery.
"""

from __future__ import annotations

import hashlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsilog import durable_io
from epsilog.schemes import Scheme
from epsilog.terms import RecordError, codec
from epsilog.training import Randomness, Task, require_matching_scheme
from epsilog.training.engines import Engine, make_engine
from epsilog.training.rounds import RoundResult, TrainingState, compute_next_round, make_initial_state

Vector = NDArray[np.float64]
Engines = Callable[[int], Engine]
"""Returns the engine of a round by its number."""
Watch = Callable[[TrainingState, RoundResult], None]
"""Receives the state before a round, and the result of the round."""


GetCell = Callable[[str, Callable[[], Any]], Any]
"""Returns a cell by name, and computes it first if it is not finished."""
Numbers = dict[str, float | None]


class Experiment(ABC):
    """An attack with its settings, a frozen dataclass. A section in the file of a study has its fields. Abstract.

    Attributes:
        kind: the section in the file of a study.
    """

    __slots__ = ()
    kind: ClassVar[str]

    @property
    def label(self) -> str:
        """Return the name in tables."""
        return self.kind

    def require_fit(self, task: Task) -> None:  # noqa: B027 - most attacks fit every task
        """Refuse a task that does not fit the attack."""

    def applies(self, scheme: Scheme) -> bool:  # noqa: ARG002 - most attacks apply to all schemes
        """Return whether the attack applies to a scheme."""
        return True

    @abstractmethod
    def measure(self, run: StudyRun) -> dict[str, Numbers | None]:
        """Attack one run; return numbers by attack, or None if training diverged."""


@dataclass(frozen=True, slots=True, eq=False)
class StudyRun:
    """A run to attack.

    Attributes:
        task: the training task.
        scheme: the scheme with the noise for its budget.
        quiet: the scheme without noise, for predictions of an attacker.
        private: False omits clipping and noise.
        delta: the delta of the guarantee.
        seed: the seed of all draws.
        shared: returns cells that the attacks on one scheme and budget share over all seeds.
    """

    task: Task
    scheme: Scheme
    quiet: Scheme
    private: bool
    delta: float
    seed: int
    shared: GetCell

    @property
    def draws(self) -> Randomness:
        """Return the source of all draws of the run."""
        return Randomness.from_seed(self.seed)

    def train(
        self, task: Task | None = None, *, engines: Engines | None = None, watch: Watch | None = None
    ) -> Vector | None:
        """Return the last model without scoring models; None if training diverges."""
        whole = drop_test_set(self.task) if task is None else task
        scheme, state = require_matching_scheme(self.scheme, whole), make_initial_state(whole)
        if engines is None:
            engines = reuse_engine(get_engine(whole) if task is None else make_engine(None, whole))
        for done in range(1, scheme.rounds + 1):
            engine = engines(done)
            outcome = compute_next_round(scheme, engine, state, self.draws, private=self.private)
            if outcome.record.diverged:
                return None
            if watch is not None:
                watch(state, outcome)
            state = outcome.state
        return state.model


@lru_cache(maxsize=1)
def drop_test_set(task: Task) -> Task:
    """Return the task without its test set, so that rounds are not scored."""
    return replace(task, test_features=None, test_targets=None)


@lru_cache(maxsize=5)
def get_engine(task: Task) -> Engine:
    """Return the default engine for a task, cached for all seeds and budgets."""
    return make_engine(None, task)


def score_model(task: Task, model: Vector) -> float | None:
    """Return the score of a model on the public test set; None if score or loss is not finite."""
    features, targets = task.test_set()
    outputs = task.model.apply(task.model.unflatten(model.astype(features.dtype)), features)
    values = (
        float(np.asarray(task.model.losses(outputs, targets)).mean()),
        float(task.model.compute_score(outputs, targets)),
    )
    return values[1] if np.isfinite(values).all() else None


def reuse_engine(engine: Engine) -> Engines:
    """Return a function that returns one engine for all rounds."""
    return lambda _: engine


class ResultCells:
    """Finished cells by name, in memory and optionally in a folder."""

    def __init__(self, folder: Path | None = None, *, bound: str = "") -> None:
        """Open a folder of cells."""
        self._folder, self._bound = folder, bound
        self._known: dict[str, Any] = {}

    def __call__(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return the content of a cell: read it if it is finished, else compute and store it."""
        if name not in self._known:
            file = self._file(name)
            finished = file is not None and file.exists()
            self._known[name] = self._read(name) if finished else self._write_cell(name, compute())
        return self._known[name]

    def within(self, where: str) -> GetCell:
        """Return the cells of one scheme and budget."""
        return lambda name, compute: self(f"{where}: {name}", compute)

    def clear(self) -> None:
        """Delete the files after the document of the study is written."""
        if self._folder is not None and self._folder.exists():
            shutil.rmtree(self._folder, ignore_errors=True)

    def _file(self, name: str) -> Path | None:
        short = hashlib.sha256(name.encode()).hexdigest()[:24]
        return None if self._folder is None else self._folder / f"{short}.json"

    def _write_cell(self, name: str, found: Any) -> Any:
        content = codec.encode_canonical(found)
        if (file := self._file(name)) is not None:
            head = {"v": 1, "kind": "study-cell", "of": self._bound, "cell": name, "found": found}
            whole = head | {"sha256": codec.hash_canonical(head)}
            durable_io.write_atomically(file, codec.encode_canonical(whole) + b"\n")
        return codec.parse_json(content)  # equal numbers after a resumed and an uninterrupted study

    def _read(self, name: str) -> Any:
        file = self._file(name)
        assert file is not None
        try:
            document = codec.parse_json(file.read_bytes())
            stated = document.pop("sha256")
            whole = codec.hash_canonical(document) == stated
        except (ValueError, AttributeError, KeyError, TypeError):
            whole = False
        if not whole:
            raise RecordError(f"{file}: the cell is damaged or was changed; delete it to measure it again")
        if document.get("of") != self._bound or document.get("cell") != name or document.get("kind") != "study-cell":
            raise RecordError(
                f"{file}: the cell is from another protocol, other data or another version; "
                "delete the folder to measure everything again"
            )
        return document["found"]
