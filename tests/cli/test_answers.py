"""`epsilog query`: what is typed reaches the library, and what comes back is shown."""

import json

import pytest
from typer.testing import CliRunner

from epsilog.cli.app import load
from epsilog.ledger import open_ledger, read_ledger
from epsilog.terms import BudgetExceededError, CheckError

pytest.importorskip("polars")

app = load()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_ledger("books.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1000000", simulation=True)
        ledger.create_budget("real", kind="pure", epsilon="1")
    lines = ["id,age,ward", "a,30,eye", "a,40,ear", "b,50,eye", ",60,eye", "c,none,eye,too,long", "d"]
    (tmp_path / "visits.csv").write_text("\n".join(lines))
    return tmp_path


def answer(*words, scope="acme", price=("--epsilon", "1000"), more=("--data", "visits.csv", "--simulation")):
    words = [str(word) for word in words]
    key = ("--key", "-".join(words)) if "--key" not in words else ()
    unit = ("--row-is-unit",) if "--unit-column" not in words and "--row-is-unit" not in words else ()
    line = ["query", scope, *words, *unit, *price, *more, *key, "--ledger", "books.db"]
    return CliRunner().invoke(app, line, env={"COLUMNS": "200", "TERM": "dumb"})


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("count",), 6),
        (("count", "age"), 5),
        (("count", "--unit-column", "id"), 4),
        (("count", "--unit-column", "id", "--max-rows-per-unit", 2), 4),
        (("above", "--threshold", 6), True),
        (("above", "age", "--threshold", 6), False),
        (("histogram", "ward", "--category", "eye", "--category", "ear"), {"eye": 4, "ear": 1}),
        (("histogram", "age", "--bin-edge", 0, "--bin-edge", 45, "--bin-edge", 99), {"[0, 45)": 2, "[45, 99]": 2}),
        (("most-common", "ward", "--category", "eye", "--category", "ear"), "eye"),
        (("first-above", "ward", "--category", "ear", "--category", "eye", "--threshold", 3), "eye"),
        (("first-above", "ward", "--category", "ear", "--category", "eye", "--threshold", 9), None),
    ],
)
def test_questions_are_answered(here, words, value):
    price = ("--epsilon", "1000")
    if words[-1] == 2:
        value = 5  # both rows of a, and one of b, c and d each
    done = answer(*words, "--json", price=price)
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["value"] == value


def test_sums_and_means_take_bounds_and_a_population(here):
    for words, value in (
        (("sum", "age", "--low", 0, "--high", 45), 30 + 40 + 45 + 45),
        (("mean", "age", "--low", 0, "--high", 100), 45),
        (("mean", "age", "--low", 0, "--high", 100, "--population", 4), 45),
    ):
        done = answer(*words, "--json", price=("--epsilon", "100000"))
        assert json.loads(done.output)["value"] == pytest.approx(value, abs=0.2), done.output


def test_an_answer_reads_well_and_costs_once(here):
    for _ in range(2):
        done = answer(
            "count",
            "--key",
            "k",
            "--results-folder",
            "mine",
            scope="real",
            price=("--epsilon", "0.5"),
            more=("--data", "visits.csv"),
        )
        assert done.exit_code == 0, done.output
        shown = " ".join(done.output.split())
        assert "count at real answer" in shown
        assert "95% error 6 charged pure: epsilon 0.5" in shown
    with read_ledger("books.db") as ledger:
        assert ledger.balance("real").spent["epsilon"] == "0.5"
    assert len(list((here / "mine").iterdir())) == 1


def test_a_quote_charges_nothing_and_reads_no_data(here):
    done = answer("count", "--estimate", price=("--error", "10"), more=())
    shown = " ".join(done.output.split())
    assert "Estimate cost pure: epsilon 0.284348513 95% error 10" in shown
    done = answer("mean", "age", "--low", 0, "--high", 9, "--estimate", more=())
    assert "depends on the count" in done.output
    told = json.loads(answer("count", "--estimate", "--json", price=("--error", "10"), more=()).output)
    assert told["charged"] == {"pure": {"epsilon": "0.284348513"}}
    with read_ledger("books.db") as ledger:
        assert ledger.head()[0] == 2
    assert not (here / "answers").exists()


def test_whole_numbers_of_a_parquet_file_are_categories(here):
    import polars as pl

    pl.DataFrame({"n": [1, 2, 2]}).write_parquet("n.parquet")
    done = answer(
        "histogram", "n", "--category", 1, "--category", 2, "--json", more=("--data", "n.parquet", "--simulation")
    )
    assert json.loads(done.output)["value"] == {"1": 1, "2": 2}
    done = answer("histogram", "n", "--category", "x", more=("--data", "n.parquet", "--simulation"))
    assert isinstance(done.exception, CheckError)
    assert "--category must be an integer, like the column" in str(done.exception)


def test_another_separator_is_read(here):
    (here / "semi.csv").write_text("a;b\n1;2\n3;4\n")
    done = answer("count", "b", "--separator", ";", "--json", more=("--data", "semi.csv", "--simulation"))
    assert json.loads(done.output)["value"] == 2


@pytest.mark.parametrize(
    ("words", "more", "said"),
    [
        (
            ("count", "--unit-column", "id", "--row-is-unit"),
            None,
            "--unit-column must be given, or else --row-is-unit, and not both",
        ),
        (("count", "--low", 1), None, "--low must be absent for count"),
        (("sum", "age", "--low", 1), None, "high must be given for sum"),
        (("sum", "--low", 1, "--high", 2), None, "column must be given for sum"),
        (("above",), None, "threshold must be given for above"),
        (("histogram", "ward"), None, "categories must be given, or else edges"),
        (("most-common", "ward"), None, "1 to 100000 names"),
        (("count", "--separator", ";;"), None, "separator must be one character"),
        (("count",), ("--data", "no.csv", "--simulation"), "data must be a file that exists"),
        (("count",), ("--simulation",), "data must be given"),
        (("count", "height"), None, "frame must have a column 'height'"),
    ],
)
def test_what_is_wrong_is_refused_and_costs_nothing(here, words, more, said):
    done = answer(*words, **({} if more is None else {"more": more}))
    assert isinstance(done.exception, CheckError), done.output
    assert said in str(done.exception)
    with read_ledger("books.db") as ledger:
        assert ledger.head()[0] == 2


def test_a_price_in_mu_is_for_budgets_of_gaussian_dp(here):
    with open_ledger("books.db") as ledger:
        ledger.create_budget("bell", kind="gdp", mu_squared="1000000", simulation=True)
    told = json.loads(answer("count", "--json", scope="bell", price=("--mu", "500")).output)
    assert told["value"] == 6
    assert 250_000 * (1 - 1e-9) < float(told["charged"]["gdp"]["mu_squared"]) <= 250_000


def test_an_open_quote_changes_its_own_row_alone(here):
    (here / "visits.csv").write_text('id,age,ward\na,30,"eye\nb,40,ear\nc,50,ear\n')
    assert json.loads(answer("count", "--json").output)["value"] == 3
    words = ("histogram", "ward", "--category", "eye", "--category", "ear", "--json")
    assert json.loads(answer(*words).output)["value"]["ear"] == 2


def test_a_key_is_needed_and_the_budget_refuses(here):
    line = ["query", "real", "count", "--row-is-unit", "--epsilon", "2", "--data", "visits.csv", "--ledger", "books.db"]
    assert "key must be given" in str(CliRunner().invoke(app, line).exception)
    assert isinstance(CliRunner().invoke(app, [*line, "--key", "k"]).exception, BudgetExceededError)
    assert CliRunner().invoke(app, [*line, "--key", "k", "--max-rows-per-unit", "0"]).exit_code == 2
    assert CliRunner().invoke(app, [*line, "--key", "k", "--population", "0"]).exit_code == 2
