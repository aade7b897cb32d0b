"""A calculation for other tools: as Python, as a command, as a run config, in the playground, and as a charge."""

from __future__ import annotations

import inspect
import json
import shlex
from collections import Counter
from dataclasses import fields
from typing import Any
from urllib.parse import urlencode

from epsilog import plan
from epsilog.plan import Question
from epsilog.plan.questions import DPSGDQuestion, FederatedInterpretation, QueriesInterpretation
from epsilog.server import dp_sgd_snippets
from epsilog.server.responses import DPSGDSnippetsResponse, SnippetsResponse
from epsilog.server.routes import Routes
from epsilog.terms import CheckError, EpsilogError, codec
from epsilog.terms.formatting import format_upper

routes = Routes("calculators")

_POLICY = "delta_cap"
_MAX_PLAYGROUND_LINES = 12


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
    names = {"opacus": "Opacus", "jax_privacy": "JAX Privacy", "flower": "Flower"}
    foreign = [(name, *getattr(dp_sgd_snippets, f"write_{key}")(found)) for key, name in names.items()]
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
