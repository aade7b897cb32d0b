"""A clip norm that follows the clients: priced with its own noise, in the right direction; a verifier follows it."""

import itertools
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from tests.verification.checked import applied, check_clipping, check_norms, of_records

from epsilog.accounting import epsilon
from epsilog.mechanisms import Gaussian, PoissonSampled, Repeated
from epsilog.schemes import ClientLevelAdaptiveClip, ClientLevelCentral, RawUpdate
from epsilog.training import Randomness, require_matching_scheme, train_without_charge
from epsilog.training.engines import RoundInputs
from epsilog.training.engines.compiled import CompiledEngine
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


def test_the_price_is_that_of_two_releases_of_one_sample_and_above_a_fixed_clip():
    both = epsilon(SCHEME.release(), delta=1e-5)
    fixed = Repeated(PoissonSampled(Gaussian(SCHEME.noise_multiplier), 0.5), SCHEME.rounds)
    assert both.lower > epsilon(fixed, delta=1e-5).upper
    unheard = replace(SCHEME, quantile_noise=1e9)
    assert epsilon(unheard.release(), delta=1e-5).upper == pytest.approx(epsilon(fixed, delta=1e-5).upper, rel=1e-6)
    assert replace(SCHEME, noise_multiplier=0.0).accounted_multiplier == 0


def sizes_of_updates(task, model):
    """Each client's whole update, unclipped."""
    engine, everybody = CompiledEngine(task), range(task.clients.count)
    streams = Randomness.from_seed(0)
    one = [
        engine.sum_uploads(
            RoundInputs(model, np.array([client]), lambda c: streams.stream("batches", 1, c)), RawUpdate(np.inf)
        )
        for client in everybody
    ]
    return np.array([np.linalg.norm(each.total) for each in one])


@pytest.mark.parametrize("factor", [100.0, *(pytest.param(factor, marks=pytest.mark.slow) for factor in (0.01, 1.0))])
def test_the_clip_goes_to_the_quantile_from_either_side(small_task, factor):
    """With a model that hardly moves, half of the clients' updates end up within the clip norm."""
    task = small_task()
    task = replace(task, training=replace(task.training, learning_rate=1e-6))
    norms = np.sort(sizes_of_updates(task, make_initial_state(task).model))
    loud = {"sampling_probability": 1.0, "quantile_noise": 0.1, "noise_multiplier": 1e-9}
    scheme = replace(SCHEME, clip_norm=factor * norms[6], rounds=60, **loud)
    records = train_without_charge(scheme, task, randomness=Randomness.from_seed(3)).records
    assert 0.9 * norms[5] < records[-1].clip_norm < 1.1 * norms[7]
    if factor != 1:
        assert (records[9].clip_norm - records[0].clip_norm) * (1 - factor) > 0


def test_what_a_round_releases_is_what_the_next_one_clips_to(small_task):
    records = train_without_charge(SCHEME, small_task(), randomness=Randomness.from_seed(1)).records
    assert records[0].clip_norm == SCHEME.clip_norm
    for before, after in itertools.pairwise(records):
        moved = before.clip_norm * np.exp(-0.5 * (before.unclipped - 0.5))
        assert after.clip_norm == pytest.approx(moved, rel=1e-12)
        assert after.noise_stddev == after.clip_norm * SCHEME.noise_multiplier
    assert len({record.clip_norm for record in records}) == len(records)


def test_a_clip_norm_stays_within_reach_whatever_the_count_says():
    for share in (-1e300, -50.0, 50.0, 1e300):
        clip_norm = SCHEME.clip_norm
        for _ in range(3):
            clip_norm = SCHEME.next_clip_norm(clip_norm, share)
        assert clip_norm == pytest.approx(SCHEME.clip_norm * (1e6 if share < 0 else 1e-6))


def test_a_verifier_follows_the_clip_norms(small_task):
    scheme = replace(SCHEME, rounds=40)
    records = list(train_without_charge(scheme, small_task(), randomness=Randomness.from_seed(1)).records)
    assert check_clipping(records, scheme).status == "passed"
    assert check_clipping([], scheme).status == "passed"
    lies = {
        "a clip norm": replace(records[7], clip_norm=records[7].clip_norm * (1 + 1e-9)),
        "a noise": replace(records[7], noise_stddev=records[7].noise_stddev * 0.999),
        "a share": replace(records[7], unclipped=records[7].unclipped + 1e-6),
        "no share": replace(records[7], unclipped=None),
    }
    for lie in lies.values():
        assert check_clipping([*records[:7], lie, *records[8:]], scheme).status == "failed"
    whole = replace(records[0], clip_norm=0.4, noise_stddev=0.4)
    assert check_clipping([whole, *records[1:]], scheme).status == "failed"
    loud = [one for one in records if one.clip_norm > min(each.clip_norm for each in records)]
    assert len(loud) > 20


@pytest.mark.slow
def test_weak_noise_is_noticed_under_a_clip_norm_that_moves(small_task):
    scheme = replace(SCHEME, rounds=60, clip_learning_rate=1.0)
    for source, verdict in (
        (Randomness.from_seed(1), "passed"),
        (Randomness.with_weaker_noise(1, noise_factor=0.7), "failed"),
        (Randomness.with_weaker_noise(1, noise_factor=1.3), "warned"),
    ):
        records = train_without_charge(scheme, small_task(), randomness=source).records
        assert max(each.clip_norm for each in records) > 1.5 * min(each.clip_norm for each in records)
        assert applied("noise", of_records(scheme, records)).status == verdict


def test_norms_are_compared_with_the_clip_of_their_own_round(small_task):
    task, scheme, state = small_task(), replace(SCHEME, clip_norm=0.01), make_initial_state(small_task())
    outcomes = []
    for _ in range(12):
        outcomes.append(compute_next_round(scheme, CompiledEngine(task), state, Randomness.from_seed(2)))
        state = outcomes[-1].state
    records, custody = [each.record for each in outcomes], [each.custody for each in outcomes]
    assert records[-1].clip_norm > 2 * scheme.clip_norm
    assert check_norms(custody, records, scheme).status == "passed"
    early = replace(custody[0], largest_norm=records[-1].clip_norm)
    assert check_norms([early, *custody[1:]], records, scheme).status == "failed"


def test_without_privacy_nothing_is_clipped_and_a_fixed_clip_says_nothing_of_shares(small_task):
    bare = train_without_charge(SCHEME, small_task(), randomness=Randomness.from_seed(1), private=False).records
    assert all(record.unclipped >= 0.5 for record in bare)
    assert not any(any(record.padding) for record in bare)
    fixed = ClientLevelCentral(12, 0.5, 2, 0.2, 1.0)
    assert {
        each.unclipped for each in train_without_charge(fixed, small_task(), randomness=Randomness.from_seed(1)).records
    } == {None}


def test_what_cannot_be_relied_on_is_refused(small_task):
    with pytest.raises(ValueError, match="clip_norm must be"):
        require_matching_scheme(replace(SCHEME, clip_norm=1e86), small_task())
    with pytest.raises(ValueError, match="noise_stddev must be"):
        require_matching_scheme(replace(SCHEME, noise_multiplier=1e85), small_task())
    for name, value in (("target_quantile", 1.0), ("target_quantile", 0.0), ("quantile_noise", 0.0)):
        with pytest.raises(ValueError, match=name):
            replace(SCHEME, **{name: value})


@pytest.mark.slow
def test_somebody_who_has_nothing_to_send_moves_the_count_by_no_more_than_is_priced(small_task):
    """Clipped, or without rows in the same place: one apart on the count, and the clip apart on the sum."""
    scheme = replace(SCHEME, sampling_probability=1.0, clip_norm=1e-3, quantile_noise=1e-9, noise_multiplier=1e-9)

    def count(change):
        task = small_task(change=change)
        found = compute_next_round(scheme, CompiledEngine(task), make_initial_state(task), Randomness.from_seed(1))
        return (found.record.unclipped - 0.5) * scheme.expected_cohort

    def without(client):
        def change(_features, _targets, present):
            present[client] = False

        return change

    apart = [abs(count(None) - count(without(client))) for client in range(12)]
    assert max(apart) == pytest.approx(1.0, abs=1e-6)
    unit = replace(SCHEME, noise_multiplier=1e9, quantile_noise=1.0)
    assert unit.accounted_multiplier <= 1.0 / max(apart) * (1 + 1e-6)
