"""What commands show as text, in this process: every line that a reader relies on is there, with the right side."""

import io
import json
import re
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

from epsilog import reports
from epsilog.accounting import epsilon
from epsilog.cli import run as run_commands, show
from epsilog.cli.app import NOT_ALL_CHECKED, NOT_VERIFIED, exit_with_error, load
from epsilog.ledger import open_ledger, selftest, verify_ledger
from epsilog.mechanisms import Gaussian, Laplace, PoissonSampled, PureDP, Repeated
from epsilog.terms import CheckError, Finding, Interval, NeighboringRelation, Status, codec
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.verification import Verification

app = load()

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE


def shown(*args):
    done = CliRunner().invoke(app, [str(arg) for arg in args], env={"COLUMNS": "200", "TERM": "dumb"})
    return done.exit_code, done.output


WORD = st.text(st.sampled_from("ab01.-_/é日"), min_size=1, max_size=70)
CELL = st.lists(WORD, min_size=1, max_size=9).map(" ".join)


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize("width", [60, 80, 100, 120])
@given(data=st.data())
def test_no_word_of_a_value_or_name_is_broken(width, data):
    columns = data.draw(st.integers(1, 6))
    rows = data.draw(st.lists(st.lists(CELL, min_size=columns, max_size=columns), min_size=1, max_size=4))
    headings = data.draw(st.lists(WORD, min_size=columns, max_size=columns))
    terminal = Console(width=width, highlight=False, markup=False, file=io.StringIO())
    with mock.patch.object(show, "console", return_value=terminal):
        show.print_table("title", headings, rows)
        show.print_figures("title", [(row[0], row[-1]) for row in rows])
        show.print_notice(rows[0][0])
    text = terminal.file.getvalue()
    shown = Counter(text.split())
    expected = Counter(word for row in rows for cell in (*row, row[0], row[-1]) for word in cell.split())
    assert not expected + Counter(rows[0][0].split()) - shown
    longest = max(cell_len(word) for row in [headings, *rows] for cell in row for word in cell.split())
    assert all(cell_len(line) <= max(width, 2 * longest + 4) for line in text.splitlines())


@pytest.mark.parametrize("terminal", [True, False])
def test_an_error_breaks_between_words_on_a_terminal_and_nowhere_else(monkeypatch, capsys, terminal):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    message = (
        "budget of 'acme' refuses: requested epsilon 0.25; available epsilon 0.15; file runs/exam-scores/report.html"
    )
    with pytest.raises(SystemExit):
        exit_with_error(CheckError("budget", message, "it"), 2)
    lines = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().err).splitlines()
    assert " ".join(lines) == f"epsilog: {CheckError('budget', message, 'it')}"
    assert (len(lines) > 1) == terminal
    assert not terminal or max(map(len, lines)) <= 60


def test_an_interval_shows_both_sides_each_rounded_its_own_way():
    found = Interval(1.23456789, 2.3456789, "m", ADD)
    assert show.format_interval(found) == "at most 2.34568 (at least 1.23456)"
    assert show.format_interval(Interval(1.23456789, 1.23456789, "m", ADD)) == "1.23457"


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setattr(show.console(), "_width", 200)


def test_an_account_shows_bounds_method_relation_and_assumptions(capsys):
    code, _ = shown("account", "--noise-multiplier", 1.1, "-q", 0.01, "--rounds", 100, "--delta", 1e-5)
    text = capsys.readouterr().out + _
    found = epsilon(Repeated(PoissonSampled(Gaussian(1.1), 0.01), 100), delta=1e-5)
    assert code == 0, text
    for part in (
        "Certified interval",
        format_upper(found.upper, 6),
        format_lower(found.lower, 6),
        str(found.method)[:30],
    ):
        assert part in text
    assert "add-or-remove-one" in text
    assert text.count("Assumes:") == len(found.assumptions) > 0


@pytest.mark.parametrize(("lost", "accepted", "code"), [(0, 5, 0), (1, 5, NOT_VERIFIED), (0, 6, NOT_VERIFIED)])
def test_a_selftest_that_finds_something_does_not_end_well(monkeypatch, lost, accepted, code):
    killed = selftest.KillReport(kills=3, acknowledged=9, lost=lost, unacknowledged=0, doubled=0, entries=20)
    raced = selftest.RaceReport(attempts=10, cap=5, accepted=accepted, refused=10 - accepted, entries=9)
    monkeypatch.setattr(selftest, "run_kill_campaign", lambda *_, **__: killed)
    monkeypatch.setattr(selftest, "run_race_campaign", lambda *_, **__: raced)
    assert shown("selftest")[0] == code
    assert shown("selftest", "--json")[0] == code


def test_a_runs_summary_tells_every_finding_that_is_not_well(capsys):
    bound = codec.encode(Interval(1.0, 2.0, "m", ADD))
    report = {
        "identity": {"name": "scores"},
        "simulation": True,
        "kind": "report",
        "claim": {"statement": "a statement", "epsilon": bound, "supported": "inf", "unamplified": {"upper": 7.0}}
        | {"guarantee": {"privacy_unit": "school", "delta": 1e-5}},
        "risk_metrics": None,
        "budget": {"epsilon": "4", "delta": "1e-5", "scope": "acme"},
        "result": {"score_name": "accuracy", "test_score": 0.75, "diverged": False},
        "utility": {"baseline_rounds": [{"test_score": 0.5}, {"test_score": 0.8125}], "study": []},
        "accounting": {"closed_form": {"total": 1.5, "note": "the formula is below"}},
        "verification": {
            "status": "failed",
            "findings": [
                {"check": "noise", "code": "noise/too-weak", "status": "failed", "message": "it is weak"},
                {"check": "rounds", "code": "rounds/passed", "status": "passed", "message": "all are here"},
                {"check": "delta", "status": "warned", "message": "it is large"},
                {"check": "norms", "status": "failed", "message": "they are long"},
            ],
        },
    }
    run_commands._show_summary(report, Path("runs"))
    text = capsys.readouterr().out
    for part in ("Does not hold, failed: noise, norms", "The records do not support the claim."):
        assert part in text
    for part in ("scores (simulation)", "a statement", "at most 2 (at least 1)", "epsilon 4, delta 1e-5 in acme"):
        assert part in text
    for part in ("noise: it is weak", "delta: it is large", "norms: they are long", "the formula is below", "0.8125"):
        assert part in text
    assert "all are here" not in text
    assert str(Path("runs") / "report.html") in text


def verdict_of(verdict):
    finding = Finding("noise/too-strong", verdict, "what was found", missing_evidence="custody")
    return Verification((finding,), required=("custody", "ledger"))


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (Status.PASSED, 0),
        (Status.FAILED, NOT_VERIFIED),
        (Status.WARNED, NOT_ALL_CHECKED),
        (Status.NOT_CHECKED, NOT_ALL_CHECKED),
    ],
)
def test_verify_shows_each_finding_and_ends_with_its_code(monkeypatch, tmp_path, verdict, code):
    monkeypatch.setattr(reports, "verify", lambda *_, **__: replace(verdict_of(verdict), claim="what stands"))
    found, text = shown("verify", tmp_path)
    assert found == code
    for part in ("noise", verdict.value, "what was found", "what stands"):
        assert part in text
    found, document = shown("verify", tmp_path, "--json")
    assert found == code
    assert json.loads(document) == verdict_of(verdict).to_json() | {
        "answer": verdict_of(verdict).answer,
        "supported_claim": "what stands",
        "required": ["custody", "ledger"],
    }


@pytest.mark.parametrize("verdicts", [("passed",), ("failed",), ("passed", "failed", "passed"), ("warned", "passed")])
def test_one_failed_run_of_several_is_not_lost(monkeypatch, tmp_path, verdicts):
    """And each is shown: side by side where there are several."""
    left, compared = iter(verdicts), []

    def outcome(path, **_):
        report = {"name": str(path)}
        return SimpleNamespace(
            verification=SimpleNamespace(status=next(left)), folder=tmp_path / str(path), report=report
        )

    monkeypatch.setattr("epsilog.pipeline.run", outcome)
    monkeypatch.setattr(
        run_commands, "_show_summary", lambda report, folder: show.print_notice(f"{report['name']} in {folder.name}")
    )
    monkeypatch.setattr(run_commands, "_show_side_by_side", compared.extend)
    files = [f"{number}.toml" for number in range(len(verdicts))]
    code = NOT_VERIFIED if "failed" in verdicts else 0
    found, text = shown("run", *files, "--runs", tmp_path)
    assert found == code
    assert all(f"{name} in {name}" in text for name in files)
    assert compared == ([{"name": name} for name in files] if len(files) > 1 else [])
    left = iter(verdicts)
    found, document = shown("run", *files, "--runs", tmp_path, "--json")
    assert found == code
    assert json.loads(document) == [{"folder": str(tmp_path / name), "report": {"name": name}} for name in files]


def test_the_pages_of_a_calculator_go_to_standard_output_or_to_a_file(monkeypatch, tmp_path):
    monkeypatch.setattr(
        "epsilog.server.build_embed_html", lambda calculator, values: f"<!doctype html>{calculator} {values}\n"
    )
    given = ("embed", "federated", "population=2410", "noise_multiplier=1.5=x")
    page = "<!doctype html>federated {'population': '2410', 'noise_multiplier': '1.5=x'}\n"
    assert shown(*given) == (0, page)
    assert shown(*given[:2]) == (0, "<!doctype html>federated {}\n")
    assert shown(*given, "-o", tmp_path / "page.html")[0] == 0
    assert (tmp_path / "page.html").read_text() == page


def test_init_writes_a_file_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("who,age,ill\na,1,no\n")
    command = ("init", "rows.csv", "--client", "who", "--target", "ill", "--row-name", "visit", "--privacy-unit", "row")
    code, text = shown(*command)
    assert (code, text) == (0, 'wrote run.toml; fill in each "?", and then: epsilog run run.toml\n')
    written = (tmp_path / "run.toml").read_text()
    assert 'path = "rows.csv"' in written
    assert 'privacy_unit = "visit"' in written
    with pytest.raises(CheckError, match=r"--output must be a new file, got 'run\.toml'"):
        CliRunner().invoke(app, command, catch_exceptions=False)
    assert (tmp_path / "run.toml").read_text() == written


def test_doctor_looks_for_each_extra_that_the_package_has():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (everything,) = project["optional-dependencies"]["all"]
    code, text = shown("doctor", "--json")
    assert code == 0
    extras = list(json.loads(text)["extras"])
    extras.remove("demo")  # installed on its own: its data are under the GPL
    assert f"epsilog[{','.join(extras)}]" == everything


@pytest.fixture
def books(tmp_path):
    """A ledger with two budgets and two charges."""
    path = tmp_path / "b.db"
    with open_ledger(path) as open_books:
        open_books.create_budget("acme", kind="pure", epsilon="3")
        open_books.create_budget("other", kind="pure", epsilon="1", simulation=True)
        open_books.charge("acme", PureDP(0.25), key="q-1")
        open_books.charge("acme", PureDP(0.125), key="q-2")
    return path


def test_a_ledger_is_shown_with_its_chain(books):
    whole = verify_ledger(books)
    code, text = shown("ledger", "show", "-l", books, "--json")
    document = json.loads(text)
    assert (code, document["sound"], document["trouble"]) == (0, True, "")
    assert (document["entries"], document["head"]) == (whole.count, whole.head)
    assert [one["index"] for one in document["history"]] == list(range(1, whole.count + 1))
    assert {one["scope"]: one["available"] for one in document["budgets"]} == {
        "acme": {"epsilon": "2.625"},
        "other": {"epsilon": "1"},
    }
    code, text = shown("ledger", "show", "-l", books)
    assert code == 0
    for part in ("other (simulation)", "epsilon 2.625", whole.head, f"Entries ({whole.count} of {whole.count})", "q-1"):
        assert part in text
    assert "attested by the owner" not in text
    assert "q-1 at acme" in text
    assert "q-1 at" not in shown("ledger", "show", "acme", "-l", books)[1]
    code, text = shown("ledger", "show", "acme", "--lines", 1, "-l", books, "--json")
    assert [one["scope"] for one in json.loads(text)["budgets"]] == ["acme"]
    assert [one["key"] for one in json.loads(text)["history"]] == ["q-2"]


def test_what_the_owner_priced_is_named(books, tmp_path):
    release = tmp_path / "r.json"
    release.write_text('{"type": "laplace", "noise_multiplier": 0.1}')
    allow = ("ledger", "override-cost", "acme", "--key", "v", "--release", release, "-l", books, "--reason", "proof 12")
    assert shown(*allow, "--amount", "epsilon=0.5")[0] == 0
    with open_ledger(books) as open_books:
        open_books.charge("acme", Laplace(0.1), key="v", amount={"epsilon": "0.5"})
    code, text = shown("ledger", "show", "-l", books)
    assert code == 0
    assert "Costs attested by the owner, without proof: v" in " ".join(text.split())


def test_a_ledger_that_does_not_hold_is_shown_as_such(books):
    content = books.read_bytes()
    books.write_bytes(content.replace(b'"0.25"', b'"0.24"'))
    code, text = shown("ledger", "show", "-l", books, "--json")
    document = json.loads(text)
    assert code == NOT_VERIFIED
    assert (document["sound"], document["head"], document["entries"], document["history"]) == (False, None, None, [])
    assert document["trouble"]
    code, text = shown("ledger", "show", "-l", books)
    assert code == NOT_VERIFIED
    assert "The ledger does not verify" in text
    assert shown("verify", books)[0] == NOT_VERIFIED


def test_values_of_a_page_are_named():
    done = CliRunner().invoke(app, ["embed", "queries", "epsilon=1", "delta"])
    assert str(done.exception) == "values must be name=value, got 'delta'"
