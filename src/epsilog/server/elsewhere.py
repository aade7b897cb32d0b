"""A calculation elsewhere: as Python, as a command, as a programme file, in the playground, and as a charge."""

from __future__ import annotations

import inspect
import json
import shlex
from dataclasses import fields
from typing import Any
from urllib.parse import urlencode

from epsilog import plan
from epsilog.plan import Question
from epsilog.plan.questions import FederatedVerdict, QueriesVerdict
from epsilog.server import answers
from epsilog.server.routes import Routes
from epsilog.terms import CheckError, EpsilogError, codec
from epsilog.terms.formatting import format_upper

routes = Routes("calculators")

_POLICY = "delta_cap"
_MOST_LINES = 12  # of the playground's form


@routes.add("/federated/elsewhere", answers.SnippetsResponse, summary="A schedule in other tools' words", work=0.1)
def make_federated_snippets_route(ask: FederatedVerdict) -> dict[str, Any]:
    """Python, a command, a programme file, an address of the playground and one of the ledger, all for one price."""
    found = ask.plan()
    programme, reason = _programme(ask, found)
    schedule = found.schedule
    line = f"gaussian:{schedule.noise_multiplier!r}::{schedule.sampling_probability!r}:{schedule.rounds}"
    return {
        "python": _python("federated", ask, f".meaning({'' if ask.cap is None else f'cap={ask.cap!r}'})"),
        "command": _command("federated", ask, {"population", "cohort_size", "rounds", "noise_multiplier"}),
        "programme": programme,
        "no_programme": reason,
        "playground": _playground([line], found.delta.delta, ask.relation)
        if schedule.sampling == "poisson" and ask.relation != "replace-one"
        else None,
        "charge": _charge(found.release, found.delta.delta),
    }


@routes.add("/queries/elsewhere", answers.SnippetsResponse, summary="A query plan in other tools' words", work=0.1)
def make_query_snippets_route(ask: QueriesVerdict) -> dict[str, Any]:
    """Python, a command, an address of the playground and one of the ledger, all for one price."""
    found = ask.plan()
    delta = 0.0 if found.delta is None else found.delta.delta
    scales: dict[float, int] = {}
    for share in found.shares:
        scale = share.optimal.scale / found.sensitivity
        scales[scale] = scales.get(scale, 0) + share.count
    lines = [f"{found.mechanism}:{scale!r}:::{count}" for scale, count in scales.items()]
    return {
        "python": _python("queries", ask, f".meaning({'' if ask.cap is None else f'cap={ask.cap!r}'})"),
        "command": _command("queries", ask, {"epsilon", "queries"}),
        "programme": None,
        "no_programme": "A programme trains a model; queries are booked one by one, or together as below.",
        "playground": _playground(lines, delta, "add-or-remove-one") if len(lines) <= _MOST_LINES and delta else None,
        "charge": _charge(found.release, delta),
    }


def _list_parameters(page: str, ask: Question, *, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the price depends on, where it is not what is meant anyway; the rest is of the claim's boundary."""
    known = {*inspect.signature(getattr(plan, page)).parameters, _POLICY}
    stated = {each.name for each in fields(ask) if getattr(ask, each.name) != each.default}  # type: ignore[arg-type]
    return {name: value for name, value in ask.to_json().items() if name in known & stated and name not in but}


def _python(name: str, ask: Question, meaning: str) -> str:
    told = {key: repr(value) for key, value in _list_parameters(name, ask).items()}
    if _POLICY in told:
        told["policy"] = f"ep.DeltaPolicy({told.pop(_POLICY)})"
    if "relation" in told:
        told["relation"] = f"ep.NeighboringRelation({told['relation']})"
    if "trials" in told:
        told["trials"] = f"ep.read_trials({told['trials']})"
    arguments = "".join(f"    {key}={value},\n" for key, value in told.items())
    price = "plan.epsilon.upper" if name == "federated" else "plan.shares[0].optimal.scale"
    return f"import epsilog as ep\n\nplan = ep.plan.{name}(\n{arguments})\nprint({price})\nprint(plan{meaning}.odds)\n"


def _command(name: str, ask: Question, first: set[str]) -> str:
    told = _list_parameters(name, ask, but=("clip_norm", "magnitude"))  # neither changes a price
    words = ["epsilog", "plan", name]
    for key, value in sorted(told.items(), key=lambda each: each[0] not in first):
        written = ",".join(map(repr, value)) if isinstance(value, list) else value
        if key == _POLICY:
            written = value or 0
        words += [f"--{key.replace('_', '-')}", str(written)]
    return shlex.join(words)


def _programme(ask: FederatedVerdict, found: plan.FederatedPlan) -> tuple[str | None, str | None]:
    """A file, and why it is refused as it stands; or none, and why there is none."""
    import tomllib

    from epsilog.pipeline import PlanConfig, export_config  # not before it is asked for: it brings the trainer

    if ask.adaptive_clip or ask.trials is not None or not ask.without_replacement or ask.late_replies != "zero":
        return (
            None,
            "What is learnt, chosen, given several times a round or asked of others takes a scheme that says more.",
        )
    try:
        text = export_config(found, cap=ask.cap, rounds_per_release=ask.rounds_per_release)
    except CheckError as error:
        return None, f"No scheme of a programme keeps this promise: {error}."
    try:
        PlanConfig.of(**tomllib.loads(text))
    except (EpsilogError, ValueError) as error:
        return text, f"It is refused as it stands: {str(error).removeprefix('programme: ')}."
    own = found.epsilon.upper
    if ask.cap is not None and own > ask.cap:
        return text, f"It is refused as it stands: its epsilon of {format_upper(own)} is above the cap of {ask.cap!r}."
    return text, None


def _playground(lines: list[str], delta: float, relation: str) -> str:
    return "/playground?" + urlencode({"v": 1, "mix": "|".join(lines), "delta": repr(delta), "relation": relation})


def _charge(release: Any, delta: float) -> str:
    """Where the form for a charge is filled with the release itself, which each budget prices in its own terms."""
    term = json.dumps(codec.to_json(release), separators=(",", ":"))
    return "/ledger?" + urlencode({"release": term} | ({"delta": repr(delta)} if delta else {}))
