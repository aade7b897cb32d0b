"""Training: federated rounds under a charge, with the noise where the scheme says it goes.

One frozen scheme (``schemes``) drives sampler, clip and noise here and the cost in ``accounting``. An ``AuthorizedRun``
binds it to its charge and to its randomness. ``load_task`` loads real data, ``run_smoke_test`` tries everything before
the charge starts, ``run_rounds`` trains and survives a kill at any point, ``train_without_charge`` is for simulated
sweeps. JAX is imported when training begins, not before.
"""

from epsilog.training.canaries import add_canary_slots, compute_canary_scores, draw_canaries, insert_canaries
from epsilog.training.checkpoints import delete_run_state as delete_run_state, lock_exclusively as lock_exclusively
from epsilog.training.data import load_dataset, load_task
from epsilog.training.data.dataset import Dataset
from epsilog.training.federation import Federation, iterate_blocks as iterate_blocks
from epsilog.training.noise import Randomness
from epsilog.training.rounds import require_matching_scheme as require_matching_scheme
from epsilog.training.run import AuthorizedRun, TrainingResult, run_rounds, train_without_charge
from epsilog.training.server_optimizer import (
    OPTIMIZERS as OPTIMIZERS,
    SCHEDULES as SCHEDULES,
    ServerOptimizer,
    compute_learning_rate_factor as compute_learning_rate_factor,
)
from epsilog.training.smoke_test import run_smoke_test as run_smoke_test
from epsilog.training.task import LocalTraining, Task

__all__ = [
    "AuthorizedRun",
    "Dataset",
    "Federation",
    "LocalTraining",
    "Randomness",
    "ServerOptimizer",
    "Task",
    "TrainingResult",
    "add_canary_slots",
    "compute_canary_scores",
    "draw_canaries",
    "insert_canaries",
    "load_dataset",
    "load_task",
    "run_rounds",
    "train_without_charge",
]
