"""Opacus: example-level DP-SGD at each client, its module wrapped once for all; noise of PyTorch's own generator.

python bench/peers/with_opacus.py '{"examples": 64, "steps": 4, "cohort": 20, "repeats": 7, "shapes": [[784, 128]]}'
"""

import json
import statistics
import sys
import time
import warnings

import torch
from opacus import GradSampleModule, __version__
from opacus.data_loader import DPDataLoader
from opacus.optimizers import DPOptimizer

warnings.simplefilter("ignore")
torch.set_num_threads(1)


def rate(told, inputs, hidden):
    """Client updates a CPU second."""
    examples, batch = told["examples"], told["examples"] // told["steps"]
    layers = [torch.nn.Linear(inputs, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10)]
    module = GradSampleModule(torch.nn.Sequential(*layers))
    start = {name: value.clone() for name, value in module.state_dict().items()}
    data = [
        torch.utils.data.TensorDataset(torch.randn(examples, inputs), torch.randint(0, 10, (examples,)))
        for _ in range(told["cohort"])
    ]
    total = {name: torch.zeros_like(value) for name, value in start.items()}
    rates = []
    for _ in range(told["repeats"] + 1):
        began = time.process_time()
        for one in data:
            module.load_state_dict(start)
            descent = torch.optim.SGD(module.parameters(), lr=0.05)
            optimizer = DPOptimizer(descent, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=batch)
            loader = DPDataLoader.from_data_loader(torch.utils.data.DataLoader(one, batch_size=batch))
            for x, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(module(x), y).backward()
                optimizer.step()
            for name, value in module.state_dict().items():
                total[name] += value - start[name]
        rates.append(len(data) / (time.process_time() - began))
    return statistics.median(rates[1:])


told = json.loads(sys.argv[1])
rates = [rate(told, *shape) for shape in told["shapes"]]
print(json.dumps({"version": f"Opacus {__version__}, torch {torch.__version__}", "rates": rates}))
