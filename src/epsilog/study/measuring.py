"""The measurements of a study: every condition, every seed, and nothing that the protocol does not name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from statistics import median
from typing import Any

from epsilog.accounting import calibrate, profile, true_positive_rate
from epsilog.schemes import Scheme
from epsilog.study.backdoor import Backdoor, success, told_of_backdoor
from epsilog.study.canaries import Canaries, told_of_canaries
from epsilog.study.cells import Cells, Shelf
from epsilog.study.membership import ATTACKS, SHADOWS, Membership, told_of_membership
from epsilog.study.properties import Property, told_of_property
from epsilog.study.trial import Trial, score
from epsilog.terms import CheckError, NeighboringRelation, UnsupportedMechanismError, check, codec
from epsilog.training import Task, require_fit
from epsilog.training.orders import UPLOADS

DIGITS = 6  # of a calibrated noise multiplier
UTILITY = "utility"
TAKEN = {UTILITY, *ATTACKS, Membership.name, Property.name, Canaries.name}  # names that no backdoor may have
Numbers = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Protocol:
    """What is measured, fixed before anything is.

    Attributes:
        budgets: epsilons to train at, in nats; training without DP comes first in any case.
        seeds: of the runs; at least one, each below those of shadow models.
        backdoors: what attackers do, each of its own name; none for no such attack.
        membership: what is asked about who took part; None for no such attack.
        mark: what rounds are told by; None for no property inference.
        canaries: clients that send a direction of their own; None for none.
    """

    budgets: tuple[float, ...]
    seeds: tuple[int, ...]
    backdoors: tuple[Backdoor, ...] = ()
    membership: Membership | None = None
    mark: Property | None = None
    canaries: Canaries | None = None

    def __post_init__(self) -> None:
        check.fields(self, budgets=check.each(check.positive()), seeds=check.each(check.integer(0, SHADOWS - 1)))
        for name in ("budgets", "seeds"):
            values = getattr(self, name)
            if not values or len(set(values)) != len(values):
                raise CheckError(name, "some, each once", repr(values), verb="name")
        names = [one.name for one in self.backdoors]
        if len(set(names)) != len(names) or {*names} & TAKEN:
            raise CheckError("backdoors", "each of a name of its own", repr(names), verb="be")

    @property
    def questions(self) -> tuple[Backdoor | Membership | Property | Canaries, ...]:
        """Every attack."""
        others = (self.membership, self.mark, self.canaries)
        return (*self.backdoors, *(one for one in others if one is not None))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        attacks = [{"attack": type(one).__name__.lower(), **_named(one)} for one in self.questions]
        return {"budgets": list(self.budgets), "seeds": list(self.seeds), "attacks": attacks}


def unattacked(name: str) -> str:
    """Of the numbers of a model that nobody attacks, the one that belongs to a backdoor's trigger."""
    return f"{name}, nobody attacking"


def _named(question: Any) -> dict[str, Any]:
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
        relation: which data sets are neighbours.
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
        return require_fit(self.scheme_for(noise), self.task)


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
    def from_json(cls, told: dict[str, Any]) -> Condition:
        """Reads what ``to_json`` gives."""
        return cls(**told | {"runs": tuple(told["runs"])})

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"runs": list(self.runs)}


def described(subjects: tuple[Subject, ...], protocol: Protocol) -> dict[str, Any]:
    """Everything that the outcome depends on, for a hash that stands before the first run."""
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


def measure(
    subject: Subject, protocol: Protocol, *, tell: Callable[[str], None], cells: Cells | None = None
) -> Iterator[Condition]:
    """Measures a subject: first without DP, then at every budget.

    Args:
        subject: scheme and task.
        protocol: what is measured.
        tell: called with what is computed next.
        cells: what is finished already, and where what is finished is kept; None keeps nothing.

    Raises:
        CalibrationError: a budget that no noise meets; before anything is trained.
        CheckError: an attack that the task cannot have, or a scheme that does not fit it.
        RecordsError: a finished cell that was changed.
    """
    cells = Cells() if cells is None else cells
    for question in protocol.questions:
        if not isinstance(question, Membership):
            question.require_fit(subject.task)
    schemes = [(epsilon, subject.at(epsilon)) for epsilon in protocol.budgets]
    for epsilon, scheme in [(None, subject.scheme_for(1.0)), *schemes]:
        where = f"{subject.name}, {'without DP' if epsilon is None else f'epsilon {epsilon:g}'}"
        shared = cells.within(where)
        runs = []
        for place, seed in enumerate(protocol.seeds, start=1):
            trial = Trial(
                task=subject.task,
                scheme=scheme,
                quiet=subject.scheme_for(0.0),
                private=epsilon is not None,
                delta=subject.delta,
                seed=seed,
                shared=shared,
            )
            says = f"{where}: seed {place} of {len(protocol.seeds)}"
            runs.append(_run(trial, protocol, shared, partial(_say, tell, says)))
        noise = None if epsilon is None else scheme.noise_multiplier
        yield Condition(subject.name, epsilon, noise, _largest(subject, scheme, protocol, epsilon), tuple(runs))


def _run(trial: Trial, protocol: Protocol, shared: Shelf, tell: Callable[[str], None]) -> dict[str, Numbers | None]:
    """One seed's numbers, by attack; each attack is a cell of its own."""

    def cell(name: str, compute: Callable[[], Any]) -> Any:
        def announced() -> Any:
            tell(name)
            return compute()

        return shared(f"seed {trial.seed}, {name}", announced)

    asked = [question for question in protocol.questions if _applies(question, trial.scheme)]
    triggers = [question for question in asked if isinstance(question, Backdoor)]
    found: dict[str, Numbers | None] = {UTILITY: cell(UTILITY, lambda: _utility(trial, triggers))}
    for question in asked:
        told = cell(question.name, partial(_told, question, trial))
        found |= told if isinstance(question, Membership) else {question.name: told}
    return found


def _say(tell: Callable[[str], None], where: str, what: str) -> None:
    tell(f"{where}, {what}")


def _utility(trial: Trial, triggers: Iterable[Backdoor]) -> Numbers | None:
    """The score of a model that nobody attacks, and how often each trigger works on it all the same."""
    model = trial.trained()
    if model is None:
        return None
    return {"score": score(trial.task, model)} | {
        unattacked(each.name): success(trial.task, model, each) for each in triggers
    }


def _told(question: Backdoor | Membership | Property | Canaries, trial: Trial) -> Any:
    match question:
        case Backdoor():
            return told_of_backdoor(question, trial)
        case Membership():
            return told_of_membership(question, trial)
        case Property():
            return told_of_property(question, trial)
        case Canaries():
            return told_of_canaries(question, trial)


def _applies(question: Backdoor | Membership | Property | Canaries, scheme: Scheme) -> bool:
    """Whether there is such an attack on a scheme: canaries are clients, and noise at the server cannot be skipped."""
    if isinstance(question, Canaries):
        return scheme.unit_is_client
    if isinstance(question, Backdoor) and not question.complies:
        return type(scheme) in UPLOADS and UPLOADS[type(scheme)].is_noisy
    return True


def _largest(subject: Subject, scheme: Scheme, protocol: Protocol, epsilon: float | None) -> dict[str, float]:
    if epsilon is None or protocol.membership is None:
        return {}
    rates = protocol.membership.fprs
    promised = {rate: true_positive_rate([(epsilon, subject.delta)], fpr=rate) for rate in rates}
    try:
        curve = profile(scheme.release(), relation=subject.relation)
        whole = {rate: curve.tpr(rate).upper for rate in rates}
    except UnsupportedMechanismError:  # the one point of its curve that is known has to do
        whole = promised
    return {f"{rate:g}": min(promised[rate], whole[rate]) for rate in rates}
