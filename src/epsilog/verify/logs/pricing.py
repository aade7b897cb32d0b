"""What a run would cost under what its logs show, round by round: estimates, labelled as such, and never a claim."""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy.special import betaincinv

from epsilog.terms import Composed, Gaussian, PoissonSampled, Release, Repeated
from epsilog.terms.cohorts import PoissonCohorts
from epsilog.terms.digits import upper_text
from epsilog.verify.chances import Ids, Numbers
from epsilog.verify.logs.checks import multipliers, padded, sizes_of
from epsilog.verify.logs.claims import Claim
from epsilog.verify.logs.reading import Logs
from epsilog.verify.noise import stddev_interval
from epsilog.verify.reconciliation import WhatIf, certified

MISS = 0.05  # the chance that some end of an interval is passed by what was really so
LEVELS = 48  # different rates that are priced; each round's is rounded up to the next


def what_ifs(logs: Logs, claim: Claim) -> tuple[WhatIf, ...]:
    """The observed schedule, as it came about and at its worst end; and the price for known lists."""
    found = []
    sizes = sizes_of(logs)
    share = weakest_share(logs, claim)
    attempts = _further_attempts(logs)
    if sizes is not None and sizes.size and isinstance(claim.scheme.cohorts, PoissonCohorts):
        clients = _clients(logs, claim)
        seen, worst = np.minimum(sizes / clients, 1.0), highest_rates(sizes, clients)
        cost = _price(_schedule(seen, 1.0, claim), claim)
        says = f"At each round's own cohort over N = {clients}, epsilon would be {upper_text(cost)}: an estimate, "
        found.append(WhatIf("observed cohorts, round by round", cost, says + "not a guarantee.", private=True))
        cost = _price(_schedule(np.concatenate([worst, np.full(attempts, worst.max())]), share, claim), claim)
        says = f"At the upper end of every round's rate and the lower end of the noise (95%, all together, {attempts} "
        says += f"further attempts released), epsilon would be {upper_text(cost)}: an estimate, not a guarantee."
        found.append(WhatIf("worst end of the observed schedule (95%)", cost, says, private=True))
    elif share < 1 or attempts:
        run: Release = Repeated(claim.scheme.step(share), claim.scheme.noisy_sums(claim.scheme.rounds))
        if attempts:
            run = Composed([run, Repeated(Gaussian(share * claim.scheme.accounted_multiplier), attempts)])
        cost = _price(run, claim)
        says = f"At the lower end of the noise (95%) and with {attempts} further attempts released, epsilon would be "
        found.append(WhatIf("weakest noise and every attempt", cost, f"{says}{upper_text(cost)}: an estimate."))
    lists = _price(claim.scheme.unamplified(), claim)
    says = f"Against whoever learns who took part, epsilon is at most {upper_text(lists)}, if all else is as claimed."
    found.append(WhatIf("participation lists known", lists, says))
    return tuple(found)


def weakest_share(logs: Logs, claim: Claim) -> float:
    """The least noise that logs allow, over what was claimed: what was set, and what padding shows at its lower end."""
    shares = [1.0]
    found = multipliers(logs.rounds, claim.scheme)
    if found is not None and claim.scheme.noise_multiplier:
        shares.append(float(found.min()) / claim.scheme.noise_multiplier)
    values = [value for one in padded(logs, claim.scheme) for value in one.padding]
    if any(values) and claim.scheme.noise_stddev:
        shares.append(stddev_interval(values, failure_probability=MISS)[0] / claim.scheme.noise_stddev)
    return min(shares)


def highest_rates(sizes: Ids, clients: int) -> Numbers:
    """Upper ends of the rates of all rounds together (Clopper & Pearson 1934; half the chance of a miss, shared out).

    The other half is the noise's lower end.
    """
    seen = np.minimum(sizes, clients).astype(np.float64)
    ends = betaincinv(seen + 1, np.maximum(clients - seen, 1e-300), 1 - MISS / 2 / sizes.size)
    return np.asarray(np.where(seen < clients, ends, 1.0))


def _clients(logs: Logs, claim: Claim) -> int:
    """The fewest who may have been drawn from."""
    counted = [claim.scheme.clients]
    if logs.enrolled is not None and logs.enrolled.population:
        counted.append(logs.enrolled.population)
    return min(counted)


def _further_attempts(logs: Logs) -> int:
    if logs.rounds is None or logs.rounds.attempts is None:
        return 0
    return int((logs.rounds.attempts - 1).sum())


def _schedule(rates: Numbers, share: float, claim: Claim) -> Release | None:
    """Rounds with these rates, each rounded up to one of a few; empty rounds release nothing about anybody."""
    positive = rates[rates > 0]
    if not positive.size:
        return None
    levels = np.unique(positive)
    if levels.size > LEVELS:
        levels = np.append(np.geomspace(levels[0], levels[-1], LEVELS)[:-1], levels[-1])
    rounded = levels[np.searchsorted(levels, positive)]
    noise = Gaussian(share * claim.scheme.accounted_multiplier)
    times = Counter(rounded.tolist())
    return Composed([Repeated(PoissonSampled(noise, rate), count) for rate, count in sorted(times.items())])


def _price(release: Release | None, claim: Claim) -> float:
    return 0.0 if release is None else certified(release, claim.guarantee.delta, claim.guarantee.relation).upper
