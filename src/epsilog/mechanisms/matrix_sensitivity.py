"""How far one unit moves a matrix mechanism, at most: the norm of C u over all ways to take part.

A unit takes part in the rounds S with vectors u_i of norm at most 1 and moves C G by the norm of C u. The square of
that norm is sum_ij G_ij <u_i, u_j> over S, with G = C^T C. No entry of G is negative, so it is at most sum_ij G_ij over
S, with equality if all vectors are equal. The remaining problem is to find the worst S: docs/accounting/matrices.md.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from epsilog.mechanisms.matrix import (
    BoundedParticipation,
    DenseStrategy,
    FullParticipation,
    MatrixMechanism,
    ToeplitzStrategy,
    TreeAggregationStrategy,
)
from epsilog.numerics.questions import Bounds
from epsilog.numerics.rounding import round_down, round_up
from epsilog.terms import UnsupportedMechanismError

Array = npt.NDArray[np.float64]

METHOD = "sensitivity"
_SCALED = 3  # roundings: an entry over the largest, which is multiplied by again
_MOST_ROUNDS = 1024  # of a Gram matrix that is searched
_LONGEST = 2**22  # rounds of a column that is added to itself
_MOST_WORK = 2**30  # additions
_CLIMBS = 20  # from one way to take part to a worse one


@lru_cache(maxsize=64)
def matrix_sensitivity(release: MatrixMechanism) -> Bounds:
    """Bound what one unit moves C G by, in clip norms, if it joins or leaves; replaced, it moves it twice as far.

    Raises:
        UnsupportedMechanismError: participation is drawn at random, or there is too much to search.

    Source:
        Choquette-Choo et al. 2023 (arXiv:2211.06530), Corollary 2.1, and (arXiv:2306.08153), Section 3, for C^T C from
        0 on; Kalinin & Lampert 2024, Theorem 2 (arXiv:2405.13763), for a falling column.

    >>> from epsilog.mechanisms import BallsInBinsParticipation
    >>> banded = MatrixMechanism(ToeplitzStrategy((1.0, 0.5)), BoundedParticipation(3, 10), 100, 1.0)
    >>> round(matrix_sensitivity(banded).lower**2, 12), round(matrix_sensitivity(banded).upper**2, 12)
    (3.75, 3.75)
    """
    rounds = release.rounds
    match release.participation:
        case FullParticipation():
            most, separation = rounds, 1
        case BoundedParticipation(max_participations=most, min_separation=separation):
            separation = min(separation, rounds)
            most = min(most, -(-rounds // separation))
        case _:
            raise UnsupportedMechanismError(release, method=METHOD, reason="who takes part when is drawn at random")
    match release.strategy:
        case ToeplitzStrategy(coefficients=column):
            scale = max(column[:rounds])
            found = _toeplitz(release, _trim_column(column[:rounds], scale), most, separation)
        case DenseStrategy(rows=rows):
            scale = max(max(row) for row in rows)
            if most == rounds:  # more rounds are never less
                square = math.fsum(math.fsum(value / scale for value in row) ** 2 for row in rows)
                found = _take_root(square, square, 8)
                return Bounds(round_down(scale * found.lower, _SCALED), round_up(scale * found.upper, _SCALED))
            if rounds > _MOST_ROUNDS:
                raise _too_much(release)
            matrix = np.zeros((rounds, rounds))
            for t, row in enumerate(rows):
                matrix[t, : t + 1] = row
            matrix /= scale
            found = _search_patterns(matrix.T @ matrix, most, separation)
        case TreeAggregationStrategy():
            scale, found = 1.0, _tree(rounds, most, separation)
    return Bounds(round_down(scale * found.lower, _SCALED), round_up(scale * found.upper, _SCALED))


def _too_much(release: MatrixMechanism) -> UnsupportedMechanismError:
    return UnsupportedMechanismError(release, method=METHOD, reason="there are too many ways to take part to search")


def _trim_column(column: tuple[float, ...], scale: float) -> Array:
    """A column over its largest entry (so no square of it vanishes), without the zeros at its end."""
    values = np.array(column) / scale
    return values[: int(np.flatnonzero(values)[-1]) + 1]


def _take_root(low: float, high: float, roundings: float) -> Bounds:
    """Return norms from squares with this many roundings; underflow is below one rounding, since norms are near 1."""
    return Bounds(math.sqrt(round_down(low, roundings + 8)), math.sqrt(round_up(high, roundings + 8)))


def _toeplitz(release: MatrixMechanism, column: Array, most: int, separation: int) -> Bounds:
    """Exact up to rounding with few bands or a nonincreasing column; else bounds by nonincreasing columns."""
    rounds, bands = release.rounds, len(column)
    if bands <= separation:  # the columns of one unit share no row: those of the first turns are the longest
        complete = min(most, (rounds - bands) // separation + 1)
        square = complete * math.fsum(column**2)
        if complete < most:  # at most one is cut off by the end
            square += math.fsum(column[: rounds - complete * separation] ** 2)
        return _take_root(square, square, 4)
    if rounds > _LONGEST or (most * separation < rounds and most * bands > _MOST_WORK):
        raise _too_much(release)
    falling = np.maximum.accumulate(column[::-1])[::-1]
    lower = _first_turns(column, rounds, most, separation)
    upper = (
        lower if most == rounds or np.array_equal(column, falling) else _first_turns(falling, rounds, most, separation)
    )
    found = _take_root(lower, upper, rounds + 2 * most)
    if upper > lower and rounds <= _MOST_ROUNDS:
        matrix = np.zeros((rounds, rounds))
        for t in range(rounds):
            matrix[t : t + bands, t] = column[: rounds - t]
        found = found.intersect(_search_patterns(matrix.T @ matrix, most, separation))
    return found


def _first_turns(column: Array, rounds: int, most: int, separation: int) -> float:
    """The squared norm of the sum of the columns 0, b, 2b, ...: of a falling column no other way to take part is worse.

    The j-th turn of any unit is at j b or later. Where turns are moved to the front none of their distances grows, and
    none of their columns gets shorter: so no scalar product of two columns falls.
    """
    if most * separation >= rounds:  # every turn is taken
        padded = np.zeros(-(-rounds // separation) * separation)
        padded[: len(column)] = column
        return math.fsum(padded.reshape(-1, separation).cumsum(axis=0).ravel()[:rounds] ** 2)
    image = np.zeros(rounds)
    for start in range(0, most * separation, separation):
        length = min(len(column), rounds - start)
        image[start : start + length] += column[:length]
    return math.fsum(image**2)


def _search_patterns(gram: Array, most: int, separation: int) -> Bounds:
    """Bound the norm for any Gram matrix from 0 on, by the best of all ways to take part.

    Upper bound: sum_ij over S is the sum over i in S of what i shares with S. Each term is at most what i shares with
    the best pattern that contains i; the best pattern of those numbers bounds the sum. Lower bound: the pattern found,
    improved while the best pattern by shares with S is worse than S. That step never reduces the norm, as G is positive
    semidefinite.
    """
    rounds = len(gram)
    before, after = _reaching(gram, most, separation), _reaching(gram[::-1, ::-1], most, separation)[:, ::-1]
    shared = np.diag(gram) + np.max(before + after[::-1], axis=0)
    upper, chosen = _best(shared, most, separation)
    lower = 0.0
    for _ in range(_CLIMBS):
        value = float(gram[np.ix_(chosen, chosen)].sum())
        if value <= lower:
            break
        lower = value
        _, chosen = _best(gram[chosen].sum(axis=0), most, separation)
    return _take_root(lower, max(upper, lower), 2 * rounds + 4 * most)


def _reaching(gram: Array, most: int, separation: int) -> Array:
    """What round i shares with the best j rounds before it, at least ``separation`` away, for each j < ``most``."""
    rounds = len(gram)
    places = np.arange(rounds)
    seen = np.zeros((most, rounds))
    best = np.zeros((rounds, rounds + 1))  # by the round that asks, and how many of the first rounds are looked at
    for j in range(1, most):
        now = np.zeros_like(best)
        shifted = np.zeros((rounds, rounds))
        if separation < rounds:
            shifted[:, separation - 1 :] = best[:, : rounds - separation + 1]
        now[:, 1:] = np.maximum.accumulate(shifted + gram, axis=1)
        best = now
        seen[j] = best[places, np.maximum(places - separation + 1, 0)]
    return seen


def _best(weights: Array, most: int, separation: int) -> tuple[float, npt.NDArray[np.intp]]:
    """Return the largest sum of weights from 0 on over any way to take part, and the rounds of it."""
    rounds = len(weights)
    best = np.zeros((most + 1, rounds + 1))
    for j in range(1, most + 1):
        shifted = np.zeros(rounds)
        shifted[separation - 1 :] = best[j - 1, : rounds - separation + 1]
        best[j, 1:] = np.maximum.accumulate(shifted + weights)
    chosen, at, j = [], rounds, most
    while j > 0 and at > 0:
        if best[j, at] == best[j, at - 1]:
            at -= 1
            continue
        chosen.append(at - 1)
        at, j = max(at - separation, 0), j - 1
    return float(best[most, rounds]), np.array(chosen[::-1], dtype=np.intp)


def _tree(rounds: int, most: int, separation: int) -> Bounds:
    """A block of 2^h rounds holds at most ceil(2^h / b) turns; their squares count in as few blocks as hold all."""
    levels = [2**h for h in range(rounds.bit_length())]
    if most == rounds:
        square = sum(rounds // size * size**2 for size in levels)
        return _take_root(square, square, 4)
    upper = lower = 0
    for size in levels:
        held = min(most, -(-size // separation))
        blocks = rounds // size
        full = min(most // held, blocks)
        upper += full * held**2
        if full < blocks:
            upper += (most - full * held) ** 2
    if rounds <= _MOST_ROUNDS and most > 1:
        found = _search_patterns(_tree_gram(rounds), most, separation)
        return found.intersect(_take_root(0.0, upper, 4))
    if most <= _LONGEST:
        starts = np.arange(most) * separation
        for size in levels:
            counts = np.bincount(starts // size)[: rounds // size]
            lower += int(np.sum(counts.astype(np.int64) ** 2))
    return _take_root(lower, upper, 4)


def _tree_gram(rounds: int) -> Array:
    """Return how many blocks two rounds share."""
    places = np.arange(rounds)
    gram = np.zeros((rounds, rounds))
    for h in range(rounds.bit_length()):
        block = places >> h
        complete = (block + 1) << h <= rounds
        gram += (block[:, None] == block) & complete
    return gram
