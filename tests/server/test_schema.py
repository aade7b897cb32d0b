"""What the API's own description leads to: whatever fits it, or nearly does, is never an error of ours."""

from functools import cache

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.server.described import description

from epsilog.server import create_app
from epsilog.server.workers import WorkerPool

STREAMS = ("/events", "/montecarlo")  # endless answers, and jobs that draw for minutes: others ask those
DEAR = tuple(f"/api/v1/{name}" for name in ("account", "federated", "queries", "playground"))  # seconds of work each


def questions():
    """Each address and method of the description but the streams, as it should be asked and, if it can be, wrongly."""
    for path, methods in description()["paths"].items():
        for method, asked in methods.items():
            if any(stream in path for stream in STREAMS):
                continue
            yield (path, method, "POSITIVE")
            if "requestBody" in asked or any(one["in"] == "query" for one in asked.get("parameters", ())):
                yield (path, method, "NEGATIVE")


@cache
def described():
    import schemathesis  # slow to import, and asked for by these tests alone

    return schemathesis.openapi.from_dict(description())


@pytest.fixture(scope="module")
def brisk(fill_ledger, runs_path, serve_app, tmp_path_factory):
    """A server that gives up soon, over a ledger of its own: a question that is too much for it is answered too."""
    own = fill_ledger(tmp_path_factory.mktemp("brisk") / "ledger.db")
    with serve_app(create_app(ledger=str(own), runs=runs_path, workers=WorkerPool(deadline=4.0))) as site:
        yield site


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.parametrize("question", list(questions()), ids="-".join)
def test_no_question_is_an_error_of_ours(brisk, question):
    from schemathesis import GenerationMode

    path, method, mode = question
    operation = described()[path][method.upper()]
    dear = path.startswith(DEAR)
    heads = []  # of the ledger, as a refusal left it: nobody else writes, so that it is what the next question finds

    # a failure is told as it was found: every step of making it smaller would ask the server again
    @settings(
        max_examples=8 if dear else 10,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=GenerationMode[mode]))
    def ask(case):
        before = heads.pop() if heads else brisk.get("ledger/head").json()
        answer = case.call(base_url=brisk.url, timeout=60)
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            heads.append(brisk.get("ledger/head").json())
            assert heads == [before]

    ask()
