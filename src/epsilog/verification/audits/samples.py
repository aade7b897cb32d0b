"""Audit a mechanism by many runs on two neighboring data sets."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from epsilog.terms import CheckError, arrays, check

FEWEST = 10  # outcomes in each half of a sample


def audit_two_datasets(one: ArrayLike, other: ArrayLike, *, delta: float, confidence: float = 0.95) -> float:
    """Return a lower bound on epsilon from numbers released by independent runs on two neighboring data sets.

    The first half of each sample selects a half-line A and the order of the data sets; the second half estimates P(A)
    and Q(A), so that selection and estimation are independent. Epsilon is at least ln((P(A) - delta) / Q(A)).

    Args:
        one: outcomes on the first data set, shape (n,), at least 20.
        other: outcomes on the second, shape (k,), at least 20.
        delta: of the claim, in [0, 1).
        confidence: in (0, 1).

    Returns:
        A lower bound on epsilon at this confidence; 0 if the outcomes show none.

    Raises:
        CheckError: too few outcomes, or one that is not a number.

    Source:
        Clopper & Pearson 1934 for both rates; a half-line is the best set for a shifted unimodal distribution.
    """
    delta, confidence = (
        check.in_half_open_interval(0, 1)(delta=delta),
        check.in_open_interval(0, 1)(confidence=confidence),
    )
    p, q = _numbers("one", one), _numbers("other", other)
    (p_pick, p_count), (q_pick, q_count) = (np.split(x, [len(x) // 2]) for x in (p, q))
    _, threshold, above, turned = max(
        (*_select_half_line(first, second, delta=delta, above=above), above, turned)
        for turned, first, second in ((False, p_pick, q_pick), (True, q_pick, p_pick))
        for above in (False, True)
    )
    first, second = (q_count, p_count) if turned else (p_count, q_count)
    level = (1 - confidence) / 2
    often = _at_least(_count_reaching(first, threshold, above=above), len(first), level)
    seldom = 1 - _at_least(len(second) - _count_reaching(second, threshold, above=above), len(second), level)
    return max(0.0, math.log((often - delta) / seldom)) if often > delta and seldom > 0 else 0.0


def _numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    found: NDArray[np.float64] = arrays.doubles(name, values)
    if found.ndim != 1 or found.size < 2 * FEWEST:
        raise CheckError(name, f"of shape (n,) with n at least {2 * FEWEST}", f"{found.shape}")
    if np.isnan(found).any():
        raise CheckError(name, "numbers", "NaN")
    return found


def _count_reaching(values: NDArray[np.float64], threshold: float, *, above: bool) -> int:
    return int((values >= threshold).sum() if above else (values <= threshold).sum())


def _select_half_line(
    p: NDArray[np.float64], q: NDArray[np.float64], *, delta: float, above: bool
) -> tuple[float, float]:
    """Return a cautious estimate of epsilon from the best half-line, and its threshold."""
    at = np.unique(np.concatenate([p, q]))
    p, q = np.sort(p), np.sort(q)
    if above:
        often, seldom = len(p) - np.searchsorted(p, at), len(q) - np.searchsorted(q, at)
    else:
        often, seldom = np.searchsorted(p, at, side="right"), np.searchsorted(q, at, side="right")
    share = (often - 2 * np.sqrt(often)) / len(p)
    odds = (seldom + 2 * np.sqrt(seldom) + 3) / len(q)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(share > delta, np.log(np.maximum(share - delta, 1e-300) / odds), -np.inf)
    best = int(np.argmax(found))
    return float(found[best]), float(at[best])


def _at_least(hits: int, trials: int, level: float) -> float:
    """Return the one-sided lower end of Clopper & Pearson's interval."""
    return float(betaincinv(hits, trials - hits + 1, level)) * (1 - 1e-9) if hits else 0.0
