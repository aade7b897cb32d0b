"""The programme file and the whole run: one federated programme from plan to proof.

``load`` reads and checks the TOML file; ``run`` tells the whole story in one short file, ``train_only`` its first half.
"""

from epsilog.pipeline.drafting import draft
from epsilog.pipeline.model import Programme, ProgrammeFile, load
from epsilog.pipeline.predicting import predict
from epsilog.pipeline.prepare import Prepared, prepare_file
from epsilog.pipeline.sketching import Checked, check_file, sketch
from epsilog.pipeline.story import Observer, Outcome, run, train_only

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
