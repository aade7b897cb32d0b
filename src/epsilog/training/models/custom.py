"""A custom model from a Python file (``module:factory``), and public starting parameters.

The file is read once. Its SHA-256 is a public fact of the model, and exactly the hashed bytes are run. The folder of
the file is not on the import path: the file can import installed packages, but no neighboring file without a hash.

Parameters of a warm start must come from public data. Parameters trained on private data are another release, which
this run does not charge. The report states their hash, and that the owner declares them public.
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

OF_A_MODEL = {each.name for each in dataclasses.fields(Model)} - {"classes"}  # the data state classes, too
NAMED = re.compile(r"[A-Za-z_]\w*:[A-Za-z_]\w*", re.ASCII)


def is_custom(kind: str) -> bool:
    """Return whether a kind names a factory instead of a built-in kind."""
    return ":" in kind


def require_factory_name(kind: str) -> str:
    """Return a kind that names a module and its factory; refuse any other."""
    if not NAMED.fullmatch(kind):
        raise CheckError("kind", "module:factory, a Python file's name without .py and a function in it", repr(kind))
    return kind


@dataclass(frozen=True, slots=True)
class CustomModel:
    """A kind of model from a file of the user."""

    kind: str
    sha256: str
    options: tuple[tuple[str, Any], ...]
    source: bytes = field(repr=False)

    @classmethod
    def read(cls, kind: str, folder: Path, options: dict[str, Any]) -> CustomModel:
        """Read the file without running it."""
        file = folder / f"{require_factory_name(kind).partition(':')[0]}.py"
        try:
            source = file.read_bytes()
        except OSError as error:
            raise CheckError("kind", f"a function in {file.name}", f"{kind!r}: {error.strerror}") from error
        frozen = tuple((name, _frozen(name, value)) for name, value in sorted(options.items()))
        return cls(kind, hashlib.sha256(source).hexdigest(), frozen, source)

    def build(self, *, inputs: int, classes: int | None) -> Model:
        """Run the file and return the model of its factory."""
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
        name = f"epsilog_own_{self.sha256[:16]}"  # unique, and in sys.modules, which dataclasses require
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
                "kind", f"a factory of a valid model: {error.field} {error.requirement}", error.value
            ) from error
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            raise CheckError("kind", "code that makes a model of inputs, classes and its options", reason) from error


def _frozen(name: str, value: Any) -> Any:
    """Return an option in a form that can be compared and printed."""
    if isinstance(value, list | tuple):
        return tuple(_frozen(name, one) for one in value)
    if not isinstance(value, bool | int | float | str) or (isinstance(value, float) and not math.isfinite(value)):
        raise CheckError(name, "text, finite numbers, or lists of them", repr(value))
    return value


def _plain(value: Any) -> Any:
    return list(map(_plain, value)) if isinstance(value, tuple) else value


DECLARED = "declared public by the owner: not trained on private data, or charged elsewhere"


@dataclass(frozen=True, slots=True)
class WarmStart:
    """A kind of model with given starting parameters."""

    kind: Any
    sha256: str
    vector: NDArray[np.float64] = field(repr=False, compare=False)

    @classmethod
    def read(cls, kind: Any, warm_start: Any, folder: Path) -> WarmStart:
        """Return a warm start from an array, an .npy file or the .npz file of a released model, never from a pickle."""
        found = _load_array(folder / warm_start) if isinstance(warm_start, str | Path) else np.asarray(warm_start)
        if found.dtype.kind != "f" or found.ndim != 1:
            raise CheckError("warm_start", "finite real numbers of shape (d,)", f"{found.dtype} {found.shape}")
        if not np.isfinite(found).all():
            first = int(np.flatnonzero(~np.isfinite(found))[0])
            raise CheckError("warm_start", "finite real numbers of shape (d,)", f"{found[first]} at place {first}")
        vector = found.astype("<f8")
        return cls(kind, hashlib.sha256(vector.tobytes()).hexdigest(), vector)

    def build(self, *, inputs: int, classes: int | None) -> Model:
        """Return the model, as ``ModelKind`` specifies."""
        model: Model = self.kind.build(inputs=inputs, classes=classes)
        if self.vector.size != model.size:
            raise CheckError("warm_start", f"the model's {model.size} parameters", f"{self.vector.size}", verb="hold")
        fact = {"sha256": self.sha256, "data": DECLARED}
        return dataclasses.replace(
            model, init=lambda: model.unflatten(self.vector), facts={**model.facts, "warm_start": fact}
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
        raise CheckError("warm_start", wanted, f"{file.name}: {reason}") from error
