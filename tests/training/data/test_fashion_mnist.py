"""Fashion-MNIST is read where its package lies, pinned by hash, and dealt out by a public permutation."""

import gzip
import json

import numpy as np
import pytest

from epsilog.terms import ConfigError
from epsilog.training import load_dataset
from epsilog.training.data import fashion_mnist, get_default_cache

FOLDER, CACHE = fashion_mnist.FOLDER, get_default_cache()
there = FOLDER.is_dir() or (CACHE / FOLDER.name).is_dir()
here = pytest.mark.skipif(not there, reason="scripts/demo-data fashion-mnist")


@here
@pytest.mark.slow
def test_every_picture_is_dealt_to_one_client():
    found = load_dataset("fashion-mnist", unit="client")
    assert (found.units, found.classes, found.inputs) == (2400, 10, 784)
    assert found.clients.sizes.tolist() == [25] * 2400
    assert np.bincount(found.clients.targets).tolist() == [6000] * 10
    assert np.bincount(found.test.targets).tolist() == [1000] * 10
    assert (found.clients.features.min(), found.clients.features.max()) == (0, 1)
    first = fashion_mnist._read_pinned_file("train-images-idx3-ubyte", CACHE)
    ours = (found.clients.features * 255).round().astype(np.uint8)
    assert np.array_equal(np.sort(ours.sum(axis=1)), np.sort(first.reshape(60_000, -1).sum(axis=1)))
    assert len(found.clients.targets) == 60_000
    json.dumps(found.facts)


def test_a_missing_package_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(fashion_mnist, "FOLDER", tmp_path)
    with pytest.raises(ConfigError, match="cannot be read; install it with: apt-get install dataset-fashion-mnist"):
        load_dataset("fashion-mnist", unit="client", cache=tmp_path / "cache")
    with pytest.raises(ValueError, match="privacy_unit must be one of client, picture, got 'person'"):
        load_dataset("fashion-mnist", unit="person")


def test_another_file_is_refused(monkeypatch, tmp_path):
    """In the cache too, which goes before the system's folder."""
    for folder, cache in ((tmp_path / "system", tmp_path / "none"), (tmp_path / "fashion-mnist", tmp_path)):
        monkeypatch.setattr(fashion_mnist, "FOLDER", tmp_path / "system" if cache != tmp_path else FOLDER)
        folder.mkdir()
        (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\1\7"))
        with pytest.raises(ConfigError, match=r"train-images-idx3-ubyte\.gz: SHA-256 must be .*, got"):
            load_dataset("fashion-mnist", unit="client", cache=cache)
