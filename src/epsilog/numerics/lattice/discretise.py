"""From pairs to a composition on one lattice, at the step that a plan names: above by ``connect``, below by ``merge``.

Any step is valid. Atoms decide how good one is: losses that share a lattice by nature keep it, one law's atoms are put
on the lattice, those of several laws are rounded to a finer one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from epsilog.numerics.lattice.composition import LatticeComposition, compose
from epsilog.numerics.lattice.law import Integers, LatticeLaw, connect, merge
from epsilog.numerics.lattice.planning import Sketch, lattice_points
from epsilog.numerics.laws.base import Atoms, Normal, Tent
from epsilog.numerics.laws.replaced import ReplacedLaplace
from epsilog.numerics.pairs import Direction, Outcomes, Pair, Parts
from epsilog.numerics.rounding import down, up

WIDEST = 25.0  # a step: e^loss stays finite on the lattice
_REFINED = 16  # times that a lattice is finer below, where several laws have atoms: these are rounded to it
_LONGEST_NATURAL = 2**19
_SHORTEST = 1e-150  # a step whose square a double holds

_PER_CELL = 20  # of composed frequencies: what walking over the cells above a lattice point costs
_MOST_WORK = 6_000_000  # after so much nothing is refined any more

Sketches = list[tuple[Sketch, int]]
Laws = list[tuple[LatticeLaw, int]]


class Plan(NamedTuple):
    """How to discretise one composition.

    Attributes:
        sketches: each pair cut coarsely, with its count.
        theta: the tilt.
        step: the lattice step that should meet the gap, in nats.
        tail: the mass that each round may lose at either end.
        near: about the epsilon in question.
        nats: how small, as -log, the errors of the composition should be.
        start: the nats that were planned at first.
    """

    sketches: Sketches
    theta: float
    step: float
    tail: float
    near: float
    nats: float
    start: float


class Work:
    """What one question has cost so far, and merged laws that it may need again.

    It is counted, in frequencies of one part that were looked at, and never timed: answers depend on no machine.
    """

    def __init__(self) -> None:
        self._spent, self._merged = 0, dict[Hashable, tuple[Pair, LatticeLaw]]()

    @property
    def done(self) -> bool:
        """Whether no more should be spent."""
        return self._spent > _MOST_WORK

    def add(self, cost: int) -> None:
        """Counts what was spent."""
        self._spent += cost

    def merged(self, pair: Pair, points: Integers, *, step: float, offset: float, coarse: float) -> LatticeLaw:
        """Merges outcomes, or finds that they were merged on this lattice before."""
        law: object = id(pair.law) if isinstance(pair.law, Atoms) else pair.law
        key = (law, pair.sampling_probability, pair.direction, points.tobytes(), step, offset, coarse)
        if key not in self._merged:
            self.add(_PER_CELL * len(points))
            self._merged[key] = pair, merge(pair, points, step=step, offset=offset, coarse=coarse)
        return self._merged[key][1]


def on_lattice(
    parts: Parts, sketches: Sketches, plan: Plan, fine: float, *, upper: bool, work: Work
) -> LatticeComposition:
    """Composes pairs at ``fine`` times the planned step (for the lower side less); ``sketches`` are those of the pairs.

    Raises:
        TooFineError: memory should not hold so many points; it carries what has been found so far.
    """
    wanted = min(plan.step * (fine if upper else 0.75 * fine), WIDEST)  # merging as done here errs about twice as far
    natural = _natural(parts, wanted)
    if natural is not None:
        step, exact = _exact(parts, natural[1], natural[0], upper=upper)
        return compose(exact, step=step, theta=plan.theta, near=plan.near, upper=upper, nats=plan.nats)
    refined = _REFINED if not upper and len(_spans(parts)) > 1 else 1
    step = _aligned(parts, 0.8 * wanted) / refined
    laws: Laws = []
    for (given, count), (part, _) in zip(parts, sketches, strict=True):
        if not upper and given.law.has_atoms and _span(given) < step and laws:
            continue  # too little to see on this lattice; leaving a release out can only lose
        pair = given if upper else _fitted(given, step)
        offset, every, tail = 0.0 if pair.direction is Direction.BOTH else pair.anchor(), 0, plan.tail
        if len(parts) > 1 and pair.direction is Direction.PLAIN and isinstance(pair.law, Normal):
            # cut where even the tilted law is next to nothing: edges ring through all frequencies
            tail = max(math.exp(-0.5 * (plan.theta * pair.law.mu + math.sqrt(2 * plan.nats + 30)) ** 2), 1e-290)
            every = refined
        points = lattice_points(
            pair, part, theta=plan.theta, step=step, spacing=wanted, offset=offset, tail=tail, every=every
        )
        if upper:
            law = connect(pair, points, step=step, offset=offset)
        else:
            law = work.merged(pair, points, step=step, offset=offset, coarse=0.99 / (plan.theta + 1))
        laws.append((law, count))
    return compose(laws, step=step, theta=plan.theta, near=plan.near, upper=upper, nats=plan.nats)


def _aligned(parts: Parts, step: float) -> float:
    """Fits the step to the one law with atoms there is, so that its lowest and highest atoms lie on the lattice."""
    spans = _spans(parts)
    span = spans.pop() if len(spans) == 1 else 0.0
    halves = 2 if any(isinstance(pair.law, ReplacedLaplace) for pair, _ in parts) else 1  # most of it may sit at 0
    return span / (halves * math.ceil(span / halves / step)) if span >= step else step


def _spans(parts: Parts) -> set[float]:
    """How far apart the lowest and the highest atoms are, of the laws that have atoms."""
    return {_span(pair) for pair, _ in parts if pair.law.has_atoms and pair.law.only_p == 0}


def _span(pair: Pair) -> float:
    low, high = pair.from_base(np.array(pair.law.ends()))
    return float(high - low)


def _fitted(pair: Pair, step: float) -> Pair:
    """A Laplace pair a little closer together, so that both atoms lie on the lattice: it can only lose less."""
    if not (isinstance(pair.law, Tent) and pair.direction is Direction.PLAIN and pair.law.top > 0):
        return pair
    whole = math.floor(2 * pair.law.epsilon / step * (1 + 1e-12))
    epsilon = min(pair.law.epsilon, whole * step / 2)
    return pair if whole == 0 else Pair(Tent(epsilon, 0.25 * math.exp(-epsilon / 2), 0.5))


def _natural(parts: Parts, wanted: float) -> tuple[float, list[Outcomes]] | None:
    """The step that all losses share by nature, if they do and a transform can hold it; two losses always do."""
    seen = [outcomes for pair, _ in parts if (outcomes := pair.outcomes()) is not None]
    if len(seen) < len(parts):
        return None
    if len(parts) == 1 and len(seen[0].low) == 2:
        step = float(seen[0].low[1] - seen[0].low[0])
    else:
        steps = {getattr(pair.law, "step", 0.0) if pair.direction is Direction.PLAIN else 0.0 for pair, _ in parts}
        step = steps.pop() if len(steps) == 1 else 0.0
    if step < _SHORTEST:
        return None
    spread = math.sqrt(sum(count * _variance(one) for one, (_, count) in zip(seen, parts, strict=True)))
    return (step, seen) if step >= wanted or 20 * spread / step < _LONGEST_NATURAL else None


def _variance(law: Outcomes) -> float:
    mean = float(np.sum(law.mass * law.low))
    return float(np.sum(law.mass * (law.low - mean) ** 2))


def _exact(parts: Parts, laws: list[Outcomes], step: float, *, upper: bool) -> tuple[float, Laws]:
    """Atoms that lie on a lattice already, and the step that it needs for each loss to be on the safe side.

    The first loss of each law lies on the lattice; the step is the least (below, the largest) at which no other is
    above (below) its place: so rounding moves each loss by a part of itself, and of the first.
    """
    exact: Laws = []
    steps = []
    for law, (_, count) in zip(laws, parts, strict=True):
        losses = law.high if upper else law.low
        factor = 1 + law.relative_error if upper else 1 - law.relative_error
        first = float(losses[0]) if len(losses) else 0.0
        index = np.rint((losses - first) / step).astype(np.int64)
        steps += ((losses - first)[index > 0] / index[index > 0]).tolist()
        exact.append((LatticeLaw(index, law.mass * factor, law.infinite[upper], first), count))
    safe = (up(max(steps), 2) if upper else down(min(steps), 2)) if steps else step
    return safe, exact
