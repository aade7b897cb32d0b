"""Nothing leaves a clip longer than the clip norm, in exact arithmetic; nothing that is not finite leaves it at all."""

import functools
from fractions import Fraction

import jax
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from epsilog.training import clipping
from epsilog.training.engines import reference
from epsilog.training.engines.program import use_full_precision
from epsilog.training.models import gradients
from epsilog.training.models.layers import Dense

vectors = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e12, 1e12))


def exact_square(vector):
    return sum(Fraction(float(entry)) ** 2 for entry in vector)


@pytest.mark.slow
@given(vector=vectors, clip_norm=st.floats(1e-6, 1e6))
def test_a_clipped_norm_never_exceeds_the_bound_exactly(vector, clip_norm):
    assert exact_square(reference.clip_vector(vector, clip_norm)) <= Fraction(clip_norm) ** 2


@pytest.mark.slow
@given(vector=vectors, clip_norm=st.floats(1e-6, 1e6))
def test_clipping_keeps_the_direction_and_leaves_short_vectors_alone(vector, clip_norm):
    clipped, norm = reference.clip_vector(vector, clip_norm), np.linalg.norm(vector)
    if norm <= clip_norm * (1 - 1e-8):
        assert np.array_equal(clipped, vector)
    else:
        assert clipped == pytest.approx(vector * (clip_norm / norm), rel=1e-7)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_what_is_not_finite_or_has_no_finite_norm_becomes_zero(bad):
    assert reference.clip_vector(np.array([1.0, bad]), 1.0).tolist() == [0.0, 0.0]


def test_a_zero_vector_and_an_infinite_bound_are_harmless():
    assert reference.clip_vector(np.zeros(3), 1.0).tolist() == [0.0, 0.0, 0.0]
    assert reference.clip_vector(np.array([3.0, 4.0]), np.inf).tolist() == [3.0, 4.0]


@functools.cache
def compiled():
    layer = Dense(3, 2)
    return jax.jit(functools.partial(gradients.backpropagate_layer, layer, layer.init(np.random.default_rng(1))))


@pytest.mark.slow
@given(
    inputs=hnp.arrays(np.float64, (1, 3), elements=st.floats(allow_nan=True, allow_infinity=True)),
    slopes=hnp.arrays(np.float64, (1, 2), elements=st.floats(allow_nan=True, allow_infinity=True)),
    clip_norm=st.floats(clipping.SMALLEST_CLIP, clipping.LARGEST_CLIP),
)
@example(inputs=np.array([[1e154, 0, 0]]), slopes=np.array([[1e-162, 0]]), clip_norm=1e-9)
@example(inputs=np.array([[1e99, 0, 0]]), slopes=np.array([[1e-99, 0]]), clip_norm=1e-9)
@example(inputs=np.array([[1e99, 0, 0]]), slopes=np.array([[1e-101, 0]]), clip_norm=1e-9)
@settings(deadline=None)  # the first call compiles
def test_no_gradient_slips_through_as_a_product_of_huge_and_tiny(inputs, slopes, clip_norm):
    """The gradient of a dense layer is inputs times slopes; its norm is found from theirs, in exact arithmetic here."""
    (a, e), reached = clipping.prepare_clip_factors([inputs, slopes], xp=np)
    with np.errstate(over="ignore"):
        layer = Dense(3, 2)
        norms = np.sqrt(layer.example_norms(a, e)[0])
        factor = np.where(reached, clipping.compute_clip_factors(norms, clip_norm, xp=np), 0.0)
        with use_full_precision():
            parts = compiled()(a, factor[:, None] * e)
        weights, bias = map(np.asarray, parts)
    assert exact_square([*weights.ravel(), *bias.ravel()]) <= Fraction(clip_norm) ** 2
