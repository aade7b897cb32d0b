"""Draws have the law they claim; a source that is 30% weak is caught by the same test."""

import os

import numpy as np
import pytest
from scipy import stats

from epsilog.training import Randomness

FALSE_ALARM = 1e-6
SOURCES = [Randomness.from_seed(11), Randomness.from_os()]


def looks_standard_normal(draws):
    """Kolmogorov-Smirnov on the shape and chi-square on the size; false alarm 2e-6."""
    size = stats.chi2.sf(np.sum(draws**2), draws.size), stats.chi2.cdf(np.sum(draws**2), draws.size)
    return stats.kstest(draws, "norm").pvalue > FALSE_ALARM and min(size) > FALSE_ALARM / 2


@pytest.mark.parametrize("source", SOURCES, ids=["simulated", "os"])
def test_normals_are_standard_normal(source):
    assert looks_standard_normal(source.stream("noise", 1).normals((70_001,)))


@pytest.mark.parametrize("factor", [0.7, 1.3])
def test_the_control_that_is_30_percent_off_is_caught(factor):
    assert not looks_standard_normal(
        Randomness.with_weaker_noise(11, noise_factor=factor).stream("noise", 1).normals((500,))
    )


@pytest.mark.parametrize("source", SOURCES, ids=["simulated", "os"])
def test_uniforms_are_uniform_and_never_reach_the_ends(source):
    draws = source.stream("cohort", 1).uniforms((100_000,))
    assert stats.kstest(draws, "uniform").pvalue > FALSE_ALARM
    assert draws.min() > 0
    assert draws.max() < 1


@pytest.mark.parametrize("source", SOURCES, ids=["simulated", "os"])
def test_neighboring_normals_are_uncorrelated(source):
    draws = source.stream("noise", 1).normals((2, 20_000))
    assert abs(np.corrcoef(draws)[0, 1]) < 5 / np.sqrt(20_000)
    assert abs(np.corrcoef(draws[0][:-1], draws[0][1:])[0, 1]) < 5 / np.sqrt(20_000)


def test_a_stream_goes_on_and_a_reopened_one_repeats():
    stream = Randomness.from_seed(3).stream("noise", 4)
    first, second = stream.normals((5,)), stream.normals((5,))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, Randomness.from_seed(3).stream("noise", 4).normals((5,)))


def test_seed_purpose_and_round_each_change_the_draws():
    streams = [
        Randomness.from_seed(seed).stream(purpose, number)
        for seed, purpose, number in [(1, "noise", 1), (2, "noise", 1), (1, "cohort", 1), (1, "noise", 2)]
    ]
    assert len({stream.uniforms((1,))[0] for stream in streams}) == 4


def test_the_operating_system_never_repeats():
    source = Randomness.from_os()
    assert not source.is_simulated
    assert source.stream("noise", 1).uniforms((1,)) != source.stream("noise", 1).uniforms((1,))


def test_what_protects_people_is_aes_as_published():
    """FIPS 197, appendix C.1: the block cipher on one counter value, under one key."""
    randomgen = pytest.importorskip("randomgen")
    key, plain = bytes(range(16)), bytes.fromhex("00112233445566778899aabbccddeeff")
    published = bytes.fromhex("69c4e0d86a7b0430d8cdb78070b4c55a")
    generator = randomgen.AESCounter(key=int.from_bytes(key, "little"), counter=int.from_bytes(plain, "little"))
    assert generator.random_raw(2).astype("<u8").tobytes() == published


def test_every_purpose_and_round_has_a_key_of_its_own_and_goes_on_when_opened_again():
    source = Randomness.from_os()
    streams = [source.stream(purpose, number) for purpose in ("noise", "batches") for number in (1, 2)]
    assert len({stream.words(1)[0] for stream in streams}) == 4
    again = source.stream("noise", 1, client=3)
    assert again.generator.bit_generator is streams[0].generator.bit_generator


def test_a_forked_child_draws_under_its_own_key(monkeypatch):
    source = Randomness.from_os()
    source.stream("noise", 1).words(1)
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    theirs = source.stream("noise", 1).generator.bit_generator
    monkeypatch.undo()
    assert theirs is not source.stream("noise", 1).generator.bit_generator


def test_a_weak_source_cannot_pose_as_a_real_one():
    with pytest.raises(ValueError, match="noise_factor must be 1 outside a simulation"):
        Randomness(None, 0.7)
    assert Randomness.with_weaker_noise(1, noise_factor=0.7).is_simulated
