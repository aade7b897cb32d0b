"""Any change in a report or its evidence makes verification fail."""

import copy
import json
import os
import shutil

import pytest
from tests.extent import amount
from tests.reports.drawn import drawn, finish, local, make_plan

from epsilog.ledger import open_ledger
from epsilog.reports import check_schema, render_html, verification, verify_report, verify_run
from epsilog.reports.rendering import extract_document
from epsilog.reports.verification import (
    COMPUTED,
    RECOMPUTE_TOLERANCE,
    REQUIRED_EVIDENCE,
    check_report,
    list_differences,
)
from epsilog.terms import RecordError, codec
from epsilog.verification import (
    Claim,
    LedgerReader,
    TrustAnchors,
    bound_any_sampler,
    parse_evidence,
    read_run_folder,
    verify_evidence,
)

PUBLIC = tuple(name for name in REQUIRED_EVIDENCE if name != "custody")
CARRIED = (("evidence", "plan"), ("evidence", "records"), ("owner",))  # what a report is built again from


def places(document, at=()):
    """Every place in a document, containers included; at each change, of a list's items the first and the last."""
    yield at
    if isinstance(document, dict):
        inner = list(document.items())
    else:
        inner = list(enumerate(document if isinstance(document, list) else ()))
        inner = inner[:: amount(max(1, len(inner) - 1), 1)]
    for name, value in inner:
        yield from places(value, (*at, name))


def changed(value):
    """Other values for one place."""
    if isinstance(value, bool):
        return [not value, int(value)]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, float):
        return [value * (1 + 1e-6), -value]
    if isinstance(value, str):
        return [value + "x", ""]
    if value is None:
        return [0]
    if isinstance(value, dict):
        return [value | {"surplus": 0}, None]
    return [[*value, *value[-1:]] if value else [0], [*value[1:], *value[:1]], None]


def mutants(document):
    """The document with one thing changed or missing: (place, document)."""
    for place in places(document):
        if not place:
            yield place, document | {"surplus": 0}
            continue
        value = document
        for step in place:
            value = value[step]
        for other in changed(value):
            if codec.encode_canonical(other) != codec.encode_canonical(value):
                yield place, put(document, place, other)
        yield place, put(document, place)


def put(document, place, *value):
    """A copy with another value at a place, or without one; it shares all other values with the document."""
    again, (step, *rest) = document.copy(), place
    if rest:
        again[step] = put(document[step], rest, *value)
    elif value:
        (again[step],) = value
    else:
        del again[step]
    return again


def spelt(document):
    return codec.encode_canonical(document) + b"\n"


def failed(files, reader, **options):
    """The failed checks; for unreadable evidence its error."""
    try:
        found = verify_run(files, reader, **options)
    except RecordError as error:
        return {str(error)}
    assert (found.status == "failed") == any(f.status == "failed" for f in found.findings)
    return {f.check for f in found.findings if f.status == "failed"}


def report_failed(content, reader):
    try:
        found = verify_report(content, reader, required=PUBLIC)
    except RecordError as error:
        return {str(error)}
    return {f.check for f in found.findings if f.status == "failed"}


@pytest.mark.slow
def test_an_untouched_run_passes_in_every_form(files, reader):
    whole = verify_run(files, reader, required=("report", "ledger", "custody", "page"))
    assert (whole.status, whole.answer) == ("passed", "Would hold")
    assert "Adding or removing one school makes any set of results" in whole.claim
    for form in ("report.json", "report.html"):
        alone = verify_report(files[form], reader)
        assert (alone.status, alone.answer) == ("passed", "Would hold, on the curator’s word")
        assert "Without that word, epsilon is at most" in alone.claim
        with_records = verify_report(files[form], reader, required=REQUIRED_EVIDENCE)
        assert (with_records.status, with_records.answer) == ("not checked", "Cannot tell, missing: custody")
        assert "only the unamplified claim can be checked" in with_records.claim, "the curator's word was refused"
        unbound = verify_report(files[form], None)
        assert "only the unamplified claim can be checked" in unbound.claim
        assert (unbound.status, unbound.answer) == ("not checked", "Cannot tell, missing: ledger")
        assert unbound.claim.startswith("No ledger was given, so nothing binds")
        assert verify_report(files[form], None, required=("report",)).status == "passed"


def test_nobody_can_tell_without_records_that_the_curator_did_not_check(files, reader):
    owner = codec.parse_json(files["owner.json"])
    owner["custody_checks"]["participation"] = "not checked"
    there = {name: content for name, content in files.items() if name not in ("custody.jsonl", "owner.json")}
    found = verify_run(there | {"owner.json": spelt(owner)}, reader, required=("report", "ledger"), complete=False)
    (finding,) = [one for one in found.findings if one.check == "participation"]
    assert (finding.status, finding.missing_evidence) == ("not checked", ""), "nobody's word stands for the records"


def test_a_warning_that_the_curator_attests_is_not_lost(files, reader):
    owner = codec.parse_json(files["owner.json"])
    owner["custody_checks"]["norms"] = "warned"
    there = {name: content for name, content in files.items() if name not in ("custody.jsonl", "owner.json")}
    found = verify_run(there | {"owner.json": spelt(owner)}, reader, required=("report", "ledger"), complete=False)
    (finding,) = [one for one in found.findings if one.check == "norms"]
    assert (finding.code, finding.status) == ("norms/attested", "warned")


@pytest.mark.slow
def test_a_report_of_another_version_fails_by_name(files, reader):
    new = codec.parse_json(files["report.json"])
    for version in (0, 1, 3, False, None):
        other = files | {"report.json": spelt(new | {"v": version})}
        found = next(one for one in verify_run(other, reader).findings if one.check == "report")
        assert (found.code, f"has version {version!r};" in found.message) == ("report/mismatch", True)
        with pytest.raises(ValueError, match="v:"):
            check_schema(new | {"v": version})


@pytest.mark.slow
def test_a_public_report_holds_no_figure_of_the_curators(files):
    report = codec.parse_json(files["report.json"])
    found = {f["check"]: f for f in report["verification"]["findings"]}
    for name in ("custody", "norms", "participation"):
        assert found[name]["values"] == {}
        assert found[name]["status"] == "passed"
    text = files["report.json"].decode() + files["report.html"].decode()
    for word in ("cohort_min", "clipped_fraction", "observed_rate", "observed cohort sizes"):
        assert word not in text


@pytest.mark.slow
@pytest.mark.every(1)
@pytest.mark.parametrize(
    ("name", "step"), [("plan.json", 23), ("owner.json", 9), ("rounds.jsonl", 5), ("custody.jsonl", 5)]
)
def test_every_changed_place_of_the_evidence_fails(files, reader, name, step):
    """Of records, those of one line; each change passes a sample of the places."""
    bare = {key: content for key, content in files.items() if key != "report.html"}
    before, line, *after = [b"", files[name]] if name.endswith(".json") else files[name].splitlines(keepends=True)
    sample = list(mutants(codec.parse_json(line)))[:: amount(step, 1)]
    assert len(sample) > 5
    for place, document in sample:
        assert failed(bare | {name: b"".join([before, spelt(document), *after])}, reader), place


@pytest.mark.parametrize("name", ["rounds.jsonl", "custody.jsonl"])
def test_records_that_are_no_objects_or_out_of_order_fail(files, reader, name):
    first, *rest = files[name].splitlines(keepends=True)
    records = [first, *rest]
    for line in (0, None, [], {}):
        assert failed(files | {name: b"".join([first, spelt(line), *rest[1:]])}, reader), line
    for order in ([1, 0, 2, 3], [0, 1, 2], [0, 1, 1, 2, 3], [0, 1, 2, 3, 3], []):
        assert failed(files | {name: b"".join(records[i] for i in order)}, reader), order


@pytest.mark.slow
def test_every_changed_place_of_a_report_fails(files, reader):
    """All by comparison with the rebuilt report; some by verifying the evidence inside it."""
    report, count = codec.parse_json(files["report.json"]), 0
    assert not list(list_differences(report, codec.parse_json(files["report.json"])))
    for place, document in mutants(report):
        count += 1
        part = place[0] if place else "surplus"  # what a report is compared with, where it was not carried
        assert any(list_differences(document.get(part, ...), report.get(part, ...), (part,))), place
        carried = any(place[: len(inner)] == inner for inner in CARRIED)
        if count % amount(199 if carried else 401, 11 if carried else 61) == 0:
            assert report_failed(spelt(document), reader), place
            assert failed(files | {"report.json": spelt(document)}, reader), place
    assert count > amount(900, 1500)


@pytest.mark.slow
def test_a_report_alone_is_checked_for_consistency(files):
    """Without a ledger only the report's account of the ledger can be changed in more than one place at once."""
    for place, document in list(mutants(codec.parse_json(files["report.json"])))[:: amount(291, 97)]:
        assert report_failed(spelt(document), None), place


@pytest.mark.slow
def test_former_faults_are_detected(files, reader):
    def edited(change):
        report = codec.parse_json(files["report.json"])
        change(report)
        return spelt(report)

    def anonymous(report):
        report["claim"]["statement"] = "The released models are (0.01, 1e-12)-differentially private and anonymous."

    def real(report):
        report["simulation"] = False

    def louder(report):
        report["mechanism"]["scheme"]["noise_multiplier"] = 60.0
        report["mechanism"]["release"]["release"]["release"]["noise_multiplier"] = 60.0
        report["claim"]["guarantee"]["epsilon"] = report["claim"]["epsilon"]["upper"] = 0.078

    for change in (anonymous, real, louder):
        content = edited(change)
        assert report_failed(content, reader) == {"report"}
        assert report_failed(content, None) == {"report"}
        assert "report" in failed(files | {"report.json": content}, reader)
        forged = render_html(codec.parse_json(content)).encode()  # a page that is true to the forged report
        assert report_failed(forged, reader) == {"report"}


@pytest.mark.parametrize("kept", ["custody.jsonl", "owner.json", "ledger", "report.json"])
def test_missing_committed_evidence_fails(files, reader, kept):
    there = {name: content for name, content in files.items() if name != kept}
    found = verify_run(there, None if kept == "ledger" else reader)
    assert found.status == ("not checked" if kept == "report.json" else "failed")
    told = {f.check: f.status for f in found.findings}
    if kept == "custody.jsonl":
        assert told["custody"] == "failed"
        waived = verify_run(there, reader, required=PUBLIC)
        assert waived.status == "passed"
        assert waived.answer == "Would hold, on the curator’s word"
        assert "Without that word, epsilon is at most" in waived.claim
    if kept == "ledger":
        assert told["ledger"] == "failed"
        assert found.claim.endswith("so no guarantee is supported.")


def test_documents_have_one_spelling(files, reader):
    plan, line = files["plan.json"], files["rounds.jsonl"].splitlines(keepends=True)[0]
    for name, content in {
        "plan.json": plan[:-1],
        " plan.json": plan + b"\n",
        "  plan.json": json.dumps(codec.parse_json(plan), indent=1).encode(),
        "   plan.json": plan.replace(b'{"budget"', b'{"budget":{},"budget"', 1),
        "    plan.json": b"\xef\xbb\xbf" + plan,
        "     plan.json": plan.decode().encode("utf-16"),
        "      plan.json": b"[" * 100_000,
        "rounds.jsonl": files["rounds.jsonl"][:-1],
        " rounds.jsonl": files["rounds.jsonl"].replace(b"\n", b"\r\n"),
        "  rounds.jsonl": b"\n" + files["rounds.jsonl"],
        "   rounds.jsonl": files["rounds.jsonl"].replace(line, line.replace(b'"test_loss":1', b'"test_loss":NaN')),
        "    rounds.jsonl": files["rounds.jsonl"].replace(line, line.replace(b'"test_loss":1', b'"test_loss":1e999')),
        "     rounds.jsonl": files["rounds.jsonl"].replace(line, line.replace(b'"test_loss":1', b'"test_loss":1.0')),
        "      rounds.jsonl": b"\xff\xfe" + files["rounds.jsonl"],
    }.items():
        assert content != files[name.strip()]
        with pytest.raises(RecordError, match=name.strip()):
            verify_run(files | {name.strip(): content}, reader)
    report = files["report.json"]
    for content in (
        report.replace(b'"simulation":true', b'"simulation":false,"simulation":true', 1),
        report.replace(b'"v":2', b'"v":NaN'),
        report[:-2],
        b"\xff" + report,
    ):
        with pytest.raises(RecordError, match="report"):
            verify_run(files | {"report.json": content}, reader)
        with pytest.raises(RecordError, match="report"):
            verify_report(content, reader)


@pytest.mark.slow
def test_a_page_is_checked_byte_for_byte(files, reader):
    page = files["report.html"]
    assert extract_document(page) == files["report.json"].rstrip(b"\n")
    for edited in (
        page.replace(b"Rehearsal.", b"Certified.", 1),
        page.replace(b"</body>", b"<p>anonymous</p></body>"),
        page + b"<!-- -->",
        page.replace(b"<main>", b'<main><pre id="document">{}</pre>', 1),
        page.replace(b"&#34;simulation&#34;:true", b"&#34;simulation&#34;:false", 1),
        page.replace(b"<style>", b"<script>document.title='x'</script><style>", 1),
    ):
        assert edited != page
        assert report_failed(edited, reader)
        assert "page" in failed(files | {"report.html": edited}, reader)
    assert report_failed(b"<!doctype html><title>no report</title>", reader)


@pytest.fixture(scope="module")
def another(tmp_path_factory):
    """Makes another run, in another ledger."""

    def make(plan, **options):
        folder = tmp_path_factory.mktemp("other") / "run"
        finish(folder, folder.parent / "ledger.db", plan, **options)
        return read_run_folder(folder), LedgerReader.read(folder.parent / "ledger.db")

    return make


@pytest.mark.slow
def test_files_of_another_run_fail(files, reader, another):
    same_plan, their_reader = another(make_plan(), seed=77)
    other_plan, other_reader = another(make_plan(name="other"), seed=9)
    assert verify_run(same_plan, their_reader).status == verify_run(other_plan, other_reader).status == "passed"
    for others, ledger in ((same_plan, their_reader), (other_plan, other_reader)):
        assert failed(files, ledger)
        assert failed(others, reader)
        for name in ("rounds.jsonl", "custody.jsonl", "owner.json", "report.json", "report.html", "plan.json"):
            if others[name] != files[name]:
                assert failed(files | {name: others[name]}, reader), name
        both = {name: others[name] for name in ("rounds.jsonl", "custody.jsonl")}
        assert failed(files | both, reader)
        assert report_failed(others["report.json"], reader)


@pytest.mark.slow
def test_a_report_survives_new_charges_but_not_truncation(finished, files, tmp_path):
    """The ledger may grow; a ledger that was set back, or that never knew the plan, is no witness."""
    ledger = tmp_path / "ledger.db"
    before = LedgerReader.read(finished.parent / "ledger.db")
    shutil.copyfile(finished.parent / "ledger.db", ledger)
    grown = tmp_path / "grown"
    finish(grown / "run", grown / "ledger.db", make_plan(), seed=1)
    with open_ledger(grown / "ledger.db") as more:
        more.create_budget("elsewhere", kind="pure", epsilon="1")
    later = LedgerReader.read(grown / "ledger.db")
    assert verify_run(read_run_folder(grown / "run"), later, trust=TrustAnchors(later.heads[3])).status == "passed"
    assert failed(read_run_folder(grown / "run"), later, trust=TrustAnchors("0" * 64)) == {"head"}
    cut = LedgerReader(
        before.entries[:-1], before.heads[:-1]
    )  # as if its owner had written it afresh without the commit
    assert {"report"} <= failed(files, cut)
    assert report_failed(files["report.json"], cut) == {"report"}
    nothing = LedgerReader(before.entries[:1], before.heads[:1])
    assert {"charge", "report"} <= failed(files, nothing)


@pytest.mark.slow
def test_repeated_attempts_are_counted_with_a_what_if(another):
    evidence, ledger = another(make_plan(), seed=5, begun=(2, 3))
    found = verify_run(evidence, ledger)
    told = {f.check: f for f in found.findings}
    assert found.status == "warned"
    assert told["attempts"].status == "warned"
    assert "2 further attempts at rounds are recorded, at [2, 3]" in told["attempts"].message
    assert dict(told["attempts"].values) == {"rounds_begun": 4, "attempts": 6}
    (priced,) = [w for w in found.what_ifs if w.name == "every attempt released"]
    report = codec.parse_json(evidence["report.json"])
    assert priced.epsilon > report["claim"]["epsilon"]["upper"]
    assert priced.name in [w["name"] for w in report["verification"]["what_ifs"]]
    once = copy.deepcopy(report)
    once["evidence"]["ledger"]["attempts"]["2"] = 1
    assert report_failed(spelt(once), ledger)
    assert report_failed(spelt(once), None)


@pytest.mark.slow
def test_a_violated_participation_cap_leaves_full_participation(another):
    """Three rounds of one client where two were allowed: the bound for known lists assumes the cap and is void too."""
    plan = make_plan(local, name="local")
    public, private = drawn(plan.scheme, 3)
    stuffed = [type(one)(one.round, (0, 1, 2, 3), one.largest_norm, one.clipped_fraction) for one in private]
    evidence, ledger = another(plan, records=(public, stuffed))
    found = verify_run(evidence, ledger)
    assert {f.check for f in found.findings if f.status == "failed"} == {"participation"}
    alone = verify_report(evidence["report.json"], ledger, required=PUBLIC)  # the owner's own word is enough to fail
    assert [f.check for f in alone.findings if f.status == "failed"] == ["participation"]
    left = bound_any_sampler(Claim.from_plan(plan))
    assert left > plan.unamplified.upper
    report = codec.parse_json(evidence["report.json"])
    assert f"({left:.4g}"[:4] in report["claim"]["statement"]
    assert "only the unamplified claim remains" in report["claim"]["statement"]


def test_links_pipes_and_giants_are_refused(finished, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (folder / "rounds.jsonl").rename(tmp_path / "elsewhere")
    (folder / "rounds.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RecordError, match="symbolic link"):
        read_run_folder(folder)
    (folder / "rounds.jsonl").unlink()
    os.mkfifo(folder / "rounds.jsonl")
    with pytest.raises(RecordError, match="regular file"):
        read_run_folder(folder)
    (folder / "rounds.jsonl").unlink()
    with (folder / "rounds.jsonl").open("wb") as hole:
        hole.truncate(1 << 40)
    with pytest.raises(RecordError, match="at most"):
        read_run_folder(folder)
    os.truncate(folder / "rounds.jsonl", 2**29 + 1)  # half a gigabyte is read
    with pytest.raises(RecordError, match="at most 536870912 bytes, got 536870913"):
        read_run_folder(folder)
    (folder / "rounds.jsonl").unlink()
    (folder / "rounds.jsonl").mkdir()
    with pytest.raises(RecordError, match=r"rounds.jsonl"):
        read_run_folder(folder)


@pytest.mark.parametrize("error", [KeyError("x"), TypeError("x"), ZeroDivisionError("x"), RecursionError("x")])
def test_evidence_that_breaks_a_check_is_refused(files, reader, monkeypatch, error):
    def breaks(*_, **__):
        raise error

    monkeypatch.setattr(verification, "verify_evidence", breaks)
    with pytest.raises(RecordError, match=r"this evidence cannot be checked: .*x"):
        verify_run(files, reader)
    with pytest.raises(RecordError, match=r"this evidence cannot be checked: .*x"):
        verify_report(files["report.json"], reader)


@pytest.mark.parametrize("wrong", [1, 2, 3, 4, 7])
def test_a_mismatch_names_three_places_and_counts_the_rest(files, reader, wrong):
    report = codec.parse_json(files["report.json"])
    names = sorted(report["evidence"]["plan"])[:0] or sorted(report)[:wrong]
    for name in names:
        report[name] = "otherwise"
    found = check_report(report, verify_evidence(parse_evidence(files, reader)))
    assert found.status == "failed"
    assert [f"{name}: 'otherwise' instead of" in found.message for name in names] == [True] * min(wrong, 3) + [
        False
    ] * (wrong - 3)
    assert found.message.endswith(f"; and {wrong - 3} more." if wrong > 3 else ".")
    assert ("more." in found.message) == (wrong > 3)


def test_integers_equal_floats_and_booleans_do_not():
    """What was computed may differ in its last digits; everything else is equal, and of one kind."""
    for place in (at for at in COMPUTED if all(isinstance(step, str) for step in at)):

        def at(value, place=place):
            for step in reversed(place):
                value = {step: value}
            return value

        assert list(list_differences(at(0.5), at(0.5 * (1 + RECOMPUTE_TOLERANCE / 2)))) == []
        assert list(list_differences(at(0.5), at(0.5 * (1 + 4 * RECOMPUTE_TOLERANCE)))) == [
            (place, 0.5, 0.5 * (1 + 4 * RECOMPUTE_TOLERANCE))
        ]
        assert list(list_differences(at(1), at(1.0))) == []
        assert len(list(list_differences(at(1), at(True)))) == 1
    stated = {"rounds": 4}
    assert list(list_differences(stated, {"rounds": 4.0})) == []
    for other in (True, "4", None, 4.000000000001, [4]):
        assert len(list(list_differences(stated, {"rounds": other}))) == 1


A, B, C = [1, 2], [3], {"x": 1}


@pytest.mark.parametrize(
    ("stated", "again", "found"),
    [
        ([1, 2, 3], [1, 2], [(2,)]),
        ([1], [1, 2, 3], [(1,), (2,)]),
        ([], [[]], [(0,)]),
        ([0, 2, 0], [1, 2, 3], [(0,), (2,)]),
        ({"a": 1}, {"b": 1}, [("a",), ("b",)]),
        ({"a": A, "b": B, "c": C}, {"a": A, "b": [4], "c": {}}, [("b", 0), ("c", "x")]),
        ({"a": [A, B]}, {"a": [A, C]}, [("a", 1)]),
        ({}, [], [()]),
        (None, False, [()]),
        ("1", 1, [()]),
        (float("inf"), "inf", [()]),
    ],
    ids=str,
)
def test_every_difference_of_two_documents_is_listed(stated, again, found):
    assert [place for place, _, _ in list_differences(stated, again)] == found
    assert [place for place, _, _ in list_differences(again, stated)] == found
    assert [(b, a) for _, a, b in list_differences(stated, again)] == [
        (a, b) for _, a, b in list_differences(again, stated)
    ]
