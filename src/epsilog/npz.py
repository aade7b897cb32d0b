"""A released model's file: arrays of doubles by name, in the order in which they make up the parameter vector."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[np.float64]]


def encode_npz(arrays: Arrays) -> bytes:
    """An NPZ file; the same arrays give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as packed:
        for name, array in arrays.items():
            with packed.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array, dtype="<f8", order="C"), allow_pickle=False)
    return buffer.getvalue()


def decode_npz(content: bytes) -> dict[str, NDArray[np.float64]]:
    """The arrays of an NPZ file, which take no more memory than the file.

    Raises:
        ValueError: no NPZ file, a compressed one, a name twice or of two meanings, or anything else than doubles.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            entries = packed.infolist()
            if any(each.compress_type != zipfile.ZIP_STORED for each in entries):
                raise ValueError("it is compressed")
            if sum(each.file_size for each in entries) > len(content):
                raise ValueError("its entries overlap")
            names = [_name(each.filename) for each in entries]
            if len(set(names)) != len(names):
                raise ValueError("a name stands there twice")
            arrays = {name: _array(packed.read(each)) for each, name in zip(entries, names, strict=True)}
    except ValueError:
        raise
    except Exception as error:  # zipfile raises many kinds
        raise ValueError(f"{error}" or type(error).__name__) from error
    if not arrays:
        raise ValueError("it holds no array")
    return arrays


def _name(stored: str) -> str:
    """An array's name. NumPy asks for a name as it stands before it adds .npy, and must find what we find."""
    name = stored.removesuffix(".npy")
    if stored != f"{name}.npy" or name.endswith(".npy"):
        raise ValueError("a name does not end in .npy once: other readers may take it for another's")
    return name


def _array(content: bytes) -> NDArray[np.float64]:
    """One array; a head that promises more numbers than follow is refused before room is made for them."""
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("an array is of another version of the format")
    shape, by_columns, kind = np.lib.format.read_array_header_1_0(file)
    body = content[file.tell() :]
    if kind != np.dtype("<f8") or by_columns:
        raise ValueError(f"an array holds {kind}, and must hold doubles, row by row")
    if len(body) != 8 * int(np.prod(shape, dtype=object)):
        raise ValueError("an array is not whole")
    return np.frombuffer(body, dtype="<f8").reshape(shape)


def concatenate_arrays(arrays: Arrays) -> NDArray[np.float64]:
    """All arrays, one after another; shape (d,)."""
    return np.concatenate([np.reshape(each, -1) for each in arrays.values()], dtype=np.float64)


def hash_arrays(arrays: Arrays) -> str:
    """SHA-256 of all numbers as little-endian doubles, 64 hex digits: the hash of a round that a ledger holds."""
    return hashlib.sha256(concatenate_arrays(arrays).astype("<f8").tobytes()).hexdigest()
