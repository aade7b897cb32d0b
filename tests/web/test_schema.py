"""What the API's own description leads to: whatever fits it, or nearly does, is never an error of ours."""

from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings

from epsilog.web import create_app

STREAMS = ("/events", "/certificates")  # endless answers, and jobs that draw for minutes: test_api has those


def questions():
    """Each address and method of the description but the streams, as it should be asked and, if it can be, wrongly."""
    for path, methods in create_app().openapi()["paths"].items():
        for method, asked in methods.items():
            if any(stream in path for stream in STREAMS):
                continue
            yield (path, method, "POSITIVE")
            if "requestBody" in asked or any(one["in"] == "query" for one in asked.get("parameters", ())):
                yield (path, method, "NEGATIVE")


@cache
def described():
    import schemathesis  # slow to import, and asked for by these tests alone

    return schemathesis.openapi.from_dict(create_app().openapi())


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method", "mode"), list(questions()))
def test_no_question_is_an_error_of_ours(site, path, method, mode):
    from schemathesis import GenerationMode

    operation = described()[path][method.upper()]

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=GenerationMode[mode]))
    def ask(case):
        answer = case.call(base_url=site.url, timeout=60)  # a question may work for 20 s
        assert answer.status_code < 500, answer.text

    ask()
