"""`epsilog account`: what a release costs, from flags or from a file of terms."""

from __future__ import annotations

import csv
import io
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.text import Text

from epsilog import mechanisms
from epsilog.cli.app import Json, Relation, account_app, print_json
from epsilog.cli.show import format_interval, print_figures, print_notice, print_table, style_bold
from epsilog.mechanisms import Release
from epsilog.terms import CheckError, Interval, NeighboringRelation, check, codec, fields
from epsilog.terms.formatting import format_upper
from epsilog.terms.messages import Message
from epsilog.terms.numerals import read_number

if TYPE_CHECKING:
    from epsilog.accounting import Intervals
    from epsilog.plan import TuningCost

MECHANISMS = {
    tag: kind for tag, kind in sorted(codec.type_of.items()) if issubclass(kind, Release) and fields.is_flat(kind)
}  # those that flags describe
_MOST_POINTS = 10_000  # of one question
Delta = Annotated[
    list[float] | None, typer.Option("--delta", help="Failure probability: ask for epsilon; may be repeated.")
]
Epsilon = Annotated[list[float] | None, typer.Option("--epsilon", help="In nats: ask for delta; may be repeated.")]


@account_app.callback(invoke_without_command=True)
def account_command(
    context: typer.Context,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="A JSON or TOML file holding one release.")] = None,
    mechanism: Annotated[str, typer.Option("--mechanism", help=", ".join(MECHANISMS) + ".")] = "gaussian",
    parameter: Annotated[
        float | None,
        typer.Option(
            "--parameter",
            "--noise-multiplier",
            "-z",
            help="Its first field: its noise (multiplier, scale, flips) or its epsilon, rho, mu.",
        ),
    ] = None,
    further: Annotated[
        list[str] | None, typer.Option("--field", help="Another field of it, as NAME=VALUE; may be repeated.")
    ] = None,
    sampling_probability: Annotated[float | None, typer.Option("--sampling-probability", "-q", help="Poisson.")] = None,
    sample_size: Annotated[int | None, typer.Option("--sample-size", "-m", help="Fixed size, of --population.")] = None,
    population: Annotated[int | None, typer.Option("--population", "-N", help="Units, for the other sizes.")] = None,
    largest_batch: Annotated[
        int | None, typer.Option("--largest-batch", help="Poisson samples are cut to it, of --population.")
    ] = None,
    shuffled: Annotated[
        bool, typer.Option("--shuffled", help="The --population sends it, one report each, in random order.")
    ] = False,
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy",
            help='Noise correlated over all --rounds: the matrix, "tree" or its first column as 1,0.5,0.25.',
        ),
    ] = None,
    participations: Annotated[
        int, typer.Option("--participations", help="With --strategy: rounds that one unit is in, at most.")
    ] = 1,
    min_separation: Annotated[
        int, typer.Option("--min-separation", help="With --strategy: the least distance of two of them.")
    ] = 1,
    count: Annotated[
        str,
        typer.Option(
            "--count", "--rounds", "-T", help="How often it is repeated; of several, each: A,B or A:LAST:STEP."
        ),
    ] = "1",
    trials: Annotated[
        str | None,
        typer.Option(
            "--trials",
            help=f"Release the best of a secret number of trials alone: {', '.join(mechanisms.TRIAL_FORMATS)}.",
        ),
    ] = None,
    group: Annotated[
        int, typer.Option("--group", help="The most units that one person holds: the price is then the person's.")
    ] = 1,
    delta: Delta = None,
    epsilon: Epsilon = None,
    relation: Relation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    gap: Annotated[float, typer.Option("--gap", help="Relative width of the interval to aim for.")] = 0.002,
    as_json: Json = False,
    as_csv: Annotated[
        bool,
        typer.Option("--csv", help="Print a line a number asked for, with both sides in columns, and nothing else."),
    ] = False,
) -> None:
    """Bound what a release costs, from both sides: epsilon at a delta, or delta at an epsilon.

    Example: epsilog account -z 1.0 -q 0.01 -T 1000 --delta 1e-5
    """
    if context.invoked_subcommand is not None:
        return None
    deltas, epsilons, counts = tuple(delta or ()), tuple(epsilon or ()), _counts(count)
    if (not deltas) == (not epsilons):
        raise ValueError(f"delta or epsilon must be given, and not both, got {deltas!r} and {epsilons!r}")
    if as_csv and as_json:
        raise CheckError("csv", "without --json", "both", verb="stand")
    if len(counts) > 1 and (trials is not None or strategy is not None):
        raise CheckError("count", "one number with --trials or --strategy", repr(count))
    sampling = (sampling_probability, sample_size, population, largest_batch)
    if file is None and strategy is not None:
        unsampled = mechanism == "gaussian" and sampling == (None,) * 4 and not shuffled
        turns = mechanisms.BoundedParticipation(participations, min_separation)
        release = _matrix(strategy, turns, counts[0], parameter, unsampled=unsampled)
    else:
        release = (
            _from_flags(_build_mechanism(mechanism, parameter, further or []), *sampling, shuffled=shuffled)
            if file is None
            else read_release(file)
        )
        if len(counts) == 1 and counts != [1]:
            release = mechanisms.Repeated(release, counts[0])
    if trials is not None:
        release = mechanisms.BestOfTrials(release, mechanisms.parse_trials(trials))
    question = _Question(deltas, epsilons, relation, gap, group)
    if as_csv or len(counts) * len(deltas or epsilons) > 1:
        named = {"release" if len(counts) == 1 else "step": codec.to_json(release)}
        return _show_several(question.of_many(release, counts), named, as_csv=as_csv, as_json=as_json)
    return _show_one(question, release, as_json=as_json)


def _show_one(question: _Question, release: Release, *, as_json: bool) -> None:
    interval, group = question.of_one(release), question.group
    delta = question.deltas[0] if question.deltas else None
    formula = _formula(release, delta) if group == 1 else None
    if as_json:
        return print_json(
            {
                "release": codec.to_json(release),
                "interval": codec.encode(interval),
                "formula": None if formula is None else {"total": codec.encode(formula), "side": "estimate"},
            }
        )
    (name, at), *_ = interval.given
    rows: list[tuple[str | Text, str | Text]] = [
        (Text.assemble((interval.quantity, "bold"), f" at {name} {at:g}"), style_bold(format_interval(interval))),
        *([("for a holder of", f"up to {group} units")] if group > 1 else []),
        ("method", str(interval.method)),
        ("relation", str(interval.relation)),
        *(_list_trial_costs(release, delta, question.relation, question.gap) if group == 1 else ()),
    ]
    if formula is not None:
        rows.append(("closed form (estimate)", f"{formula:.6g}"))
    print_figures("Certified interval", rows)
    for line in interval.assumptions:
        print_notice(f"Assumes: {line}")
    if formula is not None:
        from epsilog.plan import write_formula

        print_notice(str(write_formula(formula, interval)))
    return None


class _Question(NamedTuple):
    """What is asked: epsilon at deltas, or delta at epsilons."""

    deltas: tuple[float, ...]
    epsilons: tuple[float, ...]
    relation: NeighboringRelation
    gap: float
    group: int

    def of_one(self, release: Release) -> Interval:
        """The answer at the one number given."""
        from epsilog import accounting

        common: dict[str, Any] = {"relation": self.relation, "gap": self.gap, "group": self.group}
        if self.deltas:
            return accounting.epsilon(release, delta=self.deltas[0], **common)
        return accounting.delta(release, epsilon=self.epsilons[0], **common)

    def of_many(self, release: Release, counts: list[int]) -> Intervals:
        """The answers at all numbers, for a release or after each of several numbers of rounds of it."""
        from epsilog import accounting

        common: dict[str, Any] = {"relation": self.relation, "gap": self.gap, "group": self.group}
        if len(counts) == 1:
            if self.deltas:
                return accounting.epsilon(release, delta=self.deltas, **common)
            return accounting.delta(release, epsilon=self.epsilons, **common)
        rounds = [[count] for count in counts]
        if self.deltas:
            return accounting.epsilon_curve(release, rounds, delta=self.deltas, **common)
        return accounting.delta_curve(release, rounds, epsilon=self.epsilons, **common)


def _counts(text: str) -> list[int]:
    """Numbers of rounds as the command line writes them; a range holds its last number, if a step meets it.

    >>> _counts("7"), _counts("1,10,100"), _counts("20:100:40")
    ([7], [1, 10, 100], [20, 60, 100])
    """
    found: list[int] = []
    for part in text.split(","):
        try:
            first, *rest = [int(read_number("count", word, whole=True)) for word in part.split(":")]
        except ValueError:
            raise CheckError("count", "whole numbers joined by commas, or FIRST:LAST:STEP", repr(text)) from None
        if len(rest) > 2 or (rest and not (first <= rest[0] and rest[-1] > 0)):
            raise CheckError("count", "a range that rises, as FIRST:LAST:STEP", repr(part))
        numbers = range(first, rest[0] + 1, *rest[1:]) if rest else [first]
        if len(found) + len(numbers) > _MOST_POINTS:
            raise CheckError("count", f"at most {_MOST_POINTS} numbers", repr(text))
        found += numbers
    return found


def _show_several(found: Intervals, named: dict[str, Any], *, as_csv: bool, as_json: bool) -> None:
    if as_json:
        return print_json(named | {"intervals": [codec.encode(at) for at in found.points]})
    columns = {name: list(column) for name, column in found.columns().items()}
    if as_csv:
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        return typer.echo(lines.getvalue(), nl=False)
    names = [name for name, _ in found.points[0].given]
    rows = [[*(f"{value:g}" for _, value in at.given), format_interval(at)] for at in found.points]
    print_table("Certified intervals", [*names, found.quantity], rows)
    for method in dict.fromkeys(at.method for at in found.points):
        print_notice(f"By: {method}")
    for line in found.assumptions:
        print_notice(f"Assumes: {line}")
    return None


def _list_trial_costs(
    release: Release, delta: float | None, relation: NeighboringRelation, gap: float
) -> list[tuple[str, str]]:
    """What one trial costs, and as many as are expected if all of them were shown."""
    if release.one_trial is None or delta is None:
        return []
    from epsilog.plan import plan_tuning

    return list_tuning_rows(plan_tuning(*release.one_trial, delta=delta, relation=relation, gap=gap))


def list_tuning_rows(found: TuningCost) -> list[tuple[str, str]]:
    """How many trials there are, and what one costs, and all of them."""
    every = "not priced" if found.shown is None else format_interval(found.shown)
    return [
        ("trials expected", f"{found.expected:.6g}"),
        ("one trial", format_interval(found.one)),
        (f"{found.count} trials, all of them shown", every),
    ]


def _matrix(
    strategy: str, turns: mechanisms.BoundedParticipation, rounds: int, noise: float | None, *, unsampled: bool
) -> Release:
    """A matrix mechanism as the command line writes it."""
    if not unsampled:
        raise ValueError("strategy must be that of Gaussian noise, without sampling")
    if strategy == "tree":
        return mechanisms.MatrixMechanism(
            mechanisms.TreeAggregationStrategy(), turns, rounds, _require_parameter(noise)
        )
    try:
        column = tuple(float(read_number("strategy", number)) for number in strategy.split(","))
    except ValueError:
        raise CheckError("strategy", "tree, or numbers with commas between", repr(strategy)) from None
    return mechanisms.MatrixMechanism(mechanisms.ToeplitzStrategy(column), turns, rounds, _require_parameter(noise))


def _require_parameter(parameter: float | None) -> float:
    if parameter is None:
        raise CheckError("parameter", "given (or a file of terms with --file)", "None")
    return parameter


def _build_mechanism(mechanism: str, parameter: float | None, further: list[str]) -> Release:
    """A mechanism by its tag and its fields."""
    if mechanism not in MECHANISMS:
        raise CheckError("mechanism", f"one of {', '.join(MECHANISMS)}", repr(mechanism))
    kind = MECHANISMS[mechanism]
    first, *_ = fields.list_fields(kind)
    written = dict(text.partition("=")[::2] for text in further)
    given: dict[str, Any] = {name: _value(kind, name, value) for name, value in written.items()}
    if first not in given:
        given[first] = _require_parameter(parameter)
    return fields.parse_fields(kind, given)


def _value(kind: type, name: str, text: str) -> Any:
    """The value of a field as the command line writes it."""
    name = check.one_of(tuple(fields.list_fields(kind)))(field=name)
    of = fields.field_type(kind, name)
    if of is bool:
        return check.one_of(("true", "false"))(**{name: text}) == "true"
    if of is str:
        return text
    number = read_number(name, text, whole=of is int)
    return int(number) if of is int else number


def _from_flags(
    release: Release,
    q: float | None,
    size: int | None,
    population: int | None,
    largest_batch: int | None,
    *,
    shuffled: bool,
) -> Release:
    match q, size, population, largest_batch, shuffled:
        case None, None, int(), None, True:
            release = mechanisms.Shuffled(release, population)
        case None, None, None, None, False:
            pass
        case float(), None, None, None, False:
            release = mechanisms.PoissonSampled(release, q)
        case float(), None, int(), int(), False:
            release = mechanisms.TruncatedPoissonSampled(release, q, population, largest_batch)
        case None, int(), int(), None, False:
            release = mechanisms.FixedSizeSampled(release, size, population)
        case _:
            raise ValueError(
                "sample_size and population must be given together, and without sampling_probability; or "
                "sampling_probability, alone or with population and largest_batch; or shuffled with population alone"
            )
    return release


def read_release(file: Path) -> Release:
    """Reads one release from a JSON or TOML file: a bare term, an envelope, or what `account --json` printed."""
    document = read_document(file)
    if isinstance(document, dict) and "release" in document and "type" not in document:
        document = document["release"]
    term = codec.from_json(document) if isinstance(document, dict) and "v" in document else codec.decode(document)
    if not isinstance(term, Release):
        raise CheckError("file", "a release", f"{type(term).__name__}", verb="hold")
    return term


def read_document(file: Path) -> Any:
    """Reads a JSON or TOML file as plain values."""
    try:
        data = file.read_bytes()
        return tomllib.loads(data.decode("utf-8")) if file.suffix == ".toml" else codec.parse_json(data)
    except OSError as error:
        raise CheckError("file", "readable", f"{file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CheckError("file", "JSON or TOML", f"{file}: {error}") from error


def _formula(release: Release, delta: float | None) -> float | None:
    """The popular closed form, where the release has the shape that it is about."""
    from epsilog.accounting import federated_closed_form
    from epsilog.mechanisms.composition import flatten

    match [(part.sampled_gaussian, count) for part, count in flatten(release).items()]:
        case [((noise, q), count)] if delta:
            return federated_closed_form(
                sampling_probability=q, noise_multiplier=noise, rounds=count, delta=delta
            ).total
    return None


Compared = Annotated[Path, typer.Argument(help="A JSON or TOML file holding one release.")]


@account_app.command("compare")
def compare_command(
    first: Compared,
    second: Compared,
    relation: Relation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    tolerance: Annotated[float, typer.Option("--tolerance", help="An excess that is of no account.")] = 1e-3,
    as_json: Json = False,
) -> None:
    """Say which of two releases protects better, at which deltas and false positive rates, or that neither does.

    Example: epsilog account compare docs/examples/rare.toml docs/examples/gaussian.json
    """
    from epsilog import accounting

    one, other = read_release(first), read_release(second)
    found = accounting.compare_profiles(one, other, relation=relation, tolerance=tolerance)
    fits = [accounting.fit_gaussian_dp(release, relation=relation, slack=tolerance) for release in (one, other)]
    if as_json:
        return print_json(
            {
                "verdict": found.verdict,
                "first_excess": found.first_excess,
                "second_excess": found.second_excess,
                "tolerance": found.tolerance,
                "points": [
                    {"first": codec.encode(at.first), "second": codec.encode(at.second), "better": at.better}
                    for at in (*found.at_deltas, *found.at_fprs)
                ],
                "gaussian_fits": [
                    {"mu": codec.encode(fit.mu), "beyond": fit.beyond, "regret": fit.regret} for fit in fits
                ],
            }
        )
    rows = [
        [_place(at.first), *(format_interval(side) for side in (at.first, at.second)), at.better]
        for at in (*found.at_deltas, *found.at_fprs)
    ]
    rows.append(["mu of Gaussian DP, about", *(format_upper(fit.mu, 4) for fit in fits), ""])
    rows.append(["  its curve is off by at most", *(format_upper(fit.error, 2) for fit in fits), ""])
    print_table("Two curves", ["", first.name, second.name, "better"], rows)
    print_figures(
        "Everywhere",
        [
            (style_bold("better"), style_bold(str(Message(f"better/{found.verdict}")))),
            ("first easier to attack", f"by at most {format_upper(found.first_excess, 2)}"),
            ("second easier to attack", f"by at most {format_upper(found.second_excess, 2)}"),
        ],
    )
    return None


def _place(at: Interval) -> str:
    (name, value), *_ = at.given
    return f"{at.quantity} at {name} {value:g}"
