"""What a model costs and what it gives away, measured in simulation: utility, and what attackers get.

A study trains the same task under several schemes and budgets, with several seeds, and attacks it: backdoors,
membership inference, property inference, canaries. Its protocol is hashed into a ledger before the first run, so that
nobody can choose afterwards what to measure. Nothing here is a guarantee: an attack that finds nothing is one attack
that found nothing.
"""

from epsilog.study.backdoor import Backdoor, BackdooredEngine, success
from epsilog.study.canaries import Canaries
from epsilog.study.cells import Cells
from epsilog.study.measuring import Condition, Protocol, Subject, measure
from epsilog.study.membership import (
    Attack,
    Membership,
    attack,
    confidences_of_units,
    halved,
    likelihood_ratios,
    losses_of_units,
)
from epsilog.study.properties import Property
from epsilog.study.telling import Table, plots, sentences, tables
from epsilog.study.whole import Study, load, shown, study

__all__ = [
    "Attack",
    "Backdoor",
    "BackdooredEngine",
    "Canaries",
    "Cells",
    "Condition",
    "Membership",
    "Property",
    "Protocol",
    "Study",
    "Subject",
    "Table",
    "attack",
    "confidences_of_units",
    "halved",
    "likelihood_ratios",
    "load",
    "losses_of_units",
    "measure",
    "plots",
    "sentences",
    "shown",
    "study",
    "success",
    "tables",
]
