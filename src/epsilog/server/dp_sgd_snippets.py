"""A DP-SGD run as code for Opacus, JAX Privacy and Flower, with the epsilon of what that code does."""

from __future__ import annotations

import math
from dataclasses import replace

from epsilog.plan import DPSGDPlan, bound_schedule_epsilon
from epsilog.terms import UnsupportedMechanismError
from epsilog.terms.formatting import format_upper

_OPACUS = """\
# dataset, model: yours
from itertools import islice

from opacus import PrivacyEngine
from torch import nn, optim
from torch.utils.data import DataLoader

engine = PrivacyEngine()
loss = nn.CrossEntropyLoss()
model, optimizer, loader = engine.make_private(
    module=model,
    optimizer=optim.SGD(model.parameters(), lr=0.1),
    data_loader=DataLoader(dataset, batch_size={batch_size}, shuffle=True),
    noise_multiplier={noise!r},
    max_grad_norm={clip!r},
    poisson_sampling={poisson},
)
steps = {steps}
while steps > 0:  # an epoch a turn
    for features, labels in islice(loader, steps):
        optimizer.zero_grad()
        loss(model(features), labels).backward()
        optimizer.step()
    steps -= len(loader)
{result}
"""

_JAX = """\
# data, params, loss(params, examples): yours
import secrets

import jax
import jax_privacy
import numpy as np
import optax
from jax_privacy import batch_selection, noise_addition

selection = batch_selection.CyclicPoissonSampling(
    sampling_prob={batch_size} / {examples},
    iterations={steps},
    truncated_batch_size={most},
)
clipped_sum = jax_privacy.clipped_grad(loss, l2_clip_norm={clip!r})
key = jax.random.wrap_key_data(np.frombuffer(secrets.token_bytes(8), np.uint32))
privatizer = noise_addition.gaussian_privatizer(stddev={noise!r} * {clip!r}, prng_key=key)
optimizer = optax.chain(privatizer, optax.scale(1 / {batch_size}), optax.sgd(0.1))
state = optimizer.init(params)
for indices in selection.batch_iterator({examples}):
    if len(indices):
        gradient = clipped_sum(params, data[indices])
    else:  # an empty batch adds noise, too
        gradient = jax.tree.map(np.zeros_like, params)
    updates, state = optimizer.update(gradient, state, params)
    params = optax.apply_updates(params, updates)
{result}
"""

_FLOWER = """\
# A client's app; its own {examples} examples train for {rounds} {rounds_word} of one local epoch.
# dataset, model: yours
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from opacus import PrivacyEngine
from torch import nn, optim
from torch.utils.data import DataLoader

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    model.train()
    loss = nn.CrossEntropyLoss()
    private, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(dataset, batch_size={batch_size}, shuffle=True),
        noise_multiplier={noise!r},
        max_grad_norm={clip!r},
        poisson_sampling={poisson},
    )
    for features, labels in loader:
        optimizer.zero_grad()
        loss(private(features), labels).backward()
        optimizer.step()
    weights = {{name.removeprefix("_module."): value for name, value in private.state_dict().items()}}
    private.to_standard_module()
    content = {{"arrays": ArrayRecord(weights), "metrics": MetricRecord({{"num-examples": {examples}}})}}
    return Message(content=RecordDict(content), reply_to=message)


{result}
"""


def write_opacus(plan: DPSGDPlan) -> tuple[str | None, str]:
    """Return the code and what it does; None and why where Opacus cannot."""
    run = plan.run
    if run.sampler == "truncated-poisson":
        return None, "Opacus does not truncate batches."
    return _OPACUS.format(**_list_values(plan, _count_opacus_steps(plan))), _describe_opacus(plan)


def write_jax_privacy(plan: DPSGDPlan) -> tuple[str | None, str]:
    """Return the code and what it does; None and why where JAX Privacy cannot."""
    if plan.run.sampler == "shuffled":
        return None, "JAX Privacy has no shuffled epochs; it draws Poisson batches."
    result = f"# epsilon <= {format_upper(plan.epsilon.upper, 3)} at delta {plan.delta!r}, from epsilog"
    return _JAX.format(**_list_values(plan, plan.run.updates) | {"result": result}), "It samples and counts as above."


def write_flower(plan: DPSGDPlan) -> tuple[str | None, str]:
    """Return the code of a client, which trains with Opacus, and what it does; None and why where it cannot."""
    run = plan.run
    if run.sampler == "truncated-poisson":
        return None, "A Flower client trains with Opacus, which does not truncate batches."
    rounds = -(-_count_opacus_steps(plan) // _count_batches(plan))
    values = _list_values(plan, rounds * _count_batches(plan))
    note = f"Each client protects its own examples. {_describe_opacus(plan)} All rounds together count."
    return _FLOWER.format(**values, rounds=rounds, rounds_word="round" if rounds == 1 else "rounds"), note


def _count_batches(plan: DPSGDPlan) -> int:
    """Return the length of a loader of PyTorch: it keeps the last, smaller batch."""
    return -(-plan.run.examples // plan.run.batch_size)


def _count_opacus_steps(plan: DPSGDPlan) -> int:
    """Return the steps of the loop: whole epochs are epochs of the loader."""
    run = plan.run
    if run.epochs is not None and run.epochs == math.floor(run.epochs):
        return int(run.epochs) * _count_batches(plan)
    return run.updates


def _describe_opacus(plan: DPSGDPlan) -> str:
    if plan.run.sampler == "shuffled":
        return "Opacus' own get_epsilon assumes Poisson batches: do not report it for shuffled ones."
    return f"Opacus samples at 1 / {_count_batches(plan)}, one over the length of its loader."


def _list_values(plan: DPSGDPlan, steps: int) -> dict[str, object]:
    """Return what a template holds; the result is that of ``steps`` steps with Opacus' own sampling probability."""
    run = plan.run
    return {
        "examples": run.examples,
        "batch_size": run.batch_size,
        "steps": steps,
        "noise": run.noise_multiplier,
        "clip": run.clip_norm,
        "poisson": run.sampler != "shuffled",
        "most": run.max_batch_size,
        "result": _write_opacus_result(plan, steps),
    }


def _write_opacus_result(plan: DPSGDPlan, steps: int) -> str:
    """Return a comment with the epsilon of what Opacus does."""
    run, batches = plan.run, _count_batches(plan)
    if run.sampler == "shuffled":
        did = replace(run, epochs=float(max(run.passes, -(-steps // batches))), steps=None)
    else:  # a sampling probability of 1 / batches
        did = replace(
            run, examples=batches, batch_size=1, epochs=None, steps=steps, sampler="poisson", max_batch_size=None
        )
    try:
        found = format_upper(bound_schedule_epsilon(did, plan.delta, plan.relation).upper, 3)
    except UnsupportedMechanismError:
        return "# no bound is proven"
    return f"# epsilon <= {found} at delta {plan.delta!r} for these {steps} steps, from epsilog"
