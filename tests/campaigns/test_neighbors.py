"""What is published of neighboring data sets is the same, byte for byte; and a leak that is planted is found."""

from dataclasses import replace

import pytest

pytest.importorskip("jax", reason="extra train")
pytest.importorskip("polars", reason="extra data")
from tests.campaigns import neighboring
from tests.campaigns.neighboring import ANSWERS, ONE_STEP, SCHEMES, pairs
from tests.campaigns.neighbors import CONTROLS, _files, compare

pytestmark = pytest.mark.slow
EVERY = {pair.name: pair for pair in pairs()}
UNUSABLE = EVERY["central: an unusable row"]


NOW = ("central: a cell that no reader expects", "answers: a cell that no reader expects")  # at each change


@pytest.mark.every(1)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in NOW else pytest.mark.extended) for name in EVERY]
)
def test_nothing_that_is_published_tells_neighbors_apart(tmp_path, name):
    compared, differing, private = compare(EVERY[name], tmp_path / "work")
    assert differing == []
    assert compared > 9
    assert private >= 1 or name.startswith(ANSWERS)  # so many files of the curator's differ: the pairs are no copies


def test_every_scheme_is_tried_with_each_kind_of_change():
    for scheme in SCHEMES.keys() - {ANSWERS, ONE_STEP}:
        changes = {pair.change for pair in EVERY.values() if pair.scheme == scheme}
        assert changes >= {"a bad cell", "a number that cannot be used", "a huge number", "an unusable row"}
    for scheme in ("central", "adaptive clip", "examples"):
        assert f"{scheme}: a client without a usable row" in EVERY
    assert len({pair.rows for pair in EVERY.values()}) > 5
    assert all(one != other for one, other in (pair.rows for pair in EVERY.values()))


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("leak", "where"),
    [
        ("a plain hash of private records", "the ledger's entries"),
        ("times of rounds", "ledger.bundle"),
        ("a count in a public record", "rounds.jsonl"),
        ("a count in a log", "run run.toml --runs runs --ledger ledger.db"),
    ],
)
def test_a_leak_is_found_where_it_shows(tmp_path, leak, where):
    _, differing, _ = compare(UNUSABLE, tmp_path / "work", leak=CONTROLS[leak])
    assert [name for name in differing if name.endswith(where)]


def test_data_that_move_the_model_are_told_apart_by_what_is_charged(tmp_path):
    """Without this, runs that compute nothing would look alike."""
    one, other = UNUSABLE.rows
    moved = tuple((*row[:4], "no" if row[4] == "yes" else "yes") for row in other)
    _, differing, _ = compare(replace(UNUSABLE, rows=(one, moved)), tmp_path / "work")
    assert [name for name in differing if name.endswith("model.npz")]


def test_a_run_that_ends_badly_is_no_pass(tmp_path, monkeypatch):
    monkeypatch.setattr(neighboring, "_CONFIG", "nothing")
    with pytest.raises(RuntimeError, match="central: an unusable row: exit code 2"):
        compare(UNUSABLE, tmp_path / "work")


def test_what_only_the_owner_may_read_is_kept_apart(tmp_path):
    runs = tmp_path / "runs"
    (runs / "run").mkdir(parents=True, mode=0o755)
    runs.chmod(0o755)
    for name, mode in (("rounds.jsonl", 0o644), ("custody.jsonl", 0o600)):
        (runs / "run" / name).write_text(name)
        (runs / "run" / name).chmod(mode)
    public, private = _files(runs)
    assert public[str(runs / "run" / "rounds.jsonl")] == b"rounds.jsonl".hex()
    assert dict(private) == {str(runs / "run" / "custody.jsonl"): b"custody.jsonl".hex()}
    assert not any("custody" in name for name in public)
