"""The code for a Flower client that the DP-SGD page hands over: its part of Flower, without PyTorch and Opacus."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.app.metadata import Metadata
from flwr.supercore.task_identity import TaskIdentity

from epsilog.plan import plan_dp_sgd
from epsilog.server.snippets import write_flower, write_opacus

PLAN = plan_dp_sgd(examples=100, batch_size=16, delta=1e-3, epochs=2.0, noise_multiplier=1.5)
FOREIGN = ("opacus", "torch", "torch.nn", "torch.optim", "torch.utils", "torch.utils.data")


@pytest.fixture(autouse=True)
def _identity(monkeypatch):
    for name in ("run_id", "node_id", "task_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1, raising=False)


def order(content):
    metadata = Metadata(1, "", 7, 1, "", "", 0.0, 60.0, "train")
    return Message(metadata=metadata, content=content)


def test_it_answers_with_the_models_arrays_and_the_number_of_examples():
    code, _ = write_flower(PLAN)
    scope = {}
    exec("\n".join(line for line in code.splitlines() if line.startswith("from flwr")), scope)  # noqa: S102
    head, body = (
        code.split("    model.load_state_dict")[0],
        code[code.index("    content = {") : code.index("# epsilon")],
    )
    head = "\n".join(line for line in head.splitlines() if not line.startswith(tuple(f"from {n}" for n in FOREIGN)))
    exec(f"{head}\n    weights = dict(message.content['arrays'])\n{body}", scope)  # noqa: S102
    sent = RecordDict({"arrays": ArrayRecord({"w": Array(np.arange(3.0))})})
    answer = scope["app"](order(sent), Context(1, 2, {}, RecordDict(), {}))
    assert answer.content["metrics"]["num-examples"] == 100
    assert (answer.content["arrays"]["w"].numpy() == np.arange(3.0)).all()


def test_its_privacy_engine_has_the_arguments_of_the_code_for_opacus():
    """Which ``in_opacus`` runs."""
    flower, opacus = write_flower(PLAN)[0], write_opacus(PLAN)[0]
    for line in (
        "noise_multiplier=1.5,",
        "max_grad_norm=1.0,",
        "poisson_sampling=True,",
        "batch_size=16, shuffle=True",
    ):
        assert line in flower
        assert line in opacus
