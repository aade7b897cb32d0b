"""`epsilog account`: bounds on the privacy cost of a release, which options or a file describe."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from epsilog import mechanisms
from epsilog.cli.app import Application, Json, Relation, ReleaseFile, account_app, print_json, read_release
from epsilog.cli.certificates import CertificateFile, print_with_certificate
from epsilog.cli.show import format_interval, print_figures, print_notice, print_table, style
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
}
"""The mechanisms that options describe, by tag; a file describes any release."""
_MAX_POINTS = 10_000  # of one question
_MECHANISM_HELP = "; ".join(f"{tag} ({', '.join(fields.list_fields(kind))})" for tag, kind in MECHANISMS.items())
Delta = Annotated[
    list[float] | None, typer.Option("--delta", "-d", help="Failure probability: asks for epsilon; repeatable.")
]
Epsilon = Annotated[
    list[float] | None, typer.Option("--epsilon", "-e", help="Epsilon, in nats: asks for delta; repeatable.")
]


def build() -> Application:
    """Return a command for each question about a composition; `compare` takes any two releases from files."""
    from epsilog.cli import derive
    from epsilog.plan.questions import QUESTIONS

    app = Application()
    for path, question in QUESTIONS.items():
        if path.startswith("/account") and path != "/account/compare":
            name = path.removeprefix("/account").removeprefix("/") or "composition"
            app.command(name)(derive.make_question_command(question, f"epsilog account {name}"))
    return app


Mechanism = Annotated[str, typer.Option(help=f"The mechanism, here with its fields: {_MECHANISM_HELP}.")]
FirstField = Annotated[
    float | None, typer.Option("--noise-multiplier", "--parameter", "-z", help="The first field of the mechanism.")
]
FurtherFields = Annotated[
    list[str] | None, typer.Option(help="Another field of the mechanism, as NAME=VALUE; repeatable.")
]
SamplingProbability = Annotated[
    float | None,
    typer.Option("--sampling-probability", "-q", help="Poisson sampling probability of a unit, in (0, 1]."),
]
SampleSize = Annotated[
    int | None, typer.Option("--sample-size", "-m", help="Units sampled without replacement from --population.")
]
Population = Annotated[int | None, typer.Option("--population", "-N", help="Units in all, for the other sizes.")]
MaxBatchSize = Annotated[
    int | None, typer.Option(help="Size to which Poisson samples from --population are truncated.")
]
Shuffled = Annotated[
    bool, typer.Option("--shuffled", help="One report from each unit of --population, in random order.")
]
Strategy = Annotated[
    str | None,
    typer.Option(help='Noise correlated over all --rounds: the matrix, "tree" or its first column as 1,0.5,0.25.'),
]
MaxParticipations = Annotated[
    int, typer.Option(help="With --strategy: largest number of rounds that one unit takes part in.")
]
MinSeparation = Annotated[int, typer.Option(help="With --strategy: least distance between two of these rounds.")]
Rounds = Annotated[
    str, typer.Option("--rounds", "-T", help="Number of compositions; A,B or FIRST:LAST:STEP evaluates each.")
]
Trials = Annotated[
    str | None,
    typer.Option(
        help="Distribution of a secret number of trials of which only the best is released: "
        f"{', '.join(mechanisms.TRIAL_FORMATS)}."
    ),
]
GroupSize = Annotated[
    int, typer.Option("--group-size", "-k", help="Most units that one person holds; bounds the person's cost.")
]
RelativeWidth = Annotated[
    float, typer.Option("--relative-width", help="Target (upper - lower) / upper of the interval.")
]
AsCsv = Annotated[
    bool, typer.Option("--csv", help="Print one line for each number asked for, with both bounds in columns.")
]


@account_app.callback(invoke_without_command=True)
def account_command(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="One release of any kind, as a JSON or TOML file; - for standard input."),
    ] = None,
    mechanism: Mechanism = "gaussian",
    parameter: FirstField = None,
    field: FurtherFields = None,
    sampling_probability: SamplingProbability = None,
    sample_size: SampleSize = None,
    population: Population = None,
    max_batch_size: MaxBatchSize = None,
    shuffled: Shuffled = False,
    strategy: Strategy = None,
    max_participations: MaxParticipations = 1,
    min_separation: MinSeparation = 1,
    count: Rounds = "1",
    trials: Trials = None,
    group_size: GroupSize = 1,
    delta: Delta = None,
    epsilon: Epsilon = None,
    relation: Relation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    relative_width: RelativeWidth = 0.002,
    certificate: CertificateFile = None,
    as_json: Json = False,
    as_csv: AsCsv = False,
) -> None:
    """Bound the privacy cost of a release: epsilon at a delta, or delta at an epsilon.

    Example: epsilog account -z 1.0 -q 0.01 -T 1000 --delta 1e-5
    """
    if context.invoked_subcommand is not None:
        return None
    deltas, epsilons, counts = tuple(delta or ()), tuple(epsilon or ()), _read_counts(count)
    if (not deltas) == (not epsilons):
        raise CheckError("delta", "given, or else --epsilon", "both" if deltas else "neither")
    if as_csv and as_json:
        raise CheckError("as_csv", "without --json", "both", verb="stand")
    if len(counts) > 1 and (trials is not None or strategy is not None):
        raise CheckError("count", "one number with --trials or --strategy", repr(count))
    sampling = (sampling_probability, sample_size, population, max_batch_size)
    if file is None and strategy is not None:
        if mechanism != "gaussian" or sampling != (None,) * 4 or shuffled:
            raise CheckError("strategy", "that of Gaussian noise, without sampling", repr(strategy))
        turns = mechanisms.BoundedParticipation(max_participations, min_separation)
        matrix, sigma = _read_strategy(strategy), _require_parameter(parameter)
        release: Release = mechanisms.MatrixMechanism(matrix, turns, counts[0], sigma)
    else:
        release = (
            _sample(_build_mechanism(mechanism, parameter, field or []), *sampling, shuffled=shuffled)
            if file is None
            else read_release(file)
        )
        if len(counts) == 1 and counts != [1]:
            release = mechanisms.Repeated(release, counts[0])
    if trials is not None:
        release = mechanisms.BestOfTrials(release, mechanisms.parse_trials(trials))
    question = _Question(deltas, epsilons, relation, relative_width, group_size)
    if as_csv or len(counts) * len(deltas or epsilons) > 1:
        named = {"release" if len(counts) == 1 else "step": codec.to_json(release)}
        if certificate is not None:
            raise CheckError("certificate", "given for one number", "several, or --csv", verb="be")
        return _show_several(question.answer_many(release, counts), named, as_csv=as_csv, as_json=as_json)
    interval, formula = question.answer_one(release), question.estimate(release)
    document = {
        "release": codec.to_json(release),
        "interval": codec.encode(interval),
        "closed_form": None if formula is None else {"total": codec.encode(formula), "side": "estimate"},
    }
    return print_with_certificate(
        document,
        lambda: _show_one(question, release, interval, formula),
        file=certificate,
        claim=lambda: question.claim(release, interval),
        as_json=as_json,
    )


def _show_one(question: _Question, release: Release, interval: Interval, formula: float | None) -> None:
    group, delta = question.group_size, question.deltas[0] if question.deltas else None
    (name, at), *_ = interval.given
    rows: list[tuple[Any, Any]] = [
        (style(interval.quantity, after=f" at {name} {at:g}"), style(format_interval(interval))),
        *([("for a holder of", f"up to {group} units")] if group > 1 else []),
        ("method", str(interval.method)),
        ("relation", str(interval.relation)),
        *(_list_trial_costs(release, delta, question.relation, question.relative_width) if group == 1 else ()),
    ]
    if formula is not None:
        rows.append(("closed form (estimate)", f"{formula:.6g}"))
    print_figures("Certified interval", rows)
    for line in interval.assumptions:
        print_notice(f"Assumes: {line}")
    if formula is not None:
        from epsilog.plan import write_formula

        print_notice(str(write_formula(formula, interval)))


class _Question(NamedTuple):
    """The question: epsilon at deltas, or delta at epsilons."""

    deltas: tuple[float, ...]
    epsilons: tuple[float, ...]
    relation: NeighboringRelation
    relative_width: float
    group_size: int

    def answer_one(self, release: Release) -> Interval:
        """Return the answer at the one number given."""
        from epsilog import accounting

        if self.deltas:
            return accounting.epsilon(release, delta=self.deltas[0], **self._options)
        return accounting.delta(release, epsilon=self.epsilons[0], **self._options)

    def estimate(self, release: Release) -> float | None:
        """Return the closed form at the one number given, where it is quoted."""
        return _formula(release, self.deltas[0] if self.deltas else None) if self.group_size == 1 else None

    def claim(self, release: Release, found: Interval) -> dict[str, Any]:
        """Return what a certificate of the answer claims; of a delta, a thousandth more than its bound."""
        asked = {"release": release, "relation": self.relation, "group_size": self.group_size}
        if self.deltas:
            return asked | {"delta": self.deltas[0]}
        return asked | {"epsilon": self.epsilons[0], "delta": found.upper * 1.001}

    def answer_many(self, release: Release, counts: list[int]) -> Intervals:
        """Return the answers at all numbers, for a release or after each of several numbers of rounds of it."""
        from epsilog import accounting

        if len(counts) == 1:
            if self.deltas:
                return accounting.epsilon(release, delta=self.deltas, **self._options)
            return accounting.delta(release, epsilon=self.epsilons, **self._options)
        rounds = [[count] for count in counts]
        if self.deltas:
            return accounting.epsilon_curve(release, rounds, delta=self.deltas, **self._options)
        return accounting.delta_curve(release, rounds, epsilon=self.epsilons, **self._options)

    @property
    def _options(self) -> dict[str, Any]:
        return {"relation": self.relation, "relative_width": self.relative_width, "group_size": self.group_size}


def _read_counts(text: str) -> list[int]:
    """Read numbers of rounds; a range includes its last number, if a step meets it.

    >>> _read_counts("7"), _read_counts("1,10,100"), _read_counts("20:100:40")
    ([7], [1, 10, 100], [20, 60, 100])
    """
    found: list[int] = []
    for part in text.split(","):
        try:
            first, *rest = [int(read_number("count", word, integer=True)) for word in part.split(":")]
        except ValueError:
            raise CheckError("count", "whole numbers joined by commas, or FIRST:LAST:STEP", repr(text)) from None
        if len(rest) > 2 or (rest and not (first <= rest[0] and rest[-1] > 0)):
            raise CheckError("count", "a range that rises, as FIRST:LAST:STEP", repr(part))
        numbers = range(first, rest[0] + 1, *rest[1:]) if rest else [first]
        if len(found) + len(numbers) > _MAX_POINTS:
            raise CheckError("count", f"at most {_MAX_POINTS} numbers", repr(text))
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
    release: Release, delta: float | None, relation: NeighboringRelation, relative_width: float
) -> list[tuple[str, str]]:
    """Return the cost of one trial, and of the expected number of trials if all were published."""
    if release.one_trial is None or delta is None:
        return []
    from epsilog.plan import plan_tuning

    return list_tuning_rows(
        plan_tuning(*release.one_trial, delta=delta, relation=relation, relative_width=relative_width)
    )


def list_tuning_rows(found: TuningCost) -> list[tuple[str, str]]:
    """Return the expected number of trials, the cost of one, and of all."""
    every = "no bound" if found.all_released is None else format_interval(found.all_released)
    return [
        ("trials expected", f"{found.expected:.6g}"),
        ("one trial", format_interval(found.single_run)),
        (f"{found.count} trials, all of them shown", every),
    ]


def _read_strategy(text: str) -> Any:
    """Read the strategy of a matrix mechanism."""
    if text == "tree":
        return mechanisms.TreeAggregationStrategy()
    try:
        column = tuple(float(read_number("strategy", number)) for number in text.split(","))
    except ValueError:
        raise CheckError("strategy", "tree, or numbers with commas between", repr(text)) from None
    return mechanisms.ToeplitzStrategy(column)


def _require_parameter(parameter: float | None) -> float:
    if parameter is None:
        raise CheckError("parameter", "given, or else --file", "neither")
    return parameter


def _build_mechanism(mechanism: str, parameter: float | None, further: list[str]) -> Release:
    """Return a mechanism by its tag and its fields."""
    if mechanism not in MECHANISMS:
        raise CheckError("mechanism", f"one of {', '.join(MECHANISMS)}", repr(mechanism))
    kind = MECHANISMS[mechanism]
    first, *_ = fields.list_fields(kind)
    written = dict(text.partition("=")[::2] for text in further)
    given: dict[str, Any] = {name: _read_field(kind, name, value) for name, value in written.items()}
    if first in given:
        return fields.parse_fields(kind, given)
    try:
        return fields.parse_fields(kind, given | {first: _require_parameter(parameter)})
    except CheckError as error:  # the option has another name
        name = "parameter" if error.field == first else error.field
        raise CheckError(name, error.bound, error.value, error.verb) from error


def _read_field(kind: type, name: str, text: str) -> Any:
    """Read the value of a field."""
    name = check.one_of(tuple(fields.list_fields(kind)))(field=name)
    of = fields.field_type(kind, name)
    if of is bool:
        return check.one_of(("true", "false"))(**{name: text}) == "true"
    if of is str:
        return text
    number = read_number(name, text, integer=of is int)
    return int(number) if of is int else number


def _sample(
    release: Release,
    probability: float | None,
    size: int | None,
    population: int | None,
    max_batch_size: int | None,
    *,
    shuffled: bool,
) -> Release:
    match probability, size, population, max_batch_size, shuffled:
        case None, None, int(), None, True:
            return mechanisms.Shuffled(release, population)
        case None, None, None, None, False:
            return release
        case float(), None, None, None, False:
            return mechanisms.PoissonSampled(release, probability)
        case float(), None, int(), int(), False:
            return mechanisms.TruncatedPoissonSampled(release, probability, population, max_batch_size)
        case None, int(), int(), None, False:
            return mechanisms.FixedSizeSampled(release, size, population)
    raise ValueError(
        "Sampling needs --sample-size and --population; or --sampling-probability, alone or with --population and "
        "--max-batch-size; or --shuffled and --population"
    )


def _formula(release: Release, delta: float | None) -> float | None:
    """Return the closed form that is widely quoted, for a release that it applies to."""
    from epsilog.accounting import federated_closed_form
    from epsilog.mechanisms.composition import flatten

    match [(part.sampled_gaussian, count) for part, count in flatten(release).items()]:
        case [((noise, q), count)] if delta:
            return federated_closed_form(
                sampling_probability=q, noise_multiplier=noise, rounds=count, delta=delta
            ).total
    return None


@account_app.command("compare")
def compare_command(
    first: ReleaseFile,
    second: ReleaseFile,
    relation: Relation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    delta: Annotated[
        list[float] | None, typer.Option("--delta", "-d", help="Delta at which epsilons are compared; repeatable.")
    ] = None,
    fpr: Annotated[
        list[float] | None,
        typer.Option(help="False-positive rate at which true-positive rates are compared; repeatable."),
    ] = None,
    tolerance: Annotated[float, typer.Option(help="Largest difference of true-positive rates to ignore.")] = 1e-3,
    as_json: Json = False,
) -> None:
    """Compare two releases: which one protects better, and where.

    Example: epsilog account compare docs/examples/rare.toml docs/examples/gaussian.json
    """
    from epsilog import accounting

    one, other = read_release(first), read_release(second)
    points: dict[str, Any] = {name: value for name, value in (("deltas", delta), ("fprs", fpr)) if value}
    found = accounting.compare_profiles(one, other, relation=relation, tolerance=tolerance, **points)
    fits = [accounting.fit_gaussian_dp(release, relation=relation, slack=tolerance) for release in (one, other)]
    if as_json:
        return print_json(
            {
                "outcome": found.outcome,
                "first_excess": found.first_excess,
                "second_excess": found.second_excess,
                "tolerance": found.tolerance,
                "points": [
                    {"first": codec.encode(at.first), "second": codec.encode(at.second), "better": at.better}
                    for at in (*found.at_deltas, *found.at_fprs)
                ],
                "gaussian_fits": [
                    {"mu": codec.encode(fit.mu), "slack": fit.slack, "regret": fit.regret} for fit in fits
                ],
            }
        )
    rows = [
        [_format_point(at.first), *(format_interval(side) for side in (at.first, at.second)), at.better]
        for at in (*found.at_deltas, *found.at_fprs)
    ]
    rows.append(["mu of Gaussian DP, about", *(format_upper(fit.mu, 4) for fit in fits), ""])
    rows.append(["  largest error of its curve", *(format_upper(fit.error, 2) for fit in fits), ""])
    print_table("Two curves", ["", first.name, second.name, "better"], rows)
    print_figures(
        "Everywhere",
        [
            (style("better"), style(str(Message(f"better/{found.outcome}")))),
            ("first easier to attack", f"by at most {format_upper(found.first_excess, 2)}"),
            ("second easier to attack", f"by at most {format_upper(found.second_excess, 2)}"),
        ],
    )
    return None


def _format_point(at: Interval) -> str:
    (name, value), *_ = at.given
    return f"{at.quantity} at {name} {value:g}"
