"""Training: federated rounds under a charge, with the noise where the scheme says it goes.

One frozen scheme (``schemes``) drives sampler, clip and noise here and the price in ``accounting``; a ``PaidRun``
binds it to the charge that pays for it and to its randomness. ``load_task`` brings in real data, ``rehearse`` tries
everything before money moves, ``run_rounds`` trains and survives a kill at any point, ``dry_run`` is for simulated
sweeps. JAX is imported when training begins, not before.
"""

from epsilog.train.canaries import canary_scores, draw_canaries, enrol, score_name, with_places
from epsilog.train.checkpoints import exclusive, forget
from epsilog.train.data import load_dataset, load_task
from epsilog.train.data.dataset import Dataset
from epsilog.train.federation import Federation, blocks
from epsilog.train.noise import Randomness
from epsilog.train.paid import PaidRun
from epsilog.train.rehearsal import rehearse
from epsilog.train.rounds import require_fit
from epsilog.train.run import Curve, Trained, dry_run, run_rounds
from epsilog.train.server import OPTIMIZERS, SCHEDULES, Server, pace
from epsilog.train.task import Task, Training

__all__ = [
    "OPTIMIZERS",
    "SCHEDULES",
    "Curve",
    "Dataset",
    "Federation",
    "PaidRun",
    "Randomness",
    "Server",
    "Task",
    "Trained",
    "Training",
    "blocks",
    "canary_scores",
    "draw_canaries",
    "dry_run",
    "enrol",
    "exclusive",
    "forget",
    "load_dataset",
    "load_task",
    "pace",
    "rehearse",
    "require_fit",
    "run_rounds",
    "score_name",
    "with_places",
]
