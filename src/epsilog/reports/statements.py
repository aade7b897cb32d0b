"""The sentences of a report: what is promised, whom it protects, and what it does not cover."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from decimal import Decimal

from epsilog.plan.sentences import write_claim
from epsilog.schemes import ProtectionLevel, Scheme
from epsilog.terms import Guarantee, RunArtifact, Status, UnsupportedMechanismError
from epsilog.terms.formatting import format_upper
from epsilog.verification import Claim, Verification, bound_any_sampler, compute_claim_interval

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


OF_SAMPLING = {"participation", "population"}  # what makes a sampler another one than was claimed
UNBOUND = "Logs are their writer's word, and nothing binds them to the run. "


def compute_provable_guarantee(claim: Claim) -> Guarantee:
    """Return what may be said of a claim that no check has failed: no epsilon below the bound that is certified."""
    upper, guarantee = compute_claim_interval(claim).upper, claim.guarantee
    return guarantee if guarantee.epsilon >= upper * (1 - 1e-12) else replace(guarantee, epsilon=upper)


def compute_supported_epsilon(claim: Claim, failed: Collection[str]) -> float:
    """Return the epsilon that is left where these checks failed; infinite where they leave none."""
    if not failed:
        return compute_provable_guarantee(claim).epsilon
    return bound_any_sampler(claim) if set(failed) <= OF_SAMPLING else math.inf


def has_lists(outcome: Verification) -> bool:
    """Return whether it was checked who took part: without that, only the claim without amplification is."""
    return not {"participation", "custody"} & set(outcome.unchecked)


def state_claim(outcome: Verification) -> tuple[float, str]:
    """Return the epsilon that a report states, and its claim in a sentence: all of it, the unamplified one, or none.

    Args:
        outcome: what was found; of a run of ours, what may be published of it.
    """
    assert outcome.evidence is not None
    claim, failed = outcome.evidence.claim, outcome.failed
    if outcome.evidence.logs is None:
        epsilon = compute_supported_epsilon(claim, failed)
        return epsilon, format_supported_statement(claim, failed) + _add_counts(claim, epsilon)
    if failed or has_lists(outcome):
        says = UNBOUND + format_supported_statement(claim, failed)
        unseen = "" if failed or not (left := outcome.unchecked) else ", ".join(left)
        blank = f" What these logs do not show, and it takes for true: {unseen}." if unseen else ""
        return compute_supported_epsilon(claim, failed), says + blank
    epsilon = bound_any_sampler(claim)
    return epsilon, (
        f"{UNBOUND}Nothing shows who took part, so what can be checked is the claim without amplification by sampling: "
        f"{_format_at(claim, epsilon)} The smaller epsilon of the claim rests on its writer's word. "
        f"What these logs do not show, and it takes for true: {', '.join(outcome.unchecked)}."
    )


def format_verified_claim(outcome: Verification) -> str:
    """Return the claim that is left by what failed and by what is not here; and what rests on somebody's word."""
    evidence = outcome.evidence
    assert evidence is not None
    if evidence.logs is not None:
        return state_claim(outcome)[1]
    claim, failed = evidence.claim, outcome.failed
    if failed - {"participation"}:
        return format_supported_statement(claim, failed)
    no_ledger = any(finding.missing_evidence == "ledger" for finding in outcome.findings)
    unbound = "No ledger was given, so nothing binds these records. " if no_ledger else ""
    if evidence.custody is not None:
        return unbound + state_claim(outcome)[1] + _format_unchecked(outcome)
    sampler = evidence.owner.custody_checks["participation"] if evidence.owner else Status.NOT_CHECKED
    epsilon = bound_any_sampler(claim)
    weak = _format_at(claim, epsilon) + _add_counts(claim, epsilon)
    says = f"Without {RunArtifact.CUSTODY}, what can be checked is the claim without amplification by sampling: {weak} "
    rest = "That contributions were clipped, and the smaller epsilon of the plan, rest on the owner's word "
    return f"{unbound}{says}{rest}(sampler: {sampler}).{_format_unchecked(outcome)}"


FOREMOST = ("the settings of the mechanism", "training", "data", "losses and scores", "software")


def _format_unchecked(outcome: Verification) -> str:
    """Say what verification did not look at, and what it copied: a banner says so, whatever else passed."""
    left = f" Not checked here: {', '.join(outcome.unchecked)}." if outcome.unchecked else ""
    return f"{left} By the owner's word alone: {', '.join(FOREMOST)}; the report lists the rest."


def format_supported_statement(claim: Claim, failed: Collection[str]) -> str:
    """Return the claim that is left where these checks failed: all of it, the unamplified one, or none."""
    epsilon = compute_supported_epsilon(claim, failed)
    if not failed:
        return _format_at(claim, epsilon)
    if math.isfinite(epsilon):
        reason = "The sampler does not agree with the plan, so only the claim without amplification remains. "
        return reason + _format_at(claim, epsilon)
    return f"Nothing is claimed: checks fail on {', '.join(sorted(failed))}."


def _format_at(claim: Claim, epsilon: float) -> str:
    return format_statement(replace(claim.guarantee, epsilon=epsilon), simulation=claim.simulation)


def _add_counts(claim: Claim, epsilon: float) -> str:
    """Say what the noisy counts beside the model add to a supported epsilon; nothing where there are none."""
    counts = Decimal(0) if claim.plan is None else claim.plan.epsilon_of_counts
    if not counts or not math.isfinite(epsilon):
        return ""
    total = format_upper(math.nextafter(float(Decimal(epsilon) + counts), math.inf))
    return (
        f" Noisy counts of private rows are released beside the model, at epsilon {counts} by themselves: model and "
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
            "view": each.sees,
            "protection": SEES_TRIALS_NOTE if each.name in seen else holds[each.holds],
        }
        for each in scheme.parties
    ]
