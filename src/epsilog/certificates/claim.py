"""The claim of a certificate: written from a release, so that both can be compared field by field."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from epsilog.mechanisms import Release
from epsilog.mechanisms.composition import flatten
from epsilog.numerics.rounding import round_outward
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError, check
from epsilog.terms.formatting import format_decimal

METHOD = "a certificate"
MOST_RELEASES, MOST_MECHANISMS = 1000, 16  # of one claim, and on one sample


def write_claim(
    release: Release,
    *,
    epsilon: str,
    delta: float,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    group_size: int = 1,
) -> dict[str, Any]:
    """Write what a certificate claims of a release, in the fields and order of dp-certificate/1.

    Args:
        release: what is released.
        epsilon: what is claimed, in nats, as a decimal.
        delta: failure probability, in [0, 1).
        relation: the data sets that count as neighbors.
        group_size: units that one person holds.

    Raises:
        UnsupportedMechanismError: no certificate covers a part of it.

    >>> from epsilog.mechanisms import Gaussian, PoissonSampled, Repeated
    >>> sgd = Repeated(PoissonSampled(Gaussian(1.0), 0.01), 1000)
    >>> write_claim(sgd, epsilon="1.83", delta=1e-5)["releases"]
    [{'mechanisms': [{'type': 'gaussian', 'noise_multiplier': '1'}], 'poisson': '0.01', 'count': 1000}]
    """
    delta = check.in_half_open_interval(0, 1)(delta=delta)
    group_size = check.integer(1)(group_size=group_size)
    relation = check.enum_member(NeighboringRelation)(relation=relation)
    counts = _list_singles(check.instance_of(Release)(release=release))
    group = next((part.group for part in counts if part.group), None)
    if group:
        if len(counts) > 1:
            raise UnsupportedMechanismError(release, method=METHOD, reason="a group is not all of it")
        (count,) = counts.values()
        counts = {part: count * times for part, times in _list_singles(group[0]).items()}
        group_size *= group[1]
    releases = [_write_release(part, count, relation, pure=delta == 0) for part, count in counts.items()]
    if not 1 <= len(releases) <= MOST_RELEASES:
        reason = f"a claim holds 1 to {MOST_RELEASES} different releases"
        raise UnsupportedMechanismError(release, method=METHOD, reason=reason)
    return {
        "epsilon": epsilon,
        "delta": format_decimal(delta),
        "relation": relation.value,
        "group": group_size,
        "releases": releases,
    }


def restate_claim(claim: dict[str, Any]) -> dict[str, Any] | None:
    """The same claim with each unsampled mechanism of bounded range stated as zCDP, which composes better; or None.

    Source:
        Cesar & Rogers 2021 (arXiv:2004.07223), Lemma 3.2: losses within a range of r are (r^2 / 8)-zCDP.

    >>> from epsilog.mechanisms import ExponentialMechanism
    >>> restate_claim(write_claim(ExponentialMechanism(0.5), epsilon="1", delta=1e-5))["releases"]
    [{'mechanisms': [{'type': 'zcdp', 'rho': '0.03125'}], 'poisson': '1', 'count': 1}]
    """
    found = {**claim, "releases": [_restate_release(release) for release in claim["releases"]]}
    return None if found == claim else found


def _restate_release(release: dict[str, Any]) -> dict[str, Any]:
    """One release with its statements of a bounded range as zCDP."""
    if release["poisson"] != "1":
        return release
    restated = [
        {"type": "zcdp", "rho": format_decimal(round_outward(Fraction(one["range"]) ** 2 / 8, up=True))}
        if one["type"] == "bounded-range"
        else one
        for one in release["mechanisms"]
    ]
    return {**release, "mechanisms": restated}


def describe_claim(claim: dict[str, Any]) -> list[tuple[str, str]]:
    """Describe a claim in names and values; a page derives the same from its certificate and compares them.

    >>> from epsilog.mechanisms import Gaussian
    >>> describe_claim(write_claim(Gaussian(2.0), epsilon="3", delta=1e-5))[-1]
    ('1 release', 'gaussian (noise_multiplier 2)')
    """
    rows = [("epsilon", claim["epsilon"]), ("delta", claim["delta"])]
    rows += [("neighboring relation", claim["relation"]), ("units of one person", str(claim["group"]))]
    for release in claim["releases"]:
        named = [
            f"{one['type']} ({', '.join(f'{name} {value}' for name, value in one.items() if name != 'type')})"
            for one in release["mechanisms"]
        ]
        sample = "" if release["poisson"] == "1" else f", in samples of {release['poisson']}"
        count = release["count"]
        rows.append((f"{count} {'release' if count == 1 else 'releases'}", " and ".join(named) + sample))
    return rows


def _list_singles(release: Release) -> dict[Release, int]:
    """Count the distinct single releases; one that is only known between two others counts as the weaker of them."""
    counts: dict[Release, int] = {}
    for part, count in flatten(release).items():
        found = part.between()
        for one, times in (flatten(found[0]) if found else {part: 1}).items():
            counts[one] = counts.get(one, 0) + count * times
    return counts


def _write_release(part: Release, count: int, relation: NeighboringRelation, *, pure: bool) -> dict[str, Any]:
    """One release with its sample; if ``pure``, discrete noise by its largest loss, since a grid cuts its tail."""
    sample = part.claimed_sample
    inside = {part: 1} if sample is None else _list_singles(*part.inner)
    if sum(inside.values()) > MOST_MECHANISMS:
        reason = f"there are more than {MOST_MECHANISMS} mechanisms on one sample"
        raise UnsupportedMechanismError(part, method=METHOD, reason=reason)
    mechanisms = [
        (Release.claim if pure and one.pure_loss(relation) is not None else type(one).claim)(one, relation)
        for one, times in inside.items()
        for _ in range(times)
    ]
    return {"mechanisms": mechanisms, "poisson": sample or "1", "count": count}
