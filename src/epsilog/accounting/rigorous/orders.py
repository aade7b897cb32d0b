"""From a release to its profiles: one list for each way in which neighbours can be ordered.

The reading of compositions, and what is refused, are the accountant's; no number of it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from epsilog.accounting.flatten import Bag, check_absence, flatten
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
from epsilog.mechanisms import (
    ApproximateDP,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Release,
    ReportNoisyMax,
    SparseVector,
)
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

    >>> [len(parts) for parts in orders(Gaussian(1.0), NeighboringRelation.ADD_OR_REMOVE_ONE).values()]
    [1]
    """
    bag = flatten(release)
    plain = _gaussians(bag, relation)
    sampled = {part: count for part, count in bag.items() if isinstance(part, PoissonSampled | FixedSizeSampled)}
    alone: list[tuple[Profile, int]] = [] if plain is None else [(plain, 1)]
    for part, count in bag.items():
        if part not in sampled and not isinstance(part, Gaussian | GaussianDP):
            base = _base(part, part, relation)
            alone += [] if base is None else [(base, count)]
    if not sampled:
        return {"either order": tuple(alone)}
    if relation is _REPLACE:
        return {"either order": (*alone, *_exchanged(sampled))}
    bent: dict[str, list[tuple[Profile, int]]] = {"remove": list(alone), "add": list(alone)}
    for part, count in sampled.items():
        if isinstance(part, FixedSizeSampled):
            raise _refused(part, f"a fixed size means replace-one, not {relation}")
        assert isinstance(part, PoissonSampled)
        check_absence(part, part.release, relation)
        base, share = _base(part.release, part, relation), Fraction(part.sampling_probability)
        if base is not None:
            bent["remove"].append((Removed(base, share), count))
            bent["add"].append((Added(base, share), count))
    return {order: tuple(parts) for order, parts in bent.items()}


def _refused(part: Release, reason: str) -> UnsupportedMechanismError:
    return UnsupportedMechanismError(part, method=METHOD, reason=reason)


def _gaussians(bag: Bag, relation: NeighboringRelation) -> Profile | None:
    """All Gaussians (and statements of mu) of a bag as one; None if there is none, or none that tells anything."""
    far = 2 if relation is _REPLACE else 1
    distances: list[tuple[Number, Number, int]] = []
    for part, count in bag.items():
        match part:
            case Gaussian(noise_multiplier=0):
                return Revealed()
            case Gaussian(noise_multiplier=noise):
                distances.append((far, noise, count))
            case GaussianDP(mu=mu) if mu > 0:
                distances.append((mu, 1, count))
            case _:
                pass
    return Shifted(tuple(distances)) if distances else None


def _exchanged(sampled: Mapping[PoissonSampled | FixedSizeSampled, int]) -> list[tuple[Profile, int]]:
    found: list[tuple[Profile, int]] = []
    for part, count in sampled.items():
        if isinstance(part, PoissonSampled):
            inner = flatten(part.release)
            if not all(isinstance(one, Gaussian) for one in inner):
                raise _refused(part, f"under {_REPLACE} Poisson sampling has a profile here over Gaussian noise only")
            base, share = _gaussians(inner, NeighboringRelation.ADD_OR_REMOVE_ONE), Fraction(part.sampling_probability)
            if isinstance(base, Shifted):
                found.append((Replaced(base, share), count))
            elif base is not None:  # no noise: whoever is in the sample is seen
                found.append((Statement(Fraction(0), share), count))
        elif isinstance(part, FixedSizeSampled):
            whole, share = _base(part.release, part, _REPLACE), Fraction(part.sample_size, part.population)
            if whole is not None:
                found.append((whole if share == 1 else Exchanged(whole, share), count))
    return found


def _base(  # noqa: PLR0912
    release: Release, part: Release, relation: NeighboringRelation
) -> Profile | None:
    """The profile of what is not sampled; None if it tells nothing. ``part`` is what is refused, if it is."""
    far = 2 if relation is _REPLACE else 1
    inner = flatten(release)
    if all(isinstance(one, Gaussian | GaussianDP) for one in inner):
        return _gaussians(inner, relation)
    match release.plainly():
        case Laplace(noise_multiplier=noise):
            return LaplaceShift(far, noise) if noise > 0 else Revealed()
        case DiscreteLaplace(noise_scale=scale, sensitivity=sensitivity):
            if far * sensitivity > _MOST_OUTCOMES:
                raise _refused(part, f"a shift of {far * sensitivity} steps has more outcomes than are looked at")
            return DiscreteShift(Fraction(scale), far * sensitivity) if scale > 0 else Revealed()
        case RandomizedResponse(flip_probability=flip, categories=categories):
            if relation is not _REPLACE:
                raise _refused(part, "its neighbours replace one unit")
            if flip == 0:
                return Revealed()
            return Answers(Fraction(flip), categories) if flip < 1 else None
        case ExponentialMechanism(epsilon=epsilon, monotone=monotone):
            spread: Fraction = Fraction(epsilon) / (2 if monotone else 1)
            return BoundedRange(spread) if spread > 0 else None
        case PureDP(epsilon=epsilon):
            return Statement(Fraction(epsilon)) if epsilon > 0 else None
        case ReportNoisyMax() as chosen:
            loss = chosen.pure_loss(relation)
            return Statement(loss) if loss > 0 else None
        case SparseVector() as sparse:
            bound = sparse.pure_loss(relation)
            return Revealed() if bound is None else Statement(bound)
        case ApproximateDP(epsilon=epsilon, delta=certain):
            return Statement(Fraction(epsilon), Fraction(certain)) if epsilon > 0 or certain > 0 else None
        case _:
            raise _refused(part, "it has no profile here")


__all__ = ["METHOD", "Number", "Parts", "orders"]
