"""Before anything runs: a goal becomes a noise multiplier, a schedule and a price.

``federated`` and ``queries`` are the two calculators; ``register`` prices a whole programme's scheme and gives the
document whose hash goes into the ledger; ``preflight`` prices somebody else's loop of DP-SGD as it is. Pure functions;
no disk, no clock, no randomness.
"""

from epsilog.plan.compared import SideBySide, side_by_side
from epsilog.plan.consumed import Consumed
from epsilog.plan.federated_plan import CurvePoint, FederatedPlan, Schedule, curve, federated, noise_for, rounds_for
from epsilog.plan.mixed import Contribution, Mix, ProfileView, mix, profile_view
from epsilog.plan.phases import PhasedPlan, plan_phases
from epsilog.plan.pricing import price
from epsilog.plan.printed import AsPrinted, algorithm_two
from epsilog.plan.query_plan import Crossover, CrossoverRow, Noise, QueryPlan, QueryShare, crossover, queries
from epsilog.plan.questions import QUESTIONS, Question
from epsilog.plan.registered import OUTCOME_SHARE, RegisteredPlan, register
from epsilog.plan.risks import RISK_GAP, close_fit, risk_reading
from epsilog.plan.sensitivities import Sensitivity, sensitivity
from epsilog.plan.sentences import grade_delta, list_limits, list_query_limits, write_formula
from epsilog.plan.sweeps import Sweep, sweep
from epsilog.plan.training_loop import Preflight, preflight
from epsilog.plan.training_setup import TrainingSetup
from epsilog.plan.verdicts import Verdict, odds, verdict

__all__ = [
    "OUTCOME_SHARE",
    "QUESTIONS",
    "RISK_GAP",
    "AsPrinted",
    "Consumed",
    "Contribution",
    "Crossover",
    "CrossoverRow",
    "CurvePoint",
    "FederatedPlan",
    "Mix",
    "Noise",
    "PhasedPlan",
    "Preflight",
    "ProfileView",
    "QueryPlan",
    "QueryShare",
    "Question",
    "RegisteredPlan",
    "Schedule",
    "Sensitivity",
    "SideBySide",
    "Sweep",
    "TrainingSetup",
    "Verdict",
    "algorithm_two",
    "close_fit",
    "crossover",
    "curve",
    "federated",
    "grade_delta",
    "list_limits",
    "list_query_limits",
    "mix",
    "noise_for",
    "odds",
    "plan_phases",
    "preflight",
    "price",
    "profile_view",
    "queries",
    "register",
    "risk_reading",
    "rounds_for",
    "sensitivity",
    "side_by_side",
    "sweep",
    "verdict",
    "write_formula",
]
