"""From a release to its profiles: one list for each way in which neighbours can be ordered.

The reading of compositions, and what is refused, are the accountant's; no number of it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from epsilog.accounting.rigorous.profiles import (
    Added,
    Answers,
    BoundedRange,
    DiscreteShift,
    Exchanged,
    LaplaceShift,
    Number,
    Profile,
    Removed,
    Replaced,
    Revealed,
    Shifted,
    Statement,
)
from epsilog.mechanisms import Release
from epsilog.mechanisms.composition import Bag, check_absence, flatten
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

METHOD = "ball arithmetic"
Parts = tuple[tuple[Profile, int], ...]
"""Profiles that compose, with their counts."""

_REPLACE = NeighboringRelation.REPLACE_ONE
_MOST_OUTCOMES = 200


def orders(release: Release, relation: NeighboringRelation) -> dict[str, Parts]:
    """The profiles of a release by the order in which neighbours differ; the worst order counts.

    Raises:
        UnsupportedMechanismError: a part has no profile here under this relation.

    >>> from epsilog.mechanisms import Gaussian
    >>> [len(parts) for parts in orders(Gaussian(1.0), NeighboringRelation.ADD_OR_REMOVE_ONE).values()]
    [1]
    """
    bag = flatten(release)
    sampled = {part: count for part, count in bag.items() if part.exact_share is not None}
    alone = _unsampled({part: count for part, count in bag.items() if part not in sampled}, relation)
    if not sampled:
        return {"either order": tuple(alone)}
    if relation is _REPLACE:
        found = [(_exchanged(part), count) for part, count in sampled.items()]
        return {"either order": (*alone, *((one, count) for one, count in found if one is not None))}
    bent: dict[str, list[tuple[Profile, int]]] = {"remove": list(alone), "add": list(alone)}
    for part, count in sampled.items():
        if part.fixes_population:
            raise _refused(part, f"a fixed size means replace-one, not {relation}")
        check_absence(part, part.inner[0], relation)
        if (base := _on_sample(part, relation)) is not None:
            bent["remove"].append((Removed(base, _share(part)), count))
            bent["add"].append((Added(base, _share(part)), count))
    return {order: tuple(parts) for order, parts in bent.items()}


def _refused(part: Release, reason: str) -> UnsupportedMechanismError:
    return UnsupportedMechanismError(part, method=METHOD, reason=reason)


def _share(part: Release) -> Fraction:
    assert part.exact_share is not None
    return part.exact_share


def _unsampled(bag: Bag, relation: NeighboringRelation) -> list[tuple[Profile, int]]:
    """The profiles of what is not sampled; all Gaussians, and statements of mu, are one."""
    distances: list[tuple[Number, Number, int]] = []
    found: list[tuple[Profile, int]] = []
    for part, count in bag.items():
        match part.exact_law(relation):
            case None:
                continue
            case ("all",):
                return [(Revealed(), 1)]
            case "gaussian", far, noise:
                distances.append((far, noise, count))
            case "discrete-laplace", _, shift if shift > _MOST_OUTCOMES:
                raise _refused(part, f"a shift of {shift} steps has more outcomes than are looked at")
            case family, *parameters:
                found.append((_FAMILIES[family](*parameters), count))
    return [(Shifted(tuple(distances)), 1), *found] if distances else found


_FAMILIES: dict[str, Callable[..., Profile]] = {
    "laplace": LaplaceShift,
    "discrete-laplace": DiscreteShift,
    "answers": Answers,
    "bounded-range": BoundedRange,
    "statement": Statement,
}
"""The profiles of exact laws; all Gaussians are one, and what gives all away is ``Revealed``."""


def _on_sample(part: Release, relation: NeighboringRelation) -> Profile | None:
    """The profile of what is computed on a sample; None if it tells nothing."""
    match _unsampled(flatten(*part.inner), relation):
        case []:
            return None
        case [(one, 1)]:
            return one
    raise _refused(part, "several releases on one sample have no profile here")


def _exchanged(part: Release) -> Profile | None:
    """The profile of a sample in which one unit is exchanged for another."""
    share = _share(part)
    if part.fixes_population:
        whole = _on_sample(part, _REPLACE)
        return whole if whole is None or share == 1 else Exchanged(whole, share)
    if not (inner := flatten(*part.inner)):
        return None
    base = _on_sample(part, NeighboringRelation.ADD_OR_REMOVE_ONE)
    if isinstance(base, Revealed):  # whoever is in the sample is seen
        return Statement(Fraction(0), share)
    if not isinstance(base, Shifted) or not all(one.states_absence for one in inner):
        raise _refused(part, f"under {_REPLACE} Poisson sampling has a profile here over Gaussian noise only")
    return Replaced(base, share)


__all__ = ["METHOD", "Number", "Parts", "orders"]
