"""Every public callable takes numbers of any library for what they are, or refuses them in epsilog's own words.

The callables come from the public names of each part, and their arguments from their signatures: a new one must get a
call here, or stand among those that take no number of a caller.
"""

import importlib
import inspect
import re
from decimal import Decimal
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.extent import amount
from tests.terms.test_numbers import OTHERS, SAMPLES, Loud, Many

import epsilog as ep
from epsilog import (
    accounting,
    certificates,
    ledger,
    mechanisms,
    plan,
    queries,
    schemes,
    study,
    terms,
    training,
    verification,
)
from epsilog.accounting import montecarlo
from epsilog.adapters import jax_privacy
from epsilog.mechanisms import Gaussian
from epsilog.terms import EpsilogError

PARTS = (
    "epsilog",
    "epsilog.terms",
    "epsilog.accounting",
    "epsilog.certificates",
    "epsilog.accounting.montecarlo",
    "epsilog.plan",
    "epsilog.ledger",
    "epsilog.queries",
    "epsilog.training",
    "epsilog.verification",
    "epsilog.study",
    "epsilog.reports",
)
NUMERIC = ("int", "float", "Number", "Array", "Series")

SCHEME = {"clients": 64, "rounds": 4, "clip_norm": 1.0, "noise_multiplier": 1.0}
PLAN = {"population": 64, "cohort_size": 8, "rounds": 4, "delta": 2.0**-10}
DP_SGD = {
    "examples": 64,
    "batch_size": 8,
    "noise_multiplier": 1.0,
    "sampler": "truncated-poisson",
    "max_batch_size": 16,
}
ADD = ep.NeighboringRelation.ADD_OR_REMOVE_ONE
BINS = mechanisms.BallsInBins(Gaussian(2.0), 4, 1)
CENTRAL = schemes.ClientLevelCentral(64, 0.25, 4, 1.0, 1.0)
BUFFERED = mechanisms.BufferedToeplitzStrategy((0.5,), (0.25,))
CURVE = ep.profile(Gaussian(1.0), relative_width=0.25)
LOSSES = [0.5, 1.0, 2.0]
GUARANTEE = ep.Guarantee(8.0, 0.125, ADD, "person", 64)
CALLS = {
    terms.delta_finding: {"delta": 2.0**-10, "population": 64},
    ep.calibrate: {"make": Gaussian, "epsilon": 1.0, "delta": 0.25, "low": 0.125, "high": 8.0, "tolerance": 0.25,
        "relative_width": 0.5, "digits": 3},
    ep.accounting.compare_profiles: {"first": Gaussian(1.0), "second": Gaussian(2.0), "deltas": [0.25], "fprs": [0.25],
        "tolerance": 0.0625, "relative_width": 0.5},
    ep.delta: {"release": Gaussian(1.0), "epsilon": 0.5, "relative_width": 0.25, "group_size": 1},
    ep.delta_curve: {"step": Gaussian(1.0), "rounds": [2, 3], "epsilon": 0.5, "relative_width": 0.25, "group_size": 1},
    ep.epsilon: {"release": Gaussian(1.0), "delta": 0.25, "relative_width": 0.25, "group_size": 1},
    ep.epsilon_curve: {"step": Gaussian(1.0), "rounds": [2, 3], "delta": 0.25, "relative_width": 0.25,
        "group_size": 1},
    accounting.binomial_tail: {"trials": 8, "chance": 0.25, "most": 3},
    accounting.classic_gaussian_stddev: {"epsilon": 0.5, "delta": 0.25, "sensitivity": 2.0},
    accounting.federated_closed_form: {"sampling_probability": 0.25, "noise_multiplier": 2.0, "rounds": 4,
        "delta": 0.125},
    accounting.gaussian_delta: {"mu": 0.5, "epsilon": 0.25},
    accounting.gaussian_epsilon: {"mu": 0.5, "delta": 0.125},
    accounting.fit_gaussian_dp: {"release": Gaussian(1.0), "slack": 0.03125, "relative_width": 0.25, "places": 64},
    accounting.split_epsilon_evenly: {"epsilon": 0.5, "queries": 3},
    accounting.laplace_scale: {"epsilon": 0.5, "sensitivity": 2.0},
    accounting.gaussian_mu: {"epsilon": 0.5, "delta": 0.125},
    accounting.rdp: {"release": Gaussian(1.0), "relation": ADD, "orders": [2.0, 4.0]},
    accounting.rdp_lower_bound: {"release": Gaussian(1.0), "relation": ADD, "orders": [2.0, 4.0]},
    accounting.renyi_delta: {"release": Gaussian(1.0), "epsilon": 0.5, "orders": [2.0, 4.0]},
    accounting.renyi_epsilon: {"release": Gaussian(1.0), "delta": 0.125, "orders": [2.0, 4.0]},
    accounting.max_rounds: {"step": Gaussian(4.0), "epsilon": 1.0, "delta": 0.125, "relative_width": 0.5},
    accounting.tpr_upper_bound: {"guarantees": [(0.5, 0.125)], "fpr": 0.25},
    plan.TrainingLoop: {"examples": 64, "batch_size": 8.0, "updates": 4, "noise_multiplier": 1.0, "workers": 2,
        "accumulation": 2, "noise_changes": [2], "changed_noise": [0.5], "max_batch_size": 16,
        "accountant_sampling_probability": 0.25, "accountant_updates": 3, "accountant_noise_multiplier": 0.5,
        "parameters": 8},
    plan.preflight: {"setup": plan.TrainingLoop(64, 8, 4, 1.0), "delta": 0.125},
    plan.compare_query_noise: {"epsilon": 0.5, "delta": 2.0**-10, "counts": [1, 2]},
    plan.plan_federated: PLAN | {"noise_multiplier": 1.0, "relative_width": 0.5, "group_size": 1, "clip_norm": 1.0,
        "releases_per_period": 1},
    plan.plan_dp_sgd: DP_SGD | {"epochs": 0.5, "delta": 0.125, "clip_norm": 2.0},
    plan.calibrate_noise: PLAN | {"epsilon": 2.0},
    plan.calibrate_rounds: {"epsilon": 2.0, "population": 64, "cohort_size": 8, "noise_multiplier": 2.0,
        "delta": 2.0**-10},
    plan.queries: {"epsilon": 0.5, "queries": 2, "sensitivity": 2.0, "delta": 2.0**-10, "queries_used": 1,
        "weights": [1.0, 2.0], "population": 64, "magnitude": 8.0},
    plan.bound_log_odds_growth: {"curve": ep.profile(Gaussian(1.0)), "delta": 0.125},
    plan.bound_posterior: {"prior": 0.5, "tpr": 0.25, "fpr": 0.125},
    plan.build_card: {"epsilon": 2, "delta": 0.125, "prior": 0.5},
    plan.bound_log_odds_factor: {"curve": ep.profile(Gaussian(1.0)), "delta": 0.125},
    ledger.find_alerts: {"budgets": (), "percents": (50, 80)},
    ledger.Amounts.from_charge: {"values": {"epsilon": 0.5}},
    queries.CountAbove: {"threshold": 4},
    queries.Histogram: {"column": "age", "edges": (0.5, 1.0, 2.0)},
    queries.Mean: {"column": "age", "bounds": (0.5, 2.0), "population": 64},
    queries.Sum: {"column": "age", "bounds": (0.5, 2.0)},
    training.LocalTraining: {"learning_rate": 0.5, "local_steps": 2, "batch_size": 4, "expected_examples": 8,
        "example_cap": 16},
    certificates.certificate: {"release": Gaussian(2.0), "delta": 0.125, "epsilon": 2.0, "slack": 0.25,
        "group_size": 2},
    certificates.certify_guarantee: {"release": Gaussian(2.0), "guarantee": GUARANTEE, "delta": 0.125},
    certificates.write_claim: {"release": Gaussian(2.0), "epsilon": "2", "delta": 0.125, "group_size": 2},
    verification.compute_control_limits: {"clients": 64, "probability": 0.25, "rounds": 4, "false_alarm_rate": 0.0625},
    montecarlo.compute_balls_in_bins_delta: {"bins": 2, "noise_stddev": 2.0, "epsilon": 0.5, "epochs": 1},
    montecarlo.base_delta: {"samples": 64, "target_delta": 0.25},
    montecarlo.binomial_delta: {"samples": 64, "hits": 2, "fallback_delta": 0.25, "bound": 1.0},
    montecarlo.delta_from_samples: {"epsilon": 0.5, "losses": LOSSES, "weights": [1.0, 2.0, 1.0]},
    montecarlo.bound_listed_delta: {"tests": [(64, 2, 1.0)], "fallback_delta": 0.25, "cells": 64},
    montecarlo.minimum_samples: {"base_delta": 0.125, "target_delta": 0.25},
    montecarlo.overall_delta: {"samples": 64, "base_delta": 0.125},
    montecarlo.draw_losses: {"release": BINS, "samples": 8, "seed": 3},
    montecarlo.plan_delta_bound: {"release": BINS, "epsilon": 0.5, "seed": 3, "failure": 0.0625, "samples": 64,
        "relative_width": 0.5},
    montecarlo.estimate_noise: {"release": BINS, "epsilon": 0.5, "delta": 0.125, "seed": 3},
    montecarlo.plan_noise_search: {"release": BINS, "epsilon": 0.5, "target_delta": 0.125, "seed": 3, "noises": [4.0,
        2.0], "slack": 0.25, "power": 0.75, "step": 0.25},
    plan.list_limits: {"sampling": "poisson", "without_replacement": True, "rounds_per_release": 2,
        "adaptive_clip": False, "privacy_unit": "client"},
    plan.bound_attack: {"release": Gaussian(2.0), "delta": 2.0**-10, "relation": ADD},
    plan.compute_risk_metrics: {"release": Gaussian(2.0), "delta": 2.0**-10, "relation": ADD, "known": Gaussian(2.0),
        "held": 4},
    plan.interpret_guarantee: {"release": Gaussian(4.0), "interval": ep.Interval(1.0, 2.0, "stated", ADD),
        "delta": 2.0**-10, "relation": ADD, "privacy_unit": "client", "population": 64, "cap": 8.0, "epsilon": 1.5},
ep.profile: {"release": Gaussian(1.0), "relative_width": 0.25},
    plan.account_algorithm_2: {"sigma": 2.0, "batch_probability": 0.25, "examples": 64, "clip_norm": 1.0, "epochs": 1,
        "max_participations": 4, "delta": 2.0**-10},
    plan.Schedule: {"population": 64, "cohort_size": 8, "rounds": 4, "noise_multiplier": 1.0, "sampling": "poisson",
        "clip_norm": 1.0},
    plan.plan_composition: {"releases": [Gaussian(1.0)], "delta": 0.125},
    plan.bound_schedule_epsilon: {"schedule": schemes.ClientLevelCentral(64, 0.25, 4, 1.0, 1.0), "delta": 2.0**-10,
        "relation": ADD, "rounds": 2, "count": 2, "relative_width": 0.5, "group_size": 2},
    plan.compute_profile_view: {"release": Gaussian(1.0), "delta": 0.125, "points": 5},
    plan.compute_query_sensitivity: {"query": "sum", "contributions": 2, "low": -1.0, "high": 2.0},
    plan.compare_releases: {"first": Gaussian(1.0), "second": Gaussian(2.0), "delta": 0.125, "fpr": 0.25},
    plan.plan_tuning: {"release": Gaussian(4.0), "trials": mechanisms.BinomialTrialCount(2, 0.5), "delta": 2.0**-10,
        "relation": ADD, "relative_width": 0.5},
    ledger.ChargeRequest: {"release": Gaussian(1.0), "delta": 0.125, "rounds": 2},
    queries.FirstCategoryAbove: {"threshold": 4, "column": "age", "categories": (1, 2)},
    queries.MostCommonCategory: {"column": "age", "categories": (1, 2)},
    training.Randomness: {"seed": 3, "noise_factor": 0.5},
    training.ServerOptimizer: {"optimizer": "momentum", "learning_rate": 0.5, "momentum": 0.5},
    training.compute_learning_rate_factor: {"schedule": "cosine", "done": 2, "rounds": 4},
    verification.compute_certified_interval: {"release": Gaussian(1.0), "delta": 0.125, "relation": ADD},
    study.Backdoor: {"attackers": 2, "features": (1, 2), "value": 0.5, "target": 1, "boost": 2.0},
    study.CanaryExperiment: {"count": 100},
    study.MembershipExperiment: {"fprs": (0.25,), "shadows": 4, "units": 128},
    study.PropertyExperiment: {"features": (1, 2), "value": 0.5, "share": 0.25, "every": 2},
    study.StudyProtocol: {"budgets": (0.5, 1.0), "seeds": (1, 2)},
    CENTRAL.after: {"rounds": 2},
    CENTRAL.at_cohort_sizes: {"sizes": [4, 8]},
    CENTRAL.noisy_sums: {"rounds": 2},
    CENTRAL.step: {"share": 0.5},
    CENTRAL.with_attempts: {"further": 2},
    schemes.ClientLevelAdaptiveClip(**SCHEME, sampling_probability=0.25, target_quantile=0.5, clip_learning_rate=0.25,
        quantile_noise=2.0).next_clip_norm: {"clip_norm": 1.0, "unclipped": 2.0},
    BUFFERED.column: {"rounds": 4},
    BUFFERED.turns: {"rounds": 4, "separation": 2},
    terms.DeltaPolicy(2.0**-10).choose_delta: {"given": 2.0**-12, "population": 64},
    CURVE.delta: {"epsilon": 0.5},
    CURVE.epsilon: {"delta": 0.125},
    CURVE.group_delta: {"units": 2, "epsilon": 0.5},
    CURVE.group_epsilon: {"units": 2, "delta": 0.125},
    CURVE.rdp: {"orders": [2.0, 4.0]},
    CURVE.tpr: {"fpr": 0.25},
    CURVE.tradeoff: {"fpr": 0.25},
    plan.plan_federated(**PLAN, noise_multiplier=4.0).meaning: {"cap": 8.0},
    plan.queries(epsilon=0.5, queries=2).meaning: {"cap": 8.0},
    plan.compute_profile_view(Gaussian(1.0), delta=0.125, points=5).true_positive_rate: {"fpr": 0.25},
    training.Randomness.from_seed: {"seed": 3},
    training.Randomness.with_weaker_noise: {"seed": 3, "noise_factor": 0.5},
    jax_privacy.delta_from_epsilon_and_samples: {"epsilon": 0.5, "samples": LOSSES, "counts": [1.0, 2.0, 1.0]},
    jax_privacy.get_base_delta: {"num_samples": 64, "target_delta": 0.25},
    jax_privacy.get_overall_delta: {"num_samples": 64, "base_delta": 0.125},
    jax_privacy.minimum_samples_to_calibrate: {"base_delta": 0.125, "target_delta": 0.25},
}  # fmt: skip


WALKED = {type(term) for term in [*SAMPLES, *OTHERS]}  # terms, whose fields tests/terms writes in every way
NOTHING_OF_A_CALLER = {  # results and records, made by epsilog from what was checked before; errors; views of them
    "epsilog.terms": {"BatchRefusedError", "CalibrationError", "LedgerIntegrityError"},
        "epsilog.accounting": {"ProfileComparison", "Intervals", "PrivacyProfile"},
    "epsilog.accounting.montecarlo": {"recompute_document"},
    "epsilog.plan": {"DPSGDPlan", "FederatedPlan", "QueryPlan", "Schedule"},
        "epsilog.ledger": {"Balance", "Checkpoint", "CycleHistory", "Entry", "Headroom", "StoredCheckpoint",
        "Receipt", "PendingApproval", "LedgerVerification"},
    "epsilog.queries": {"QueryResult", "QueryCostEstimate"},
    "epsilog.training": {"TrainingResult"},
    "epsilog.verification": {"Evidence"},
    "epsilog.study": {"Condition"},
}  # fmt: skip


def takes_numbers(made):
    """The arguments of a callable that its signature says are numbers."""
    try:
        parameters = inspect.signature(made).parameters.values()
    except (TypeError, ValueError):
        return []
    words = (re.sub("[Pp]oint", "", str(one.annotation)) for one in parameters)
    return [one.name for one, word in zip(parameters, words, strict=True) if any(kind in word for kind in NUMERIC)]


AFTER_A_RUN = {  # need a ledger, a data set, records or minutes; their numbers go to what stands in CALLS, or to a rule
        "epsilog.accounting.montecarlo": {"bound_delta", "use_dask_cluster",
        "run_delta_bound", "run_noise_search", "search_noise"},
    "epsilog.plan": {"compute_epsilon_curve", "build_registered_plan", "plan_phases"},
    "epsilog.ledger": {"Amounts", "read_cycles"},
    "epsilog.queries": {"run_query", "run_best_of_trials", "estimate_query_cost"},
        "epsilog.training": {"Dataset", "Federation", "Task", "draw_canaries", "train_without_charge", "load_task",
        "run_rounds", "add_canary_slots"},
    "epsilog.study": {"Subject"},
}  # fmt: skip


REALS = {
    "numpy": np.float64,
    "float32": np.float32,
    "array": np.array,
    "jax": jnp.asarray,
    "fraction": Fraction,
    "decimal": Decimal,
    "subclass": Loud,
}
WHOLES = {
    "numpy": np.int64,
    "float32": lambda value: np.uint8(value) if 0 <= value < 256 else np.int32(value),
    "array": np.array,
    "jax": jnp.asarray,
    "fraction": np.uint16,
    "decimal": np.int32,
    "subclass": Many,
}
ASKED = {
    ep.epsilon: {"delta"},
    ep.epsilon_curve: {"delta"},
    ep.delta: {"epsilon"},
    ep.delta_curve: {"epsilon"},
    CURVE.epsilon: {"delta"},
    CURVE.delta: {"epsilon"},
    CURVE.tpr: {"fpr"},
    CURVE.tradeoff: {"fpr"},
}
"""Questions that take an array of numbers, and answer each."""
NAMES = {"categories"}  # which may be numbers, and may be words


def is_number(value):
    return type(value) in (int, float)


def written(value, kind):
    """The same value, each number in it written another way."""
    if is_number(value):
        return (WHOLES if type(value) is int else REALS)[kind](value)
    if isinstance(value, list | tuple):
        return type(value)(written(one, kind) for one in value)
    if isinstance(value, dict):
        return {name: written(one, kind) for name, one in value.items()}
    return value


def spoiled(value, bad):
    """The value with one number in it replaced by what is none; nothing where it holds none."""
    if is_number(value):
        yield bad
    elif isinstance(value, list | tuple) and value:
        yield from (type(value)([one, *value[1:]]) for one in spoiled(value[0], bad))
    elif isinstance(value, dict):
        yield from ({**value, name: one} for name in value for one in spoiled(value[name], bad))


def same(one, other):
    if isinstance(one, np.ndarray):
        return type(one) is type(other) and one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and repr(one) == repr(other)  # numpy's 1.5 equals Python's, and reads otherwise


def named(made):
    return f"{made.__module__.removeprefix('epsilog.')}.{made.__qualname__}"


BAD = {
    "text": "x",
    "flag": True,
    "numpy's flag": np.bool_(True),
    "complex": 1j,
    "an array with an axis": np.array([0.5, 0.25]),
    "masked": np.ma.masked,
    "not a number": float("nan"),
    "signaling": Decimal("sNaN"),
    "a date": np.datetime64(1, "ns"),
    "nothing like it": object(),
}


def in_turn(options, made, few):
    """Every option in all tests; at each change a few of them, others for each callable."""
    first = [*CALLS].index(made)
    return [options[(first + k) % len(options)] for k in range(amount(few, len(options)))]


@pytest.mark.every(1)
@pytest.mark.slow
@pytest.mark.parametrize("made", CALLS, ids=named)
def test_numbers_of_any_library_are_the_numbers_that_they_hold(made):
    expected = made(**CALLS[made])
    for kind in in_turn([*REALS], made, 2):
        found = made(**{name: written(value, kind) for name, value in CALLS[made].items()})
        assert same(found, expected), (kind, found, expected)


@pytest.mark.every(1)
@pytest.mark.slow
@pytest.mark.parametrize("made", CALLS, ids=named)
def test_what_is_no_number_is_refused_in_words_of_epsilog(made):
    def call(bad, *, has_axis=False):
        for name, value in CALLS[made].items():
            if name in NAMES or (has_axis and name in ASKED.get(made, ())):
                continue
            for one in spoiled(value, bad):
                with pytest.raises((EpsilogError, ValueError)) as error:
                    made(**CALLS[made] | {name: one})
                assert type(error.value).__module__.startswith("epsilog") or " must " in str(error.value), (name, one)
        return 0.0

    for what in in_turn([*BAD, "traced"], made, 4):
        jax.jit(call)(0.5) if what == "traced" else call(BAD[what], has_axis=what == "an array with an axis")


def test_every_public_callable_that_takes_numbers_is_called():
    """A name that is missing is new: give it a call, or say why it needs none."""
    reviewed = {part: NOTHING_OF_A_CALLER.get(part, set()) | AFTER_A_RUN.get(part, set()) for part in PARTS}
    everywhere = set().union(*reviewed.values())
    found = {}
    for part in PARTS:
        home = importlib.import_module(part)
        found[part] = {
            name for name in home.__all__ if callable(getattr(home, name)) and takes_numbers(getattr(home, name))
        }
        missing = {name for name in found[part] - everywhere if getattr(home, name) not in CALLS.keys() | WALKED}
        assert not missing, (part, missing)
        assert reviewed[part] <= found[part], (part, reviewed[part] - found[part])  # nothing that is gone


def test_a_charge_takes_any_number(tmp_path):
    with ep.open_ledger(f"sqlite:///{tmp_path}/b.db") as ledger:
        ledger.create_budget("acme", kind="approximate", epsilon=Decimal(4), delta=np.float64(2**-10))
        for key, delta in enumerate((np.float32(2**-20), Decimal("1e-6"), Fraction(1, 2**20), np.float64(2**-20))):
            ledger.reserve("acme", Gaussian(np.float32(16)), key=str(key), delta=delta, rounds=np.uint8(3))
        assert ledger.balance("acme").reserved["epsilon"] != "0"


@pytest.mark.parametrize("name", accounting.__all__)
def test_a_function_of_the_accountant_says_what_it_takes_raises_and_rests_on(name):
    one = getattr(accounting, name)
    if inspect.isfunction(one) and len(inspect.signature(one).parameters) >= 3:
        assert {"Args:", "Raises:", "Source:"} <= set(inspect.getdoc(one).split())
