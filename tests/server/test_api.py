"""The API over a real socket: answers are the library's, errors name field, bound and value, nothing fails inside."""

import json
import math

import pytest

RUN = {"population": 50_000, "cohort_size": 500, "rounds": 200, "noise_multiplier": 1.2}


@pytest.mark.parametrize(
    ("path", "ask", "field"),
    [
        ("federated", RUN | {"noise_multiplier": -1}, "noise_multiplier"),
        ("federated", RUN | {"surprise": 1}, "surprise"),
        ("queries", {"epsilon": 1, "queries": 2, "weights": [1, -1]}, "weights[1]"),
        ("montecarlo", {"samples": 1}, "samples"),
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
    ("term", "more", "kind", "says"),
    [
        (
            {"type": "shuffled", "release": {"type": "pure", "epsilon": 1.0}, "population": 1000},
            {},
            "unsupported",
            "Shuffled",
        ),
        (
            {"type": "gaussian", "noise_multiplier": 1.0},
            {"epsilon": 0.01},
            "refused",
            "not above the accountant's bound",
        ),
        ({"type": "laughter"}, {}, "invalid-input", "release.type must be one of"),
    ],
)
def test_a_certificate_that_is_not_made_says_why(site, term, more, kind, says):
    found = site.post("certificate", {"release": {"v": 1, "term": term}, "delta": 1e-6} | more)
    problem = found.json()
    assert (found.status, problem["type"]) == (422, f"/problems/{kind}")
    assert says in problem["detail"]


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


def test_unknown_addresses_and_methods_are_problems(site):
    for method, path, status in (
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v1/federated", 405),
        ("GET", "/x", 404),
    ):
        found = site.ask(method, path)
        assert (found.status, found.headers["content-type"]) == (status, "application/problem+json")


@pytest.mark.slow
def test_every_address_is_described(site):
    document = site.ask("GET", "/api/openapi.json").json()
    for path, methods in document["paths"].items():
        for method in methods.values():
            assert method["summary"], path
            assert method["description"], path
