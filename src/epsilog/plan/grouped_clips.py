"""Groups of parameters with clip norms of their own (multi-layer clipping): their joint sensitivity and noise.

Each group g of an update is clipped to C_g in L2 norm and gets Gaussian noise of standard deviation s_g. Divide the
coordinates of every group by its s_g, which changes nothing that can be learnt: the noise is then standard normal
throughout, and one unit moves the sum by a vector of norm at most sqrt(sum C_g^2 / s_g^2) =: mu, reached by a unit that
meets every clip norm. So all groups together are one Gaussian release of noise multiplier 1/mu, sampled or not (docs:
pitfalls).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from epsilog.plan.tables import Columns
from epsilog.terms import CheckError, check, codec
from epsilog.terms.digits import lower_text, upper_text

MOST_GROUPS = 1000
GROUPS = Columns(
    aliases={
        "name": ("name", "group", "layer", "parameters"),
        "clip_norm": ("clip_norm", "c", "clip"),
        "noise_stddev": ("noise_stddev", "s", "noise"),
    },
    plain=("name", "clip_norm", "noise_stddev"),
    words=("name",),
    row="group",
    most=MOST_GROUPS,
)


@dataclass(frozen=True, slots=True)
class ClipGroup:
    """Parameters that are clipped together.

    Attributes:
        name: what they are called.
        clip_norm: the L2 norm to which their part of an update is clipped (C_g).
        noise_stddev: standard deviation of the noise on their sum, in its own unit (s_g); None where all groups share
            one noise.
    """

    name: str
    clip_norm: float
    noise_stddev: float | None = None

    def __post_init__(self) -> None:
        check.fields(
            self,
            name=check.text(),
            clip_norm=check.positive(),
            noise_stddev=check.optional(check.at_least(0)),
        )


@dataclass(frozen=True, slots=True)
class GroupedNoise:
    """What groups of parameters come to as one release.

    Attributes:
        groups: the groups, each with its noise.
        sensitivity: the most that one unit moves the whole sum, in L2 norm, rounded up: sqrt(sum C_g^2).
        noise_multiplier: of the one Gaussian release that they are together, rounded down; 0 gives no privacy.
        shares: of each group in mu^2 = sum C_g^2 / s_g^2; they add up to 1. None without noise in every group.
        mistaken: the least s_g / C_g, which is what one gets by looking at each group alone: no bound for them all.
    """

    groups: tuple[ClipGroup, ...]
    sensitivity: float
    noise_multiplier: float
    shares: tuple[float, ...] | None
    mistaken: float

    @property
    def mu(self) -> float:
        """The mu of Gaussian DP of one release of all groups without sampling, rounded up."""
        return math.inf if self.noise_multiplier == 0 else math.nextafter(1 / self.noise_multiplier, math.inf)

    @property
    def says(self) -> str:
        """What the groups come to, and what a smaller clip norm does, in words."""
        if self.noise_multiplier == 0:
            return "A group without noise has no privacy, and so have all together."
        multiplier = lower_text(self.noise_multiplier, 4)
        several = (
            f"{len(self.groups)} groups together move the sum by up to {upper_text(self.sensitivity, 4)} and are one "
            f"release of noise multiplier {multiplier}; {lower_text(self.mistaken, 4)}, that of the worst group alone, "
            "is no bound."
        )
        one = f"One group: noise multiplier {multiplier}."
        return f"{several if len(self.groups) > 1 else one} {CLIP_SENTENCE}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; infinite numbers are the text "inf"."""
        shares = self.shares or [None] * len(self.groups)
        return {
            "groups": [
                {"name": one.name, "clip_norm": one.clip_norm, "noise_stddev": one.noise_stddev, "share": share}
                for one, share in zip(self.groups, shares, strict=True)
            ],
            "sensitivity": self.sensitivity,
            "noise_multiplier": self.noise_multiplier,
            "mu": codec.encode(self.mu),
            "mistaken": self.mistaken,
            "says": self.says,
        }


CLIP_SENTENCE = (
    "A smaller clip norm costs no privacy and buys none while the noise shrinks with it; well below the norms that "
    "updates have it bends the mean towards clients with small updates."
)


def clip_groups(groups: Sequence[ClipGroup], *, noise_stddev: float | None = None) -> GroupedNoise:
    """Makes one noise multiplier of groups of parameters with clip norms of their own.

    Args:
        groups: the groups, which share no parameter; each with its noise, or none with any.
        noise_stddev: standard deviation of one noise on every coordinate; None where each group has its own.

    Returns:
        The joint sensitivity and the noise multiplier that ``plan.federated`` takes, each rounded to the safe side.

    Source:
        McMahan, Ramage, Talwar & Zhang 2018, Sec. 3.2 (arXiv:1710.06963v3) for one noise; per-group noise by rescaling
        coordinates, in the module's docstring.

    >>> both = clip_groups([ClipGroup("embedding", 3.0), ClipGroup("head", 4.0)], noise_stddev=10.0)
    >>> both.sensitivity, both.noise_multiplier
    (5.0, 2.0)
    >>> own = clip_groups([ClipGroup("embedding", 3.0, noise_stddev=5.0), ClipGroup("head", 4.0, noise_stddev=5.0)])
    >>> own.noise_multiplier, own.mistaken
    (1.0, 1.25)
    """
    listed = check.each(check.instance(ClipGroup))(groups=groups)
    if not 1 <= len(listed) <= MOST_GROUPS:
        raise CheckError("groups", f"1 to {MOST_GROUPS} groups", f"{len(listed)}")
    if len({one.name for one in listed}) < len(listed):
        raise CheckError("groups", "of different names", ", ".join(one.name for one in listed)[:80])
    joint = check.optional(check.at_least(0))(noise_stddev=noise_stddev)
    for i, one in enumerate(listed):
        if joint is not None and one.noise_stddev is not None:
            raise CheckError(f"groups[{i}].noise_stddev", "blank where all share one noise", f"{one.noise_stddev}")
        if joint is None and one.noise_stddev is None:
            raise CheckError(f"groups[{i}].noise_stddev", "given, or one noise for all", "nothing")
    if joint is not None:
        listed = tuple(ClipGroup(one.name, one.clip_norm, joint) for one in listed)
    squares = [Fraction(one.clip_norm) ** 2 for one in listed]
    noises = [Fraction(one.noise_stddev or 0) for one in listed]
    sensitivity = _root_above(sum(squares, Fraction(0)))
    if not all(noises):
        return GroupedNoise(listed, sensitivity, 0.0, None, 0.0)
    ratios = [square / noise**2 for square, noise in zip(squares, noises, strict=True)]
    whole = sum(ratios, Fraction(0))
    return GroupedNoise(
        groups=listed,
        sensitivity=sensitivity,
        noise_multiplier=_root_below(1 / whole),
        shares=tuple(float(ratio / whole) for ratio in ratios),
        mistaken=_root_below(1 / max(ratios)),
    )


def read_groups(text: str) -> tuple[ClipGroup, ...]:
    r"""Reads a table of groups: name, clip norm and, where each has its own, standard deviation of the noise.

    Raises:
        CheckError: names the line and the column that is wrong.

    >>> [one.clip_norm for one in read_groups("embedding, 0.5\nhead, 1.0")]
    [0.5, 1.0]
    """
    return _made(GROUPS.read(text))


def groups_of(document: Any) -> tuple[ClipGroup, ...]:
    """Groups from plain values: a list of objects, or an object that holds one under ``groups``.

    Raises:
        CheckError: names the group and the field that is wrong.

    >>> groups_of({"groups": [{"name": "head", "clip_norm": 1.0}]})[0].name
    'head'
    """
    return _made(GROUPS.listed(document, "groups"))


def _made(rows: Sequence[tuple[dict[str, Any], Any]]) -> tuple[ClipGroup, ...]:
    found = []
    for given, at in rows:
        for name in ("name", "clip_norm"):
            if name not in given:
                raise CheckError(at(name), "given", "nothing")
        try:
            found.append(ClipGroup(**given))
        except CheckError as error:
            raise CheckError(at(error.field), error.bound, error.value, error.verb) from error
    return tuple(found)


def _root(square: Fraction) -> float:
    """Near the square root of a fraction, however large or small it is."""
    even = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    near = math.sqrt(float(square / Fraction(4) ** even))
    try:
        return math.ldexp(near, even)
    except OverflowError:
        return math.inf


def _root_above(square: Fraction) -> float:
    """The square root, rounded up."""
    found = _root(square)
    while math.isfinite(found) and Fraction(found) ** 2 < square:
        found = math.nextafter(found, math.inf)
    if math.isinf(found):
        raise CheckError("clip_norm", "within range", "clip norms beyond it")
    return found


def _root_below(square: Fraction) -> float:
    """The square root, rounded down."""
    found = min(_root(square), 1.7976931348623157e308)
    while found > 0 and Fraction(found) ** 2 > square:
        found = math.nextafter(found, 0.0)
    return found
