"""The file of a released model: what it holds, and what is no such file."""

import io
import zipfile

import numpy as np
import pytest

from epsilog import npz
from epsilog.train.rounds import output_hash

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
    content = npz.written(ARRAYS)
    assert content == npz.written(ARRAYS)
    found = npz.read(content)
    assert list(found) == list(ARRAYS)
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        for name, array in ARRAYS.items():
            assert found[name].tobytes() == array.tobytes() == stored[name].tobytes()
            assert found[name].shape == array.shape == stored[name].shape
    assert npz.digest(found) == output_hash(npz.as_vector(found))


def test_what_numpy_wrote_is_read():
    buffer = io.BytesIO()
    np.savez(buffer, a=np.ones((2, 2)), b=np.zeros(3))
    assert npz.as_vector(npz.read(buffer.getvalue())).tolist() == [1, 1, 1, 1, 0, 0, 0]


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
        npz.written(ARRAYS)[:-30],
    ],
)
def test_anything_else_is_refused(content):
    with pytest.raises(ValueError, match=r".+"):
        npz.read(content)


def test_one_name_twice_is_refused():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed, pytest.warns(UserWarning, match="Duplicate"):
        [packed.writestr("a.npy", npy(np.array([number]))) for number in (1.0, 2.0)]
    with pytest.raises(ValueError, match="twice"):
        npz.read(buffer.getvalue())
