"""What a model costs and what it gives away, measured in simulation: utility, backdoors, membership.

A study trains the same task under several schemes and budgets, with several seeds, and attacks it. Its protocol is
hashed into a ledger before the first run, so that nobody can choose afterwards what to measure. Nothing here is a
guarantee: an attack that finds nothing is one attack that found nothing.
"""

from epsilog.study.backdoor import Backdoor, BackdooredEngine, success
from epsilog.study.measuring import Condition, Measured, Protocol, Subject, measure
from epsilog.study.membership import Attack, attack, halved, losses_of_units
from epsilog.study.telling import HEADINGS, plots, sentences, summary
from epsilog.study.whole import Study, load, rows, study

__all__ = [
    "HEADINGS",
    "Attack",
    "Backdoor",
    "BackdooredEngine",
    "Condition",
    "Measured",
    "Protocol",
    "Study",
    "Subject",
    "attack",
    "halved",
    "load",
    "losses_of_units",
    "measure",
    "plots",
    "rows",
    "sentences",
    "study",
    "success",
    "summary",
]
