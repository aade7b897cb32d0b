"""Training: federated rounds under a started charge, with the noise where the scheme says it goes.

One frozen scheme (``terms.schemes``) drives sampler, clip and noise here and the price in ``accounting``. ``load_task``
brings in real data, ``run_rounds`` trains and survives a kill at any point, ``dry_run`` is for simulated sweeps. JAX is
imported when training begins, not before.
"""

from epsilog.train.data import load_task
from epsilog.train.noise import Randomness
from epsilog.train.run import Charge, Curve, Trained, dry_run, run_rounds
from epsilog.train.task import Federation, Task, Training

__all__ = [
    "Charge",
    "Curve",
    "Federation",
    "Randomness",
    "Task",
    "Trained",
    "Training",
    "dry_run",
    "load_task",
    "run_rounds",
]
