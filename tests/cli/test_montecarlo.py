"""`epsilog account montecarlo`: files in, numbers out, and what a reader is told about seeds and journals."""

import json
import math

import pytest
from typer.testing import CliRunner

from epsilog.accounting import montecarlo
from epsilog.cli.app import load
from epsilog.mechanisms import BallsInBins, Gaussian
from epsilog.numerics.pairs import AdjacencyType

application = load()

BINS = {"type": "balls-in-bins", "release": {"type": "gaussian", "noise_multiplier": 1.0}, "bins": 16}


def account(*words):
    return CliRunner().invoke(application, ["account", "montecarlo", *map(str, words)])


@pytest.fixture
def release(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(BINS))
    return path


@pytest.mark.parametrize("text", ["0\nInfinity\n", "[0.0, Infinity]", "0 1\ninf 1\n", "0, 7\ninf, 7\n"])
def test_losses_are_read_as_lists_lines_and_counts(tmp_path, text):
    path = tmp_path / "losses"
    path.write_text(text)
    done = account("delta-from-samples", path, "--epsilon", 1, "--json")
    assert json.loads(done.stdout)["delta_estimate"] == 0.5


@pytest.mark.parametrize("text", ["", "0 1\n2\n", "nan\n", "0 -1\n", "word\n", "[[1]]", "0 1 2\n"])
def test_what_is_no_list_of_losses_is_refused(tmp_path, text):
    path = tmp_path / "losses"
    path.write_text(text)
    done = account("delta-from-samples", path, "--epsilon", 1)
    assert isinstance(done.exception, ValueError)
    assert "must" in str(done.exception)


def test_losses_that_were_drawn_are_read_again(tmp_path, release):
    done = account("sample-losses", release, "--samples", 2000, "--seed", 3, "--direction", "add")
    (tmp_path / "losses").write_text(done.stdout)
    drawn = montecarlo.draw_losses(BallsInBins(Gaussian(1.0), 16), samples=2000, seed=3, direction=AdjacencyType.ADD)
    read = json.loads(account("delta-from-samples", tmp_path / "losses", "-e", 0.1, "--json").stdout)["delta_estimate"]
    assert read == montecarlo.delta_from_samples(epsilon=0.1, losses=drawn) > 0
    document = json.loads(account("sample-losses", release, "--samples", 5, "--json").stdout)
    again = account("sample-losses", release, "--samples", 5, "--seed", document["seed"], "--json").stdout
    assert json.loads(again) == document
    assert str(account("sample-losses", release, "--direction", "both").exception).startswith(
        "--direction must be one of"
    )


def test_a_journal_makes_a_claim_that_goes_on(tmp_path, release):
    words = ["bound-delta", release, "--epsilon", 1, "--samples", 20_000, "--journal", tmp_path / "journal", "--json"]
    first, second = (json.loads(account(*words).stdout) for _ in range(2))
    assert first == second
    assert first["simulation"] is False
    (tmp_path / "evidence.json").write_text(json.dumps(first))
    done = account("recompute", tmp_path / "evidence.json", "--shards", 1)
    assert done.exit_code == 0
    assert "agrees" in done.stdout
    assert "1 of 2 shards" in " ".join(done.stdout.split()) or "2 of 4 shards" in " ".join(done.stdout.split())
    assert "simulation" not in done.stdout.lower()
    assert "entropy, once; only" in " ".join(done.stdout.split())


def test_a_check_says_that_a_seed_was_chosen_and_that_an_interval_was_edited(tmp_path, release):
    path = tmp_path / "evidence.json"
    document = json.loads(
        account("bound-delta", release, "--epsilon", 1, "--samples", 2000, "--seed", 1, "--json").stdout
    )
    shown = " ".join(account("bound-delta", release, "-e", 1, "--samples", 2000, "--seed", 1).stdout.split())
    assert "Monte Carlo evidence (seeded: a simulation)" in shown
    assert "wrong with probability at most 1e-06" in shown
    path.write_text(json.dumps(document))
    done = account("recompute", path)
    assert done.exit_code == 0
    assert "chosen by hand: a simulation" in " ".join(done.stdout.split())
    document["interval"]["upper"] *= 0.9
    path.write_text(json.dumps(document))
    done = account("recompute", path)
    assert done.exit_code == 4
    assert "does not agree" in done.stdout
    assert json.loads(account("recompute", path, "--json").stdout)["findings"][0][:40] in " ".join(done.stdout.split())


@pytest.mark.slow
def test_a_published_plan_is_drawn_with_a_nonce_and_checked_against_both(tmp_path, release):
    plan, evidence, nonce = tmp_path / "plan.json", tmp_path / "evidence.json", "drand 19482411: 6fd1"
    goals = (
        ["bound-delta", release, "--epsilon", 1, "--samples", 2000],
        ["search-noise", release, "-e", 1, "-d", 1e-2, "--slack", 0.9],
    )
    for words in goals:
        for other in (["--seed", 1], ["--journal", tmp_path / "j"], ["-o", "-"]):
            assert isinstance(account(*words, "--commit", "-o", plan, *other).exception, ValueError)
            assert not plan.exists()
        commitment = json.loads(account(*words, "--commit", "-o", plan, "--json").stdout)["plan_hash"]
        again = account(*words, "--commit", "-o", plan)
        assert isinstance(again.exception, ValueError)  # what was published is not written over
        assert account("execute", plan, "--nonce", nonce, "-o", evidence).exit_code == 0
        done = account("recompute", evidence, "--plan-hash", commitment, "--nonce", nonce)
        assert done.exit_code == 0
        text = " ".join(done.stdout.split())
        assert "if the plan was published first, it is the only one" in text
        assert commitment in text
        assert "not compared with what" not in " ".join(text.split())
        assert "not compared with what" in account("recompute", evidence, "--nonce", nonce).stdout
        assert account("recompute", evidence, "--plan-hash", commitment, "--nonce", "another 19482411").exit_code == 4
        done = account("recompute", evidence, "--plan-hash", "0" * 64, "--nonce", nonce, "--json")
        assert (done.exit_code, json.loads(done.stdout)["agrees"]) == (4, False)
        plan.unlink()
        evidence.unlink()


def test_a_check_of_no_shards_or_of_loose_json_is_refused(tmp_path, release):
    path = tmp_path / "evidence.json"
    account("bound-delta", release, "--epsilon", 1, "--samples", 2000, "--seed", 1, "-o", path)
    assert account("recompute", path, "--shards", 0).exit_code == 2
    text = path.read_text()
    for other in (text.replace("{", '{"v": 0,', 1), text.replace('"failure": 1e-06', '"failure": NaN'), text[:-9]):
        path.write_text(other)
        assert isinstance(account("recompute", path).exception, ValueError)


def test_evidence_with_batches_that_are_cut(tmp_path, release):
    words = ["bound-delta", release, "--epsilon", 1, "--samples", 2000, "--seed", 1, "--json"]
    plain = json.loads(account(*words).stdout)
    cut = [*words, "-N", 1600, "--max-batch-size"]
    found = json.loads(account(*cut, 200, "-o", tmp_path / "e.json").stdout)
    assert found["evidence"] == plain == json.loads((tmp_path / "e.json").read_text())
    assert found["truncated"]["term"]["upper"] >= plain["interval"]["upper"]
    assert json.loads(account(*cut, 110).stdout)["truncated"]["term"]["upper"] == 1.0
    text = " ".join(account(*cut[:-4], "-N", 1600, "--max-batch-size", 200).stdout.split())
    assert "With batches truncated to 200" in text
    assert "the population is at most 1600" in text
    for wrong in (["-N", 1600], ["--max-batch-size", 9], ["-N", 0, "--max-batch-size", 9]):
        refused = account(*words, *wrong, "--journal", tmp_path / "none").exception
        assert isinstance(refused, ValueError)
        assert not (tmp_path / "none").exists()
    refused = account("bound-delta", release, "--epsilon", 1, *cut[-3:], 9, "--commit", "-o", tmp_path / "p").exception
    assert "must stand without" in str(refused)


@pytest.mark.parametrize("kept", [False, True])
def test_stopping_says_whether_anything_was_kept_and_no_more(monkeypatch, release, tmp_path, capsys, kept):
    from epsilog.accounting.montecarlo import run
    from epsilog.cli import app as entry

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "count_hits", stop)
    words = ["bound-delta", release, "--epsilon", 1, "--samples", 2000]
    words += ["--journal", tmp_path / "j"] if kept else []
    monkeypatch.setattr("sys.argv", ["epsilog", "account", "montecarlo", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        entry.main()
    assert end.value.code == 130
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said == "epsilog: stopped; " + (
        "run the same command again to resume" if kept else "nothing was kept; a run with --journal can be resumed"
    )


@pytest.mark.slow
def test_a_comparison_as_json():
    done = account("compare", "-T", 32, "-b", 8, "--epsilon", 2, "--delta", 1e-5, "--bands", 4, "--json")
    document = json.loads(done.stdout)
    assert [row["certified"] for row in document["rows"]] == [
        "correlated" not in row["name"] for row in document["rows"]
    ]
    assert all(math.isfinite(row["error"]) for row in document["rows"])


def test_evidence_is_not_overwritten_and_goes_to_standard_output_for_a_hyphen(tmp_path, release, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["bound-delta", release, "--epsilon", 1, "--samples", 2000, "--seed", 1, "-o"]
    printed = account(*words, "-").stdout
    assert account(*words, "evidence.json").exit_code == 0
    kept = (tmp_path / "evidence.json").read_text()
    assert json.loads(printed) == json.loads(kept)
    assert "--output must be a new file" in str(account(*words, "evidence.json").exception)
    assert (tmp_path / "evidence.json").read_text() == kept
    assert not (tmp_path / "-").exists()
