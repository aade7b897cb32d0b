"""The DP-SGD calculator: what a training run costs with the loader that it really has."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any

from epsilog.accounting import calibrate
from epsilog.mechanisms import Gaussian, PoissonSampled, Release, Repeated, TruncatedPoissonSampled
from epsilog.plan.interpretation import bound_attack
from epsilog.plan.pricing import RELATIVE_WIDTH, bound_schedule_epsilon
from epsilog.plan.sentences import grade_delta
from epsilog.plan.verdict import FPR, count_units, write_found, write_guessing
from epsilog.terms import CheckError, Interval, NeighboringRelation, check, codec, fields, parameters
from epsilog.terms.formatting import format_upper
from epsilog.terms.messages import Message
from epsilog.terms.notebook import render_html_table

PRIVACY_UNIT = "example"
NOISE_DIGITS = 4  # of a noise multiplier that is sought


@fields.document_fields
@dataclass(frozen=True, slots=True)
class DPSGDRun:
    """The public facts of a DP-SGD run, without its cost."""

    examples: Annotated[int, parameters.EXAMPLES]
    batch_size: Annotated[int, parameters.BATCH_SIZE]
    noise_multiplier: Annotated[float, parameters.NOISE_MULTIPLIER]
    epochs: Annotated[float | None, parameters.EPOCHS] = None
    steps: Annotated[int | None, parameters.STEPS] = None
    sampler: Annotated[str, parameters.LOADER] = "poisson"
    max_batch_size: Annotated[int | None, parameters.MAX_BATCH_SIZE] = None
    clip_norm: Annotated[float, parameters.CLIP_NORM] = 1.0

    def __post_init__(self) -> None:
        check.check_fields(self)
        if (self.epochs is None) == (self.steps is None):
            raise CheckError("epochs", "given, or else steps", "neither" if self.epochs is None else "both")
        truncated = self.sampler == "truncated-poisson"
        if truncated == (self.max_batch_size is None):
            bound = "given with truncated Poisson batches" if truncated else "left out where no batch is truncated"
            raise CheckError("max_batch_size", bound, f"{self.max_batch_size}")

    @property
    def sampling_probability(self) -> float:
        """Return the chance that an example joins a Poisson batch (q = B / N)."""
        return self.batch_size / self.examples

    @property
    def updates(self) -> int:
        """Return the noisy steps: as given, or epochs times size over batch size, rounded up."""
        if self.steps is not None:
            return self.steps
        return math.ceil(Fraction(repr(self.epochs)) * self.examples / self.batch_size)

    @property
    def passes(self) -> int:
        """Return how often shuffled batches use an example at most: an epoch that was begun counts."""
        if self.steps is None:
            return math.ceil(self.epochs or 0)
        return -(-self.steps // (self.examples // self.batch_size))  # as if the last, smaller batch were dropped

    @property
    def rounds(self) -> int:
        """Return the number of releases that compose: steps, or epochs if nothing is amplified."""
        return self.passes if self.sampler == "shuffled" else self.updates

    def choose_relation(self, relation: NeighboringRelation | None) -> NeighboringRelation:
        """Return the neighboring relation, or the loader's usual one.

        Raises:
            CheckError: a removed example would move the others to other batches.
        """
        if self.sampler != "shuffled":
            return relation or NeighboringRelation.ADD_OR_REMOVE_ONE
        if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
            bound = "zero-out or replace-one with shuffled batches: a removed example would move the others"
            raise CheckError("relation", bound, relation.value)
        return relation or NeighboringRelation.ZERO_OUT

    def after(self, rounds: int) -> Release:
        """Return the first releases as one."""
        noise = Gaussian(self.noise_multiplier)
        step: Release = PoissonSampled(noise, self.sampling_probability)
        if self.sampler == "shuffled":
            step = noise  # each example is in one batch of an epoch; no amplification is proven
        if self.max_batch_size is not None:
            step = TruncatedPoissonSampled(noise, self.sampling_probability, self.examples, self.max_batch_size)
        return Repeated(step, rounds)

    def release(self) -> Release:
        """Return the whole run as one release."""
        return self.after(self.rounds)


@dataclass(frozen=True, slots=True)
class DPSGDPlan:
    """A DP-SGD run with its cost.

    Attributes:
        run: the public facts.
        delta: the failure probability.
        relation: which data sets are neighbors; one differs in one example.
        epsilon: the certified interval.
        other: the same run with the other loader.
        other_relation: the neighboring relation of that.
        other_epsilon: the certified interval of that.
    """

    run: DPSGDRun
    delta: float
    relation: NeighboringRelation
    epsilon: Interval
    other: DPSGDRun
    other_relation: NeighboringRelation
    other_epsilon: Interval

    @property
    def release(self) -> Release:
        """Return the release for accounting; without noise every example is exposed."""
        run = self.run
        return run.release() if run.noise_multiplier > 0 else Repeated(Gaussian(0.0), run.rounds)

    def count_found(self) -> int | None:
        """Count the examples of 1,000 that the best attack may find, where it wrongly accuses 10 of 1,000 others.

        None without a proof. This takes longer than epsilon.
        """
        if self.run.noise_multiplier == 0:
            return count_units(1.0)
        attack = bound_attack(self.release, delta=self.delta, relation=self.relation)
        return next((count_units(point["tpr"]) for point in attack if point["fpr"] == FPR), None)

    def write_meaning(self, found: int | None) -> tuple[Message, ...]:
        """Return what the best attack finds, beside guessing; nothing without a proof."""
        if found is None:
            return ()
        return write_found(found, PRIVACY_UNIT, self.relation), write_guessing(PRIVACY_UNIT)

    @property
    def loader_note(self) -> Message:
        """Return what the other loader would cost, or save."""
        kind = "shuffled" if self.run.sampler == "shuffled" else "poisson"
        return Message.of(f"loader/{kind}", other=self.other_epsilon.upper)

    def _repr_html_(self) -> str:
        run = self.run
        rows = [
            ("epsilon", format_upper(self.epsilon.upper, 3), f"certified, at delta {format_upper(self.delta)}"),
            ("noise multiplier", format_upper(run.noise_multiplier), f"{run.updates:,} steps, loader {run.sampler}"),
            ("other loader", format_upper(self.other_epsilon.upper, 3), f"{self.other.sampler}"),
            ("what it means", "", " ".join(map(str, (*self.write_meaning(self.count_found()), self.loader_note)))),
        ]
        return render_html_table(f"one example, {self.relation}", rows)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; infinite numbers are the text "inf"."""
        grade, sentence = grade_delta(self.delta, self.run.examples)
        return fields.write_fields(self.run) | {
            "steps": self.run.updates,
            "passes": self.run.passes,
            "sampling_probability": None if self.run.sampler == "shuffled" else self.run.sampling_probability,
            "noise_stddev": self.run.noise_multiplier * self.run.clip_norm / self.run.batch_size,
            "delta": self.delta,
            "delta_grade": grade,
            "delta_sentence": sentence,
            "relation": self.relation.value,
            "epsilon": codec.encode(self.epsilon),
            "other_sampler": self.other.sampler,
            "other_epsilon": codec.encode(self.other_epsilon),
            "loader_note": self.loader_note.to_json(),
        }


def plan_dp_sgd(
    *,
    examples: int,
    batch_size: int,
    delta: float,
    epochs: float | None = None,
    steps: int | None = None,
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
    clip_norm: float = 1.0,
    sampler: str = "poisson",
    max_batch_size: int | None = None,
    relation: NeighboringRelation | None = None,
) -> DPSGDPlan:
    """Compute the cost of a DP-SGD run with the loader that it really has, or find its noise.

    Args:
        examples: number of examples in the data set; public (N).
        batch_size: expected number of examples in a batch (B).
        delta: failure probability, in (0, 1).
        epochs: passes over the data; the steps are epochs times N / B, rounded up.
        steps: noisy steps, instead of epochs.
        noise_multiplier: noise standard deviation of a batch's sum, divided by the clip norm.
        epsilon: the goal, instead of the noise multiplier: the least noise that meets it, at four digits.
        clip_norm: L2 clip norm of an example's gradient; does not affect epsilon.
        sampler: "poisson", "truncated-poisson" or "shuffled": how the loader forms batches.
        max_batch_size: size to which a Poisson batch is truncated.
        relation: neighboring relation; blank: add-or-remove-one, and zero-out for shuffled batches.

    Returns:
        The plan; only ``epsilon.upper`` may be claimed.

    Raises:
        CalibrationError: no noise meets the goal.
        UnsupportedMechanismError: no proof covers the loader under this relation.

    >>> plan = plan_dp_sgd(examples=60_000, batch_size=256, epochs=60, noise_multiplier=1.1, delta=1e-5)
    >>> plan.run.updates, round(plan.epsilon.upper, 2), round(plan.other_epsilon.upper, 1)
    (14063, 2.38, 54.0)
    >>> print(*plan.write_meaning(plan.count_found()))
    The best attack could pick out at most 41 of 1,000 examples. Guessing finds 10. Both wrongly accuse 10 of 1,000 \
examples outside the data.
    """
    goal = check.optional(parameters.EPSILON.rule(float))(epsilon=epsilon)
    if (noise_multiplier is None) == (goal is None):
        raise CheckError("noise_multiplier", "given, or else epsilon", "neither" if epsilon is None else "both")
    delta = check.in_open_interval(0, 1, check.DOWN)(delta=delta)
    relation = check.optional(check.enum_member(NeighboringRelation))(relation=relation)
    noise = 1.0 if noise_multiplier is None else noise_multiplier
    run = DPSGDRun(examples, batch_size, noise, epochs, steps, sampler, max_batch_size, clip_norm)
    neighbors = run.choose_relation(relation)
    if goal is not None:
        found = calibrate(
            lambda noise: replace(run, noise_multiplier=noise).release(),
            epsilon=goal, delta=delta, relation=neighbors, digits=NOISE_DIGITS, relative_width=RELATIVE_WIDTH,
        )  # fmt: skip
        run = replace(run, noise_multiplier=found)
    other = replace(run, sampler="poisson" if run.sampler == "shuffled" else "shuffled", max_batch_size=None)
    other_relation = other.choose_relation(None if relation is NeighboringRelation.ADD_OR_REMOVE_ONE else relation)
    return DPSGDPlan(
        run=run,
        delta=delta,
        relation=neighbors,
        epsilon=bound_schedule_epsilon(run, delta, neighbors),
        other=other,
        other_relation=other_relation,
        other_epsilon=bound_schedule_epsilon(other, delta, other_relation),
    )
