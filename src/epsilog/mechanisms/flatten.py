"""A release as a bag of single releases: composition is read in one place, so no method can forget a count."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from epsilog import numerics
from epsilog.mechanisms.base import Release
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

__all__ = ["flatten"]

Bag = Mapping[Release, int]  # distinct single releases, with their counts

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_DEEPEST = 32  # samples, groups and trials in one another; each takes a dozen of Python's 1,000 frames
_MOST_ROUNDS = 10**100  # of one part; their products with losses and distances are doubles


def flatten(release: Release) -> dict[Release, int]:
    """Counts the distinct single releases inside ``release``; order and nesting do not matter, no release is empty.

    >>> from epsilog.mechanisms import Composed, Gaussian, Repeated
    >>> flatten(Repeated(Composed([Gaussian(1.0), Repeated(Gaussian(2.0), 3)]), 10))
    {Gaussian(noise_multiplier=1.0, sensitivity=1.0): 10, Gaussian(noise_multiplier=2.0, sensitivity=1.0): 30}
    """
    return _counted([(release, 1)])


def _counted(releases: Iterable[tuple[Release, int]]) -> dict[Release, int]:
    bag: dict[Release, int] = {}
    todo = list(releases)[::-1]
    while todo:
        part, count = todo.pop()
        if count > _MOST_ROUNDS:
            raise UnsupportedMechanismError(
                _innermost(part), method="accounting", reason="so many rounds are no number"
            )
        simpler = part.parts()
        if simpler is None:
            _require_shallow(part)
            bag[part] = bag.get(part, 0) + count
        else:
            todo.extend((inner, count * times) for inner, times in reversed(simpler))
    return bag


def _require_shallow(part: Release) -> None:
    """Refuses what no stack would hold; composition alone may be nested as deeply as one likes."""
    depth, inside = 0, [part]
    while deeper := list({id(one): one for outer in inside for one in outer.inner}.values()):
        depth, inside = depth + 1, deeper
    if depth > _DEEPEST:
        reason = f"more than {_DEEPEST} terms lie around it, one in another"
        raise UnsupportedMechanismError(inside[0], method="accounting", reason=reason)


def _innermost(release: Release) -> Release:
    while release.parts() is not None and len(release.inner) == 1:
        release = release.inner[0]
    return release


def sampled_parts(bag: Bag) -> tuple[Release, ...]:
    """The distinct parts that take some units and leave others out, or draw how much of one they take.

    >>> from epsilog.mechanisms import Composed, Gaussian, PoissonSampled, Repeated
    >>> sampled_parts(flatten(Composed([Gaussian(1.0), Repeated(PoissonSampled(Gaussian(2.0), 0.5), 3)])))
    (PoissonSampled(release=Gaussian(noise_multiplier=2.0, sensitivity=1.0), sampling_probability=0.5),)
    """
    return tuple(part for part in bag if part.is_amplified)


def unsampled(bag: Bag, parts: Collection[Release], relation: NeighboringRelation = _ADD_OR_REMOVE) -> Bag:
    """The same with every unit in each of ``parts``, in every round of them: it dominates (certified-bounds, 1.5).

    >>> from epsilog.mechanisms import Gaussian, PoissonSampled
    >>> unsampled({(part := PoissonSampled(Gaussian(2.0), 0.5)): 1}, [part])
    {Gaussian(noise_multiplier=2.0, sensitivity=1.0): 1}
    """
    chosen = frozenset(parts)
    return _counted((part.unsampled(relation) if part in chosen else part, count) for part, count in bag.items())


def total_mu(bag: Bag, relation: NeighboringRelation) -> float | None:
    """The mu of a mix of Gaussians (0 for no release at all), None as soon as one part is something else.

    k Gaussians are one with mu^2 = sum mu_i^2; no square is formed that could underflow to nothing.

    >>> from epsilog.mechanisms import Gaussian
    >>> total_mu({Gaussian(1e200): 4}, NeighboringRelation.ADD_OR_REMOVE_ONE)
    2e-200
    """
    parts = [(part.gaussian_mu(relation), count) for part, count in bag.items()]
    known = [math.sqrt(count) * mu for mu, count in parts if mu is not None]
    return math.hypot(*known) if len(known) == len(parts) else None


def check_absence(part: Release, base: Release, relation: NeighboringRelation) -> None:
    """Requires that a sampled base says what it releases without the unit, where its relation does not (docs, 1.8).

    Raises:
        UnsupportedMechanismError: under zero-out, a sampled statement, or a choice by scores or queries.
    """
    if relation is NeighboringRelation.ZERO_OUT and not all(one.states_absence for one in flatten(base)):
        reason = "under zero-out a statement compares a unit with nothing in its place, not with its absence"
        raise UnsupportedMechanismError(part, method="sampling", reason=reason)


def check_coins(part: Release, relation: NeighboringRelation) -> None:
    """Requires that given all coins a sample with the unit and one without differ in the unit alone (docs, 1.5).

    Raises:
        UnsupportedMechanismError: a sample of a fixed size, or reports that are shuffled, where neighbours do not
            replace one unit; reports that hide among fewer in a sample than in all; one unit's report that is sampled.
    """
    for one, outside in _samples(part, None):
        if one.fixes_population and relation is not NeighboringRelation.REPLACE_ONE:
            reason = f"a fixed number of units means replace-one, not {relation}"
            raise UnsupportedMechanismError(one, method="sampling", reason=reason)
        if one.is_shuffled and outside is not None:
            raise UnsupportedMechanismError(part, method="sampling", reason="of a sample fewer reports are shuffled")
        if outside is not None and outside.is_shuffled:
            raise UnsupportedMechanismError(
                part, method="sampling", reason="one unit's report is neither sampled nor shuffled"
            )


def require_unshuffled(part: Release, base: Release) -> None:
    """Requires that what is computed on a sample does not hide reports among each other.

    Raises:
        UnsupportedMechanismError: it does.
    """
    if any(one.is_shuffled for one in flatten(base)):
        reason = "of a sample fewer units' reports are shuffled"
        raise UnsupportedMechanismError(part, method=numerics.pairs.METHOD, reason=reason)


def _samples(part: Release, outside: Release | None) -> list[tuple[Release, Release | None]]:
    """All samples in a release, each with the one that it is drawn from."""
    here = [(part, outside)] if part.is_sample else []
    return [*here, *(found for one in part.inner for found in _samples(one, part if here else outside))]
