"""Frozen plans: federated and query plans with their sentences and findings, registered plans with their hashes."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

from tests.frozen.plain import plain, told

import epsilog as ep
from epsilog import plan
from epsilog.plan.sentences import list_query_limits
from epsilog.terms import DeltaPolicy, NeighboringRelation, codec

FILE = "plans.jsonl"
RELATIONS = list(NeighboringRelation)
ADD, REPLACE, ZERO = RELATIONS
RUN = {"population": 1000, "cohort_size": 50, "rounds": 40, "noise_multiplier": 1.2}
LOOP = {"examples": 6000, "batch_size": 60, "updates": 100, "noise_multiplier": 1.0}
SAMPLERS = ("poisson", "fixed-size", "balls-in-bins")
SCHEMES: dict[str, Callable[[float], Any]] = {
    "central": lambda z: ep.schemes.ClientLevelCentral(150, 0.2, 4, 0.5, z),
    "central-fixed-size": lambda z: ep.schemes.ClientLevelCentral(
        150, None, 4, 0.5, z, sampling="fixed-size", cohort_size=30
    ),
    "central-balls-in-bins": lambda z: ep.schemes.ClientLevelCentral(
        150, None, 6, 0.5, z, sampling="balls-in-bins", cycle_length=5
    ),
    "central-cyclic": lambda z: ep.schemes.ClientLevelCentral(150, None, 6, 0.5, z, sampling="cyclic", cycle_length=5),
    "adaptive-clip": lambda z: ep.schemes.ClientLevelAdaptiveClip(150, 0.2, 4, 0.5, 0.5, 0.2, 5.0, z),
    "client-side": lambda z: ep.schemes.ClientLevelClientSide(20, 4, 3, 2, 1.0, z),
    "distributed": lambda z: ep.schemes.ClientLevelDistributed(20, 4, 3, 3, 2, 1.0, 1e-3, 32, z),
    "correlated": lambda z: ep.schemes.ClientLevelCorrelatedNoise(20, 2, 4, 2, 1.0, z),
    "correlated-balls-in-bins": lambda z: ep.schemes.ClientLevelCorrelatedNoise(
        20, 4, 8, 2, 1.0, z, sampling="balls-in-bins"
    ),
    "buffered": lambda z: ep.schemes.ClientLevelBufferedNoise(20, 4, 8, (0.9, 0.3), (0.2, 0.1), 1.0, z),
    "examples": lambda z: ep.schemes.ExampleLevelClientSide(20, 4, 3, 2, 0.5, 1, 1.0, z),
}
TRIALS = {
    "once": None,
    "tuned": ep.mechanisms.NegativeBinomialTrialCount(1.0, 0.25),
    "eight": ep.mechanisms.BinomialTrialCount(8, 1.0),
}


def register(scheme: str, relation: NeighboringRelation, noise: float | None, **changes: Any) -> plan.RegisteredPlan:
    """A plan as a program registers it."""
    stated: dict[str, Any] = {
        "name": "frozen",
        "noise_multiplier": noise,
        "budget_epsilon": Decimal(30),
        "delta": Decimal("1e-5"),
        "relation": relation,
        "privacy_unit": "school",
        "population": 150,
        "budget": {"scope": "acme/2026", "epsilon": "30", "delta": "1e-5", "delta_rationale": "policy cap"},
        "simulation": True,
        "details": {"settings": "5e" * 32, "data": {"units": 150}},
    }
    return plan.build_registered_plan(SCHEMES[scheme], **stated | changes)


def _registered(*args: Any, **changes: Any) -> dict[str, Any]:
    made = register(*args, **changes)
    document = made.to_json()
    assert plan.RegisteredPlan.from_json(document) == made
    assert made.hash == codec.hash_canonical(document)
    return {"hash": made.hash, "document": document, "after": plain(made.epsilon_after(2))}


def _federated(**given: Any) -> Any:
    made = plan.plan_federated(**given)
    points = plan.compute_epsilon_curve(made, points=3) if given.get("sampling") != "balls-in-bins" else ()
    return {
        "plan": plain(made),
        "curve": plain(points),
        "sentence": plain(plan.write_formula(made.closed_form.total, made.epsilon)),
    }


def _phases(**more: Any) -> Any:
    parts = [plan.Schedule(1000, 10, 4, 2.0), plan.Schedule(1200, 50, 3, 2.5), plan.Schedule(1000, 50, 2, 1.0)]
    return plain(plan.plan_phases(parts, **more))


def _verdict(release: ep.mechanisms.Release, **more: Any) -> Any:
    found = ep.epsilon(release, delta=1e-6)
    return plan.interpret_guarantee(release, found, delta=1e-6, relation=ADD, privacy_unit="person", **more)


def calls() -> dict[str, Callable[[], Any]]:
    """What is planned, by name."""
    found: dict[str, Callable[[], Any]] = {}
    for sampling in SAMPLERS:
        for relation in RELATIONS:
            given = RUN | {"sampling": sampling, "relation": relation}
            found[f"federated {sampling} {relation}"] = partial(_federated, **given)
    federated: dict[str, dict[str, Any]] = {
        "no noise": {"noise_multiplier": 0.0},
        "faint noise": {"noise_multiplier": 0.15},
        "much noise": {"noise_multiplier": 30.0},
        "delta": {"delta": 1e-7},
        "delta above 1/N": {"delta": 0.01},
        "no delta cap": {"policy": DeltaPolicy(None)},
        "releases": {"releases_per_period": 4},
        "group": {"group_size": 3},
        "fit": {"fit": True},
        "unit": {"privacy_unit": "device-day", "clip_norm": 0.5},
        "everybody": {"cohort_size": 1000},
        "sweep": {"trials": ep.mechanisms.NegativeBinomialTrialCount(1.0, 0.1)},
        "fixed sweep": {"trials": ep.mechanisms.BinomialTrialCount(8, 1.0)},
        "too many": {"cohort_size": 1001},
        "no rounds": {"rounds": 0},
        "bad sampler": {"sampling": "shuffled"},
        "bad delta": {"delta": 1.0},
        "bad noise": {"noise_multiplier": -1.0},
        "bad group": {"group_size": 0},
    }
    found |= {f"federated {name}": partial(_federated, **RUN | changes) for name, changes in federated.items()}
    for scheme, made in SCHEMES.items():
        for relation in RELATIONS:
            found[f"registered {scheme} {relation}"] = partial(_registered, scheme, relation, 3.0)
        relation = next(one for one in made(3.0).relations)
        for name, trials in list(TRIALS.items())[1:]:
            found[f"registered {scheme} {name}"] = partial(_registered, scheme, relation, 5.0, trials=trials)
    for name, changes in {
        "above its budget": {"budget_epsilon": Decimal("0.5")},
        "calibrated": {"noise": None, "budget_epsilon": Decimal(2)},
        "out of reach": {"noise": None, "budget_epsilon": Decimal("1e-9")},
        "no name": {"name": ""},
        "bad details": {"details": {"counts": {"usable": "x"}}},
        "bad budget": {"budget": {"scope": "acme"}},
        "bad delta": {"delta": Decimal(1)},
        "bad population": {"population": 0},
        "actual": {"simulation": False},
    }.items():
        more = dict(changes)
        found[f"registered {name}"] = partial(_registered, "central", ADD, more.pop("noise", 3.0), **more)
    query: dict[str, dict[str, Any]] = {
        "laplace": {},
        "one": {"queries": 1},
        "laplace with delta": {"delta": 1e-6},
        "gaussian": {"mechanism": "gaussian", "delta": 1e-6},
        "gaussian of a population": {"mechanism": "gaussian", "population": 5000},
        "weights": {"weights": [1, 2, 3, 4, 5]},
        "gaussian weights": {"weights": [1, 2, 3, 4, 5], "mechanism": "gaussian", "delta": 1e-6},
        "used": {"queries_used": 3, "magnitude": 120.0, "sensitivity": 2.0},
        "all used": {"queries_used": 7},
        "large": {"epsilon": 20.0, "queries": 1, "mechanism": "gaussian", "delta": 1e-5},
        "large delta": {"mechanism": "gaussian", "delta": 0.01, "population": 50, "policy": DeltaPolicy(None)},
        "no delta": {"mechanism": "gaussian"},
        "bad mechanism": {"mechanism": "uniform"},
        "bad weights": {"weights": [1, 0, 1, 1, 1]},
        "few weights": {"weights": [1]},
        "bad magnitude": {"magnitude": 0.0},
        "bad epsilon": {"epsilon": 0.0},
    }
    found |= {
        f"queries {name}": partial(plan.queries, **{"epsilon": 1.0, "queries": 5} | changes)
        for name, changes in query.items()
    }
    loops: list[dict[str, Any]] = [
        {},
        *({"sampler": name} for name in ("shuffled", "in-order", "fixed-size", "with-replacement", "weighted")),
        {"accumulation": 2},
        {"accumulation": 2, "noise_added": "batch"},
        {"clipped": "microbatch"},
        {"divisor": "realised"},
        {"max_batch_size": 65},
        {"max_batch_size": 600},
        {"noise_multiplier": 0.1},
        {"accountant_sampling_probability": 0.5},
        {"accountant_updates": 3},
        {"accountant_noise_multiplier": 0.5},
        {"accountant_noise_multiplier": 2.0},
        {"parameters": 3},
        {"sampler": "none"},
        {"batch_size": 0},
    ]
    for changes in loops:
        name = ", ".join(f"{key} {value}" for key, value in changes.items()) or "as told"
        found[f"preflight {name}"] = partial(_preflight, LOOP | changes)
    for name, given in {
        "of a goal": {"epsilon": 2.0},
        "fixed size": {"epsilon": 2.0, "sampling": "fixed-size", "relation": REPLACE},
        "out of reach": {"epsilon": 1e-9},
    }.items():
        schedule = {"population": 1000, "cohort_size": 50}
        found[f"noise {name}"] = partial(plan.calibrate_noise, **schedule, rounds=40, **given)
        found[f"rounds {name}"] = partial(plan.calibrate_rounds, **schedule, noise_multiplier=1.2, **given)
    mixed = [ep.Gaussian(4.0), ep.Repeated(ep.Laplace(8.0), 3), ep.ApproximateDP(0.1, 1e-8)]
    sgd = ep.Repeated(ep.PoissonSampled(ep.Gaussian(1.0), 0.05), 40)
    for relation in RELATIONS:
        found[f"mix {relation}"] = partial(plan.plan_composition, mixed, delta=1e-6, relation=relation)
        found[f"sweep {relation}"] = partial(
            plan.plan_tuning, sgd, ep.mechanisms.PoissonTrialCount(4.0), delta=1e-6, relation=relation
        )
        found[f"risks {relation}"] = partial(
            plan.compute_risk_metrics, sgd, delta=1e-6, relation=relation, known=ep.Repeated(ep.Gaussian(1.0), 40)
        )
        found[f"phases {relation}"] = partial(_phases, relation=relation)
        for query_name in ("count", "sum", "mean"):
            for size in (None, 100):
                more = {"contributions": 3, "low": -1.0, "high": 4.0, "size": size, "relation": relation}
                found[f"sensitivity {query_name} {size} {relation}"] = partial(
                    plan.compute_query_sensitivity, query_name, **more
                )
    found |= {
        "meaning of a mix": partial(
            plan.interpret_guarantee,
            ep.Composed(mixed),
            delta=1e-6,
            relation=ADD,
            privacy_unit="person",
            subject="releases",
            cap=2.0,
        ),
        "profile": partial(plan.compute_profile_view, sgd, delta=1e-6, points=7),
        "verdict": partial(_verdict, sgd, population=1000, cap=3.0),
        "verdict of no noise": partial(_verdict, ep.Gaussian(0.0)),
        "verdict of pure noise": partial(_verdict, ep.Laplace(2.0), subject="answers"),
        "crossover": partial(plan.compare_query_noise, epsilon=1.0, delta=1e-6, counts=(1, 2, 5, 10, 100)),
        "side by side": partial(plan.compare_releases, sgd, ep.Laplace(0.5), delta=1e-6, fpr=0.01),
        "algorithm two": partial(
            plan.account_algorithm_2,
            sigma=4.0,
            batch_probability=0.1,
            examples=500,
            clip_norm=1.0,
            epochs=2,
            max_participations=3,
            delta=1e-5,
        ),
        "limits": partial(
            plan.list_limits,
            sampling="poisson",
            without_replacement=True,
            rounds_per_release=1,
            adaptive_clip=False,
            privacy_unit="client",
            late_replies="replace",
        ),
        "query limits": partial(list_query_limits, "gaussian"),
    }
    return found


def _preflight(given: dict[str, Any]) -> Any:
    return plan.preflight(plan.TrainingLoop(**given), delta=1e-6)


def answers(names: list[str] | None = None) -> dict[str, Any]:
    """Today's plans: of these names, or all."""
    return {name: told(call) for name, call in calls().items() if names is None or name in names}
