"""What-ifs: the cost of the schedule under observed rather than planned facts, as labeled estimates."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv

from epsilog.mechanisms import Composed, Gaussian, PoissonSampled, Release, Repeated
from epsilog.schemes.cohorts import PoissonSampler
from epsilog.terms.formatting import format_upper
from epsilog.verification.claim import bound_release, bound_unamplified
from epsilog.verification.evidence import Claim, Evidence
from epsilog.verification.noise import compute_stddev_interval
from epsilog.verification.rounds import CLOSE, compute_noise_multipliers
from epsilog.verification.sampler_tests import Ids, Numbers

MISS = 0.05  # probability that some confidence interval misses the truth
LEVELS = 48  # distinct rates; each round's rate is rounded up to the next one
FEW_LEVELS = 8  # distinct rates and noise ratios, if rounds differ in both


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The cost of the schedule under other facts: a labeled estimate, never a claim.

    Attributes:
        name: the changed fact.
        epsilon: the certified upper bound for the changed facts, in nats.
        message: one sentence for a reader.
        private: whether it depends on the curator's records, and is not published.
    """

    name: str
    epsilon: float
    message: str
    private: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "name": self.name,
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else "inf",
            "message": self.message,
        }


def compute_what_ifs(evidence: Evidence) -> tuple[WhatIf, ...]:
    """Bound epsilon of the schedule under observed facts."""
    lists = bound_unamplified(evidence.claim).upper
    given = "" if evidence.logs is None else ", if everything else is as claimed"
    message = f"Against an attacker who learns all participants, epsilon is at most {format_upper(lists)}{given}."
    found = _bound_our_rounds(evidence) if evidence.logs is None else _bound_logged_rounds(evidence)
    return *found, WhatIf("participation lists known", lists, message)


def _bound_our_rounds(evidence: Evidence) -> list[WhatIf]:
    """Bound epsilon for weaker noise, for further attempts and for the realized cohorts, each separately."""
    claim, scheme, found = evidence.claim, evidence.claim.scheme, []
    padding = [value for one in evidence.padding for value in one.padding]
    if any(padding) and scheme.noise_multiplier > 0:
        share = compute_stddev_interval(padding, failure_probability=0.05)[0] / scheme.noise_stddev
        weak = share * scheme.accounted_multiplier
        cost = bound_release(claim, Repeated(scheme.step(share), scheme.noisy_sums(scheme.rounds))).upper
        message = f"If noise were as weak as padding allows (multiplier {weak:.4g}), epsilon would be "
        found.append(WhatIf("weakest noise that the padding allows (95%)", cost, f"{message}{format_upper(cost)}."))
    if further := _count_further_attempts(evidence):
        cost = bound_release(claim, scheme.with_attempts(further)).upper
        message = f"If each of the {further} further attempts was a release, epsilon would be {format_upper(cost)}."
        found.append(WhatIf("every attempt released", cost, message))
    observed = scheme.at_cohort_sizes([len(record.participants) for record in evidence.custody or ()])
    if observed is not None:
        cost = bound_release(claim, observed).upper
        message = f"At the realized cohort sizes, epsilon would be {format_upper(cost)}: "
        message += "an estimate, not a guarantee."
        found.append(WhatIf("observed cohort sizes", cost, message, private=True))
    return found


def _count_further_attempts(evidence: Evidence) -> int:
    """Count attempts beyond one per round (by the ledger: beyond one per released round)."""
    attempts = evidence.attempts or {}
    rounds = len(attempts) if evidence.ledger is None else len(evidence.ledger.released)
    return max(0, sum(attempts.values()) - rounds)


def _bound_logged_rounds(evidence: Evidence) -> list[WhatIf]:
    """Bound epsilon of the observed schedule, round by round: as realized, and at the ends of its intervals."""
    claim, sizes = evidence.claim, evidence.cohort_sizes
    shares, attempts = bound_noise_ratios(evidence), _count_further_attempts(evidence)
    share = float(shares.min())
    unpadded = len(evidence.unpadded_rounds)
    unbounded = f" In {unpadded} rounds no padding shows the noise, so this is not a bound." if unpadded else ""
    if sizes is not None and sizes.size and isinstance(claim.scheme.cohorts, PoissonSampler):
        clients = _get_population(evidence)
        seen, worst = np.minimum(sizes / clients, 1.0), bound_sampling_rates(sizes, clients)
        cost = _bound_schedule(_build_schedule(seen, np.ones(seen.size), claim), claim)
        message = (
            f"At each round's cohort size over N = {clients}, epsilon would be {format_upper(cost)}: an estimate, "
        )
        observed = WhatIf("observed cohorts, round by round", cost, message + "not a guarantee.", private=True)
        cost = _bound_schedule(_build_worst_end(worst, shares, attempts, claim), claim)
        message = f"At the upper ends of all rates and the lower ends of the noise (95% jointly, {attempts} "
        message += f"further attempts released), epsilon would be {format_upper(cost)}: an estimate, not a guarantee."
        name = "worst end of the observed schedule (95%)"
        return [observed, WhatIf(name, cost, message + unbounded, private=True)]
    if share == 1 and not attempts:
        return []
    run: Release = Repeated(claim.scheme.step(share), claim.scheme.noisy_sums(claim.scheme.rounds))
    if attempts:
        run = Composed([run, Repeated(Gaussian(share * claim.scheme.accounted_multiplier), attempts)])
    cost = _bound_schedule(run, claim)
    message = f"At the lower end of the noise (95%) and with {attempts} further attempts released, epsilon would be "
    message += f"{format_upper(cost)}: an estimate.{unbounded}"
    return [WhatIf("weakest noise and every attempt", cost, message, private=_measures_people(evidence))]


def _build_worst_end(rates: Numbers, shares: Numbers, attempts: int, claim: Claim) -> Release | None:
    """Build the schedule with every round at its interval's end, and further attempts at the worst of all rounds."""
    padded_rates = np.concatenate([rates, np.zeros(max(0, shares.size - rates.size))])
    shares = np.concatenate([shares, np.full(padded_rates.size - shares.size, shares.min())])
    further = np.full(attempts, rates.max()), np.full(attempts, shares.min())
    return _build_schedule(np.concatenate([padded_rates, further[0]]), np.concatenate([shares, further[1]]), claim)


def _measures_people(evidence: Evidence) -> bool:
    """Return whether only participation lists determine the rounds, or clip norms may depend on updates."""
    if evidence.rounds is None:
        return True
    clips = evidence.rounds.clip_norm
    return clips is not None and not np.allclose(clips, evidence.claim.scheme.clip_norm, rtol=CLOSE)


def bound_noise_ratios(evidence: Evidence) -> Numbers:
    """Return a lower bound on each round's noise over the claimed noise, at most 1.

    It uses the configured noise, and lower confidence limits from each round's padding. These hold for all rounds
    jointly; a union bound divides half of ``MISS`` among them. Without padding, the configured noise is taken.
    """
    scheme, rounds = evidence.claim.scheme, evidence.rounds
    shares = np.ones(max(1, int(evidence.round_numbers.max(initial=0))))
    found = compute_noise_multipliers(rounds, evidence.claim)
    if rounds is not None and found is not None and scheme.noise_multiplier:
        np.minimum.at(shares, rounds.number - 1, found / scheme.noise_multiplier)
    if not scheme.noise_stddev:
        return shares
    for one in evidence.padding:
        low = compute_stddev_interval(one.padding, failure_probability=MISS / len(evidence.padding))[0]
        shares[one.round - 1] = min(shares[one.round - 1], low / scheme.noise_stddev)
    return shares


def bound_sampling_rates(sizes: Ids, clients: int) -> Numbers:
    """Return joint upper confidence limits for the rates of all rounds (Clopper & Pearson 1934).

    A union bound divides half of ``MISS`` among them; the other half is for the noise.
    """
    seen = np.minimum(sizes, clients).astype(np.float64)
    ends = betaincinv(seen + 1, np.maximum(clients - seen, 1e-300), 1 - MISS / 2 / sizes.size)
    return np.asarray(np.where(seen < clients, ends, 1.0))


def _get_population(evidence: Evidence) -> int:
    """Return the smallest possible population."""
    enrolled = None if evidence.logs is None else evidence.logs.enrolled
    clients = evidence.claim.scheme.clients
    return min(clients, enrolled.population) if enrolled is not None and enrolled.population else clients


def _build_schedule(rates: Numbers, shares: Numbers, claim: Claim) -> Release | None:
    """Build rounds with these rates, rounded up to a few levels, and these noise ratios, rounded down.

    Empty rounds release no data.
    """
    nonempty = rates > 0
    if not nonempty.any():
        return None
    many = LEVELS if np.unique(shares[nonempty]).size == 1 else FEW_LEVELS
    pairs = zip(_up(rates[nonempty], many).tolist(), _down(shares[nonempty], many).tolist(), strict=True)
    times = sorted(Counter(pairs).items())
    full = claim.scheme.accounted_multiplier
    return Composed([Repeated(PoissonSampled(Gaussian(share * full), rate), n) for (rate, share), n in times])


def _up(values: Numbers, many: int) -> Numbers:
    levels = np.unique(values)
    if levels.size > many:
        levels = np.append(np.geomspace(levels[0], levels[-1], many)[:-1], levels[-1])
    return np.asarray(levels[np.searchsorted(levels, values)])


def _down(values: Numbers, many: int) -> Numbers:
    levels = np.unique(values)
    if levels[0] <= 0:
        return np.zeros(values.size)
    if levels.size > many:
        levels = np.append(levels[0], np.geomspace(levels[0], levels[-1], many)[1:])
    return np.asarray(levels[np.searchsorted(levels, values, side="right") - 1])


def _bound_schedule(release: Release | None, claim: Claim) -> float:
    return 0.0 if release is None else bound_release(claim, release).upper
