"""Before anything runs: a goal becomes a noise multiplier, a schedule and a cost.

``plan_federated`` and ``queries`` are the calculators. ``build_registered_plan`` computes the cost of a scheme and
returns the document that the ledger refers to by its hash. ``preflight`` computes the cost of an existing DP-SGD loop.
Pure functions: no disk, no clock, no randomness.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epsilog.plan.comparison import ReleaseComparison, compare_releases
    from epsilog.plan.composition import CompositionPlan, PartCost, ProfileView, compute_profile_view, plan_composition
    from epsilog.plan.consumed_budget import ConsumedBudget
    from epsilog.plan.dp_sgd_plan import DPSGDPlan, DPSGDRun, plan_dp_sgd
    from epsilog.plan.federated_plan import (
        EpsilonCurvePoint,
        FederatedPlan,
        Schedule,
        calibrate_noise,
        calibrate_rounds,
        compute_epsilon_curve,
        plan_federated,
    )
    from epsilog.plan.interpretation import Interpretation, bound_log_odds_factor, interpret_guarantee
    from epsilog.plan.naseri_algorithm_2 import PrintedAlgorithmCost, account_algorithm_2
    from epsilog.plan.phases import PhasedPlan, plan_phases
    from epsilog.plan.preflight_checks import PreflightResult, preflight
    from epsilog.plan.pricing import bound_schedule_epsilon
    from epsilog.plan.query_plan import (
        CrossoverRow,
        QueryNoise,
        QueryNoiseComparison,
        QueryPlan,
        QueryShare,
        compare_query_noise,
        queries,
    )
    from epsilog.plan.query_sensitivity import QuerySensitivity, compute_query_sensitivity
    from epsilog.plan.question import Question
    from epsilog.plan.questions import QUESTIONS
    from epsilog.plan.registered_plan import RegisteredPlan, build_registered_plan
    from epsilog.plan.risk_metrics import RISK_RELATIVE_WIDTH, bound_attack, compute_risk_metrics
    from epsilog.plan.sentences import grade_delta, list_limits, list_query_limits, write_formula
    from epsilog.plan.training_setup import TrainingLoop
    from epsilog.plan.tuning import TuningCost, plan_tuning
    from epsilog.plan.verdict import VerdictCard, bound_log_odds_growth, bound_posterior, build_card

_HOME = {
    name: module
    for module, names in {
        "comparison": "ReleaseComparison compare_releases",
        "composition": "CompositionPlan PartCost ProfileView compute_profile_view plan_composition",
        "consumed_budget": "ConsumedBudget",
        "dp_sgd_plan": "DPSGDPlan DPSGDRun plan_dp_sgd",
        "federated_plan": "EpsilonCurvePoint FederatedPlan Schedule calibrate_noise "
        "calibrate_rounds compute_epsilon_curve plan_federated",
        "interpretation": "Interpretation bound_log_odds_factor interpret_guarantee",
        "naseri_algorithm_2": "PrintedAlgorithmCost account_algorithm_2",
        "phases": "PhasedPlan plan_phases",
        "preflight_checks": "PreflightResult preflight",
        "pricing": "bound_schedule_epsilon",
        "query_plan": "QueryNoiseComparison CrossoverRow QueryNoise QueryPlan QueryShare compare_query_noise queries",
        "query_sensitivity": "QuerySensitivity compute_query_sensitivity",
        "question": "Question",
        "questions": "QUESTIONS",
        "registered_plan": "RegisteredPlan build_registered_plan",
        "risk_metrics": "RISK_RELATIVE_WIDTH bound_attack compute_risk_metrics",
        "sentences": "grade_delta list_limits list_query_limits write_formula",
        "training_setup": "TrainingLoop",
        "tuning": "TuningCost plan_tuning",
        "verdict": "VerdictCard bound_log_odds_growth bound_posterior build_card",
    }.items()
    for name in names.split()
}

__all__ = [
    "QUESTIONS",
    "RISK_RELATIVE_WIDTH",
    "CompositionPlan",
    "ConsumedBudget",
    "CrossoverRow",
    "DPSGDPlan",
    "DPSGDRun",
    "EpsilonCurvePoint",
    "FederatedPlan",
    "Interpretation",
    "PartCost",
    "PhasedPlan",
    "PreflightResult",
    "PrintedAlgorithmCost",
    "ProfileView",
    "QueryNoise",
    "QueryNoiseComparison",
    "QueryPlan",
    "QuerySensitivity",
    "QueryShare",
    "Question",
    "RegisteredPlan",
    "ReleaseComparison",
    "Schedule",
    "TrainingLoop",
    "TuningCost",
    "VerdictCard",
    "account_algorithm_2",
    "bound_attack",
    "bound_log_odds_factor",
    "bound_log_odds_growth",
    "bound_posterior",
    "bound_schedule_epsilon",
    "build_card",
    "build_registered_plan",
    "calibrate_noise",
    "calibrate_rounds",
    "compare_query_noise",
    "compare_releases",
    "compute_epsilon_curve",
    "compute_profile_view",
    "compute_query_sensitivity",
    "compute_risk_metrics",
    "grade_delta",
    "interpret_guarantee",
    "list_limits",
    "list_query_limits",
    "plan_composition",
    "plan_dp_sgd",
    "plan_federated",
    "plan_phases",
    "plan_tuning",
    "preflight",
    "queries",
    "write_formula",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that the fields of questions load without NumPy."""
    if name in _HOME:
        return getattr(importlib.import_module(f"epsilog.plan.{_HOME[name]}"), name)
    raise AttributeError(f"module 'epsilog.plan' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
