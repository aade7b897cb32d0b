"""A warm start: parameters that are public before training begins, in the place of a kind's own.

They must come from public data. Whatever was trained on anybody's private data is a release of its own, which this run
does not pay for; the report says that the owner declares it public, and which numbers they are.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog import npz
from epsilog.terms import CheckError
from epsilog.training.models.base import Model

DECLARED = "declared public by the owner: not trained on private data, or paid for elsewhere"


@dataclass(frozen=True, slots=True)
class WarmStart:
    """A kind of model that starts from given parameters.

    Attributes:
        kind: the kind itself.
        sha256: of the parameters as little-endian doubles, as a ledger has it of a released model.
        vector: the parameters; shape (d,).
    """

    kind: Any
    sha256: str
    vector: NDArray[np.float64] = field(repr=False, compare=False)

    @classmethod
    def read(cls, kind: Any, initial: Any, beside: Path) -> WarmStart:
        """Takes an array, or reads an .npy file, or the .npz file of a released model; neither holds a pickle.

        Raises:
            CheckError: a file that cannot be read, or anything but finite real numbers, one after another.
        """
        found = _load_array(beside / initial) if isinstance(initial, str | Path) else np.asarray(initial)
        if found.dtype.kind != "f" or found.ndim != 1:
            raise CheckError("initial", "finite real numbers of shape (d,)", f"{found.dtype} {found.shape}")
        if not np.isfinite(found).all():
            first = int(np.flatnonzero(~np.isfinite(found))[0])
            raise CheckError("initial", "finite real numbers of shape (d,)", f"{found[first]} at place {first}")
        vector = found.astype("<f8")
        return cls(kind, hashlib.sha256(vector.tobytes()).hexdigest(), vector)

    def build(self, *, inputs: int, classes: int | None) -> Model:
        """As ``Kind`` says.

        Raises:
            CheckError: another number of parameters than the model has.
        """
        model: Model = self.kind.build(inputs=inputs, classes=classes)
        if self.vector.size != model.size:
            raise CheckError("initial", f"the model's {model.size} parameters", f"{self.vector.size}", verb="hold")
        told = {"sha256": self.sha256, "data": DECLARED}
        return dataclasses.replace(
            model, init=lambda: model.unflatten(self.vector), facts={**model.facts, "initial": told}
        )


def _load_array(file: Path) -> NDArray[Any]:
    wanted = "an .npy file of numbers, or the .npz file of a released model"
    try:
        content = file.read_bytes()
        if file.suffix == ".npz":
            return npz.concatenate_arrays(npz.decode_npz(content))
        return np.asarray(np.lib.format.read_array(io.BytesIO(content), allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CheckError("initial", wanted, f"{file.name}: {reason}") from error
