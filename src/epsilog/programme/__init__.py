"""The programme file and the whole run: one federated programme from plan to proof.

``load`` reads and checks the TOML file; ``run`` tells the whole story in one short file, ``train_only`` its first half.
"""

from epsilog.programme.drafting import draft
from epsilog.programme.model import Programme, ProgrammeFile, load
from epsilog.programme.predicting import predict
from epsilog.programme.prepare import Prepared, prepare_file
from epsilog.programme.sketching import Checked, check_file, sketch
from epsilog.programme.story import Observer, Outcome, run, train_only

__all__ = [
    "Checked",
    "Observer",
    "Outcome",
    "Prepared",
    "Programme",
    "ProgrammeFile",
    "check_file",
    "draft",
    "load",
    "predict",
    "prepare_file",
    "run",
    "sketch",
    "train_only",
]
