"""What the schedule would cost under other facts: labelled estimates, and the price whatever the sampler did."""

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
from epsilog.verification.claim import bound_unamplified, price_release
from epsilog.verification.clipping import CLOSE, compute_noise_multipliers
from epsilog.verification.evidence import Claim, Evidence
from epsilog.verification.noise import compute_stddev_interval
from epsilog.verification.sampler_tests import Ids, Numbers

MISS = 0.05  # the chance that some end of an interval is passed by what was really so
LEVELS = 48  # different rates that are priced; each round's is rounded up to the next
FEW_LEVELS = 8  # of rates, and of shares of the noise, where rounds differ in both


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What the schedule would cost under other facts: a labelled estimate, never a claim.

    Attributes:
        name: which fact is changed.
        epsilon: the certified upper bound for the changed facts, in nats.
        message: one sentence for a reader.
        private: whether it rests on the curator's records, and is not published.
    """

    name: str
    epsilon: float
    message: str
    private: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "name": self.name,
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else "inf",
            "message": self.message,
        }


def compute_what_ifs(evidence: Evidence) -> tuple[WhatIf, ...]:
    """Price the schedule under the facts that were observed rather than planned; estimates, labelled as such."""
    lists = bound_unamplified(evidence.claim).upper
    given = "" if evidence.logs is None else ", if all else is as claimed"
    message = f"Against whoever learns who took part, epsilon is at most {format_upper(lists)}{given}."
    found = _price_our_rounds(evidence) if evidence.logs is None else _price_logged_rounds(evidence)
    return *found, WhatIf("participation lists known", lists, message)


def _price_our_rounds(evidence: Evidence) -> list[WhatIf]:
    """Price weaker noise, further attempts and the cohorts that occurred, each by itself."""
    claim, scheme, found = evidence.claim, evidence.claim.scheme, []
    padding = [value for one in evidence.padding for value in one.padding]
    if any(padding) and scheme.noise_multiplier > 0:
        share = compute_stddev_interval(padding, failure_probability=0.05)[0] / scheme.noise_stddev
        weak = share * scheme.accounted_multiplier
        cost = price_release(claim, Repeated(scheme.step(share), scheme.noisy_sums(scheme.rounds)))
        message = f"If noise were as weak as padding allows (multiplier {weak:.4g}), epsilon would be "
        found.append(WhatIf("weakest noise that the padding allows (95%)", cost, f"{message}{format_upper(cost)}."))
    if further := _count_further_attempts(evidence):
        cost = price_release(claim, scheme.with_attempts(further))
        message = f"If each of the {further} further attempts was a release too, epsilon would be {format_upper(cost)}."
        found.append(WhatIf("every attempt released", cost, message))
    observed = scheme.at_cohort_sizes([len(record.participants) for record in evidence.custody or ()])
    if observed is not None:
        cost = price_release(claim, observed)
        message = f"At the cohort sizes that occurred, epsilon would be {format_upper(cost)}: "
        message += "an estimate, not a guarantee."
        found.append(WhatIf("observed cohort sizes", cost, message, private=True))
    return found


def _count_further_attempts(evidence: Evidence) -> int:
    """Count attempts beyond one for each round; none where a ledger says that less was begun than released."""
    attempts = evidence.attempts or {}
    rounds = len(attempts) if evidence.ledger is None else len(evidence.ledger.released)
    return max(0, sum(attempts.values()) - rounds)


def _price_logged_rounds(evidence: Evidence) -> list[WhatIf]:
    """Price the observed schedule, round by round: as it came about, and at its worst end."""
    claim, sizes = evidence.claim, evidence.cohort_sizes
    shares, attempts = bound_noise_ratios(evidence), _count_further_attempts(evidence)
    share = float(shares.min())
    bare = len(evidence.unpadded_rounds)
    unbounded = f" In {bare} rounds no padding shows the noise, so this is no bound." if bare else ""
    if sizes is not None and sizes.size and isinstance(claim.scheme.cohorts, PoissonSampler):
        clients = _get_population(evidence)
        seen, worst = np.minimum(sizes / clients, 1.0), bound_sampling_rates(sizes, clients)
        cost = _price_schedule(_build_schedule(seen, np.ones(seen.size), claim), claim)
        message = f"At each round's own cohort over N = {clients}, epsilon would be {format_upper(cost)}: an estimate, "
        observed = WhatIf("observed cohorts, round by round", cost, message + "not a guarantee.", private=True)
        cost = _price_schedule(_build_worst_end(worst, shares, attempts, claim), claim)
        message = (
            f"At the upper end of every round's rate and the lower end of the noise (95%, all together, {attempts} "
        )
        message += f"further attempts released), epsilon would be {format_upper(cost)}: an estimate, not a guarantee."
        name = "worst end of the observed schedule (95%)"
        return [observed, WhatIf(name, cost, message + unbounded, private=True)]
    if share == 1 and not attempts:
        return []
    run: Release = Repeated(claim.scheme.step(share), claim.scheme.noisy_sums(claim.scheme.rounds))
    if attempts:
        run = Composed([run, Repeated(Gaussian(share * claim.scheme.accounted_multiplier), attempts)])
    cost = _price_schedule(run, claim)
    message = f"At the lower end of the noise (95%) and with {attempts} further attempts released, epsilon would be "
    message += f"{format_upper(cost)}: an estimate.{unbounded}"
    return [WhatIf("weakest noise and every attempt", cost, message, private=_measures_people(evidence))]


def _build_worst_end(rates: Numbers, shares: Numbers, attempts: int, claim: Claim) -> Release | None:
    """Every round at its ends, and every further attempt at the worst of all rounds."""
    padded_rates = np.concatenate([rates, np.zeros(max(0, shares.size - rates.size))])
    shares = np.concatenate([shares, np.full(padded_rates.size - shares.size, shares.min())])
    further = np.full(attempts, rates.max()), np.full(attempts, shares.min())
    return _build_schedule(np.concatenate([padded_rates, further[0]]), np.concatenate([shares, further[1]]), claim)


def _measures_people(evidence: Evidence) -> bool:
    """Whether lists alone say which rounds there were, or sums were clipped to what may have been sent."""
    if evidence.rounds is None:
        return True
    clips = evidence.rounds.clip_norm
    return clips is not None and not np.allclose(clips, evidence.claim.scheme.clip_norm, rtol=CLOSE)


def bound_noise_ratios(evidence: Evidence) -> Numbers:
    """The least noise that logs allow each round, over what was claimed: 1 at most, since more lowers no price.

    What was set; and what its own padding shows, at lower ends that hold for all rounds together (half the chance of a
    miss, shared out). Noise of a round without padding is taken as set.
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
    """Upper ends of the rates of all rounds together (Clopper & Pearson 1934; half the chance of a miss, shared out).

    The other half is the noise's lower end.
    """
    seen = np.minimum(sizes, clients).astype(np.float64)
    ends = betaincinv(seen + 1, np.maximum(clients - seen, 1e-300), 1 - MISS / 2 / sizes.size)
    return np.asarray(np.where(seen < clients, ends, 1.0))


def _get_population(evidence: Evidence) -> int:
    """Return the fewest who may have been drawn from."""
    enrolled = None if evidence.logs is None else evidence.logs.enrolled
    clients = evidence.claim.scheme.clients
    return min(clients, enrolled.population) if enrolled is not None and enrolled.population else clients


def _build_schedule(rates: Numbers, shares: Numbers, claim: Claim) -> Release | None:
    """Rounds with these rates, rounded up to one of a few, and these shares of the noise, rounded down.

    Empty rounds release nothing about anybody.
    """
    there = rates > 0
    if not there.any():
        return None
    many = LEVELS if np.unique(shares[there]).size == 1 else FEW_LEVELS
    pairs = zip(_up(rates[there], many).tolist(), _down(shares[there], many).tolist(), strict=True)
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


def _price_schedule(release: Release | None, claim: Claim) -> float:
    return 0.0 if release is None else price_release(claim, release)
