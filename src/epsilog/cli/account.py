"""`epsilog account`: what a release costs, from flags or from a file of terms; and `epsilog account montecarlo`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from epsilog import terms
from epsilog.cli.app import NOT_VERIFIED, Json, account_app, montecarlo_app, print_json
from epsilog.cli.show import console, figures, interval_text, note, table
from epsilog.terms import NeighboringRelation, Release, codec
from epsilog.terms.digits import upper_text

MECHANISMS = {
    "gaussian": terms.Gaussian,
    "laplace": terms.Laplace,
    "discrete-gaussian": terms.DiscreteGaussian,
    "discrete-laplace": terms.DiscreteLaplace,
    "randomized-response": terms.RandomizedResponse,
    "exponential": terms.ExponentialMechanism,
    "pure": terms.PureDP,
    "zcdp": terms.ZeroConcentratedDP,
    "gdp": terms.GaussianDP,
}
Delta = Annotated[float | None, typer.Option("--delta", help="Failure probability: ask for epsilon.")]
Epsilon = Annotated[float | None, typer.Option("--epsilon", help="In nats: ask for delta.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Repeat a run; the result is then a simulation.")]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Processes; the result does not depend on it.")]
Resume = Annotated[Path | None, typer.Option("--journal", help="A file that lets a killed run go on.")]
Terms = Annotated[Path, typer.Argument(help="A JSON or TOML file holding one release, as `account --json` prints it.")]


@account_app.callback(invoke_without_command=True)
def account(
    context: typer.Context,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="A JSON or TOML file holding one release.")] = None,
    mechanism: Annotated[str, typer.Option("--mechanism", help=", ".join(MECHANISMS) + ".")] = "gaussian",
    parameter: Annotated[
        float | None,
        typer.Option("--parameter", "-z", help="Its noise (multiplier, scale, flips) or its epsilon, rho, mu."),
    ] = None,
    sampling_probability: Annotated[float | None, typer.Option("--sampling-probability", "-q", help="Poisson.")] = None,
    sample_size: Annotated[int | None, typer.Option("--sample-size", "-m", help="Fixed size, of --population.")] = None,
    population: Annotated[int | None, typer.Option("--population", "-N", help="Units, for --sample-size.")] = None,
    count: Annotated[int, typer.Option("--count", "-T", help="How often it is repeated.")] = 1,
    delta: Delta = None,
    epsilon: Epsilon = None,
    relation: Annotated[NeighboringRelation, typer.Option("--relation")] = NeighboringRelation.ADD_OR_REMOVE_ONE,
    gap: Annotated[float, typer.Option("--gap", help="Relative width of the interval to aim for.")] = 0.002,
    as_json: Json = False,
) -> None:
    """Bound what a release costs, from both sides: epsilon at a delta, or delta at an epsilon.

    Example: epsilog account -z 1.0 -q 0.01 -T 1000 --delta 1e-5
    """
    if context.invoked_subcommand is not None:
        return None
    from epsilog import accounting

    if (delta is None) == (epsilon is None):
        raise ValueError(f"delta or epsilon must be given, and not both, got {delta!r} and {epsilon!r}")
    release = (
        _from_flags(mechanism, parameter, sampling_probability, sample_size, population, count)
        if file is None
        else read_release(file)
    )
    if delta is not None:
        interval = accounting.epsilon(release, delta=delta, relation=relation, gap=gap)
    else:
        assert epsilon is not None
        interval = accounting.delta(release, epsilon=epsilon, relation=relation, gap=gap)
    formula = _formula(release, delta)
    if as_json:
        return print_json(
            {
                "release": codec.to_json(release),
                "interval": codec.encode(interval),
                "formula": None if formula is None else {"total": codec.encode(formula), "side": "estimate"},
            }
        )
    (name, at), *_ = interval.given
    rows = [
        (f"[bold]{interval.quantity}[/bold] at {name} {at:g}", f"[bold]{interval_text(interval)}[/bold]"),
        ("method", interval.method),
        ("relation", str(interval.relation)),
    ]
    if formula is not None:
        rows.append(("closed form (estimate)", f"{formula:.6g}"))
    figures("Certified interval", rows)
    for line in interval.assumptions:
        note(f"Assumes: {line}")
    if formula is not None:
        from epsilog.plan import formula_sentence

        note(formula_sentence(formula, interval))
    return None


def _from_flags(
    mechanism: str, parameter: float | None, q: float | None, size: int | None, population: int | None, count: int
) -> Release:
    if mechanism not in MECHANISMS:
        raise ValueError(f"mechanism must be one of {', '.join(MECHANISMS)}, got {mechanism!r}")
    if parameter is None:
        raise ValueError("parameter must be given (or a file of terms with --file), got None")
    release: Release = MECHANISMS[mechanism](parameter)
    if q is not None:
        release = terms.PoissonSampled(release, q)
    if (size is None) != (population is None) or (size is not None and q is not None):
        raise ValueError("sample_size and population must be given together, and without sampling_probability")
    if size is not None and population is not None:
        release = terms.FixedSizeSampled(release, size, population)
    return release if count == 1 else terms.Repeated(release, count)


def read_release(file: Path) -> Release:
    """Reads one release from a JSON or TOML file: a bare term, an envelope, or what `account --json` printed."""
    try:
        text = file.read_text(encoding="utf-8")
        document = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise ValueError(f"file must be readable, got {file}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"file must be JSON or TOML, got {file}: {error}") from error
    if isinstance(document, dict) and "release" in document and "type" not in document:
        document = document["release"]
    term = codec.from_json(document) if isinstance(document, dict) and "v" in document else codec.decode(document)
    if not isinstance(term, Release):
        raise ValueError(f"file must hold a release, got {type(term).__name__}")
    return term


def _formula(release: Release, delta: float | None) -> float | None:
    """The popular closed form, where the release has the shape that it is about."""
    from epsilog.accounting import fl_formula

    count, inner = (release.count, release.release) if isinstance(release, terms.Repeated) else (1, release)
    q, inner = (inner.sampling_probability, inner.release) if isinstance(inner, terms.PoissonSampled) else (1.0, inner)
    if not isinstance(inner, terms.Gaussian) or not delta:
        return None
    return fl_formula(sampling_probability=q, noise_multiplier=inner.noise_multiplier, rounds=count, delta=delta).total


@montecarlo_app.command("overall-delta")
def overall_delta(samples: int, base_delta: float, as_json: Json = False) -> None:
    """Delta of what a verified sweep releases, by the reference's two-point bound.

    Example: epsilog account montecarlo overall-delta 10745967 5e-6
    """
    from epsilog.accounting import montecarlo

    value = montecarlo.overall_delta(samples=samples, base_delta=base_delta)
    _answer("overall_delta", value, {"samples": samples, "base_delta": base_delta}, as_json)


@montecarlo_app.command("base-delta")
def base_delta(samples: int, target_delta: float, as_json: Json = False) -> None:
    """The largest threshold for estimates that keeps a sweep within a delta.

    Example: epsilog account montecarlo base-delta 10745967 1e-5
    """
    from epsilog.accounting import montecarlo

    value = montecarlo.base_delta(samples=samples, target_delta=target_delta)
    _answer("base_delta", value, {"samples": samples, "target_delta": target_delta}, as_json)


@montecarlo_app.command("minimum-samples")
def minimum_samples(base_delta: float, target_delta: float, as_json: Json = False) -> None:
    """The fewest samples for a threshold and a delta: one fewer fails.

    Example: epsilog account montecarlo minimum-samples 5e-6 1e-5
    """
    from epsilog.accounting import montecarlo

    value = montecarlo.minimum_samples(base_delta=base_delta, target_delta=target_delta)
    _answer("minimum_samples", value, {"base_delta": base_delta, "target_delta": target_delta}, as_json)


def _answer(name: str, value: float, given: dict[str, float], as_json: bool) -> None:
    if as_json:
        print_json({name: value, "given": given})
    else:
        figures("Release bound", [(name.replace("_", " "), f"{value!r}"), *((k, f"{v!r}") for k, v in given.items())])


@montecarlo_app.command("certify")
def certify(
    file: Terms,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="In nats.")],
    failure: Annotated[float, typer.Option("--failure", help="Chance that the interval is wrong.")] = 1e-6,
    gap: Annotated[float, typer.Option("--gap", help="Relative half-width to aim for.")] = 0.1,
    samples: Annotated[int | None, typer.Option("--samples", help="Draws per direction, instead of --gap.")] = None,
    workers: Workers = 1,
    seed: Seed = None,
    journal: Resume = None,
    as_json: Json = False,
) -> None:
    """Bound delta by simulation, where no closed form prices a release.

    Example: epsilog account montecarlo certify run.json --epsilon 2
    """
    from epsilog.accounting import montecarlo

    with _Narrowing(quiet=as_json, failure=failure) as watcher:
        result = montecarlo.certify(
            read_release(file),
            epsilon=epsilon,
            failure=failure,
            gap=gap,
            samples=samples,
            seed=seed,
            workers=workers,
            journal=journal,
            progress=watcher,
        )
    if as_json:
        return print_json(result.to_json())
    figures(
        "Simulated certificate" + (" (seeded: a simulation)" if result.simulation else ""),
        [
            (f"[bold]delta[/bold] at epsilon {epsilon:g}", f"[bold]{interval_text(result.interval)}[/bold]"),
            ("holds but with probability", f"{failure:g}"),
            ("method", result.interval.method),
            ("seed", str(result.seed)),
        ],
    )
    for line in result.interval.assumptions:
        note(f"Assumes: {line}")
    return None


@montecarlo_app.command("sweep")
def sweep(
    file: Terms,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="Goal, in nats.")],
    delta: Annotated[float, typer.Option("--delta", "-d", help="Goal: the claim is at most this.")],
    slack: Annotated[float, typer.Option("--slack", help="How far below the goal a candidate may have to be.")] = 0.1,
    workers: Workers = 1,
    seed: Seed = None,
    journal: Resume = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write the evidence (JSON).")] = None,
    as_json: Json = False,
) -> None:
    """Estimate, verify, release: find the least noise for a goal, with evidence that a third party can redraw.

    Example: epsilog account montecarlo sweep run.json --epsilon 2 --delta 1e-5 -o evidence.json
    """
    from epsilog.accounting import montecarlo

    with _Narrowing(quiet=as_json, failure=1e-6) as watcher:
        result = montecarlo.sweep(
            read_release(file),
            epsilon=epsilon,
            delta=delta,
            slack=slack,
            seed=seed,
            workers=workers,
            journal=journal,
            progress=watcher,
        )
    document = result.to_json()
    if output is not None:
        output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if as_json:
        return print_json(document)
    noise = "none: the first candidate failed" if result.noise is None else f"{result.noise:.6g}"
    figures(
        "Verified sweep" + (" (seeded: a simulation)" if result.simulation else ""),
        [
            ("noise chosen", noise),
            ("claim", f"epsilon {epsilon:g}, delta at most {upper_text(result.delta)}"),
            ("candidates tested", f"{len(result.evidence) // 2} of {len(result.plan.noises)}"),
            ("evidence", str(output) if output else "not written (use -o)"),
        ],
    )
    return None


@montecarlo_app.command("check")
def check(
    file: Annotated[Path, typer.Argument(help="Evidence, as certify or sweep wrote it.")],
    shards: Annotated[int | None, typer.Option("--shards", help="Redraw only so many of each trial.")] = None,
    as_json: Json = False,
) -> None:
    """Redraw the evidence of a certificate or a sweep, and redo its choice and its claim.

    Example: epsilog account montecarlo check evidence.json --shards 3
    """
    from epsilog.accounting import montecarlo

    try:
        document: Any = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"file must be readable JSON, got {file}: {error}") from error
    found = montecarlo.check_document(document, shards=shards)
    if as_json:
        print_json({"agrees": not found, "findings": list(found)})
    elif found:
        table(str(file), ["does not agree"], [[line] for line in found])
    else:
        console.print(f"[green]{file} agrees with its own draws[/green]")
    if found:
        raise typer.Exit(NOT_VERIFIED)


class _Narrowing:
    """Shows how the interval narrows while draws come in."""

    def __init__(self, *, quiet: bool, failure: float) -> None:
        from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True)
        self._bars: dict[tuple[int, str], TaskID] = {}
        self._failure = failure

    def __enter__(self) -> _Narrowing:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, trial: Any, draws: int, hits: int) -> None:
        if self._progress.disable:
            return
        from epsilog.accounting import montecarlo

        key = (trial.candidate, trial.tilt.direction)
        if key not in self._bars:
            self._bars[key] = self._progress.add_task(f"{key[1]} {key[0]}", total=trial.samples, facts="")
        low, high = montecarlo.narrowing(trial, draws, hits, self._failure)
        self._progress.update(self._bars[key], completed=draws, facts=f"delta {low:.3g} .. {high:.3g}")
