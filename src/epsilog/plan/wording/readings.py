"""What a claim means for attackers and for copies: labels, figures, and the sentences beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epsilog.plan.wording.claims import share_text
from epsilog.plan.wording.odds import PRIORS, prior_text
from epsilog.terms.digits import lower_text, upper_text

OF_COPIES = (
    "A record that occurs several times, or somebody who holds several units, is protected less. Copies are there "
    "together, or not at all. Multiplying the first row by their number promises too much: epsilon at one delta grows "
    "faster."
)
_OF_PURE_COPIES = (
    "A record that occurs several times, or somebody who holds several units, is protected less. Copies are there "
    "together, or not at all. Without a delta each of them counts once more, and the first row is to be multiplied."
)


def of_attacks(privacy_unit: str) -> str:
    """What an attack is, where its rates are told."""
    return (
        f"An attack is told two data sets that differ in one {privacy_unit}, and says which of them was used. "
        "No attack does better; what a real one finds may be less."
    )


def attack_label(fpr: float) -> str:
    """The true positive rate at a false positive rate, in words."""
    return f"share that the best attack finds at {share_text(fpr)} false alarms"


def named_label(fpr: float, prior: float) -> str:
    """What a suspicion becomes once the best attack confirms it, in words."""
    return f"what {prior_text(prior)} become, once the best attack at {share_text(fpr)} false alarms says so"


def reading_rows(reading: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """What a claim means (``risk_reading``), as label and figure; nothing where none stands."""
    if reading is None:
        return []
    rows = [(attack_label(point["fpr"]), share_text(point["tpr"])) for point in reading["attack"]]
    rows += [
        (named_label(point["fpr"], prior), share_text(_named(prior, point["fpr"], point["tpr"])))
        for prior in PRIORS
        for point in reading["attack"]
    ]
    rows += [(f"epsilon at delta {_upper(point['delta'])}", _upper(point["epsilon"])) for point in reading["profile"]]
    means = (("mu of Gaussian DP", "mu"), ("mu of Gaussian DP, participation known", "unamplified_mu"))
    rows += [(label, _upper(reading[name])) for label, name in means if reading[name] is not None]
    return rows + _fitted(reading["fit"], exact=reading["mu"] is not None)


def _named(prior: float, fpr: float, tpr: float) -> float:
    """The chance that an alarm is right."""
    return prior * tpr / (prior * tpr + (1 - prior) * fpr)


def _fitted(fit: Mapping[str, Any] | None, *, exact: bool) -> list[tuple[str, str]]:
    """The mu that comes close, with both its errors; nothing where an exact one is told, or none comes close."""
    if fit is None or exact:
        return []
    beyond, regret = (upper_text(float(fit[name]), 2) for name in ("beyond", "regret"))
    return [
        (
            "mu of Gaussian DP that comes close: no guarantee by itself",
            f"{_upper(fit['mu'])}; an attack finds up to {beyond} more, at false alarms up to {beyond} higher; it "
            f"overstates by up to {regret}",
        )
    ]


def of_copies(delta: float) -> str:
    """What copies are, and how their epsilon grows at a delta.

    >>> of_copies(1e-6) == OF_COPIES, "once more" in of_copies(0.0)
    (True, True)
    """
    return OF_COPIES if delta > 0 else _OF_PURE_COPIES


def copies_rows(reading: Mapping[str, Any] | None) -> list[tuple[str, str, str]]:
    """What is left for somebody who holds several units, or for a record of several copies: units, and both bounds."""
    groups = [] if reading is None else reading["groups"]
    return [(f"{point['units']:,}", *_of_copies(point)) for point in sorted(groups, key=lambda point: point["units"])]


def _of_copies(point: Mapping[str, Any]) -> tuple[str, str]:
    """Both bounds, in words where they are no numbers."""
    upper, lower = point["epsilon"], point["lower"]
    if upper is None:
        return "not worked out: assume nothing", "-"
    return ("no bound: nothing is promised" if upper == "inf" else _upper(upper)), (
        "no bound" if lower == "inf" else lower_text(float(lower))
    )


def _upper(value: float | str) -> str:
    return upper_text(float(value))
