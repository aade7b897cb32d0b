"""Every failure is a problem document; every refusal of a question names a field, or says why it cannot."""

import json
import re
import signal
from types import SimpleNamespace
from typing import get_args

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from epsilog.mechanisms import FixedSizeSampled, Gaussian, Laplace
from epsilog.server import ledger_service, problems, worker
from epsilog.server.problems import map_error_to_problem
from epsilog.terms import CalibrationError, CheckError, EpsilogError, RecordError, UnsupportedMechanismError, codec


@pytest.mark.parametrize(
    ("error", "status", "kind", "says"),
    [
        (CheckError("delta", "in (0, 1)", "2"), 422, "invalid-input", "delta must be in (0, 1), got 2"),
        (ValueError("something"), 422, "invalid-input", "something"),
        (OverflowError("ours"), 422, "out-of-reach", "Double precision cannot"),
        (ZeroDivisionError("ours"), 422, "out-of-reach", "Double precision cannot"),
        (CalibrationError("no noise"), 422, "no-answer", "no noise"),
        (RecordError("line 1"), 422, "refused", "line 1"),
        (EpsilogError("no"), 422, "refused", "no"),
        (HTTPException(404, "nothing here"), 404, "http", "nothing here"),
        (KeyError("secret"), 500, "internal", "The server failed"),
        (OSError("/secret"), 500, "internal", "The server failed"),
        (
            UnsupportedMechanismError(FixedSizeSampled(Gaussian(1.0), 2, 5), method="a method", reason="why"),
            422,
            "unsupported",
            "a method has no proven bound for FixedSizeSampled: why. epsilog does not substitute an approximation.",
        ),
        (
            UnsupportedMechanismError(Gaussian(1.0), method="a method"),
            422,
            "unsupported",
            "a method has no proven bound for Gaussian. epsilog does not",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_each_failure_is_a_problem_document(error, status, kind, says):
    found = problems.map_error_to_problem(error)
    body = json.loads(found.body)
    assert (found.status_code, body["status"], body["type"]) == (status, status, f"/problems/{kind}")
    assert found.media_type == "application/problem+json"
    assert says in body["detail"]
    assert body["title"]
    assert "secret" not in found.body.decode()
    assert ("errors" in body) == (kind == "invalid-input")
    assert kind != "no-answer" or body["code"] == kind


def test_a_field_error_says_what_was_given_in_few_words():
    assert problems.too_many_requests(0.2).headers["retry-after"] == "1"  # whole seconds, and enough
    (found,) = json.loads(problems.map_error_to_problem(CheckError("weights", "numbers", "9" * 500, verb="hold")).body)[
        "errors"
    ]
    said = {"field": "weights", "message": "must hold numbers", "bound": "numbers", "value": "9" * 200}
    assert {name: found[name] for name in said} == said
    (found,) = json.loads(problems.map_error_to_problem(ValueError("why")).body)["errors"]
    assert (found["field"], found["message"]) == (None, "why")
    detail = json.loads(problems.map_error_to_problem(ValueError("x" * 900)).body)["detail"]
    assert detail == "x" * 500


RUN = {"population": 5000, "cohort_size": 50, "rounds": 20, "noise_multiplier": 1.2}
QUERIES = {"epsilon": 1.0, "queries": 3, "mechanism": "gaussian", "delta": 1e-6}
PART = {"mechanism": "gaussian", "parameter": 2.0}
SOUND = {
    "FederatedRequest": RUN,
    "FederatedSchedule": RUN,
    "FederatedGoal": RUN | {"epsilon": 2.0},
    "DPSGDRequest": {"examples": 50_000, "batch_size": 500, "delta": 1e-6},
    "VerdictRequest": {},
    "QueriesRequest": QUERIES,
    "FederatedInterpretationRequest": RUN | {"noise_multiplier": 1.0, "cap": 2.0},
    "QueriesInterpretationRequest": QUERIES | {"cap": 2.0},
    "CrossoverRequest": {"epsilon": 1.0, "delta": 1e-6},
    "SensitivityRequest": {"query": "mean", "size": 10},
    "VerifyRequest": {"report": "{}"},
    "CertifyRequest": {"release": codec.to_json(Laplace(2.0)), "delta": 1e-6},
    "CompositionRequest": {"parts": [PART]},
    "CompositionInterpretationRequest": {"parts": [PART], "cap": 2.0},
    "CompareRequest": {"first": PART, "second": {"mechanism": "laplace", "parameter": 3.0}},
}
WRONG = [None, "x", True, -1, 0, 1.5, 1e-310, 1e300, 2**70, [0], [-1.0, 1.0, 1.0], "é" * 90]
ASKED = worker.ROUTES.keys() - ledger_service.routes.by_path.keys() - {"/verify/example", "/verify/folder"}
MECHANISMS = ("gaussian", "laplace", "randomized-response", "pure", "approximate", "zcdp", "gdp")
READ_AS = {"/account/interpretation", "/account/risk"}  # their parts are read by what reads those of /account
ENOUGH = 0.05  # seconds of work after which a question counts as accepted
KINDS = {f"/problems/{kind}" for kind in ("unsupported", "no-answer", "out-of-reach", "refused")}  # of no one field


# an alarm that rings while garbage is collected is lost there, with a warning: it rings again
pytestmark = pytest.mark.filterwarnings("ignore:(?s).*Accepted:pytest.PytestUnraisableExceptionWarning")


class Accepted(BaseException):
    """It is being worked out: no field was refused."""


@pytest.fixture(autouse=True)
def alarm(monkeypatch):
    """Ends a question that takes long, and nothing that runs after it."""
    state = SimpleNamespace(armed=False, rung=False)

    def ring(*_):
        if state.armed:
            state.rung = True  # it may come out of other people's code as another error: what follows it is no answer
            raise Accepted

    before = signal.signal(signal.SIGVTALRM, ring)
    yield state
    signal.signal(signal.SIGVTALRM, before)


def asked(path, body, alarm):
    """Status and document for a body: what the model refuses, and then what the library refuses."""
    question = worker.ROUTES[path]
    try:
        ask = question.request.model_validate(body)
    except ValidationError as error:
        refusal = map_error_to_problem(
            RequestValidationError([each | {"loc": ("body", *each["loc"])} for each in error.errors()])
        )
        return refusal.status_code, json.loads(refusal.body)
    alarm.rung, alarm.armed = False, True
    signal.setitimer(signal.ITIMER_VIRTUAL, ENOUGH, ENOUGH)
    status, found = 200, "null"
    try:
        status, _, found = worker.answer_request(path, ask.model_dump(mode="json"))
        alarm.armed = False  # before any call: Python handles signals when a call returns
    except Accepted:
        alarm.armed = False
    finally:
        alarm.armed = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return (200, None) if alarm.rung else (status, json.loads(found))


def variants(model, sound, mechanisms=MECHANISMS):
    """``sound`` with one field left out, unknown or wrong, in every way; parts of a list are varied likewise."""
    yield sound | {"surprise": 1}
    for name, field in model.model_fields.items():
        yield {key: value for key, value in sound.items() if key != name}
        yield from (sound | {name: value} for value in WRONG)
        inner = next(
            (each for each in get_args(field.annotation) if isinstance(each, type) and issubclass(each, BaseModel)),
            None,
        )
        if inner is not None:
            for mechanism in mechanisms:
                part = sound[name][0] | {"mechanism": mechanism, "parameter": 0.25}
                yield from (sound | {name: [sound[name][0], each]} for each in variants(inner, part))


def names(model, path):
    """Whether a path leads to a field of a model; the last step may be a key that it does not know."""
    steps = [step for step in re.split(r"\.|\[(\d+)\]", path) if step]
    for i, step in enumerate(steps):
        if step.isdigit():
            continue
        if step not in model.model_fields:
            return i == len(steps) - 1 and step == "surprise"
        inner = [each for each in get_args(model.model_fields[step].annotation) if isinstance(each, type)]
        model = next((each for each in inner if issubclass(each, BaseModel)), model)
    return True


@pytest.mark.every(12)
@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(path for path in ASKED if not path.endswith("/record")))
def test_every_refusal_names_a_field_or_says_why_not(path, alarm):
    model = worker.ROUTES[path].request
    refused = 0
    for body in variants(model, SOUND[model.__name__], MECHANISMS[:1] if path in READ_AS else MECHANISMS):
        status, problem = asked(path, body, alarm)
        if status == 200:
            continue
        refused += 1
        assert status == 422, (body, problem)
        if problem["type"] in KINDS:
            assert problem["detail"]
            assert "errors" not in problem
            continue
        assert problem["type"] == "/problems/invalid-input"
        for error in problem["errors"]:
            assert set(error) == {"field", "message", "bound", "value"}, (body, problem)
            assert names(model, error["field"]), (body, problem)
            assert error["message"].startswith("must ")
    assert refused > min(20, 10 * len(model.model_fields))


@pytest.mark.parametrize(
    ("term", "more", "kind", "says"),
    [
        ({"type": "shuffled", "release": {"type": "pure", "epsilon": 1.0}, "population": 1000}, {}, "unsupported", "S"),
        (
            {"type": "gaussian", "noise_multiplier": 1.0},
            {"epsilon": 0.01},
            "refused",
            "not above the accountant's bound",
        ),
        ({"type": "laughter"}, {}, "invalid-input", "release.type must be one of"),
    ],
)
def test_a_certificate_that_is_not_made_says_why(term, more, kind, says):
    ask = {"release": {"v": 1, "term": term}, "delta": 1e-6} | more
    status, _, body = worker.answer_request("/certificate", ask)
    assert (status, json.loads(body)["type"]) == (422, f"/problems/{kind}")
    assert says in json.loads(body)["detail"]
