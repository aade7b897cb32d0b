"""Every verb of a ledger by its command: what it writes, what it says as text and as JSON, and how it ends."""

import csv
import hashlib
import importlib
import io
import json
import re
import shutil
import sqlite3
from contextlib import closing

import pytest
from tests.ledger.stores import charge_in_steps
from typer.testing import CliRunner

from epsilog.cli import show
from epsilog.cli.app import load
from epsilog.cli.ledger import require_ledger
from epsilog.ledger import open_ledger, read_ledger, verify_ledger
from epsilog.ledger.exports import COLUMNS, format_csv_lines
from epsilog.mechanisms import PureDP
from epsilog.signing import SigningKey
from epsilog.terms import (
    BatchRefusedError,
    BudgetExceededError,
    CheckError,
    ConflictError,
    LedgerIntegrityError,
    RecordError,
)

app = load()

ACT = ("--actor", "dora", "--reason", "agreed")
HASH = "ab" * 32


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setattr(show.console(), "_width", 200)


@pytest.fixture
def books(tmp_path):
    with open_ledger(tmp_path / "b.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="2")
    (tmp_path / "r.json").write_text('{"type": "laplace", "noise_multiplier": 4.0}')
    return tmp_path / "b.db"


@pytest.fixture
def ask(books):
    """Gives a command of the ledger and tells how it ended and what it said."""

    def run(*words, as_json=False):
        given = ["ledger", *map(str, words), "-l", str(books), *(["--json"] if as_json else [])]
        done = CliRunner().invoke(app, given)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, json.loads(done.output) if as_json else done.output

    return run


@pytest.fixture
def reserve(ask, tmp_path):
    return lambda key, *more, **how: ask(
        "reserve", "acme/x", "--key", key, "--release", tmp_path / "r.json", *more, **how
    )


def last(books):
    with read_ledger(books) as ledger:
        (entry,) = ledger.page(limit=1)
        return entry


def test_a_charge_goes_from_reservation_to_commit(ask, reserve, books, tmp_path):
    price = {"pure": {"epsilon": "0.25"}}
    where = {"key": "run", "scope": "acme/x", "amounts": price}
    assert reserve("run", "--rounds", 3, as_json=True) == (0, where | {"state": "reserved", "replayed": False})
    assert reserve("run", "--rounds", 3, as_json=True)[1]["replayed"] is True
    assert reserve("run", "--rounds", 3) == (0, "run at acme/x is reserved: epsilon 0.25 (pure)\n")
    assert ask("start", "run", as_json=True) == (0, where | {"state": "started"})
    with pytest.raises(ConflictError, match="it is started"):
        ask("start", "run")
    (tmp_path / "model.bin").write_bytes(b"weights")
    assert ask("commit", "run", "--evidence", tmp_path / "model.bin", as_json=True)[1]["state"] == "committed"
    assert last(books).body == {"evidence": {"model.bin": hashlib.sha256(b"weights").hexdigest()}}
    (tmp_path / "other").mkdir()
    (tmp_path / "other/model.bin").write_bytes(b"")
    with pytest.raises(ValueError, match="evidence must be files of different names"):
        ask("commit", "run", "--evidence", tmp_path / "model.bin", "--evidence", tmp_path / "other/model.bin")


def test_what_a_reservation_is_asked_with_reaches_the_ledger(reserve, books):
    reserve("run", "--amount", "epsilon=0.5", "--plan-hash", HASH, "--until", "2026-05-01T12:00:00+02:00")
    with read_ledger(books) as ledger:
        request, record = ledger.find("run").request, ledger.charge_record("run")
    assert (request.amount, request.plan_hash, request.simulation) == ({"epsilon": "0.5"}, HASH, False)
    assert record.until == "2026-05-01T10:00:00.000000+00:00"
    for until in ("soon", "2026-05-01T12:00:00"):
        with pytest.raises(ValueError, match="until must be"):
            reserve("other", "--until", until)
    with pytest.raises(ConflictError, match="simulation must be that of the budget"):
        reserve("other", "--simulation")


def test_a_refusal_has_every_figure_and_ends_with_3(reserve, books, tmp_path, monkeypatch, capsys):
    entry = importlib.import_module("epsilog.cli.app")
    words = ["ledger", "reserve", "acme/x", "--key", "big", "--release", str(tmp_path / "r.json"), "-l", str(books)]
    monkeypatch.setattr("sys.argv", ["epsilog", *words, "--amount", "epsilon=3", "--json"])
    with pytest.raises(SystemExit) as end:
        entry.main()
    told = json.loads(capsys.readouterr().out)["error"]
    assert (end.value.code, told["type"]) == (3, "BudgetExceededError")
    assert told["refusal"] == {
        "scope": "acme",
        "requested": {"epsilon": "3"},
        "available": {"epsilon": "2"},
        "caps": {"epsilon": "2"},
        "spent": {"epsilon": "0"},
        "reserved": {"epsilon": "0"},
        "set_aside": {},
        "shortfall": {"epsilon": "1"},
        "reason": "",
        "hint": "at most epsilon 2 fits",
        "owners": ["acme"],
    }
    assert last(books).index == 1


def test_caps_change_and_scopes_retire(ask, reserve, books):
    code, told = ask("set-cap", "acme", "--epsilon", 5, *ACT, as_json=True)
    assert (code, told["caps"], told["available"], told["retired"]) == (0, {"epsilon": "5"}, {"epsilon": "5"}, None)
    assert (
        "acme: cap epsilon 4; spent epsilon 0; available epsilon 4" in ask("set-cap", "acme", "--epsilon", 4, *ACT)[1]
    )
    for quantities in ((), ("--rho", 1), ("--epsilon", 1, "--mu-squared", 1), ("--epsilon", 1, "--delta", 0)):
        with pytest.raises(ValueError, match="caps of a pure budget must be epsilon"):
            ask("set-cap", "acme", *quantities, *ACT)
    assert ask("retire", "acme", *ACT, as_json=True)[1]["retired"] == 4
    assert "retired (entry 4)" in ask("retire", "acme", *ACT)[1]
    with pytest.raises(BudgetExceededError, match="scope retired"):
        reserve("late")
    assert "acme (retired)" in ask("show")[1]


def test_a_quota_is_made_and_shown_as_a_share(ask):
    assert ask("create", "acme/q", "--kind", "pure", "--epsilon", 1, "--quota")[0] == 0
    above, share = ask("show", as_json=True)[1]["budgets"]
    assert (above["set_aside"], above["available"], share["quota"]) == ({"epsilon": "1"}, {"epsilon": "1"}, "acme")
    assert "acme/q (quota of acme)" in ask("show")[1]


def test_disjoint_blocks_are_declared_paid_for_and_shown(ask, tmp_path):
    made = ("--kind", "approximate", "--epsilon", 2, "--delta", "1e-6", "--privacy-unit", "person-quarter")
    assert ask("create", "blocks", *made)[0] == 0
    caps = ("--epsilon", 1, "--delta", "1e-6")
    code, told = ask("declare-partition", "blocks/q", *caps, *ACT)
    assert (code, "are charged epsilon 1, delta 0.000001 (approximate) once" in told) == (0, True)
    assert ask("declare-partition", "blocks/q", *caps, *ACT, as_json=True)[1]["partition"] == 3
    assert "charged above" in ask("show")[1]
    assert ask("show", as_json=True)[1]["partitions"] == ["blocks/q"]
    above = next(one for one in ask("show", as_json=True)[1]["budgets"] if one["scope"] == "blocks")
    assert above["spent"] == {"epsilon": "1", "delta": "0.000001"}
    with pytest.raises(ConflictError, match="is a partition"):
        ask("headroom", "blocks/q")
    assert "cap epsilon 2" in ask("set-cap", "blocks/q", "--epsilon", 2, "--delta", "1e-6", *ACT)[1]


def test_a_plan_is_registered(ask, reserve, books):
    assert ask("register-plan", "acme/x", HASH, "--key", "run") == (0, "run at acme/x is registered: no charge\n")
    with pytest.raises(ConflictError, match="registered for another plan"):
        reserve("run")
    assert reserve("run", "--plan-hash", HASH)[0] == 0


def test_what_fits_is_told_and_ends_with_3_where_nothing_does(ask, reserve, books, tmp_path):
    asked = ("headroom", "acme/x", "--release", tmp_path / "r.json")
    code, told = ask(*asked, as_json=True)
    assert (code, told["charges"], told["available"], told["repetitions"]) == (0, 8, {"epsilon": "2"}, None)
    assert [budget["scope"] for budget in told["budgets"]] == ["acme"]
    assert "charges like it 8" in " ".join(ask(*asked)[1].split())
    ask("set-cap", "acme", "--epsilon", 0.2, *ACT)
    assert ask(*asked, as_json=True)[0] == ask(*asked)[0] == 3
    assert ask("headroom", "acme/x")[0] == 0
    assert last(books).index == 2
    ask("retire", "acme", *ACT)
    assert "accepts no further charge" in ask(*asked)[1]


def test_history_pages_and_watch_follows(ask, reserve, books):
    for key in ("one", "two", "three"):
        reserve(key)
    assert [one["key"] for one in ask("history", "acme/x", as_json=True)[1]] == ["one", "two", "three"]
    assert [one["index"] for one in ask("history", "--after", 1, "--limit", 2, as_json=True)[1]] == [2, 3]
    lines = ask("history")[1].splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4"]
    assert lines[1].endswith("reserved          one at acme/x  epsilon 0.25")
    watched = ask("watch", "acme/x", "--after", 0, "--limit", 2)[1].splitlines()
    assert [line.split()[0] for line in watched] == ["2", "3"]


def test_watch_waits_for_what_comes(ask, reserve, books, monkeypatch):
    arriving = iter(("one", "two", "three"))
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        with open_ledger(books) as ledger:
            ledger.charge("acme/x", PureDP(0.0), key=next(arriving))

    monkeypatch.setattr("epsilog.cli.ledger.time.sleep", sleep)
    lines = CliRunner().invoke(app, ["ledger", "watch", "-l", str(books), "--limit", "3", "--every", "0.5", "--json"])
    told = [json.loads(line) for line in lines.output.splitlines()]
    assert [(one["index"], one["key"]) for one in told] == [(2, "one"), (3, "two"), (4, "three")]
    assert waited == [0.5, 0.5, 0.5]


def test_follow_copies_what_comes_and_tells_what_does_not_hold(ask, reserve, books, tmp_path, monkeypatch):
    copy, acts = tmp_path / "copy.db", []

    def sleep(seconds):
        acts.append(seconds)
        if len(acts) < 3:
            with open_ledger(books) as ledger:
                ledger.charge("acme/x", PureDP(0.0), key=f"k-{len(acts)}")
        if len(acts) == 4:  # after an update with nothing new, which prints nothing
            books.rename(tmp_path / "away")
        if len(acts) == 5:
            (tmp_path / "away").rename(books)
            raise KeyboardInterrupt

    monkeypatch.setattr("epsilog.cli.ledger_copies.time.sleep", sleep)
    words = ["ledger", "follow", "-l", str(books), "-o", str(copy)]
    done = CliRunner().invoke(app, [*words, "--every", "0.5", "--json"])
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["entries"], one["added"]) for one in told] == [(1, 1), (2, 1), (3, 1)]
    assert (acts, "it is tried again" in done.stderr) == ([0.5] * 5, True)
    done = CliRunner().invoke(app, [*words, "--once"])
    assert done.stdout.startswith("3 entries verified, 0 of them new; head ")
    assert ask("verify", "--ledger", copy)[0] == 0
    with closing(sqlite3.connect(books)) as opened, opened:
        opened.execute("DELETE FROM entries WHERE position = 3")
        opened.execute("UPDATE head SET count = 2, hash = (SELECT hash FROM entries WHERE position = 2)")
    done = CliRunner().invoke(app, [*words, "--once"])
    assert isinstance(done.exception, LedgerIntegrityError)
    assert "entry 3: was copied, but the ledger has only 2 entries now" in str(done.exception)


def test_what_people_write_is_shown_as_it_is_and_tells_a_terminal_nothing(books):
    with open_ledger(books) as ledger:
        ledger.create_budget("acme/[/red]:x:", kind="pure", epsilon="1")
        ledger.set_cap("acme", epsilon="3", actor="[red]dora", reason="[/bold] \x1b[2J\x9b1m\nas agreed")
    for command in (
        ["show", "--lines", str(10**20)],
        ["history"],
        ["headroom", "acme/[/red]:x:"],
        ["watch", "--limit", "1"],
    ):
        more = ["--after", "0"] if command[0] == "watch" else []
        done = CliRunner().invoke(app, ["ledger", *command, *more, "-l", str(books)], env={"COLUMNS": "300"})
        assert done.exit_code == 0, done.exception
        assert not {"\x1b", "\x9b"} & set(done.output)
        if command[0] in ("show", "history"):
            assert "acme/[/red]:x:" in done.output
            assert "[red]dora: [/bold] \\u001b[2J\\u009b1m\\nas agreed" in done.output
    done = CliRunner().invoke(
        app, ["ledger", "set-cap", "acme", "--epsilon", "4", "--actor", "[/x]", "--reason", "[/x]", "-l", str(books)]
    )
    assert done.exit_code == 0, done.exception


FORMULA = '=HYPERLINK("http://evil")'


@pytest.fixture
def exported(ask, books, tmp_path):
    with open_ledger(books) as ledger:
        charge_in_steps(ledger, "acme/x", PureDP(0.5), key=FORMULA)
        ledger.set_cap("acme", epsilon="3", actor="+dora", reason="-1\nand @more")
    return lambda name, *more: ask("export", "-o", tmp_path / name, *more, as_json=True)


def test_a_spreadsheet_finds_no_formula_in_an_export(exported, tmp_path):
    code, told = exported("e.csv")
    assert (code, told) == (0, {"file": str(tmp_path / "e.csv"), "entries": 5})
    with (tmp_path / "e.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert not any(str(cell).lstrip().startswith(("=", "+", "-", "@")) for row in rows for cell in row.values())
    assert [row["key"] for row in rows] == ["", *[f"'{FORMULA}"] * 3, ""]
    assert (rows[4]["actor"], rows[4]["reason"]) == ("'+dora", "'-1\nand @more")
    assert [row["pure epsilon"] for row in rows] == ["", "0.5", "0.5", "0.5", ""]


PARTED = ("a;=1+1", "a; +1", "a\n=1", "a\r\n@x", 'a;"=1"', "a;\uff1d1", "\t=1", ' "=1"', "a;b;-c;=d")


@pytest.mark.parametrize("text", PARTED)
def test_no_cell_begins_with_a_formula_where_semicolons_part_them(books, tmp_path, text):
    """In many countries a spreadsheet opens a CSV file so, and then quotes within a line mean nothing."""
    with open_ledger(books) as ledger:
        ledger.set_cap("acme", epsilon="3", actor=f"dora {text}", reason=text)
        entries = list(ledger.history())
    written = "".join(format_csv_lines(entries))
    cells = re.split("[;\t\r\n]", written)
    assert not [cell for cell in cells if re.match(r'[\s"]*[=+@\uff1d-]', cell)]
    found = list(csv.DictReader(io.StringIO(written, newline="")))[-1]
    assert json.loads(found["body"]) == entries[-1].body
    assert found["reason"].replace("'", "") == text


def test_documents_are_exported_letter_by_letter(exported, books, tmp_path):
    exported("e.jsonl")
    lines = (tmp_path / "e.jsonl").read_text(encoding="utf-8").splitlines()
    previous = [json.loads(line)["previous"] for line in lines]
    hashes = [hashlib.sha256(line.encode()).hexdigest() for line in lines]
    assert previous[1:] == hashes[:-1]
    assert hashes[-1] == verify_ledger(books).head


def test_parquet_is_read_by_polars(exported, tmp_path):
    polars = pytest.importorskip("polars")
    assert exported("e.parquet", "--scope", "acme/x")[1]["entries"] == 3
    frame = polars.read_parquet(tmp_path / "e.parquet")
    assert tuple(frame.columns) == COLUMNS
    assert frame["key"].to_list() == [FORMULA] * 3
    assert frame["pure epsilon"].to_list() == ["0.5"] * 3


def test_an_export_overwrites_nothing_and_leaves_nothing_half_written(exported, tmp_path, monkeypatch):
    for name, message in (
        ("b.db", "--output must be named"),
        ("e.txt", "--output must be named"),
        ("e.csv", "does not exist yet"),
    ):
        (tmp_path / "e.csv").touch()
        with pytest.raises(ValueError, match=message):
            exported(name)
    (tmp_path / "g.csv.part").write_text("mine")
    with pytest.raises(ValueError, match="does not exist yet"):
        exported("g.csv")
    assert (tmp_path / "g.csv.part").read_text() == "mine"
    monkeypatch.setattr("epsilog.ledger.exports.flatten_entry", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        exported("f.csv")
    assert not list(tmp_path.glob("f.csv*"))


@pytest.mark.parametrize(
    "words",
    [
        *[("set-cap", "x", *ACT), ("retire", "x", *ACT), ("headroom", "x"), ("register-plan", "x", HASH, "--key", "k")],
        ("declare-partition", "x/y", *ACT),
        *[(verb, "k", *ACT) for verb in ("revoke", "abandon", "decommission")],
        *[("start", "k"), ("commit", "k"), ("cancel", "k", "--reason", "no"), ("expire", "k")],
        *[
            ("history",),
            ("watch", "--limit", "1"),
            ("export", "-o", "e.csv"),
            ("backup", "-o", "s.db"),
            ("accept-restore", *ACT),
        ],
        ("verify",),
    ],
    ids=lambda words: words[0],
)
def test_only_making_a_budget_makes_a_ledger(tmp_path, words):
    done = CliRunner().invoke(app, ["ledger", *words, "-l", str(tmp_path / "none.db")])
    assert "ledger must be a ledger file that exists" in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_backup_is_restored_and_accepted(ask, reserve, books, tmp_path):
    reserve("run")
    saved, again = tmp_path / "saved.db", tmp_path / "again.db"
    before = verify_ledger(books)
    told = {"file": str(saved), "entries": before.count, "head": before.head}
    assert ask("backup", "-o", saved, as_json=True) == (0, told)
    restore = ["ledger", "restore", str(saved), "-l", str(again), *ACT]
    assert "both could be spent" in str(CliRunner().invoke(app, restore).exception)
    books.unlink()
    done = CliRunner().invoke(app, restore)
    assert (done.exit_code, "until its owner accepts" in done.output) == (0, True)
    with open_ledger(again) as ledger, pytest.raises(ConflictError, match="restored from a backup"):
        ledger.charge("acme", PureDP(0.0), key="1")
    done = CliRunner().invoke(app, ["ledger", "accept-restore", "-l", str(again), *ACT])
    assert (done.exit_code, done.output) == (0, f"{again} accepts charges again (entry {before.count + 2})\n")
    done = CliRunner().invoke(app, ["ledger", "show", "-l", str(again), "--json"])
    assert json.loads(done.output)["restored"] == [before.count + 1]
    with open_ledger(again) as ledger:
        ledger.charge("acme", PureDP(0.0), key="1")


def test_doctor_looks_at_a_ledger_and_ends_as_it_found_it(books, monkeypatch):
    monkeypatch.setattr("epsilog.ledger.diagnostics.get_file_system", lambda _: "ext4")
    books.parent.chmod(0o700)

    def looked(*more):
        done = CliRunner().invoke(app, ["doctor", "--ledger", str(books), *more])
        return done.exit_code, done.output

    code, text = looked("--json")
    assert (code, [one["well"] for one in json.loads(text)["remarks"]]) == (0, [True] * 7)
    assert "1 entries hold" in looked()[1]
    books.chmod(0o666)
    assert (looked()[0], "not well" in looked()[1]) == (5, True)
    books.write_bytes(books.read_bytes().replace(b'"2"', b'"9"'))
    assert looked()[0] == 4


def test_a_promise_is_made_shown_and_changed(ask):
    promise = ("--epsilon", 2, "--delta", "1e-5")
    code, text = ask("create", "other", "--kind", "gdp", *promise)
    assert (code, text.split(": ")[1]) == (
        0,
        "mu_squared 0.251554096458428 (gdp), which guarantees epsilon 2, delta 0.00001\n",
    )
    said = {"epsilon": "2", "delta": "0.00001"}
    assert ask("create", "other", "--kind", "gdp", *promise, as_json=True)[1]["target_guarantee"] == said
    text = ask("set-cap", "other", "--epsilon", 3, "--delta", "1e-5", *ACT)[1]
    assert re.search(r"cap mu_squared 0\.5\d+ \(for epsilon 3, delta 0\.00001\); spent mu_squared 0;", text)
    shown = ask("show", as_json=True)[1]
    assert [budget["target_guarantee"] for budget in shown["budgets"]] == [None, {"epsilon": "3", "delta": "0.00001"}]
    assert "(for delta 0.00001, epsilon 3); dora: agreed" in ask("history")[1]


def test_a_budget_declares_renyi_orders_or_promises_by_them(ask):
    code, text = ask("create", "o", "--kind", "rdp", "--rdp", "8=3", "--rdp", "2=1")
    assert (code, text.split(": ")[1]) == (0, "rdp_2 1, rdp_8 3 (rdp)\n")
    made = ask("create", "p", "--kind", "rdp", "--epsilon", 2, "--delta", "1e-5", "--orders", "8, 16", as_json=True)[1]
    assert (list(made["caps"]), made["target_guarantee"]["epsilon"]) == (["rdp_8", "rdp_16"], "2")
    assert "rdp_2 2, rdp_8 4; spent" in ask("set-cap", "o", "--rdp", "2=2", "--rdp", "8=4", *ACT)[1]
    for wrong in (("--rdp", "8"), ("--rdp", "1=3"), ("--rdp", "2=1", "--rdp", "2.0=1"), ("--orders", "8")):
        with pytest.raises(ValueError, match=r"rdp|order"):
            ask("create", "q", "--kind", "rdp", *wrong)
    left = made["caps"]
    assert f"at most rdp_8 {left['rdp_8']} or rdp_16 {left['rdp_16']}" in " ".join(ask("headroom", "p")[1].split())
    assert "at most rdp_2 2, rdp_8 4" in " ".join(ask("headroom", "o")[1].split())
    shown = ask("show", as_json=True)[1]["budgets"]
    assert {budget["scope"]: list(budget["available"]) for budget in shown if budget["kind"] == "rdp"} == {
        "o": ["rdp_2", "rdp_8"],
        "p": ["rdp_8", "rdp_16"],
    }


def test_a_ledger_is_verified_and_held_against_a_signed_checkpoint(ask, reserve, books, tmp_path):
    told = {
        "since": 0,
        "charges_told": True,
        "priced": 0,
        "unpriced": 0,
        "overridden": [],
        "restored": [],
        "partitions": [],
    }
    assert ask("verify", as_json=True) == (0, told | {"entries": 1, "head": verify_ledger(books).head})
    reserve("k")
    shutil.copy(books, tmp_path / "old.db")
    key, point = tmp_path / "auditor.pem", tmp_path / "checkpoint.txt"
    signer = SigningKey.create("example.org/auditor")
    signer.save(key)
    ask("checkpoint", "--sign", key, "-o", point)
    reserve("later")
    since = ("verify", "--since", point, "--key", signer.verifier)
    code, said = ask(*since, as_json=True)
    assert (code, said) == (0, told | {"entries": 3, "head": verify_ledger(books).head, "since": 2, "priced": 1})
    code, text = ask(*since)
    assert "begins with the 2 entries of the checkpoint. Their costs were not recomputed" in text
    ask("checkpoint", "--sign", key, "-o", point)
    shutil.copy(tmp_path / "old.db", books)  # put back, as an owner may
    with pytest.raises(LedgerIntegrityError, match="covers 3 entries, but the ledger has 2: truncated"):
        ask(*since)
    for words in (("--since", point), ("--since", point, "--key", SigningKey.create("b.org/c").verifier)):
        with pytest.raises(CheckError, match="checkpoint must be signed by"):
            ask("verify", *words)
    with pytest.raises(CheckError, match="key must be absent without --since"):
        ask("verify", "--key", signer.verifier)
    point.write_bytes(b"")
    with pytest.raises(RecordError, match="is no checkpoint"):
        ask(*since)


# --- several at once --------------------------------------------------------------------------------------------------


def lines(folder, *charges):
    asked = [
        {"scope": "acme/x", "release": {"v": 1, "term": {"type": "pure", "epsilon": e}}, "key": k} for k, e in charges
    ]
    (folder / "charges.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    return folder / "charges.jsonl"


def test_a_file_of_charges_is_charged_as_a_whole_and_again_changes_nothing(ask, books, tmp_path):
    file = lines(tmp_path, ("a", 0.5), ("b", 0.25))
    code, text = ask("charge-many", file)
    assert (code, text.splitlines()[0]) == (0, "2 of 2 charged")
    assert "a at acme/x is charged: epsilon 0.5 (pure)" in text
    assert "is charged, as before" in ask("charge-many", file)[1]
    code, document = ask("charge-many", file, as_json=True)
    assert (code, document["charged"], document["refused"]) == (0, 2, 0)
    assert [one["replayed"] for one in document["charges"]] == [True, True]
    assert verify_ledger(books).count == 3


def test_a_refused_line_is_named_and_nothing_is_charged_unless_each_stands_alone(ask, books, tmp_path):
    file = lines(tmp_path, ("a", 0.5), ("b", 9.0), ("c", 0.25))
    with pytest.raises(BatchRefusedError, match=r"^line 2 \(key 'b'\) is refused, and nothing was charged: budget of"):
        ask("charge-many", file)
    assert verify_ledger(books).count == 1
    code, text = ask("charge-many", file, "--each")
    assert (code, text.splitlines()[0]) == (3, "2 of 3 charged")
    assert "b at acme/x is refused: budget of 'acme' refuses" in text
    assert verify_ledger(books).count == 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 must be the JSON of a charge"),
        ("[]", "line 2.charge must be a dict"),
        ('{"scope": "acme", "key": "a", "key": "b"}', "line 2 must be the JSON of a charge.*twice"),
        ('{"scope": "acme", "key": "a"}', "line 2.release must be given"),
        (
            '{"scope": "acme", "key": "a", "release": {"v": 1, "term": {"type": "pure", "epsilon": 1}}, "x": 1}',
            "line 2.fields",
        ),
        (
            '{"scope": "acme", "key": "a", "release": {"v": 1, "term": {"type": "pure", "epsilon": -1}}}',
            "line 2.release",
        ),
        ("", "line 2 must be the JSON of a charge"),
    ],
)
def test_a_line_that_is_no_charge_is_named_before_anything_is_charged(ask, books, tmp_path, line, message):
    file = lines(tmp_path, ("a", 0.5))
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(CheckError, match=message):
        ask("charge-many", file)
    assert verify_ledger(books).count == 1


@pytest.mark.parametrize("exists", [True, False])
def test_a_ledger_in_a_database_must_exist(monkeypatch, exists):
    monkeypatch.setattr("epsilog.ledger.ledger_exists", lambda _: exists)
    address = "postgresql://anna:secret@localhost/books?ledger=claims"
    if exists:
        assert require_ledger(address) == address
        return
    with pytest.raises(CheckError, match="ledger must be one that exists") as found:
        require_ledger(address)
    assert "secret" not in str(found.value)


# --- time blocks ------------------------------------------------------------------------------------------------------


def test_the_next_blocks_are_told_and_there_once(ask, books):
    with pytest.raises(ConflictError, match="no block before"):
        ask("create-blocks", "acme", "--period", "year")
    with open_ledger(books) as ledger:
        ledger.create_budget("acme/2001", kind="pure", epsilon="1")
    code, document = ask("create-blocks", "acme", "--period", "year", "--next-periods", "2", as_json=True)
    assert (code, [one["caps"] for one in document["created"]]) == (0, [{"epsilon": "1"}] * 3)
    assert ask("create-blocks", "acme", "--period", "year") == (0, "Every block is there.\n")
    assert "cap epsilon 1" in ask("create-blocks", "acme", "--period", "year", "--next-periods", "3")[1]
    with pytest.raises(CheckError, match="period must be"):
        ask("create-blocks", "acme", "--period", "moon")


def test_what_waits_for_approval_is_listed(ask, tmp_path):
    assert "Nothing waits for approval." in ask("pending")[1]
    assert ask("create", "acme/r", "--kind", "pure", "--epsilon", 1, "--requires-approvals", 1)[0] == 0
    waiting = ("--key", "waiting", "--release", tmp_path / "r.json")
    assert ask("reserve", "acme/r/x", *waiting)[0] == 0
    code, told = ask("pending", "acme/r")
    assert (code, "waiting" in told, "0 of 1" in told) == (0, True, True)
    (pending,) = ask("pending", as_json=True)[1]
    assert (pending["key"], pending["required"], pending["approved"]) == ("waiting", 1, [])
    assert ask("approve", "waiting", "--actor", "dora")[0] == 0
    assert ask("pending", "acme/r", as_json=True)[1] == []
