"""The code for Opacus that the DP-SGD page hands over, run as it stands."""

import pytest
import torch

from epsilog.plan import plan_dp_sgd
from epsilog.server.snippets import write_opacus

RUN = {"examples": 100, "batch_size": 16, "delta": 1e-3, "noise_multiplier": 1.5}


@pytest.mark.filterwarnings("ignore:Secure RNG turned off", "ignore:Full backward hook is firing")
@pytest.mark.parametrize(
    ("more", "steps"),
    [
        ({"epochs": 2.0}, 14),  # 7 batches an epoch
        ({"epochs": 2.0, "sampler": "shuffled"}, 14),
        ({"epochs": 0.5}, 4),
        ({"steps": 9, "clip_norm": 0.5}, 9),
    ],
)
def test_it_trains_and_the_accountant_of_opacus_counts_the_stated_steps(more, steps):
    features, labels = torch.randn(100, 3), torch.randint(0, 2, (100,))
    scope = {"dataset": torch.utils.data.TensorDataset(features, labels), "model": torch.nn.Linear(3, 2)}
    code, _ = write_opacus(plan_dp_sgd(**RUN, **more))
    exec(code, scope)  # noqa: S102 - what is copied from the page is run as it stands
    assert scope["engine"].accountant.history == [(1.5, 1 / 7, steps)]
    assert (type(scope["loader"]).__name__ == "DPDataLoader") == ("sampler" not in more)
    assert scope["optimizer"].max_grad_norm == more.get("clip_norm", 1.0)
