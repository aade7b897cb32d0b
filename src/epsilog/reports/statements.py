"""The sentences of a report: what is claimed, whom it protects, and what it does not cover."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from decimal import Decimal
from typing import Any

from epsilog.plan.sentences import write_claim
from epsilog.schemes import ProtectionLevel, Scheme
from epsilog.terms import Guarantee, RunArtifact, Status, UnsupportedMechanismError
from epsilog.terms.formatting import format_upper
from epsilog.verification import Claim, Verification, bound_any_sampler, compute_claim_interval

LEDGER_LIMIT = "A hash chain shows edits and gaps. It shows truncation only against a checkpoint kept elsewhere."
LIMITS = (
    "Differential privacy bounds what released values reveal about one privacy unit; it does not make data anonymous.",
    "Neither local nor central noise prevents inference about the population as a whole, which is the aim of training.",
    "Epsilon does not bound the effect of poisoned updates; that depends on the attacker's share of the clipped sum.",
    "Noise is added in floating point; attacks on its low bits are a theoretical hazard (Mironov 2012).",
    "The claim does not cover timing, memory and network side channels, or access to the raw data.",
    LEDGER_LIMIT,
    "Choosing hyperparameters by earlier runs on the same data is a further release; it counts only if it was charged.",
)
LOG_LIMITS = (
    *(line for line in LIMITS if line != LEDGER_LIMIT),
    "The outcome of the participation check is published. If the logs are not public, this adds less than 2^-32 of the "
    "stated delta to delta, because a sound run almost never fails it.",
)
MODEL_NOTE = (
    "These figures cover the released model alone. The claim also covers the published outcomes of checks on hidden "
    "draws."
)

SAMPLER_CHECKS = {"participation", "population"}  # if only these fail, the unamplified claim remains
UNBOUND = "The logs are attested by their author, and nothing binds them to the run. "


def compute_provable_guarantee(claim: Claim) -> Guarantee:
    """Return the guarantee of a claim that passed its checks: epsilon is at least the certified bound."""
    upper, guarantee = compute_claim_interval(claim).upper, claim.guarantee
    return guarantee if guarantee.epsilon >= upper * (1 - 1e-12) else replace(guarantee, epsilon=upper)


def compute_supported_epsilon(claim: Claim, failed: Collection[str]) -> float:
    """Return the epsilon that remains after these checks failed; infinite if none does."""
    if not failed:
        return compute_provable_guarantee(claim).epsilon
    return bound_any_sampler(claim) if set(failed) <= SAMPLER_CHECKS else math.inf


def has_lists(outcome: Verification) -> bool:
    """Return whether participation was checked; without that, only the unamplified claim is."""
    return not {"participation", "custody"} & set(outcome.unchecked)


def state_claim(outcome: Verification) -> tuple[float, str]:
    """Return the epsilon that a report states, and its claim in a sentence: all of it, the unamplified one, or none.

    Args:
        outcome: the verification; of a run of ours, its public part.
    """
    assert outcome.evidence is not None
    claim, failed = outcome.evidence.claim, outcome.failed
    if outcome.evidence.logs is None:
        epsilon = compute_supported_epsilon(claim, failed)
        return epsilon, format_supported_statement(claim, failed) + _add_counts(claim, epsilon)
    unseen = f" The claim assumes what these logs do not show: {', '.join(outcome.unchecked)}."
    if failed or has_lists(outcome):
        statement = UNBOUND + format_supported_statement(claim, failed)
        return compute_supported_epsilon(claim, failed), statement + (
            unseen if outcome.unchecked and not failed else ""
        )
    epsilon = bound_any_sampler(claim)
    return epsilon, (
        f"{UNBOUND}Nothing shows who took part, so only the unamplified claim can be checked: "
        f"{_format_at(claim, epsilon)} The smaller epsilon of the claim is attested by the author alone.{unseen}"
    )


def format_verified_claim(outcome: Verification) -> str:
    """Return the claim that remains after failed and missing checks, and what others attest."""
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
    if sampler is Status.PASSED and outcome.status in (Status.PASSED, Status.WARNED):  # else nobody can tell
        return (
            f"{unbound}{format_supported_statement(claim, failed)} This rests on the curator's word: "
            f"{RunArtifact.CUSTODY}, which shows who took part, was not given. Without that word, epsilon is at most "
            f"{format_upper(epsilon)}, and clipping is attested by the owner alone.{_format_unchecked(outcome)}"
        )
    return (
        f"{unbound}Without {RunArtifact.CUSTODY}, only the unamplified claim can be checked: {weak} Clipping and the "
        f"smaller epsilon of the plan are attested by the owner alone (participation: {sampler})."
        f"{_format_unchecked(outcome)}"
    )


FOREMOST = ("the settings of the mechanism", "training", "data", "losses and scores", "software")


def _format_unchecked(outcome: Verification) -> str:
    """Return what was not checked, and what the owner alone attests."""
    unchecked = f" Not checked here: {', '.join(outcome.unchecked)}." if outcome.unchecked else ""
    return f"{unchecked} Attested by the owner alone: {', '.join(FOREMOST)}; the report lists the rest."


def format_supported_statement(claim: Claim, failed: Collection[str]) -> str:
    """Return the claim that remains after these checks failed: all of it, the unamplified one, or none."""
    epsilon = compute_supported_epsilon(claim, failed)
    if not failed:
        return _format_at(claim, epsilon)
    if math.isfinite(epsilon):
        reason = "The sampler does not agree with the plan, so only the unamplified claim remains. "
        return reason + _format_at(claim, epsilon)
    return f"Checks failed ({', '.join(sorted(failed))}), so no guarantee is supported."


def _format_at(claim: Claim, epsilon: float) -> str:
    return format_statement(replace(claim.guarantee, epsilon=epsilon), simulation=claim.simulation)


def _add_counts(claim: Claim, epsilon: float) -> str:
    """Return what noisy counts released with the model add to a supported epsilon; blank without any."""
    counts = Decimal(0) if claim.plan is None else claim.plan.epsilon_of_counts
    if not counts or not math.isfinite(epsilon):
        return ""
    total = format_upper(math.nextafter(float(Decimal(epsilon) + counts), math.inf))
    return (
        f" Noisy counts of private rows are released with the model, at epsilon {counts} alone. Model and counts "
        f"together have epsilon {total} at the same delta."
    )


def format_statement(guarantee: Guarantee, *, simulation: bool = False) -> str:
    """Return the claim with all that gives it meaning; of a simulation, the claim under fresh randomness."""
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
"""Parties who see only the selected run of a tuning; every other party sees its trials."""
SEES_TRIALS_NOTE = "no bound stated here: it sees every trial, and their number"


def list_party_guarantees(
    scheme: Scheme, *, unit: str, epsilon: float, unamplified: float, tuned: bool = False
) -> list[dict[str, Any]]:
    """Return each party, what it sees, the bound against it, and whether there is any.

    Args:
        scheme: the scheme that names the parties.
        unit: the privacy unit.
        epsilon: the supported epsilon; infinite if the records support none.
        unamplified: epsilon against those who know who took part.
        tuned: whether the run is the best of several trials; the bounds hold against parties who see no trial.

    Raises:
        UnsupportedMechanismError: the scheme states no parties.

    Source:
        Balle, Barthe & Gaboardi 2018 (arXiv:1807.01647): amplification by sampling supposes that the sample is hidden.
    """
    if not scheme.parties:
        raise UnsupportedMechanismError(scheme, method="the table of who sees what")
    claim = f"epsilon {format_upper(epsilon)}"
    if not scheme.unit_is_client:
        claim += f" for each {unit}; nothing for a client as a whole, or for its participation"
    bound = {
        ProtectionLevel.CLAIM: claim,
        ProtectionLevel.CLAIM_WHILE_HIDDEN: f"{claim}, while participation stays hidden",
        ProtectionLevel.UNAMPLIFIED: f"epsilon {format_upper(unamplified)} (no amplification by sampling)",
    }
    if not math.isfinite(epsilon):
        bound = dict.fromkeys(bound, "no bound that the records support")
    bound[ProtectionLevel.NOTHING] = "no guarantee, because it sees what the noise hides from others"

    def describe_protection(name: str, level: ProtectionLevel) -> str:
        sees_trials = tuned and name not in RELEASE_ONLY_PARTIES and level is not ProtectionLevel.NOTHING
        return SEES_TRIALS_NOTE if sees_trials else bound[level]

    return [
        {
            "party": each.name,
            "view": each.sees,
            "protection": describe_protection(each.name, each.holds),
            "protected": each.holds is not ProtectionLevel.NOTHING,
        }
        for each in scheme.parties
    ]
