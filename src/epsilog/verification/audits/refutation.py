"""How unlikely it is to guess so many coins right, if a claim holds."""

from __future__ import annotations

import numpy as np
from scipy.special import bdtrc, expit

from epsilog.verification.audits.curves import Curve


def bound_p_value(canaries: int, guesses: int, correct: int, *, epsilon: float, delta: float) -> float:
    """Bounds the chance of at least so many right guesses under (epsilon, delta)-DP.

    Each canary is in or out by a fair coin of its own; ``guesses`` of them, a number fixed beforehand, are guessed from
    what was released.

    Args:
        canaries: m.
        guesses: at most m.
        correct: at most ``guesses``.
        epsilon: of the claim, at least 0.
        delta: of the claim, in [0, 1].

    Source:
        Steinke, Nasr & Jagielski 2023 (arXiv:2305.08846), Theorem 5.2: with W binomial, of ``guesses`` trials with
        chance e^epsilon / (1 + e^epsilon), it is P(W >= v) + 2 m delta max over i of P(v > W >= v - i) / i.

    >>> round(bound_p_value(100, 100, 60, epsilon=0.0, delta=0.0), 4)  # sixty heads or more of a hundred
    0.0284
    """
    if correct <= 0:
        return 1.0
    chance = float(expit(epsilon))
    least = float(bdtrc(correct - 1, guesses, chance))
    if delta == 0:
        return least
    i = np.arange(1, correct + 1)
    reached = np.where(i < correct, bdtrc(np.maximum(correct - i - 1, 0), guesses, chance), 1.0)
    return min(1.0, least + 2 * canaries * delta * float(np.max((reached - least) / i)))


def refutes_f_dp(canaries: int, guesses: int, correct: int, *, curve: Curve, level: float) -> bool:
    """Whether at least so many right guesses have a chance below ``level`` under a trade-off curve.

    With p_i the chance of exactly i right guesses of c', let r_c = sum over i >= c of i p_i / m, the chance that a
    canary is guessed rightly and all in all at least c are, and h_c likewise for wrongly and c' - i. A coin turned
    round makes a right guess wrong and one less in all, so h_(i) >= curve(r_(i+1)). Were the level reached, these would
    add up to more than the share of canaries that are guessed at all.

    Args:
        canaries: m, each in or out by a fair coin.
        guesses: c', fixed beforehand.
        correct: c.
        curve: of the claim, the same in both directions.
        level: in (0, 1).

    Source:
        Mahloujifar, Melis & Chaudhuri 2025 (arXiv:2410.22235), Theorem 3.2 and Algorithm 3, for two values a canary.
    """
    right, wrong = level * correct / canaries, level * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        least = curve(right)
        if least <= wrong:
            break
        right, wrong = min(1.0, right + i / (guesses - i) * (least - wrong)), least
    return right + wrong > guesses / canaries * (1 + 1e-9)
