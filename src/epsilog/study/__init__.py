"""Studies: utility and leakage of models, measured in simulation under attacks.

A study trains one task under several schemes and budgets, with several seeds, and attacks the models: backdoors,
membership inference, property inference, canaries. The hash of its protocol is in a ledger before the first run, so
the measurements cannot be chosen afterwards. Nothing here is a guarantee: another attack may succeed where these fail.
"""

from epsilog.study.backdoor import Backdoor
from epsilog.study.canaries import CanaryExperiment
from epsilog.study.membership import MembershipExperiment
from epsilog.study.properties import PropertyExperiment
from epsilog.study.protocol import Condition, StudyProtocol, Subject
from epsilog.study.study import Study, load_study, read_tables as read_tables, run_study

__all__ = [
    "Backdoor",
    "CanaryExperiment",
    "Condition",
    "MembershipExperiment",
    "PropertyExperiment",
    "Study",
    "StudyProtocol",
    "Subject",
    "load_study",
    "run_study",
]
