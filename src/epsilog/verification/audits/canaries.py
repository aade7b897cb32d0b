"""What the canaries of one run show: guesses from their scores, and the largest epsilon that these refute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilog.accounting import gaussian_epsilon
from epsilog.terms import CheckError, arrays, check
from epsilog.terms.formatting import format_lower
from epsilog.terms.notebook import render_html_table
from epsilog.verification.audits.curves import build_gaussian_curve, build_line_curve, list_profile_points
from epsilog.verification.audits.refutation import bound_p_value, refutes_f_dp

FEWEST = 8  # guesses of one kind: fewer show nothing at usual confidences
MOST = 100.0  # the largest epsilon, or mu, that is looked for
CLOSE = 1e-6
Method = Literal["one-run", "one-run-gaussian"]
ONE_RUN: Method = "one-run"
GAUSSIAN: Method = "one-run-gaussian"
SILENCE = (
    "An attack that finds nothing proves little: a better one may find more, and canaries of one run hide each other "
    "(Keinan et al. 2025), so the true epsilon may be far above."
)
METHODS = {
    ONE_RUN: "one run, any mechanism (Steinke, Nasr & Jagielski 2023)",
    GAUSSIAN: "one run, if the mechanism is Gaussian (Mahloujifar, Melis & Chaudhuri 2025)",
}


class Guesses(NamedTuple):
    """So many canaries of the highest scores are said to be in, and so many of the lowest to be out."""

    inside: int
    outside: int

    @property
    def total(self) -> int:
        """Of both kinds."""
        return self.inside + self.outside


def list_default_guesses(canaries: int) -> tuple[Guesses, ...]:
    """K of each end, for k of a half down to a thirty-second of all canaries.

    More of them would each get a smaller part of what confidence leaves.

    >>> list_default_guesses(40)
    (Guesses(inside=20, outside=20), Guesses(inside=10, outside=10))
    """
    halves = [canaries >> i for i in range(1, 6) if canaries >> i >= FEWEST] or [canaries // 2]
    return tuple(Guesses(k, k) for k in halves)


@dataclass(frozen=True, slots=True)
class AuditProtocol:
    """What is fixed before the run, so that nobody picks what came out best.

    Attributes:
        canaries: how many there are, each put in by a fair coin of its own.
        delta: at which epsilon is bounded, in [0, 1).
        confidence: in (0, 1): how often, at least, no bound is above the truth.
        method: "one-run" for any mechanism, or "one-run-gaussian" for Gaussian ones.
        guesses: all that are made; each gets an equal part of what confidence leaves. Blank for
        ``list_default_guesses``.
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
        """How often, at most, one of the guesses may mislead."""
        return (1 - self.confidence) / len(self.guesses)


@dataclass(frozen=True, slots=True)
class CanaryAudit:
    """What was found.

    Attributes:
        epsilon: with the protocol's confidence, epsilon at its delta is at least this.
        correct: right guesses, for each of the protocol's.
        best: which of the guesses shows it.
        most: the bound if every guess had been right: more could not have been shown.
        protocol: as it was fixed.
    """

    epsilon: float
    correct: tuple[int, ...]
    best: int
    most: float
    protocol: AuditProtocol

    @property
    def says(self) -> str:
        """Two sentences for a reader: what is shown, and what is not."""
        one, asked = self.protocol.guesses[self.best], self.protocol
        found = f"{self.correct[self.best]} of {one.total} guesses about {asked.canaries} canaries were right"
        if self.epsilon == 0:
            shown = (
                f"{found}, which shows no leak. With all of them right epsilon would have been shown to be at least "
            )
            return f"{shown}{format_lower(self.most, 3)}. {SILENCE}"
        bound = f"epsilon is at least {format_lower(self.epsilon, 3)} at delta {asked.delta:g}"
        if asked.method == GAUSSIAN:
            bound += ", if the mechanism is Gaussian"
        return f"{found}: with confidence {asked.confidence:.3g} {bound}. It is a lower bound and promises nothing."

    def refutes(self, claimed: float) -> bool:
        """Whether a claimed epsilon, at the protocol's delta, is below what was shown."""
        return claimed < self.epsilon

    def _repr_html_(self) -> str:
        asked = self.protocol
        rows = [
            ("epsilon is at least", format_lower(self.epsilon), f"at delta {asked.delta:g}"),
            ("confidence", f"{asked.confidence:g}", METHODS[asked.method]),
            ("could have shown", format_lower(self.most), f"{asked.canaries} canaries"),
        ]
        return render_html_table("Lower bound by an attack; it promises nothing", rows)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        asked = self.protocol
        return {
            "epsilon": self.epsilon,
            "side": "lower",
            "delta": asked.delta,
            "confidence": asked.confidence,
            "method": METHODS[asked.method],
            "canaries": asked.canaries,
            "guesses": [
                {"inside": g.inside, "outside": g.outside, "correct": n}
                for g, n in zip(asked.guesses, self.correct, strict=True)
            ],
            "most": self.most,
            "message": self.says,
        }


def audit_one_run(scores: ArrayLike, included: ArrayLike, protocol: AuditProtocol) -> CanaryAudit:
    """Bounds epsilon from below by the scores of canaries in one run.

    It holds if each canary was put in by a fair coin of its own, if a score is a function of what was released and of
    the canary, not of its coin, and if the protocol was fixed before. Neighbours differ in one canary being there.

    Args:
        scores: one for each canary, shape (m,); higher for those that seem in. Ties are decided against the bound.
        included: whether each was in, shape (m,).
        protocol: what was fixed beforehand.

    Raises:
        CheckError: shapes that differ, a score that is no number, a coin that is neither.
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
    """How many are right; of canaries with the same score those that are guessed wrongly come first."""
    right = 0
    for count, signed, truth in ((guesses.inside, -values, coins), (guesses.outside, values, ~coins)):
        if count:
            order = np.lexsort((truth, signed))[:count]
            right += int(truth[order].sum())
    return right


def _bound(protocol: AuditProtocol, guesses: Guesses, correct: int) -> float:
    m, count, level = protocol.canaries, guesses.total, protocol.level
    if protocol.method == ONE_RUN:
        return _largest(lambda e: bound_p_value(m, count, correct, epsilon=e, delta=protocol.delta) <= level)

    def refuted(mu: float) -> bool:
        return refutes_f_dp(m, count, correct, curve=build_gaussian_curve(mu), level=level)

    mu = _largest(refuted)
    return gaussian_epsilon(mu, protocol.delta)[0] if mu > 0 else 0.0


def _largest(refuted: Callable[[float], bool]) -> float:
    """The largest number up to 100 that was seen to be refuted, about; 0 if none was."""
    if not refuted(CLOSE):
        return 0.0
    low, high = CLOSE, 1.0
    while refuted(high):
        low, high = high, 2 * high
        if high > MOST:
            return low
    while high - low > CLOSE * high:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def refutes_epsilon(audit: CanaryAudit, claimed: float, *, level: float) -> bool:
    """Whether the guesses refute a claimed epsilon at the protocol's delta, of any mechanism.

    Args:
        audit: what was guessed.
        claimed: at least 0.
        level: how often, at most, one of the guesses may mislead.
    """
    asked = audit.protocol
    return any(
        bound_p_value(asked.canaries, one.total, n, epsilon=claimed, delta=asked.delta) <= level
        for one, n in zip(asked.guesses, audit.correct, strict=True)
    )


def refutes_profile(audit: CanaryAudit, points: Sequence[tuple[float, float]], *, level: float | None = None) -> bool:
    """Whether the guesses refute a whole privacy profile, which says more than any one of its points.

    Args:
        audit: what was guessed.
        points: (epsilon, delta) of the claim, each an upper bound that holds in both directions.
        level: how often, at most, one of the guesses may mislead; None for the protocol's.
    """
    lines, asked = list_profile_points(points), audit.protocol
    borne = asked.level if level is None else level
    return bool(lines) and any(
        refutes_f_dp(asked.canaries, one.total, n, curve=build_line_curve(lines), level=borne)
        for one, n in zip(asked.guesses, audit.correct, strict=True)
    )
