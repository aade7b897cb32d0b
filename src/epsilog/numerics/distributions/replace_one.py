"""Poisson-sampled noise under replace-one: the pair of two contributions that pull opposite ways.

The pair is P = (1 - q) N(0) + q N(mu) against Q = (1 - q) N(0) + q N(-mu), N(m) the noise shifted to m. It dominates
every pair of contributions of size at most mu, and is one of them. This holds for Gaussian and Laplace noise in any
dimension and for log-concave noise on the integers; docs/accounting/replace-one.md has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from epsilog.numerics.distributions.base import Array, CellMasses, DiscretePair, Unbounded, compute_normal_masses
from epsilog.numerics.rounding import RATIO, TWICE, gamma, round_down, round_up

LARGEST_MU = 36.0  # beyond it e^(-mu^2 / 2) leaves the numbers
LARGEST_SHIFT = 150.0  # of Laplace noise, in scales: any two ratios are e^600 apart at most
RAREST = 1e-150  # a sampling probability with an inverse, times such a ratio, in double range
_FARTHEST = 300.0  # a ratio: any two are e^600 apart at most
_FAINT = 1e-290  # a mass below which doubles thin out
_INVERTED = 1e5  # roundings in a ratio from logarithms of at most a few thousand
_WEIGHT_ERROR = gamma(3000.0)  # of e^-x for x up to 800 that took two roundings, over a sum of such
_MIXTURE = 8  # of a mean of two masses: a difference, two products and a sum


@dataclass(frozen=True)
class ReplaceOneGaussianPair(Unbounded):
    """The pair above by its log-likelihood ratio, which rises with x and changes its sign with it."""

    mu: float  # distance that one contribution moves the mean, over the noise; at most ``LARGEST_MU``
    sampling_probability: float  # q, the chance that a unit takes part, in (0, 1)

    @property
    def _log_scale(self) -> float:
        return math.log(2 * self.sampling_probability) - self.mu**2 / 2

    @property
    def ratio_error(self) -> float:
        """Return how far ``masses`` moves edges."""
        return gamma(256 + 64 * abs(self._log_scale) + 8 * self.mu**2)

    def _where(self, u: Array) -> Array:
        """The x of a ratio u: y = e^(mu x) solves q a y^2 - (1 - q) (e^u - 1) y - q a e^u = 0, a = e^(-mu^2 / 2)."""
        up = np.minimum(np.abs(u), 1e4)
        falls = -np.expm1(-up) * (1 - self.sampling_probability)
        root = np.hypot(falls, np.exp(self._log_scale - up / 2))
        with np.errstate(divide="ignore"):  # the root underflows for the smallest q: at u = 0, where x is 0
            x = (up + np.log(falls + root) - self._log_scale) / self.mu
        return np.asarray(np.where(np.isinf(u), u, np.sign(u) * np.maximum(x, 0.0)))

    def masses(self, edges: Array) -> CellMasses:
        """Return mixtures of normal cells."""
        q, x = self.sampling_probability, np.clip(self._where(np.asarray(edges, dtype=np.float64)), -1e9, 1e9)
        (out, out_error), (one, one_error), (other, other_error) = (
            compute_normal_masses(x - far) for far in (0, self.mu, -self.mu)
        )
        p, q_mass = (1 - q) * out + q * one, (1 - q) * out + q * other
        p_error, q_error = (1 - q) * out_error + q * one_error, (1 - q) * out_error + q * other_error
        return CellMasses(p, q_mass, p_error + gamma(_MIXTURE) * p, q_error + gamma(_MIXTURE) * q_mass)

    def _ratio(self, x: Array) -> Array:
        q, half = self.sampling_probability, self.mu**2 / 2
        away = [np.logaddexp(math.log1p(-q), math.log(q) + sign * self.mu * x - half) for sign in (1, -1)]
        return np.asarray(away[0] - away[1])

    def tail_bounds(self, tail: float) -> tuple[float, float]:
        """Return the tails of both distributions."""
        far = float(self._ratio(np.array([self.mu - float(ndtri(tail))]))[0])
        return -far, far

    def breakpoints(self, tail: float) -> Array:
        """Return even steps in x."""
        far = self.mu - float(ndtri(tail))
        return np.unique(self._ratio(np.linspace(-far, far, 257)))


@dataclass(frozen=True)
class ReplaceOneLaplacePair:
    """The pair above over Laplace noise of scale 1, by its log-likelihood ratio.

    For x from 0 to the shift s the ratio is 1 + (e^(2 x) - 1) / c, c = 1 + e^s (1 - q) / q. Beyond s it is constant;
    below 0 its inverse is the ratio at -x. So there are two atoms, and the part between has closed forms.
    """

    shift: float  # s, how far one contribution moves the sum, over the noise's scale, from 1e-100 to ``LARGEST_SHIFT``
    sampling_probability: float  # q, the chance that a unit takes part, from ``RAREST`` to below 1

    infinity_mass: ClassVar[float] = 0.0
    has_atoms: ClassVar[bool] = True

    @property
    def _rarity(self) -> float:
        q = self.sampling_probability
        return 1 + (1 - q) / q * math.exp(self.shift)

    @property
    def top(self) -> float:
        """Return the largest ratio, off by fewer than 24 roundings."""
        return math.log1p(math.expm1(2 * self.shift) / self._rarity)

    @property
    def ratio_error(self) -> float:
        """Return how far ``masses`` moves edges and atoms: roundings of the largest ratio (docs: replace-one)."""
        return gamma(128 + 64 * self.shift) * self.top

    def _where(self, u: Array) -> Array:
        """Return the x of a ratio u: e^(2 x) = 1 + c (e^u - 1), the other way round below 0."""
        x = np.log1p(self._rarity * np.expm1(np.minimum(np.abs(u), self.top))) / 2
        return np.asarray(np.sign(u) * np.minimum(x, self.shift))

    def masses(self, edges: Array) -> CellMasses:
        """Return closed forms, each side of 0 by itself; nothing cancels."""
        edges, q, shift = np.asarray(edges, dtype=np.float64), self.sampling_probability, self.shift
        x = np.where(np.abs(edges) < self.top, self._where(np.clip(edges, -self.top, self.top)), np.sign(edges) * shift)
        a, b = np.insert(x, 0, -shift), np.append(x, shift)
        more, less = self._between(np.maximum(a, 0.0), np.maximum(b, 0.0))
        under_q, under_p = self._between(np.maximum(-b, 0.0), np.maximum(-a, 0.0))
        p, q_mass = more + under_p, less + under_q
        out = (1 - q) * math.exp(-shift) / 2
        common, rare = out + q / 2, out + q * math.exp(-2 * shift) / 2
        high = int(np.searchsorted(edges, self.top, side="left"))
        low = int(np.searchsorted(edges, -self.top, side="left"))
        p[high] += common
        q_mass[high] += rare
        p[low] += rare
        q_mass[low] += common
        error = gamma(64 + 4 * shift)
        return CellMasses(p, q_mass, error * p, error * q_mass)

    def _between(self, a: Array, b: Array) -> tuple[Array, Array]:
        """Return masses under P and under Q of x from a to b, both from 0 to the shift."""
        q, shift = self.sampling_probability, self.shift
        thin = -np.expm1(a - b) / 2
        out, here = np.exp(-a) * thin, np.exp(b - shift) * thin
        return (1 - q) * out + q * here, ((1 - q) + q * math.exp(-shift)) * out

    def tail_bounds(self, tail: float) -> tuple[float, float]:  # noqa: ARG002
        """Return the ends of the support, with their rounding."""
        far = round_up(self.top, TWICE)
        return -far, far

    def finite_range(self) -> tuple[float, float]:
        """Return the lowest and the highest ratio."""
        return -self.top, self.top

    def max_loss(self) -> tuple[float, float]:
        """Return the highest ratio with its rounding."""
        return round_down(self.top, 3 * RATIO), round_up(self.top, 3 * RATIO)

    def breakpoints(self, tail: float) -> Array:  # noqa: ARG002
        """Return even steps in x, and in the ratio, with the atoms apart."""
        x = np.linspace(0, self.shift, 65)[:-1]
        u = np.unique(np.concatenate((np.log1p(np.expm1(2 * x) / self._rarity), np.linspace(0, self.top, 65)[:-1])))
        return np.unique(np.concatenate((-u, u, self.top * (1 - np.array([1e-9, 0])), [-self.top])))


def build_replace_one_discrete_laplace_pair(scale: float, shift: int, q: float) -> DiscretePair:
    """The pair above for discrete Laplace noise: ratios of ``ReplaceOneLaplacePair`` at whole multiples of 1 / scale.

    ``shift / scale`` is at most ``LARGEST_SHIFT``, and the sampling probability ``q`` from ``RAREST`` to below 1.
    """
    far = shift / scale
    x = np.arange(1, shift + 1)
    hidden = (1 - q) * math.exp(-far) + q  # of the unit's presence, at its own end
    ratio = np.log1p(np.expm1(2 * (x / scale)) / (1 + (1 - q) / q * math.exp(far)))
    center, beyond = math.tanh(0.5 / scale), 1 / (1 + math.exp(-1 / scale))
    out = center * np.exp(-(x / scale))
    p, q_mass = (1 - q) * out + q * center * np.exp((x - shift) / scale), ((1 - q) + q * math.exp(-far)) * out
    p[-1], q_mass[-1] = beyond * hidden, beyond * ((1 - q) * math.exp(-far) + q * math.exp(-2 * far))
    middle = center * ((1 - q) + q * math.exp(-far))
    roundings = 32 + 4 * far  # docs: replace-one
    error = gamma(64 + 8 * far + roundings * float(ratio[-1]))
    return DiscretePair(
        np.concatenate((-ratio[::-1], [0.0], ratio)),
        np.concatenate((q_mass[::-1], [middle], p)),
        step=float(ratio[0]) if shift == 1 else 0.0,
        relative_error=error,
        roundings=roundings,
    )


def build_replace_one_discrete_gaussian_pair(stddev: float, shift: int, q: float) -> DiscretePair:
    """Return the pair above over discrete Gaussian noise; ratios from 300 on count as giving everything away.

    ``shift`` is at most 40 ``stddev``, and the sampling probability ``q`` from ``RAREST`` to below 1. With
    d(x) = 2 x shift / stddev^2 the ratio at x > 0 is 1 + (e^d - 1) / c,
    c = 1 + e^(d / 2 + shift^2 / (2 stddev^2)) (1 - q) / q.
    """
    far = math.ceil(40 * stddev) + shift
    x = np.arange(1, far + 1)
    half = x * (shift / stddev**2)
    least = half + shift**2 / (2 * stddev**2)
    away = 2 * half + np.log(-np.expm1(-2 * half)) - np.logaddexp(0.0, math.log1p(-q) - math.log(q) + least)
    ratio = np.logaddexp(0.0, away)
    out, near, opposite = (np.exp(-((x - at) ** 2) / (2 * stddev**2)) for at in (0, shift, -shift))
    total = 1 + 2 * float(out.sum())
    p, q_mass = ((1 - q) * out + q * moved for moved in (near, opposite))
    middle = (1 - q) + q * math.exp(-(shift**2) / (2 * stddev**2))
    kept = (ratio < _FARTHEST) & (q_mass > _FAINT)
    lost = float((p + q_mass)[~kept].sum()) / total
    return DiscretePair(
        np.concatenate((-ratio[kept][::-1], [0.0], ratio[kept])),
        np.concatenate((q_mass[kept][::-1], [middle], p[kept])) / total,
        infinity_mass=lost * (1 + _WEIGHT_ERROR) + _FAINT,
        step=float(ratio[kept][0]) if kept.sum() == 1 else 0.0,
        relative_error=2 * _WEIGHT_ERROR + gamma(_INVERTED * float(ratio[kept].max(initial=0.0))),
        roundings=_INVERTED,
    )
