"""What a training loop costs as it is: above exact enumerations, simulated epochs, and as dp-accounting composes."""

import math
import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings, strategies as st
from scipy import stats
from tests.extent import amount

import epsilog as ep
from epsilog.mechanisms import Gaussian, PoissonSampled, Repeated
from epsilog.plan import TrainingLoop, preflight
from epsilog.plan.preflight_checks import _epochs
from epsilog.plan.training_setup import SAMPLERS
from epsilog.terms import CheckError, NeighboringRelation, Status

DELTA = 1e-6
BASE = TrainingLoop(examples=60_000, batch_size=600, updates=1000, noise_multiplier=1.0)


def failed(setup, **options):
    found = preflight(replace(setup, **options), delta=DELTA)
    return found, {one.code for one in found.findings if one.status is Status.FAILED}


def test_a_loop_as_accountants_take_it_costs_what_they_say():
    found, wrong = failed(BASE)
    assert not wrong
    assert found.passed
    assert (
        found.cost
        == found.accountant_epsilon
        == ep.epsilon(Repeated(PoissonSampled(Gaussian(1.0), 0.01), 1000), delta=DELTA)
    )


def test_workers_with_shards_of_their_own_are_one_large_batch():
    found, wrong = failed(BASE, workers=4, batch_size=150)
    assert not wrong
    assert found.cost.upper == pytest.approx(preflight(BASE, delta=DELTA).cost.upper, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"sampler": "shuffled"}, "sampler/shuffled"),
        ({"sampler": "in-order"}, "sampler/in-order"),
        ({"sampler": "fixed-size"}, "sampler/fixed-size"),
        ({"sampler": "with-replacement"}, "sampler/with-replacement"),
        ({"sampler": "weighted"}, "sampler/weighted"),
        ({"accumulation": 4, "batch_size": 150}, "batches/several-samples"),
        ({"workers": 2, "own_shards": False, "batch_size": 300}, "batches/several-samples"),
        ({"clipped": "microbatch"}, "clipping/microbatches"),
        ({"divisor": "realised"}, "divisor/realized-cohort-size"),
        ({"max_batch_size": 650}, "truncation/frequent"),
        ({"accountant_sampling_probability": 0.001}, "sampling-rate/too-low"),
        ({"accountant_updates": 10}, "sampling-rate/fewer-steps"),
    ],
)
def test_each_difference_is_found_and_costs_more(options, code):
    found, wrong = failed(BASE, **options)
    assert code in wrong
    assert not found.passed
    assert found.cost.upper > found.accountant_epsilon.upper
    assert wrong & {"accountant-epsilon/too-low", "accountant-epsilon/unproven"}


def test_a_difference_that_costs_nothing_is_a_warning():
    found, wrong = failed(BASE, accumulation=4, batch_size=150, noise_added="batch")
    assert not wrong
    assert found.passed
    codes = {one.code for one in found.findings if one.status is Status.WARNED}
    assert codes == {"batches/several-samples", "noise-added/more-than-counted"}
    assert found.cost.upper < found.accountant_epsilon.upper


def test_the_chance_that_a_batch_is_cut_is_told_from_above():
    for most in (690, 700, 710, 720, 730):
        found = preflight(replace(BASE, max_batch_size=most), delta=DELTA).findings
        (one,) = [each for each in found if each.check == "truncation"]
        told = float(re.search(r"at most ([0-9.e-]+[0-9])", one.message)[1])
        assert told >= min(1000 * stats.binom.sf(most, 60_000, 0.01), 1.0)


@pytest.mark.parametrize("noise", [0.199, 0.05])
def test_little_noise_is_no_difference_to_what_an_accountant_counts(noise):
    found, wrong = failed(BASE, noise_multiplier=noise)
    assert not wrong
    assert found.passed
    assert "noise-added/passed" in {one.code for one in found.findings}
    assert 100 < found.cost.upper < math.inf


def test_what_needs_no_price():
    for parameters, code in ((100, "utility/passed"), (10**8, "utility/noise-dominates")):
        assert code in {one.code for one in preflight(replace(BASE, parameters=parameters), delta=DELTA).findings}
    wasted = preflight(replace(BASE, accountant_sampling_probability=0.02, max_batch_size=1000), delta=DELTA)
    assert {one.code for one in wasted.findings} >= {"sampling-rate/too-high", "truncation/passed"}
    assert wasted.passed


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("noise", [0.0, 5e-324, 1e-200])
def test_infinite_never_holds(sampler, noise):
    """What the accountant says is infinite, too: the two are not compared."""
    found, wrong = failed(BASE, noise_multiplier=noise, sampler=sampler)
    assert found.cost.upper == math.inf
    assert not found.passed
    assert "accountant-epsilon/unproven" in wrong


VARIANTS = [
    {},
    *({"sampler": sampler} for sampler in SAMPLERS if sampler not in ("poisson", "weighted")),
    {"accumulation": 3, "batch_size": 200},
    {"accumulation": 300, "batch_size": 2},
    {"workers": 2, "batch_size": 300, "noise_added": "worker"},
    {"clipped": "microbatch"},
    {"divisor": "realised"},
    {"divisor": "realised", "accumulation": 3, "batch_size": 200},
    {"max_batch_size": 650},
    {"sampler": "fixed-size", "accumulation": 2},
]


@pytest.mark.slow
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_noise_that_changes_costs_between_its_least_and_its_most(options):
    base = replace(BASE, updates=60, **options)
    changing = replace(base, noise_multiplier=2.0, noise_changes=(20, 50), changed_noise=(0.8, 1.5))
    least, cost, most = (
        preflight(one, delta=DELTA).cost.upper
        for one in (replace(base, noise_multiplier=2.0), changing, replace(base, noise_multiplier=0.8))
    )
    assert least < cost <= most * (1 + 1e-9)


def test_noise_that_changes_is_composed_update_by_update():
    changing = replace(BASE, noise_multiplier=2.0, noise_changes=(200, 900), changed_noise=(1.0, 1.5))
    assert changing.stages == ((200, 2.0), (700, 1.0), (100, 1.5))
    parts = [Repeated(PoissonSampled(Gaussian(noise), 0.01), count) for count, noise in changing.stages]
    found = preflight(changing, delta=DELTA)
    assert found.cost == found.accountant_epsilon == ep.epsilon(ep.Composed(parts), delta=DELTA)
    assert found.passed
    fewer = preflight(replace(changing, accountant_updates=300), delta=DELTA)  # the first 300
    assert (
        fewer.accountant_epsilon.upper
        == ep.epsilon(ep.Composed([parts[0], Repeated(parts[1].release, 100)]), delta=DELTA).upper
    )
    more = preflight(replace(changing, accountant_updates=1100), delta=DELTA)
    assert (
        more.accountant_epsilon.upper
        == ep.epsilon(ep.Composed([*parts, Repeated(parts[2].release, 100)]), delta=DELTA).upper
    )


@pytest.mark.parametrize(
    ("told", "code", "verdict"),
    [
        (1.5, "accountant-noise/too-high", Status.FAILED),
        (0.9, "accountant-noise/too-low", Status.WARNED),
        (1.0, "accountant-noise/passed", Status.PASSED),
    ],
)
def test_noise_that_the_accountant_is_not_told(told, code, verdict):
    found = preflight(replace(BASE, accountant_noise_multiplier=told), delta=DELTA)
    assert (code, verdict) in {(one.code, one.status) for one in found.findings}
    assert found.passed is (verdict is not Status.FAILED)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"noise_changes": [10]}, "changed_noise must hold 1 values"),
        ({"changed_noise": [1.0]}, "changed_noise must hold 0 values"),
        ({"noise_changes": [10, 10], "changed_noise": [1.0, 2.0]}, "noise_changes must be in rising order"),
        ({"noise_changes": [1000], "changed_noise": [1.0]}, "below the 1000 updates"),
        ({"noise_changes": [0], "changed_noise": [1.0]}, r"noise_changes\[0\] must be at least 1"),
        ({"noise_changes": [1], "changed_noise": [-1.0]}, r"changed_noise\[0\] must be finite and at least 0"),
        (
            {"updates": 5000, "noise_changes": range(1, 1200), "changed_noise": [1 + i / 1e4 for i in range(1199)]},
            "changed_noise must hold at most 1000 different values",
        ),
    ],
)
def test_changes_of_noise_are_checked(options, says):
    with pytest.raises(CheckError, match=says):
        replace(BASE, **options)


def test_what_was_not_looked_at_is_listed():
    found = preflight(BASE, delta=DELTA)
    unseen = {one.code for one in found.findings if one.status is Status.NOT_CHECKED}
    assert {code.partition("/")[2] for code in unseen} == {"not-checked"}
    assert {code.partition("/")[0] for code in unseen} == {
        "gradients",
        "changes",
        "randomness",
        "other-uses",
        "earlier-steps",
    }


@pytest.mark.slow
@pytest.mark.every(2)
@pytest.mark.parametrize(("draws", "workers"), [(3, 1), (4, 2)])
def test_several_samples_are_the_mixture_that_dp_accounting_composes(draws, workers):
    setup = TrainingLoop(1000, 20, 50, 2.0, accumulation=draws // workers, workers=workers, own_shards=workers == 1)
    found = preflight(setup, delta=1e-5)
    times = np.arange(draws + 1)
    shares = stats.binom.pmf(times, draws, 0.02)
    oracle = pld.from_mixture_gaussian_mechanism(2.0, times, shares, value_discretization_interval=1e-3)
    assert found.cost.upper == pytest.approx(oracle.self_compose(50).get_epsilon_for_delta(1e-5), rel=0.02)


SHAPES = st.tuples(st.integers(1, 60), st.integers(1, 12), st.integers(1, 30), st.integers(1, 6), st.integers(1, 3))


@pytest.mark.slow
@settings(max_examples=amount(50, 150), deadline=None)
@given(SHAPES, st.booleans(), st.booleans(), st.integers(0, 9))
def test_epochs_cover_what_loaders_do(shape, own, drop, seed):
    """Every example's squared uses an update, over random epochs, with and without the last short batch."""
    examples, size, updates, accumulation, workers = shape
    workers = min(workers, examples)
    pool = examples // workers if own else examples
    if size > pool:
        return
    setup = TrainingLoop(
        examples, size, updates, 1.0, sampler="shuffled", accumulation=accumulation, workers=workers, own_shards=own
    )
    release = _epochs(setup)
    most = release.count / release.release.noise_multiplier**2
    draws = np.random.default_rng(seed)
    uses = np.zeros((updates, examples))
    for worker in range(workers):
        rows = np.array_split(np.arange(examples), workers)[worker] if own else np.arange(examples)
        batches = []
        while len(batches) < updates * accumulation:
            order = draws.permutation(rows)
            epoch = [order[i : i + size] for i in range(0, len(order), size)]
            batches += [one for one in epoch if len(one) == size] if drop and len(order) >= size else epoch
        for at, batch in enumerate(batches[: updates * accumulation]):
            uses[at // accumulation, batch] += 1
    assert (uses**2).sum(axis=0).max() <= most * (1 + 1e-12)


def test_updates_over_the_end_of_an_epoch_hold_an_example_twice():
    """The control of the test above: counting uses alone would be too little."""
    crossing = TrainingLoop(3, 1, 10, 1.0, sampler="in-order", accumulation=2)
    release = _epochs(crossing)
    assert release.count == 7
    assert release.release.noise_multiplier < 1 / math.sqrt(1.99)


@settings(max_examples=amount(50, 100), deadline=None)
@given(SHAPES, st.booleans(), st.booleans())
def test_rows_that_are_repeated_until_parts_are_equal_are_counted(shape, drop, own):
    """As DistributedSampler deals an epoch in order: the first rows come round again at its end."""
    examples, size, updates, accumulation, workers = shape
    workers = min(workers + 1, examples)
    size = min(size, examples // workers)
    setup = TrainingLoop(
        examples, size, updates, 1.0, sampler="in-order", accumulation=accumulation, workers=workers,
        padded_shards=True if own else None,
    )  # fmt: skip
    release = _epochs(setup)
    dealt = [*range(examples), *range(-examples % workers)]
    uses = np.zeros((updates, examples))
    for worker in range(workers):
        part = np.array(dealt[worker::workers])
        epoch = [part[i : i + size] for i in range(0, len(part), size)]
        epoch = [one for one in epoch if len(one) == size] if drop else epoch
        for at in range(updates * accumulation):
            np.add.at(uses[at // accumulation], epoch[at % len(epoch)], 1)
    most = release.count / release.release.noise_multiplier**2
    assert (uses**2).sum(axis=0).max() <= most * (1 + 1e-12)


def test_a_repeated_row_costs_twice_its_uses():
    """The control of the test above: dealt in parts that are disjoint, an epoch costs half as much."""
    padded = TrainingLoop(101, 10, 60, 1.0, sampler="in-order", workers=2)
    assert padded.repeated
    apart = replace(padded, padded_shards=False)
    assert (_epochs(padded).count, _epochs(apart).count) == (24, 12)
    assert _epochs(apart).count < 20  # what the first row is used in ten epochs of six batches


@pytest.mark.parametrize(
    "options",
    [
        {"sampler": "with-replacement"},
        {"sampler": "shuffled", "workers": 2, "own_shards": False},
        {"sampler": "in-order", "workers": 7},
        {"sampler": "shuffled", "batch_size": 7, "accumulation": 2},
    ],
)
def test_an_example_that_an_update_may_hold_twice_does_not_pass(options):
    assert "batches/several-samples" in failed(BASE, **options)[1]
    assert "batches/passed" in {one.code for one in preflight(replace(BASE, sampler="shuffled"), delta=DELTA).findings}


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize("others", [(0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (-1.0, -1.0, -1.0)])
def test_realised_sizes_are_covered_where_they_are_shown(others):
    """One update with its batch's size beside the sum, under replace-one, by all samples of four examples."""
    setup = TrainingLoop(4, 1.0, 1, 1.5, divisor="realised")
    delta = 0.05
    found = preflight(setup, delta=delta)
    assert found.cost.relation is NeighboringRelation.REPLACE_ONE
    x = np.linspace(-25, 25, 20_001)

    def shown(value):
        laws = np.zeros((5, len(x)))
        for coins in product((0, 1), repeat=4):
            chance = math.prod(0.25 if coin else 0.75 for coin in coins)
            total = sum(v for v, coin in zip((value, *others), coins, strict=True) if coin)
            laws[sum(coins)] += chance * np.exp(-0.5 * ((x - total) / 1.5) ** 2) / (1.5 * math.sqrt(2 * math.pi))
        return laws

    for one, other in ((1.0, -1.0), (1.0, 0.0), (0.0, 1.0)):
        excess = np.maximum(shown(one) - math.exp(found.cost.upper) * shown(other), 0).sum() * (x[1] - x[0])
        assert excess <= delta + 1e-9


@pytest.mark.parametrize("options", [{"divisor": "realised"}, {"sampler": "with-replacement"}])
def test_what_is_counted_and_what_is_left_out_share_delta(options):
    """Half of delta each: larger batches or more repeats than counted are as likely as the other half allows."""
    found = preflight(replace(BASE, **options), delta=DELTA)
    counted = ep.epsilon(found.release, delta=DELTA / 2, relation=found.cost.relation)
    assert found.cost.upper == pytest.approx(counted.upper, rel=1e-9)
    assert dict(found.cost.given) == {"delta": DELTA}
    if "divisor" in options:
        assert 1000 * stats.binom.sf(found.release.release.sample_size, 60_000, 0.01) <= DELTA / 2


def test_places_drawn_anew_repeat_no_more_than_counted():
    setup = TrainingLoop(50, 10, 20, 1.0, sampler="with-replacement")
    release = preflight(setup, delta=0.02).release
    most = release.count / release.release.noise_multiplier**2
    draws = np.random.default_rng(5)
    counts = (draws.integers(0, 50, (20_000, 20, 10)) == 0).sum(axis=2)
    beyond = ((counts**2).sum(axis=1) > most).mean()
    assert beyond <= 0.01
    assert ((counts**2).sum(axis=1) > most / 4).mean() > 0.01  # the control: less would not do


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"examples": 0}, "examples must be at least 1"),
        ({"batch_size": 0}, "batch_size must be finite and above 0"),
        ({"batch_size": math.nan}, "batch_size"),
        ({"batch_size": 60_001}, "batch_size must be at most the examples that a worker draws from"),
        ({"workers": 60_001}, r"workers must be in \[1, 60000\]"),
        ({"sampler": "some"}, "sampler must be one of"),
        ({"sampler": "shuffled", "max_batch_size": 700}, "max_batch_size must be left out"),
        ({"accountant_sampling_probability": 1.5}, "accountant_sampling_probability"),
        ({"noise_multiplier": -1}, "noise_multiplier"),
    ],
)
def test_bad_input_names_the_field(options, says):
    with pytest.raises(CheckError, match=says):
        replace(BASE, **options)


def test_a_file_is_read_by_its_fields():
    stated = {"examples": 100, "batch_size": 5, "updates": 3, "noise_multiplier": 1.0}
    assert TrainingLoop.parse(stated) == TrainingLoop(100, 5.0, 3, 1.0)
    with pytest.raises(CheckError, match="field must be one of"):
        TrainingLoop.parse(stated | {"epochs": 3})
    del stated["updates"]
    with pytest.raises(CheckError, match="updates must be given"):
        TrainingLoop.parse(stated)


def test_json_has_everything():
    document = preflight(replace(BASE, sampler="shuffled"), delta=DELTA).to_json()
    assert document["passed"] is False
    assert document["setup"]["sampler"] == "shuffled"
    assert document["findings"][0]["claim_effect"] == "unsupported"
    assert TrainingLoop.parse(document["setup"]) == replace(BASE, sampler="shuffled")
