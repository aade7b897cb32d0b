"""`epsilog plan stretches`: schedules that change, from a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsilog.cli.account import read_document
from epsilog.cli.app import Json, Relation, plan_app, print_json, told
from epsilog.cli.plan import Cap
from epsilog.cli.show import bold, figures, interval_text, note, table
from epsilog.terms import CheckError, DeltaPolicy, NeighboringRelation, facts
from epsilog.terms.digits import upper_text


@plan_app.command("stretches")
def stretches(
    file: Annotated[
        Path,
        typer.Argument(help="A table, a line a stretch (N, m, T, sigma, or columns by name), or TOML or JSON."),
    ],
    delta: Annotated[float | None, told("delta", facts.DELTA)] = None,
    delta_cap: Cap = 1e-6,
    enrolled: Annotated[int | None, told("enrolled", facts.ENROLLED)] = None,
    relation: Relation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    privacy_unit: Annotated[str, told("privacy_unit", facts.PRIVACY_UNIT)] = "client",
    as_json: Json = False,
) -> None:
    """Price a schedule whose cohort, noise or population changes between rounds: composed, never averaged.

    Example: epsilog plan stretches docs/examples/stretches.csv
    """
    from epsilog import plan

    priced = plan.stretches(
        plan.stretches_of(read_document(file)) if _is_document(file) else plan.read_stretches(_text(file)),
        delta=delta,
        relation=relation,
        privacy_unit=privacy_unit,
        enrolled=enrolled,
        policy=DeltaPolicy(delta_cap or None),
    )
    ends = plan.stretch_curve(priced, points=None)
    if as_json:
        return print_json(priced.to_json() | {"until": [point.to_json() for point in ends]})
    rows = [
        [
            f"{one.population}",
            f"{one.cohort_size}",
            f"{one.rounds}",
            upper_text(one.noise_multiplier, 6),
            f"{one.sampling_probability:.4g}",
            "" if priced.shares is None else f"{priced.shares[i]:.1%}",
            upper_text(ends[i].epsilon.upper, 4),
        ]
        for i, one in enumerate(priced.stretches)
    ]
    table("Stretches", ["N", "m", "T", "sigma", "q", "share", "epsilon so far"], rows)
    figures(
        "All together",
        [
            ("rounds", f"{priced.rounds}"),
            ("delta", f"{priced.delta.delta:g} ({priced.delta.rationale})"),
            ("relation, unit", f"{relation}, one {privacy_unit}"),
            (bold("epsilon, certified"), bold(interval_text(priced.epsilon))),
            ("method", priced.epsilon.method),
            ("participation known", interval_text(priced.unamplified)),
            *([] if priced.formula is None else [("closed form (estimate)", f"{priced.formula.total:.4f}")]),
        ],
    )
    warned = [finding.says for finding in priced.delta.findings]
    for line in (priced.verdict, priced.neighbors, *warned, *(f"Assumes: {a}" for a in priced.epsilon.assumptions)):
        note(line)
    return None


def _is_document(file: Path) -> bool:
    return file.suffix in {".toml", ".json"}


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise CheckError("file", "readable", f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CheckError("file", "text in UTF-8", f"{file}") from error
