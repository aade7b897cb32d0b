"""Opacus: DP-SGD steps on a small CNN, by hooks or by ghost clipping; each line of standard input asks for one turn.

python bench/peers/convolutions_with_opacus.py '{"batch": 256, "steps": 4}'

Each line names a way ("hooks" or "ghost"); each answer is the CPU seconds of so many steps: forward, backward,
clipping, PyTorch's own noise, and the step of the optimizer.
"""

import json
import sys
import time
import warnings

import torch
from opacus import GradSampleModule, __version__
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

warnings.simplefilter("ignore")
torch.set_num_threads(1)


def network():
    """The shipped CNN: 29,994 parameters."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 5),
        torch.nn.MaxPool2d(2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 5),
        torch.nn.MaxPool2d(2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(512, 32),
        torch.nn.ReLU(),
        torch.nn.Linear(32, 10),
    )


def steps_of(way, told):
    """What takes the steps, one way or the other."""
    batch = told["batch"]
    x, y = torch.randn(batch, 1, 28, 28), torch.randint(0, 10, (batch,))
    noise = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "expected_batch_size": batch}
    if way == "hooks":
        module = GradSampleModule(network())
        optimizer = DPOptimizer(torch.optim.SGD(module.parameters(), lr=1e-3), **noise)
        loss = torch.nn.functional.cross_entropy
    else:
        module = GradSampleModuleFastGradientClipping(network(), max_grad_norm=1.0, use_ghost_clipping=True)
        optimizer = DPOptimizerFastGradientClipping(torch.optim.SGD(module.parameters(), lr=1e-3), **noise)
        loss = DPLossFastGradientClipping(module, optimizer, torch.nn.CrossEntropyLoss())

    def take():
        began = time.process_time()
        for _ in range(told["steps"]):
            optimizer.zero_grad()
            loss(module(x), y).backward()
            optimizer.step()
        return time.process_time() - began

    take()  # a warm-up
    return take


told = json.loads(sys.argv[1])
ways = {way: steps_of(way, told) for way in ("hooks", "ghost")}
print(json.dumps(f"Opacus {__version__}, torch {torch.__version__}"), flush=True)
for line in sys.stdin:
    print(ways[line.strip()](), flush=True)
