"""What is published of neighboring data sets is the same, byte for byte; and a leak that is planted is found."""

from dataclasses import replace

import pytest

pytest.importorskip("jax", reason="extra train")
pytest.importorskip("polars", reason="extra data")
from epsilog.cli import neighboring
from epsilog.cli.neighboring import ANSWERS, ONE_STEP, SCHEMES, pairs
from epsilog.cli.neighbors import CONTROLS, NeighborReport, _files, compare, neighbor_campaign

pytestmark = pytest.mark.slow
EVERY = {pair.name: pair for pair in pairs()}
UNUSABLE = EVERY["central: an unusable row"]


@pytest.mark.extended
def test_nothing_that_is_published_tells_neighbors_apart_and_planted_leaks_are_found(tmp_path):
    """All pairs, as `epsilog selftest --neighbors` runs them, in a process of its own."""
    found = neighbor_campaign(tmp_path)
    assert found.differing == ()
    assert found.passed
    assert (found.pairs, found.controls, found.caught) == (len(EVERY), len(CONTROLS), len(CONTROLS))
    assert found.compared > 20 * found.pairs
    assert found.private > found.pairs  # so many files of the curator's differ: the pairs are no copies


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("central: a client without a usable row", marks=pytest.mark.extended),
        "central: a cell that no reader expects",
        pytest.param("one step: an update twice as long, clipped", marks=pytest.mark.extended),
        pytest.param("client-side: a huge number", marks=pytest.mark.extended),
        pytest.param("examples: an unusable row", marks=pytest.mark.extended),
        pytest.param("central with counts: a huge number", marks=pytest.mark.extended),
        "answers: a cell that no reader expects",
    ],
)
@pytest.mark.every(1)
def test_neighbors_look_alike(tmp_path, name):
    compared, differing, _ = compare(EVERY[name], tmp_path / "work")
    assert compared > 9
    assert differing == []


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


@pytest.mark.parametrize(
    "changed",
    [
        {"differing": (("central: a bad cell", "report.json"),)},
        {"pairs": 0},
        {"private": 0},
        {"caught": 3},
        {"controls": 0, "caught": 0},
    ],
)
def test_a_campaign_that_found_or_tried_too_little_does_not_pass(changed):
    good = NeighborReport(pairs=9, compared=99, differing=(), private=9, controls=4, caught=4)
    assert good.passed
    assert not replace(good, **changed).passed


def test_a_campaign_that_breaks_off_says_why(tmp_path):
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "0").mkdir()
    with pytest.raises(RuntimeError, match=r"(?s)ended with 1: .*FileExistsError"):
        neighbor_campaign(tmp_path)


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
