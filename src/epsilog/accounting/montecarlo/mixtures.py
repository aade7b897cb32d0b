"""Balls-in-bins over any strategy matrix: a mixture of Gaussians, drawn through the Gram matrix of its modes.

With independent noise the modes of a Renyi tilt are drawn jointly and exactly, through their partition. The lambda + 1
draws of a slot fall into a partition of lambda + 1, which is multinomial under uniform draws. A slot drawn n times has
the factor e^joint[n] (balls-in-bins: joint[n] = h n (n - 1) / 2). The normalizer is the Renyi moment E_Q[(P /
Q)^(lambda + 1)] itself, so the bound M is the Renyi bound on delta: the smallest possible.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from epsilog.accounting.montecarlo.normals import draw_normals
from epsilog.accounting.montecarlo.oracle import cube_lower_bound
from epsilog.numerics.gaussian import gaussian_delta
from epsilog.numerics.pairs import AdjacencyType
from epsilog.terms import UnsupportedMechanismError

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
METHOD = "Monte Carlo"
LARGEST_ENERGY = 1e12  # squared distance over the noise; losses of this size err by 1e-4
_CHUNK = 1 << 17  # normals held at once: 1 MB
LARGEST_TILT = 64
LARGEST_ORDER = 30  # 6,842 partitions of 31


def list_partitions(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Return all partitions of ``total`` into decreasing parts of at most ``largest``.

    >>> list(list_partitions(4, 4))
    [(4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1)]
    """
    if total == 0:
        yield ()
    for first in range(min(total, largest), 0, -1):
        for rest in list_partitions(total - first, first):
            yield (first, *rest)


@lru_cache(maxsize=64)
def _table(order: int, bins: int) -> tuple[Array, Counts]:
    """Log chance under uniform draws, and the parts (padded with 0), of every partition."""
    kept = [parts for parts in list_partitions(order + 1, order + 1) if len(parts) <= bins]
    width = min(order + 1, bins)
    log_chance = [
        math.lgamma(order + 2)
        - sum(math.lgamma(n + 1) for n in parts)
        + math.lgamma(bins + 1)
        - math.lgamma(bins - len(parts) + 1)
        - sum(math.lgamma(m + 1) for m in Counter(parts).values())
        - (order + 1) * math.log(bins)
        for parts in kept
    ]
    return np.array(log_chance), np.array([parts + (0,) * (width - len(parts)) for parts in kept])


def _log_weights(order: int, bins: int, joint: Array) -> tuple[Array, Counts]:
    log_chance, counts = _table(order, bins)
    return log_chance + joint[counts].sum(axis=1), counts


def gaussian_joint(order: int, energy: float) -> Array:
    """Log of E_Q[l^n], l the likelihood ratio of a Gaussian mode of this energy, n = 0..order + 1."""
    n = np.arange(order + 2)
    return energy * n * (n - 1) / 2


def log_moment(order: int, bins: int, joint: Array) -> float:
    """Log of E_Q[(P / Q)^(order + 1)], P the mean of ``bins`` modes in separate coordinates.

    Args:
        order: lambda.
        bins: how many modes.
        joint: log of E_Q[l^n] for the likelihood ratio l of one mode, n = 0..order + 1.

    >>> round(log_moment(1, 1, gaussian_joint(1, 0.25)), 6)  # one mode: (order + 1) order / 2 times its energy
    0.25
    """
    return float(logsumexp(_log_weights(order, bins, joint)[0]))


def draw_counts(order: int, bins: int, joint: Array, uniform: Array) -> Counts:
    """Return how often each first mode is drawn, from uniforms in [0, 1); shapes (n,) to (n, at most order + 1).

    Modes are exchangeable, so which ones are hit does not matter: the most frequent comes first.
    """
    log_weight, counts = _log_weights(order, bins, joint)
    ladder = np.cumsum(np.exp(log_weight - log_weight.max()))
    return np.asarray(counts[np.minimum(np.searchsorted(ladder, uniform * ladder[-1], side="right"), len(ladder) - 1)])


def log_mean_exp(fields: Array) -> Array:
    """Log of the mean of the exponentials along the last axis; shape (n, b) to (n,)."""
    return _log_mean_exp(fields, sign=1, floor=-math.inf)


def _log_mean_exp(noise: Array, *, sign: int, floor: float, scale: float = 1.0, offset: float = 0.0) -> Array:
    """``sign`` times the log mean exp of the rows of scale * noise - offset; shape (n, b) to (n,).

    ``-inf`` for rows with a maximum that shows the result to be at most ``floor``: a mean is between the largest term
    over b and the largest term. NaN stays NaN, and the caller refuses it.
    """
    log_bins = math.log(noise.shape[1])
    peak = noise.max(axis=1)
    top = scale * peak - offset
    live = ~((top if sign > 0 else log_bins - top) <= floor)
    shifted = noise[live] if not live.all() else noise.copy()
    shifted -= peak[live, None]
    shifted *= scale
    np.exp(shifted, out=shifted)
    loss = np.full(len(noise), -np.inf)
    loss[live] = sign * (top[live] + np.log(shifted @ np.ones(noise.shape[1])) - log_bins)
    return loss


def require_representable_noise(energies: Array) -> None:
    """Refuse modes so far apart, over the noise, that losses would be lost in round-off or overflow."""
    if not (np.abs(energies) < LARGEST_ENERGY).all():  # nor is NaN
        raise UnsupportedMechanismError("energy", method=METHOD, reason="the noise is too small to be simulated")


class SimulatedPair(ABC):
    """A dominating pair that can be sampled."""

    mean_energy: float  # mean over participations of |m_S|^2 / s^2
    mean_field_energy: float  # |mean over participations of m_S|^2 / s^2
    largest_tilt: int = 0  # the highest Renyi order with bounded weights of the tilt

    @abstractmethod
    def draw(
        self, rng: np.random.Generator, count: int, direction: AdjacencyType, *, floor: float, shift: float
    ) -> tuple[Array, Array]:
        """Draw ``count`` privacy losses; those known to be at most ``floor`` may come back as ``-inf``.

        With ``shift`` c > 0 (add only) the noise is centered at -c times the mean of m_S. The second array is then the
        log of the likelihood ratio of the unshifted to the shifted distribution, otherwise 0. Shapes (count,).
        """

    def draw_tilted(self, rng: np.random.Generator, order: int, count: int) -> tuple[Array, Array]:  # noqa: ARG002
        """Draw losses under a Renyi tilt, and the logs of their weights; up to order ``largest_tilt``."""
        raise AssertionError(f"no tilt of order {order} can be drawn")

    def log_moment(self, order: int) -> float:
        """Return the log of a bound on weights times e^(order loss): E_Q[(P / Q)^(order + 1)] if it can be drawn."""
        raise AssertionError(f"no weight of order {order} is bounded")

    @abstractmethod
    def brackets(self, epsilon: float, direction: AdjacencyType) -> tuple[float, float]:
        """Proven bounds below and above delta(epsilon)."""


class BallsInBinsPair(SimulatedPair):
    """P = mean of N(m_i, s^2 I) over i, through the Gram matrix H_ij = <m_i, m_j> / s^2: balls-in-bins over any C.

    Only u_i = ln of the i-th likelihood ratio matters: under N(m, s^2 I), u ~ N(<m_i, m> / s^2 - H_ii / 2, H).

    Source:
        Choquette-Choo et al., ICLR 2025, Lemma 3.2 (arXiv:2410.06266).
    """

    def __init__(self, gram: Array) -> None:
        require_representable_noise(gram)
        self.bins = len(gram)
        self.diagonal = bool(np.count_nonzero(gram - np.diag(np.diag(gram))) == 0)
        self.gram = gram if self.diagonal else _made_definite(gram)
        self.half = np.diag(self.gram) / 2
        self.exact = self.diagonal and float(np.ptp(self.half)) == 0.0
        self.largest_tilt = LARGEST_ORDER if self.exact else LARGEST_TILT
        self.root = np.sqrt(np.diag(gram)) if self.diagonal else np.linalg.cholesky(self.gram).T.copy()
        self.mean_row = self.gram.mean(axis=0)
        self.mean_energy = float(2 * self.half.mean())
        self.mean_field_energy = float(self.gram.mean())

    def noise(self, rng: np.random.Generator, count: int) -> Array:
        """Draw from N(0, H); shape (count, b)."""
        drawn = draw_normals(rng, count, self.bins)
        if self.diagonal:
            drawn *= self.root
            return drawn
        return np.asarray(drawn @ self.root)

    def draw(
        self, rng: np.random.Generator, count: int, direction: AdjacencyType, *, floor: float, shift: float
    ) -> tuple[Array, Array]:
        """Draw block by block; see ``SimulatedPair``."""
        index = rng.integers(self.bins, size=count) if direction == AdjacencyType.REMOVE else None
        loss, log_weight = np.empty(count), np.zeros(count)
        step = max(1, _CHUNK // self.bins)
        part_of = self._draw_independent if self.exact else self._general
        for start in range(0, count, step):
            part = slice(start, min(start + step, count))
            modes = None if index is None else index[part]
            loss[part], log_weight[part] = part_of(rng, part.stop - start, modes, floor, shift)
        return loss, log_weight

    def log_moment(self, order: int) -> float:
        """Return the Renyi moment of equal bins; by Hoelder, step by step, for all others; see ``SimulatedPair``."""
        if self.exact:
            return log_moment(order, self.bins, gaussian_joint(order, float(self.gram[0, 0])))
        return sum(float(log_mean_exp(step * self.gram).max()) for step in range(1, order + 1))

    def draw_tilted(self, rng: np.random.Generator, order: int, count: int) -> tuple[Array, Array]:
        """Draw all modes at once where bins are equal, else one after the other; see ``SimulatedPair``."""
        if not self.exact:
            return self._mode_by_mode(rng, order, count)
        t = float(self.root[0])
        counts = draw_counts(order, self.bins, gaussian_joint(order, t * t), rng.random(count))
        z = draw_normals(rng, count, self.bins)
        z[:, : counts.shape[1]] += t * counts
        loss = _log_mean_exp(z, sign=1, floor=-math.inf, scale=t, offset=float(self.half[0]))
        return loss, self.log_moment(order) - order * loss

    def _mode_by_mode(self, rng: np.random.Generator, order: int, count: int) -> tuple[Array, Array]:
        """Draw modes one by one, each in two steps: its group of about sqrt(b), and its position there."""
        width = math.isqrt(self.bins - 1) + 1
        groups = -(-self.bins // width)
        tops = self.gram.max(axis=1)
        growth = np.zeros((self.bins, groups * width))  # each row of likelihood ratios, its largest scaled to 1
        growth[:, : self.bins] = np.exp(self.gram - tops[:, None])
        member = np.repeat(np.eye(groups), width, axis=0)
        rows = np.arange(count)
        index = rng.integers(self.bins, size=count)
        center = self.gram[index]
        share = growth[index]  # proportional to the chance of each mode, given those drawn so far
        scale = tops[index]
        log_weight = np.full(count, -order * math.log(self.bins))
        for step in range(order):
            mass = share @ member
            sums = np.cumsum(mass, axis=1)
            total = sums[:, -1]
            log_weight += scale + np.log(total)
            aim = rng.random(count) * total
            group = _first_above(sums, aim)
            rest = aim - (sums[rows, group] - mass[rows, group])
            place = _first_above(np.cumsum(share.reshape(count, groups, width)[rows, group], axis=1), rest)
            chosen = group * width + place
            center += self.gram[chosen]
            if step + 1 < order:
                share *= growth[chosen]
                share *= (1 / total)[:, None]  # keeps the shares within range; any factor would do
                scale += tops[chosen] + np.log(total)
        fields = self.noise(rng, count)
        fields += center
        fields -= self.half
        loss = log_mean_exp(fields)
        return loss, log_weight - order * loss

    def _draw_independent(
        self, rng: np.random.Generator, count: int, modes: NDArray[np.int64] | None, floor: float, shift: float
    ) -> tuple[Array, Array]:
        """Independent noise and equal bins: u_i = t z_i - t^2 / 2, with z_i moved by t under mode i."""
        t, half = float(self.root[0]), float(self.half[0])
        z = draw_normals(rng, count, self.bins)
        if modes is not None:
            z[np.arange(count), modes] += t
            return _log_mean_exp(z, sign=1, floor=floor, scale=t, offset=half), np.zeros(count)
        log_weight = np.zeros(count)
        if shift:
            z -= shift * t / self.bins
            log_weight = shift * t * z.mean(axis=1) + shift**2 * self.mean_field_energy / 2
        return _log_mean_exp(z, sign=-1, floor=floor, scale=t, offset=half), log_weight

    def _general(
        self, rng: np.random.Generator, count: int, modes: NDArray[np.int64] | None, floor: float, shift: float
    ) -> tuple[Array, Array]:
        fields = self.noise(rng, count)
        if modes is not None:
            fields += self.gram[modes]
            fields -= self.half
            return _log_mean_exp(fields, sign=1, floor=floor), np.zeros(count)
        fields -= shift * self.mean_row
        log_weight = shift * fields.mean(axis=1) + shift**2 * self.mean_field_energy / 2  # by <mean m, x> / s^2
        fields -= self.half
        return _log_mean_exp(fields, sign=-1, floor=floor), log_weight

    def brackets(self, epsilon: float, direction: AdjacencyType) -> tuple[float, float]:
        """Return the cube bound for independent noise (else 0) and the Gaussian of the largest mode."""
        stddevs = 1 / np.sqrt(np.maximum(2 * self.half, 1e-300))
        low = 0.0
        if self.exact and self.bins > 1:
            low = cube_lower_bound(bins=self.bins, noise_stddev=float(stddevs[0]), epsilon=epsilon, direction=direction)
        return low, gaussian_delta(math.sqrt(2 * float(self.half.max())), epsilon)[1]


def _first_above(sums: Array, aim: Array) -> NDArray[np.int64]:
    """Return the first position in each row of running sums above the aim, which rounding may put out of range."""
    inside = np.clip(aim, 0, np.nextafter(sums[:, -1], 0))
    return np.asarray((sums > inside[:, None]).argmax(axis=1))


def _made_definite(gram: Array) -> Array:
    """Return the Gram matrix with just enough added to its diagonal for a Cholesky factor.

    What is added is one more private coordinate per mode, hence a pair that dominates: the error is on the safe side.
    """
    extra = 1e-13 * float(np.diag(gram).max())
    for _ in range(8):
        lifted = gram + extra * np.eye(len(gram))
        try:
            np.linalg.cholesky(lifted)
        except np.linalg.LinAlgError:
            extra *= 10
        else:
            return lifted
    raise UnsupportedMechanismError("gram", method=METHOD, reason="it is not positive semidefinite")
