"""A study's file is read in full before anything runs; from the command line it ends in a table."""

import json
import re
from pathlib import Path

import pytest
from tests.commands import run

from epsilog.study import load_study, read_tables, run_study
from epsilog.terms import ConfigError
from epsilog.training.data import fashion_mnist, get_default_cache

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORT = [("rounds = 60", "rounds = 2"), ("rounds_per_release = 60", "rounds_per_release = 2")]


@pytest.fixture(name="write")
def _write(tmp_path):
    """Writes a study of one short run config, with some text replaced; returns its path."""
    config = (EXAMPLES / "central.toml").read_text()
    for old, new in SHORT:
        assert old in config
        config = config.replace(old, new)
    (tmp_path / "one.toml").write_text(config)

    def write(*changes):
        text = 'name = "trial"\nconfigs = ["one.toml"]\nbudgets = [2]\nseeds = [1]\n'
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "study.toml"
        path.write_text(f"[study]\n{text}")
        return path

    return write


@pytest.mark.slow
def test_the_example_compares_four_schemes():
    whole = load_study(EXAMPLES / "studies" / "schools.toml")
    assert len({type(one.scheme_for(1.0)) for one in whole.subjects}) == len(whole.subjects) == 4
    assert len(whole.hash) == 64


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('name = "trial"', 'name = "Trial"'), "study.name"),
        (("budgets = [2]", "budgets = [-2]"), "budgets"),
        (("seeds = [1]", "seeds = [1, 1]"), "seeds must name some, each once"),
        (("seeds = [1]", "seed = 1"), "study.seed"),
        (('["one.toml"]', '["two.toml"]'), "cannot be read"),
        (('["one.toml"]', '["one.toml", "one.toml"]'), "subjects must be a list of subjects with distinct names"),
        (("seeds = [1]", "seeds = [1"), "is not TOML"),
        (
            ("seeds = [1]\n", "seeds = [1]\n[[backdoor]]\nattackers = 1\nfeatures = []\nvalue = 1\ntarget = 0"),
            "backdoor[0].features",
        ),
        (
            ("seeds = [1]\n", "seeds = [1]\n[membership]\nshadows = 2"),
            "membership.shadows must be 0 or at least 4, got 2",
        ),
    ],
)
def test_a_mistake_is_named(write, change, says):
    with pytest.raises(ConfigError) as caught:
        load_study(write(change))
    assert says in str(caught.value)


def test_a_study_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_study(tmp_path / "none.toml")


@pytest.mark.slow
def test_a_real_budget_takes_no_part_in_a_study(write, tmp_path):
    text = (tmp_path / "one.toml") if write() else None
    kept = [line for line in text.read_text().splitlines() if not line.startswith(("seed", "comparison_"))]
    text.write_text("\n".join(kept).replace("simulation = true", "simulation = false"))
    with pytest.raises(ConfigError, match="must be true in a study"):
        load_study(tmp_path / "study.toml")


@pytest.mark.slow
def test_the_command_prints_a_table_and_the_second_time_only_reads(write, tmp_path):
    path = write()
    first = run("study", path, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "exam-scores-central, epsilon 2: seed 1 of 1" in first.stdout
    assert "All numbers are medians of 1 seeded runs" in " ".join(first.stdout.split())
    again = run("study", path, "--json", cwd=tmp_path)
    document = json.loads(again.stdout)
    assert [one["epsilon"] for one in document["conditions"]] == [None, 2.0]
    assert document["kind"] == "study"
    assert len(list((tmp_path / "runs").glob("study-trial-*/study.json"))) == 1


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.skipif(
    not any(folder.is_dir() for folder in (fashion_mnist.FOLDER, get_default_cache() / fashion_mnist.FOLDER.name)),
    reason="scripts/demo-data fashion-mnist",
)
def test_the_study_of_clothes_runs_in_short(tmp_path):
    """Six rounds of one scheme at one budget, with every attack but the shadow models."""
    folder = EXAMPLES / "studies"
    (tmp_path / "fashion").mkdir()
    for file in (folder / "fashion").glob("*.toml"):
        (tmp_path / "fashion" / file.name).write_text(re.sub("(rounds|per_release) = 40", r"\1 = 6", file.read_text()))
    text = (folder / "fashion.toml").read_text()
    for old, new in (
        (', "fashion/central-100.toml", "fashion/client-30.toml", "fashion/client-100.toml"', ""),
        ("budgets = [1, 2, 8]", "budgets = [8]"),
        ("seeds = [1, 2, 3, 4, 5]", "seeds = [1]"),
        ("shadows = 5 ", "shadows = 0 "),
        ("every = 4 ", "every = 1 "),
    ):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "fashion.toml").write_text(text)
    document = run_study(
        load_study(tmp_path / "fashion.toml"), folder=tmp_path, ledger=tmp_path / "l.db", on_progress=lambda _: None
    )
    assert [each.title for each in read_tables(document)] == [
        "utility",
        "backdoors",
        "membership",
        "property",
        "canaries",
    ]
    assert all(one["runs"][0]["utility"]["score"] > 0.2 for one in document["conditions"])
