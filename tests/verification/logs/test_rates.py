"""Honest logs are rejected as seldom as is said: thousands of runs at a rate that can be counted."""

import numpy as np
import pytest
from scipy.stats import binom
from tests.extent import amount
from tests.verification.checked import on_logs

from epsilog.schemes import ClientLevelCentral
from epsilog.terms import Status
from epsilog.verification.columns import LogData, Participation, Rounds

N, T, RATE = 60, 20, 0.05
POISSON = ClientLevelCentral(N, 0.15, T, 1.0, 1.0)
FIXED = ClientLevelCentral(N, None, T, 1.0, 1.0, sampling="fixed-size", cohort_size=9)


def lists(there):
    """Logs of who is in which round, of a table of rounds by clients."""
    members = np.flatnonzero(np.pad(there, ((1, 0), (0, 0))).ravel())
    return LogData(lists=Participation(T, N, 0, 0, 0, 0, None, None, members, N))


def drawn(scheme, rng):
    if scheme is POISSON:
        return rng.random((T, N)) < 0.15
    return rng.random((T, N)).argsort(axis=1) < 9


def rejected(checked, runs):
    return sum(checked(np.random.default_rng([1, i])).status is Status.FAILED for i in range(runs))


def most(runs):
    """What one honest test in a thousand exceeds."""
    return binom.isf(1e-3, runs, RATE)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [POISSON, FIXED], ids=["poisson", "fixed-size"])
def test_honest_lists_are_rejected_no_oftener_than_is_said(scheme):
    assert rejected(
        lambda rng: on_logs("participation", lists(drawn(scheme, rng)), scheme, RATE), amount(60, 600)
    ) <= most(amount(60, 600))


@pytest.mark.slow
def test_honest_sizes_are_rejected_no_oftener_than_is_said():
    def checked(rng):
        sizes = rng.binomial(N, 0.15, T)
        return on_logs("participation", LogData(rounds=Rounds(np.arange(1, T + 1), cohort=sizes)), POISSON, RATE)

    runs = amount(200, 2400)
    assert 0 < rejected(checked, runs) <= most(runs)


@pytest.mark.slow
def test_honest_noise_is_rejected_no_oftener_than_is_said():
    def checked(rng, share=1.0):
        logs = LogData(padding={t: rng.normal(0, share, 16) for t in range(1, T + 1)})
        return on_logs("noise", logs, POISSON, RATE)

    runs = amount(150, 1200)
    assert runs * RATE / 10 < rejected(checked, runs) <= most(runs)
    assert rejected(lambda rng: checked(rng, 0.7), 30) == 30  # the control


def test_one_client_in_every_round_is_seen_at_the_real_rate():
    there = drawn(POISSON, np.random.default_rng(3))
    assert on_logs("participation", lists(there), POISSON, 1e-6).status is Status.PASSED
    there[:, 7] = True
    assert on_logs("participation", lists(there), POISSON, 1e-6).code == "participation/sampler-mismatch"
