"""The DP-SGD calculator: its steps, its loaders and its figures, against other accountants and published numbers."""

import math
from fractions import Fraction
from itertools import pairwise

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings, strategies as st
from scipy.optimize import brentq
from scipy.stats import norm
from tests.extent import amount

from epsilog import accounting
from epsilog.mechanisms import Gaussian, PoissonSampled, Repeated, TruncatedPoissonSampled
from epsilog.plan import plan_dp_sgd
from epsilog.plan.dp_sgd_plan import DPSGDRun
from epsilog.terms import CheckError, NeighboringRelation

ADD, REPLACE, ZERO = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.ZERO_OUT,
)
MNIST = {"examples": 60_000, "batch_size": 256, "delta": 1e-5}


def gaussian_epsilon(mu, delta):
    """Balle and Wang 2018, Theorem 8, solved by another root search."""
    excess = lambda eps: norm.cdf(mu / 2 - eps / mu) - math.exp(eps + norm.logcdf(-mu / 2 - eps / mu)) - delta  # noqa: E731
    return brentq(excess, 0, mu * mu / 2 + 10 * mu + 10)


@given(
    examples=st.integers(1, 10**6),
    share=st.integers(1, 1000),
    epochs=st.one_of(st.integers(1, 10**4).map(float), st.decimals("0.01", "1000", places=2).map(float)),
)
def test_steps_are_epochs_times_size_over_batch_rounded_up(examples, share, epochs):
    batch = max(1, examples * share // 1000)
    steps = DPSGDRun(examples, batch, 1.0, epochs).updates
    passed = Fraction(repr(epochs)) * examples  # 0.3 is three tenths, not the double below it
    assert (steps - 1) * batch < passed <= steps * batch
    assert DPSGDRun(examples, batch, 1.0, steps=steps).updates == steps


@given(examples=st.integers(1, 10**5), share=st.integers(1, 1000), epochs=st.integers(1, 50))
def test_shuffled_batches_use_an_example_as_often_as_epochs_were_begun(examples, share, epochs):
    """Whether the loader keeps its last batch or drops it, so many steps never begin more epochs."""
    batch = max(1, examples * share // 1000)
    run = DPSGDRun(examples, batch, 1.0, epochs + 0.5, sampler="shuffled")
    assert run.passes == run.rounds == epochs + 1
    for length in (examples // batch, -(-examples // batch)):  # drop_last or not
        told = DPSGDRun(examples, batch, 1.0, steps=epochs * length, sampler="shuffled")
        assert told.passes >= epochs


@pytest.mark.parametrize(("relation", "noise"), [(ADD, 0.7), (ZERO, 1.1), (REPLACE, 4.0)])
def test_each_loader_is_accounted_as_what_it_is(relation, noise):
    gaussian = Gaussian(noise)
    poisson = Repeated(PoissonSampled(gaussian, 256 / 60_000), 470)
    truncated = Repeated(TruncatedPoissonSampled(gaussian, 256 / 60_000, 60_000, 300), 470)
    shuffled = None if relation is ADD else Repeated(gaussian, 3)
    for sampler, release in (("poisson", poisson), ("truncated-poisson", truncated), ("shuffled", shuffled)):
        if release is None:
            continue
        most = 300 if sampler == "truncated-poisson" else None
        given = MNIST | {"steps": 470, "noise_multiplier": noise, "relation": relation}
        plan = plan_dp_sgd(**given, sampler=sampler, max_batch_size=most)
        told = accounting.epsilon(release, delta=1e-5, relation=relation)
        assert max(plan.epsilon.lower, told.lower) <= min(plan.epsilon.upper, told.upper)
        assert plan.relation is plan.epsilon.relation is relation
        assert plan.release == release
        other = shuffled or Repeated(gaussian, 3)
        if sampler == "shuffled":
            other = poisson
        beside = accounting.epsilon(other, delta=1e-5, relation=plan.other_relation)
        assert max(plan.other_epsilon.lower, beside.lower) <= min(plan.other_epsilon.upper, beside.upper)


@pytest.mark.slow
@given(
    noise=st.floats(0.5, 20),
    epochs=st.integers(1, 100),
    delta=st.sampled_from([1e-9, 1e-5, 1e-3]),
    batch=st.integers(1, 600),
)
def test_shuffled_batches_are_not_amplified(noise, epochs, delta, batch):
    """Their cost is that of one Gaussian release an epoch, whatever the batch size: mu is sqrt(epochs) / noise."""
    plan = plan_dp_sgd(
        examples=600, batch_size=batch, delta=delta, epochs=epochs, noise_multiplier=noise, sampler="shuffled"
    )
    assert plan.epsilon.upper == pytest.approx(gaussian_epsilon(math.sqrt(epochs) / noise, delta), rel=1e-6, abs=1e-9)
    assert plan.relation is ZERO


@pytest.mark.slow
@pytest.mark.every(3)
@pytest.mark.parametrize(("noise", "epochs"), [(1.1, 60), (0.7, 45), (2.0, 5)])
def test_poisson_batches_cost_what_another_accountant_says(noise, epochs):
    """dp-accounting 0.6, PLD with its pessimistic discretization: an upper bound, at most a thousandth above."""
    plan = plan_dp_sgd(**MNIST, epochs=epochs, noise_multiplier=noise)
    event = dp_accounting.PoissonSampledDpEvent(256 / 60_000, dp_accounting.GaussianDpEvent(noise))
    found = PLDAccountant().compose(event, plan.run.updates).get_epsilon(1e-5)
    assert plan.epsilon.lower <= found * (1 + 1e-9)
    assert plan.epsilon.upper == pytest.approx(found, rel=1e-3)


@pytest.mark.parametrize(
    ("noise", "epochs", "published"),
    [
        # Bu, Dong, Long & Su 2020, Deep Learning with Gaussian Differential Privacy, Harvard Data Science Review 2(3),
        # Figure 4: MNIST, p = 256/60000, delta 1e-5, by the moments accountant, which is an upper bound.
        (1.3, 20, 1.34),
        (0.7, 70, 8.68),
        # tensorflow/privacy, tutorials/README.md at 047e1eef: MNIST, batch 256, delta 1e-5, by Renyi DP.
        (1.12, 60, 2.92),
        (0.6, 30, 9.74),
        (1.2, 10, 1.20),
    ],
)
def test_published_bounds_are_a_little_above(noise, epochs, published):
    found = plan_dp_sgd(**MNIST, epochs=epochs, noise_multiplier=noise).epsilon
    assert found.upper <= published + 0.005  # two decimals were printed
    assert found.lower > published / 1.6


def test_truncated_batches_cost_at_least_the_plain_ones_and_the_same_where_nothing_is_truncated():
    given = MNIST | {"epochs": 2, "noise_multiplier": 1.0}
    plain = plan_dp_sgd(**given).epsilon
    cut = [plan_dp_sgd(**given, sampler="truncated-poisson", max_batch_size=most).epsilon for most in (240, 300, 500)]
    assert all(one.upper >= plain.lower for one in cut)
    assert cut[0].upper > cut[1].upper > plain.upper
    assert cut[2].upper == pytest.approx(plain.upper, rel=1e-6)
    every = plan_dp_sgd(**given, sampler="truncated-poisson", max_batch_size=60_000).epsilon
    assert every.upper == plain.upper


@pytest.mark.extended  # it takes four seconds there; tests/adapters compares the mechanism
def test_a_truncated_run_costs_hardly_more_than_another_accountant_says():
    """dp-accounting 0.6 uses how rarely a unit is kept in the whole population; this holds for fewer units, too."""
    event = dp_accounting.TruncatedSubsampledGaussianDpEvent(
        dataset_size=60_000, sampling_probability=256 / 60_000, truncated_batch_size=300, noise_multiplier=1.0
    )
    found = PLDAccountant().compose(event, 100).get_epsilon(1e-5)
    given = MNIST | {"steps": 100, "noise_multiplier": 1.0}
    plan = plan_dp_sgd(**given, sampler="truncated-poisson", max_batch_size=300)
    assert plan.epsilon.lower <= found <= plan.epsilon.upper * (1 + 1e-3)
    assert plan.epsilon.upper < found * 1.03


@pytest.mark.slow
@settings(max_examples=amount(10, 40), deadline=None)
@given(target=st.floats(0.5, 10), epochs=st.integers(1, 20), shuffled=st.booleans())
def test_the_noise_that_is_found_meets_the_target_and_hardly_less_does_not(target, epochs, shuffled):
    given = {"examples": 5000, "batch_size": 100, "delta": 1e-5, "epochs": epochs}
    given["sampler"] = "shuffled" if shuffled else "poisson"
    plan = plan_dp_sgd(**given, epsilon=target)
    noise = plan.run.noise_multiplier
    assert plan.epsilon.upper <= target
    assert float(f"{noise:.4g}") == noise
    less = plan_dp_sgd(**given, noise_multiplier=noise * (1 - 2e-3)).epsilon
    assert less.lower > target * (1 - 1e-9) or less.upper > target


def test_the_clip_norm_changes_the_noise_and_not_epsilon():
    one, ten = (plan_dp_sgd(**MNIST, epochs=1, noise_multiplier=1.0, clip_norm=clip) for clip in (1.0, 10.0))
    assert one.epsilon == ten.epsilon
    assert ten.to_json()["noise_stddev"] == 10 * one.to_json()["noise_stddev"] == 10 / 256


def test_more_noise_costs_less_and_more_epochs_more():
    upper = [plan_dp_sgd(**MNIST, epochs=2, noise_multiplier=noise).epsilon for noise in (0.6, 0.8, 1.0, 2.0)]
    assert all(a.lower > b.upper for a, b in pairwise(upper))
    upper = [plan_dp_sgd(**MNIST, epochs=epochs, noise_multiplier=1.0).epsilon for epochs in (1, 2, 5)]
    assert all(a.upper < b.lower for a, b in pairwise(upper))


def test_without_noise_every_example_is_found():
    for sampler in ("poisson", "shuffled"):
        plan = plan_dp_sgd(**MNIST, epochs=1, noise_multiplier=0.0, sampler=sampler)
        assert math.isinf(plan.epsilon.upper)
        assert math.isinf(plan.other_epsilon.upper)
        assert plan.count_found() == 1000
        assert str(plan.write_meaning(1000)[0]) == "An attack could pick out nearly every example."
        assert plan.to_json()["epsilon"]["upper"] == "inf"


def test_as_many_are_found_as_the_best_test_finds():
    """Shuffled: two normal distributions sqrt(epochs) / noise apart (Dong, Roth & Su 2019)."""
    for noise in (1.0, 4.0, 30.0):
        plan = plan_dp_sgd(**MNIST, epochs=4, noise_multiplier=noise, sampler="shuffled")
        rate = norm.cdf(norm.ppf(0.01) + 2 / noise)
        assert 1000 * rate <= plan.count_found() <= math.ceil(1000 * rate * (1 + 0.01)) + 1


@pytest.mark.extended
def test_no_more_are_found_by_an_attack_than_are_told():
    poisson = plan_dp_sgd(**MNIST, epochs=60, noise_multiplier=1.1)
    rng, steps = np.random.default_rng(1), 14_063
    losses = [_draw_losses(rng, steps, present=present) for present in (False, True)]
    threshold = np.quantile(losses[0], 0.99)
    assert np.mean(losses[1] > threshold) <= poisson.count_found() / 1000  # one attack: the likelihood ratio


def _draw_losses(rng, steps, *, present, runs=2000, noise=1.1, q=256 / 60_000):
    """Log likelihood ratios of runs with or without the example, given every noisy sum."""
    total = np.zeros(runs)
    for _ in range(0, steps, 200):
        size = (runs, min(200, steps))
        sums = rng.normal(size=size) * noise + (present & (rng.random(size) < q))
        total += np.log1p(q * np.expm1((2 * sums - 1) / (2 * noise**2))).sum(axis=1)
    return total


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"steps": 3}, "epochs must be given, or else steps, got both"),
        ({"epochs": None}, "epochs must be given, or else steps, got neither"),
        ({"epsilon": 1.0}, "noise_multiplier must be given, or else epsilon, got both"),
        ({"noise_multiplier": None}, "noise_multiplier must be given, or else epsilon, got neither"),
        ({"max_batch_size": 300}, "max_batch_size must be left out"),
        ({"sampler": "truncated-poisson"}, "max_batch_size must be given"),
        ({"sampler": "shuffled", "relation": ADD}, "a removed example would move the others"),
        ({"batch_size": 60_001}, "batch_size"),
        ({"delta": 1.0}, "delta"),
        ({"epochs": 0.0}, "epochs"),
        ({"sampler": "in-order"}, "sampler"),
    ],
)
def test_what_no_run_can_be_is_refused(changes, says):
    with pytest.raises(CheckError, match=says):
        plan_dp_sgd(**MNIST | {"epochs": 1.0, "noise_multiplier": 1.0} | changes)


@pytest.mark.slow
def test_the_loader_note_names_the_other_figure():
    for sampler, told, shown in (("poisson", "54.05", "54.1"), ("shuffled", "2.382", "2.39")):
        plan = plan_dp_sgd(**MNIST, epochs=60, noise_multiplier=1.1, sampler=sampler)
        assert f"epsilon ≤ {told}" in str(plan.loader_note)
        assert shown in plan._repr_html_()
