"""The external interface of simulations: entropy, versions, workers, clusters, and the journal of a run.

Everything below takes a key and returns integers. ``workers`` is a number of processes, or ``None`` for whatever joblib
is configured to use (``with joblib.parallel_config(backend="dask"): ...`` sends the shards to a cluster).
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy

from epsilog import durable_io
from epsilog.accounting.montecarlo.oracle import DIRECTIONS
from epsilog.accounting.montecarlo.shards import SHARD, BernoulliTrial, count_hits
from epsilog.numerics.pairs import AdjacencyType
from epsilog.terms import CheckError, EpsilogError, RecordError, check, codec
from epsilog.terms.extras import install_command

Progress = Callable[[BernoulliTrial, int, int], None]  # trial, draws done, hits so far
Key = tuple[int, AdjacencyType, int]  # candidate, direction, shard
VERSION = 1  # of a journal; lines of version 0 have no tag
LARGEST_SEED = 2**128 - 1
SHORTEST = 16  # characters of a nonce: of one that takes few values, all can be tried beforehand


ENTROPY, NONCE, CHOSEN = "entropy", "nonce", "chosen"
_SEES = {
    ENTROPY: "the seed came from the operating system's entropy, once; only the operator of the run can check that",
    NONCE: "the seed comes from the plan and a public nonce; if the plan was published first, it is the only one",
    CHOSEN: "the seed was chosen by hand: a simulation, which repeats a run and claims nothing",
}


@dataclass(frozen=True, slots=True)
class RandomnessSource:
    """Where the randomness of a run comes from; what each provenance rules out: ``docs/montecarlo/evidence.md``.

    Attributes:
        provenance: "entropy" of the operating system, a public "nonce", or a number that was "chosen".
        value: the number, up to 128 bits, in decimal; or the nonce.
    """

    provenance: Annotated[str, check.one_of(tuple(_SEES))]
    value: Annotated[str, check.text()]

    def __post_init__(self) -> None:
        check.check_fields(self)
        if self.provenance == NONCE:
            _check_nonce(self.value)
        else:
            _check_number(self.value)

    @property
    def simulation(self) -> bool:
        """Return whether the seed was chosen: such a run repeats another and makes no claim."""
        return self.provenance == CHOSEN

    @property
    def assumption(self) -> str:
        """Return the assumption about the seed on which the result relies."""
        return _SEES[self.provenance]

    def seed(self, plan: str) -> int:
        """Derive the seed of all verification streams, 128 bits, from the plan's fingerprint and the value."""
        return int(codec.hash_canonical({"plan": plan, self.provenance: self.value})[:32], 16)


def _check_number(value: str) -> None:
    if not (value.isascii() and value.isdecimal() and len(value) <= 39 and str(int(value)) == value):
        raise CheckError("value", "a whole number in decimal", repr(value[:60]))
    if int(value) > LARGEST_SEED:
        raise CheckError("seed", "in [0, 2^128 - 1]", f"{value}")


def _check_nonce(nonce: str) -> None:
    if not (nonce.isascii() and nonce.isprintable() and nonce == nonce.strip() and SHORTEST <= len(nonce) <= 1024):
        raise CheckError("nonce", f"{SHORTEST} to 1024 printable ASCII characters, unpadded", repr(nonce[:60]))


def draw_entropy() -> int:
    """128 bits from the operating system."""
    return secrets.randbits(128)


def resolve_source(seed: int | None, journal: Path | None, *, nonce: str | None = None) -> RandomnessSource:
    """Return the requested source: a nonce, a chosen seed, the source of the journal, or new entropy.

    Raises:
        RecordError: the journal was created with something else, or is unreadable.
    """
    if seed is not None and nonce is not None:
        raise ValueError("seed must be None if a nonce is given: the nonce determines it")
    asked = None if seed is None else RandomnessSource(CHOSEN, str(check.integer(0, LARGEST_SEED)(seed=seed)))
    asked = asked if nonce is None else RandomnessSource(NONCE, check.text()(nonce=nonce))
    born = _read(journal)[0] if journal is not None and journal.exists() else None
    if born is None:
        return asked or RandomnessSource(ENTROPY, str(draw_entropy()))
    if born != asked and (asked is not None or born.provenance != ENTROPY):
        raise RecordError(f"journal {journal} belongs to another run: it was not begun with this seed or nonce")
    return born


@dataclass(frozen=True, slots=True)
class SoftwareVersions:
    """Which code made a plan, and from which pilot.

    Attributes:
        pilot: seed of the pilot draws that settled the plan.
        epsilog: version of this library.
        numpy: version of the library that draws from distributions.
        scipy: version of the library of special functions.
    """

    pilot: Annotated[int, check.integer(0, LARGEST_SEED)] = 0
    epsilog: Annotated[str, check.text()] = metadata.version("epsilog")
    numpy: Annotated[str, check.text()] = np.__version__
    scipy: Annotated[str, check.text()] = scipy.__version__

    def __post_init__(self) -> None:
        check.check_fields(self)

    def require_here(self) -> None:
        """Refuse to draw for a plan of other libraries: only the same ones are sure to draw the same."""
        if SoftwareVersions(self.pilot) != self:
            raise CheckError("plan", f"of the versions installed here, {SoftwareVersions(self.pilot)}", f"{self}")


@dataclass(frozen=True, slots=True)
class Journal:
    """A file for a run's entropy and finished shards, so that a killed run can resume.

    It is born once, whole and on disk before the first draw, and then only grows; a file of another run is refused.
    Hence a run that has a journal has one outcome, however often it is killed: ``docs/montecarlo/bounds.md``.

    Attributes:
        path: the file.
        run: fingerprint of the plan: everything else that determines the claim.
        source: of the randomness.

    Each line has a tag that binds its count to this run and this shard, so a count that was edited, or that belongs to
    another run or shard, is refused. A writer of the file can make tags too: evidence is checked by drawing again
    (``recompute``), not by its journal.
    """

    path: Path
    run: str
    source: RandomnessSource

    @property
    def seed(self) -> int:
        """Of the streams."""
        return self.source.seed(self.run)

    @classmethod
    def begin(cls, path: Path, run: str, source: RandomnessSource) -> Journal:
        """Create the file if it is missing; only one process can.

        Raises:
            RecordError: the file belongs to another run, or another process made it just now.
        """
        created = cls(path, run, source)
        if not path.exists():
            head = {"v": VERSION, "provenance": source.provenance, "value": source.value, "run": run}
            temporary = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
            durable_io.append_durably(temporary, json.dumps(head).encode() + b"\n")
            try:
                os.link(temporary, path)  # fails if the journal is there by now; its name never shows half a head
            except FileExistsError as error:
                raise RecordError(f"journal {path.name} was begun by another process just now") from error
            finally:
                temporary.unlink()
            durable_io.sync_folder(path.parent)
        created.read()
        return created

    def read(self) -> dict[Key, int]:
        """Return the counts written so far; a torn last line is dropped from the file."""
        born, run, counts = _read(self.path)
        if (born, run) != (self.source, self.run):
            raise RecordError(
                f"journal {self.path.name} belongs to another run: its seed or its plan (the question, the tests, the "
                "versions of epsilog, numpy and scipy) is another"
            )
        return counts

    def write(self, key: Key, hits: int) -> None:
        """Append one count, durably."""
        line = json.dumps([*key, hits, _tag(self.source, self.run, key, hits)])
        durable_io.append_durably(self.path, line.encode() + b"\n")


def _tag(source: RandomnessSource, run: str, key: Key, hits: int) -> str:
    """Return the HMAC-SHA256 that binds a count to its run and its shard, by a key from the head of this run."""
    head = codec.encode_canonical(
        {"journal": VERSION, "provenance": source.provenance, "value": source.value, "run": run}
    )
    return hmac.new(head, codec.encode_canonical([*key, hits]), "sha256").hexdigest()


def _read(path: Path) -> tuple[RandomnessSource, str, dict[Key, int]]:
    data = path.read_bytes()
    complete = data[: data.rfind(b"\n") + 1]
    counts: dict[Key, int] = {}
    try:
        head, *rest = [json.loads(line) for line in complete.splitlines()]
        if head["v"] != VERSION or len(head) != len({"v", "provenance", "value", "run"}):
            raise ValueError(f"its head is not of version {VERSION}")
        born, run = RandomnessSource(head["provenance"], head["value"]), str(head["run"])
        for first, second, third, found, tag in rest:
            candidate, shard = check.integer(0)(candidate=first), check.integer(0)(shard=third)
            direction, hits = check.one_of(DIRECTIONS)(direction=second), check.integer(0, SHARD)(hits=found)
            if tag != _tag(born, run, (candidate, direction, shard), hits):
                raise ValueError(f"the count of shard {shard} ({direction}) was edited, or is of another run or shard")
            if counts.setdefault((candidate, direction, shard), hits) != hits:
                raise ValueError(f"shard {shard} has two counts")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RecordError(f"journal {path.name} is unreadable: {error}") from error
    if complete != data:
        os.truncate(path, len(complete))
    return born, run, counts


def run_trials(
    trials: Sequence[BernoulliTrial],
    *,
    seed: int,
    limits: Sequence[int] | None = None,
    workers: int | None = 1,
    journal: Journal | None = None,
    progress: Progress | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Count the hits of the shards of every trial; the same integers however they are scheduled.

    Args:
        trials: what to count.
        seed: of the streams.
        limits: hits above which a trial has failed, and with it all of them: none need go on. Looked at after shard 1,
            3, 7, 15, ..., so that where they stop depends on the counts alone. By default every shard is drawn.
        workers: processes; 1 stays in this one; ``None`` asks joblib's configured backend.
        journal: where finished shards are remembered.
        progress: called after each shard with the trial, its draws done and its hits so far.

    Returns:
        For each trial, the hits of each shard in order, up to where one failed.
    """
    if journal is not None and journal.seed != seed:
        raise CheckError("seed", f"the journal's, {journal.seed!r}", repr(seed))
    done = journal.read() if journal else {}
    counts: list[list[int]] = [[] for _ in trials]
    wave = 1 if limits else 1 << 40
    while True:
        if limits and any(sum(found) > limit for found, limit in zip(counts, limits, strict=True)):
            return tuple(tuple(found) for found in counts)
        ranges = [
            range(len(found), min(len(found) + wave, trial.shards)) for trial, found in zip(trials, counts, strict=True)
        ]
        labels = [(i, shard) for i, part in enumerate(ranges) for shard in part]
        if not labels:
            return tuple(tuple(found) for found in counts)
        done_of = [[_draws(trial, len(found)), sum(found)] for trial, found in zip(trials, counts, strict=True)]
        news = {}
        for (i, shard), hits in _wave(trials, labels, seed=seed, workers=workers, done=done, journal=journal):
            news[i, shard] = hits
            done_of[i][0] += _draws(trials[i], shard + 1) - _draws(trials[i], shard)
            done_of[i][1] += hits
            if progress:
                progress(trials[i], *done_of[i])
        for i, shard in labels:
            counts[i].append(news[i, shard])
        wave *= 2


def _draws(trial: BernoulliTrial, shards: int) -> int:
    return min(trial.samples, shards * SHARD)


def _wave(
    trials: Sequence[BernoulliTrial],
    labels: list[tuple[int, int]],
    *,
    seed: int,
    workers: int | None,
    done: dict[Key, int],
    journal: Journal | None,
) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield the hits of each labeled shard, from the journal or from a worker, as they come."""
    keys = {(i, shard): (trials[i].candidate, trials[i].tilt.direction, shard) for i, shard in labels}
    yield from ((label, done[keys[label]]) for label in labels if keys[label] in done)
    tasks = [(label, trials[label[0]], seed, label[1]) for label in labels if keys[label] not in done]
    counted: Iterable[tuple[tuple[int, int], int]] = (_label_count(*task) for task in tasks)
    if workers != 1 and len(tasks) > 1:
        from joblib import Parallel, delayed

        options: dict[str, Any] = {} if workers is None else {"n_jobs": workers}
        counted = Parallel(return_as="generator_unordered", **options)(delayed(_label_count)(*task) for task in tasks)
    for label, found in counted:
        if journal:
            journal.write(keys[label], found)
        yield label, found


def _label_count(label: tuple[int, int], trial: BernoulliTrial, seed: int, shard: int) -> tuple[tuple[int, int], int]:
    return label, count_hits(trial, seed, shard)


@contextmanager
def use_dask_cluster(scheduler: str | None = None, *, workers: int = 1) -> Iterator[None]:
    """Make each ``workers=None`` inside the context draw its shards on a Dask cluster.

    Args:
        scheduler: of a running cluster, ``HOST:PORT``; by default a cluster is started on this machine, and ended.
        workers: how many processes such a cluster has.

    Raises:
        CheckError: the cluster is unavailable, or a worker has other versions than this installation: its draws would
            not be reproducible.
        EpsilogError: the extra ``dask`` is not installed.
    """
    workers = check.integer(1)(workers=workers)
    from joblib import parallel_config

    try:
        import distributed
    except ImportError as error:
        raise EpsilogError(f"a Dask cluster needs the extra `dask`: {install_command('dask')} ({error})") from error
    dask: Any = distributed  # it states no types
    with ExitStack() as opened:
        at: Any = scheduler
        if at is None:
            cluster = dask.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
            at = opened.enter_context(cluster)
        try:
            client = opened.enter_context(dask.Client(at))
        except (OSError, ValueError) as error:
            raise CheckError("scheduler", "HOST:PORT of a running cluster", f"{scheduler!r} ({error})") from error
        origins = client.run(SoftwareVersions)
        if not origins:
            raise CheckError("scheduler", "of a cluster with workers", repr(scheduler))
        for worker, origin in origins.items():
            if origin != SoftwareVersions():
                raise CheckError("scheduler", f"of workers with {SoftwareVersions()}", f"{origin} at {worker}")
        opened.enter_context(parallel_config(backend="dask"))
        yield
