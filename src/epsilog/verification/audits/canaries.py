"""Audit one run by its canaries: guess inclusion from scores, and find the largest epsilon that the guesses refute."""

from __future__ import annotations

import csv
import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilog.accounting import gaussian_epsilon
from epsilog.terms import CheckError, RecordError, arrays, check
from epsilog.terms.formatting import format_lower
from epsilog.terms.notebook import render_html_table
from epsilog.verification.audits.refutation import (
    bound_p_value,
    build_gaussian_curve,
    build_line_curve,
    list_profile_points,
    refutes_f_dp,
)
from epsilog.verification.files import read_file

FEWEST = 8  # guesses of one kind: fewer refute nothing at usual confidences
MOST = 100.0  # the largest epsilon, or mu, to search for
CLOSE = 1e-6
Method = Literal["one-run", "one-run-gaussian"]
ONE_RUN: Method = "one-run"
GAUSSIAN: Method = "one-run-gaussian"
SILENCE = (
    "An attack that finds nothing proves little: a better one may find more, and canaries of one run hide each other "
    "(Keinan et al. 2025), so the true epsilon may be much larger."
)
METHODS = {
    ONE_RUN: "one run, any mechanism (Steinke, Nasr & Jagielski 2023)",
    GAUSSIAN: "one run, if the mechanism is Gaussian (Mahloujifar, Melis & Chaudhuri 2025)",
}


class Guesses(NamedTuple):
    """The numbers of canaries guessed in (those of highest score) and guessed out (those of lowest score)."""

    inside: int
    outside: int

    @property
    def total(self) -> int:
        """Return the number of guesses of both kinds."""
        return self.inside + self.outside


def list_default_guesses(canaries: int) -> tuple[Guesses, ...]:
    """Return k guesses at each end, for k from a half down to a thirty-second of all canaries.

    More guesses would each get a smaller part of 1 - confidence.

    >>> list_default_guesses(40)
    (Guesses(inside=20, outside=20), Guesses(inside=10, outside=10))
    """
    halves = [canaries >> i for i in range(1, 6) if canaries >> i >= FEWEST] or [canaries // 2]
    return tuple(Guesses(k, k) for k in halves)


@dataclass(frozen=True, slots=True)
class AuditProtocol:
    """Settings that are fixed before the run, so that the best result cannot be selected afterwards.

    Attributes:
        canaries: their number; each is included by an independent fair coin.
        delta: delta of the bound on epsilon, in [0, 1).
        confidence: probability that no bound exceeds the true epsilon, at least; in (0, 1).
        method: "one-run" for any mechanism, or "one-run-gaussian" for Gaussian ones.
        guesses: all guesses; each gets an equal part of 1 - confidence. Empty for ``list_default_guesses``.
    """

    canaries: Annotated[int, check.integer(2, 10**7)]
    delta: Annotated[float, check.in_half_open_interval(0, 1)]
    confidence: Annotated[float, check.in_open_interval(0, 1)] = 0.95
    method: Annotated[Method, check.one_of(tuple(METHODS))] = ONE_RUN
    guesses: tuple[Guesses, ...] = ()

    def __post_init__(self) -> None:
        check.check_fields(self)
        if self.method == GAUSSIAN and self.delta == 0:
            raise CheckError("delta", "above 0 for a Gaussian mechanism", "0")
        made = tuple(Guesses(*one) for one in self.guesses) or list_default_guesses(self.canaries)
        for one in made:
            check.integer(0)(inside=one.inside)
            check.integer(0)(outside=one.outside)
            if not 1 <= one.total <= self.canaries:
                raise CheckError("guesses", f"1 to {self.canaries} each", f"{one.total}")
        object.__setattr__(self, "guesses", made)

    @property
    def level(self) -> float:
        """Return the largest error probability of one guess."""
        return (1 - self.confidence) / len(self.guesses)


@dataclass(frozen=True, slots=True)
class CanaryAudit:
    """The result of an audit.

    Attributes:
        epsilon: lower bound on epsilon, at the protocol's delta and confidence.
        correct: the number of correct guesses, for each of the protocol's guesses.
        best: the index of the guess that gives the bound.
        most: the bound if every guess had been correct, which is the largest possible.
        protocol: the settings.
    """

    epsilon: float
    correct: tuple[int, ...]
    best: int
    most: float
    protocol: AuditProtocol

    @property
    def message(self) -> str:
        """Two sentences for a reader."""
        one, protocol = self.protocol.guesses[self.best], self.protocol
        found = f"{self.correct[self.best]} of {one.total} guesses about {protocol.canaries} canaries were correct"
        if self.epsilon == 0:
            shown = f"{found}, which shows no leak. Had all been correct, epsilon would be at least "
            return f"{shown}{format_lower(self.most, 3)}. {SILENCE}"
        bound = f"epsilon is at least {format_lower(self.epsilon, 3)} at delta {protocol.delta:g}"
        if protocol.method == GAUSSIAN:
            bound += ", if the mechanism is Gaussian"
        return f"{found}: with {protocol.confidence:.3g} confidence, {bound}. A lower bound guarantees nothing."

    def refutes(self, claimed: float) -> bool:
        """Return whether the bound exceeds a claimed epsilon at the protocol's delta."""
        return claimed < self.epsilon

    def _repr_html_(self) -> str:
        protocol = self.protocol
        rows = [
            ("epsilon is at least", format_lower(self.epsilon), f"at delta {protocol.delta:g}"),
            ("confidence", f"{protocol.confidence:g}", METHODS[protocol.method]),
            ("could have shown", format_lower(self.most), f"{protocol.canaries} canaries"),
        ]
        return render_html_table("Lower bound by an attack; it guarantees nothing", rows)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        protocol = self.protocol
        return {
            "epsilon": self.epsilon,
            "side": "lower",
            "delta": protocol.delta,
            "confidence": protocol.confidence,
            "method": METHODS[protocol.method],
            "canaries": protocol.canaries,
            "guesses": [
                {"inside": g.inside, "outside": g.outside, "correct": n}
                for g, n in zip(protocol.guesses, self.correct, strict=True)
            ],
            "most": self.most,
            "message": self.message,
        }


def audit_one_run(scores: ArrayLike, included: ArrayLike, protocol: AuditProtocol) -> CanaryAudit:
    """Return a lower bound on epsilon from the scores of canaries in one run.

    It assumes that independent fair coins included the canaries and that the protocol was fixed in advance. A score may
    depend on the canary and on released results, not on the canary's coin. Neighboring data sets differ in one canary.

    Args:
        scores: one for each canary, shape (m,); higher for those that seem included. Ties count as wrong guesses.
        included: whether each was included, shape (m,).
        protocol: the settings.

    Raises:
        CheckError: a wrong shape, a score that is not a number, or a coin that is not true or false.
    """
    values, coins = _read(scores, included, protocol.canaries)
    correct = tuple(count_correct_guesses(values, coins, one) for one in protocol.guesses)
    bounds = [_bound(protocol, one, n) for one, n in zip(protocol.guesses, correct, strict=True)]
    best = int(np.argmax(bounds))
    most = max(_bound(protocol, one, one.total) for one in protocol.guesses)
    return CanaryAudit(bounds[best], correct, best, most, protocol)


def _read(scores: ArrayLike, included: ArrayLike, canaries: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    values: NDArray[np.float64] = arrays.doubles("scores", scores)
    coins = np.asarray(included)
    for name, array in (("scores", values), ("included", coins)):
        if array.shape != (canaries,):
            raise CheckError(name, f"of shape ({canaries},), one for each canary", f"{array.shape}")
    if np.isnan(values).any():
        raise CheckError("scores", "numbers", "NaN")
    if not np.isin(coins, (0, 1)).all():
        raise CheckError("included", "true or false each", repr(coins[~np.isin(coins, (0, 1))][0]))
    return values, coins.astype(bool)


def count_correct_guesses(values: NDArray[np.float64], coins: NDArray[np.bool_], guesses: Guesses) -> int:
    """Count correct guesses; among canaries of equal score, wrong guesses come first."""
    right = 0
    for count, signed, truth in ((guesses.inside, -values, coins), (guesses.outside, values, ~coins)):
        if count:
            order = np.lexsort((truth, signed))[:count]
            right += int(truth[order].sum())
    return right


def _bound(protocol: AuditProtocol, guesses: Guesses, correct: int) -> float:
    m, count, level = protocol.canaries, guesses.total, protocol.level
    if protocol.method == ONE_RUN:
        return _find_largest(lambda e: bound_p_value(m, count, correct, epsilon=e, delta=protocol.delta) <= level)

    def is_refuted(mu: float) -> bool:
        return refutes_f_dp(m, count, correct, curve=build_gaussian_curve(mu), level=level)

    mu = _find_largest(is_refuted)
    return gaussian_epsilon(mu, protocol.delta)[0] if mu > 0 else 0.0


def _find_largest(is_refuted: Callable[[float], bool]) -> float:
    """Return a number up to 100 that is refuted, about the largest; 0 if none is."""
    if not is_refuted(CLOSE):
        return 0.0
    low, high = CLOSE, 1.0
    while is_refuted(high):
        low, high = high, 2 * high
        if high > MOST:
            return low
    while high - low > CLOSE * high:
        middle = (low + high) / 2
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low


def refutes_epsilon(audit: CanaryAudit, claimed: float, *, level: float) -> bool:
    """Return whether the guesses refute a claimed epsilon at the protocol's delta, for any mechanism.

    Args:
        audit: the result of the guesses.
        claimed: at least 0.
        level: the largest error probability of one guess.
    """
    protocol = audit.protocol
    return any(
        bound_p_value(protocol.canaries, one.total, n, epsilon=claimed, delta=protocol.delta) <= level
        for one, n in zip(protocol.guesses, audit.correct, strict=True)
    )


def refutes_profile(audit: CanaryAudit, points: Sequence[tuple[float, float]], *, level: float | None = None) -> bool:
    """Return whether the guesses refute a whole privacy profile, which claims more than any one of its points.

    Args:
        audit: the result of the guesses.
        points: (epsilon, delta) of the claim, each an upper bound for both adjacency types.
        level: the largest error probability of one guess; None for the protocol's.
    """
    lines, protocol = list_profile_points(points), audit.protocol
    limit = protocol.level if level is None else level
    return bool(lines) and any(
        refutes_f_dp(protocol.canaries, one.total, n, curve=build_line_curve(lines), level=limit)
        for one, n in zip(protocol.guesses, audit.correct, strict=True)
    )


FIELDS = ("canaries", "delta", "confidence", "method", "guesses")
COINS = {"1": True, "0": False, "true": True, "false": False}


def read_protocol(path: Path) -> AuditProtocol:
    """Read a protocol from TOML with the keys ``FIELDS``; only ``canaries`` and ``delta`` are required.

    Raises:
        RecordError: the file cannot be read or is not a protocol.
    """
    try:
        document: dict[str, Any] = tomllib.loads(read_file(path).decode("utf-8"))
        unknown = sorted(set(document) - set(FIELDS))
        if unknown:
            raise CheckError("protocol", f"of the fields {', '.join(FIELDS)}", ", ".join(unknown))
        guesses = document.pop("guesses", [])
        if not all(isinstance(one, list) and len(one) == 2 for one in guesses):
            raise CheckError("guesses", "pairs [inside, outside]", repr(guesses))
        return AuditProtocol(**document, guesses=tuple(Guesses(*one) for one in guesses))
    except (ValueError, TypeError, RecursionError) as error:
        raise RecordError(f"{path}: {error}") from error


def read_scores(path: Path) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Read scores and coins from a CSV file with the columns ``score`` and ``included``, one canary per line.

    Raises:
        RecordError: a missing column, or an invalid line, with its number.
    """
    try:
        rows = csv.DictReader(read_file(path).decode("utf-8-sig").splitlines())
        missing = [name for name in ("score", "included") if name not in (rows.fieldnames or ())]
        if len(set(rows.fieldnames or ())) < len(rows.fieldnames or ()):
            raise CheckError("columns", "each there once", ", ".join(rows.fieldnames or ()))
        if missing:
            raise CheckError("columns", "score and included", f"without {', '.join(missing)}")
        found = [_line(number, row) for number, row in enumerate(rows, start=2)]
    except (ValueError, csv.Error) as error:
        raise RecordError(f"{path}: {error}") from error
    scores, coins = zip(*found, strict=True) if found else ((), ())
    return np.array(scores, dtype=np.float64), np.array(coins, dtype=bool)


def _line(number: int, row: dict[str, str | None]) -> tuple[float, bool]:
    score, coin = (str(row[name] or "").strip() for name in ("score", "included"))
    try:
        value = float(score)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise CheckError(f"line {number}, score", "a number", repr(score))
    if coin.lower() not in COINS:
        raise CheckError(f"line {number}, included", "1, 0, true or false", repr(coin))
    return value, COINS[coin.lower()]
