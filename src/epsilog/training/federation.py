"""The data of the clients as one table, in the order of the clients, with the number of rows of each; no padding."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilog.terms import CheckError, check
from epsilog.terms.disclosed import Private
from epsilog.training import clipping
from epsilog.training.models import Model

Floats = NDArray[np.floating[Any]]
PRECISIONS = ("float32", "float64")
BLOCK = 1 << 22  # numbers in one block: a table may be larger than memory


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Federation(Private):
    """The examples of all clients.

    The arrays may be memory-mapped files (``numpy.load(path, mmap_mode="r")``): training reads the rows of a cohort.

    Attributes:
        features: shape (rows, f); float32 or float64, which is also the precision of local training.
        targets: shape (rows,); real numbers, or class numbers.
        sizes: the number of rows of each client, in the order of the clients; shape (clients,). A client may have none.
        names: the names of clients that hold their own rows; see ``remote_clients``. Empty if the rows are here.

    >>> two = Federation.from_arrays([[[1.0], [2.0]], [[3.0]]], [[0.1, 0.2], [0.3]])
    >>> two.count, two.sizes.tolist(), two.features[two.rows_of(1)].tolist()
    (2, [2, 1], [[3.0]])
    """

    features: Floats
    targets: NDArray[Any]
    sizes: NDArray[np.integer[Any]]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_arrays(features=self.features, targets=self.targets, sizes=self.sizes)
        if self.features.ndim != 2 or not self.features.shape[1]:
            raise CheckError("features", "shape (rows, f) with f at least 1", f"{self.features.shape}", verb="have")
        if self.targets.shape != self.features.shape[:1]:
            raise CheckError("targets", f"shape {self.features.shape[:1]}", f"{self.targets.shape}", verb="have")
        check.one_of(PRECISIONS)(features_dtype=str(self.features.dtype))
        self._require_sizes()
        if self.names:
            self._require_names()

    def _require_sizes(self) -> None:
        if self.sizes.dtype.kind not in "iu" or self.sizes.ndim != 1 or not self.sizes.size:
            raise CheckError(
                "sizes", "whole numbers of shape (clients,), at least one", f"{self.sizes.dtype} {self.sizes.shape}"
            )
        if self.sizes.min() < 0 or self.sizes.sum() != len(self.features):
            raise CheckError("sizes", f"not below 0 and {len(self.features)} in all", f"{self.sizes.sum()} in all")

    def _require_names(self) -> None:
        if len(set(self.names)) != self.count or len(self.names) != self.count:
            raise CheckError("names", f"{self.count} different names, one per client", f"{len(self.names)}", verb="be")
        if len(self.features):
            raise CheckError("features", "no rows if clients have names", f"{len(self.features)}", verb="hold")

    @classmethod
    def remote_clients(
        cls, names: Sequence[str], *, width: int, classes: int | None = None, dtype: str = "float64"
    ) -> Federation:
        """Return clients that hold their own rows: what a server knows about them, all of it public.

        Args:
            names: their names in a fixed order, which a run is bound to, since it counts participations by position.
            width: number of features of a row.
            classes: number of classes; None if targets are real numbers.
            dtype: "float32" or "float64", the precision of local training.

        >>> two = Federation.remote_clients(["north", "south"], width=3)
        >>> two.count, len(two.features)
        (2, 0)
        """
        dtype, width = check.one_of(PRECISIONS)(dtype=dtype), check.integer(1)(width=width)
        targets = np.zeros(0, dtype if classes is None else np.int64)
        names = check.sequence_of(check.text())(names=tuple(names))
        return cls(np.zeros((0, width), dtype), targets, np.zeros(len(names), np.int64), names)

    @classmethod
    def from_arrays(
        cls, features: Sequence[ArrayLike], targets: Sequence[ArrayLike], *, dtype: str = "float64"
    ) -> Federation:
        """Return the clients of arrays, one array for each client.

        Args:
            features: arrays of shape (rows of the client, f), with equal f.
            targets: arrays of shape (rows of the client,).
            dtype: "float32" or "float64", the precision of local training.

        Raises:
            CheckError: the numbers of targets, clients or rows do not match, or widths differ.
        """
        dtype = check.one_of(PRECISIONS)(dtype=dtype)
        if not len(features):
            raise CheckError("features", "an array for each client, at least one", "none", verb="hold")
        if len(features) != len(targets):
            raise CheckError("targets", f"{len(features)} arrays, one per client", f"{len(targets)}", verb="hold")
        parts = [_numbers(f"features[{client}]", part, dtype) for client, part in enumerate(features)]
        goals = [_array(f"targets[{client}]", part) for client, part in enumerate(targets)]
        width = max((part.shape[-1] for part in parts if part.ndim == 2), default=0)
        for client, (part, goal) in enumerate(zip(parts, goals, strict=True)):
            if part.size and part.shape[1:] != (width,):
                raise CheckError(f"features[{client}]", f"shape (n, {width or 'f'})", f"{part.shape}", verb="have")
            if goal.shape != part.shape[:1]:
                raise CheckError(f"targets[{client}]", f"shape {part.shape[:1]}", f"{goal.shape}", verb="have")
        filled = [goal for goal in goals if goal.size] or goals[:1]
        return cls(
            np.concatenate([part.reshape(-1, width) for part in parts]),
            np.concatenate(filled),
            np.array([len(part) for part in parts]),
        )

    @classmethod
    def from_rows(
        cls, client: ArrayLike, features: ArrayLike, targets: ArrayLike, *, clients: ArrayLike | None = None
    ) -> Federation:
        """Return rows grouped by client; the rows of a client keep their order.

        Args:
            client: the name of the client of each row; shape (rows,). Clients are numbered in the order of these names.
            features: shape (rows, f).
            targets: shape (rows,).
            clients: the sorted names of all clients, if some may have no rows; None for those with rows.

        Raises:
            CheckError: a row has a client that is not in ``clients``, or lengths differ.

        >>> Federation.from_rows(["b", "a", "b"], [[1.0], [2.0], [3.0]], [1, 2, 3]).targets.tolist()
        [2, 1, 3]
        """
        owners, wide, goals = _array("client", client), _array("features", features), _array("targets", targets)
        for name, array in (("client", owners), ("targets", goals)):
            if array.shape != wide.shape[:1]:
                raise CheckError(name, f"shape {wide.shape[:1]}", f"{array.shape}", verb="have")
        try:
            names = np.unique(owners) if clients is None else np.asarray(clients)
            place = np.searchsorted(names, owners)
        except TypeError:  # its message could show a value
            raise CheckError("client", "an array of text or of whole numbers", f"an array of {owners.dtype}") from None
        if not np.array_equal(names[np.minimum(place, len(names) - 1)], owners):
            raise CheckError("client", "a name in clients for each row", "a row with another name")
        order = np.argsort(place, kind="stable")
        return cls(wide[order], goals[order], np.bincount(place, minlength=len(names)))

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        client: str,
        features: Mapping[str, Any] | Sequence[str],
        target: str,
        classes: int | Sequence[str] | None = None,
        target_range: Sequence[float] | None = None,
    ) -> Federation:
        """Return the rows of a table, grouped by client; features become float32.

        Args:
            table: a frame of polars, pandas or Arrow, or columns by name: arrays, or series of single values.
            client: the column with the client of each row.
            features: the public description of each column: a range (``{"age": [0, 110]}``, scaled to -1 .. 1) or a
                list of words (``{"ward": ["a", "b"]}``, one column of 0 and 1 for each). Names alone mean unscaled
                numbers.
            target: the column to predict.
            classes: the labels, or the number of classes.
            target_range: the range of a real target, scaled to -1 .. 1. Without range and classes it is not scaled.

        Raises:
            CheckError: a column is missing or has the wrong type. The content of a row is never an error: training
                leaves out a row that it cannot use.

        >>> rows = {"home": ["b", "a"], "age": [55, 110], "ill": ["no", "yes"]}
        >>> ages, ill = {"age": [0, 110]}, ["no", "yes"]
        >>> two = Federation.from_table(rows, client="home", features=ages, target="ill", classes=ill)
        >>> two.features.tolist(), two.targets.tolist()
        ([[1.0], [0.0]], [1, 0])
        """
        from epsilog.training.data import frames, schema, tables

        kinds = features if isinstance(features, Mapping) else dict.fromkeys(features, schema.UnscaledColumn())
        plain = classes is None and target_range is None
        columns = schema.DataSchema(
            client,
            {name: _describe_feature(f"features.{name}", kind) for name, kind in kinds.items()},
            target,
            schema.UnscaledColumn() if plain else schema.parse_target(classes, target_range),
        )
        rows = tables.EncodedRows.of(frames.convert_table(table), columns)
        return rows.federation(np.ones(len(rows.owners.places), dtype=bool))

    def usable(self, model: Model) -> NDArray[np.bool_]:
        """Return a mask of the rows that a step can use: finite numbers in range, and a valid class; shape (rows,)."""
        reach = clipping.get_largest_trainable(self.features.dtype)
        within = np.empty(len(self.features), dtype=bool)
        for block in iterate_blocks(self.features):
            within[block] = model.takes(self.features[block], reach=reach).all(axis=1)
        if model.classes is None:
            within &= np.abs(self.targets) <= reach
        else:
            within &= (self.targets >= 0) & (self.targets < model.classes)
        return within

    def pad_clients(self, clients: int) -> Federation:
        """Return the clients with further clients without rows, ``clients`` in total."""
        spare = check.integer(self.count)(clients=clients) - self.count
        return replace(self, sizes=np.append(self.sizes, np.zeros(spare, dtype=self.sizes.dtype)))

    def rows_of(self, client: int) -> slice:
        """Return the slice of the rows of a client."""
        end = int(self.client_offsets[client])
        return slice(end - int(self.sizes[client]), end)

    @property
    def client_offsets(self) -> NDArray[np.int64]:
        """Return the end of the rows of each client (its last row + 1); shape (clients,)."""
        return np.cumsum(self.sizes, dtype=np.int64)

    @property
    def count(self) -> int:
        """Return the number of clients."""
        return int(self.sizes.size)


def _array(name: str, value: ArrayLike) -> NDArray[Any]:
    """Return an array; the error names the argument and its type alone, since NumPy's own could show a value."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError):
        raise CheckError(name, "an array", f"a {type(value).__name__} with rows of different lengths") from None


def _numbers(name: str, value: ArrayLike, dtype: str) -> NDArray[Any]:
    """Return an array of numbers, with such an error."""
    found = _array(name, value)
    try:
        if found.dtype.kind in "biufO":
            return found.astype(dtype)
    except (TypeError, ValueError):
        pass
    raise CheckError(name, "an array of real numbers", f"an array of {found.dtype}")


def _describe_feature(field: str, kind: Any) -> Any:
    """Return the description of a feature; an error names the feature."""
    from epsilog.training.data import schema

    try:
        return schema.parse_feature(kind)
    except CheckError as error:
        raise CheckError(field, error.bound, error.value, error.verb) from None


def iterate_blocks(array: NDArray[Any]) -> Iterator[slice]:
    """Yield slices of an array, and drop the pages of a memory-mapped file after each."""
    step = max(1, BLOCK // max(1, array[:1].size))
    for first in range(0, len(array), step):
        yield slice(first, first + step)
        mapped, mode = getattr(array, "_mmap", None), getattr(array, "mode", "c")
        if mapped is not None and mode != "c":  # pages of a private copy are in no file
            mapped.madvise(mmap.MADV_DONTNEED)


def require_arrays(**named: Any) -> None:
    """Refuse anything but arrays; the error shows the type alone, since values may be private."""
    for name, value in named.items():
        if not isinstance(value, np.ndarray):
            raise CheckError(name, "a numpy array", f"a {type(value).__name__}")
