"""A released model: its named arrays in a public file, and its predictions.

An NPZ file holds the arrays in the order of the parameter vector. The SHA-256 of all arrays as little-endian doubles is
the hash in the record of the last round and in the ledger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from epsilog import npz
from epsilog.terms import CheckError
from epsilog.training.models.base import Model, Params

AT_ONCE = 1 << 22  # numbers of features in one batch of a model


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedModel:
    """A model with released parameters.

    Attributes:
        model: the model.
        vector: the parameters; shape (d,).
    """

    model: Model
    vector: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.vector.shape != (self.model.size,):
            raise CheckError("vector", f"shape ({self.model.size},)", f"{self.vector.shape}", verb="have")

    @property
    def params(self) -> Params:
        """Return the pytree of parameters."""
        return self.model.unflatten(self.vector)

    @property
    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return all arrays by name, in the order of the vector."""
        return dict(zip(self.model.names, self.model.cut(self.vector), strict=True))

    def outputs(self, features: Any) -> NDArray[np.float64]:
        """Return the outputs for rows in float64.

        Args:
            features: rows of shape (n, f), scaled like the training data.

        Returns:
            Outputs (n, ...); for classes, a larger output means a more likely class. NaN for an unusable row.

        Raises:
            CheckError: the shape is wrong.
        """
        rows = np.asarray(features, dtype=np.float64)
        width = self.model.inputs
        if rows.ndim != 2 or width not in (None, rows.shape[1]):
            raise CheckError("features", f"shape (n, {width or 'f'})", f"{rows.shape}", verb="have")
        step = max(1, AT_ONCE // max(1, rows.shape[1]))
        found = [self._some(rows[start : start + step]) for start in range(0, max(1, len(rows)), step)]
        return np.concatenate(found)

    def _some(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        usable = np.all(self.model.takes(rows, reach=np.finfo(np.float64).max), axis=1)
        with self.model.doubles():
            made = self.model.apply(self.params, np.where(usable[:, None], rows, 0.0))
            found = np.array(np.asarray(made), dtype=np.float64)
        found[~usable] = math.nan
        return found

    def predict(self, features: Any) -> NDArray[Any]:
        """Return the prediction for each row.

        Args:
            features: as in ``outputs``.

        Returns:
            Shape (n,): the most likely class, or -1 for an unusable row; or a real number, or NaN for an unusable row.
        """
        found = self.outputs(features)
        if self.model.classes is None:
            return found if found.ndim == 1 else found[:, 0]
        return np.where(np.isnan(found).any(axis=1), -1, np.nan_to_num(found).argmax(axis=1))

    @classmethod
    def read(cls, path: Path | str, model: Model) -> Self:
        """Return the released model of a file.

        Args:
            path: the NPZ file.
            model: the model that was trained.

        Raises:
            CheckError: the file cannot be read, or its arrays differ from those of the model.
        """
        try:
            arrays = npz.decode_npz(Path(path).read_bytes())
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise CheckError("model", "a released model's NPZ file", f"{Path(path).name}: {reason}") from error
        wanted = cls(model, model.start).arrays
        if {name: each.shape for name, each in arrays.items()} != {name: each.shape for name, each in wanted.items()}:
            shapes = ", ".join(f"{name} {each.shape}" for name, each in wanted.items())
            raise CheckError("model", f"the arrays of the model ({shapes})", Path(path).name, verb="hold")
        return cls(model, npz.concatenate_arrays({name: arrays[name] for name in wanted}))
