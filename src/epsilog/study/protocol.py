"""The measurements of a study: every condition, every seed, and nothing that the protocol does not name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from statistics import median
from typing import Annotated, Any

from epsilog.accounting import calibrate, profile, tpr_upper_bound
from epsilog.schemes import Scheme
from epsilog.study.backdoor import Backdoor, compute_attack_success
from epsilog.study.canaries import CanaryExperiment
from epsilog.study.experiment import Experiment, Numbers, ResultCells, StudyRun, score_model
from epsilog.study.membership import ATTACKS, SHADOWS, MembershipExperiment
from epsilog.study.properties import PropertyExperiment
from epsilog.terms import CheckError, NeighboringRelation, UnsupportedMechanismError, check, codec
from epsilog.training import Task, require_matching_scheme

DIGITS = 6  # of a calibrated noise multiplier
UTILITY = "utility"
TAKEN = {
    UTILITY,
    *ATTACKS,
    MembershipExperiment.name,
    PropertyExperiment.name,
    CanaryExperiment.name,
}  # names that no backdoor may have


@dataclass(frozen=True, slots=True)
class StudyProtocol:
    """What is measured, fixed before anything is.

    Attributes:
        budgets: epsilons to train at, in nats; training without DP comes first in any case.
        seeds: of the runs; at least one, each below those of shadow models.
        backdoors: what attackers do, with distinct names; none for no such attack.
        membership: what is asked about who took part; None for no such attack.
        mark: what rounds are told by; None for no property inference.
        canaries: clients that send a direction; None for none.
    """

    budgets: Annotated[tuple[float, ...], check.sequence_of(check.positive())]
    seeds: Annotated[tuple[int, ...], check.sequence_of(check.integer(0, SHADOWS - 1))]
    backdoors: tuple[Backdoor, ...] = ()
    membership: MembershipExperiment | None = None
    mark: PropertyExperiment | None = None
    canaries: CanaryExperiment | None = None

    def __post_init__(self) -> None:
        check.check_fields(self)
        for name in ("budgets", "seeds"):
            values = getattr(self, name)
            if not values or len(set(values)) != len(values):
                raise CheckError(name, "some, each once", repr(values), verb="name")
        names = [one.name for one in self.backdoors]
        if len(set(names)) != len(names) or {*names} & TAKEN:
            raise CheckError("backdoors", "each of a name of its own", repr(names), verb="be")

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """Every attack."""
        others = (self.membership, self.mark, self.canaries)
        return (*self.backdoors, *(one for one in others if one is not None))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        attacks = [{"attack": one.kind, **_describe_experiment(one)} for one in self.experiments]
        return {"budgets": list(self.budgets), "seeds": list(self.seeds), "attacks": attacks}


def is_clean_metric(name: str) -> str:
    """Return the name of the number that belongs to a backdoor's trigger, for a model without attackers."""
    return f"{name}, nobody attacking"


def _describe_experiment(question: Any) -> dict[str, Any]:
    found = {each.name: getattr(question, each.name) for each in fields(question)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """One scheme on one task.

    Attributes:
        name: what it is called in the tables.
        task: what is trained on what.
        scheme_for: the scheme as a function of its noise multiplier.
        delta: of the guarantee, in (0, 1).
        relation: which data sets are neighbors.
    """

    name: str
    task: Task
    scheme_for: Callable[[float], Scheme]
    delta: float
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE

    def at(self, epsilon: float) -> Scheme:
        """The scheme with the least noise that meets a budget.

        Raises:
            CalibrationError: no noise meets it.
        """
        noise = calibrate(
            lambda z: self.scheme_for(z).release(),
            epsilon=epsilon,
            delta=self.delta,
            relation=self.relation,
            digits=DIGITS,
        )
        return require_matching_scheme(self.scheme_for(noise), self.task)


@dataclass(frozen=True, slots=True)
class Condition:
    """One scheme at one budget, over all seeds.

    Attributes:
        subject: the subject's name.
        epsilon: the budget; None without DP, where nothing is clipped and no noise is added.
        noise_multiplier: what the budget asks for.
        largest_tprs: what no attack on one unit can pass, by false positive rate; empty without DP.
        runs: for each seed its numbers, by attack and by name; None where training diverged.
    """

    subject: str
    epsilon: float | None
    noise_multiplier: float | None
    largest_tprs: dict[str, float]
    runs: tuple[dict[str, Numbers | None], ...]

    def values(self, attack: str, name: str) -> list[float | None]:
        """One number over the seeds; None where it was not measured, or training diverged."""
        return [(run.get(attack) or {}).get(name) for run in self.runs]

    def of(self, attack: str, name: str) -> tuple[float, float, float] | None:
        """Median, least and greatest over the seeds; None where some seed has no such number."""
        numbers = [value for value in self.values(attack, name) if value is not None]
        return (median(numbers), min(numbers), max(numbers)) if len(numbers) == len(self.runs) else None

    @property
    def where(self) -> str:
        """The budget in words."""
        return "without DP" if self.epsilon is None else f"at epsilon {self.epsilon:g}"

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Condition:
        """Read what ``to_json`` gives."""
        return cls(**document | {"runs": tuple(document["runs"])})

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"runs": list(self.runs)}


def describe_inputs(subjects: tuple[Subject, ...], protocol: StudyProtocol) -> dict[str, Any]:
    """Describe all inputs of the outcome, for a hash that is fixed before the first run."""
    return {
        "protocol": protocol.to_json(),
        "subjects": [
            {
                "name": one.name,
                "scheme": codec.encode(one.scheme_for(1.0)),
                "task": one.task.describe(),
                "training": repr(one.task.training),
                "delta": one.delta,
                "relation": one.relation.value,
            }
            for one in subjects
        ],
    }


def measure_subject(
    subject: Subject,
    protocol: StudyProtocol,
    *,
    on_progress: Callable[[str], None],
    cells: ResultCells | None = None,
) -> Iterator[Condition]:
    """Measure a subject: first without DP, then at every budget.

    Args:
        subject: scheme and task.
        protocol: what is measured.
        on_progress: called with what is computed next.
        cells: what is finished already, and where what is finished is kept; None keeps nothing.

    Raises:
        CalibrationError: a budget that no noise meets; before anything is trained.
        CheckError: an attack that the task cannot have, or a scheme that does not fit it.
        RecordError: a finished cell that was changed.
    """
    cells = ResultCells() if cells is None else cells
    for one in protocol.experiments:
        one.require_fit(subject.task)
    schemes = [(epsilon, subject.at(epsilon)) for epsilon in protocol.budgets]
    for epsilon, scheme in [(None, subject.scheme_for(1.0)), *schemes]:
        where = f"{subject.name}, {'without DP' if epsilon is None else f'epsilon {epsilon:g}'}"
        shared = cells.within(where)
        runs = []
        for place, seed in enumerate(protocol.seeds, start=1):
            run = StudyRun(
                task=subject.task,
                scheme=scheme,
                quiet=subject.scheme_for(0.0),
                private=epsilon is not None,
                delta=subject.delta,
                seed=seed,
                shared=shared,
            )
            says = f"{where}: seed {place} of {len(protocol.seeds)}"
            runs.append(_measure_run(run, protocol, partial(_report_at, on_progress, says)))
        noise = None if epsilon is None else scheme.noise_multiplier
        yield Condition(subject.name, epsilon, noise, _largest(subject, scheme, protocol, epsilon), tuple(runs))


def _measure_run(run: StudyRun, protocol: StudyProtocol, report: Callable[[str], None]) -> dict[str, Numbers | None]:
    """Return one seed's numbers, by attack; each attack is a cell of its own."""

    def cell(name: str, compute: Callable[[], Any]) -> Any:
        def report_and_compute() -> Any:
            report(name)
            return compute()

        return run.shared(f"seed {run.seed}, {name}", report_and_compute)

    applied = [one for one in protocol.experiments if one.applies(run.scheme)]
    triggers = [one for one in applied if isinstance(one, Backdoor)]
    found: dict[str, Numbers | None] = {UTILITY: cell(UTILITY, lambda: _measure_utility(run, triggers))}
    for one in applied:
        found |= cell(one.name, partial(one.measure, run))
    return found


def _report_at(on_progress: Callable[[str], None], where: str, what: str) -> None:
    on_progress(f"{where}, {what}")


def _measure_utility(run: StudyRun, triggers: Iterable[Backdoor]) -> Numbers | None:
    """Return the score of a model without attackers, and how often each trigger works on it anyway."""
    model = run.train()
    if model is None:
        return None
    return {"score": score_model(run.task, model)} | {
        is_clean_metric(each.name): compute_attack_success(run.task, model, each) for each in triggers
    }


def _largest(subject: Subject, scheme: Scheme, protocol: StudyProtocol, epsilon: float | None) -> dict[str, float]:
    if epsilon is None or protocol.membership is None:
        return {}
    rates = protocol.membership.fprs
    promised = {rate: tpr_upper_bound([(epsilon, subject.delta)], fpr=rate) for rate in rates}
    try:
        curve = profile(scheme.release(), relation=subject.relation)
        whole = {rate: curve.tpr(rate).upper for rate in rates}
    except UnsupportedMechanismError:  # the one point of its curve that is known has to do
        whole = promised
    return {f"{rate:g}": min(promised[rate], whole[rate]) for rate in rates}
