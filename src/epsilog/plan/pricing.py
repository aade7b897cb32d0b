"""What a schedule costs: one function for calculators, registered plans and runs alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from epsilog.accounting import FederatedClosedForm, epsilon
from epsilog.mechanisms import Composed, Release, Repeated
from epsilog.terms import Interval, NeighboringRelation, check, codec
from epsilog.terms.messages import Message

RELATIVE_WIDTH = 0.002  # relative width of an interval to aim for


class Scheduled(Protocol):
    """Rounds that are fixed beforehand: a ``Schedule``, or a scheme of training."""

    @property
    def rounds(self) -> int:
        """Return how many."""

    @property
    def noise_multiplier(self) -> float:
        """Noise over clip norm."""

    def after(self, rounds: int) -> Release:
        """Return what the first rounds release."""


def bound_schedule_epsilon(
    schedule: Scheduled | Sequence[Scheduled],
    delta: float,
    relation: NeighboringRelation,
    *,
    rounds: int | None = None,
    count: int = 1,
    relative_width: float = RELATIVE_WIDTH,
    group_size: int = 1,
) -> Interval:
    """Bound epsilon of a schedule, whole or up to a round; several are parts that run one after another.

    Without noise every sampled unit is exposed, so epsilon is infinite.

    Args:
        schedule: the rounds; a list of schedules changes between them.
        delta: failure probability, in [0, 1).
        relation: which data sets are neighbors.
        rounds: how many of the first rounds to include; None for all.
        count: how often the schedule is run.
        relative_width: the target relative width of the interval.
        group_size: units that differ.

    Raises:
        UnsupportedMechanismError: no proof covers a part under this relation.
    """
    delta = check.in_half_open_interval(0, 1, check.DOWN)(delta=delta)
    parts = list(schedule) if isinstance(schedule, Sequence) else [schedule]
    left = sum(part.rounds for part in parts) if rounds is None else check.integer(1)(rounds=rounds)
    releases = []
    for part in parts:
        taken = min(part.rounds, left)
        if taken and part.noise_multiplier == 0:
            return Interval(0.0, math.inf, Message("method/no-noise@1"), relation, given=(("delta", delta),))
        left -= taken
        releases += [part.after(taken)] if taken else []
    return epsilon(
        Repeated(Composed(releases), count),
        delta=delta,
        relation=relation,
        relative_width=relative_width,
        group_size=group_size,
    )


def formula_json(formula: FederatedClosedForm) -> dict[str, Any]:
    """Return the popular closed form as plain JSON values."""
    return {
        "root_term": codec.encode(formula.root_term),
        "linear_term": codec.encode(formula.linear_term),
        "total": codec.encode(formula.total),
        "dominant_term": formula.dominant_term,
        "side": "estimate",
    }
