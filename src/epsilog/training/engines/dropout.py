"""Clients that do not reply, simulated: what is missing is missing from the sum, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from epsilog.terms import check
from epsilog.training.engines import ClippedSum, Engine, LocalDPSGD, RoundInputs, make_engine
from epsilog.training.task import Task

__all__ = ["DropoutEngine", "add_dropout"]


def add_dropout(dropout: float, engine: Callable[[Task], Engine] | None = None) -> Callable[[Task], Engine]:
    """Makes an engine some of whose clients miss a round: too late, broken off, or switched off.

    Args:
        dropout: the chance that a client of a cohort does not reply, in [0, 1).
        engine: makes the engine for those who do; None for the task's own.
    """
    dropout = check.in_half_open_interval(0, 1)(dropout=dropout)
    return lambda task: DropoutEngine(make_engine(engine, task), dropout)


@dataclass(frozen=True, slots=True)
class DropoutEngine:
    """An engine of whose cohort some stay silent.

    Attributes:
        engine: computes for those who reply.
        dropout: the chance of silence, by a coin for each client and round.
    """

    engine: Engine
    dropout: float

    @property
    def task(self) -> Task:
        """What is trained on what."""
        return self.engine.task

    def unusable(self, cohort: np.ndarray) -> int:
        """As the engine says, silent or not."""
        return self.engine.unusable(cohort)

    def sum_of_updates(self, now: RoundInputs, *, clip_norm: float) -> ClippedSum:
        """Of those who reply."""
        heard = self._heard(now)
        return _add_missing(self.engine.sum_of_updates(heard, clip_norm=clip_norm), now, heard)

    def sum_of_noisy_updates(self, now: RoundInputs, *, clip_norm: float, noise_stddev: float) -> ClippedSum:
        """Of those who reply; the noise of the others is missing, too."""
        heard = self._heard(now)
        found = self.engine.sum_of_noisy_updates(heard, clip_norm=clip_norm, noise_stddev=noise_stddev)
        return _add_missing(found, now, heard)

    def sum_of_noisy_runs(self, now: RoundInputs, runs: LocalDPSGD) -> ClippedSum:
        """Of those who reply; the noise of the others is missing, too."""
        heard = self._heard(now)
        return _add_missing(self.engine.sum_of_noisy_runs(heard, runs), now, heard)

    def evaluate(self, model: np.ndarray) -> tuple[float, float]:
        """As the engine says."""
        return self.engine.evaluate(model)

    def _heard(self, now: RoundInputs) -> RoundInputs:
        silent = [bool(now.replies(client).coins((1,), self.dropout)[0]) for client in now.cohort.tolist()]
        return now.of(now.cohort[~np.array(silent, dtype=bool)])


def _add_missing(found: ClippedSum, now: RoundInputs, heard: RoundInputs) -> ClippedSum:
    return replace(found, silent=found.silent + now.cohort.size - heard.cohort.size)
