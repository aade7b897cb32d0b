"""What the API's own description leads to: whatever fits it, or nearly does, is never an error of ours."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

from epsilog.web import create_app

STREAMS = ("/events", "/certificates")  # endless answers, and jobs that draw for minutes: test_api has those


def questions():
    """Each address and method of the description but the streams, as it should be asked and, if it can be, wrongly."""
    schema = schemathesis.openapi.from_dict(create_app().openapi())
    for found in schema.get_all_operations():
        operation = found.ok()
        if any(stream in operation.path for stream in STREAMS):
            continue
        for mode in GenerationMode:
            if mode is GenerationMode.POSITIVE or list(operation.body) or list(operation.query):
                yield pytest.param(operation, mode, id=f"{operation.label}, {mode.value}")


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "mode"), list(questions()))
def test_no_question_is_an_error_of_ours(site, operation, mode):
    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case):
        answer = case.call(base_url=site.url)
        assert answer.status_code < 500, answer.text

    ask()
