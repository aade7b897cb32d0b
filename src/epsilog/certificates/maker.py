"""From a release to a certificate: the accountant's epsilon, hints in doubles, and the checker's verdict."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from epsilog import accounting
from epsilog.certificates.checker import FORMAT, check_certificate, open_checker
from epsilog.certificates.claim import describe_claim, restate_claim, write_claim
from epsilog.certificates.grids import (
    Aim,
    Outcomes,
    choose_grids,
    cut_at,
    find_crossing,
    model_losses,
    read_outcomes,
)
from epsilog.certificates.lines import LossDistribution, Weights, find_line, find_tilt, weigh
from epsilog.mechanisms import Release
from epsilog.terms import EpsilogError, Guarantee, NeighboringRelation, check
from epsilog.terms.formatting import format_decimal

DIGITS = 9  # of a claimed epsilon
_NO_DELTA = 1e-9  # for which hints are found where none is needed
_SHARES = (0.95, 0.5, 0.25, 0.1)  # of the margin, by attempt
_NEAR = 1 + 3e-4  # a given epsilon is proven if it exceeds the bound by this factor
_WIDEST = 0.7  # margin: more makes no sum shorter
MOST_BITS = 1024
_ROUNDING = 1e-8  # of epsilon, which must be above the largest loss
_FAINT = 1e-4  # of delta and the margin: what a cut tail may cost


class NotProvenError(EpsilogError):
    """No certificate was found for a claim: it may hold all the same, with more slack."""


@dataclass(frozen=True)
class Certificate:
    """A certificate that the checker has accepted.

    Attributes:
        text: the file, one line of ASCII without its line end.
        message: what the checker says of it.
        checker: SHA-256 of the checker's text.
    """

    text: str
    message: str
    checker: str

    @property
    def claim(self) -> dict[str, Any]:
        """What is proven: epsilon, delta, relation, group and releases."""
        return dict(json.loads(self.text)["claim"])

    @property
    def epsilon(self) -> float:
        """The epsilon that is proven, rounded up to a double."""
        found = Fraction(self.claim["epsilon"])
        return math.nextafter(float(found), math.inf) if Fraction(float(found)) < found else float(found)

    @property
    def sha256(self) -> str:
        """Hash of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The text, what it proves and its hash, as plain JSON values."""
        return {
            "certificate": self.text,
            "epsilon": self.epsilon,
            "sha256": self.sha256,
            "claim": describe_claim(self.claim),
            "message": self.message,
            "checker_sha256": self.checker,
        }


def certify_guarantee(release: Release, guarantee: Guarantee, *, delta: float) -> Certificate | None:
    """Make the certificate of a plan's claim, for the claimed epsilon if it is far enough above the bound.

    Args:
        release: what is released.
        guarantee: the claim: epsilon and relation.
        delta: the delta of the certificate: the claimed one without the share for the outcomes of checks.

    Returns:
        None where no certificate covers the release, or none was found.
    """
    return _certify(release, guarantee, check.in_open_interval(0, 1)(delta=delta))


@lru_cache(64)
def _certify(release: Release, guarantee: Guarantee, delta: float) -> Certificate | None:
    """The certificate; the same question is answered once."""
    relation = guarantee.relation
    with suppress(EpsilogError, ArithmeticError, ValueError):  # without a certificate a run is committed all the same
        known = accounting.epsilon(release, delta=delta, relation=relation).upper
        if guarantee.epsilon > _NEAR * known:
            with suppress(NotProvenError):
                return certificate(release, delta=delta, epsilon=guarantee.epsilon, relation=relation)
        return certificate(release, delta=delta, relation=relation)
    return None


def certificate(
    release: Release,
    *,
    delta: float,
    epsilon: float | None = None,
    slack: float = 1e-3,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    group_size: int = 1,
) -> Certificate:
    """Make a certificate: a proof of (epsilon, delta)-DP that a standalone checker accepts in a second.

    Args:
        release: what is released; outputs may steer later queries, parameters are fixed in advance.
        delta: failure probability, in [0, 1). With 0 no loss may exceed epsilon.
        epsilon: what is claimed, in nats; by default the accountant's upper bound and ``slack`` of it.
        slack: the claim's excess over the accountant's bound, as a share, in (0, 1).
        relation: the data sets that count as neighbors.
        group_size: units that one person holds.

    Raises:
        UnsupportedMechanismError: no certificate covers a part of the release under this relation.
        NotProvenError: no hints were found for the claim; it may hold all the same.

    Source:
        docs/accounting/certificates.md.

    >>> from epsilog.mechanisms import Gaussian, PoissonSampled, Repeated
    >>> found = certificate(Repeated(PoissonSampled(Gaussian(1.0), 0.01), 1000), delta=1e-5)
    >>> found.claim["epsilon"]
    '1.83006491'
    """
    delta = check.in_half_open_interval(0, 1)(delta=delta)
    slack = check.in_open_interval(0, 1)(slack=slack)
    known = accounting.epsilon(release, delta=delta, relation=relation, group_size=group_size).upper
    if epsilon is None:
        if not math.isfinite(known):
            raise NotProvenError("no finite epsilon is known for this release at this delta")
        stated = _round_up(known * (1 + (slack if delta > 0 else _ROUNDING)))
    else:
        stated = format_decimal(check.at_least(0, check.DOWN)(epsilon=epsilon))
    claim = write_claim(release, epsilon=stated, delta=delta, relation=relation, group_size=group_size)
    left = accounting.delta(release, epsilon=float(stated), relation=relation, group_size=group_size).upper
    margin = math.log(delta / max(left, 1e-300)) if delta > 0 else _WIDEST
    if margin <= 0:
        raise NotProvenError(f"epsilon {stated} is not above the accountant's bound of {known:.9g}")
    messages = []
    claims = [one for one in (claim, restate_claim(claim)) if one]
    for share, tried in itertools.product(_SHARES, claims):
        try:
            with np.errstate(all="ignore"):
                text = _write(tried, min(_WIDEST, share * margin), coarse=share == _SHARES[0])
        except (ArithmeticError, ValueError, IndexError) as problem:
            messages.append(f"the hints leave the range of doubles ({problem})")
            continue
        found = check_certificate(text)
        if found.proven:
            return Certificate(text, found.message, found.checker)
        messages.append(found.message)
    raise NotProvenError(f"no hints were found that prove epsilon {stated}; last attempt: {messages[-1]}")


def _round_up(number: float) -> str:
    """A decimal of a few digits that is no less."""
    return format_decimal(float(Context(prec=DIGITS, rounding=ROUND_CEILING).create_decimal(Decimal(number))))


def _write(claim: dict[str, Any], margin: float, *, coarse: bool) -> str:
    """A certificate with hints that spend about ``margin`` of the logarithm of delta; proven or not.

    If ``coarse``, more of it in an order of the neighbors whose delta seems far below the claimed one.
    """
    checker = open_checker()
    try:
        sketches, claimed = _read(checker, claim, 128)
        tilts = [_Tilt.of(sketch, claimed, margin, coarse=coarse) for sketch in sketches]
        bits = 8 * math.ceil((128 + max(tilt.bits for tilt in tilts)) / 8)
        exact, _ = _read(checker, claim, min(bits, MOST_BITS))
        lines = [_find_line(checker, reading, claimed, tilt) for reading, tilt in zip(exact, tilts, strict=True)]
    except checker["Refused"] as problem:
        raise NotProvenError(f"the checker refuses {_name_refused(checker, claim)}: {problem}") from None
    found = {"format": FORMAT, "claim": claim, "proof": {"bits": checker["B"], "lines": lines}}
    return json.dumps(found, separators=(",", ":"))


def _name_refused(checker: dict[str, Any], claim: dict[str, Any]) -> str:
    """The first release that the checker does not read, in words; or all of them."""
    for release in claim["releases"]:
        try:
            checker["read_releases"]([release], claim["relation"], claim["group"])
        except checker["Refused"]:
            (_, one), group = describe_claim({**claim, "releases": [release]})[-1], claim["group"]
            return f"{one}, under {claim['relation']}{f' for a group of {group}' if group > 1 else ''}"
    return "it"


class _Reading(NamedTuple):
    """How the checker reads one release for one order of the neighbors."""

    parts: Any
    share: Fraction
    way: str | None
    rounds: int


class _Goal(NamedTuple):
    """What the composition must satisfy: the claim, without what cut samples add to delta."""

    epsilon: float
    delta: float


def _read(checker: dict[str, Any], claim: dict[str, Any], bits: int) -> tuple[list[list[_Reading]], _Goal]:
    """The releases of a claim as the checker reads them at a precision, once for each order of the neighbors."""
    checker.update(B=bits, ONE=1 << bits, work=0)
    releases, cut = checker["read_releases"](claim["releases"], claim["relation"], claim["group"])
    ways = ("remove", "add") if any(bent for _, _, bent, _ in releases) else (None,)
    epsilon, delta = float(Fraction(claim["epsilon"])), float(Fraction(claim["delta"])) or _NO_DELTA
    left = delta - cut / (1 << bits) * (1 + math.exp(min(epsilon, 700)))
    if not left > 0:
        raise NotProvenError(f"samples are cut too often for delta {claim['delta']}")
    read = [[_Reading(parts, q, way if bent else None, count) for parts, q, bent, count in releases] for way in ways]
    return read, _Goal(epsilon, left)


@dataclass(frozen=True)
class _Tilt:
    """Where one order of the neighbors has its weight.

    Attributes:
        models: the outcomes of each release's mechanisms.
        theta: the tilt with the least Chernoff bound.
        weights: which outcomes matter.
        margin: by how much the logarithm of the bound may exceed that of delta.
        bits: how many more than usual the checker needs.
    """

    models: list[list[Outcomes]]
    theta: float
    weights: Weights
    margin: float
    bits: float

    @classmethod
    def of(cls, readings: list[_Reading], claim: _Goal, margin: float, *, coarse: bool) -> _Tilt:
        """Model one order of the neighbors."""
        epsilon, delta = claim
        rounds = sum(one.rounds for one in readings)
        negligible = max(1e-300, _FAINT * margin * delta / rounds)
        models = [[read_outcomes(part, 1 << 128, negligible, len(one.parts)) for part in one.parts] for one in readings]
        distributions = [
            model_losses(model, float(one.share), one.way, one.rounds)
            for model, one in zip(models, readings, strict=True)
        ]
        theta = find_tilt(distributions, epsilon)
        weights = weigh(distributions, epsilon, theta)
        spare = math.log(delta) - weights.log_delta - 1.0 if coarse else 0.0
        loss = max(
            float(np.abs(distribution.losses[distribution.tilt(theta)[1] > 1e-15]).max())
            for distribution in distributions
        )
        least = max(
            (-float(one.log_q.min()) for model in models for one in model if one.kind == "discrete"), default=0.0
        )
        bits = math.log2(1 / delta) + math.log2(rounds) / 2 + max(loss, least) / math.log(2)
        return cls(models, theta, weights, min(_WIDEST, max(margin, spare)), bits)


def _find_line(checker: dict[str, Any], readings: list[_Reading], claim: _Goal, tilt: _Tilt) -> list[Any]:
    """Grids and hints for one order of the neighbors."""
    epsilon, delta = claim
    first, rounds = tilt.models[0][0], sum(one.rounds for one in readings)
    if rounds == len(readings[0].parts) == 1 and first.kind == "normal":
        return [[cut_at(find_crossing(first, float(readings[0].share), readings[0].way, epsilon))]]
    grids, distributions, largest = [], [], 0.0
    for model, one, weights in zip(tilt.models, readings, tilt.weights.shares, strict=True):
        aim = Aim(tilt.theta, tilt.weights.curvature, one.rounds, 0.5 * tilt.margin / len(readings))
        chosen = choose_grids(model, float(one.share), one.way, weights=weights, aim=aim)
        distribution, _ = checker["distribution"](one.parts, one.share, one.way, iter(chosen))
        grids += chosen
        distributions.append(_read_losses(distribution, one.rounds, checker["B"]))
        largest += one.rounds * max((loss for _, loss in distribution), default=0) / checker["ONE"]
    if largest <= epsilon or rounds == 1:
        return [grids]
    theta, curvature = find_tilt(distributions, epsilon), tilt.weights.curvature
    hints, _ = find_line(distributions, epsilon, delta, theta=theta, curvature=curvature, margin=0.5 * tilt.margin)
    return [grids, *hints]


def _read_losses(distribution: Any, count: int, bits: int) -> LossDistribution:
    """The checker's integers as doubles."""
    kept = [(loss, mass) for mass, loss in distribution if mass > 0]
    losses = np.array([loss / (1 << bits) for loss, _ in kept])
    return LossDistribution(losses, np.array([math.log(mass) for _, mass in kept]) - bits * math.log(2), count)
