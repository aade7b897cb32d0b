"""What a run would cost under what its logs show, round by round: estimates, labelled as such, and never a claim."""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy.special import betaincinv

from epsilog.mechanisms import Composed, Gaussian, PoissonSampled, Release, Repeated
from epsilog.schemes.cohorts import PoissonSampler
from epsilog.terms.formatting import format_upper
from epsilog.verification.claim import compute_certified_interval
from epsilog.verification.logs.checks import (
    CLOSE,
    compute_noise_multipliers,
    get_cohort_sizes,
    list_round_numbers,
    list_rounds_without_padding,
    rescale_padding,
)
from epsilog.verification.logs.claims import Claim
from epsilog.verification.logs.log_data import LogData
from epsilog.verification.noise import compute_stddev_interval
from epsilog.verification.sampler_tests import Ids, Numbers
from epsilog.verification.what_if import WhatIf

MISS = 0.05  # the chance that some end of an interval is passed by what was really so
LEVELS = 48  # different rates that are priced; each round's is rounded up to the next
FEW_LEVELS = 8  # of rates, and of shares of the noise, where rounds differ in both


def compute_log_what_ifs(logs: LogData, claim: Claim) -> tuple[WhatIf, ...]:
    """The observed schedule, as it came about and at its worst end; and the price for known lists."""
    found = []
    sizes = get_cohort_sizes(logs)
    shares = bound_noise_ratios(logs, claim)
    share = float(shares.min())
    attempts = _further_attempts(logs)
    if sizes is not None and sizes.size and isinstance(claim.scheme.cohorts, PoissonSampler):
        clients = _clients(logs, claim)
        seen, worst = np.minimum(sizes / clients, 1.0), bound_sampling_rates(sizes, clients)
        cost = _compute_epsilon(_schedule(seen, np.ones(seen.size), claim), claim)
        says = f"At each round's own cohort over N = {clients}, epsilon would be {format_upper(cost)}: an estimate, "
        found.append(WhatIf("observed cohorts, round by round", cost, says + "not a guarantee.", private=True))
        cost = _compute_epsilon(_worst_end(worst, shares, attempts, claim), claim)
        says = f"At the upper end of every round's rate and the lower end of the noise (95%, all together, {attempts} "
        says += f"further attempts released), epsilon would be {format_upper(cost)}: an estimate, not a guarantee."
        says += _taken_as_set(logs, claim)
        found.append(WhatIf("worst end of the observed schedule (95%)", cost, says, private=True))
    elif share < 1 or attempts:
        run: Release = Repeated(claim.scheme.step(share), claim.scheme.noisy_sums(claim.scheme.rounds))
        if attempts:
            run = Composed([run, Repeated(Gaussian(share * claim.scheme.accounted_multiplier), attempts)])
        cost = _compute_epsilon(run, claim)
        says = f"At the lower end of the noise (95%) and with {attempts} further attempts released, epsilon would be "
        says += f"{format_upper(cost)}: an estimate.{_taken_as_set(logs, claim)}"
        found.append(WhatIf("weakest noise and every attempt", cost, says, private=_covers_participants(logs, claim)))
    lists = _compute_epsilon(claim.scheme.unamplified_release(), claim)
    says = f"Against whoever learns who took part, epsilon is at most {format_upper(lists)}, if all else is as claimed."
    found.append(WhatIf("participation lists known", lists, says))
    return tuple(found)


def _worst_end(rates: Numbers, shares: Numbers, attempts: int, claim: Claim) -> Release | None:
    """Every round at its ends, and every further attempt at the worst of all rounds."""
    padded_rates = np.concatenate([rates, np.zeros(max(0, shares.size - rates.size))])
    shares = np.concatenate([shares, np.full(padded_rates.size - shares.size, shares.min())])
    further = np.full(attempts, rates.max()), np.full(attempts, shares.min())
    return _schedule(np.concatenate([padded_rates, further[0]]), np.concatenate([shares, further[1]]), claim)


def _covers_participants(logs: LogData, claim: Claim) -> bool:
    """Whether lists alone say which rounds there were, or sums were clipped to what may have been sent."""
    if logs.rounds is None:
        return True
    clips = logs.rounds.clip_norm
    return clips is not None and not np.allclose(clips, claim.scheme.clip_norm, rtol=CLOSE)


def _taken_as_set(logs: LogData, claim: Claim) -> str:
    """What a reader must know where no padding bounds a round's noise."""
    bare = list_rounds_without_padding(logs, rescale_padding(logs, claim.scheme)).size
    return f" In {bare} rounds no padding shows the noise, so this is no bound." if bare else ""


def bound_noise_ratios(logs: LogData, claim: Claim) -> Numbers:
    """The least noise that logs allow each round, over what was claimed: 1 at most, since more lowers no price.

    What was set; and what its own padding shows, at lower ends that hold for all rounds together (half the chance of a
    miss, shared out). Noise of a round without padding is taken as set.
    """
    named = list_round_numbers(logs)
    shares = np.ones(max(1, int(named.max(initial=0))))
    found = compute_noise_multipliers(logs.rounds, claim.scheme)
    if logs.rounds is not None and found is not None and claim.scheme.noise_multiplier:
        np.minimum.at(shares, logs.rounds.number - 1, found / claim.scheme.noise_multiplier)
    quiet = rescale_padding(logs, claim.scheme)
    if claim.scheme.noise_stddev:
        for one in quiet:
            low = (
                compute_stddev_interval(one.padding, failure_probability=MISS / len(quiet))[0]
                / claim.scheme.noise_stddev
            )
            shares[one.round - 1] = min(shares[one.round - 1], low)
    return shares


def bound_sampling_rates(sizes: Ids, clients: int) -> Numbers:
    """Upper ends of the rates of all rounds together (Clopper & Pearson 1934; half the chance of a miss, shared out).

    The other half is the noise's lower end.
    """
    seen = np.minimum(sizes, clients).astype(np.float64)
    ends = betaincinv(seen + 1, np.maximum(clients - seen, 1e-300), 1 - MISS / 2 / sizes.size)
    return np.asarray(np.where(seen < clients, ends, 1.0))


def _clients(logs: LogData, claim: Claim) -> int:
    """The fewest who may have been drawn from."""
    counted = [claim.scheme.clients]
    if logs.enrolled is not None and logs.enrolled.population:
        counted.append(logs.enrolled.population)
    return min(counted)


def _further_attempts(logs: LogData) -> int:
    if logs.rounds is None or logs.rounds.attempts is None:
        return 0
    return int((logs.rounds.attempts - 1).sum())


def _schedule(rates: Numbers, shares: Numbers, claim: Claim) -> Release | None:
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


def _compute_epsilon(release: Release | None, claim: Claim) -> float:
    return (
        0.0
        if release is None
        else compute_certified_interval(release, claim.guarantee.delta, claim.guarantee.relation).upper
    )
