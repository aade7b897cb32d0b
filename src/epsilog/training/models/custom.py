"""A model of the user's own from a Python file (``module:factory``), and public parameters that a model starts from.

The file is read once; its SHA-256 goes into the model's public facts, and what runs are the very bytes that were
hashed. The file's folder is not put on the import path: the file may import what is installed, and nothing that lies
next to it and would go unhashed.

Parameters of a warm start must come from public data. Those that were trained on private data are a release of their
own, which this run does not charge; the report says that the owner declares them public, and which numbers they are.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import math
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog import npz
from epsilog.terms import CheckError
from epsilog.training.models.base import Model

OF_A_MODEL = {each.name for each in dataclasses.fields(Model)} - {"classes"}  # the data has classes as well
NAMED = re.compile(r"[A-Za-z_]\w*:[A-Za-z_]\w*", re.ASCII)


def is_custom(kind: str) -> bool:
    """Whether a kind names a factory rather than something that is shipped."""
    return ":" in kind


def require_factory_name(kind: str) -> str:
    """Return a kind that names a module and its factory, or refuses it."""
    if not NAMED.fullmatch(kind):
        raise CheckError("kind", "module:factory, a Python file's name without .py and a function in it", repr(kind))
    return kind


@dataclass(frozen=True, slots=True)
class CustomModel:
    """A kind of model that somebody's own file makes.

    Attributes:
        kind: module:factory.
        sha256: of the file.
        options: what the factory gets besides inputs and classes.
        source: the file's bytes.
    """

    kind: str
    sha256: str
    options: tuple[tuple[str, Any], ...]
    source: bytes = field(repr=False)

    @classmethod
    def read(cls, kind: str, folder: Path, options: dict[str, Any]) -> CustomModel:
        """Read the file, and runs nothing of it.

        Raises:
            CheckError: a name that is none, or a file that cannot be read.
        """
        file = folder / f"{require_factory_name(kind).partition(':')[0]}.py"
        try:
            source = file.read_bytes()
        except OSError as error:
            raise CheckError("kind", f"a function in {file.name}", f"{kind!r}: {error.strerror}") from error
        frozen = tuple((name, _frozen(name, value)) for name, value in sorted(options.items()))
        return cls(kind, hashlib.sha256(source).hexdigest(), frozen, source)

    def build(self, *, inputs: int, classes: int | None) -> Model:
        """Run the file and calls the factory.

        Raises:
            CheckError: the code fails, or makes something else than a model.
        """
        factory = getattr(self._module(), self.kind.partition(":")[2], None)
        if not callable(factory):
            raise CheckError("kind", "a function of its module", repr(self.kind))
        made = self._call_user_code(lambda: factory(inputs=inputs, classes=classes, **dict(self.options)))
        if not isinstance(made, Model):
            raise CheckError("kind", "a factory of an epsilog.training.models.Model", f"one of a {type(made).__name__}")
        if made.classes != classes:
            raise CheckError("kind", f"a factory of a model of {classes} classes, as the data has", f"{made.classes}")
        facts = {**made.facts, **{name: _plain(value) for name, value in self.options}, "code_sha256": self.sha256}
        return dataclasses.replace(made, name=self.kind, facts=facts, shipped=False, inputs=inputs)

    def _module(self) -> ModuleType:
        name = f"epsilog_own_{self.sha256[:16]}"  # its own, and known to sys.modules as dataclasses need it
        module = sys.modules.get(name)
        if module is None:
            module = sys.modules[name] = ModuleType(name)
            try:
                self._call_user_code(lambda: exec(compile(self.source, self.kind, "exec"), module.__dict__))  # noqa: S102
            except BaseException:
                del sys.modules[name]
                raise
        return module

    def _call_user_code(self, run: Any) -> Any:
        try:
            return run()
        except CheckError as error:
            if error.field in OF_A_MODEL:
                raise
            raise CheckError(
                "kind", f"a factory of a model whose {error.field} {error.requirement}", error.value
            ) from error
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            raise CheckError("kind", "code that makes a model of inputs, classes and its options", reason) from error


def _frozen(name: str, value: Any) -> Any:
    """An option as it can be compared and printed."""
    if isinstance(value, list | tuple):
        return tuple(_frozen(name, one) for one in value)
    if not isinstance(value, bool | int | float | str) or (isinstance(value, float) and not math.isfinite(value)):
        raise CheckError(name, "text, finite numbers, or lists of them", repr(value))
    return value


def _plain(value: Any) -> Any:
    return list(map(_plain, value)) if isinstance(value, tuple) else value


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
    def read(cls, kind: Any, initial: Any, folder: Path) -> WarmStart:
        """Take an array, or reads an .npy file, or the .npz file of a released model; neither holds a pickle.

        Raises:
            CheckError: a file that cannot be read, or anything but finite real numbers, one after another.
        """
        found = _load_array(folder / initial) if isinstance(initial, str | Path) else np.asarray(initial)
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
