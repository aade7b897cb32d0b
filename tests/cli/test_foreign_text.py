"""What somebody wrote into a document reaches no terminal and no page as anything but text, whichever field it is in.

Each document that ``epsilog`` reads is spoiled in one text at a time, a value or a name, and read by every command that
shows it. Whatever that command makes of it, each character that comes out has a glyph, or ends a line of ours.
"""

import contextlib
import json
import shutil
import sys
from functools import cache

import pytest
import typer.main
from jinja2 import UndefinedError
from tests.reports.drawn import audit_of, finish, make_plan, scored
from tests.reports.test_verification import put, spelt
from tests.verification.logs.simulated import MAPPING, honest, save

from epsilog import reports
from epsilog.cli.app import load, main
from epsilog.ledger import iterate_verified_documents, open_ledger, write_bundle
from epsilog.mechanisms import PureDP
from epsilog.plan import QUESTIONS
from epsilog.reports import render_html
from epsilog.reports.rendering import extract_document
from epsilog.terms import Canaries, Finding, Status, codec
from epsilog.terms.legible import legible
from epsilog.terms.notebook import render_html_table

app = load()

HOSTILE = (
    "x\x1b[2J\x1b]0;title\x07\x9b1m\x90q\x7f\r\n\tpassed"  # CSI and OSC, in seven bits and in eight; a line of its own
    "\u202e\u2066\u200f\u061c"  # directions
    "\u200b\u200d\u2060\ufeff\u00ad\u180e\u034f\u3164\ufe0f\U000e0041"  # nothing to see
    "\u2028\u2029"
)


def seen(text):
    """The characters in an output that are not to be there."""
    return sorted({c for c in text if c != "\n" and legible(c) != c})


@cache
def _command():
    return typer.main.get_command(app)


@pytest.fixture
def epsilog(monkeypatch, capsys, tmp_path):
    """Runs the command line as a shell does; everything that it wrote, anywhere, is looked at."""

    monkeypatch.setattr("epsilog.cli.app.load", lambda *_: _command())

    def run(*words, written=()):
        monkeypatch.setattr(sys, "argv", ["epsilog", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        told = capsys.readouterr()
        assert code in (0, 2, 4, 5, 6), (words, code, told.err)
        assert "Traceback" not in told.err
        for text in (told.out, told.err, *(file.read_text() for file in written if file.exists())):
            assert seen(text) == [], (words, seen(text))
        if "--json" in words and told.out:
            json.loads(told.out)
        return told.out + told.err

    return run


def places(value, at=()):
    """Places of texts and of names in a document: of lists, the first and the last element stand for all."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield at, name
            yield from places(inner, (*at, name))
    elif isinstance(value, list):
        for i in sorted({0, len(value) - 1} if value else ()):
            yield from places(value[i], (*at, i))
    elif isinstance(value, str):
        yield at, None


def spoiled(document):
    """The document with one text, or one name, that is hostile."""
    for at, name in places(document):
        value = document
        for step in at:
            value = value[step]
        if name is None:
            yield at, put(document, at, HOSTILE)
        else:
            renamed = {HOSTILE if key == name else key: inner for key, inner in value.items()}
            yield (*at, f"({name})"), put(document, at, renamed) if at else renamed


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign") / "run"
    canaries = Canaries(64, "5a" * 32)
    plan = make_plan(**audit_of(canaries))
    finish(folder, folder.parent / "ledger.db", plan, scores=scored(canaries, 0.1))
    return folder


def some(cases, full):
    """All cases, or a spread of them where tests are to be fast."""
    cases = list(cases)
    return cases if full else cases[:: max(1, len(cases) // 3)]


FULL = [pytest.param(False), pytest.param(True, marks=pytest.mark.extended)]


def test_hidden_characters_and_no_others_become_escapes():
    assert seen(HOSTILE) != []
    assert seen(legible(HOSTILE)) == []
    assert json.loads(f'"{legible(HOSTILE)}"') == HOSTILE
    kept = "Zoë, Ζωή, Зоя, זואי, زوي, 조이, ゾーイ, 佐伊 – “é” ½ €\u00a0\u3000🙂"
    assert legible(kept) == kept


def test_a_finding_quotes_nothing_that_is_not_legible():
    assert Finding("a/b", Status.FAILED, f"got {HOSTILE}").message == f"got {legible(HOSTILE)}"


@pytest.mark.slow
@pytest.mark.parametrize("full", FULL)
def test_a_report_and_its_page(run, tmp_path, epsilog, full):
    file, page, out = tmp_path / "report.json", tmp_path / "report.html", tmp_path / "verdict.md"
    report = json.loads((run / "report.json").read_bytes())
    for i, (_, document) in enumerate(some(spoiled(report), full)):
        file.write_bytes(spelt(document))
        if i % 2:
            epsilog("verify", file, "--ledger", run.parent / "ledger.db", "-o", out, written=[out])
        else:
            epsilog("verify", file, "--json")
        with contextlib.suppress(KeyError, TypeError, ValueError, UndefinedError):  # a document that is no report
            made = render_html(document)
            page.write_text(made)
            assert seen(made) == []
            assert codec.parse_json(extract_document(made.encode())) == document
            if not full:
                epsilog("verify", page)


@pytest.mark.slow
@pytest.mark.parametrize("full", FULL)
def test_renderings_of_a_report(run, tmp_path, epsilog, full):
    report = json.loads((run / "report.json").read_bytes())
    folder = tmp_path / "run"
    folder.mkdir()
    kinds = ("markdown", "summary", "registry")
    for i, (_, document) in enumerate(some(spoiled(report), full)):
        (folder / "report.json").write_bytes(spelt(document))
        for kind in kinds if not full else kinds[i % 3 : i % 3 + 1]:
            out = tmp_path / kind
            epsilog("report", folder, "--format", kind, "-o", out, written=[out])
        if not full:
            epsilog("report", folder, "--json")


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize("name", ["plan.json", "owner.json", "canaries.json", "rounds.jsonl", "custody.jsonl"])
@pytest.mark.parametrize("full", FULL)
def test_the_files_of_a_run(run, tmp_path, epsilog, name, full):
    shutil.copytree(run, tmp_path / "run")
    shutil.copyfile(run.parent / "ledger.db", tmp_path / "ledger.db")
    first, *rest = (run / name).read_bytes().splitlines(keepends=True)
    out = tmp_path / "verdict.md"
    for _, document in some(spoiled(json.loads(first)), full):
        (tmp_path / "run" / name).write_bytes(spelt(document) + b"".join(rest))
        epsilog("verify", tmp_path / "run", "-o", out, written=[out])
        epsilog("verify", tmp_path / "run", "--json")


@pytest.mark.slow
@pytest.mark.parametrize("full", FULL)
def test_a_ledger_and_bundles_of_it(tmp_path, epsilog, full):
    at, act = tmp_path / "ledger.db", {"actor": HOSTILE, "reason": HOSTILE}
    with open_ledger(at) as ledger:
        caps = {"kind": "approximate", "privacy_unit": HOSTILE, "epsilon": "9", "delta": "1e-3"}
        ledger.create_budget("acme", **caps)
        ledger.create_budget("acme/old", **caps | {"epsilon": "1"})
        ledger.declare_partition("acme/q", epsilon="1", delta="0", **act)
        ledger.set_cap("acme", epsilon="8", delta="1e-3", **act)
        ledger.override_cost("acme", PureDP(2.0), key="odd", amount={"epsilon": "1", "delta": "0"}, reason=HOSTILE)
        ledger.charge("acme", PureDP(0.5), key="done")
        ledger.decommission("done", **act)
        gone = ledger.reserve("acme", PureDP(0.5), key="gone")
        ledger.revoke("gone", **act)
        ledger.reserve("acme", PureDP(0.5), key="left")
        ledger.abandon("left", **act)
        ledger.retire("acme/old", **act)
        ledger.mark_restored(**act)
        ledger.accept_restored(**act)
        assert gone.state == "cancelled"
        documents = list(iterate_verified_documents(ledger))
    bundle, out = tmp_path / "bundle", tmp_path / "verdict.md"
    write_bundle(documents, bundle, origin="o")
    for where in (at, bundle):
        assert "restored" in epsilog("verify", where, "-o", out, written=[out])
        epsilog("verify", where, "--json")
    for words in (["history"], ["show"], ["show", "acme"], ["verify"], ["balance", "acme"]):
        epsilog("ledger", *words, "--ledger", at)
        epsilog("ledger", *words, "--ledger", at, "--json")
    for document, one in some(((d, one) for d in documents for _, one in spoiled(json.loads(d))), full):
        (tmp_path / "edited").write_text(bundle.read_text().replace(document, json.dumps(one)))
        epsilog("verify", tmp_path / "edited", "-o", out, written=[out])


@pytest.mark.parametrize("full", FULL)
def test_a_calculation_record(tmp_path, epsilog, full):
    record = reports.stamp_calculation(
        QUESTIONS["/queries"].parse({"epsilon": 1.0, "queries": 3}),
        delta_reason="as agreed",
        references=[reports.FileReference("data", "visits.csv", "ab" * 32)],
    )
    file, out = tmp_path / "record.json", tmp_path / "verdict.md"
    for _, document in some(spoiled(record), full):
        file.write_bytes(codec.encode_canonical(document))
        epsilog("verify", file, "-o", out, written=[out])
        epsilog("verify", file, "--json")


@pytest.mark.slow
@pytest.mark.parametrize("full", FULL)
def test_a_mapping_and_its_logs(tmp_path, epsilog, full):
    escaped = json.dumps(HOSTILE)[1:-1].replace("\x7f", "\\u007f")
    lines = save(honest(), tmp_path).read_text().splitlines(keepends=True)
    out, report = tmp_path / "verdict.md", tmp_path / "report.md"
    for i, line in some([(i, line) for i, line in enumerate(lines) if '"' in line], full):
        head, _, rest = line.partition('"')
        spoilt = head + f'"{escaped}"' + rest.partition('"')[2]
        (tmp_path / "mapping.toml").write_text("".join([*lines[:i], spoilt, *lines[i + 1 :]]))
        epsilog("verify", "--logs", tmp_path / "mapping.toml", "-o", out, written=[out])
        epsilog("verify", "--logs", tmp_path / "mapping.toml", "--json")
        epsilog("report", "--logs", tmp_path / "mapping.toml", "-f", "markdown", "-o", report, written=[report])
    for spoil in (
        {"clients": lambda rows: [rows[0] | {"client": HOSTILE}, *rows[1:]]},
        {"clients": lambda rows: [rows[0] | {"at": HOSTILE}, *rows[1:]]},
        {"clients": lambda rows: [rows[0] | {"norm": HOSTILE}, *rows[1:]]},
        {"clients": lambda rows: [{HOSTILE if k == "norm" else k: v for k, v in row.items()} for row in rows]},
        {"rounds": lambda rows: [rows[0] | {"padding": HOSTILE}, *rows[1:]]},
        {"rounds": lambda rows: [rows[0] | {"ended": HOSTILE}, *rows[1:]]},
        {"rounds": lambda rows: [rows[0] | {"round": HOSTILE}, *rows[1:]]},
    ):
        save(honest(), tmp_path, mapping=MAPPING, **spoil)
        epsilog("verify", "--logs", tmp_path / "mapping.toml", "-o", out, written=[out])
        epsilog("verify", "--logs", tmp_path / "mapping.toml", "--json")


def test_a_playbook_and_what_a_publisher_adds(run, tmp_path, epsilog):
    told = json.dumps(HOSTILE)[1:-1].replace("\x7f", "\\u007f")
    rules, about, out = tmp_path / "playbook.toml", tmp_path / "about.toml", tmp_path / "out.md"
    rules.write_text(f'[steps]\nnoise = "{told}"\n"{told}" = "x"\n')
    epsilog("verify", run, "--playbook", rules, "-o", out, written=[out])
    rules.write_text(f'[steps]\nledger = "{told}"\nnoise = ["{told}"]\n')
    epsilog("verify", run / "report.json", "--playbook", rules, "-o", out, written=[out])
    for text in (f'organization = "{told}"\n', f'"{told}" = "x"\n', f'region = "{told}'):
        about.write_text(text)
        epsilog("report", run, "-f", "summary", "--publication-fields", about, "-o", out, written=[out])


def test_names_of_files_and_arguments(run, tmp_path, epsilog):
    odd = tmp_path / HOSTILE.replace("/", "").replace("\x00", "")
    shutil.copyfile(run / "report.json", odd)
    epsilog("verify", odd, "-o", tmp_path / "out.md", written=[tmp_path / "out.md"])
    epsilog("verify", tmp_path / "gone\x1b[2J")


def test_hashes_and_comparisons_are_of_the_original_text(tmp_path, epsilog):
    """A plan about one unit and a charge about its escape are two: what is shown alike is not taken for the same."""
    unit = "school\u200b"
    plan = make_plan(name="one")
    assert plan.hash == codec.hash_canonical(plan.to_json())
    assert legible(unit) == "school\\u200b" != unit
    finding = Finding("a/b", Status.PASSED, unit)
    assert finding == Finding("a/b", Status.PASSED, legible(unit))
    with open_ledger(tmp_path / "l.db") as ledger:
        ledger.create_budget("acme", kind="pure", privacy_unit=unit, epsilon="1")
        assert ledger.balance("acme").privacy_unit == unit
        document = next(iter(iterate_verified_documents(ledger)))
    assert unit in json.loads(document)["body"]["privacy_unit"]


def test_tables_in_notebooks():
    with_hostile = render_html_table(HOSTILE, [(HOSTILE, HOSTILE)], [HOSTILE, HOSTILE])
    assert seen(with_hostile) == []
