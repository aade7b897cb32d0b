"""The one door of the simulations to the outside: entropy, worker processes, and the journal of a run.

Everything below takes a key and returns integers. ``workers`` is a number of processes, or ``None`` for whatever joblib
is configured to use (``with joblib.parallel_config(backend="dask"): ...`` sends the shards to a cluster).
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsilog.accounting.montecarlo.shards import SHARD, Trial, count_hits
from epsilog.terms import RecordsError

Progress = Callable[[Trial, int, int], None]  # trial, draws done, hits so far
Key = tuple[int, str, int]  # candidate, direction, shard


def entropy() -> int:
    """128 bits from the operating system."""
    return secrets.randbits(128)


@dataclass(frozen=True, slots=True)
class Journal:
    """A file that remembers which shards are done, so that a killed run goes on where it was.

    Attributes:
        path: the file; made if missing.
        run: a fingerprint of everything that determines the counts; a file of another run is refused.
    """

    path: Path
    run: str

    def read(self) -> dict[Key, int]:
        """The counts written so far; a torn last line is dropped from the file."""
        if not self.path.exists():
            self.path.write_text(json.dumps({"run": self.run}) + "\n")
            return {}
        text = self.path.read_text()
        whole = text[: text.rfind("\n") + 1]
        try:
            first, *rest = [json.loads(line) for line in whole.splitlines()]
            counts = {(int(c), str(d), int(s)): int(h) for c, d, s, h in rest}
        except (ValueError, TypeError) as error:
            raise RecordsError(f"journal {self.path.name} is unreadable: {error}") from error
        if first != {"run": self.run}:
            raise RecordsError(f"journal {self.path.name} belongs to another run")
        if whole != text:
            os.truncate(self.path, len(whole.encode()))
        return counts

    def write(self, key: Key, hits: int) -> None:
        """Appends one count, durably."""
        with self.path.open("a") as file:
            file.write(json.dumps([*key, hits]) + "\n")
            file.flush()
            os.fsync(file.fileno())


def run_trials(
    trials: Sequence[Trial],
    *,
    seed: int,
    limits: Sequence[int] | None = None,
    workers: int | None = 1,
    journal: Journal | None = None,
    progress: Progress | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Counts the hits of the shards of every trial; the same integers however they are scheduled.

    Args:
        trials: what to count.
        seed: of the streams.
        limits: hits above which a trial has failed and need not go on; looked at after shard 1, 3, 7, 15, ..., so that
            where it stops depends on the counts alone. By default every shard is drawn.
        workers: processes; 1 stays in this one; ``None`` asks joblib's configured backend.
        journal: where finished shards are remembered.
        progress: called after each shard with the trial, its draws done and its hits so far.

    Returns:
        For each trial, the hits of each shard in order, up to where it failed.
    """
    done = journal.read() if journal else {}
    counts: list[list[int]] = [[] for _ in trials]
    wave = 1 if limits else 1 << 40
    while True:
        ranges = [
            range(0) if limits and sum(found) > limits[i] else range(len(found), min(len(found) + wave, trial.shards))
            for i, (trial, found) in enumerate(zip(trials, counts, strict=True))
        ]
        labels = [(i, shard) for i, part in enumerate(ranges) for shard in part]
        if not labels:
            return tuple(tuple(found) for found in counts)
        news = _wave(trials, labels, seed=seed, workers=workers, done=done, journal=journal)
        tally = [[_draws(trial, len(found)), sum(found)] for trial, found in zip(trials, counts, strict=True)]
        found_of = {}
        for (i, shard), hits in news:
            found_of[i, shard] = hits
            tally[i][0] += _draws(trials[i], shard + 1) - _draws(trials[i], shard)
            tally[i][1] += hits
            if progress:
                progress(trials[i], *tally[i])
        for i, shard in labels:
            counts[i].append(found_of[i, shard])
        wave *= 2


def _draws(trial: Trial, shards: int) -> int:
    return min(trial.samples, shards * SHARD)


def _wave(
    trials: Sequence[Trial],
    labels: list[tuple[int, int]],
    *,
    seed: int,
    workers: int | None,
    done: dict[Key, int],
    journal: Journal | None,
) -> Iterator[tuple[tuple[int, int], int]]:
    """Yields the hits of each labelled shard, from the journal or from a worker, as they come."""
    keys = {(i, shard): (trials[i].candidate, trials[i].tilt.direction, shard) for i, shard in labels}
    yield from ((label, done[keys[label]]) for label in labels if keys[label] in done)
    todo = [label for label in labels if keys[label] not in done]
    for label, found in _counted([(trials[i], seed, shard) for i, shard in todo], todo, workers):
        if journal:
            journal.write(keys[label], found)
        yield label, found


def _labelled(label: tuple[int, int], trial: Trial, seed: int, shard: int) -> tuple[tuple[int, int], int]:
    return label, count_hits(trial, seed, shard)


def _counted(
    tasks: list[tuple[Trial, int, int]], labels: list[tuple[int, int]], workers: int | None
) -> Iterator[tuple[tuple[int, int], int]]:
    if workers == 1 or len(tasks) < 2:
        for label, task in zip(labels, tasks, strict=True):
            yield _labelled(label, *task)
        return
    from joblib import Parallel, delayed

    options: dict[str, Any] = {} if workers is None else {"n_jobs": workers}
    jobs = (delayed(_labelled)(label, *task) for label, task in zip(labels, tasks, strict=True))
    yield from Parallel(return_as="generator_unordered", **options)(jobs)
