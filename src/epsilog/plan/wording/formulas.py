"""Closed forms beside certified intervals."""

from __future__ import annotations

import math

from epsilog.terms import Interval
from epsilog.terms.digits import lower_text, upper_text


def formula_sentence(total: float, certified: Interval) -> str:
    """Says whether the popular closed form under- or over-reports, against the certified interval.

    Args:
        total: what the formula says, in nats.
        certified: the interval for the same schedule.
    """
    if math.isinf(total) and math.isinf(certified.upper):
        return "Without noise there is no privacy: both are infinite."
    if total < certified.lower:
        factor = certified.lower / total if total > 0 else math.inf
        least = lower_text(certified.lower)
        return (
            f"The closed form under-reports: it says {total:.4g} where the loss is at least {least} "
            f"({factor:.3g} times as much). It is no bound and is never charged."
        )
    most = upper_text(certified.upper)
    if total < certified.upper:
        return (
            f"The closed form says {total:.4g}, below the certified bound of {most}: "
            "it may not be claimed, and is never charged."
        )
    return f"The closed form says {total:.4g}, above the certified bound of {most}: it over-reports here."


def average_sentence(said: tuple[float, float] | None, certified: Interval) -> str:
    """Says that nothing is averaged, and where averages would have led: (the closed form there, the price there).

    Args:
        said: the closed form at the averages, and the price of a constant run at them; None where there are none.
        certified: the interval of the schedule as it changes.
    """
    if math.isinf(certified.upper):
        return "Without noise in every stretch there is no privacy."
    undefined = "The closed form is for one q and one sigma, and these change: it says nothing here."
    if said is None:
        return undefined
    formula, price = said
    off = f"At their averages it would say {formula:.4g}, and a constant run would cost {price:.4g}"
    if price < certified.lower:
        factor = certified.lower / price if price > 0 else math.inf
        least = f"the loss is at least {lower_text(certified.lower)} ({factor:.3g} times the latter)"
        return f"{undefined} {off}, where {least}. Averages are never charged."
    return f"{undefined} {off}: the price of another run than this one. Averages are never charged."
