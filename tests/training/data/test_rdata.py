"""Frames out of a package of pickles: a conversion that fails, and one that is kept whole and not made twice."""

import hashlib
import io
from types import SimpleNamespace

import numpy as np
import pytest

from epsilog.terms import ConfigError
from epsilog.training.data import chem97 as rdata

COLUMNS = {"a": np.arange(4.0), "b": np.array([1.0, 0.0, 1.0, 1.0])}


@pytest.fixture
def package(monkeypatch, tmp_path):
    """A package with one file in it."""
    (tmp_path / "package/_data/set").mkdir(parents=True)
    (tmp_path / "package/_data/set/frame.pkl").write_bytes(b"a pickle")
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path / "package")])
    monkeypatch.setattr(rdata.importlib.util, "find_spec", lambda _: found)


def frame(digest="0" * 64, **columns):
    return rdata.RDataFrame("one", "set/frame.pkl", hashlib.sha256(b"a pickle").hexdigest(), columns, digest)


def test_a_conversion_that_fails_says_its_last_line(package, monkeypatch, tmp_path):
    for code, says in (
        ("import sys; sys.stderr.write('one\\ntwo\\nthe reason\\n'); sys.exit(3)", "failed: the reason$"),
        ("import sys; sys.exit(3)", "failed: $"),
    ):
        monkeypatch.setattr(rdata, "CONVERT", code)
        with pytest.raises(ConfigError, match=f"one: data: the conversion {says}"):
            frame().read(tmp_path / "cache")
    assert list((tmp_path / "cache").glob("*.npz")) == []


def test_what_the_conversion_is_told_and_given(package, monkeypatch):
    monkeypatch.setattr(rdata, "CONVERT", "import sys; print(sys.stdin.read(), sys.argv[1], end='')")
    assert (
        frame(a=("A", None), b=("B", "yes"))._convert_in_process() == b'a pickle {"a": ["A", null], "b": ["B", "yes"]}'
    )


def test_a_converted_file_is_kept_whole_and_not_made_twice(monkeypatch, tmp_path):
    buffer = io.BytesIO()
    np.savez(buffer, **COLUMNS)
    digest = hashlib.sha256(b"".join(each.tobytes() for each in COLUMNS.values())).hexdigest()
    asked = []
    monkeypatch.setattr(
        rdata.RDataFrame, "_convert_in_process", lambda self: asked.append(self.name) or buffer.getvalue()
    )
    cache = tmp_path / "a" / "b"
    for _ in range(2):
        found = frame(digest, a=("A", None), b=("B", "yes")).read(cache)
        assert list(found) == list(COLUMNS)
        assert all(np.array_equal(found[name], COLUMNS[name]) for name in COLUMNS)
    assert asked == ["one"]
    assert [path.name for path in cache.iterdir()] == [f"one-{digest[:16]}.npz"]
    with pytest.raises(ConfigError, match="SHA-256 must be 0000"):
        frame(a=("A", None), b=("B", "yes")).read(cache)


def test_units_are_held_out_whole_and_by_their_number_alone():
    numbers = np.repeat([5, 9, 2, 7], [3, 1, 4, 2])
    for count in (0, 1, 3, 4):
        found = rdata.mark_held_out(numbers, count, "a set")
        whole = [number for number in (2, 5, 7, 9) if found[numbers == number].all()]
        assert len(whole) == count
        assert np.array_equal(found, np.isin(numbers, whole))
    assert any(
        not np.array_equal(rdata.mark_held_out(numbers, 2, "a set"), rdata.mark_held_out(numbers, 2, f"set {other}"))
        for other in range(8)
    )
