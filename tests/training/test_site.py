"""What a client uploads when its own functions fail: nothing that a server could tell from a client without rows."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from epsilog.schemes import ClientLevelClientSide
from epsilog.schemes.base import LocalDPSGD, RawUpdate
from epsilog.training.engines.base import RoundInputs
from epsilog.training.engines.remote import SimulatedDraws, TrainRequest
from epsilog.training.noise import RandomStream
from epsilog.training.site import compute_upload, make_function_site_engine

SIZE, STEPS = 400, 25
TRAINING = SimpleNamespace(learning_rate=0.5, expected_examples=20)


def fail():
    raise ZeroDivisionError


FAILURES = {
    "an error": fail,
    "not a number": lambda: np.full(SIZE, np.nan),
    "one that is not a number": lambda: np.where(np.arange(SIZE) == 3, np.nan, 7.0),
    "one that is infinite": lambda: np.where(np.arange(SIZE) == 3, np.inf, 7.0),
    "another shape": lambda: np.full(SIZE + 1, 7.0),
    "no array": lambda: "7",
}


def uploaded(result, upload):
    engine = make_function_site_engine(lambda *_: result(), lambda *_: result())(TRAINING)
    now = RoundInputs(np.zeros(SIZE), np.array([0]), noise=lambda _: RandomStream.from_key(12345, 1.0))
    return engine.sum_uploads(now, upload).total


@pytest.mark.parametrize("result", FAILURES.values(), ids=FAILURES)
def test_a_function_that_fails_uploads_what_a_client_without_rows_does(result):
    assert uploaded(result, RawUpdate(1.0)).tolist() == [0.0] * SIZE
    noise = uploaded(result, LocalDPSGD(STEPS, 0.1, 1.0, 2.0))
    assert np.array_equal(noise, uploaded(fail, LocalDPSGD(STEPS, 0.1, 1.0, 2.0)))
    spread = 0.5 / (0.1 * 20) * 2.0 * np.sqrt(STEPS)  # a rate over the expected batch, and the noise of all steps
    assert noise.std() == pytest.approx(spread, rel=0.2)  # 5.6 standard errors


@pytest.mark.parametrize(
    ("how", "says"), [("an error", "ZeroDivision"), ("another shape", r"shape \(400,\), got \(401,\)")]
)
def test_why_a_function_failed_is_in_the_clients_own_log(how, says, caplog):
    uploaded(FAILURES[how], RawUpdate(1.0))
    (line,) = caplog.records
    assert line.getMessage().startswith("the function of the client failed")
    assert re.search(says, caplog.text)


def test_a_function_that_works_uploads_its_result_clipped_where_the_scheme_clips():
    whole = uploaded(lambda: np.full(SIZE, 7.0), LocalDPSGD(STEPS, 0.1, 1.0, 2.0))
    assert whole.tolist() == [7.0] * SIZE
    assert np.linalg.norm(uploaded(lambda: np.full(SIZE, 7.0), RawUpdate(1.0))) == pytest.approx(1.0)


def test_a_site_adds_the_noise_of_its_scheme_to_whatever_its_function_computes():
    scheme = ClientLevelClientSide(
        clients=12, cohort_size=5, rounds=6, max_participations=3, clip_norm=0.2, noise_multiplier=2.0
    )
    order = TrainRequest("run", scheme, TRAINING, np.zeros(SIZE), SimulatedDraws(1, 2))
    quiet, loud = (
        compute_upload(
            order, make_function_site_engine(lambda *_, value=value: np.full(SIZE, value))(TRAINING), np.array([0])
        )
        for value in (0.0, 7.0)
    )
    assert quiet.shape == loud.shape == (SIZE + 1,)
    assert quiet.std() == pytest.approx(scheme.upload.noise_stddev, rel=0.2)  # 5.6 standard errors
    assert abs(quiet.mean()) <= 0.3 * quiet.std()
    assert np.linalg.norm(loud - quiet) == pytest.approx(0.2)
