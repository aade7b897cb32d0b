"""Every scheme has an example that runs from plan to proof, and whose report a third party recomputes."""

import re
from pathlib import Path

import pytest

from epsilog.pipeline import load_run_config, run
from epsilog.reports import verify_run
from epsilog.schemes import SCHEMES
from epsilog.terms import ConfigError
from epsilog.verification import LedgerReader, read_run_folder

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))
BINS = 'sampling = "balls-in-bins"        # also "poisson", "fixed-size" and "cyclic"\ncycle_length = 5 '
NEIGHBOURS = 'relation = "add-or-remove-one"'
VARIANTS = {path.stem: (path, ()) for path in EXAMPLES} | {
    name: (Path(__file__).parents[2] / "examples/balls-in-bins.toml", ((BINS, sampling), (NEIGHBOURS, relation)))
    for name, sampling, relation in (
        ("fixed-size", 'sampling = "fixed-size"\ncohort_size = 40\n#', 'relation = "replace-one"'),
        ("cyclic", 'sampling = "cyclic"\ncycle_length = 50\n#', 'relation = "zero-out"'),
    )
}
WEIGHED = (
    (NEIGHBOURS, 'relation = "zero-out"\nsizes_are_public = true'),
    ("expected_examples = 10", "example_cap = 20\nexpected_examples = 10"),
)
VARIANTS["correlated-bins"] = (
    Path(__file__).parents[2] / "examples/correlated-noise.toml",
    (
        ('relation = "zero-out"', NEIGHBOURS),
        ("cycle_length = 20 ", 'sampling = "balls-in-bins"\ncycle_length = 4 '),
        ("bands = 20 ", "bands = 2 "),
    ),
)
KEPT = "adaptive-clip"  # `make test` runs this one; the others are alike
VARIANTS["weighed"] = (Path(__file__).parents[2] / "examples/local.toml", WEIGHED)


def test_every_scheme_has_an_example():
    assert {load_run_config(path).scheme.kind for path in EXAMPLES} == set(SCHEMES)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_clients_withdraw_where_the_server_adds_the_noise(path, tmp_path):
    text = path.read_text()
    assert "[data]\n" in text
    changed = tmp_path / "p.toml"
    changed.write_text(text.replace("[data]\n", '[data]\nwithdrawn = "gone.txt"\n'))
    if SCHEMES[load_run_config(path).scheme.kind].replies_are_public:
        with pytest.raises(ConfigError, match=r"data\.withdrawn must be absent for .* reveal how many replied"):
            load_run_config(changed)
    else:
        assert load_run_config(changed).data.withdrawn == "gone.txt"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", ["local_steps", "expected_examples"])
def test_local_settings_are_given_where_a_scheme_has_them_and_nowhere_else(path, name, tmp_path):
    text, changed = path.read_text(), tmp_path / "p.toml"
    if name in SCHEMES[load_run_config(path).scheme.kind].local_settings:
        text, state = re.sub(rf"(?m)^{name} = .*\n", "", text), "given"
    else:
        text, state = text.replace("[training]\n", f"[training]\n{name} = 3\n"), "absent"
    changed.write_text(text)
    with pytest.raises(ConfigError, match=rf"training\.{name} must be {state} for "):
        load_run_config(changed)


@pytest.mark.slow
@pytest.mark.every(1)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == KEPT else pytest.mark.extended)
        for name in sorted(set(VARIANTS) - {"central", "local"})
    ],
)
def test_an_example_runs_from_plan_to_proof(name, tmp_path):
    """Eight rounds of one step and no study; the two others run elsewhere."""
    original, changes = VARIANTS[name]
    text = original.read_text()
    if name in ("cyclic", "distributed"):
        text = text.replace("simulation = true", 'simulation = true\ndropout = 0.05\ncheckpoints = "remove"')
    if name == "cyclic":
        text = text.replace('name = "chem97"', 'name = "chem97"\nwithdrawn = "withdrawn.txt"')
    (tmp_path / "withdrawn.txt").write_text("3\n17\nnobody\n")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    text = re.sub(
        r"(?m)^(rounds|rounds_per_release) = \d+", r"\1 = 8", re.sub(r"(?m)^comparison_(budgets|seeds) = .*$", "", text)
    )
    text = (
        text.replace("local_steps = 8", "local_steps = 1")
        .replace("cohort_size = 200", "cohort_size = 40")
        .replace("survivors = 160", "survivors = 32")
    )
    path = tmp_path / "p.toml"
    path.write_text(text)
    outcome = run(path, runs=tmp_path / "runs", ledger=tmp_path / "ledger.db")
    ends = {found.check: found.status for found in outcome.verification.findings}
    assert ends.pop("control") in ("passed", "warned")  # central noise has little padding in eight rounds
    if name in ("balls-in-bins", "correlated-bins"):  # no certificate states such a release
        assert ends.pop("certificate") == "not checked"
    assert set(ends.values()) == {"passed"}, outcome.verification.findings
    assert len(outcome.report["claim"]["parties"]) >= 3
    left = [path.name for path in (outcome.folder / "checkpoints").glob("round-*")]
    assert bool(left) == (name not in ("cyclic", "distributed"))
    again = verify_run(read_run_folder(outcome.folder), LedgerReader.read(tmp_path / "ledger.db"))
    assert {each.check for each in again.findings if each.status == "failed"} == set()
