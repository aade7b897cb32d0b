"""The two distributions that a simulated release must hide one unit between, drawn exactly and in small.

Q = N(0, s^2 I) is the run without the unit, P the mixture over the unit's hidden participation. ``draw`` gives
privacy losses: ln(P / Q) under P for "remove", ln(Q / P) under Q for "add". Draws are exchangeable, so that any prefix
is a fair sample. Hypotheses: C lower triangular and entrywise at least 0, participation independent per unit, no
truncated batches, public normalisers; zero-out and add-or-remove-one are then the same. Sources per class.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from epsilog.accounting.montecarlo.normals import normals
from epsilog.accounting.montecarlo.oracle import REMOVE, cube_lower_bound, gaussian_delta
from epsilog.terms import (
    BallsInBins,
    BinnedParticipation,
    CyclicParticipation,
    DenseStrategy,
    EveryRound,
    Gaussian,
    MatrixMechanism,
    PoissonSampled,
    Release,
    Repeated,
    SpacedParticipation,
    ToeplitzStrategy,
    UnsupportedMechanismError,
)

Array = NDArray[np.float64]
METHOD = "Monte Carlo"
_CHUNK = 1 << 17  # normals held at once by the mixture's sampler: 1 MB


@runtime_checkable
class Pair(Protocol):
    """A dominating pair that can be sampled."""

    mean_energy: float  # mean over participations of |m_S|^2 / s^2
    mean_field_energy: float  # |mean over participations of m_S|^2 / s^2

    def draw(
        self, rng: np.random.Generator, count: int, direction: str, *, floor: float, shift: float
    ) -> tuple[Array, Array]:
        """Draws ``count`` privacy losses; those known to be at most ``floor`` may come back as ``-inf``.

        With ``shift`` c > 0 (add only) the noise is centred at -c times the mean of m_S, and the second array is the
        log of the likelihood ratio of the unshifted to the shifted law; it is 0 otherwise. Shapes (count,).
        """
        ...

    def brackets(self, epsilon: float, direction: str) -> tuple[float, float]:
        """Proven bounds below and above delta(epsilon)."""
        ...


def log_mean_exp(fields: Array) -> Array:
    """Log of the mean of the exponentials along the last axis; shape (n, b) to (n,)."""
    return _mixed(fields, sign=1, floor=-math.inf)


def _mixed(noise: Array, *, sign: int, floor: float, scale: float = 1.0, offset: float = 0.0) -> Array:
    """``sign`` times the log mean exp of the rows of scale * noise - offset; shape (n, b) to (n,).

    ``-inf`` where a row's maximum alone shows the result to be at most ``floor``: a mean lies between the largest
    term over b and the largest term.
    """
    log_bins = math.log(noise.shape[1])
    peak = noise.max(axis=1)
    top = scale * peak - offset
    live = top > floor if sign > 0 else log_bins - top > floor
    shifted = noise[live] if not live.all() else noise.copy()
    shifted -= peak[live, None]
    shifted *= scale
    np.exp(shifted, out=shifted)
    loss = np.full(len(noise), -np.inf)
    loss[live] = sign * (top[live] + np.log(shifted @ np.ones(noise.shape[1])) - log_bins)
    return loss


class Mixture:
    """P = mean of N(m_i, s^2 I) over i, through the Gram matrix H_ij = <m_i, m_j> / s^2: balls-in-bins over any C.

    Only u_i = ln of the i-th likelihood ratio matters: under N(m, s^2 I), u ~ N(<m_i, m> / s^2 - H_ii / 2, H).

    Source:
        Choquette-Choo et al., ICLR 2025, Lemma 3.2 (arXiv:2410.06266).
    """

    def __init__(self, gram: Array) -> None:
        scale = float(np.abs(gram).max())
        if not (np.isfinite(gram).all() and scale < 1e12):
            raise UnsupportedMechanismError("gram", method=METHOD, reason="the noise is too small to be simulated")
        self.bins = len(gram)
        self.diagonal = bool(np.count_nonzero(gram - np.diag(np.diag(gram))) == 0)
        self.gram = gram if self.diagonal else _made_definite(gram)
        self.half = np.diag(self.gram) / 2
        self.uniform = self.diagonal and float(np.ptp(self.half)) == 0.0
        self.root = np.sqrt(np.diag(gram)) if self.diagonal else np.linalg.cholesky(self.gram).T.copy()
        self.mean_row = self.gram.mean(axis=0)
        self.mean_energy = float(2 * self.half.mean())
        self.mean_field_energy = float(self.gram.mean())

    def noise(self, rng: np.random.Generator, count: int) -> Array:
        """Draws from N(0, H); shape (count, b)."""
        drawn = normals(rng, count, self.bins)
        if self.diagonal:
            drawn *= self.root
            return drawn
        return np.asarray(drawn @ self.root)

    def draw(
        self, rng: np.random.Generator, count: int, direction: str, *, floor: float, shift: float
    ) -> tuple[Array, Array]:
        """Draws losses; see ``Pair``."""
        index = rng.integers(self.bins, size=count) if direction == REMOVE else None
        loss, log_weight = np.empty(count), np.zeros(count)
        step = max(1, _CHUNK // self.bins)
        part_of = self._alike if self.uniform else self._general
        for start in range(0, count, step):
            part = slice(start, min(start + step, count))
            modes = None if index is None else index[part]
            loss[part], log_weight[part] = part_of(rng, part.stop - start, modes, floor, shift)
        return loss, log_weight

    def _alike(
        self, rng: np.random.Generator, count: int, modes: NDArray[np.int64] | None, floor: float, shift: float
    ) -> tuple[Array, Array]:
        """Independent noise and equal bins: u_i = t z_i - t^2 / 2, with z_i moved by t under mode i."""
        t, half = float(self.root[0]), float(self.half[0])
        z = normals(rng, count, self.bins)
        if modes is not None:
            z[np.arange(count), modes] += t
            return _mixed(z, sign=1, floor=floor, scale=t, offset=half), np.zeros(count)
        log_weight = np.zeros(count)
        if shift:
            z -= shift * t / self.bins
            log_weight = shift * t * z.mean(axis=1) + shift**2 * self.mean_field_energy / 2
        return _mixed(z, sign=-1, floor=floor, scale=t, offset=half), log_weight

    def _general(
        self, rng: np.random.Generator, count: int, modes: NDArray[np.int64] | None, floor: float, shift: float
    ) -> tuple[Array, Array]:
        fields = self.noise(rng, count)
        if modes is not None:
            fields += self.gram[modes]
            fields -= self.half
            return _mixed(fields, sign=1, floor=floor), np.zeros(count)
        fields -= shift * self.mean_row
        log_weight = (
            shift * fields.mean(axis=1) + shift**2 * self.mean_field_energy / 2
        )  # mean field: <mean m, x> / s^2
        fields -= self.half
        return _mixed(fields, sign=-1, floor=floor), log_weight

    def brackets(self, epsilon: float, direction: str) -> tuple[float, float]:
        """The cube bound for independent noise (else 0) and the Gaussian of the largest mode."""
        stddevs = 1 / np.sqrt(np.maximum(2 * self.half, 1e-300))
        low = 0.0
        if self.uniform and self.bins > 1:
            low = cube_lower_bound(bins=self.bins, noise_stddev=float(stddevs[0]), epsilon=epsilon, direction=direction)
        return low, gaussian_delta(distance=math.sqrt(2 * float(self.half.max())), epsilon=epsilon)


def _made_definite(gram: Array) -> Array:
    """The Gram matrix, with just enough added to its diagonal to have a Cholesky factor.

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


class _Banded:
    """What b-min-sep and cyclic Poisson share: columns C_t that do not overlap within one participation."""

    def __init__(self, column: Array, noise_stddev: float, rounds: int) -> None:
        self.column, self.stddev, self.rounds = column, noise_stddev, rounds
        squares = np.cumsum(column**2)
        tails = np.minimum(np.arange(rounds, 0, -1), len(column)) - 1
        self.energy = squares[tails] / noise_stddev**2  # |C_t|^2 / s^2, shape (rounds,)
        self.mean_energy = self.mean_field_energy = 0.0

    def _set_mean(self, chance: Array) -> None:
        """Records the mean of m_S when round t is taken with probability ``chance[t]``; shape (rounds,)."""
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

    def loss(self, ratio: Array) -> Array:
        """Log of the likelihood ratio of the mixture; shape (rounds, n) to (n,)."""
        raise NotImplementedError

    def taken(self, rng: np.random.Generator, count: int) -> NDArray[np.bool_]:
        """Draws who takes part when; shape (rounds, count)."""
        raise NotImplementedError

    def _largest_energy(self) -> float:
        raise NotImplementedError

    def brackets(self, epsilon: float, direction: str) -> tuple[float, float]:
        """0 and the Gaussian of the fullest participation."""
        del direction
        return 0.0, gaussian_delta(distance=math.sqrt(self._largest_energy()), epsilon=epsilon)

    def draw(
        self, rng: np.random.Generator, count: int, direction: str, *, floor: float, shift: float
    ) -> tuple[Array, Array]:
        """Draws losses; see ``Pair``."""
        del floor
        taken = self.taken(rng, count) if direction == REMOVE else None
        x = normals(rng, count, self.rounds).T.copy()
        if taken is not None:
            for j, value in enumerate(self.column):
                x[j:] += taken[: self.rounds - j] * (value / self.stddev)
        log_weight = np.zeros(count)
        if shift:
            x -= shift * self.field[:, None]
            log_weight = shift * (self.field @ x) + shift**2 * self.mean_field_energy / 2
        loss = self.loss(self.ratios(x))
        return (loss if direction == REMOVE else -loss), log_weight


class Spaced(_Banded):
    """b-min-sep: joins with probability p unless within the last b - 1 rounds; the loss by backward recursion.

    f_t = ln((1 - p) e^(f_(t+1)) + p e^(r_t + f_(t+b))), f = 0 past the end; the loss is f_0, or for a warm start the
    mean of f_0, ..., f_(b-1) with weights 1 : p : ... : p.

    Source:
        Dong & Ganesh 2026 (arXiv:2602.09338v2).
    """

    def __init__(self, column: Array, noise_stddev: float, rounds: int, kind: SpacedParticipation) -> None:
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

    def taken(self, rng: np.random.Generator, count: int) -> NDArray[np.bool_]:
        """Draws the participation process; see ``_Banded``."""
        b, p = self.kind.min_separation, self.kind.probability
        at = rng.choice(len(self.start), p=self.start, size=count) + rng.geometric(p, size=count) - 1
        taken = np.zeros((self.rounds, count), dtype=bool)
        unit = np.arange(count)
        while (live := at < self.rounds).any():
            taken[at[live], unit[live]] = True
            at = np.minimum(at, self.rounds) + b - 1 + rng.geometric(p, size=count)
        return taken

    def loss(self, ratio: Array) -> Array:
        """The backward recursion; see ``_Banded``."""
        b, p = self.kind.min_separation, self.kind.probability
        stay = math.log1p(-p) if p < 1 else -math.inf
        ahead = np.zeros((b + 1, ratio.shape[1]))  # f_t at row t modulo b + 1
        for t in range(self.rounds - 1, -1, -1):
            joined = math.log(p) + ratio[t] + ahead[(t + b) % (b + 1)]
            ahead[t % (b + 1)] = np.logaddexp(stay + ahead[(t + 1) % (b + 1)], joined) if p < 1 else joined
        first = ahead[np.arange(len(self.start)) % (b + 1)]
        top = first.max(axis=0)
        return np.asarray(top + np.log(self.start @ np.exp(first - top)))


class Cyclic(_Banded):
    """Cyclic Poisson: a hidden slot of the cycle, then a coin whenever it comes; the loss is a mean over slots.

    Source:
        Choquette-Choo et al. 2023 (arXiv:2306.08153), with partitions drawn independently per unit.
    """

    def __init__(self, column: Array, noise_stddev: float, rounds: int, kind: CyclicParticipation) -> None:
        super().__init__(column, noise_stddev, rounds)
        self.kind = kind
        self._set_mean(np.full(rounds, kind.probability / kind.cycle_length))

    def _largest_energy(self) -> float:
        b = self.kind.cycle_length
        return max(float(self.energy[slot::b].sum()) for slot in range(min(b, self.rounds)))

    def taken(self, rng: np.random.Generator, count: int) -> NDArray[np.bool_]:
        """Draws slots and coins; see ``_Banded``."""
        slot = rng.integers(self.kind.cycle_length, size=count)
        coins = rng.random((count, self.rounds)).T < self.kind.probability  # noqa: SIM300 (not a constant)
        return np.asarray(coins & (np.arange(self.rounds)[:, None] % self.kind.cycle_length == slot))

    def loss(self, ratio: Array) -> Array:
        """The mean over slots; see ``_Banded``."""
        b, p = self.kind.cycle_length, self.kind.probability
        single = ratio + math.log(p) if p == 1 else np.logaddexp(math.log(p) + ratio, math.log1p(-p))
        fields = np.zeros((b, ratio.shape[1]))
        for t in range(self.rounds):
            fields[t % b] += single[t]
        return log_mean_exp(fields.T)


# ---- from releases ---------------------------------------------------------------------------------------------------


def bin_gram(release: MatrixMechanism, bins: int) -> Array:
    """The Gram matrix of the bins' modes m_i = sum_j C[:, i + j b], not yet over s^2; shape (b, b)."""
    rounds = release.rounds
    modes = np.zeros((rounds, bins))
    if isinstance(release.strategy, ToeplitzStrategy):
        column = np.array(release.strategy.coefficients[:rounds])
        for t in range(rounds):
            length = min(len(column), rounds - t)
            modes[t : t + length, t % bins] += column[:length]
    else:
        for t, row in enumerate(release.strategy.rows):
            np.add.at(modes[t], np.arange(t + 1) % bins, row)
    if isinstance(release.strategy, ToeplitzStrategy) and len(release.strategy.coefficients) == 1:
        return np.diag((modes**2).sum(axis=0))
    return np.asarray(modes.T @ modes)


@lru_cache(maxsize=8)
def pair_of(release: Release) -> Pair:
    """Builds the dominating pair of a release.

    Raises:
        UnsupportedMechanismError: there is no proven pair, or no noise.
    """
    if isinstance(release, BallsInBins) and isinstance(release.release, Gaussian):
        noise = _noisy(release, release.release.noise_multiplier)
        return Mixture(np.eye(release.bins) * (release.epochs / noise**2))
    if isinstance(release, Repeated) and isinstance(release.release, PoissonSampled):
        inner = release.release
        if isinstance(inner.release, Gaussian) and inner.sampling_probability > 0:
            kind = SpacedParticipation(1, inner.sampling_probability)
            return Spaced(np.ones(1), _noisy(release, inner.release.noise_multiplier), release.count, kind)
    if not isinstance(release, MatrixMechanism):
        raise UnsupportedMechanismError(release, method=METHOD)
    noise = _noisy(release, release.noise_stddev)
    match release.participation:
        case EveryRound():
            return Mixture(bin_gram(release, 1) / noise**2)
        case BinnedParticipation(cycle_length=bins):
            return Mixture(bin_gram(release, bins) / noise**2)
        case SpacedParticipation() as spaced:
            return Spaced(_column(release, spaced.min_separation), noise, release.rounds, spaced)
        case CyclicParticipation() as cyclic:
            return Cyclic(_column(release, cyclic.cycle_length), noise, release.rounds, cyclic)


def _noisy(release: Release, noise: float) -> float:
    if noise <= 0:
        raise UnsupportedMechanismError(release, method=METHOD, reason="there is no noise, hence no privacy")
    return noise


def _column(release: MatrixMechanism, separation: int) -> Array:
    if isinstance(release.strategy, DenseStrategy):
        raise UnsupportedMechanismError(release, method=METHOD, reason="this participation needs a banded Toeplitz C")
    column = np.array(release.strategy.coefficients[: release.rounds])
    if len(column) > separation:
        reason = f"the columns of one participation overlap: {len(column)} bands, separation {separation}"
        raise UnsupportedMechanismError(release, method=METHOD, reason=reason)
    return column
