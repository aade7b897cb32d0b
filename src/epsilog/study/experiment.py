"""What every attack of a study is made of: an experiment, the runs that it attacks, and the cells of its results.

A run is a scheme on a task from a seed, with DP or without. A cell holds one attack on one run, or a shadow model that
several attacks share; a study that was killed resumes after the last finished cell. It is written atomically and names
its study; its checksum finds accidents and careless edits, not a forger.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

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
"""The engine of a round, by its number."""
Watch = Callable[[TrainingState, RoundResult], None]
"""Sees the state before a round, and the round."""


GetCell = Callable[[str, Callable[[], Any]], Any]
"""Returns a cell by its name; computes it first where it is not finished."""
Numbers = dict[str, float | None]


class Experiment(Protocol):
    """An attack with its settings: a frozen dataclass, whose fields a study's file states in a section."""

    @property
    def kind(self) -> str:
        """The section of a study's file."""

    @property
    def name(self) -> str:
        """What it is called in the tables."""

    def require_fit(self, task: Task) -> None:
        """Refuse a task that cannot be attacked like that."""

    def applies(self, scheme: Scheme) -> bool:
        """Tell whether there is such an attack on a scheme."""

    def measure(self, run: StudyRun) -> dict[str, Numbers | None]:
        """Attack one run; return numbers by attack, None where training diverged."""


@dataclass(frozen=True, slots=True, eq=False)
class StudyRun:
    """What attacks are made on.

    Attributes:
        task: what is trained on what.
        scheme: with the noise that its budget asks for.
        quiet: the same without noise, for an attacker's own rehearsals.
        private: False leaves out clip and noise.
        delta: of the guarantee.
        seed: of every draw.
        shared: what the attacks of one scheme and budget have in common, over all seeds; by name.
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
        """Where the run's draws come from."""
        return Randomness.from_seed(self.seed)

    def train(
        self, task: Task | None = None, *, engines: Engines | None = None, watch: Watch | None = None
    ) -> Vector | None:
        """The last model; None if training diverges. Models are not scored on the way.

        Args:
            task: whose clients train, used this once; None for the trial's own.
            engines: what computes the rounds; None for the compiled one.
            watch: called after every round.
        """
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
    """The same task without its test set: what is scored once need not be scored in every round."""
    return replace(task, test_features=None, test_targets=None)


@lru_cache(maxsize=5)
def get_engine(task: Task) -> Engine:
    """The compiled engine for a task, which holds its rows on the device: made once for all seeds and budgets.

    It holds engines for all rows, rows with a trigger or a mark, and an attacker's own, with a mark and without.
    """
    return make_engine(None, task)


def score_model(task: Task, model: Vector) -> float | None:
    """A model's score on the public test set; None where it, or the loss, is not finite."""
    features, targets = task.test_set()
    outputs = task.model.apply(task.model.unflatten(model.astype(features.dtype)), features)
    told = (
        float(np.asarray(task.model.losses(outputs, targets)).mean()),
        float(task.model.compute_score(outputs, targets)),
    )
    return told[1] if np.isfinite(told).all() else None


def reuse_engine(engine: Engine) -> Engines:
    """Return one engine for every round."""
    return lambda _: engine


class ResultCells:
    """Finished cells by name; in memory alone, or in a folder as well."""

    def __init__(self, folder: Path | None = None, *, bound: str = "") -> None:
        """Open a folder of cells.

        Args:
            folder: made with the first cell; None keeps nothing beyond this object.
            bound: what all cells must be of: a hash of protocol, data and version.
        """
        self._folder, self._bound = folder, bound
        self._known: dict[str, Any] = {}

    def __call__(self, name: str, compute: Callable[[], Any]) -> Any:
        """What a cell holds: read where it is finished, else computed and kept.

        Raises:
            RecordError: a file that was changed, or that is another study's.
        """
        if name not in self._known:
            file = self._file(name)
            there = file is not None and file.exists()
            self._known[name] = self._read(name) if there else self._write_cell(name, compute())
        return self._known[name]

    def within(self, where: str) -> GetCell:
        """The cells of one scheme and budget."""
        return lambda name, compute: self(f"{where}: {name}", compute)

    def clear(self) -> None:
        """Take the files away, once the study's own document is written."""
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
        return codec.parse_json(content)  # the same numbers, whether they were written or computed just now

    def _read(self, name: str) -> Any:
        file = self._file(name)
        assert file is not None
        try:
            told = codec.parse_json(file.read_bytes())
            stated = told.pop("sha256")
            whole = codec.hash_canonical(told) == stated
        except (ValueError, AttributeError, KeyError, TypeError):
            whole = False
        if not whole:
            raise RecordError(f"{file}: the cell was changed or is damaged; delete it to measure it again")
        if told.get("of") != self._bound or told.get("cell") != name or told.get("kind") != "study-cell":
            raise RecordError(
                f"{file}: the cell is of another protocol, other data or another version; "
                "delete the folder to measure everything again"
            )
        return told["found"]
