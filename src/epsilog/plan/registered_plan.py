"""A registered federated plan: the fixed facts of the run, its cost, and its hash for the ledger.

The hash covers the whole document. A run is checked against it, never against what the training code reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any, Protocol, Self

from epsilog.accounting import FederatedClosedForm, calibrate, epsilon, federated_closed_form
from epsilog.mechanisms import BestOfTrials, Release, TrialDistribution
from epsilog.schemes import Scheme
from epsilog.terms import (
    OUTCOME_SHARE,
    CalibrationError,
    CheckError,
    Guarantee,
    Interval,
    NeighboringRelation,
    check,
    codec,
)
from epsilog.terms.charts import draw_interval_bar
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.terms.notebook import render_html_table

VERSION = 1
PLAN_FIELDS = {"v", "kind", "name", "guarantee", "scheme", "release", "epsilon", "unamplified", "closed_form", "budget"}
PLAN_FIELDS |= {"simulation", "details"}
_NUMBER = re.compile(r"\d{1,40}(\.\d{1,40})?([eE][+-]?\d{1,3})?", re.ASCII)
DIGITS = 6  # significant digits of a calibrated noise multiplier


class SchemeFactory(Protocol):
    """Gives the scheme for a noise multiplier; everything else in it is fixed."""

    def __call__(self, noise_multiplier: float, /) -> Scheme:
        """Return the scheme."""


@dataclass(frozen=True, slots=True)
class RegisteredPlan:
    """One federated run with its cost.

    Attributes:
        name: the run config's name.
        guarantee: what is claimed; its epsilon is the certified upper bound of the whole schedule.
        scheme: the arrangement of noise, clipping and sampling.
        epsilon: the certified interval behind the claim, published outcomes of checks included (see
        ``build_registered_plan``).
        unamplified: the same with known participation.
        closed_form: the popular closed form with its two terms: an estimate, shown and never charged.
        budget: scope, caps and the reason for delta, as stated (decimal strings).
        simulation: whether this is a seeded simulation, which no real budget accepts.
        details: everything else that was fixed: identity, training, data facts, boundary, reporting, references.
        trials: the distribution of the number of runs if only the best is released; None for one run. Guarantee and
            intervals are those of the best, the closed form that of one run.
    """

    name: str
    guarantee: Guarantee
    scheme: Scheme
    epsilon: Interval
    unamplified: Interval
    closed_form: FederatedClosedForm
    budget: dict[str, str]
    simulation: bool
    details: dict[str, Any] = field(default_factory=dict)
    trials: TrialDistribution | None = None

    @property
    def release(self) -> Release:
        """Return what is released, and charged: the scheme's release, or that of the best of several trials of it."""
        return self.best_of_trials(self.scheme.release())

    @property
    def epsilon_of_counts(self) -> Decimal:
        """Return the total epsilon of the noisy counts released with the model, each under a separate charge."""
        return _sum_count_epsilons(self.details)

    def best_of_trials(self, one: Release) -> Release:
        """Return what is released if one run releases ``one``."""
        return wrap_best_of_trials(one, self.trials)

    def _repr_html_(self) -> str:
        rows = [
            ("epsilon", format_upper(self.epsilon.upper), f"at delta {format_upper(self.guarantee.delta)}, certified"),
            ("budget", self.budget["epsilon"], self.budget["scope"]),
            ("if participation is known", format_upper(self.unamplified.upper), "no amplification by sampling"),
            ("noise multiplier", f"{self.scheme.noise_multiplier:.6g}", self.scheme.kind),
            ("one", self.guarantee.privacy_unit, f"of {self.guarantee.population:,}; {self.guarantee.relation}"),
        ]
        label = f"epsilon: between {format_lower(self.epsilon.lower)} and {format_upper(self.epsilon.upper)}"
        cap = ("budget", float(self.budget["epsilon"]))
        drawn = draw_interval_bar(self.epsilon.lower, self.epsilon.upper, title=label, cap=cap)
        return drawn + render_html_table(f"{self.name}{' (simulation)' if self.simulation else ''}", rows)

    def to_json(self) -> dict[str, Any]:
        """Return the document that is stored and hashed."""
        return {
            "v": VERSION,
            "kind": "plan",
            "name": self.name,
            "guarantee": codec.encode(self.guarantee),
            "scheme": codec.encode(self.scheme),
            "release": codec.encode(self.release),
            "epsilon": codec.encode(self.epsilon),
            "unamplified": codec.encode(self.unamplified),
            "closed_form": {"root_term": self.closed_form.root_term, "linear_term": self.closed_form.linear_term},
            "budget": dict(self.budget),
            "simulation": self.simulation,
            "details": deepcopy(self.details),
        }

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Read a stored plan; its release must be the scheme's, or the best of several: a hash covers one meaning."""
        if not isinstance(document, dict) or document.get("kind") != "plan" or document.get("v") != VERSION:
            raise ValueError(f"plan must be a version {VERSION} plan document")
        unlike = set(document) ^ PLAN_FIELDS
        if unlike:
            raise CheckError("plan", f"the fields {sorted(PLAN_FIELDS)}", f"{sorted(document)}", verb="have")
        scheme, budget = codec.decode(document["scheme"]), document["budget"]
        check.instance_of(Scheme)(scheme=scheme)
        released = check.instance_of(Release)(release=codec.decode(document["release"]))
        _, trials = released.one_trial or (None, None)
        if released != wrap_best_of_trials(scheme.release(), trials):
            raise ValueError("release must be what the scheme releases, or the best of several trials of that")
        formula = FederatedClosedForm(**document["closed_form"])
        for term in ("root_term", "linear_term"):
            check.at_least(0)(**{term: document["closed_form"][term]})
        for name, stated in {"name": document["name"], **budget}.items():
            check.text()(**{name: stated})
        if set(budget) != {"scope", "epsilon", "delta", "delta_rationale"}:
            raise CheckError("budget", "scope, epsilon, delta and delta_rationale", f"{sorted(budget)}", verb="have")
        for name in ("epsilon", "delta"):
            if not _NUMBER.fullmatch(budget[name]):
                raise CheckError(f"budget.{name}", "a decimal number such as '4' or '1e-6'", repr(budget[name])[:100])
        check.boolean()(simulation=document["simulation"])
        check.instance_of(dict)(details=document["details"])
        _sum_count_epsilons(document["details"])
        terms = {name: codec.decode(document[name]) for name in ("guarantee", "epsilon", "unamplified")}
        for name, kind in (("guarantee", Guarantee), ("epsilon", Interval), ("unamplified", Interval)):
            check.instance_of(kind)(**{name: terms[name]})
        return cls(
            name=document["name"],
            scheme=scheme,
            closed_form=formula,
            budget=budget,
            simulation=document["simulation"],
            details=document["details"],
            trials=trials,
            **terms,
        )

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical document; the ledger holds it from before the run."""
        return codec.hash_canonical(self.to_json())

    def epsilon_after(self, rounds: int) -> Interval:
        """Return the certified interval after the first ``rounds`` rounds, published outcomes of checks included."""
        release, guarantee = self.best_of_trials(self.scheme.after(rounds)), self.guarantee
        return _with_outcomes(release, guarantee.delta, guarantee.relation)


def _sum_count_epsilons(details: dict[str, Any]) -> Decimal:
    stated = check.instance_of(dict)(counts=details.get("counts", {}))
    amounts = [stated[name] for name in ("usable", "evaluation") if name in stated]
    for amount in amounts:
        if not isinstance(amount, str) or not _NUMBER.fullmatch(amount):
            raise CheckError("counts", "decimal numbers such as '0.1'", repr(amount)[:100])
    return sum(map(Decimal, amounts), Decimal(0))


def wrap_best_of_trials(release: Release, trials: TrialDistribution | None) -> Release:
    """Return the release itself, or the best of several trials of it."""
    return release if trials is None else BestOfTrials(release, trials)


def build_registered_plan(
    scheme_for: SchemeFactory,
    *,
    name: str,
    noise_multiplier: float | None,
    budget_epsilon: float | Decimal,
    delta: float | Decimal,
    relation: NeighboringRelation,
    privacy_unit: str,
    population: int,
    budget: dict[str, str],
    simulation: bool,
    details: dict[str, Any],
    trials: TrialDistribution | None = None,
) -> RegisteredPlan:
    """Compute the cost of a scheme, and calibrate its noise if none is given.

    Args:
        scheme_for: the scheme as a function of its noise multiplier.
        name: the run config's name.
        noise_multiplier: noise over clip norm; None calibrates the least (to six digits, rounded up) that fits.
        budget_epsilon: the cap on epsilon, in nats.
        delta: the delta of the claim, in (0, 1).
        relation: which data sets are neighbors.
        privacy_unit: what one neighbor differs in.
        population: how many such units there are.
        budget: scope, caps and the reason for delta, as stated.
        simulation: whether this is a seeded simulation.
        details: everything else that was fixed before the run.
        trials: the distribution of the number of runs if only the best is released; None for one run.

    Returns:
        A plan with a certified upper bound of at most ``budget_epsilon``. The bound is that of the release at ``delta
        (1 - OUTCOME_SHARE)``. The rest of delta covers the outcomes of the checks on hidden draws, which a report
        publishes with the model (see ``epsilog.verification.hidden``).

    Raises:
        CheckError: the scheme does not support the neighboring relation.
        CalibrationError: no noise meets the budget, or the noise that was given costs more than it.
    """
    cap = check.positive()(budget_epsilon=budget_epsilon)
    at = check.in_open_interval(0, 1)(delta=delta)
    noise_multiplier = check.optional(check.at_least(0))(noise_multiplier=noise_multiplier)
    trials = check.optional(check.instance_of(TrialDistribution))(trials=trials)
    _require_cost(scheme_for(1.0 if noise_multiplier is None else noise_multiplier), relation)
    if noise_multiplier is None:
        noise_multiplier = _least_noise(
            lambda z: wrap_best_of_trials(scheme_for(z).release(), trials), cap, _for_model(at), relation
        )
    scheme = scheme_for(noise_multiplier)
    interval = _with_outcomes(wrap_best_of_trials(scheme.release(), trials), at, relation)
    if not interval.upper <= cap:
        raise CalibrationError(
            f"noise_multiplier {noise_multiplier:g} costs epsilon {interval.upper:.6g} at delta {at:g}, "
            f"above the budget of {budget_epsilon}; use more noise, fewer rounds or a smaller sample"
        )
    share, sums = scheme.closed_form
    formula = federated_closed_form(
        sampling_probability=share, noise_multiplier=scheme.accounted_multiplier, rounds=sums, delta=at
    )
    return RegisteredPlan(
        name=name,
        guarantee=Guarantee(interval.upper, at, relation, privacy_unit, population),
        scheme=scheme,
        epsilon=interval,
        unamplified=epsilon(wrap_best_of_trials(scheme.unamplified_release(), trials), delta=at, relation=relation),
        closed_form=formula,
        budget=budget,
        simulation=check.boolean()(simulation=simulation),
        details=details,
        trials=trials,
    )


def _require_cost(scheme: Scheme, relation: NeighboringRelation) -> None:
    if relation not in scheme.relations:
        supported = " or ".join(each.value for each in scheme.relations)
        raise CheckError("relation", f"{supported} for {scheme.kind}", relation.value)


def _for_model(delta: float) -> float:
    return delta * (1 - OUTCOME_SHARE)


@lru_cache(maxsize=256)  # a run's report is built, rebuilt and compared: each asks for the whole curve
def _with_outcomes(release: Release, delta: float, relation: NeighboringRelation) -> Interval:
    """Bound epsilon at delta, reserving part of delta for the outcomes of checks on hidden draws."""
    alone = epsilon(release, delta=delta, relation=relation)
    return replace(alone, upper=epsilon(release, delta=_for_model(delta), relation=relation).upper)


def _least_noise(
    release_for: Callable[[float], Release], cap: float, delta: float, relation: NeighboringRelation
) -> float:
    """Return the least noise, to six digits, that meets the cap."""
    return calibrate(release_for, epsilon=cap, delta=delta, relation=relation, digits=DIGITS)
