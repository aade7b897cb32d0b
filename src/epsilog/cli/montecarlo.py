"""`epsilog account montecarlo`: bounds on delta by simulation, the reference's four numbers, and a comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import epsilog as ep
from epsilog.cli.app import (
    NOT_VERIFIED,
    RESUMABLE,
    Json,
    ReleaseFile,
    is_standard,
    montecarlo_app,
    on_stop,
    print_json,
    read_bytes,
    read_document,
    read_release,
    require_new,
    write_output,
)
from epsilog.cli.show import format_interval, make_progress, print_figures, print_notice, print_table, style, write
from epsilog.terms import CheckError
from epsilog.terms.formatting import format_upper

if TYPE_CHECKING:
    from epsilog.terms import Interval

_PROCESSES, _DASK = "processes", "dask"
Epsilon = Annotated[float, typer.Option("--epsilon", "-e", help="Epsilon at which delta is bounded, in nats.")]
TargetEpsilon = Annotated[float, typer.Option("--epsilon", "-e", help="Target epsilon, in nats.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Chosen seed: the run is repeatable and marked a simulation.")]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Number of processes; does not change the result.")]
Backend = Annotated[str, typer.Option("--backend", help="Where to draw: processes on this machine, or dask.")]
Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", help="HOST:PORT of a running Dask cluster; if omitted: one is started here."),
]
Resume = Annotated[Path | None, typer.Option("--journal", help="A file from which a stopped run resumes.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="New file, the evidence or plan (JSON).")]
Commit = Annotated[
    bool, typer.Option("--commit", help="Draw nothing; --output is the plan: publish it, then run `execute`.")
]

Samples = Annotated[int, typer.Argument(help="Samples of the search for each candidate.")]
BaseDelta = Annotated[float, typer.Argument(help="Delta that the search verified, in (0, 1).")]
TargetDelta = Annotated[float, typer.Argument(help="Delta of the whole search, in (0, 1).")]


@montecarlo_app.command("overall-delta")
def overall_delta_command(samples: Samples, base_delta: BaseDelta, as_json: Json = False) -> None:
    """Compute delta of a verified search by the two-point bound.

    Example: epsilog account montecarlo overall-delta 10745967 5e-6
    """
    _answer("overall_delta", {"samples": samples, "base_delta": base_delta}, as_json)


@montecarlo_app.command("base-delta")
def base_delta_command(samples: Samples, target_delta: TargetDelta, as_json: Json = False) -> None:
    """Compute the largest base delta that keeps a search within a delta.

    Example: epsilog account montecarlo base-delta 10745967 1e-5
    """
    _answer("base_delta", {"samples": samples, "target_delta": target_delta}, as_json)


@montecarlo_app.command("minimum-samples")
def minimum_samples_command(base_delta: BaseDelta, target_delta: TargetDelta, as_json: Json = False) -> None:
    """Compute the fewest samples for a base delta and a delta.

    Example: epsilog account montecarlo minimum-samples 5e-6 1e-5
    """
    _answer("minimum_samples", {"base_delta": base_delta, "target_delta": target_delta}, as_json)


@montecarlo_app.command("delta-from-samples")
def delta_from_samples_command(
    file: Annotated[
        Path,
        typer.Argument(help="Losses: a JSON list, or lines of a loss and optionally its count; - for standard input."),
    ],
    epsilon: Epsilon,
    as_json: Json = False,
) -> None:
    """Estimate delta from sampled privacy losses: not a bound.

    Example: epsilog account montecarlo delta-from-samples losses.txt --epsilon 1
    """
    losses, counts = _read_losses(file)
    value = ep.montecarlo.delta_from_samples(epsilon=epsilon, losses=losses, weights=counts)
    _print_answer("delta_estimate", value, {"epsilon": epsilon, "losses": len(losses)}, as_json)


@montecarlo_app.command("sample-losses")
def sample_losses_command(
    file: ReleaseFile,
    samples: Annotated[int, typer.Option(help="Number of losses to draw.")] = 10_000,
    direction: Annotated[str, typer.Option(help="remove: drawn with the unit; add: drawn without it.")] = "remove",
    seed: Annotated[int | None, typer.Option(help="Seed of the draws; if omitted: a fresh one.")] = None,
    as_json: Json = False,
) -> None:
    """Draw privacy losses of a release, one a line: not a bound.

    Example: epsilog account montecarlo sample-losses run.json --samples 100000 > losses.txt
    """
    used = ep.montecarlo.draw_entropy() if seed is None else seed
    found = ep.montecarlo.draw_losses(
        read_release(file), samples=samples, seed=used, direction=cast("ep.montecarlo.AdjacencyType", direction)
    )
    if as_json:
        return print_json({"direction": direction, "seed": str(used), "losses": found.tolist()})
    typer.echo("\n".join(map(repr, found.tolist())))
    return None


def _read_losses(file: Path) -> tuple[list[float], list[float] | None]:
    try:
        text = read_bytes(file).decode("utf-8")
        if text.lstrip().startswith("["):
            return [float(value) for value in json.loads(text)], None
        rows = [[float(word) for word in line.replace(",", " ").split()] for line in text.splitlines() if line.strip()]
    except CheckError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise CheckError("file", "numbers", f"{file}: {error}", verb="hold") from error
    widths = {len(row) for row in rows}
    if widths not in ({1}, {2}):
        raise CheckError(
            "file", "a loss a line, or a loss and its count", f"lines of {sorted(widths)} numbers", verb="hold"
        )
    return [row[0] for row in rows], [row[1] for row in rows] if widths == {2} else None


@montecarlo_app.command("compare")
def compare_noise_command(
    rounds: Annotated[int, typer.Option("--rounds", "-T", help="Training rounds.")],
    cycle_length: Annotated[int, typer.Option("--cycle-length", "-b", help="Rounds in an epoch.")],
    epsilon: TargetEpsilon,
    delta: Annotated[float, typer.Option("--delta", "-d", help="Target delta.")],
    bands: Annotated[
        list[int] | None, typer.Option(help="Numbers of bands to try; if omitted: 2, 4, 8, ...; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the estimates.")] = 1,
    as_json: Json = False,
) -> None:
    """Compare independent with correlated noise for one training run.

    Example: epsilog account montecarlo compare -T 64 -b 16 --epsilon 2 --delta 1e-5 --bands 4
    """
    from epsilog.plan.noise_comparison import compare_noise_strategies

    found = compare_noise_strategies(
        rounds=rounds, cycle_length=cycle_length, epsilon=epsilon, delta=delta, seed=seed, bands=bands
    )
    if as_json:
        return print_json(found.to_json())
    rows = [
        [row.name, f"{row.noise_stddev:.4g}", f"{row.error:.4g}", "certified" if row.certified else "estimated"]
        for row in found.rows
    ]
    print_table(f"Ways to be ({epsilon:g}, {delta:g})", ["way", "noise", "noise in the model", "basis"], rows)
    print_notice(str(found.sentence))
    return None


def _answer(name: str, given: dict[str, float], as_json: bool) -> None:
    _print_answer(name, getattr(ep.montecarlo, name)(**given), given, as_json)


def _print_answer(name: str, value: float, given: dict[str, float], as_json: bool) -> None:
    if as_json:
        print_json({name: value, "given": given})
    else:
        title = "Estimate" if "estimate" in name else "Release bound"
        print_figures(title, [(name.replace("_", " "), f"{value!r}"), *((k, f"{v!r}") for k, v in given.items())])


@montecarlo_app.command("bound-delta")
def bound_delta_command(
    file: ReleaseFile,
    epsilon: Epsilon,
    failure: Annotated[float, typer.Option(help="Probability that the interval is wrong.")] = 1e-6,
    relative_width: Annotated[
        float, typer.Option("--relative-width", help="Target relative half-width of the interval.")
    ] = 0.1,
    samples: Annotated[
        int | None, typer.Option(help="Draws for each adjacency type, instead of --relative-width.")
    ] = None,
    max_batch_size: Annotated[
        int | None, typer.Option(help="Size to which batches from --population are truncated; adds its cost.")
    ] = None,
    population: Annotated[
        int | None, typer.Option("--population", "-N", help="Units in all, for --max-batch-size.")
    ] = None,
    workers: Workers = 1,
    backend: Backend = _PROCESSES,
    scheduler: Scheduler = None,
    seed: Seed = None,
    journal: Resume = None,
    commit: Commit = False,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Bound delta of a release by simulation.

    Example: epsilog account montecarlo bound-delta run.json --epsilon 2
    """
    from epsilog.accounting import build_truncated_poisson_pair, truncation_probability

    if (max_batch_size is None) != (population is None):
        raise CheckError("population", "given with --max-batch-size, and only then", repr(population))
    ask: dict[str, Any] = {"epsilon": epsilon, "failure": failure, "relative_width": relative_width, "samples": samples}
    release = read_release(file)
    require_new(output)
    if commit:
        _require_plan_only(seed, journal, max_batch_size)
        plan = ep.montecarlo.plan_delta_bound(release, seed=ep.montecarlo.draw_entropy(), **ask)
        return _write_plan(plan, output, as_json)
    if max_batch_size is not None and population is not None:  # checked before anything is drawn
        truncation_probability(release, population=population, max_batch_size=max_batch_size)
    with _drawing(backend, scheduler, workers, journal, quiet=as_json, failure=failure) as options:
        result = ep.montecarlo.bound_delta(release, **ask, seed=seed, **options)
    if max_batch_size is None or population is None:
        return _show_evidence(result, output, as_json)
    truncated = build_truncated_poisson_pair(
        result.interval, release, population=population, max_batch_size=max_batch_size
    )
    if as_json:
        if not is_standard(output):
            _write(result.to_json(), output, as_json=False)
        return print_json({"evidence": result.to_json(), "truncated": truncated.to_json()})
    _show_evidence(result, output, as_json)
    print_figures(f"With batches truncated to {max_batch_size}", [_format_delta(epsilon, truncated)])
    print_notice(f"Assumes: {truncated.assumptions[-1]}")
    return None


@montecarlo_app.command("search-noise")
def search_noise_command(
    file: ReleaseFile,
    epsilon: TargetEpsilon,
    delta: Annotated[float, typer.Option("--delta", "-d", help="Target delta: the claim is at most this.")],
    slack: Annotated[float, typer.Option(help="Fraction by which a candidate must stay below the target.")] = 0.1,
    workers: Workers = 1,
    backend: Backend = _PROCESSES,
    scheduler: Scheduler = None,
    seed: Seed = None,
    journal: Resume = None,
    commit: Commit = False,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Find the least noise for a target, with evidence to redraw.

    Example: epsilog account montecarlo search-noise run.json --epsilon 2 --delta 1e-5 -o evidence.json
    """
    release = read_release(file)
    require_new(output)
    if commit:
        _require_plan_only(seed, journal)
        entropy = ep.montecarlo.draw_entropy()
        plan = ep.montecarlo.plan_noise_search(release, epsilon=epsilon, target_delta=delta, slack=slack, seed=entropy)
        return _write_plan(plan, output, as_json)
    with _drawing(backend, scheduler, workers, journal, quiet=as_json, failure=1e-6) as options:
        result = ep.montecarlo.search_noise(release, epsilon=epsilon, delta=delta, slack=slack, seed=seed, **options)
    return _show_search(result, output, as_json)


@montecarlo_app.command("execute")
def execute_plan_command(
    file: Annotated[
        Path, typer.Argument(help="A plan that bound-delta or search-noise wrote with --commit; - for standard input.")
    ],
    nonce: Annotated[str, typer.Option(help="A public value, unpredictable when the plan was published.")],
    workers: Workers = 1,
    backend: Backend = _PROCESSES,
    scheduler: Scheduler = None,
    journal: Resume = None,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Execute a published plan, with a seed from it and a public nonce.

    Example: epsilog account montecarlo execute plan.json --nonce "drand quicknet 19482411: 6fd1..." -o evidence.json
    """
    plan = ep.montecarlo.plan_from_json(read_document(file))
    require_new(output)
    failure = plan.failure if isinstance(plan, ep.montecarlo.DeltaBoundPlan) else 1e-6
    with _drawing(backend, scheduler, workers, journal, quiet=as_json, failure=failure) as options:
        if isinstance(plan, ep.montecarlo.DeltaBoundPlan):
            return _show_evidence(ep.montecarlo.run_delta_bound(plan, nonce=nonce, **options), output, as_json)
        return _show_search(ep.montecarlo.run_noise_search(plan, nonce=nonce, **options), output, as_json)


@contextmanager
def _drawing(
    backend: str, scheduler: str | None, workers: int, journal: Path | None, *, quiet: bool, failure: float
) -> Iterator[dict[str, Any]]:
    """Yield the library's options for drawing shards, with a watcher that shows the interval."""
    if backend not in {_PROCESSES, _DASK}:
        raise CheckError("backend", f"one of {_PROCESSES}, {_DASK}", repr(backend))
    if backend == _PROCESSES and scheduler is not None:
        raise CheckError("scheduler", "absent without --backend dask", repr(scheduler))
    cluster = ep.montecarlo.use_dask_cluster(scheduler, workers=workers) if backend == _DASK else nullcontext()
    with cluster, _IntervalWatcher(quiet=quiet, failure=failure, kept=journal is not None) as watcher:
        yield {"workers": workers if backend == _PROCESSES else None, "journal": journal, "progress": watcher}


def _require_plan_only(*others: object) -> None:
    if any(other is not None for other in others):
        raise CheckError(
            "commit", "without --seed, --journal and --max-batch-size: nothing is drawn", "both", verb="stand"
        )


def _write_plan(plan: Any, output: Path | None, as_json: bool) -> None:
    if is_standard(output):
        raise CheckError("output", "given with --commit, a new file", repr(str(output)) if output else "nothing")
    _write(plan.to_json(), output, as_json=False)
    if as_json:
        return print_json({"plan_hash": plan.commitment, "plan": str(output)})
    print_figures("Plan", [("plan hash", plan.commitment), ("plan", str(output))])
    print_notice("Publish the plan hash; then run `execute` with a later public random number.")
    return None


def _write(document: dict[str, Any], output: Path | None, *, as_json: bool) -> bool:
    """Write a document to its file; return whether standard output has it instead of figures."""
    if not is_standard(output):
        write_output(json.dumps(document, indent=1) + "\n", output, quiet=True)
    standard = as_json or str(output) == "-"
    if standard:
        print_json(document)
    return standard


def _format_delta(epsilon: float, interval: Interval) -> tuple[Any, Any]:
    return style("delta", after=f" at epsilon {epsilon:g}"), style(format_interval(interval))


def _show_evidence(result: ep.montecarlo.MonteCarloEvidence, output: Path | None, as_json: bool) -> None:
    if _write(result.to_json(), output, as_json=as_json):
        return
    ((_, epsilon), (_, failure)) = result.interval.given
    print_figures(
        "Monte Carlo evidence" + (" (seeded: a simulation)" if result.simulation else ""),
        [
            _format_delta(epsilon, result.interval),
            ("wrong with probability", f"at most {failure:g}"),
            ("method", str(result.interval.method)),
            ("seed", f"{result.source.provenance} {result.source.value}"),
        ],
    )
    for line in result.interval.assumptions:
        print_notice(f"Assumes: {line}")
    return


def _show_search(result: ep.montecarlo.NoiseSearchResult, output: Path | None, as_json: bool) -> None:
    if _write(result.to_json(), output, as_json=as_json):
        return
    noise = "none: the first candidate failed" if result.noise is None else f"{result.noise:.6g}"
    print_figures(
        "Verified search" + (" (seeded: a simulation)" if result.simulation else ""),
        [
            ("noise chosen", noise),
            ("claim", f"epsilon {result.plan.epsilon:g}, delta at most {format_upper(result.delta)}"),
            ("candidates tested", f"{len(result.evidence) // 2} of {len(result.plan.noises)}"),
            ("evidence", str(output) if output else "not written (use -o)"),
        ],
    )
    print_notice(f"Assumes: {result.source.assumption}")
    return


@montecarlo_app.command("recompute")
def recompute_command(
    file: Annotated[
        Path, typer.Argument(help="Evidence of bound-delta, search-noise or execute; - for standard input.")
    ],
    shards: Annotated[
        int | None, typer.Option(min=1, help="Number of shards to redraw of each trial; if omitted: all.")
    ] = None,
    plan_hash: Annotated[str | None, typer.Option(help="Hash of the plan, as it was published.")] = None,
    nonce: Annotated[str | None, typer.Option(help="The nonce, as its public source states it.")] = None,
    as_json: Json = False,
) -> None:
    """Redraw the evidence of a bound on delta or of a noise search.

    Exit code 4: the evidence does not agree with its draws.

    Example: epsilog account montecarlo recompute evidence.json --shards 3
    """
    document = read_document(file)
    found = ep.montecarlo.recompute_document(document, shards=shards, commitment=plan_hash, nonce=nonce)
    provenance = ep.montecarlo.describe_seed_provenance(document)
    if as_json:
        chosen = document["source"]["provenance"] == ep.montecarlo.CHOSEN
        print_json({"agrees": not found, "simulation": chosen, "provenance": provenance, "findings": list(found)})
    else:
        if found:
            print_table(str(file), ["does not agree"], [[line] for line in found])
        else:
            drawn = sum(min(shards or len(hits), len(hits)) for hits in document["hits"])
            agrees = style(f"{file} agrees with its own draws", "green")
            write(agrees, f"({drawn} of {sum(map(len, document['hits']))} shards redrawn)")
        print_notice(f"Provenance: {provenance}")
        if document["source"]["provenance"] == ep.montecarlo.NONCE and not (plan_hash and nonce):
            print_notice(
                "The plan and the nonce were not compared with what was published (use --plan-hash and --nonce)"
            )
    if found:
        raise typer.Exit(NOT_VERIFIED)


class _IntervalWatcher:
    """Shows the interval while draws come in."""

    def __init__(self, *, quiet: bool, failure: float, kept: bool) -> None:
        from rich.progress import TaskID

        self._progress = make_progress(quiet=quiet)
        self._bars: dict[tuple[int, str], TaskID] = {}
        self._failure = failure
        on_stop(RESUMABLE if kept else "nothing was kept; a run with --journal can be resumed")

    def __enter__(self) -> _IntervalWatcher:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, trial: Any, draws: int, hits: int) -> None:
        if self._progress.disable:
            return
        key = (trial.candidate, trial.tilt.direction)
        if key not in self._bars:
            self._bars[key] = self._progress.add_task(f"{key[1]} {key[0]}", total=trial.samples, facts="")
        low, high = ep.montecarlo.compute_running_interval(trial, draws, hits, self._failure)
        self._progress.update(self._bars[key], completed=draws, facts=f"delta {low:.3g} .. {high:.3g}")
