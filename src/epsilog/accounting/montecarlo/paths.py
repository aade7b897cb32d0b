"""Participation that is a path in time, with losses by recursion: b-min-sep, cyclic Poisson, k rounds of all."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, xlog1py, xlogy

from epsilog.accounting.montecarlo.mixtures import (
    LARGEST_ORDER,
    SimulatedPair,
    draw_counts,
    gaussian_joint,
    log_mean_exp,
    log_moment,
    require_representable_noise,
)
from epsilog.accounting.montecarlo.normals import draw_normals
from epsilog.mechanisms import CyclicPoissonParticipation, MinSepParticipation
from epsilog.numerics.gaussian import gaussian_delta
from epsilog.numerics.pairs import AdjacencyType

Array = NDArray[np.float64]


class _Banded(SimulatedPair):
    """What all of them share: columns C_t that do not overlap within one participation."""

    def __init__(self, column: Array, noise_stddev: float, rounds: int) -> None:
        self.column, self.stddev, self.rounds = column, noise_stddev, rounds
        squares = np.cumsum(column**2)
        tails = np.minimum(np.arange(rounds, 0, -1), len(column)) - 1
        self.energy = squares[tails] / noise_stddev**2  # |C_t|^2 / s^2, shape (rounds,)
        require_representable_noise(self.energy)
        self.mean_energy = self.mean_field_energy = 0.0

    def _set_mean(self, chance: Array) -> None:
        """Record the mean of m_S when round t is taken with probability ``chance[t]``; shape (rounds,)."""
        self.field = np.convolve(chance, self.column)[: self.rounds] / self.stddev
        self.mean_energy = float(chance @ self.energy)
        self.mean_field_energy = float(self.field @ self.field)

    def ratios(self, x: Array) -> Array:
        """Log likelihood ratios of the single columns at outputs x / s; shape (rounds, n) to (rounds, n)."""
        ratio = np.zeros_like(x)
        for j, value in enumerate(self.column):
            ratio[: self.rounds - j] += x[j:] * (value / self.stddev)
        ratio -= self.energy[:, None] / 2
        return ratio

    @abstractmethod
    def loss(self, ratio: Array) -> Array:
        """Log of the likelihood ratio of the mixture; shape (rounds, n) to (n,)."""

    @abstractmethod
    def sample_participation(self, rng: np.random.Generator, count: int) -> NDArray[np.bool_]:
        """Draw who takes part when; shape (rounds, count)."""

    @abstractmethod
    def _largest_energy(self) -> float:
        """Return the squared norm over the noise of the fullest participation."""

    def brackets(self, epsilon: float, direction: AdjacencyType) -> tuple[float, float]:
        """0 and the Gaussian of the fullest participation."""
        del direction
        return 0.0, gaussian_delta(math.sqrt(self._largest_energy()), epsilon)[1]

    def draw(
        self, rng: np.random.Generator, count: int, direction: AdjacencyType, *, floor: float, shift: float
    ) -> tuple[Array, Array]:
        """Draw losses; see ``SimulatedPair``."""
        del floor
        taken = self.sample_participation(rng, count) if direction == AdjacencyType.REMOVE else None
        x = draw_normals(rng, count, self.rounds).T.copy()
        if taken is not None:
            for j, value in enumerate(self.column):
                x[j:] += taken[: self.rounds - j] * (value / self.stddev)
        log_weight = np.zeros(count)
        if shift:
            x -= shift * self.field[:, None]
            log_weight = shift * (self.field @ x) + shift**2 * self.mean_field_energy / 2
        loss = self.loss(self.ratios(x))
        return (loss if direction == AdjacencyType.REMOVE else -loss), log_weight


class MinSepPair(_Banded):
    """b-min-sep: joins with probability p unless within the last b - 1 rounds; the loss by backward recursion.

    f_t = ln((1 - p) e^(f_(t+1)) + p e^(r_t + f_(t+b))), f = 0 past the end. The loss is f_0, or for a warm start the
    mean of f_0, ..., f_(b-1) with weights 1 : p : ... : p.

    Source:
        Dong & Ganesh 2026 (arXiv:2602.09338v2).
    """

    def __init__(self, column: Array, noise_stddev: float, rounds: int, kind: MinSepParticipation) -> None:
        super().__init__(column, noise_stddev, rounds)
        self.kind = kind
        b, p = kind.min_separation, kind.probability
        free = np.zeros(rounds + b)  # the chance that the unit may join in round t
        starts = [1.0] if not kind.warm_start else [1.0] + [p] * (b - 1)
        self.start = np.array(starts) / sum(starts)
        chance = np.zeros(rounds + b)
        for t in range(rounds):
            if t < len(self.start):
                free[t] += self.start[t]
            if t:
                free[t] += free[t - 1] * (1 - p)
            if t >= b:
                free[t] += free[t - b] * p
            chance[t] = free[t] * p
        self._set_mean(chance[:rounds])

    def _largest_energy(self) -> float:
        best = np.zeros(self.rounds + self.kind.min_separation + 1)
        for t in range(self.rounds - 1, -1, -1):
            best[t] = max(best[t + 1], self.energy[t] + best[t + self.kind.min_separation])
        return float(best[0])

    def sample_participation(self, rng: np.random.Generator, count: int) -> NDArray[np.bool_]:
        """Draw the participation process; see ``_Banded``."""
        b, p = self.kind.min_separation, self.kind.probability
        at = rng.choice(len(self.start), p=self.start, size=count) + rng.geometric(p, size=count) - 1
        taken = np.zeros((self.rounds, count), dtype=bool)
        unit = np.arange(count)
        while (live := at < self.rounds).any():
            taken[at[live], unit[live]] = True
            at = np.minimum(at, self.rounds) + b - 1 + rng.geometric(p, size=count)
        return taken

    def loss(self, ratio: Array) -> Array:
        """Return the loss by the backward recursion; see ``_Banded``."""
        b, p = self.kind.min_separation, self.kind.probability
        stay = math.log1p(-p) if p < 1 else -math.inf
        future = np.zeros((b + 1, ratio.shape[1]))  # f_t at row t modulo b + 1
        for t in range(self.rounds - 1, -1, -1):
            joined = math.log(p) + ratio[t] + future[(t + b) % (b + 1)]
            future[t % (b + 1)] = np.logaddexp(stay + future[(t + 1) % (b + 1)], joined) if p < 1 else joined
        first = future[np.arange(len(self.start)) % (b + 1)]
        top = first.max(axis=0)
        return np.asarray(top + np.log(self.start @ np.exp(first - top)))


class CyclicPoissonPair(_Banded):
    """Cyclic Poisson: a hidden slot of the cycle, then a coin whenever it comes; the loss is a mean over slots.

    Source:
        Choquette-Choo et al. 2023 (arXiv:2306.08153), with partitions drawn independently per unit.
    """

    def __init__(self, column: Array, noise_stddev: float, rounds: int, kind: CyclicPoissonParticipation) -> None:
        super().__init__(column, noise_stddev, rounds)
        self.kind = kind
        if len(column) == 1 and rounds % kind.cycle_length == 0:
            self.largest_tilt = LARGEST_ORDER
        self._set_mean(np.full(rounds, kind.probability / kind.cycle_length))

    def _coins(self, order: int) -> Array:
        """Log joint weights of m coins that fell among n paths of one slot, in one round; (order + 2, order + 2)."""
        p, k = self.kind.probability, np.arange(order + 2)
        n, tails = k[:, None], np.maximum(k[:, None] - k, 0)
        ways = gammaln(n + 1) - (gammaln(k + 1) + gammaln(tails + 1))
        coins = np.where(k <= n, ways + xlogy(k, p) + xlog1py(tails, -p), -np.inf)
        return np.asarray(coins + gaussian_joint(order, float(self.energy[0])))

    def _joint(self, order: int) -> Array:
        return np.asarray(self.rounds // self.kind.cycle_length * logsumexp(self._coins(order), axis=1))

    def log_moment(self, order: int) -> float:
        """Return the Renyi moment, for independent noise and whole cycles; see ``SimulatedPair``."""
        return log_moment(order, self.kind.cycle_length, self._joint(order))

    def draw_tilted(self, rng: np.random.Generator, order: int, count: int) -> tuple[Array, Array]:
        """Draw slots jointly, then per round how many of a slot's paths take part; see ``SimulatedPair``."""
        b = self.kind.cycle_length
        counts = draw_counts(order, b, self._joint(order), rng.random(count))
        coins = self._coins(order)
        ladder = np.cumsum(np.exp(coins - coins.max(axis=1, keepdims=True)), axis=1)
        ladder /= ladder[:, -1:]
        x = draw_normals(rng, count, self.rounds).T.copy()
        for slot in range(counts.shape[1]):
            steps = ladder[counts[:, slot], :-1]
            for t in range(slot, self.rounds, b):
                x[t] += (rng.random(count)[:, None] >= steps).sum(axis=1) * (self.column[0] / self.stddev)
        loss = self.loss(self.ratios(x))
        return loss, self.log_moment(order) - order * loss

    def _largest_energy(self) -> float:
        b = self.kind.cycle_length
        return max(float(self.energy[slot::b].sum()) for slot in range(min(b, self.rounds)))

    def sample_participation(self, rng: np.random.Generator, count: int) -> NDArray[np.bool_]:
        """Draw slots and coins; see ``_Banded``."""
        slot = rng.integers(self.kind.cycle_length, size=count)
        coins = rng.random((count, self.rounds)).T < self.kind.probability  # noqa: SIM300 (not a constant)
        return np.asarray(coins & (np.arange(self.rounds)[:, None] % self.kind.cycle_length == slot))

    def loss(self, ratio: Array) -> Array:
        """Return the mean over slots; see ``_Banded``."""
        b, p = self.kind.cycle_length, self.kind.probability
        single = ratio
        if p < 1:  # ln(1 - p + p e^ratio)
            top = np.maximum(ratio, 0)
            single = top + np.log((1 - p) * np.exp(-top) + p * np.exp(ratio - top))
        idle = np.zeros((-self.rounds % b, ratio.shape[1]))
        fields = np.concatenate([single, idle]).reshape(-1, b, ratio.shape[1]).sum(axis=0)
        return log_mean_exp(fields.T)


class RandomAllocationPair(_Banded):
    """k rounds of T, each set of them alike, with independent noise; the loss is a mean of products over such sets.

    g_j, the log of the sum of products of j of the ratios so far, grows by ln(e^(g_j) + e^(r_t + g_(j-1))). The loss is
    g_k less the log of the number of sets.

    Source:
        The participation: Feldman & Shenfeld 2025 (arXiv:2502.08202), "k out of t random allocation".
    """

    def __init__(self, column: Array, noise_stddev: float, rounds: int, participations: int) -> None:
        super().__init__(column, noise_stddev, rounds)
        self.participations = participations
        self._log_sets = math.log(math.comb(rounds, participations))
        self._set_mean(np.full(rounds, participations / rounds))

    def _largest_energy(self) -> float:
        return float(np.sort(self.energy)[-self.participations :].sum())

    def sample_participation(self, rng: np.random.Generator, count: int) -> NDArray[np.bool_]:
        """Draw the rounds of each unit; see ``_Banded``."""
        order = np.argsort(rng.random((count, self.rounds)), axis=1)
        return np.asarray((order < self.participations).T)

    def loss(self, ratio: Array) -> Array:
        """Return the loss by a recursion over rounds; see ``_Banded``."""
        k = self.participations
        sums = np.full((k + 1, ratio.shape[1]), -np.inf)
        sums[0] = 0.0
        for t, row in enumerate(ratio):
            low, high = max(0, k - (self.rounds - 1 - t)), min(t + 1, k)  # of these sums the last one is made
            first = max(low, 1)
            sums[first : high + 1] = np.logaddexp(sums[first : high + 1], row + sums[first - 1 : high])
        return np.asarray(sums[k] - self._log_sets)
