"""The file of a released model: what it holds, and what is no such file."""

import io
import struct
import zipfile
import zlib

import numpy as np
import pytest

from epsilog import npz
from epsilog.training.rounds import hash_model

ARRAYS = {"w.0": np.arange(6.0).reshape(2, 3), "w.1": np.array(-1.5), "b": np.zeros(0), "c": np.array([np.inf, -0.0])}


def zipped(method=zipfile.ZIP_STORED, **files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as packed:
        for name, content in files.items():
            packed.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def test_arrays_come_back_in_their_order_and_numpy_reads_them_too():
    content = npz.encode_npz(ARRAYS)
    assert content == npz.encode_npz(ARRAYS)
    found = npz.decode_npz(content)
    assert list(found) == list(ARRAYS)
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        for name, array in ARRAYS.items():
            assert found[name].tobytes() == array.tobytes() == stored[name].tobytes()
            assert found[name].shape == array.shape == stored[name].shape
    assert npz.hash_arrays(found) == hash_model(npz.concatenate_arrays(found))


def test_what_numpy_wrote_is_read():
    buffer = io.BytesIO()
    np.savez(buffer, a=np.ones((2, 2)), b=np.zeros(3))
    assert npz.concatenate_arrays(npz.decode_npz(buffer.getvalue())).tolist() == [1, 1, 1, 1, 0, 0, 0]


LYING = npy(np.zeros(2)).replace(b"(2,), }", b"(9**9,)")
HUGE = npy(np.zeros(2)).replace(b"(2,), }           ", b"(99999999999,), } ")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK",
        npy(np.zeros(2)),
        zipped(),
        zipped(zipfile.ZIP_DEFLATED, a=npy(np.zeros(1000))),
        zipped(a=npy(np.zeros(2, dtype="f4"))),
        zipped(a=npy(np.zeros(2, dtype=">f8"))),
        zipped(a=npy(np.asfortranarray(np.zeros((2, 2))))),
        zipped(a=npy(np.array([{}]))),
        zipped(a=npy(np.zeros(2))[:-1]),
        zipped(a=npy(np.zeros(2)) + b"0"),
        zipped(a=LYING),
        zipped(a=HUGE),
        zipped(a=b"nothing"),
        npz.encode_npz(ARRAYS)[:-30],
    ],
)
def test_anything_else_is_refused(content):
    with pytest.raises(ValueError, match=r".+"):
        npz.decode_npz(content)


@pytest.mark.parametrize("names", [("a", "a.npy"), ("a.npy", "a"), ("a.npy", "a.npy.npy"), ("a.npy", "b"), ("a.NPY",)])
def test_names_that_numpy_would_read_otherwise_are_refused(names):
    """NumPy asks for a name as it stands before it adds .npy: what is hashed must be what it finds."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for number, name in enumerate(names):
            packed.writestr(name, npy(np.array([float(number)])))
    with pytest.raises(ValueError, match=r"does not end in \.npy once"):
        npz.decode_npz(buffer.getvalue())


def test_entries_that_share_their_bytes_are_refused():
    """Each entry's body holds the entries after it: a few kilobytes would become many arrays of nearly as many."""
    tail, entries = bytes(512), []
    for number in reversed(range(20)):
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (len(tail) // 8,)})
        name, body = f"{number:06d}.npy".encode(), head.getvalue() + tail
        facts = (zlib.crc32(body), len(body), len(body), len(name))
        local = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 33, *facts, 0) + name
        tail = local + body
        entries.append((name, facts, len(tail)))
    listed = b"".join(
        struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 0, 0, 33, *facts, 0, 0, 0, 0, 0, len(tail) - from_end) + name
        for name, facts, from_end in entries
    )
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, len(entries), len(entries), len(listed), len(tail), 0)
    content = tail + listed + end
    assert len(zipfile.ZipFile(io.BytesIO(content)).infolist()) == 20
    with pytest.raises(ValueError, match="its entries overlap"):
        npz.decode_npz(content)


def test_one_name_twice_is_refused():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed, pytest.warns(UserWarning, match="Duplicate"):
        [packed.writestr("a.npy", npy(np.array([number]))) for number in (1.0, 2.0)]
    with pytest.raises(ValueError, match="twice"):
        npz.decode_npz(buffer.getvalue())
