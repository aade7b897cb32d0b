"""A loop read off JAX Privacy's own batch selection."""

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")

batch_selection = pytest.importorskip("jax_privacy.batch_selection")
analysis = pytest.importorskip("jax_privacy.accounting.analysis")

from epsilog.adapters.jax_privacy_loop import setup_of  # noqa: E402
from epsilog.plan import preflight  # noqa: E402
from epsilog.terms import CheckError, Verdict  # noqa: E402

N = 2000


def wrong(setup):
    return {one.code for one in preflight(setup, delta=1e-6).findings if one.verdict is Verdict.FAILED}


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
    setup = setup_of(selection, examples=N, noise_multiplier=1.0)
    sizes = [len(batch) for batch in selection.batch_iterator(N, rng=3)]
    assert len(sizes) == setup.updates == 50
    assert max(sizes) <= (setup.largest_batch or N)
    assert np.mean(sizes) == pytest.approx(setup.expected_batch, rel=0.1)
    assert wrong(setup) - {"believed/too-low"} == codes


def test_what_the_accountant_is_told_is_held_against_the_loop():
    """Gradient accumulation that the rate leaves out: issue 234 of its repository, and its kin."""
    params = analysis.DpParams(noise_multipliers=1.0, num_samples=N, delta=1e-6, batch_size=10)
    loop = batch_selection.CyclicPoissonSampling(0.02, 50)
    assert wrong(setup_of(loop, examples=N, noise_multiplier=1.0, params=params)) == {
        "rate/too-low",
        "believed/too-low",
    }


def test_what_is_not_known_is_refused():
    for selection in (
        batch_selection.CyclicPoissonSampling(0.02, 50, cycle_length=4),
        batch_selection.BallsInBinsSampling(50, 5),
    ):
        with pytest.raises(CheckError, match="selection must be CyclicPoissonSampling in one group"):
            setup_of(selection, examples=N, noise_multiplier=1.0)
