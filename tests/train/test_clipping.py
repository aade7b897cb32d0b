"""Nothing leaves a clip longer than the clip norm, in exact arithmetic; nothing that is not finite leaves it at all."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from epsilog.train import clipping, reference

vectors = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e12, 1e12))


def exact_square(vector):
    return sum(Fraction(float(entry)) ** 2 for entry in vector)


@given(vector=vectors, clip_norm=st.floats(1e-6, 1e6))
def test_a_clipped_norm_never_exceeds_the_bound_exactly(vector, clip_norm):
    assert exact_square(reference.clip(vector, clip_norm)) <= Fraction(clip_norm) ** 2


@given(vector=vectors, clip_norm=st.floats(1e-6, 1e6))
def test_clipping_keeps_the_direction_and_leaves_short_vectors_alone(vector, clip_norm):
    clipped, norm = reference.clip(vector, clip_norm), np.linalg.norm(vector)
    if norm <= clip_norm * (1 - 1e-8):
        assert np.array_equal(clipped, vector)
    else:
        assert clipped == pytest.approx(vector * (clip_norm / norm), rel=1e-7)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_what_is_not_finite_or_has_no_finite_norm_becomes_zero(bad):
    assert reference.clip(np.array([1.0, bad]), 1.0).tolist() == [0.0, 0.0]


def test_a_zero_vector_and_an_infinite_bound_are_harmless():
    assert reference.clip(np.zeros(3), 1.0).tolist() == [0.0, 0.0, 0.0]
    assert reference.clip(np.array([3.0, 4.0]), np.inf).tolist() == [3.0, 4.0]


def test_float32_norms_leave_room_for_their_rounding():
    norms = np.array([5.0], dtype=np.float32)
    assert clipping.factors(norms, np.float32(1.0), xp=np)[0] * 5.0 == pytest.approx(0.999, abs=1e-6)
