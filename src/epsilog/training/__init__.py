"""Training: federated rounds under a charge, with the noise where the scheme says it goes.

One frozen scheme (``schemes``) drives sampler, clip and noise here and the price in ``accounting``; a ``PaidRun``
binds it to the charge that pays for it and to its randomness. ``load_task`` brings in real data, ``rehearse`` tries
everything before money moves, ``run_rounds`` trains and survives a kill at any point, ``dry_run`` is for simulated
sweeps. JAX is imported when training begins, not before.
"""

from epsilog.training.canaries import canary_scores, draw_canaries, enrol, score_name, with_places
from epsilog.training.checkpoints import exclusive, forget
from epsilog.training.data import load_dataset, load_task
from epsilog.training.data.dataset import Dataset
from epsilog.training.federation import Federation, blocks
from epsilog.training.noise import Randomness
from epsilog.training.paid import PaidRun
from epsilog.training.rehearsal import rehearse
from epsilog.training.rounds import require_fit
from epsilog.training.run import Curve, Trained, dry_run, run_rounds
from epsilog.training.server import OPTIMIZERS, SCHEDULES, Server, pace
from epsilog.training.task import Task, Training

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
