"""The measurements of a study: every condition, every seed, and nothing that the protocol does not name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from epsilog.accounting import calibrate, profile, true_positive_rate
from epsilog.study.backdoor import Backdoor, BackdooredEngine, poisoned, success
from epsilog.study.membership import Attack, attack, halved, losses_of_units
from epsilog.terms import CheckError, NeighboringRelation, Scheme, UnsupportedMechanismError, check, codec
from epsilog.train import Randomness, Task, dry_run, require_fit
from epsilog.train.engines import made

DIGITS = 6  # of a calibrated noise multiplier


@dataclass(frozen=True, slots=True)
class Protocol:
    """What is measured, fixed before anything is.

    Attributes:
        budgets: epsilons to train at, in nats; training without DP comes first in any case.
        seeds: of the runs; at least one.
        fpr: false positive rate of the membership attack, in (0, 1); None for no such attack.
        backdoor: what attackers do; None for none.
    """

    budgets: tuple[float, ...]
    seeds: tuple[int, ...]
    fpr: float | None = 0.05
    backdoor: Backdoor | None = None

    def __post_init__(self) -> None:
        check.fields(
            self,
            budgets=check.each(check.positive()),
            seeds=check.each(check.integer(0)),
            fpr=check.optional(check.between(0, 1)),
        )
        for name in ("budgets", "seeds"):
            values = getattr(self, name)
            if not values or len(set(values)) != len(values):
                raise CheckError(name, "some, each once", repr(values), verb="name")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        told = self.backdoor
        named = {name: getattr(told, name) for name in Backdoor.__slots__} if told is not None else None
        if named is not None:
            named |= {"features": list(named["features"])}
        return {"budgets": list(self.budgets), "seeds": list(self.seeds), "fpr": self.fpr, "backdoor": named}


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
class Measured:
    """One seed's outcome under one condition; what was not measured, or diverged, is None.

    Attributes:
        score: of the model without attackers, on the public test set.
        attacked_score: of the model with attackers.
        success: how often the trigger works on that.
        membership: what the membership attack found out.
    """

    score: float | None
    attacked_score: float | None = None
    success: float | None = None
    membership: Attack | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        told = self.membership
        named = {name: getattr(told, name) for name in Attack.__slots__} if told is not None else None
        return {"score": self.score, "attacked_score": self.attacked_score, "success": self.success} | {
            "membership": named
        }


@dataclass(frozen=True, slots=True)
class Condition:
    """One scheme at one budget, over all seeds.

    Attributes:
        subject: the subject's name.
        epsilon: the budget; None without DP, where nothing is clipped and no noise is added.
        noise_multiplier: what the budget asks for.
        largest_tpr: what no attack on one unit can pass at the protocol's false positive rate; None without DP.
        runs: a measurement for each seed.
    """

    subject: str
    epsilon: float | None
    noise_multiplier: float | None
    largest_tpr: float | None
    runs: tuple[Measured, ...]

    def of(self, what: Callable[[Measured], float | None]) -> tuple[float, float, float] | None:
        """Median, least and greatest over the seeds; None where some seed has no such number."""
        found = [what(run) for run in self.runs]
        numbers = [value for value in found if value is not None]
        return (median(numbers), min(numbers), max(numbers)) if len(numbers) == len(found) else None

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Condition:
        """Reads what ``to_json`` gives."""
        runs = (
            Measured(**one | {"membership": None if one["membership"] is None else Attack(**one["membership"])})
            for one in told["runs"]
        )
        return cls(**told | {"runs": tuple(runs)})

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "subject": self.subject,
            "epsilon": self.epsilon,
            "noise_multiplier": self.noise_multiplier,
            "largest_tpr": self.largest_tpr,
            "runs": [run.to_json() for run in self.runs],
        }


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


def measure(subject: Subject, protocol: Protocol, *, tell: Callable[[str], None]) -> Iterator[Condition]:
    """Measures a subject: first without DP, then at every budget.

    Args:
        subject: scheme and task.
        protocol: what is measured.
        tell: called with what happens next.

    Raises:
        CalibrationError: a budget that no noise meets; before anything is trained.
        CheckError: a backdoor that the task cannot have, or a scheme that does not fit it.
    """
    if protocol.backdoor is not None:
        protocol.backdoor.require_fit(subject.task)
    schemes = [(epsilon, subject.at(epsilon)) for epsilon in protocol.budgets]
    for epsilon, scheme in [(None, subject.scheme_for(1.0)), *schemes]:
        where = f"{subject.name}, {'without DP' if epsilon is None else f'epsilon {epsilon:g}'}"
        runs = []
        for place, seed in enumerate(protocol.seeds, start=1):
            tell(f"{where}: seed {place} of {len(protocol.seeds)}")
            runs.append(_measured(subject.task, scheme, protocol, seed, private=epsilon is not None))
        noise = None if epsilon is None else scheme.noise_multiplier
        yield Condition(subject.name, epsilon, noise, _largest(subject, scheme, protocol, epsilon), tuple(runs))


def _measured(task: Task, scheme: Scheme, protocol: Protocol, seed: int, *, private: bool) -> Measured:
    draws, backdoor = Randomness.simulated(seed), protocol.backdoor
    found = Measured(dry_run(scheme, task, randomness=draws, private=private).records[-1].test_score)
    if backdoor is not None:
        attacking = poisoned(task, backdoor)
        attacked = dry_run(
            scheme,
            task,
            randomness=draws,
            private=private,
            engine=lambda one: BackdooredEngine(made(None, one), made(None, attacking), backdoor),
        )
        if not attacked.records[-1].diverged:
            found = replace(
                found,
                attacked_score=attacked.records[-1].test_score,
                success=success(task, attacked.model, backdoor),
            )
    if protocol.fpr is not None:
        half, members = halved(task, seed)
        trained = dry_run(scheme, half, randomness=draws, private=private)
        if not trained.records[-1].diverged:
            told = attack(-losses_of_units(task, trained.model), members, fpr=protocol.fpr)
            found = replace(found, membership=told)
    return found


def _largest(subject: Subject, scheme: Scheme, protocol: Protocol, epsilon: float | None) -> float | None:
    if epsilon is None or protocol.fpr is None:
        return None
    promised = true_positive_rate([(epsilon, subject.delta)], fpr=protocol.fpr)
    try:
        whole = profile(scheme.release(), relation=subject.relation).tpr(protocol.fpr).upper
    except UnsupportedMechanismError:  # the one point of its curve that is known has to do
        return promised
    return min(promised, whole)
