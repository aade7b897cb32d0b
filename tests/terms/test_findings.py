"""A finding has a code, a verdict and a sentence; nothing else can be built."""

import pytest

from epsilog.terms import CheckError, Finding, Status


@pytest.mark.parametrize(
    "code", ["", "noise", "noise too weak", "noise/Too-weak", "noise/too-weak\n", "/weak", None, 7]
)
def test_a_code_is_a_check_and_an_outcome(code):
    with pytest.raises(CheckError, match="code must be words as check/outcome"):
        Finding(code, Status.FAILED, "The noise is too weak.")


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_a_check_that_always_rejects_is_none(rate):
    with pytest.raises(CheckError, match="false_alarm_rate"):
        Finding("noise/too-weak", Status.FAILED, "The noise is too weak.", false_alarm_rate=rate)
