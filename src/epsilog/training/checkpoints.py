"""The files of a run, and how a killed run resumes.

A run folder holds ``rounds.jsonl`` (public), ``custody.jsonl`` (for the curator alone) and ``checkpoints/`` with the
latest state. The order of writes makes a round safe against a kill at any point:

1. Write the checkpoint ``round-0007.npz.tmp`` with both record lines, and flush it to disk.
2. Record the round as released in the ledger, with the hash of the model.
3. Rename the checkpoint, append the lines, and delete the older checkpoint.

So each round that the ledger has as released can be rebuilt, and no other round is ever adopted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from epsilog import durable_io
from epsilog.terms import ConflictError, CustodyRecord, RecordError, RoundRecord, RunArtifact, codec, record_line
from epsilog.training.rounds import RoundResult, TrainingState, hash_model

STATE = tuple(each.name for each in dataclasses.fields(TrainingState))
PARTS = (*STATE, "bound", "record", "custody")  # of a checkpoint
Record = TypeVar("Record", RoundRecord, CustodyRecord)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run.

    Attributes:
        path: the folder of the run.
        bound: SHA-256 of the inputs of the run (``hash_run_inputs``); a run resumes with equal inputs only.
    """

    path: Path
    bound: str

    @property
    def rounds(self) -> Path:
        """Return the public records, one JSON document per line."""
        return self.path / RunArtifact.ROUNDS

    @property
    def custody(self) -> Path:
        """Return the records for the curator alone, one JSON document per line."""
        return self.path / RunArtifact.CUSTODY

    @property
    def files(self) -> tuple[Path, ...]:
        """Return every path that a run writes to, existing or not."""
        return self.rounds, self.custody, self.path / "checkpoints", self.path / "checkpoints" / "lock"

    def checkpoint(self, round: int) -> Path:  # noqa: A002
        """Return the path of the checkpoint after a round."""
        return self.path / "checkpoints" / f"round-{round:04d}.npz"

    @contextlib.contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Prevent a second process from training in this folder: two releases of one round would cost twice as much.

        Create the missing files; only their owner can read those that name participants.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "checkpoints").mkdir(mode=0o700, exist_ok=True)
        self.custody.touch(mode=0o600)
        with lock_exclusively(self.path / "checkpoints" / "lock", self.path.name):
            yield

    def prepare(self, outcome: RoundResult) -> None:
        """Write a computed round durably under its temporary name, before the ledger records it as released."""
        buffer = io.BytesIO()
        state = outcome.state
        np.savez(
            buffer,
            **{name: getattr(state, name) for name in STATE},
            bound=np.array(self.bound),
            record=np.frombuffer(record_line(outcome.record), dtype=np.uint8),
            custody=np.frombuffer(record_line(outcome.custody), dtype=np.uint8),
        )
        waiting = _waiting(self.checkpoint(state.round))
        durable_io.write_durably(waiting, buffer.getvalue())
        durable_io.sync_folder(waiting.parent)

    def finalize(self, outcome: RoundResult) -> None:
        """Rename the checkpoint of a released round, append its lines, and delete the older checkpoint."""
        final = self.checkpoint(outcome.state.round)
        _waiting(final).replace(final)  # a power cut may undo this; the temporary name is read, too
        _append(self.rounds, record_line(outcome.record))
        _append(self.custody, record_line(outcome.custody))
        self.checkpoint(outcome.state.round - 1).unlink(missing_ok=True)

    def resume(self, released: Mapping[int, str]) -> TrainingState | None:
        """Return the state after the last released round of the ledger; None if there is no such round.

        Raises:
            RecordError: a file is missing or contradicts the ledger. Only a torn last line is repaired.
        """
        last = len(released)
        if sorted(released) != list(range(1, last + 1)):
            raise RecordError(f"released rounds must be 1, 2, ..., got {sorted(released)}")
        self._require_last_round(last)
        if last == 0:
            return None
        stored = self._adopt(last, released[last])
        if str(stored["bound"]) != self.bound:
            raise RecordError(
                f"{self.checkpoint(last).name}: this run began with another scheme, model, training or data, for which "
                "participations were counted; resume it with those"
            )
        _repair(self.rounds, stored["record"].tobytes(), index=last - 1)
        _repair(self.custody, stored["custody"].tobytes(), index=last - 1)
        self.checkpoint(last - 1).unlink(missing_ok=True)
        hashes = [record.output_hash for record in read_records(self.rounds, RoundRecord)]
        custody = read_records(self.custody, CustodyRecord)
        if hashes != [released[one] for one in range(1, last + 1)]:
            raise RecordError(f"{self.rounds.name}: the output hashes differ from those in the ledger")
        taken = Counter(one for record in custody for one in record.participants)
        kept = {one: times for one, times in enumerate(stored["participations"].tolist()) if times}
        if stored["round"].tolist() != last or kept != taken:
            raise RecordError(
                f"{self.checkpoint(last).name} and {self.custody.name} differ in the participations of clients"
            )
        return TrainingState(last, **{name: stored[name] for name in STATE[1:]})

    def _require_last_round(self, last: int) -> None:
        """Refuse a finished round that the ledger does not have: the ledger was rolled back."""
        settled = [path.name for path in sorted((self.path / "checkpoints").glob("round-*.npz"))]
        beyond = [name for name in settled if int(name[6:-4]) > last]
        if last == 0:
            beyond += [path.name for path in (self.rounds, self.custody) if path.exists() and path.read_bytes()]
        if beyond:
            raise RecordError(f"{beyond[-1]} exists, but the ledger has released only {last} rounds")

    def _adopt(self, round_: int, expected: str) -> dict[str, np.ndarray]:
        """Read the checkpoint of a released round, compare its hash with the ledger, and give it its final name."""
        final = self.checkpoint(round_)
        path = final if final.exists() else _waiting(final)
        if not path.exists():
            raise RecordError(f"{final.name} is missing, but the ledger has released round {round_}")
        stored = _load(path)
        model = stored["model"]
        if model.ndim != 1 or model.dtype != np.float64 or hash_model(model) != expected:
            raise RecordError(f"{path.name}: the model's hash is not {expected[:16]}..., which the ledger has released")
        path.replace(final)
        durable_io.sync_folder(final.parent)
        return stored


def delete_run_state(run: Path) -> None:
    """Delete the state that only a resumed run needs: models, participation counts, slots, earlier noise."""
    folder = run / "checkpoints"
    if folder.is_dir():
        for path in folder.glob("round-*"):
            path.unlink(missing_ok=True)
        durable_io.sync_folder(folder)


@contextlib.contextmanager
def lock_exclusively(lock: Path, name: str) -> Iterator[None]:
    """Hold a lock file that no second process can hold; the end of the process releases it."""
    import fcntl  # the smoke test of each run reports if it is missing

    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConflictError(f"another process is training in {name!r}") from None
        yield


def read_records(path: Path, kind: type[Record]) -> list[Record]:
    """Return the records of a file; each line must be complete, of the given kind, and in order."""
    if not path.exists():
        raise RecordError(f"{path.name} is missing")
    records = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            record = codec.from_json(json.loads(line))
        except (ValueError, TypeError) as error:
            raise RecordError(f"{path.name}, line {number}: {error}") from None
        if not isinstance(record, kind) or record.round != number:
            raise RecordError(f"{path.name}, line {number}: must be the {kind.__name__} of round {number}")
        records.append(record)
    return records


def _append(path: Path, line: bytes) -> None:
    new = not path.exists()
    durable_io.append_durably(path, line)
    if new:
        durable_io.sync_folder(path.parent)


def _repair(path: Path, line: bytes, *, index: int) -> None:
    """Append ``line`` after ``index`` complete lines, unless it is there; first remove a torn last line."""
    content = path.read_bytes() if path.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    lines = whole.splitlines(keepends=True)
    if lines[index:] == [line] and whole == content:
        return
    if len(lines) != index:
        raise RecordError(
            f"{path.name} must have {index} complete lines before that of round {index + 1}, got {len(lines)}"
        )
    if whole != content:
        os.truncate(path, len(whole))
    _append(path, line)


def _waiting(path: Path) -> Path:
    return path.with_name(path.name + ".tmp")


def _load(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
            return {name: stored[name] for name in PARTS}
    except Exception as error:
        raise RecordError(f"{path.name} is not a complete checkpoint: {error}") from error
