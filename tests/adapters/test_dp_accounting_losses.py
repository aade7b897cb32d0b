"""dp-accounting's own test file of its privacy loss distributions (0.6.0, in the wheel), each of them beside ours.

Their distributions are no accountants, so the file cannot run on ours. It runs as it is, and whatever mechanism one of
its tests builds is put to our accountant, too: a pessimistic distribution is nowhere below our lower bound, and an
optimistic one nowhere above our upper bound.
"""

import importlib
import inspect
import math
import unittest
from functools import cache
from unittest import mock

import pytest

dp_accounting = pytest.importorskip("dp_accounting")

from dp_accounting import dp_event as events  # noqa: E402
from dp_accounting.pld import privacy_loss_distribution as losses  # noqa: E402
from tests.extent import ALL, amount  # noqa: E402

from epsilog.adapters.dp_accounting import CertifiedAccountant  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

Theirs = dp_accounting.NeighboringRelation
DELTAS = (1e-3, 0.05, 0.3)
ROUNDED = 1e-6  # their arithmetic in doubles


def sampled(event, given):
    rate = given.get("sampling_prob", 1.0)
    return events.PoissonSampledDpEvent(rate, event) if rate < 1 else event


MADE = {
    "from_gaussian_mechanism": lambda given: sampled(
        events.GaussianDpEvent(given["standard_deviation"] / given["sensitivity"]), given
    ),
    "from_laplace_mechanism": lambda given: sampled(
        events.LaplaceDpEvent(given["parameter"] / given["sensitivity"]), given
    ),
    "from_discrete_laplace_mechanism": lambda given: sampled(
        events.DiscreteLaplaceDpEvent(given["parameter"], given["sensitivity"]), given
    ),
    "from_randomized_response": lambda given: events.RandomizedResponseDpEvent(
        given["noise_parameter"], given["num_buckets"]
    ),
    "from_mixture_gaussian_mechanism": lambda given: events.MixtureOfGaussiansDpEvent(
        given["standard_deviation"], tuple(given["sensitivities"]), tuple(given["sampling_probs"])
    ),
    "from_truncated_subsampled_gaussian_mechanism": lambda given: events.TruncatedSubsampledGaussianDpEvent(
        given["dataset_size"],
        given["sampling_probability"],
        given["truncated_batch_size"],
        given["noise_multiplier"],
    ),
}
NOT_COMPARED = {
    "from_two_probability_mass_functions": "two tables of chances are no mechanism that has a term here",
    "from_discrete_gaussian_mechanism": "each test cuts its noise off, which hides less than the mechanism",
    "from_privacy_parameters": "an event for it comes after 0.6.0; test_dp_accounting_pld.py has its figures",
}


@cache
def ours(event, relation, delta):
    accountant = CertifiedAccountant(relation, relative_width=0.01)
    return accountant.compose(event).interval(delta) if accountant.supports(event) else None


class Comparison:
    """Builds what a test asks for, and holds it against our interval."""

    def __init__(self):
        self.wrong, self.compared, self.refused = [], {}, set()

    def watched(self, name):
        make = getattr(losses, name)

        def build(*args, **options):
            made = make(*args, **options)
            bound = inspect.signature(make).bind(*args, **options)
            bound.apply_defaults()
            self.compare(name, bound.arguments, made)
            return made

        return build

    def compare(self, name, given, made):
        if given.get("use_connect_dots") and given.get("log_mass_truncation_bound", -50) > -20:
            return  # up to that mass is left out, and dots are connected over it: no bound is meant
        relation = given.get("neighboring_relation", Theirs.ADD_OR_REMOVE_ONE)
        for delta in DELTAS:
            event = MADE[name](given)
            found = ours(event, relation, delta)
            if found is None:
                self.refused.add(type(event).__name__)
                return
            epsilon = made.get_epsilon_for_delta(delta)
            pessimistic = given.get("pessimistic_estimate", True)
            # a truncated sample's lower bound is that of fewer units than stated, which nothing cuts
            lower = 0.0 if name == "from_truncated_subsampled_gaussian_mechanism" else found.lower
            close = ROUNDED * (1 + lower)
            holds = epsilon >= lower - close if pessimistic else epsilon <= found.upper + close
            self.compared[name] = self.compared.get(name, 0) + 1
            if not holds and not math.isinf(epsilon):
                self.wrong.append((name, dict(given), delta, epsilon, found.lower, found.upper))


def test_every_mechanism_that_their_file_builds_is_put_to_ours():
    public = {name for name in dir(losses) if name.startswith("from_")}
    assert public == {*MADE, *NOT_COMPARED}
    comparison = Comparison()
    with mock.patch.multiple(losses, **{name: comparison.watched(name) for name in MADE}):
        theirs = importlib.import_module("dp_accounting.pld.privacy_loss_distribution_test")  # takes seconds
        groups = unittest.defaultTestLoader.loadTestsFromModule(theirs)
        result = unittest.TestResult()
        for test in [test for group in groups for test in list(group)[:: amount(4, 1)]]:
            test.run(result)
    assert result.testsRun > (200 if ALL else 50)
    assert not result.failures
    assert all("mixture" in str(test).lower() for test, _ in result.errors), result.errors  # mended after 0.6.0
    assert not comparison.wrong
    assert not comparison.refused
    assert set(comparison.compared) >= set(MADE)
    assert sum(comparison.compared.values()) > (300 if ALL else 75)
