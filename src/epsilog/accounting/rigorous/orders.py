"""From a release to its profiles: one list for each way in which neighbors can be ordered.

The reading of compositions, and what is refused, are the accountant's; no number of it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from epsilog.accounting.rigorous.profiles import (
    ApproximateDPProfile,
    BallProfile,
    BoundedRangeProfile,
    DiscreteLaplaceProfile,
    FixedSizeReplaceProfile,
    GaussianProfile,
    LaplaceProfile,
    NonPrivateProfile,
    Number,
    PoissonAddProfile,
    PoissonRemoveProfile,
    PoissonReplaceProfile,
    RandomizedResponseProfile,
)
from epsilog.mechanisms import Release
from epsilog.mechanisms.composition import ReleaseCounts, flatten, require_absent_output
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

METHOD = "ball arithmetic"
Parts = tuple[tuple[BallProfile, int], ...]
"""Profiles that compose, with their counts."""

_REPLACE = NeighboringRelation.REPLACE_ONE
_MOST_OUTCOMES = 200


def list_profiles(release: Release, relation: NeighboringRelation) -> dict[str, Parts]:
    """The profiles of a release by the order in which neighbors differ; the worst order counts.

    Raises:
        UnsupportedMechanismError: a part has no profile here under this relation.

    >>> from epsilog.mechanisms import Gaussian
    >>> [len(parts) for parts in list_profiles(Gaussian(1.0), NeighboringRelation.ADD_OR_REMOVE_ONE).values()]
    [1]
    """
    counts = flatten(release)
    sampled = {part: count for part, count in counts.items() if part.exact_share is not None}
    alone = _list_profiles({part: count for part, count in counts.items() if part not in sampled}, relation)
    if not sampled:
        return {"either order": tuple(alone)}
    if relation is _REPLACE:
        found = [(_build_exchanged_profile(part), count) for part, count in sampled.items()]
        return {"either order": (*alone, *((one, count) for one, count in found if one is not None))}
    bent: dict[str, list[tuple[BallProfile, int]]] = {"remove": list(alone), "add": list(alone)}
    for part, count in sampled.items():
        if part.fixes_population:
            raise _build_refusal(part, f"a fixed size means replace-one, not {relation}")
        require_absent_output(part, part.inner[0], relation)
        if (base := _on_sample(part, relation)) is not None:
            bent["remove"].append((PoissonRemoveProfile(base, _share(part)), count))
            bent["add"].append((PoissonAddProfile(base, _share(part)), count))
    return {order: tuple(parts) for order, parts in bent.items()}


def _build_refusal(part: Release, reason: str) -> UnsupportedMechanismError:
    return UnsupportedMechanismError(part, method=METHOD, reason=reason)


def _share(part: Release) -> Fraction:
    assert part.exact_share is not None
    return part.exact_share


def _list_profiles(counts: ReleaseCounts, relation: NeighboringRelation) -> list[tuple[BallProfile, int]]:
    """The profiles of what is not sampled; all Gaussians, and statements of mu, are one."""
    distances: list[tuple[Number, Number, int]] = []
    found: list[tuple[BallProfile, int]] = []
    for part, count in counts.items():
        match part.exact_pair(relation):
            case None:
                continue
            case ("all",):
                return [(NonPrivateProfile(), 1)]
            case "gaussian", far, noise:
                distances.append((far, noise, count))
            case "discrete-laplace", _, shift if shift > _MOST_OUTCOMES:
                raise _build_refusal(part, f"a shift of {shift} steps has more outcomes than are looked at")
            case family, *parameters:
                found.append((_FAMILIES[family](*parameters), count))
    return [(GaussianProfile(tuple(distances)), 1), *found] if distances else found


_FAMILIES: dict[str, Callable[..., BallProfile]] = {
    "laplace": LaplaceProfile,
    "discrete-laplace": DiscreteLaplaceProfile,
    "answers": RandomizedResponseProfile,
    "bounded-range": BoundedRangeProfile,
    "statement": ApproximateDPProfile,
}
"""Return the profiles of exact pairs; all Gaussians are one, and infinity mass is ``NonPrivateProfile``."""


def _on_sample(part: Release, relation: NeighboringRelation) -> BallProfile | None:
    """Return the profile of a sampled release; None if it releases nothing."""
    match _list_profiles(flatten(*part.inner), relation):
        case []:
            return None
        case [(one, 1)]:
            return one
    raise _build_refusal(part, "several releases on one sample have no profile here")


def _build_exchanged_profile(part: Release) -> BallProfile | None:
    """The profile of a sample in which one unit is exchanged for another."""
    share = _share(part)
    if part.fixes_population:
        sampled = _on_sample(part, _REPLACE)
        return sampled if sampled is None or share == 1 else FixedSizeReplaceProfile(sampled, share)
    if not (inner := flatten(*part.inner)):
        return None
    base = _on_sample(part, NeighboringRelation.ADD_OR_REMOVE_ONE)
    if isinstance(base, NonPrivateProfile):  # every sampled unit is exposed
        return ApproximateDPProfile(Fraction(0), share)
    if not isinstance(base, GaussianProfile) or not all(one.states_absence for one in inner):
        raise _build_refusal(part, f"under {_REPLACE} Poisson sampling has a profile here over Gaussian noise only")
    return PoissonReplaceProfile(base, share)


__all__ = ["METHOD", "Number", "Parts", "list_profiles"]
