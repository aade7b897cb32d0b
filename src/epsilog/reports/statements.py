"""The sentences of a report: what is promised, whom it protects, and what it does not cover."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from decimal import Decimal

from epsilog.plan.sentences import write_claim
from epsilog.schemes import ProtectionLevel, Scheme
from epsilog.terms import Guarantee, UnsupportedMechanismError
from epsilog.terms.formatting import format_upper

LEDGER_LIMIT = (
    "A hash chain shows edits and gaps; a cut by the ledger's owner shows only against a checkpoint kept elsewhere."
)
LIMITS = (
    "Differential privacy bounds what released values reveal about one privacy unit; it does not make data anonymous.",
    "Neither local nor central noise stops inference about the population as a whole, which is what training is for.",
    "Robustness against poisoned updates follows the attacker's share of the clipped sum, not epsilon.",
    "Noise is added in floating point; attacks on its low bits are a theoretical hazard (Mironov 2012).",
    "Timing, memory and network side channels, and access to the raw data, are outside the claim.",
    LEDGER_LIMIT,
    "Choosing hyperparameters by earlier runs on the same data is a release of its own, charged only if it was booked.",
)


OF_MODEL = (
    "These figures are about the released model alone. The claim also covers the outcomes of checks on hidden draws, "
    "which this report publishes."
)


LOG_LIMITS = (
    *(line for line in LIMITS if line != LEDGER_LIMIT),
    "The outcome of the check on who was sampled is published. If the logs are not public, a sound run fails it so "
    "rarely that this adds less than 2^-32 of the stated delta to delta.",
)


def provable_guarantee(guarantee: Guarantee, upper: float) -> Guarantee:
    """What may be said of a claim that no check has failed: no epsilon below the bound that was worked out.

    Args:
        guarantee: as claimed.
        upper: the certified upper bound.
    """
    return guarantee if guarantee.epsilon >= upper * (1 - 1e-12) else replace(guarantee, epsilon=upper)


def compute_supported_epsilon(guarantee: Guarantee, *, unamplified: float, failed: Collection[str]) -> float:
    """The epsilon that the records leave standing; infinite where they leave none. Arguments as below."""
    if not failed:
        return guarantee.epsilon
    return unamplified if set(failed) == {"participation"} else math.inf


def format_supported_statement(
    guarantee: Guarantee, *, unamplified: float, failed: Collection[str], simulation: bool = False
) -> str:
    """The claim that the records leave standing: all of it, the unamplified one, or none.

    Args:
        guarantee: what was planned to be claimed.
        unamplified: the certified upper bound against whoever knows who took part.
        failed: names of the checks that failed.
        simulation: whether randomness was seeded.
    """
    if not failed:
        return format_statement(guarantee, simulation=simulation)
    if set(failed) == {"participation"}:
        reason = "The sampler does not agree with the plan, so only the claim without amplification remains. "
        return reason + format_statement(replace(guarantee, epsilon=unamplified), simulation=simulation)
    return f"Nothing is claimed: checks fail on {', '.join(sorted(failed))}."


def with_counts(epsilon: float, beside: Decimal) -> str:
    """What the noisy counts beside the model add to the claim, as a further sentence; nothing where there are none.

    Args:
        epsilon: that the records leave standing for the model.
        beside: the epsilon of the counts.
    """
    if not beside or not math.isfinite(epsilon):
        return ""
    total = format_upper(math.nextafter(float(Decimal(epsilon) + beside), math.inf))
    return (
        f" Noisy counts of private rows are released beside the model, at epsilon {beside} by themselves: model and "
        f"counts together are at epsilon {total}, at the same delta."
    )


def format_statement(guarantee: Guarantee, *, simulation: bool = False) -> str:
    """The claim in one sentence, with everything that gives it meaning; of a simulation, what it would be."""
    claim = write_claim(
        guarantee.epsilon,
        guarantee.delta,
        relation=guarantee.relation,
        privacy_unit=guarantee.privacy_unit,
        population=guarantee.population,
        simulation=simulation,
    )
    return str(claim)


RELEASE_ONLY_PARTIES = ("Public", "Reader of custody.jsonl")
"""Parties who see of a sweep what was released of it; every other one sees its trials."""
SEES_TRIALS_NOTE = "nothing that is priced here: it sees every trial, and how many there are"


def list_party_guarantees(
    scheme: Scheme, *, unit: str, epsilon: float, unamplified: float, swept: bool = False
) -> list[dict[str, str]]:
    """Each party, what it sees, and which number holds against it; an infinite epsilon is one that nothing supports.

    Of a sweep (``swept``) the numbers hold against those alone who do not see its trials.

    Raises:
        UnsupportedMechanismError: a scheme whose parties nobody has written down.

    Source:
        Balle, Barthe & Gaboardi 2018 (arXiv:1807.01647): amplification by sampling supposes that the sample is hidden.
    """
    if not scheme.parties:
        raise UnsupportedMechanismError(scheme, method="the table of who sees what")
    claim = f"epsilon {format_upper(epsilon)}" if math.isfinite(epsilon) else "nothing that the records support"
    if not scheme.unit_is_client:
        claim += f" for each {unit}; nothing for a client as a whole, or for the fact that it takes part"
    holds = {
        ProtectionLevel.NOTHING: "no guarantee: it sees what the noise hides from others",
        ProtectionLevel.CLAIM: claim,
        ProtectionLevel.CLAIM_WHILE_HIDDEN: f"{claim}, while the lists stay hidden",
        ProtectionLevel.UNAMPLIFIED: f"epsilon {format_upper(unamplified)} (no amplification by sampling)"
        if math.isfinite(epsilon)
        else claim,
    }
    seen = {
        each.name
        for each in scheme.parties
        if swept and each.name not in RELEASE_ONLY_PARTIES and each.holds is not ProtectionLevel.NOTHING
    }
    return [
        {
            "party": each.name,
            "sees": each.sees,
            "protected_by": SEES_TRIALS_NOTE if each.name in seen else holds[each.holds],
        }
        for each in scheme.parties
    ]
