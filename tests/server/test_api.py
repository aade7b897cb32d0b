"""The API over a real socket: answers are the library's, errors name field, bound and value, nothing fails inside."""

import itertools
import json
import math
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epsilog import plan
from epsilog.server import create_app, page_data
from epsilog.terms import codec

RUN = {"population": 50_000, "cohort_size": 500, "rounds": 200, "noise_multiplier": 1.2}
MIX = {"parts": [{"mechanism": "gaussian", "parameter": 2.0, "count": 3}, {"mechanism": "pure", "parameter": 0.1}]}


@pytest.mark.slow
def test_federated_is_the_librarys_answer(site):
    found = site.post("federated", RUN)
    assert found.status == 200
    expected = json.loads(json.dumps(plan.plan_federated(**RUN).to_json()))
    assert {key: found.json()[key] for key in expected} == expected
    assert found.json()["delta_grade"] == "good"
    assert len(found.json()["limits"]) == 6


def test_queries_are_the_librarys_answer(site):
    ask = {"epsilon": 1.0, "queries": 100, "queries_used": 40}
    assert site.post("queries", ask).json()["shares"] == plan.queries(**ask).to_json()["shares"]


@pytest.mark.slow
def test_inverse_questions(site):
    goal = RUN | {"epsilon": 2.0}
    assert site.post("federated/noise", goal).json()["noise_multiplier"] == pytest.approx(0.838, abs=2e-3)
    assert site.post("federated/rounds", goal).json()["rounds"] == pytest.approx(1775, abs=3)
    points = site.post("federated/curve", RUN).json()["points"]
    assert points[-1]["rounds"] == 200
    assert points[-1]["formula"] < points[-1]["lower"]


def test_a_record_carries_the_hash_of_its_canonical_form(site):
    for path, ask in (("federated/record", RUN), ("queries/record", {"epsilon": 1.0, "queries": 3, "magnitude": 5.0})):
        stamped = site.post(path, ask).json()
        assert codec.hash_canonical(stamped["record"]) == stamped["sha256"]
        stamped["record"]["question"]["delta"] = 0.5
        assert codec.hash_canonical(stamped["record"]) != stamped["sha256"]


def test_no_noise_is_infinite_and_says_so(site):
    found = site.post("federated", RUN | {"noise_multiplier": 0.0})
    assert found.status == 200
    assert found.json()["epsilon"]["upper"] == "inf"


@pytest.mark.slow
def test_sensitivity_and_crossover(site):
    found = site.post("sensitivity", {"query": "mean", "low": 0, "high": 100, "size": 1000})
    assert found.json()["value"] == pytest.approx(0.1)
    assert site.post("queries/crossover", {"epsilon": 1.0, "delta": 1e-6}).json()["against_pure"] == 8


def test_a_mix(site):
    found = site.post("account", MIX).json()
    assert len(found["parts"]) == 2
    assert found["epsilon"]["upper"] > found["parts"][0]["alone"]["upper"]
    curves = site.post("account/profile", MIX | {"fpr": 0.05}).json()
    assert 0.05 < curves["tpr"] < 1
    tprs = [point["tpr"] for point in curves["roc"]]
    assert tprs == sorted(tprs)


@pytest.mark.parametrize(
    ("path", "ask", "field"),
    [
        ("federated", RUN | {"noise_multiplier": -1}, "noise_multiplier"),
        ("federated", RUN | {"cohort_size": 50_001}, "cohort_size"),
        ("federated", RUN | {"delta": 1.5}, "delta"),
        ("federated", RUN | {"population": "many"}, "population"),
        ("federated", RUN | {"rounds": 1.5}, "rounds"),
        ("federated", RUN | {"sampling": "coin"}, "sampling"),
        ("federated", RUN | {"surprise": 1}, "surprise"),
        ("federated", {}, "population"),
        ("federated/noise", RUN | {"epsilon": 0}, "epsilon"),
        ("queries", {"epsilon": 0, "queries": 1}, "epsilon"),
        ("queries", {"epsilon": 1, "queries": 2, "weights": [1]}, "weights"),
        ("queries", {"epsilon": 1, "queries": 2, "mechanism": "gaussian"}, "delta"),
        ("sensitivity", {"query": "mean"}, "size"),
        ("account", {"parts": []}, "parts"),
        (
            "account",
            {"parts": [{"mechanism": "gaussian", "parameter": 1, "sampling_probability": 2}]},
            "parts[0].sampling_probability",
        ),
        ("queries", {"epsilon": 1, "queries": 2, "weights": [1, -1]}, "weights[1]"),
        ("certificates", {"samples": 1}, "samples"),
    ],
)
def test_errors_name_the_field(site, path, ask, field):
    found = site.post(path, ask)
    assert found.status == 422
    assert found.headers["content-type"] == "application/problem+json"
    problem = found.json()
    assert set(problem) == {"type", "title", "status", "detail", "errors", "code", "check"}
    assert field in [error["field"] for error in problem["errors"]]
    assert all(set(error) == {"field", "message", "bound", "value"} for error in problem["errors"])


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"[]",
        b"NaN",
        b"\xff\xfe",
        json.dumps(RUN | {"noise_multiplier": math.nan}).encode(),
        b'{"population": 1e999}',
        b"null",
        b"[" * 30_000,
    ],
)
def test_unreadable_bodies_are_refused(site, raw):
    found = site.post("federated", raw=raw)
    assert found.status in {400, 422}
    assert found.headers["content-type"] == "application/problem+json"


def test_what_has_no_proof_is_refused_in_words(site):
    found = site.post("federated", RUN | {"sampling": "fixed-size"})
    assert (found.status, found.json()["type"]) == (422, "/problems/unsupported")
    assert "No nearby formula" in found.json()["detail"]


def test_unknown_addresses_and_methods_are_problems(site):
    for method, path, status in (
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v1/federated", 405),
        ("GET", "/x", 404),
    ):
        found = site.ask(method, path)
        assert (found.status, found.headers["content-type"]) == (status, "application/problem+json")


@pytest.mark.slow
def test_openapi_describes_every_address(site):
    document = site.ask("GET", "/api/openapi.json").json()
    paths = document["paths"]
    calculators = "federated federated/curve federated/noise federated/rounds federated/record queries queries/record"
    others = "queries/crossover sensitivity account account/profile account/compare runs runs/{name} ledger"
    entries = "ledger/entries ledger/cycles"
    checks = "ledger/verify ledger/verify/{name} ledger/verify/{name}/events ledger/verify/{name}/cancel"
    last = "runs/{name}/{file} certificates certificates/{name} certificates/{name}/{verb} certificates/{name}/events"
    for path in f"{calculators} {others} {entries} {checks} {last}".split():
        assert f"/api/v1/{path}" in paths
    for path, methods in paths.items():
        for method in methods.values():
            assert method["summary"], path
            assert method["description"], path


def test_the_ledger_as_it_stands(site):
    book = site.get("ledger").json()
    assert [budget["scope"] for budget in book["budgets"]] == ["acme/claims", "lab/study"]
    acme = book["budgets"][0]
    assert (acme["caps"], acme["spent"], acme["reserved"]) == (
        {"epsilon": "3"},
        {"epsilon": "1.75"},
        {"epsilon": "0.125"},
    )
    assert acme["theorem"]
    found = site.get("ledger/cycles?scope=acme/claims").json()
    assert found["caps"] == {"epsilon": "3"}
    assert [cycle["amount"]["epsilon"] for cycle in found["cycles"]] == ["0.5", "0.25", "1"]
    assert [cycle["cumulative"]["epsilon"] for cycle in found["cycles"]] == ["0.5", "0.75", "1.75"]
    newest = site.get("ledger/cycles?scope=acme/claims&limit=1").json()["cycles"]
    assert newest == found["cycles"][-1:]
    assert site.get("ledger/cycles?scope=acme").status == 422


def test_entries_chain_and_page(site):
    pages, cursor = [], None
    while not pages or cursor is not None:
        page = site.get("ledger/entries?limit=3" + (f"&before={cursor}" if cursor else "")).json()
        pages, cursor = [*pages, page["entries"]], page["next"]
    everything = [entry for page in pages for entry in page]
    assert len(everything) == site.get("ledger").json()["entries"] == everything[0]["index"]
    assert [entry["previous"] for entry in everything[:-1]] == [entry["hash"] for entry in everything[1:]]
    assert len(site.get("ledger/entries?scope=lab/study").json()["entries"]) == 4
    for wrong in ("limit=0", "limit=501", "before=0", "scope=%00", "before=99999999999999999999"):
        assert site.get(f"ledger/entries?{wrong}").status == 422


def checked(site):
    """The last word of a check of the ledger."""
    started = site.post("ledger/verify", {})
    assert started.status == 202
    stream = site.get(f"ledger/verify/{started.json()['id']}/events").body.decode()
    last = json.loads([line for line in stream.splitlines() if line.startswith("data: ")][-1][6:])
    assert last == site.get(f"ledger/verify/{started.json()['id']}").json()
    return last


def test_a_check_reports_and_ends_when_told(site, monkeypatch):
    from epsilog.ledger import replay

    monkeypatch.setattr(replay, "REPORT_EVERY", 1)
    going, waits = threading.Event(), threading.Event()
    fold = replay.LedgerReplay.fold

    def slow(books, entry):
        if entry.index == 6:
            waits.set()
            going.wait(10)
        fold(books, entry)

    monkeypatch.setattr(replay.LedgerReplay, "fold", slow)
    name = site.post("ledger/verify", {}).json()["id"]
    assert waits.wait(10)
    assert site.get(f"ledger/verify/{name}").json()["checked"] == 5
    assert site.post("ledger/verify", {}).json()["id"] == name  # a second check joins the first
    assert site.post(f"ledger/verify/{name}/cancel").json()["state"] == "cancelled"
    going.set()
    assert "sound" not in site.get(f"ledger/verify/{name}").json()
    monkeypatch.undo()
    assert checked(site)["sound"]


@pytest.mark.slow
def test_verify_says_sound_and_says_broken(site, serve_app, ledger_path, tmp_path):
    found = checked(site)
    assert found["sound"]
    assert found["head"] == site.get("ledger").json()["head"]

    broken = tmp_path / "broken.db"
    broken.write_bytes(ledger_path.read_bytes().replace(b"question-1", b"question-9"))
    with serve_app(create_app(ledger=str(broken))) as other:
        verdict = checked(other)
    assert verdict["sound"] is False
    assert verdict["says"]


def test_runs_and_their_reports(site):
    found = site.get("runs").json()["runs"]
    assert [run["name"] for run in found] == ["exam-scores-1"]
    assert found[0]["verdict"] == "passed"
    whole = site.get("runs/exam-scores-1").json()
    assert whole["identity"]["name"] == "exam-scores"
    assert found[0]["epsilon"] == whole["claim"]["supported"]
    spoilt = whole | {"claim": whole["claim"] | {"supported": "inf"}}
    assert page_data._summarize(spoilt)["epsilon"] == "inf", "what failed is not listed with what was planned"
    for kind in ("json", "html"):
        report = site.get(f"runs/exam-scores-1/report.{kind}")
        assert report.status == 200
        assert "attachment" in report.headers["content-disposition"]


@pytest.mark.parametrize(
    "path",
    [
        "runs/..",
        "runs/../../etc",
        "runs/%2e%2e",
        "runs/exam-scores-1/custody.jsonl",
        "runs/exam-scores-1/..%2freport.json",
        "runs/none",
        "runs/exam-scores-1%00",
    ],
)
def test_nothing_else_in_the_folder_is_served(site, path):
    found = site.get(path)
    assert found.status == 404
    assert b"must stay" not in found.body


@pytest.mark.slow
def test_a_server_without_ledger_or_runs_says_so(serve_app):
    with serve_app(create_app()) as bare:
        assert bare.get("ledger").json()["present"] is False
        assert bare.get("ledger/entries").status == 404
        assert bare.get("runs").json() == {"present": False, "runs": []}


def events(site, name):
    stream = site.get(f"certificates/{name}/events")
    assert stream.headers["content-type"].startswith("text/event-stream")
    return [json.loads(line[6:]) for line in stream.body.decode().splitlines() if line.startswith("data: ")]


@pytest.mark.slow
def test_a_certificate_narrows_to_the_exact_value(site):
    started = site.post("certificates", {"samples": 300_000, "epsilon": 1.0})
    assert started.status == 201
    seen = events(site, started.json()["id"])
    assert seen[-1]["state"] == "done"
    assert seen[-1]["interval"]["lower"] <= started.json()["exact"] <= seen[-1]["interval"]["upper"]
    document = site.get(f"certificates/{started.json()['id']}/evidence.json")
    assert seen[-1]["born"] == {"provenance": "entropy", "plan": document.json()["commitment"]}
    assert started.json()["born"] is None
    looks = seen[-1]["directions"]["remove"]["trail"]
    assert [looks[0]["draws"], looks[-1]["draws"]] == [16_384, 300_000]
    assert all(now["draws"] >= 1.08 * before["draws"] for before, now in itertools.pairwise(looks[:-1]))
    assert looks[-1]["upper"] - looks[-1]["lower"] < 0.4 * (looks[0]["upper"] - looks[0]["lower"])
    for look in looks:  # each looser than an interval for that number of draws alone
        assert look["lower"] <= started.json()["exact"] <= look["upper"]
        assert look["lower"] < look["estimate"] < look["upper"]
    assert looks[-1]["lower"] < seen[-1]["interval"]["lower"] < seen[-1]["interval"]["upper"] < looks[-1]["upper"]
    assert document.json()["simulation"] is False  # fresh entropy: a certificate, not a repeat
    from epsilog.accounting.montecarlo import recompute_document

    assert recompute_document(document.json(), shards=2) == ()


@pytest.mark.slow
def test_a_certificate_can_be_paused_resumed_and_cancelled(site):
    name = site.post("certificates", {"samples": 50_000_000}).json()["id"]
    assert site.get(f"certificates/{name}/evidence.json").status == 409
    assert site.post(f"certificates/{name}/pause").json()["state"] == "paused"
    time.sleep(0.5)
    still = site.get(f"certificates/{name}").json()["directions"]
    time.sleep(0.5)
    assert site.get(f"certificates/{name}").json()["directions"] == still
    assert site.post(f"certificates/{name}/resume").json()["state"] == "running"
    other = site.post("certificates", {"samples": 50_000_000}).json()["id"]
    assert site.post("certificates", {"samples": 1000}).status == 429
    for each in (name, other):
        site.post(f"certificates/{each}/cancel")
        assert events(site, each)[-1]["state"] == "cancelled"
    assert site.post(f"certificates/{name}/explode").status == 422
    assert site.get("certificates/none").status == 404


numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**60), 2**60),
    st.sampled_from([0, 1, 0.5, 1e-300, 1e300, -1, None, "x", [], True]),
)


@pytest.mark.slow
@pytest.mark.filterwarnings("default::RuntimeWarning")  # the accountant's, on its way to a refusal
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_input_makes_the_server_fail(site, data):
    """Drawn from the shapes of the OpenAPI document: any number anywhere gives an answer or a problem, never a 5xx."""
    shapes = {
        "federated": [
            "population",
            "cohort_size",
            "rounds",
            "noise_multiplier",
            "clip_norm",
            "delta",
            "delta_cap",
            "releases_per_period",
        ],
        "federated/record": ["population", "cohort_size", "rounds", "noise_multiplier", "clip_norm", "delta"],
        "queries": ["epsilon", "queries", "sensitivity", "delta", "queries_used", "population", "magnitude"],
        "queries/record": ["epsilon", "queries", "sensitivity", "delta", "queries_used", "magnitude"],
        "sensitivity": ["contributions", "low", "high", "size"],
    }
    good = {
        "federated": RUN,
        "federated/record": RUN,
        "queries": {"epsilon": 1.0, "queries": 10},
        "queries/record": {"epsilon": 1.0, "queries": 10},
        "sensitivity": {"query": "mean", "size": 10},
    }
    path = data.draw(st.sampled_from(sorted(shapes)))
    changed = data.draw(st.dictionaries(st.sampled_from(shapes[path]), numbers, min_size=1, max_size=3))
    found = site.post(path, good[path] | changed)
    assert found.status in {200, 422}, found.body
    found.json()


def test_many_askers_at_once(site):
    answers = []

    def ask():
        answers.append(
            site.post("queries", {"epsilon": 1.0, "queries": 7, "mechanism": "gaussian", "delta": 1e-6}).body
        )

    threads = [threading.Thread(target=ask) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 24
    assert len(set(answers)) == 1


FAMILIES = [
    {"participation": "balls-in-bins"},
    {"participation": "balls-in-bins", "strategy": "square-root", "bands": 4, "epochs": 2},
    {"participation": "balls-in-bins", "strategy": "optimal", "bands": 3},
    {"participation": "b-min-sep", "strategy": "square-root", "bands": 4, "bins": 4, "epochs": 3, "probability": 0.2},
    {"participation": "cyclic-poisson", "strategy": "optimal", "bands": 4, "bins": 4, "epochs": 2},
    {"participation": "b-min-sep", "bins": 1, "epochs": 5, "probability": 0.1},
]


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda each: "-".join(map(str, each.values())))
def test_every_family_is_the_librarys_certificate(site, family):
    from epsilog.accounting.montecarlo import recompute_document

    ask = {"samples": 20_000, "noise_multiplier": 1.5, "bins": 4} | family
    started = site.post("certificates", ask).json()
    last = events(site, started["id"])[-1]
    assert last["state"] == "done", last
    document = site.get(f"certificates/{started['id']}/evidence.json").json()
    assert recompute_document(document, shards=1) == ()
    assert document["interval"] == last["interval"]
    assert (started["exact"] is not None) == (family == FAMILIES[0])
    if started["exact"] is not None:
        assert last["interval"]["lower"] <= started["exact"] <= last["interval"]["upper"]


def test_what_cannot_be_certified_says_why(site):
    started = site.post(
        "certificates", {"participation": "b-min-sep", "strategy": "square-root", "bands": 8, "bins": 4, "epochs": 4}
    )
    last = events(site, started.json()["id"])[-1]
    assert last["state"] == "failed"
    assert "8 bands, separation 4" in last["says"]
    assert len(last["says"]) < 250
    too_long = site.post("certificates", {"participation": "cyclic-poisson", "bins": 1024, "epochs": 100})
    assert (too_long.status, too_long.json()["errors"][0]["field"]) == (422, "epochs")


@pytest.mark.slow
def test_a_certificate_outlives_its_server(serve_app, tmp_path):
    """Paused on one server, resumed on the next with the same entropy, and found finished on a third."""
    from epsilog.accounting.montecarlo import recompute_document

    folder = tmp_path / "certificates"
    with serve_app(create_app(certificates_in=folder)) as first:
        ask = {"samples": 500_000, "bins": 64}
        name = first.post("certificates", ask).json()["id"]
        cancelled = first.post("certificates", ask).json()["id"]
        first.post(f"certificates/{cancelled}/cancel")
        end = time.monotonic() + 30
        while not first.get(f"certificates/{name}").json()["directions"] and time.monotonic() < end:
            time.sleep(0.02)
        assert first.post(f"certificates/{name}/pause").json()["state"] == "paused"
    time.sleep(0.5)
    journal = (folder / f"{name}.journal.json").read_text()
    with serve_app(create_app(certificates_in=folder)) as second:
        found = second.get("certificates").json()["certificates"]
        assert [(job["id"], job["state"], job["ask"]["bins"]) for job in found] == [(name, "paused", 64)]
        assert second.post(f"certificates/{name}/resume").json()["state"] == "running"
        told = events(second, name)[-1]
        assert told["state"] == "done"
    assert (folder / f"{name}.journal.json").read_text().startswith(journal)
    with serve_app(create_app(certificates_in=folder)) as third:
        again = third.get(f"certificates/{name}").json()
        assert again["state"] == "done"
        assert (again["directions"], again["born"]) == (told["directions"], told["born"])  # from the evidence alone
        document = third.get(f"certificates/{name}/evidence.json").json()
    assert document["simulation"] is False
    assert recompute_document(document, shards=2) == ()
