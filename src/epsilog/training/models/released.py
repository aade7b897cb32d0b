"""A released model as people use it: its arrays by name in a public file, and its predictions.

An NPZ file holds the model's arrays in the order in which they make up the parameter vector. So the SHA-256 of all of
them, one after another as little-endian doubles, is the hash that the last round's record and the ledger hold.
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

AT_ONCE = 1 << 22  # numbers of features that are pushed through a model in one go


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedModel:
    """A model with the parameters that were released.

    Attributes:
        model: its functions.
        vector: the parameters, one after another; shape (d,).
    """

    model: Model
    vector: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.vector.shape != (self.model.size,):
            raise CheckError("vector", f"shape ({self.model.size},)", f"{self.vector.shape}", verb="have")

    @property
    def params(self) -> Params:
        """The model's own pytree of arrays."""
        return self.model.unflatten(self.vector)

    @property
    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Every array under its path in the pytree, in the order of the vector."""
        return dict(zip(self.model.names, self.model.cut(self.vector), strict=True))

    def outputs(self, features: Any) -> NDArray[np.float64]:
        """What the model makes of rows, in doubles.

        Args:
            features: shape (n, f), scaled as those that it was trained on.

        Returns:
            Shape (n, ...); of classes a score each, the higher the likelier. NaN for a row that it cannot use.

        Raises:
            CheckError: features of another shape.
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
        """What the model says of rows.

        Args:
            features: as in ``outputs``.

        Returns:
            Shape (n,): the number of the likeliest class, -1 for a row that it cannot use; or a real number, NaN
            likewise.
        """
        found = self.outputs(features)
        if self.model.classes is None:
            return found if found.ndim == 1 else found[:, 0]
        return np.where(np.isnan(found).any(axis=1), -1, np.nan_to_num(found).argmax(axis=1))

    @classmethod
    def read(cls, path: Path | str, model: Model) -> Self:
        """Read a released model.

        Args:
            path: the NPZ file.
            model: the functions of the model that was trained.

        Raises:
            CheckError: a file that cannot be read, or that holds other arrays than the model has.
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
