"""Groups of clip norms: against composition by the accountant, and against vectors that meet every clip norm."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilog import plan
from epsilog.accounting import epsilon
from epsilog.plan import ClipGroup
from epsilog.terms import CheckError, Composed, Gaussian, PoissonSampled

sizes = st.floats(1e-150, 1e150)
groups = st.lists(st.tuples(sizes, sizes), min_size=1, max_size=6)


def grouped(pairs):
    return plan.clip_groups([ClipGroup(f"g{i}", clip, noise) for i, (clip, noise) in enumerate(pairs)])


@settings(max_examples=40)
@given(pairs=groups)
def test_both_numbers_are_on_the_safe_side_and_close(pairs):
    found = grouped(pairs)
    square = sum(Fraction(clip) ** 2 for clip, _ in pairs)
    mu_square = sum((Fraction(clip) / Fraction(noise)) ** 2 for clip, noise in pairs)
    close = 1 + Fraction(1, 2**49)
    assert square <= Fraction(found.sensitivity) ** 2 <= square * close
    assert Fraction(found.noise_multiplier) ** 2 * mu_square <= 1
    if 1e-300 < found.noise_multiplier < 1e300:
        assert Fraction(found.noise_multiplier) ** 2 * mu_square * close >= 1
        assert Fraction(found.mu) ** 2 >= mu_square
    assert found.noise_multiplier <= found.mistaken
    assert sum(found.shares) == pytest.approx(1)


@pytest.mark.parametrize("q", [1.0, pytest.param(0.02, marks=pytest.mark.slow)])
def test_groups_cost_what_their_releases_on_one_cohort_cost(q):
    """The accountant composes one Gaussian a group on the same sample; our one Gaussian is that release."""
    pairs = [(0.6, 1.1), (0.8, 2.0), (0.3, 0.9)]
    apart = Composed([Gaussian(noise / clip) for clip, noise in pairs])
    together, mistaken = Gaussian(grouped(pairs).noise_multiplier), Gaussian(grouped(pairs).mistaken)
    known, found = (epsilon(PoissonSampled(one, q), delta=1e-6) for one in (apart, together))
    assert found.lower <= known.upper
    assert known.lower <= found.upper
    assert epsilon(PoissonSampled(mistaken, q), delta=1e-6).upper < known.lower  # the control: no bound


def test_no_unit_moves_further_than_mu_and_one_moves_as_far():
    rng = np.random.default_rng(5)
    clips, noises, width = np.array([0.6, 0.8, 0.3]), np.array([1.1, 2.0, 0.9]), 4
    mu = grouped(zip(clips, noises, strict=True)).mu
    drawn = rng.normal(size=(2000, 3, width))
    drawn *= (clips / np.linalg.norm(drawn, axis=2))[..., None]
    shrunk = drawn * rng.uniform(size=(2000, 3, 1))
    for updates, reached in ((drawn, True), (shrunk, False)):
        moved = np.linalg.norm((updates / noises[:, None]).reshape(2000, -1), axis=1)
        assert (moved <= mu * (1 + 1e-12)).all()
        assert (np.isclose(moved, mu)).all() == reached


def test_one_noise_for_all():
    named = [ClipGroup("a", 3.0), ClipGroup("b", 4.0)]
    found = plan.clip_groups(named, noise_stddev=10)
    assert (found.sensitivity, found.noise_multiplier, found.mistaken, found.mu) == (5, 2, 2.5, np.nextafter(0.5, 1))
    assert found.shares == (0.36, 0.64)
    assert [one.noise_stddev for one in found.groups] == [10, 10]
    assert "2.5, that of the worst group alone, is no bound" in found.says
    assert plan.clip_groups(named[:1], noise_stddev=6).says.startswith("One group: noise multiplier 2. A smaller clip")


def test_a_group_without_noise_has_no_privacy():
    found = grouped([(1.0, 0.0), (1.0, 5.0)])
    assert (found.noise_multiplier, found.mu, found.shares) == (0, math.inf, None)
    assert found.to_json()["mu"] == "inf"
    assert "no privacy" in found.says


@pytest.mark.parametrize(
    ("listed", "noise", "wrong"),
    [
        ([], 1.0, "groups must be 1 to 1000"),
        ([ClipGroup("a", 1.0), ClipGroup("a", 2.0)], 1.0, "groups must be of different names"),
        ([ClipGroup("a", 1.0, 2.0)], 1.0, r"groups\[0\].noise_stddev must be blank"),
        ([ClipGroup("a", 1.0, 2.0), ClipGroup("b", 1.0)], None, r"groups\[1\].noise_stddev must be given"),
        ([ClipGroup("a", 1.0)], -1.0, "noise_stddev must be"),
        ([ClipGroup("a", 1.7e308), ClipGroup("b", 1.7e308)], 1.0, "clip_norm must be within range"),
    ],
)
def test_bad_groups_are_refused_by_name(listed, noise, wrong):
    with pytest.raises(CheckError, match=f"^{wrong}"):
        plan.clip_groups(listed, noise_stddev=noise)


def test_groups_are_read_from_tables_and_lists():
    known = (ClipGroup("embedding", 0.6, 1.5), ClipGroup("head", 0.3, 1.5))
    assert plan.read_groups("C\tlayer\tnoise stddev\n0.6\tembedding\t1.5\n0.3\thead\t1.5") == known
    assert (
        plan.groups_of([{"name": one.name, "clip_norm": one.clip_norm, "noise_stddev": 1.5} for one in known]) == known
    )
    assert plan.read_groups("embedding,0.6\nhead,0.3")[1] == ClipGroup("head", 0.3)
    for text, wrong in [
        ("embedding,0.6\nhead,x", "line 2, column clip_norm must be a number"),
        ("embedding,0.6\nhead,-1", "line 2, column clip_norm must be finite and above 0"),
        ("name,C\n,1", "line 2, column name must be given"),
    ]:
        with pytest.raises(CheckError, match=f"^{wrong}"):
            plan.read_groups(text)
