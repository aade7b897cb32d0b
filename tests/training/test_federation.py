"""Clients' rows lie one client after another, however they came in."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from epsilog.training import Federation, federation

SIZES = st.lists(st.integers(0, 5), min_size=1, max_size=8).filter(any)


def numbered(sizes):
    """Clients whose features say whose they are and which row it is."""
    features = [np.array([[client, row] for row in range(size)]).reshape(-1, 2) for client, size in enumerate(sizes)]
    targets = [10 * part[:, 0] + part[:, 1] for part in features]
    return features, targets


@pytest.mark.slow
@given(SIZES)
def test_every_client_has_its_own_rows_in_their_order(sizes):
    features, targets = numbered(sizes)
    ours = Federation.from_arrays(features, targets)
    assert ours.count == len(sizes)
    for client in range(len(sizes)):
        assert np.array_equal(ours.features[ours.rows_of(client)], features[client])
        assert np.array_equal(ours.targets[ours.rows_of(client)], targets[client])


@pytest.mark.slow
@given(SIZES, st.randoms(use_true_random=False))
def test_rows_in_any_order_make_the_same_clients(sizes, random):
    features, targets = (np.concatenate(parts) for parts in numbered(sizes))
    order = list(range(len(targets)))
    random.shuffle(order)
    names = np.array([f"client {client:03d}" for client in range(len(sizes))])
    ours = Federation.from_rows(
        names[features[order, 0].astype(int)], features[order].astype(float), targets[order], clients=names
    )
    assert ours.sizes.tolist() == sizes
    for client in range(len(sizes)):
        shuffled = [row for row in order if features[row, 0] == client]
        assert np.array_equal(ours.targets[ours.rows_of(client)], targets[shuffled])


def test_clients_that_are_not_named_are_those_that_have_rows():
    ours = Federation.from_rows([7, 2, 7], np.eye(3), [1, 2, 3])
    assert (ours.sizes.tolist(), ours.targets.tolist()) == ([1, 2], [2, 1, 3])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Federation.from_arrays([], []), "features must hold an array for each client, at least one, got none"),
        (
            lambda: Federation.from_arrays([np.array([["Ann"]])], [[1]]),
            r"features\[0\] must be an array of real numbers",
        ),
        (lambda: Federation.from_arrays([np.array([["Ann"]], object)], [[1]]), r"numbers, got an array of object$"),
        (
            lambda: Federation.from_arrays([[[1.0]], [[1j]]], [[1], [1]]),
            r"features\[1\] .* got an array of complex128$",
        ),
        (
            lambda: Federation.from_arrays([[[1.0], [2.0, 3.0]]], [[1, 2]]),
            r"features\[0\] must be an array, got a list",
        ),
        (lambda: Federation.from_arrays([np.eye(2)], [[[1], [2, 3]]]), r"targets\[0\] must be an array, got a list"),
        (
            lambda: Federation.from_arrays([np.ones(3)], [[1, 2, 3]]),
            r"features\[0\] must have shape \(n, f\), got \(3,\)",
        ),
        (
            lambda: Federation.from_rows(["Ann", None], np.eye(2), [1, 2]),
            "client must be an array of text or of whole num",
        ),
        (
            lambda: Federation.from_table({"a": [1]}, client="a", features={"b": "0-9"}, target="c"),
            "features.b must be a",
        ),
        (lambda: Federation.from_arrays([np.eye(2)], []), "targets must hold 1 arrays, one per client, got 0"),
        (lambda: Federation.from_arrays([np.eye(2)], [[1]]), r"targets\[0\] must have shape \(2,\), got \(1,\)"),
        (lambda: Federation.from_arrays([np.eye(2), np.eye(3)], [[1, 2], [1, 2, 3]]), r"features\[0\] must have shape"),
        (lambda: Federation.from_arrays([[1.0]], [[1]]), r"features\[0\] must have shape"),
        (lambda: Federation.from_arrays([np.eye(2)], [[1, 2]], dtype="int8"), "dtype must be one of float32, float64"),
        (lambda: Federation.from_rows([1], np.eye(2), [1, 2]), r"client must have shape \(2,\), got \(1,\)"),
        (
            lambda: Federation.from_rows([1, 3], np.eye(2), [1, 2], clients=[1, 2]),
            "client must be a name in clients for each row",
        ),
        (lambda: Federation.from_rows([1, 1], np.eye(2), [1]), "targets must have shape"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(make, says):
    with pytest.raises(ValueError, match=says) as told:
        make()
    assert "Ann" not in str(told.value)  # an error may be seen by more people than the rows are


def test_a_table_on_disk_is_read_where_it_lies(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(1).standard_normal((600, 3)))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    ours = Federation(mapped, np.zeros(600), np.full(100, 6))
    assert isinstance(ours.features, np.memmap)
    assert not ours.features.flags.writeable


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_going_through_a_file_in_memory_changes_nothing_of_it(tmp_path, monkeypatch, mode):
    monkeypatch.setattr(federation, "BLOCK", 64)
    rows = np.random.default_rng(1).standard_normal((600, 3))
    np.save(tmp_path / "x.npy", rows)
    mapped = np.load(tmp_path / "x.npy", mmap_mode=mode)
    if mode == "c":
        mapped[5] = rows[5] = 7
    parts = [np.array(mapped[block]) for block in federation.iterate_blocks(mapped)]
    assert len(parts) == 29
    assert np.array_equal(np.concatenate(parts), rows)
    assert np.array_equal(mapped, rows)
