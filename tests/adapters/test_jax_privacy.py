"""The reference's names over our functions: its own scenarios, and its fail-open cases closed."""

import inspect
import math
import sys
from types import ModuleType

import dp_accounting
import numpy as np
import pytest

from epsilog.accounting import epsilon, gaussian_delta
from epsilog.accounting.montecarlo import ProfilePayoff
from epsilog.adapters import dp_accounting as dp_accounting_adapter, jax_privacy
from epsilog.mechanisms import Gaussian, PoissonSampled, Repeated
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

LOW, HIGH = [0.0] * 1000, [9.0] * 1000  # estimates 0 and nearly 1 at epsilon 1


@pytest.mark.parametrize(
    ("positive", "negative", "answer"),
    [
        ([LOW, LOW, HIGH], None, (True, 1)),
        ([LOW, LOW, LOW], None, (True, 2)),
        ([HIGH, LOW], None, (False, 0.067)),
        ([LOW, HIGH, LOW], None, (True, 0)),
        ([LOW, LOW, LOW], [LOW, HIGH, LOW], (True, 0)),
        ([LOW, LOW], [HIGH, LOW], (False, 0.067)),
    ],
)
def test_the_last_before_the_first_failure(positive, negative, answer):
    found = jax_privacy.perform_calibration_from_samples(1.0, 0.1, positive_samples=positive, negative_samples=negative)
    assert found[0] is answer[0]
    assert found[1] == pytest.approx(answer[1], abs=2e-4)


def test_the_threshold_is_no_worse_than_the_references():
    """It answers 0.06698749625420028 where the largest threshold that keeps the promise is a little above."""
    _, threshold = jax_privacy.perform_calibration_from_samples(1.0, 0.1, positive_samples=[HIGH])
    assert 0.06698749625420028 <= threshold < 0.0670
    assert jax_privacy.get_overall_delta(1000, threshold) <= 0.1


@pytest.mark.parametrize(
    "call",
    [
        lambda: jax_privacy.perform_calibration_from_samples(1.0, 0.1, positive_samples=[[math.nan] * 1000]),
        lambda: jax_privacy.perform_calibration_from_samples(
            1.0, 0.1, positive_samples=[LOW], negative_samples=[[math.nan]]
        ),
        lambda: jax_privacy.perform_calibration_from_samples(
            1.0, 0.1, positive_samples=[[1.0, 9.0]], positive_counts=[[2000, -1000]]
        ),
        lambda: jax_privacy.perform_calibration_from_samples(
            1.0, 0.1, positive_samples=[LOW], positive_counts=[[0.5] * 1000]
        ),
        lambda: jax_privacy.perform_calibration_from_samples(
            1.0, 0.1, positive_samples=[[1.0, 9.0]], positive_counts=[[2000, 0.5]]
        ),
        lambda: jax_privacy.perform_calibration_from_samples(
            1.0, 0.1, positive_samples=[LOW, LOW], positive_counts=[[1] * 1000]
        ),
        lambda: jax_privacy.perform_calibration_from_samples(1.0, 0.1, positive_samples=[]),
        lambda: jax_privacy.perform_calibration_from_samples(1.0, 0.1, positive_samples=[LOW], negative_counts=[[1]]),
        lambda: jax_privacy.perform_calibration_from_samples(
            1.0, 0.1, positive_samples=[LOW, LOW], negative_samples=[LOW]
        ),
        lambda: jax_privacy.delta_from_epsilon_and_samples(1.0, []),
        lambda: jax_privacy.delta_from_epsilon_and_samples(1.0, [1.0], [0]),
        lambda: jax_privacy.get_overall_delta(0, 0.1),
        lambda: jax_privacy.get_base_delta(10, 1e-9),
        lambda: jax_privacy.minimum_samples_to_calibrate(0.1, 0.1),
    ],
)
def test_bad_input_never_passes(call):
    with pytest.raises(ValueError, match="must"):
        call()


def test_names_and_signatures_are_the_references():
    expected = {
        "get_overall_delta": ["num_samples", "base_delta"],
        "get_base_delta": ["num_samples", "target_delta"],
        "minimum_samples_to_calibrate": ["base_delta", "target_delta"],
        "delta_from_epsilon_and_samples": ["epsilon", "samples", "counts", "other_event"],
        "perform_calibration_from_samples": [
            "epsilon",
            "delta",
            "positive_samples",
            "positive_counts",
            "negative_samples",
            "negative_counts",
            "other_event",
        ],
    }
    for name, parameters in expected.items():
        assert list(inspect.signature(getattr(jax_privacy, name)).parameters) == parameters


def test_an_other_event_is_composed():
    """Losses of a Gaussian beside another Gaussian: one of the root of squares, within 5 standard errors."""
    mu, other, epsilon = 1.0, 0.5, 1.0
    losses = mu * np.random.default_rng(1).standard_normal(200_000) + mu**2 / 2
    grid = np.linspace(-8, 8, 2001)

    def profile(e):
        if e >= 0:
            return gaussian_delta(other, e)[1]
        return min(1.0, 1 - math.exp(e) * (1 - gaussian_delta(other, -e)[1]))

    table = ProfilePayoff(epsilon, tuple(map(float, grid)), tuple(profile(float(e)) for e in grid))
    found = jax_privacy.delta_from_epsilon_and_samples(epsilon, losses, other_event=table)
    truth = gaussian_delta(math.hypot(mu, other), epsilon)[1]
    assert found == pytest.approx(truth, abs=5 * 0.35 / math.sqrt(200_000))
    assert jax_privacy.delta_from_epsilon_and_samples(epsilon, losses) < truth - 0.01  # the control: without it


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_jax_privacys_accountants_ask_ours():
    from jax_privacy import accounting as theirs

    from epsilog.adapters.jax_privacy import CertifiedAccountantConfig

    params = theirs.DpParams(num_samples=50_000, batch_size=500, noise_multipliers=1.0, delta=1e-5)
    ours = theirs.DpsgdTrainingAccountant(CertifiedAccountantConfig())
    found = ours.compute_epsilon(1000, params)
    sgd = Repeated(PoissonSampled(Gaussian(1.0), 0.01), 1000)
    assert found == epsilon(sgd, delta=1e-5).upper
    peer = theirs.DpsgdTrainingAccountant(theirs.PldAccountantConfig())
    assert 1 - 1e-4 < peer.compute_epsilon(1000, params) / found < 1 + 1e-4
    assert ours.compute_epsilon(2000, params) > found  # each answer is a new accountant's


class Later:
    """JAX Privacy since June 2026 (2.3.0.dev0): plans hold an event and a relation, and nothing asks for a config."""

    def __init__(self, event, relation):
        self.dp_event, self.neighboring_relation = event, relation


def dpsgd_event(noise_multiplier, iterations, *, sampling_prob):
    """The event that ``jax_privacy.accounting.dpsgd_event`` makes."""
    gaussian = dp_accounting.GaussianDpEvent(noise_multiplier)
    return dp_accounting.SelfComposedDpEvent(dp_accounting.PoissonSampledDpEvent(sampling_prob, gaussian), iterations)


def test_a_plan_or_an_event_of_later_versions_is_priced():
    event = dpsgd_event(1.0, 100, sampling_prob=0.1)
    sgd = Repeated(PoissonSampled(Gaussian(1.0), 0.1), 100)
    special, replaced = (dp_accounting.NeighboringRelation[name] for name in ("REPLACE_SPECIAL", "REPLACE_ONE"))
    pairs = ((replaced, NeighboringRelation.REPLACE_ONE), (special, NeighboringRelation.ZERO_OUT))
    assert jax_privacy.bound_epsilon(event, delta=1e-5) == epsilon(sgd, delta=1e-5)
    for theirs, ours in pairs:
        expected = epsilon(sgd, delta=1e-5, relation=ours)
        assert jax_privacy.bound_epsilon(Later(event, theirs), delta=1e-5) == expected
        assert jax_privacy.bound_epsilon(event, delta=1e-5, relation=theirs) == expected
    with pytest.raises(UnsupportedMechanismError, match="SampledWithReplacement"):
        jax_privacy.bound_epsilon(
            dp_accounting.dp_event.SampledWithReplacementDpEvent(9, 2, event.event.event), delta=1e-5
        )


def test_a_version_without_configurations_says_what_to_do(monkeypatch):
    accounting = ModuleType("jax_privacy.accounting")
    accounting.dpsgd_event = dpsgd_event
    monkeypatch.setitem(sys.modules, "jax_privacy", ModuleType("jax_privacy"))
    monkeypatch.setitem(sys.modules, "jax_privacy.accounting", accounting)
    jax_privacy._config.cache_clear()
    with pytest.raises(ImportError, match=r"no DpAccountantConfig, unlike 2\.0\.0; pass CertifiedAccountant"):
        _ = jax_privacy.CertifiedAccountantConfig
    assert jax_privacy.bound_epsilon(accounting.dpsgd_event(1.0, 10, sampling_prob=0.1), delta=1e-5).upper > 0
    assert jax_privacy.CertifiedAccountant is dp_accounting_adapter.CertifiedAccountant
