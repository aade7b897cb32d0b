"""Studies: utility and leakage of models, measured in simulation under attacks.

A study trains one task under several schemes and budgets, with several seeds, and attacks the models: backdoors,
membership inference, property inference, canaries. The hash of its protocol is in a ledger before the first run, so
the measurements cannot be chosen afterwards. Nothing here is a guarantee: another attack may succeed where these fail.
"""

from epsilog.study.backdoor import Backdoor, compute_attack_success, make_backdoored_engine
from epsilog.study.canaries import CanaryExperiment
from epsilog.study.experiment import Experiment, ResultCells
from epsilog.study.membership import (
    AttackResult,
    MembershipExperiment,
    compute_lira_scores,
    compute_unit_confidences,
    compute_unit_losses,
    evaluate_attack,
    hold_out_half,
)
from epsilog.study.properties import PropertyExperiment
from epsilog.study.protocol import Condition, StudyProtocol, Subject, measure_subject
from epsilog.study.results import ResultTable, build_tables, draw_study_plots, write_conclusions
from epsilog.study.study import Study, load_study, read_tables, run_study

__all__ = [
    "AttackResult",
    "Backdoor",
    "CanaryExperiment",
    "Condition",
    "Experiment",
    "MembershipExperiment",
    "PropertyExperiment",
    "ResultCells",
    "ResultTable",
    "Study",
    "StudyProtocol",
    "Subject",
    "build_tables",
    "compute_attack_success",
    "compute_lira_scores",
    "compute_unit_confidences",
    "compute_unit_losses",
    "draw_study_plots",
    "evaluate_attack",
    "hold_out_half",
    "load_study",
    "make_backdoored_engine",
    "measure_subject",
    "read_tables",
    "run_study",
    "write_conclusions",
]
