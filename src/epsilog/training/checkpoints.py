"""The files of a run, and how a killed run resumes.

A run folder holds ``rounds.jsonl`` (public), ``custody.jsonl`` (the curator's) and ``checkpoints/`` with the latest
state. A round is written in an order that a kill at any point cannot break:

    checkpoint ``round-0007.npz.tmp`` with both record lines, flushed to the disk
    -> the ledger says released, with the model's hash
    -> the checkpoint takes its final name -> the lines are appended -> the older checkpoint goes

So whatever the ledger calls released can be rebuilt, and nothing the ledger does not know is ever adopted.
"""

from __future__ import annotations

import contextlib
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

PARTS = (
    "round",
    "model",
    "participations",
    "memory",
    "server",
    "slots",
    "bound",
    "record",
    "custody",
)  # of a checkpoint
Record = TypeVar("Record", RoundRecord, CustodyRecord)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run.

    Attributes:
        path: the run's own folder.
        bound: SHA-256 of what is trained on what; a run resumes with nothing else.
    """

    path: Path
    bound: str

    @property
    def rounds(self) -> Path:
        """The public records, one JSON document a line."""
        return self.path / RunArtifact.ROUNDS

    @property
    def custody(self) -> Path:
        """The curator's records, one JSON document a line."""
        return self.path / RunArtifact.CUSTODY

    @property
    def files(self) -> tuple[Path, ...]:
        """Everything that a run writes to, whether it is there yet or not."""
        return self.rounds, self.custody, self.path / "checkpoints", self.path / "checkpoints" / "lock"

    def checkpoint(self, round: int) -> Path:  # noqa: A002
        """Where the state after a round is kept."""
        return self.path / "checkpoints" / f"round-{round:04d}.npz"

    @contextlib.contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Keep a second process from training in the same folder: two releases of one round would cost double.

        Makes what is missing; what names participants is readable by its owner alone.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "checkpoints").mkdir(mode=0o700, exist_ok=True)
        self.custody.touch(mode=0o600)
        with lock_exclusively(self.path / "checkpoints" / "lock", self.path.name):
            yield

    def prepare(self, outcome: RoundResult) -> None:
        """Make a computed round durable under its waiting name, before the ledger calls it released."""
        buffer = io.BytesIO()
        state = outcome.state
        np.savez(
            buffer,
            round=state.round,
            model=state.model,
            participations=state.participations,
            memory=state.memory,
            server=state.server,
            slots=state.slots,
            bound=np.array(self.bound),
            record=np.frombuffer(record_line(outcome.record), dtype=np.uint8),
            custody=np.frombuffer(record_line(outcome.custody), dtype=np.uint8),
        )
        waiting = _waiting(self.checkpoint(state.round))
        durable_io.write_durably(waiting, buffer.getvalue())
        durable_io.sync_folder(waiting.parent)

    def finalize(self, outcome: RoundResult) -> None:
        """Give a released round its final name, appends its lines, drops the older checkpoint."""
        final = self.checkpoint(outcome.state.round)
        _waiting(final).replace(final)  # a power cut may take the new name: under the old one it is found all the same
        _append(self.rounds, record_line(outcome.record))
        _append(self.custody, record_line(outcome.custody))
        self.checkpoint(outcome.state.round - 1).unlink(missing_ok=True)

    def resume(self, released: Mapping[int, str]) -> TrainingState | None:
        """Rebuild the state after the last round that the ledger calls released; None if there is none.

        Raises:
            RecordError: files that the ledger contradicts or that are missing. Only a torn last line is repaired.
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
                f"{self.checkpoint(last).name}: this run was begun with another scheme, model, training or data, and "
                "how often each client took part was counted for those"
            )
        _repair(self.rounds, stored["record"].tobytes(), index=last - 1)
        _repair(self.custody, stored["custody"].tobytes(), index=last - 1)
        self.checkpoint(last - 1).unlink(missing_ok=True)
        hashes = [record.output_hash for record in read_records(self.rounds, RoundRecord)]
        custody = read_records(self.custody, CustodyRecord)
        if hashes != [released[one] for one in range(1, last + 1)]:
            raise RecordError(f"{self.rounds.name}: the output hashes are not those of the ledger")
        taken = Counter(one for record in custody for one in record.participants)
        kept = {one: times for one, times in enumerate(stored["participations"].tolist()) if times}
        if stored["round"].tolist() != last or kept != taken:
            raise RecordError(f"{self.checkpoint(last).name} and {self.custody.name} differ on who took part how often")
        return TrainingState(last, *(stored[name] for name in ("model", "participations", "memory", "server", "slots")))

    def _require_last_round(self, last: int) -> None:
        """A settled round that the ledger does not know means that the ledger was set back."""
        settled = [path.name for path in sorted((self.path / "checkpoints").glob("round-*.npz"))]
        beyond = [name for name in settled if int(name[6:-4]) > last]
        if last == 0:
            beyond += [path.name for path in (self.rounds, self.custody) if path.exists() and path.read_bytes()]
        if beyond:
            raise RecordError(f"{beyond[-1]} is there, but the ledger has released {last} rounds only")

    def _adopt(self, round_: int, expected: str) -> dict[str, np.ndarray]:
        """Read the checkpoint of a released round, which must be what the ledger says it is, and names it finally."""
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
    """Delete what only a resumed run needs: models, participation counts, slots, remembered noise."""
    folder = run / "checkpoints"
    if folder.is_dir():
        for path in folder.glob("round-*"):
            path.unlink(missing_ok=True)
        durable_io.sync_folder(folder)


@contextlib.contextmanager
def lock_exclusively(lock: Path, name: str) -> Iterator[None]:
    """Hold a lock file that no second process can hold; whoever dies lets go of it."""
    import fcntl  # a rehearsal, which every run begins with, says where it is missing

    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConflictError(f"another process is training in {name!r}") from None
        yield


def read_records(path: Path, kind: type[Record]) -> list[Record]:
    """Read a record file; every line must be whole, of the kind asked for, and in order.

    Raises:
        RecordError: a missing file, or a line that does not hold, with its number.
    """
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
    """Make ``line`` the one after ``index`` whole lines; a torn line in its place is cut off first."""
    content = path.read_bytes() if path.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    lines = whole.splitlines(keepends=True)
    if lines[index:] == [line] and whole == content:
        return
    if len(lines) != index:
        raise RecordError(
            f"{path.name} must have {index} whole lines before that of round {index + 1}, got {len(lines)}"
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
        raise RecordError(f"{path.name} is not a whole checkpoint: {error}") from error
