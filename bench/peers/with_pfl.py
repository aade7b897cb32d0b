"""pfl: a simulated round of federated averaging with central noise, on PyTorch; nothing is evaluated.

python bench/peers/with_pfl.py '{"examples": 64, "steps": 4, "cohort": 100, "repeats": 7, "shapes": [[784, 128]]}'
"""

import json
import statistics
import sys
import time
from importlib.metadata import version

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm import FederatedAveraging, NNAlgorithmParams
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from pfl.privacy import CentrallyAppliedPrivacyMechanism, GaussianMechanism

torch.set_num_threads(1)


class Net(torch.nn.Module):
    """The dense model, with the two functions that pfl asks for."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(inputs, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))

    def loss(self, inputs, targets, **_):
        return torch.nn.functional.cross_entropy(self.layers(inputs), targets)

    def metrics(self, *_, **__):
        return {}


class Clock(TrainingProcessCallback):
    """When each round ended."""

    def __init__(self):
        self.times = []

    def after_central_iteration(self, *_, **__):
        self.times.append(time.process_time())
        return False, Metrics()


def rate(told, inputs, hidden):
    """Client updates a CPU second."""
    draws = np.random.default_rng(1)
    examples, cohort = told["examples"], told["cohort"]
    data = {
        user: Dataset(
            (
                torch.as_tensor(draws.standard_normal((examples, inputs)), dtype=torch.float32),
                torch.as_tensor(draws.integers(0, 10, examples)),
            )
        )
        for user in range(2 * cohort)
    }
    population = FederatedDataset(data.__getitem__, get_user_sampler("random", list(data)))
    noise = CentrallyAppliedPrivacyMechanism(GaussianMechanism(1.0, 1.0))
    net, clock = Net(inputs, hidden), Clock()
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    FederatedAveraging().run(
        NNAlgorithmParams(told["repeats"] + 1, told["repeats"] + 1, cohort, None),  # evaluated in the first alone
        SimulatedBackend(population, None, postprocessors=[noise]),
        model,
        NNTrainHyperParams(local_batch_size=examples // told["steps"], local_num_epochs=1, local_learning_rate=0.05),
        callbacks=[clock],
    )
    return statistics.median(cohort / np.diff(clock.times))


told = json.loads(sys.argv[1])
rates = [rate(told, *shape) for shape in told["shapes"]]
print(json.dumps({"version": f"pfl {version('pfl')}, torch {torch.__version__}", "rates": rates}))
