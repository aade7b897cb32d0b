"""The measurements of a study: all conditions and seeds, and exactly the attacks of the protocol."""

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
TAKEN = {UTILITY, *ATTACKS, *(one.kind for one in (MembershipExperiment, PropertyExperiment, CanaryExperiment))}
"""Names that no backdoor may have."""


@dataclass(frozen=True, slots=True)
class StudyProtocol:
    """The measurements of a study, fixed in advance.

    Attributes:
        budgets: epsilons of the runs, in nats; a run without DP always comes first.
        seeds: seeds of the runs; at least one, each below those of shadow models.
        backdoors: backdoor attacks with distinct names; may be empty.
        membership: settings of membership inference; None for none.
        mark: settings of property inference; None for none.
        canaries: settings of canary clients; None for none.
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
            raise CheckError("backdoors", "each with a name that no other attack has", repr(names), verb="be")

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """Return all attacks."""
        others = (self.membership, self.mark, self.canaries)
        return (*self.backdoors, *(one for one in others if one is not None))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        attacks = [{"attack": one.kind, **_describe_experiment(one)} for one in self.experiments]
        return {"budgets": list(self.budgets), "seeds": list(self.seeds), "attacks": attacks}


def is_clean_metric(name: str) -> str:
    """Return the name of the success rate of a trigger for a model without attackers."""
    return f"{name}, no attackers"


def _describe_experiment(question: Any) -> dict[str, Any]:
    found = {each.name: getattr(question, each.name) for each in fields(question)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """One scheme on one task.

    Attributes:
        name: the name in tables.
        task: the training task.
        scheme_for: the scheme as a function of its noise multiplier.
        delta: the delta of the guarantee, in (0, 1).
        relation: the neighboring relation.
    """

    name: str
    task: Task
    scheme_for: Callable[[float], Scheme]
    delta: float
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE

    def at(self, epsilon: float) -> Scheme:
        """Return the scheme with the least noise that meets a budget.

        Raises:
            CalibrationError: no noise meets the budget.
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
        epsilon: the budget; None without DP, that is, without clipping and noise.
        noise_multiplier: the noise multiplier for the budget.
        largest_tprs: the bound on the true positive rate of an attack on one unit, by false positive rate; empty
            without DP.
        runs: numbers of each seed by attack and by name; None if training diverged.
    """

    subject: str
    epsilon: float | None
    noise_multiplier: float | None
    largest_tprs: dict[str, float]
    runs: tuple[dict[str, Numbers | None], ...]

    def values(self, attack: str, name: str) -> list[float | None]:
        """Return one number for each seed; None if it was not measured, or training diverged."""
        return [(run.get(attack) or {}).get(name) for run in self.runs]

    def of(self, attack: str, name: str) -> tuple[float, float, float] | None:
        """Return median, minimum and maximum over the seeds; None if a seed has no such number."""
        numbers = [value for value in self.values(attack, name) if value is not None]
        return (median(numbers), min(numbers), max(numbers)) if len(numbers) == len(self.runs) else None

    @property
    def where(self) -> str:
        """Return the budget in words."""
        return "without DP" if self.epsilon is None else f"at epsilon {self.epsilon:g}"

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Condition:
        """Return the condition of a document from ``to_json``."""
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
    subject: Subject, protocol: StudyProtocol, *, on_progress: Callable[[str], None], cells: ResultCells | None = None
) -> Iterator[Condition]:
    """Yield the conditions of a subject, first without DP, then at each budget."""
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
            progress = f"{where}: seed {place} of {len(protocol.seeds)}"
            runs.append(_measure_run(run, protocol, progress, on_progress))
        noise = None if epsilon is None else scheme.noise_multiplier
        yield Condition(subject.name, epsilon, noise, _largest(subject, scheme, protocol, epsilon), tuple(runs))


def _measure_run(
    run: StudyRun, protocol: StudyProtocol, where: str, on_progress: Callable[[str], None]
) -> dict[str, Numbers | None]:
    """Return the numbers of one seed by attack; each attack is one cell."""

    def cell(name: str, compute: Callable[[], Any]) -> Any:
        def report_and_compute() -> Any:
            on_progress(f"{where}, {name}")
            return compute()

        return run.shared(f"seed {run.seed}, {name}", report_and_compute)

    applied = [one for one in protocol.experiments if one.applies(run.scheme)]
    triggers = [one for one in applied if isinstance(one, Backdoor)]
    found: dict[str, Numbers | None] = {UTILITY: cell(UTILITY, lambda: _measure_utility(run, triggers))}
    for one in applied:
        found |= cell(one.label, partial(one.measure, run))
    return found


def _measure_utility(run: StudyRun, triggers: Iterable[Backdoor]) -> Numbers | None:
    """Return the score of a model without attackers, and the success rate of each trigger on it."""
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
    except UnsupportedMechanismError:  # one point of the profile is known
        whole = promised
    return {f"{rate:g}": min(promised[rate], whole[rate]) for rate in rates}
