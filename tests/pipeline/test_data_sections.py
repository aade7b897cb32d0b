"""The [data] section: what it may say, how it is held against the data, and runs of the examples on own data."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from epsilog.ledger import open_ledger
from epsilog.pipeline import load_run_config, preparation, run
from epsilog.terms import ConfigError, codec

pytest.importorskip("polars", reason="extra data")
OWN = Path(__file__).parents[2] / "examples" / "own-data"
FOUR_ROUNDS = (("rounds = 40", "rounds = 4"), ("rounds_per_release = 40", "rounds_per_release = 4"))


@pytest.fixture
def written(tmp_path):
    """Writes an example on own data with some text replaced, beside its file; returns its path."""

    def write(*changes, name="clinics"):
        text = (OWN / f"{name}.toml").read_text()
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        shutil.copy(OWN / "visits.csv", tmp_path / "visits.csv")
        path = tmp_path / f"{name}.toml"
        path.write_text(text)
        return path

    return write


def refusal(path):
    with pytest.raises(ConfigError) as refused:
        preparation.prepare_config(path)
    return str(refused.value)


def test_the_file_is_what_its_script_draws(tmp_path):
    shutil.copy(OWN / "make.py", tmp_path / "make.py")
    subprocess.run([sys.executable, str(tmp_path / "make.py")], check=True)
    assert (tmp_path / "visits.csv").read_bytes() == (OWN / "visits.csv").read_bytes()


def test_whole_clinics_or_single_visits_are_protected(written):
    clinics, visits = (preparation.prepare_config(written(name=name)) for name in ("clinics", "visits"))
    assert clinics.task.unit_is_client
    assert not visits.task.unit_is_client
    rows = len((OWN / "visits.csv").read_text().splitlines()) - 1
    for found in (clinics.task, visits.task):
        assert found.examples + found.describe()["test_examples"] <= rows
        assert found.describe()["test_examples"] > 600
    assert clinics.task.units == clinics.config.population == clinics.task.clients.count < 240
    assert (visits.task.units, visits.task.clients.count) == (5000, 250)
    assert visits.task.examples < 4000


CASES = [
    (("path = ", "name = 'chem97'\n# "), "data.client must be absent (an unknown key), got 'clinic'"),
    (("path = ", "# "), "data.path must be given, got nothing"),
    (('"visits.csv"', '"gone.csv"'), "data.path must be a file that can be read, got gone.csv: No such file"),
    (('"visits.csv"', '"clinics.toml"'), "data.path must be a file ending in .csv, .tsv, .parquet, .npz"),
    (('client = "clinic"', 'client = "Clinic"'), "data.client must be one of the columns 'visit', 'arrived', 'clinic'"),
    (('target = "long_stay"', 'target = "stay"'), "data.target must be one of the columns"),
    (("age = [0, 110]", "aged = [0, 110]"), "data.missing.age must be absent, as there is no such feature, got 50"),
    (("ward = [", "wards = ["), "data.features.wards must be one of the columns"),
    (("age = [0, 110]", "age = [110, 0]"), "data.features.age must be [low, high] with low below high, got [110, 0]"),
    (("age = [0, 110]", "age = [0, inf]"), "data.features.age must be finite, got [0, inf]"),
    (("age = [0, 110]", 'age = "?"'), "data.features.age must be a range of two numbers or dates"),
    (("age = 50", "age = 'old'"), "data.missing.age must be a number, got 'old'"),
    (("age = 50", "ward = 'other'"), "data.missing.ward must be one of surgery, internal, children, maternity"),
    (('classes = ["no", "yes"]', 'classes = ["no"]'), "data.classes must name at least two, got ['no']"),
    (
        ('classes = ["no", "yes"]', ""),
        "data.classes must be given as labels or a number, or else target_range, got neither",
    ),
    (('classes = ["no", "yes"]', "classes = 1"), "data.classes must be at least 2, got 1"),
    (("test_share = 0.2 ", "# "), 'data.test must be given (a public file, or "none" for no scores), or test_share'),
    (("test_share = 0.2 ", 'test = "none"\ntest_share = 0.2 '), "data.test must be given .*got both"),
    (("test_share = 0.2 ", "test_share = 1.0 "), "data.test_share must be below 1, got 1.0"),
    (("test_share = 0.2 ", 'test = "gone.csv" # '), "data.test must be a file like the data file: path must be"),
    (('row = "visit"', 'row = "clinic"'), "data.row must be a word for one row, different from that for a client"),
    (
        ('privacy_unit = "clinic"', 'privacy_unit = "patient"'),
        "guarantee.privacy_unit must be 'clinic' (a whole client)",
    ),
    (('privacy_unit = "clinic"', 'privacy_unit = "visit"'), "data.id must be a column that names each row"),
    (("public = true", "public = false"), "guarantee.population_is_public must be true for a population from data"),
    (("learning_rate = 0.5", "learning_rate = 1e200"), "training.learning_rate must be in"),
    (("learning_rate = 0.5", 'learning_rate = 0.5\ndata = "chem97"'), "training.data must be absent (an unknown key)"),
    (("public = true", "decimal = ';'\npublic = true"), "data.decimal must be one of ., ,, got ';'"),
]


@pytest.mark.slow_beyond(6)
@pytest.mark.parametrize(("change", "says"), CASES, ids=[says[:60] for _, says in CASES])
def test_a_mistake_is_named_before_anything_is_written(written, tmp_path, change, says):
    path = written(change)
    before = sorted(tmp_path.iterdir())
    found = refusal(path)
    start, _, end = says.partition(".*")
    assert start in found
    assert end in found
    with pytest.raises(ConfigError):
        run(path, runs=tmp_path / "runs")
    assert sorted(tmp_path.iterdir()) == before


def test_a_level_that_the_scheme_does_not_protect_is_refused(written):
    unit = ('privacy_unit = "visit"', 'privacy_unit = "clinic"')
    assert "scheme.kind must be one that protects one clinic, got 'example-level-client-side'" in refusal(
        written(unit, name="visits")
    )


@pytest.mark.slow
def test_visits_are_weighed_only_where_sizes_are_public_and_neighbors_keep_them(written):
    cap, kept = ("expected_examples", "example_cap = 20\nexpected_examples"), ('"add-or-remove-one"', '"zero-out"')
    said = ("privacy_unit = ", "sizes_are_public = true\nprivacy_unit = ")
    assert "training.example_cap must be absent, or sizes_are_public" in refusal(written(cap, kept, name="visits"))
    found = refusal(written(cap, said, name="visits"))
    assert "guarantee.relation must be zero-out with training.example_cap" in found
    weighed = preparation.prepare_config(written(cap, said, kept, name="visits"))
    assert weighed.task.describe()["client_sizes"] == "public"
    assert preparation.make_plan(weighed).details["training"]["example_cap"] == 20
    whole = preparation.prepare_config(written(("local_steps", "example_cap = 20\nlocal_steps")))
    assert whole.task.training.example_cap == 20


def test_own_data_takes_turns_only_where_a_place_is_kept(written):
    """One clinic more would move all that come after it to other rounds."""
    turns = (
        ('kind = "client-level-central"', 'kind = "client-level-correlated-noise"'),
        ("sampling_probability = 0.25", "cycle_length = 8\nbands = 4"),
    )
    found = refusal(written(*turns))
    assert "guarantee.relation must be zero-out for client-level-correlated-noise" in found
    assert preparation.prepare_config(written(*turns, ("add-or-remove-one", "zero-out"))).task.unit_is_client


def test_private_data_is_not_simulated_with(written):
    private = (("public = true", "public = false"), ('population = "from data"', "population = 250"))
    assert "run.simulation must be false for data that is not stated to be public" in refusal(written(*private))
    real = (
        ("simulation = true", "simulation = false"),
        ("seed = 20261122\n", ""),
        ("comparison_budgets = [1, 2, 4, 8]\n", ""),
    )
    assert preparation.prepare_config(written(*private, *real)).task.units == 250


def test_want_of_places_is_refused_without_the_number_there_is(written):
    few = (("population = 5000", "population = 3000"), ("clients = 250", "clients = 239"))
    found = refusal(written(*few, name="visits"))
    assert "guarantee.population must be at least the number of privacy units in the data" in found
    assert "scheme.clients must be at least the number of clients in the data" in found
    assert "got 3000" in found
    assert not [number for number in ("240", "3523") if number in found]
    public = ("population = 5000", "population_is_public = true\npopulation = 5000")
    assert "guarantee.population must be 3523 for these data, got 5000" in refusal(written(public, name="visits"))


@pytest.mark.slow
def test_the_population_is_the_one_that_is_priced(written):
    found = preparation.prepare_config(written(('delta = "1e-4"', 'delta = "1/population"')))
    plan = preparation.make_plan(found)
    assert plan.guarantee.population == plan.scheme.clients == found.task.units
    assert str(found.config.delta) == plan.budget["delta"]
    again = load_run_config(written()).guarantee
    assert again.stated_population is None


@pytest.mark.slow
def test_what_is_public_holds_nothing_of_the_rows(written, tmp_path):
    """Two files that differ in every row give one public plan; so do their refusals."""
    path = written(("population = 5000", "population = 9000"), name="visits")
    plan = preparation.make_plan(preparation.prepare_config(path))
    with (tmp_path / "visits.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    held_out = ("v00001", "v00002")
    other = {"no": "yes", "yes": "no"}
    changed = [[*row[:3], "1", "surgery", other[row[5]]] for row in rows if row[0] not in held_out]
    with (tmp_path / "visits.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *changed, ["v00001", "2025-02-03", "secret clinic", "3", "surgery", "yes"]])
    again = preparation.make_plan(preparation.prepare_config(path))
    shown = codec.encode_canonical(again.to_json()).decode()
    assert "secret" not in shown
    assert str(tmp_path) not in shown
    tested = [each.details["data"].pop("test_examples") for each in (plan, again)]
    assert min(tested) > 600
    assert plan.to_json() == again.to_json()


@pytest.mark.every(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["clinics", "visits"])
def test_an_example_on_own_data_runs_from_plan_to_proof(written, tmp_path, name):
    outcome = run(written(("comparison_budgets = [1, 2, 4, 8]\n", ""), name=name), runs=tmp_path / "runs")
    assert outcome.verification.status == "passed"
    result = outcome.report["result"]
    assert result["score_name"] == "accuracy on the test set"
    assert result["test_score"] > 0.72  # the larger class is about .55 of the test set
    assert outcome.report["mechanism"]["data"]["schema"]["classes"] == ["no", "yes"]


@pytest.mark.slow
def test_a_real_run_without_scores_is_paid_for_and_leaves_nothing_of_the_rows(written, tmp_path):
    path = written(
        ("public = true", "public = false"),
        ('population = "from data"', "population = 250"),
        ("test_share = 0.2 ", 'test = "none" # '),
        ("simulation = true", "simulation = false"),
        ("seed = 20261122\n", ""),
        ("comparison_budgets = [1, 2, 4, 8]\n", ""),
        *FOUR_ROUNDS,
    )
    with open_ledger(tmp_path / "ledger.db") as books:
        books.create_budget("demo", kind="approximate", epsilon="4", delta="1e-4", privacy_unit="clinic")
    outcome = run(path, runs=tmp_path / "runs", ledger=tmp_path / "ledger.db")
    assert outcome.verification.status == "passed"
    assert (outcome.report["result"]["test_score"], outcome.report["result"]["diverged"]) == (None, False)
    assert outcome.report["mechanism"]["data"]["test_set"] == "none: no score is released"
    public = [file for file in outcome.folder.rglob("*") if file.is_file() and file.stat().st_mode & 0o077]
    for file in public:
        content = file.read_bytes()
        assert b"visits.csv" not in content
        assert b"Aarau" not in content
    names = {file.name for file in public}
    assert {"plan.json", "rounds.jsonl", "report.json", "report.html"} <= names
    assert not {"custody.jsonl", "custody.key"} & names
    assert (outcome.folder / "checkpoints").stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_a_run_that_was_begun_goes_on_with_the_same_rows_only(written, tmp_path):
    twelve = [(old, new.replace("4", "12")) for old, new in FOUR_ROUNDS]
    path = written(("comparison_budgets = [1, 2, 4, 8]\n", ""), *twelve)

    def killed(record):
        if record.round == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(path, runs=tmp_path / "runs", on_round=killed)
    rows = (tmp_path / "visits.csv").read_text()
    (tmp_path / "visits.csv").write_text(
        rows.replace("v00001,2025-01-01,Bülach 065,10", "v00001,2025-01-01,Bülach 065,11")
    )
    with pytest.raises(Exception, match="began with another scheme, model, training or data"):
        run(path, runs=tmp_path / "runs")
    (tmp_path / "visits.csv").write_text(rows)
    outcome = run(path, runs=tmp_path / "runs")
    assert outcome.verification.status == "passed"
    assert json.loads((outcome.folder / "report.json").read_bytes())["result"]["rounds"] == 12


def test_who_withdraws_is_found_by_name_and_a_name_of_nobody_is_no_error(written, tmp_path):
    """The file is read again whenever it is asked; places are those of the clients that are trained on."""
    (tmp_path / "gone.txt").write_text("")
    path = written(('client = "clinic"', 'client = "clinic"\nwithdrawn = "gone.txt"'))
    found = preparation.prepare_config(path)
    assert found.withdrawn() == frozenset()
    with (tmp_path / "visits.csv").open() as file:
        rows = list(csv.DictReader(file))
    known = sorted({row["clinic"] for row in rows})
    (tmp_path / "gone.txt").write_text("\n".join(f" {name} " for name in known) + "\nnobody\n")
    assert found.withdrawn() == frozenset(range(found.task.units))
    (path.parent / "gone.txt").write_text(
        (path.parent / "gone.txt").read_text(), encoding="utf-8-sig"
    )  # as Windows does
    assert found.withdrawn() == frozenset(range(found.task.units))
    sizes = dict.fromkeys(known, 0)
    for row in rows:
        sizes[row["clinic"]] += 1
    for name in known[:40]:
        (tmp_path / "gone.txt").write_text(name)
        for place in found.withdrawn():  # none where the client is held out
            assert found.task.clients.sizes[place] == sizes[name]
    (tmp_path / "gone.txt").unlink()
    assert "data.withdrawn must be a file that can be read" in refusal(path)


@pytest.mark.parametrize("named", ["visits.csv", "../{here}/visits.csv", "linked.csv", "gone.txt"])
def test_a_plan_publishes_no_hash_of_the_data_or_of_who_withdrew(written, named, tmp_path):
    """Whoever knows all rows but one would hash each candidate."""
    (tmp_path / "gone.txt").write_text("clinic-1\n")
    private = (("public = true", "public = false"), ('population = "from data"', "population = 250"))
    real = (
        ("simulation = true", "simulation = false"),
        ("seed = 20261122\n", ""),
        ("comparison_budgets = [1, 2, 4, 8]\n", ""),
    )
    path = written(*private, *real, ("[data]\n", '[data]\nwithdrawn = "gone.txt"\n'))
    path.write_text(f'{path.read_text()}\n[references]\nrows = "{named.format(here=tmp_path.name)}"\n')
    (tmp_path / "linked.csv").hardlink_to(tmp_path / "visits.csv")
    prepared = preparation.prepare_config(path)
    with pytest.raises(ConfigError, match=r"references.rows must be another file than the data and the withdrawals"):
        preparation.make_plan(prepared)
    other = tmp_path / "agreed.md"
    other.write_text("agreed")
    path.write_text(path.read_text().replace(f'rows = "{named.format(here=tmp_path.name)}"', 'rows = "agreed.md"'))
    assert len(preparation.make_plan(preparation.prepare_config(path)).details["references"]["rows"]) == 64
