"""A release as a bag of single releases: composition is read in one place, so no method can forget a count."""

from __future__ import annotations

import math

from epsilog.terms import (
    BallsInBins,
    BinnedParticipation,
    Composed,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    MatrixMechanism,
    NeighboringRelation,
    PoissonSampled,
    Release,
    Repeated,
    ToeplitzStrategy,
    UnsupportedMechanismError,
)

_BINS = "balls-in-bins"


def flatten(release: Release) -> dict[Release, int]:
    """Counts the distinct single releases inside ``release``; order and nesting do not matter, no release is empty.

    >>> flatten(Repeated(Composed([Gaussian(1.0), Repeated(Gaussian(2.0), 3)]), 10))
    {Gaussian(noise_multiplier=1.0, sensitivity=1.0): 10, Gaussian(noise_multiplier=2.0, sensitivity=1.0): 30}
    """
    bag: dict[Release, int] = {}
    todo: list[tuple[Release, int]] = [(release, 1)]
    while todo:
        part, count = todo.pop()
        match part:
            case Repeated(release=inner, count=times):
                todo.append((inner, count * times))
            case Composed(releases=parts):
                todo.extend((inner, count) for inner in reversed(parts))
            case PoissonSampled(release=inner, sampling_probability=1):
                todo.append((inner, count))
            case BallsInBins(release=inner, bins=1, epochs=times):
                todo.append((inner, count * times))
            case MatrixMechanism(
                strategy=ToeplitzStrategy(coefficients=(scale, *others)),
                participation=BinnedParticipation(cycle_length=bins),
                rounds=rounds,
                noise_stddev=noise,
            ) if not any(others) and rounds % bins == 0:  # independent noise: one way of saying it
                todo.append((BallsInBins(Gaussian(noise / scale), bins, rounds // bins), count))
            case PoissonSampled(sampling_probability=0) | FixedSizeSampled(sample_size=0):
                pass
            case _:
                bag[part] = bag.get(part, 0) + count
    return bag


def gaussian_mu_of(release: Release, relation: NeighboringRelation) -> float | None:
    """The mu of a release that is a Gaussian mechanism (or states mu-GDP), else None.

    >>> gaussian_mu_of(Gaussian(0.5), NeighboringRelation.REPLACE_ONE)
    4.0
    """
    match release:
        case Gaussian(noise_multiplier=noise):
            far = 2.0 if relation is NeighboringRelation.REPLACE_ONE else 1.0
            return math.inf if noise == 0 else far / noise
        case GaussianDP(mu=mu):
            return mu
        case _:
            return None


def total_mu(release: Release, relation: NeighboringRelation) -> float | None:
    """The mu of a mix of Gaussians (0 for no release at all), None as soon as one part is something else.

    k Gaussians are one with mu^2 = sum mu_i^2; no square is formed that could underflow to nothing.

    >>> total_mu(Repeated(Gaussian(1e200), 4), NeighboringRelation.ADD_OR_REMOVE_ONE)
    2e-200
    """
    parts = [(gaussian_mu_of(part, relation), count) for part, count in flatten(release).items()]
    known = [math.sqrt(count) * mu for mu, count in parts if mu is not None]
    return math.hypot(*known) if len(known) == len(parts) else None


def bins_mu(release: BallsInBins, relation: NeighboringRelation) -> float:
    """The distance of the base Gaussians over the noise, all epochs of the same bins together.

    Raises:
        UnsupportedMechanismError: the base is not Gaussian, or the relation is replace-one.
    """
    if relation is NeighboringRelation.REPLACE_ONE:
        raise UnsupportedMechanismError(release, method=_BINS, reason=f"no pair is proven under {relation}")
    base = total_mu(release.release, relation)
    if base is None:
        raise UnsupportedMechanismError(release, method=_BINS, reason="only independent Gaussian noise is proven")
    return math.sqrt(release.epochs) * base
