"""A loop read off JAX Privacy's own batch selection."""

import math

import dp_accounting
import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")

batch_selection = pytest.importorskip("jax_privacy.batch_selection")
analysis = pytest.importorskip("jax_privacy.accounting.analysis")

from epsilog.adapters.jax_privacy import read_training_loop  # noqa: E402
from epsilog.plan import preflight  # noqa: E402
from epsilog.terms import CheckError, Status  # noqa: E402

N = 2000


def wrong(setup):
    return {one.code for one in preflight(setup, delta=1e-6).findings if one.status is Status.FAILED}


@pytest.mark.parametrize(
    ("selection", "codes"),
    [
        (batch_selection.CyclicPoissonSampling(0.02, 50), set()),
        (batch_selection.CyclicPoissonSampling(0.02, 50, truncated_batch_size=100), set()),
        (batch_selection.CyclicPoissonSampling(0.02, 50, truncated_batch_size=45), {"truncation/frequent"}),
        (batch_selection.FixedBatchSampling(40, 50), {"sampler/fixed-size"}),
        (
            batch_selection.FixedBatchSampling(40, 50, replace=True),
            {"sampler/with-replacement", "batches/several-samples"},  # one example may be in several places
        ),
    ],
    ids=["poisson", "rarely cut", "often cut", "fixed size", "with replacement"],
)
def test_each_strategy_is_what_it_draws(selection, codes):
    setup = read_training_loop(selection, examples=N, noise_multiplier=1.0)
    sizes = [len(batch) for batch in selection.batch_iterator(N, rng=3)]
    assert len(sizes) == setup.updates == 50
    assert max(sizes) <= (setup.max_batch_size or N)
    assert np.mean(sizes) == pytest.approx(setup.expected_batch, rel=0.1)
    assert wrong(setup) - {"accountant-epsilon/too-low"} == codes


def test_what_the_accountant_is_told_is_held_against_the_loop():
    """Gradient accumulation that the rate leaves out: issue 234 of its repository, and its kin."""
    params = analysis.DpParams(noise_multipliers=1.0, num_samples=N, delta=1e-6, batch_size=10)
    loop = batch_selection.CyclicPoissonSampling(0.02, 50)
    assert wrong(read_training_loop(loop, examples=N, noise_multiplier=1.0, params=params)) == {
        "sampling-rate/too-low",
        "accountant-epsilon/too-low",
    }


def params(**told):
    return analysis.DpParams(**{"noise_multipliers": 1.0, "num_samples": N, "delta": 1e-6, "batch_size": 40} | told)


LOOP = batch_selection.CyclicPoissonSampling(0.02, 50)


def test_the_noise_that_the_accountant_is_told_is_held_against_the_loop():
    setup = read_training_loop(LOOP, examples=N, noise_multiplier=0.5, params=params())
    assert wrong(setup) == {"accountant-noise/too-high", "accountant-epsilon/too-low"}
    found = preflight(setup, delta=1e-6)
    assert found.cost.lower > 3 * found.accountant_epsilon.upper
    assert not wrong(
        read_training_loop(LOOP, examples=N, noise_multiplier=1.5, params=params())
    )  # more is done than is told


def test_a_schedule_of_noise_is_priced_as_it_runs():
    schedule = [(0, 2.0), (30, 0.6), (50, 0.1)]  # the last after the end
    constant = preflight(read_training_loop(LOOP, examples=N, noise_multiplier=2.0), delta=1e-6)
    found = preflight(
        read_training_loop(LOOP, examples=N, noise_multiplier=schedule, params=params(noise_multipliers=schedule)),
        delta=1e-6,
    )
    assert found.setup.stages == ((30, 2.0), (20, 0.6))
    assert found.passed
    assert found.cost.lower > 2 * constant.cost.upper
    setup = read_training_loop(LOOP, examples=N, noise_multiplier=schedule, params=params(noise_multipliers=2.0))
    assert wrong(setup) == {"accountant-noise/too-high", "accountant-epsilon/too-low"}
    for other in ([(0, 2.0), (40, 0.6)], [(0, 3.0), (30, 0.6)]):
        with pytest.raises(CheckError, match="params must have the noise multipliers of the loop"):
            read_training_loop(LOOP, examples=N, noise_multiplier=schedule, params=params(noise_multipliers=other))
    for broken in ([(1, 2.0)], [(0, 2.0), (0, 1.0)], []):
        with pytest.raises(CheckError, match="noise_multiplier must be pairs of different updates"):
            read_training_loop(LOOP, examples=N, noise_multiplier=broken)


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"batch_size_scale_schedule": {10: 2}}, "one batch size"),
        ({"examples_per_user": 3}, "examples_per_user 1"),
        ({"cycle_length": 4}, "cycle_length 1"),
        ({"is_finite_guarantee": False}, "is_finite_guarantee True"),
        ({"sampling_method": analysis.SamplingMethod.FIXED_BATCH_SIZE}, "the sampling method POISSON"),
        ({"truncated_batch_size": 60}, "the truncated batch size of the selection"),
    ],
)
def test_an_accountant_that_is_told_something_else_is_refused(told, says):
    with pytest.raises(CheckError, match=f"params must (have|hold) {says}"):
        read_training_loop(LOOP, examples=N, noise_multiplier=1.0, params=params(**told))


def test_the_event_of_later_versions_says_what_is_told():
    """What ``jax_privacy.accounting.dpsgd_event`` returns since DpParams are gone."""
    gaussian = dp_accounting.PoissonSampledDpEvent(0.02, dp_accounting.GaussianDpEvent(1.0))
    event = dp_accounting.SelfComposedDpEvent(gaussian, 50)
    assert not wrong(read_training_loop(LOOP, examples=N, noise_multiplier=1.0, params=event))
    assert wrong(read_training_loop(LOOP, examples=N, noise_multiplier=0.5, params=event)) >= {
        "accountant-noise/too-high"
    }
    fewer = dp_accounting.SelfComposedDpEvent(gaussian, 10)
    assert wrong(read_training_loop(LOOP, examples=N, noise_multiplier=1.0, params=fewer)) >= {
        "sampling-rate/fewer-steps"
    }
    unsampled = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(1.0), 50)
    assert not wrong(read_training_loop(LOOP, examples=N, noise_multiplier=1.0, params=unsampled))
    with pytest.raises(CheckError, match="params must be DpParams, or an event"):
        read_training_loop(LOOP, examples=N, noise_multiplier=1.0, params=dp_accounting.LaplaceDpEvent(1.0))


def test_what_is_not_known_is_refused():
    for selection in (
        batch_selection.CyclicPoissonSampling(0.02, 50, cycle_length=4),
        batch_selection.BallsInBinsSampling(50, 5),
    ):
        with pytest.raises(CheckError, match="selection must be CyclicPoissonSampling in one group"):
            read_training_loop(selection, examples=N, noise_multiplier=1.0)


class Selection:
    """What both strategies hold; the tests name its class as JAX Privacy does."""

    cycle_length, truncated_batch_size, sampling_prob, iterations, batch_size, replace = 1, None, 0.02, 50, 40, False


NOT_A_NUMBER = (np.array([1.0, 2.0]), math.nan, True, "1", np.array(["1"]))


@pytest.mark.parametrize("value", NOT_A_NUMBER, ids=repr)
@pytest.mark.parametrize(
    ("strategy", "field"),
    [
        ("CyclicPoissonSampling", name)
        for name in ("cycle_length", "truncated_batch_size", "sampling_prob", "iterations")
    ]
    + [("FixedBatchSampling", name) for name in ("batch_size", "iterations")],
)
def test_a_field_of_a_selection_that_holds_no_number_is_refused_by_name(strategy, field, value):
    selection = type(strategy, (Selection,), {field: value})()
    with pytest.raises(CheckError, match=f"^{field} must be"):
        read_training_loop(selection, examples=N, noise_multiplier=1.0)


@pytest.mark.parametrize("value", NOT_A_NUMBER, ids=repr)
@pytest.mark.parametrize(
    "field", ["examples_per_user", "cycle_length", "truncated_batch_size", "batch_size", "num_samples"]
)
def test_a_field_of_params_that_holds_no_number_is_refused_by_name(field, value):
    stated = params()
    object.__setattr__(stated, field, value)
    with pytest.raises(CheckError, match=f"^{field} must be"):
        read_training_loop(LOOP, examples=N, noise_multiplier=1.0, params=stated)
