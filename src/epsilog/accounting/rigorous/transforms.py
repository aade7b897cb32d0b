"""Moments E_P[e^(z L)] on a line z = theta + i w, in balls: Gaussian, Laplace, outcomes, Poisson-sampled Gaussian.

The last has no closed form. It takes a trapezoid rule on exact nodes, with an error bounded by a strip of analyticity,
and a scan that proves how small the tilted characteristic function is beyond any frequency. Docs: accounting/rigorous,
section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from epsilog.accounting.rigorous.balls import (
    acb,
    acb_mat,
    arb,
    error_ball,
    hull,
    is_at_most,
    make_ball,
    midpoint,
    square_ball,
)
from epsilog.accounting.rigorous.connect_dots import NoProofError
from epsilog.accounting.rigorous.plan import round_to_few_bits
from epsilog.accounting.rigorous.profiles import (
    ApproximateDPProfile,
    BallProfile,
    GaussianProfile,
    LaplaceProfile,
    PoissonAddProfile,
    PoissonRemoveProfile,
    RandomizedResponseProfile,
)

_WIDTHS = np.geomspace(0.003, 3.0, 60)  # of strips, in radians; below pi
_MOST_NODES = 400_000
_MOST_TERMS = 40_000_000
_MOST_CELLS = 30_000
_MOST_LOOKED = 600_000  # nodes of all looks together


class MomentLine(Protocol):
    """The moments of one loss on one line."""

    def at_zero(self) -> arb:
        """The moment at w = 0."""
        ...

    def along(self, step: float, count: int, nats: float) -> list[acb]:
        """The moments at w = 0, step, ..., (count - 1) step."""
        ...

    def falls(self, frequency: float, around: float) -> arb:
        """Bounds -ln |phi| from below at every frequency at most ``around`` away, phi the moment over that at 0."""
        ...

    def falls_beyond(self, frequency: float) -> arb:
        """The same at every frequency from ``frequency`` on."""
        ...


def build_moment_line(profile: BallProfile, theta: float, nats: float) -> MomentLine:
    """The moments of a profile's loss.

    Raises:
        NoProofError: there is no proven form of them here.
    """
    match profile:
        case GaussianProfile():
            return GaussianLine(profile, theta)
        case LaplaceProfile():
            return LaplaceLine(profile, theta)
        case ApproximateDPProfile() | RandomizedResponseProfile():
            return OutcomesLine(profile, theta)
        case PoissonRemoveProfile(base=GaussianProfile() as base, share=share):
            return SampledLine(base, share, theta + 1, 1, nats)
        case PoissonAddProfile(base=GaussianProfile() as base, share=share):
            return SampledLine(base, share, -theta, -1, nats)
        case _:
            raise NoProofError(f"no moments of {type(profile).__name__} are proven here")


@dataclass(frozen=True)
class GaussianLine:
    """E e^(z L) = e^(z (z + 1) mu^2 / 2)."""

    profile: GaussianProfile
    theta: float

    def at_zero(self) -> arb:
        """At w = 0."""
        theta = arb(self.theta)
        return (theta * (theta + 1) * self.profile.mu_squared() / 2).exp()

    def along(self, step: float, count: int, nats: float) -> list[acb]:  # noqa: ARG002
        """A closed form."""
        half, found = self.profile.mu_squared() / 2, []
        for k in range(count):
            z = acb(arb(self.theta), arb(step) * k)
            found.append((z * (z + 1) * half).exp())
        return found

    def falls(self, frequency: float, around: float) -> arb:
        """mu^2 w^2 / 2, which rises."""
        return self.falls_beyond(max(frequency - around, 0.0))

    def falls_beyond(self, frequency: float) -> arb:
        """mu^2 w^2 / 2, which rises."""
        return self.profile.mu_squared() * square_ball(arb(frequency)) / 2


class _Bounded:
    """What is known of any characteristic function: its modulus is at most 1."""

    def falls(self, frequency: float, around: float) -> arb:  # noqa: ARG002
        """Nothing more."""
        return arb(0)

    def falls_beyond(self, frequency: float) -> arb:  # noqa: ARG002
        """Nothing more."""
        return arb(0)


@dataclass(frozen=True)
class LaplaceLine(_Bounded):
    """E e^(z L) = ((z + 1) e^(z a) + z e^(-(z + 1) a)) / (2 z + 1), a the largest loss."""

    profile: LaplaceProfile
    theta: float

    def _at(self, z: acb) -> acb:
        a = self.profile.max_loss()
        return ((z + 1) * (z * a).exp() + z * (-(z + 1) * a).exp()) / (2 * z + 1)

    def at_zero(self) -> arb:
        """At w = 0."""
        return self._at(acb(self.theta)).real

    def along(self, step: float, count: int, nats: float) -> list[acb]:  # noqa: ARG002
        """A closed form."""
        return [self._at(acb(arb(self.theta), arb(step) * k)) for k in range(count)]


@dataclass(frozen=True)
class OutcomesLine(_Bounded):
    """A finite sum."""

    profile: ApproximateDPProfile | RandomizedResponseProfile
    theta: float

    def at_zero(self) -> arb:
        """At w = 0."""
        return sum((mass * (self.theta * loss).exp() for loss, mass in self.profile.outcomes()), arb(0))

    def along(self, step: float, count: int, nats: float) -> list[acb]:  # noqa: ARG002
        """A finite sum each."""
        outcomes = [(loss, mass * (self.theta * loss).exp()) for loss, mass in self.profile.outcomes()]
        found = []
        for k in range(count):
            turns = arb(step) * k
            found.append(sum((mass * acb(0, turns * loss).exp() for loss, mass in outcomes), acb(0)))
        return found


class SampledLine:
    """A Poisson-sampled Gaussian: E e^(s l + i w sign l) over a standard normal y, s = theta + 1 or -theta.

    u = mu y - mu^2 / 2 and l = ln(1 - q + q e^u); the loss is l for removal, under Q, and -l for adding, under P.
    """

    def __init__(self, profile: GaussianProfile, share: Fraction, power: float, sign: int, nats: float) -> None:
        self.mu, self.power, self._sign, self._nats = profile.mu(), power, sign, nats
        self.q, self.rest = make_ball(share), make_ball(1 - share)
        self.near = midpoint(self.mu)
        if not 1e-4 < self.near < 1e3:
            raise NoProofError("the noise is out of the rule's reach")
        rule = _BallTrapezoidRule(self, 0.0, nats)
        self._at_zero, self._edges, self._center = rule.at_zero, rule.edges, rule.center
        self._looked = 0
        self._far: tuple[list[tuple[arb, arb]], arb] | None = None

    def loss(self, y: arb) -> arb:
        """The loss of removal at y, which rises with y."""
        return (self.rest + self.q * (self.mu * (y - self.mu / 2)).exp()).log()

    def _compute_posterior(self, y: arb, loss: arb) -> arb:
        """The chance of having been sampled, given y; it rises with y, and mu times it is the derivative of l."""
        return self.q * (self.mu * (y - self.mu / 2) - loss).exp()

    def at_zero(self) -> arb:
        """At w = 0."""
        return self._at_zero

    def along(self, step: float, count: int, nats: float) -> list[acb]:
        """All of them as one product of matrices: w = (a + b B) step."""
        rule = _BallTrapezoidRule(self, step * count, nats)
        if len(rule.weights) * count > _MOST_TERMS:
            raise NoProofError(f"{len(rule.weights)} nodes at {count} frequencies")
        block = math.isqrt(count - 1) + 1
        blocks = -(-count // block)
        turns = [acb(0, self._sign * step * loss) for loss in rule.losses]
        inner = [
            weight * (a * turn).exp() for a in range(block) for weight, turn in zip(rule.weights, turns, strict=True)
        ]
        outer = [(b * block * turn).exp() for turn in turns for b in range(blocks)]
        nodes = len(turns)
        product = acb_mat(block, nodes, inner) * acb_mat(nodes, blocks, outer)
        error = acb(error_ball(rule.error), error_ball(rule.error))
        return [product[k % block, k // block] + error for k in range(count)]

    def falls(self, frequency: float, around: float) -> arb:
        """sqrt(1 - |phi|^2) is subadditive and at most spread times w: what holds here holds nearby, a little less."""
        gap = (self._gap(frequency) - self._bound_posterior()[1] * around).max(arb(0))
        return -((1 - (gap * gap).min(1 - arb(2) ** -60)).log()) / 2

    def _gap(self, frequency: float) -> arb:
        rule = _BallTrapezoidRule(self, frequency, max(self._nats - 24, 16.0))
        self._looked += len(rule.weights)
        if self._looked > _MOST_LOOKED:
            raise NoProofError("the characteristic function falls too slowly")
        total = acb(0)
        for loss, weight in zip(rule.losses, rule.weights, strict=True):
            total += weight * acb(0, loss * frequency).exp()
        modulus = (total.abs_upper() + rule.error) / self._at_zero
        return arb((1 - modulus * modulus).lower()).max(arb(0)).sqrt()

    def falls_beyond(self, frequency: float) -> arb:
        """Above a cut the density of the loss varies by V at most: |phi| <= 1 - p + V / w."""
        best = arb(0)
        for above, variation in self._bound_posterior()[0]:
            most = (1 - above + variation / arb(frequency)).max(arb(2) ** -60)
            best = best.max(arb((-most.log()).lower()))
        return best

    def _bound_posterior(self) -> tuple[list[tuple[arb, arb]], arb]:
        if self._far is None:
            self._far = self._cells()
        return self._far

    def _cells(self) -> tuple[list[tuple[arb, arb]], arb]:
        """For several cuts the tilted mass above and the variation there; and the tilted standard deviation.

        The density of the loss has at most two maxima (docs, 4.4), so its variation is at most four times its largest
        value; masses and values are bounded cell by cell.
        """
        mu, s = self.near, self.power
        low, high = self._edges
        first, last = min(low, min(s, 0.0) * mu - 9, -mu - 9), max(high, max(s, 0.0) * mu + 9)
        edges = [low]
        while edges[-1] < high:  # steep where the mass is
            at = edges[-1]
            share = 1 / (1 + (1 / midpoint(self.q) - 1) * math.exp(min(mu * mu / 2 - mu * (at + 0.1), 600.0)))
            edges.append(at + min(0.1, 0.2 / (abs(s) * mu * share + abs(at) + mu)))
        edges = [*_space_points(first, edges[0])[:-1], *edges, *_space_points(edges[-1], last)[1:]]
        if len(edges) > _MOST_CELLS:
            raise NoProofError(f"{len(edges)} cells")
        points = [arb(at) for at in edges]
        losses = [self.loss(y) for y in points]
        seen = [self._compute_posterior(y, loss) for y, loss in zip(points, losses, strict=True)]
        root, power, center = (2 * arb.pi()).sqrt() * self._at_zero, arb(s), self._center
        peaks = 2 if is_at_most((power + 1) * square_ball(self.mu), 4) else 4  # one maximum, or two
        second, cuts, above, largest = arb(0), [], arb(0), arb(0)
        for i in range(len(points) - 2, -1, -1):
            a, b, width = points[i], points[i + 1], points[i + 1] - points[i]
            most = (self._top(a, b, losses[i], losses[i + 1])).exp() / root
            least = (power * (losses[i] if s >= 0 else losses[i + 1]) - (a * a).max(b * b) / 2).exp() / root
            away = (losses[i] - center).abs_upper().max((losses[i + 1] - center).abs_upper())
            second += most * width * square_ball(away)
            above += least * width
            largest = largest.max(most / (self.mu * seen[i]))
            if edges[i] >= low and edges[i] <= high and i % 8 == 0:
                cuts.append((arb(above.lower()), arb((peaks * largest).upper())))
        for y, loss, rate in (
            (points[0], losses[0], -points[0] + min(s, 0.0) * self.mu),
            (points[-1], losses[-1], points[-1] - max(s, 0.0) * self.mu),
        ):
            away, peak = (loss - center).abs_upper(), (power * loss - y * y / 2).exp() / root
            if not bool(rate > 1):
                raise NoProofError("a tail is not known to fall")
            second += peak * (
                square_ball(away) / rate
                + 2 * away * self.mu / square_ball(rate)
                + 2 * square_ball(self.mu) / (square_ball(rate) * rate)
            )
        return cuts, arb(second.sqrt().upper())

    def _top(self, a: arb, b: arb, left: arb, right: arb) -> arb:
        """Bounds s l(y) - y^2 / 2 on a cell from above: l is convex, so below its chord and above its tangents."""
        power = arb(self.power)
        if self.power >= 0:
            slope = power * (right - left) / (b - a)
            start = power * left
        else:
            middle = (a + b) / 2
            loss = self.loss(middle)
            slope = power * self.mu * self._compute_posterior(middle, loss)
            start = power * loss + slope * (a - middle)
        if bool(slope <= a):
            return start - a * a / 2
        if bool(slope >= b):
            return start + slope * (b - a) - b * b / 2
        return start - slope * a + slope * slope / 2


def _space_points(first: float, last: float) -> list[float]:
    """Points a tenth apart at most, both ends included; one if there is nothing between."""
    if not first < last:
        return [first]
    return [float(at) for at in np.linspace(first, last, 2 + int(10 * (last - first)))]


class _BallTrapezoidRule:
    """A trapezoid rule for E e^((s + i w) l), w at most ``top``, to about e^-nats of E e^(s l).

    Attributes:
        losses: l at the nodes that matter.
        weights: what they weigh, e^(s l) included.
        at_zero: E e^(s l).
        error: bounds what is left out, and the rule's own error, at every such w.
        edges: the nodes that enclose most of the weight.
        center: about the tilted mean of l.
    """

    def __init__(self, line: SampledLine, top: float, nats: float) -> None:
        near, s = line.near, line.power
        cosines = max(-s, 0.0) * -np.log(np.cos(_WIDTHS / 2))
        need = nats + _WIDTHS**2 / (2 * near * near) + top * _WIDTHS + cosines
        best = int(np.argmax(_WIDTHS / need))
        width = float(_WIDTHS[best])
        step = round_to_few_bits(2 * math.pi * width / (near * float(need[best])))
        away = math.sqrt(2 * nats) + 2
        first = math.floor((-max(-s, 0.0) * near - away) / step)
        last = math.ceil((max(s, 0.0) * near + away) / step)
        if last - first > _MOST_NODES:
            raise NoProofError(f"{last - first} nodes")
        y = step * np.arange(first, last + 1)
        exponent = (
            s * np.logaddexp(midpoint(line.rest.log()), midpoint(line.q.log()) + near * (y - near / 2)) - y * y / 2
        )
        keep = exponent > float(exponent.max()) - nats - 8
        self.losses: list[arb] = []
        self.weights: list[arb] = []
        share, left_out, power = arb(step) / (2 * arb.pi()).sqrt(), arb(0), arb(s)
        ends: list[arb] = []
        for j, kept in zip(range(first, last + 1), keep.tolist(), strict=True):
            node = arb(step) * j
            loss = line.loss(node)
            weight = share * (power * loss - node * node / 2).exp()
            if j in (first, last):
                ends.append(weight / step)
            if kept:
                self.losses.append(loss)
                self.weights.append(weight)
            else:
                left_out += weight
        rates = -first * arb(step) + min(s, 0.0) * line.mu, last * arb(step) - max(s, 0.0) * line.mu
        for end, rate in zip(ends, rates, strict=True):
            if not bool(rate > 1):
                raise NoProofError("a tail is not known to fall")
            left_out += end / rate
        b = arb(width)
        strip = 2 * (b * b / (2 * square_ball(line.mu))).exp() * ((b / 2).cos().log() * min(s, 0.0)).exp()
        alias = strip / ((2 * arb.pi() * b / (line.mu * arb(step))).exp() - 1)
        total = sum(self.weights, arb(0))
        if not bool(alias < 0.5):
            raise NoProofError("the rule is too coarse")
        self.at_zero = hull(total / (1 + alias), (total + left_out) / (1 - alias))
        self.error = left_out + self.at_zero.abs_upper() * alias * (b * arb(top)).exp()
        weights = np.where(keep, np.exp(exponent - float(exponent.max())), 0.0)
        most = y[weights > math.exp(-min(nats, 30.0))]
        self.edges = float(most[0]) - step, float(most[-1]) + step
        middle = float(np.sum(weights * y) / np.sum(weights))
        self.center = line.loss(arb(middle))
