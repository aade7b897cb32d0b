"""A calculation for other tools: as Python, as a command, as a run config, in the playground, and as a charge.

A DP-SGD run also as code for Opacus, JAX Privacy and Flower, with the epsilon of what that code does.
"""

from __future__ import annotations

import inspect
import json
import math
import shlex
from collections import Counter
from dataclasses import fields, replace
from typing import Any
from urllib.parse import urlencode

from epsilog import plan
from epsilog.plan import DPSGDPlan, Question, bound_schedule_epsilon
from epsilog.plan.questions import DPSGDQuestion, FederatedInterpretation, QueriesInterpretation
from epsilog.server.responses import DPSGDSnippetsResponse, SnippetsResponse
from epsilog.server.routes import Routes
from epsilog.terms import CheckError, EpsilogError, UnsupportedMechanismError, codec
from epsilog.terms.formatting import format_upper

routes = Routes("calculators")

_POLICY = "delta_cap"
_MAX_PLAYGROUND_LINES = 12

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


@routes.add("/federated/elsewhere", SnippetsResponse, summary="Export a schedule to other tools", work=0.1)
def make_federated_snippets_route(ask: FederatedInterpretation) -> dict[str, Any]:
    """Python code, a command, a run config, and addresses of the playground and the ledger, all with the same cost."""
    found = ask.plan()
    run_config, reason = _write_config(ask, found)
    schedule = found.schedule
    line = f"gaussian:{schedule.noise_multiplier!r}::{schedule.sampling_probability!r}:{schedule.rounds}"
    in_playground = schedule.sampling == "poisson" and ask.relation != "replace-one"
    return {
        "python": _write_python("plan_federated", ask, "plan.epsilon.upper", _write_odds(ask)),
        "command": _write_command("plan_federated", ask, {"population", "cohort_size", "rounds", "noise_multiplier"}),
        "run_config": run_config,
        "no_run_config": reason,
        "playground": _link_playground([line], found.delta.delta, ask.relation) if in_playground else None,
        "charge": _link_charge(found.release, found.delta.delta),
    }


@routes.add("/dp-sgd/elsewhere", DPSGDSnippetsResponse, summary="Export a DP-SGD run to other tools", work=2.0)
def make_dp_sgd_snippets_route(ask: DPSGDQuestion) -> dict[str, Any]:
    """Python code, a command and a run config with the same cost, and code for Opacus, JAX Privacy and Flower."""
    found = ask.plan()
    run, delta = found.run, found.delta
    run_config: str | None = None
    reason: str | None = "A run config draws Poisson batches that nothing truncates."
    if run.sampler == "poisson":
        same = FederatedInterpretation(
            population=run.examples,
            cohort_size=run.batch_size,
            rounds=run.updates,
            noise_multiplier=run.noise_multiplier,
            clip_norm=run.clip_norm,
            delta=delta,
            delta_cap=None,
            relation=found.relation,
            privacy_unit="example",
            rounds_per_release=run.updates,
            cap=ask.epsilon,
        )
        run_config, reason = _write_config(same, same.plan())
    line = f"gaussian:{run.noise_multiplier!r}::{run.sampling_probability!r}:{run.updates}"
    in_playground = run.sampler == "poisson" and found.relation != "replace-one"
    writers = {"Opacus": write_opacus, "JAX Privacy": write_jax_privacy, "Flower": write_flower}
    foreign = [(name, *write(found)) for name, write in writers.items()]
    return {
        "python": _write_python("plan_dp_sgd", ask, "plan.epsilon.upper", "plan.run.noise_multiplier"),
        "command": _write_command("plan_dp_sgd", ask, {"examples", "batch_size", "epochs", "steps"}),
        "run_config": run_config,
        "no_run_config": reason,
        "playground": _link_playground([line], delta, found.relation) if in_playground else None,
        "charge": _link_charge(found.release, delta),
        "foreign": [{"name": name, "code": code, "note": note} for name, code, note in foreign],
    }


@routes.add("/queries/elsewhere", SnippetsResponse, summary="Export a query plan to other tools", work=0.1)
def make_query_snippets_route(ask: QueriesInterpretation) -> dict[str, Any]:
    """Python code, a command, and addresses of the playground and the ledger, all with the same cost."""
    found = ask.plan()
    delta = 0.0 if found.delta is None else found.delta.delta
    scales: Counter[float] = Counter()
    for share in found.shares:
        scales[share.optimal.scale / found.sensitivity] += share.count
    lines = [f"{found.mechanism}:{scale!r}:::{count}" for scale, count in scales.items()]
    in_playground = len(lines) <= _MAX_PLAYGROUND_LINES and delta
    return {
        "python": _write_python("queries", ask, "plan.shares[0].optimal.scale", _write_odds(ask)),
        "command": _write_command("queries", ask, {"epsilon", "queries"}),
        "run_config": None,
        "no_run_config": "A run config trains a model; queries are booked one by one, or together as below.",
        "playground": _link_playground(lines, delta, "add-or-remove-one") if in_playground else None,
        "charge": _link_charge(found.release, delta),
    }


def _list_parameters(page: str, ask: Question, *, omit: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the fields that the cost depends on and that differ from their defaults."""
    known = {*inspect.signature(getattr(plan, page)).parameters, _POLICY}
    stated = {each.name for each in fields(ask) if getattr(ask, each.name) != each.default}  # type: ignore[arg-type]
    return {name: value for name, value in ask.to_json().items() if name in known & stated and name not in omit}


def _write_odds(ask: FederatedInterpretation | QueriesInterpretation) -> str:
    return f"plan.meaning({'' if ask.cap is None else f'cap={ask.cap!r}'}).odds"


def _write_python(name: str, ask: Question, *parts: str) -> str:
    values = {key: repr(value) for key, value in _list_parameters(name, ask).items()}
    if _POLICY in values:
        values["policy"] = f"ep.terms.DeltaPolicy({values.pop(_POLICY)})"
    if "relation" in values:
        values["relation"] = f"ep.NeighboringRelation({values['relation']})"
    if "trials" in values:
        values["trials"] = f"ep.mechanisms.parse_trials({values['trials']})"
    arguments = "".join(f"    {key}={value},\n" for key, value in values.items())
    prints = "".join(f"print({one})\n" for one in parts)
    stated = ask.boundary if isinstance(ask, FederatedInterpretation) else {}
    lines = "".join(f"# stated: {key} = {value!r}\n" for key, value in stated.items() if key not in values)
    return f"import epsilog as ep\n\n{lines}plan = ep.plan.{name}(\n{arguments})\n{prints}"


def _write_command(name: str, ask: Question, first: set[str]) -> str:
    values = _list_parameters(name, ask, omit=("clip_norm", "magnitude"))  # neither changes the cost
    words = ["epsilog", "plan", name.removeprefix("plan_").replace("_", "-")]
    for key, value in sorted(values.items(), key=lambda each: each[0] not in first):
        text = ",".join(map(repr, value)) if isinstance(value, list) else value
        words += [f"--{key.replace('_', '-')}", str(text or 0 if key == _POLICY else text)]
    return shlex.join(words)


def _write_config(ask: FederatedInterpretation, found: plan.FederatedPlan) -> tuple[str | None, str | None]:
    """Return a file, and why it is refused as it is; or None, and why."""
    import tomllib

    from epsilog.pipeline import PlanConfig, export_config  # here, because it imports the trainer

    if (
        ask.adaptive_clip
        or ask.trials is not None
        or not ask.without_replacement
        or ask.late_replies != "count-as-zero"
    ):
        return (
            None,
            "What is learned, chosen, given several times a round or asked of others takes a scheme that says more.",
        )
    if ask.cap is None:
        return None, "State the policy’s cap on ε: it becomes the budget of the run config."
    try:
        text = export_config(found, cap=ask.cap, rounds_per_release=ask.rounds_per_release)
    except CheckError as error:
        return None, f"No scheme of a run config matches this plan: {error}."
    try:
        PlanConfig.of(**tomllib.loads(text))
    except (EpsilogError, ValueError) as error:
        return text, f"It is refused as it is: {str(error).removeprefix('run config: ')}."
    own = found.epsilon.upper
    if own > ask.cap:
        return text, f"It is refused as it is: its epsilon of {format_upper(own)} is above the cap of {ask.cap!r}."
    return text, None


def _link_playground(lines: list[str], delta: float, relation: str) -> str:
    return "/playground?" + urlencode({"v": 1, "mix": "|".join(lines), "delta": repr(delta), "relation": relation})


def _link_charge(release: Any, delta: float) -> str:
    """Return the form for a charge, filled with the release itself; each budget computes its cost in its own terms."""
    term = json.dumps(codec.to_json(release), separators=(",", ":"))
    return "/ledger?" + urlencode({"release": term} | ({"delta": repr(delta)} if delta else {}))
