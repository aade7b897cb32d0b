"""Poisson-sampled Gaussians under replace-one: the pair of two contributions that pull opposite ways.

P = (1 - q) N(0, 1) + q N(mu, 1) against Q = (1 - q) N(0, 1) + q N(-mu, 1) dominates every pair of contributions of norm
at most mu, and is one of them; docs/accounting/replace-one.md proves it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from epsilog.accounting.laws.base import Array, Masses, normal_cells
from epsilog.accounting.rounding import gamma

LARGEST_MU = 36.0  # beyond it e^(-mu^2 / 2) leaves the numbers


@dataclass(frozen=True)
class ReplacedSample:
    """The pair above by its log-likelihood ratio, which rises with x and changes its sign with it.

    Attributes:
        mu: distance that one contribution moves the mean, over the noise; at most ``LARGEST_MU``.
        sampling_probability: q, the chance that a unit takes part, in (0, 1).
    """

    mu: float
    sampling_probability: float

    only_p: ClassVar[float] = 0.0
    has_atoms: ClassVar[bool] = False

    @property
    def _log_scale(self) -> float:
        return math.log(2 * self.sampling_probability) - self.mu**2 / 2

    @property
    def misplacement(self) -> float:
        """Returns how far ``masses`` moves edges."""
        return gamma(256 + 64 * abs(self._log_scale) + 8 * self.mu**2)

    def _where(self, u: Array) -> Array:
        """The x of a ratio u: y = e^(mu x) solves q a y^2 - (1 - q) (e^u - 1) y - q a e^u = 0, a = e^(-mu^2 / 2)."""
        up = np.minimum(np.abs(u), 1e4)
        falls = -np.expm1(-up) * (1 - self.sampling_probability)
        root = np.hypot(falls, np.exp(self._log_scale - up / 2))
        x = (up + np.log(falls + root) - self._log_scale) / self.mu
        return np.asarray(np.where(np.isinf(u), u, np.sign(u) * np.maximum(x, 0.0)))

    def masses(self, edges: Array) -> Masses:
        """Returns mixtures of normal cells."""
        q, x = self.sampling_probability, np.clip(self._where(np.asarray(edges, dtype=np.float64)), -1e9, 1e9)
        (out, out_error), (one, one_error), (other, other_error) = (
            normal_cells(x - far) for far in (0, self.mu, -self.mu)
        )
        p, q_mass = (1 - q) * out + q * one, (1 - q) * out + q * other
        p_error, q_error = (1 - q) * out_error + q * one_error, (1 - q) * out_error + q * other_error
        return Masses(p, q_mass, p_error + gamma(8.0) * p, q_error + gamma(8.0) * q_mass)

    def _ratio(self, x: Array) -> Array:
        q, half = self.sampling_probability, self.mu**2 / 2
        away = [np.logaddexp(math.log1p(-q), math.log(q) + sign * self.mu * x - half) for sign in (1, -1)]
        return np.asarray(away[0] - away[1])

    def reach(self, tail: float) -> tuple[float, float]:
        """Returns the tails of both laws."""
        far = float(self._ratio(np.array([self.mu - float(ndtri(tail))]))[0])
        return -far, far

    def ends(self) -> tuple[float, float]:
        """Returns infinities: every ratio can occur."""
        return -math.inf, math.inf

    def largest(self) -> tuple[float, float]:
        """Returns infinities."""
        return math.inf, math.inf

    def landmarks(self, tail: float) -> Array:
        """Returns even steps in x."""
        far = self.mu - float(ndtri(tail))
        return np.unique(self._ratio(np.linspace(-far, far, 257)))
