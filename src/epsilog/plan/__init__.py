"""Before anything runs: a goal becomes a noise multiplier, a schedule and a cost.

``plan_federated`` and ``queries`` are the calculators. ``build_registered_plan`` computes the cost of a scheme and
returns the document that the ledger refers to by its hash. ``preflight`` computes the cost of an existing DP-SGD loop.
Pure functions: no disk, no clock, no randomness.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epsilog.plan.composition import (
        CompositionPlan as CompositionPlan,
        compare_releases,
        compute_profile_view as compute_profile_view,
        plan_composition as plan_composition,
    )
    from epsilog.plan.dp_sgd_plan import DPSGDPlan, plan_dp_sgd
    from epsilog.plan.federated_plan import (
        FederatedPlan,
        Schedule,
        calibrate_noise,
        calibrate_rounds,
        compute_epsilon_curve,
        plan_federated,
    )
    from epsilog.plan.interpretation import (
        RISK_RELATIVE_WIDTH as RISK_RELATIVE_WIDTH,
        bound_attack,
        bound_log_odds_factor as bound_log_odds_factor,
        compute_risk_metrics as compute_risk_metrics,
        interpret_guarantee,
    )
    from epsilog.plan.naseri_algorithm_2 import account_algorithm_2 as account_algorithm_2
    from epsilog.plan.phases import plan_phases
    from epsilog.plan.preflight_checks import preflight
    from epsilog.plan.pricing import TuningCost as TuningCost, bound_schedule_epsilon, plan_tuning as plan_tuning
    from epsilog.plan.query_plan import (
        QueryNoiseComparison as QueryNoiseComparison,
        QueryPlan,
        compare_query_noise as compare_query_noise,
        queries,
    )
    from epsilog.plan.query_sensitivity import QuerySensitivity as QuerySensitivity, compute_query_sensitivity
    from epsilog.plan.question import Question
    from epsilog.plan.questions import QUESTIONS as QUESTIONS
    from epsilog.plan.registered_plan import RegisteredPlan, build_registered_plan
    from epsilog.plan.sentences import (
        grade_delta as grade_delta,
        list_limits as list_limits,
        write_formula as write_formula,
    )
    from epsilog.plan.training_setup import TrainingLoop
    from epsilog.plan.verdict import (
        bound_log_odds_growth as bound_log_odds_growth,
        bound_posterior,
        build_card as build_card,
    )

_HOME = {
    name: module
    for module, names in {
        "composition": "compare_releases compute_profile_view plan_composition CompositionPlan",
        "dp_sgd_plan": "DPSGDPlan plan_dp_sgd",
        "federated_plan": "FederatedPlan Schedule calibrate_noise calibrate_rounds compute_epsilon_curve "
        "plan_federated",
        "interpretation": "bound_attack bound_log_odds_factor compute_risk_metrics interpret_guarantee "
        "RISK_RELATIVE_WIDTH",
        "naseri_algorithm_2": "account_algorithm_2",
        "phases": "plan_phases",
        "preflight_checks": "preflight",
        "pricing": "TuningCost bound_schedule_epsilon plan_tuning",
        "query_plan": "QueryPlan compare_query_noise queries QueryNoiseComparison",
        "query_sensitivity": "compute_query_sensitivity QuerySensitivity",
        "question": "Question",
        "questions": "QUESTIONS",
        "registered_plan": "RegisteredPlan build_registered_plan",
        "sentences": "list_limits write_formula grade_delta",
        "training_setup": "TrainingLoop",
        "verdict": "bound_log_odds_growth bound_posterior build_card",
    }.items()
    for name in names.split()
}

__all__ = [
    "DPSGDPlan",
    "FederatedPlan",
    "QueryPlan",
    "Question",
    "RegisteredPlan",
    "Schedule",
    "TrainingLoop",
    "bound_attack",
    "bound_posterior",
    "bound_schedule_epsilon",
    "build_registered_plan",
    "calibrate_noise",
    "calibrate_rounds",
    "compare_releases",
    "compute_epsilon_curve",
    "compute_query_sensitivity",
    "interpret_guarantee",
    "plan_dp_sgd",
    "plan_federated",
    "plan_phases",
    "preflight",
    "queries",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that the fields of questions load without NumPy."""
    if name in _HOME:
        return getattr(importlib.import_module(f"epsilog.plan.{_HOME[name]}"), name)
    raise AttributeError(f"module 'epsilog.plan' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
