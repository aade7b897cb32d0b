"""A clip norm that follows the clients: priced with its own noise, in the right direction; a verifier follows it."""

import itertools
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy import stats
from tests.training.fixed import Fixed
from tests.verification.checked import applied, check_clipping, check_norms, of_records

from epsilog.schemes import ClientLevelAdaptiveClip, ClientLevelCentral
from epsilog.training import Randomness, require_matching_scheme, train_without_charge
from epsilog.training.rounds import compute_next_round, make_initial_state

SCHEME = ClientLevelAdaptiveClip(
    clients=12,
    sampling_probability=0.5,
    rounds=12,
    clip_norm=0.2,
    target_quantile=0.5,
    clip_learning_rate=0.5,
    quantile_noise=1.5,
    noise_multiplier=1.0,
)


@pytest.mark.parametrize(("z", "s"), [(1.0, 1.5), (0.3, 100.0), (40.0, 0.6), (1e-3, 1e3), (1e150, 1e-150), (1e-320, 1)])
def test_sum_and_count_are_priced_as_one_gaussian_rounded_down(z, s):
    """The oracle: sensitivities 1 and 1 over noises z and s, in 60 digits."""
    found = replace(SCHEME, noise_multiplier=z, quantile_noise=s).accounted_multiplier
    with mpmath.workdps(60):
        exact = 1 / mpmath.sqrt(mpmath.mpf(z) ** -2 + mpmath.mpf(s) ** -2)
        assert found <= exact
        assert found >= exact * (1 - mpmath.mpf(10) ** -12) or z == 1e-320


def clients(scheme, task, norms, *, draws=Randomness.from_seed(1)):  # noqa: B008
    """The outcomes of the rounds of clients whose updates have these norms."""
    drawn = np.random.default_rng(3).standard_normal((12, task.model.size))
    engine = Fixed(task, drawn / np.linalg.norm(drawn, axis=1, keepdims=True) * np.reshape(norms, (12, 1)))
    state, outcomes = make_initial_state(task), []
    for _ in range(scheme.rounds):
        outcomes.append(compute_next_round(scheme, engine, state, draws))
        state = outcomes[-1].state
    return outcomes


NORMS = np.linspace(0.1, 0.4, 12)


@pytest.mark.parametrize("factor", [100.0, 0.01, 1.0])
def test_the_clip_goes_to_the_quantile_from_either_side(small_task, factor):
    """Half of the clients' updates end up within the clip norm."""
    loud = {"sampling_probability": 1.0, "quantile_noise": 0.1, "noise_multiplier": 1e-9}
    scheme = replace(SCHEME, clip_norm=factor * NORMS[6], rounds=60, **loud)
    found = [outcome.record.clip_norm for outcome in clients(scheme, small_task(), NORMS)]
    assert 0.9 * NORMS[5] < found[-1] < 1.1 * NORMS[7]
    if factor != 1:
        assert (found[9] - found[0]) * (1 - factor) > 0


def test_what_a_round_releases_is_what_the_next_one_clips_to(small_task):
    outcomes = clients(replace(SCHEME, clip_norm=0.01), small_task(), 10 * NORMS)
    records, custody = [one.record for one in outcomes], [one.custody for one in outcomes]
    assert records[0].clip_norm == 0.01
    for before, after in itertools.pairwise(records):
        moved = before.clip_norm * np.exp(-0.5 * (before.unclipped - 0.5))
        assert after.clip_norm == pytest.approx(moved, rel=1e-12)
        assert after.noise_stddev == after.clip_norm * SCHEME.noise_multiplier
    assert records[-1].clip_norm > 2 * records[0].clip_norm
    assert check_norms(custody, records, SCHEME).status == "passed"
    early = replace(custody[0], largest_norm=records[-1].clip_norm)
    assert check_norms([early, *custody[1:]], records, SCHEME).status == "failed"


def test_the_count_carries_noise_of_its_own_size_and_a_control_that_is_40_percent_weak_is_caught(small_task):
    """Everybody is clipped in each round; false alarm 1e-6."""
    scheme = replace(SCHEME, sampling_probability=1.0, rounds=60, clip_learning_rate=1e-6)
    for draws, fits in ((Randomness.from_seed(1), True), (Randomness.with_weaker_noise(1, noise_factor=0.6), False)):
        records = [one.record for one in clients(scheme, small_task(), 100 * NORMS, draws=draws)]
        noise = np.array([12 * (record.unclipped - 0.5) + 6 for record in records]) / SCHEME.quantile_noise
        assert (5e-7 < stats.chi2.cdf(np.sum(noise**2), noise.size) < 1 - 5e-7) == fits


def test_a_clip_norm_stays_within_reach_whatever_the_count_says():
    for share in (-1e300, -50.0, 50.0, 1e300):
        clip_norm = SCHEME.clip_norm
        for _ in range(3):
            clip_norm = SCHEME.next_clip_norm(clip_norm, share)
        assert clip_norm == pytest.approx(SCHEME.clip_norm * (1e6 if share < 0 else 1e-6))


def test_a_verifier_follows_the_clip_norms(small_task):
    scheme = replace(SCHEME, rounds=40)
    records = [one.record for one in clients(scheme, small_task(), NORMS)]
    for held in (records, []):
        assert check_clipping(held, scheme).status == "passed"
    for change in ({"clip_norm": 1 + 1e-9}, {"noise_stddev": 0.999}, {"unclipped": 1 + 1e-6}, {"unclipped": None}):
        ((name, factor),) = change.items()
        lie = replace(records[7], **{name: None if factor is None else factor * getattr(records[7], name)})
        assert check_clipping([*records[:7], lie, *records[8:]], scheme).status == "failed"
    whole = replace(records[0], clip_norm=0.4, noise_stddev=0.4)
    assert check_clipping([whole, *records[1:]], scheme).status == "failed"


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "passed"), (0.7, "failed"), (1.3, "warned")])
def test_weak_noise_is_noticed_under_a_clip_norm_that_moves(small_task, factor, verdict):
    scheme, source = replace(SCHEME, rounds=60, clip_learning_rate=1.0), Randomness.with_weaker_noise
    records = train_without_charge(
        scheme, small_task(), randomness=source(1, noise_factor=factor), engine=Fixed
    ).records
    assert max(each.clip_norm for each in records) > 1.5 * min(each.clip_norm for each in records)
    assert applied("noise", of_records(scheme, records)).status == verdict


def test_without_privacy_nothing_is_clipped_and_a_fixed_clip_says_nothing_of_shares(small_task):
    given = {"randomness": Randomness.from_seed(1), "engine": Fixed, "private": False}
    bare = train_without_charge(SCHEME, small_task(), **given).records
    assert all(record.unclipped >= 0.5 for record in bare)
    assert not any(any(record.padding) for record in bare)
    fixed = ClientLevelCentral(12, 0.5, 2, 0.2, 1.0)
    assert {each.unclipped for each in train_without_charge(fixed, small_task(), **given).records} == {None}


def test_what_cannot_be_relied_on_is_refused(small_task):
    for change, says in (({"clip_norm": 1e86}, "clip_norm must be"), ({"noise_multiplier": 1e85}, "noise_stddev must")):
        with pytest.raises(ValueError, match=says):
            require_matching_scheme(replace(SCHEME, **change), small_task())
    for name, value in (("target_quantile", 1.0), ("target_quantile", 0.0), ("quantile_noise", 0.0)):
        with pytest.raises(ValueError, match=name):
            replace(SCHEME, **{name: value})


def test_somebody_who_has_nothing_to_send_moves_the_count_by_no_more_than_is_priced(small_task):
    """Clipped, or without rows in the same place: one apart on the count, and the clip apart on the sum."""
    quiet = {"clip_norm": 1e-3, "quantile_noise": 1e-9, "noise_multiplier": 1e-9}
    scheme = replace(SCHEME, sampling_probability=1.0, rounds=1, **quiet)

    def count(norms):
        (found,) = clients(scheme, small_task(), norms)
        return (found.record.unclipped - 0.5) * scheme.expected_cohort

    apart = [abs(count(NORMS) - count(NORMS * (np.arange(12) != client))) for client in range(12)]
    assert max(apart) == pytest.approx(1.0, abs=1e-6)
    unit = replace(SCHEME, noise_multiplier=1e9, quantile_noise=1.0)
    assert unit.accounted_multiplier <= 1.0 / max(apart) * (1 + 1e-6)
