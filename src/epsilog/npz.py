"""Read and write the file of a released model: arrays of doubles by name, in the order of the parameter vector."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[np.float64]]


def encode_npz(arrays: Arrays) -> bytes:
    """Encode arrays as an NPZ file; the same arrays give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as packed:
        for name, array in arrays.items():
            with packed.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array, dtype="<f8", order="C"), allow_pickle=False)
    return buffer.getvalue()


def decode_npz(content: bytes) -> dict[str, NDArray[np.float64]]:
    """Decode an NPZ file with no more memory than its size.

    Raises:
        ValueError: the file is no NPZ file or compressed, has duplicate or ambiguous names, or not only doubles.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            entries = packed.infolist()
            if any(each.compress_type != zipfile.ZIP_STORED for each in entries):
                raise ValueError("it is compressed")
            if sum(each.file_size for each in entries) > len(content):
                raise ValueError("its entries overlap")
            names = [_parse_name(each.filename) for each in entries]
            if len(set(names)) != len(names):
                raise ValueError("a name occurs twice")
            arrays = {name: _parse_array(packed.read(each)) for each, name in zip(entries, names, strict=True)}
    except ValueError:
        raise
    except Exception as error:  # zipfile raises many types
        raise ValueError(f"{error}" or type(error).__name__) from error
    if not arrays:
        raise ValueError("it holds no array")
    return arrays


def _parse_name(stored: str) -> str:
    """Return the name of an array; refuse one that NumPy would resolve to another entry."""
    name = stored.removesuffix(".npy")
    if stored != f"{name}.npy" or name.endswith(".npy"):
        raise ValueError("a name does not end in .npy once: other readers may take it for another's")
    return name


def _parse_array(content: bytes) -> NDArray[np.float64]:
    """Return one array; check the size in its header before allocating memory."""
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
    """Concatenate all arrays; shape (d,)."""
    return np.concatenate([np.reshape(each, -1) for each in arrays.values()], dtype=np.float64)


def hash_arrays(arrays: Arrays) -> str:
    """Return the SHA-256 of all numbers as little-endian doubles, 64 hex digits, as a ledger stores it for a round."""
    return hashlib.sha256(concatenate_arrays(arrays).astype("<f8").tobytes()).hexdigest()
