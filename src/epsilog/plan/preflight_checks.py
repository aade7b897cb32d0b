"""Preflight of a DP-SGD run: the true cost of its loop, and what its accountant will report.

An accountant knows a noise multiplier, a rate and a number of steps. It assumes Poisson-sampled batches, noise that is
added once to their sum, and division by a public number. Loops differ: batches come from shuffled epochs, workers draw
the same rows, micro-batches are clipped as one. Each difference is a finding, and the actual loop is accounted if a
proof covers it. docs/how-to/check-a-training-loop.md lists the differences, with the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from epsilog.accounting import binomial_tail, epsilon as bound_epsilon, profile
from epsilog.mechanisms import (
    Composed,
    FixedSizeSampled,
    Gaussian,
    PoissonSampled,
    Release,
    Repeated,
    TruncatedPoissonSampled,
)
from epsilog.plan.training_setup import EPOCHS, TrainingLoop, less
from epsilog.terms import (
    Finding,
    Interval,
    NeighboringRelation,
    Status,
    UnsupportedMechanismError,
    check,
    codec,
    fields,
)
from epsilog.terms.messages import Message

_ADD, _ZERO, _REPLACE = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.ZERO_OUT,
    NeighboringRelation.REPLACE_ONE,
)
_MOST_SAMPLES = 256  # of an update, with a computed mixture
_NEAR = 1e-3  # two rates that differ by less than this part are one
_TAIL_SHARE = 0.5  # of delta, for the probability that coins exceed the accounted number
_DROWNED = 1.0  # the noise of an update over the longest that its sum could be

NOT_CHECKED = ("gradients", "changes", "randomness", "other-uses", "earlier-steps")


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """The cost of a loop, and what its accountant will report.

    Attributes:
        setup: the loop.
        delta: the failure probability of both.
        accountant_epsilon: epsilon of the loop's accountant if it were exact, certified for its inputs.
        release: the accounted release; None without a proof.
        cost: epsilon of the loop; the upper bound is ``inf`` without a proof.
        findings: what differs, and what was looked at and does not.
    """

    setup: TrainingLoop
    delta: float
    accountant_epsilon: Interval
    release: Release | None
    cost: Interval
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Return whether the loop costs no more than its accountant will say, for the same neighbors.

        That is said of what was looked at: findings that were not checked name the rest.
        """
        return all(one.status is not Status.FAILED for one in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; infinite numbers are the text "inf"."""
        return {
            "setup": fields.write_fields(self.setup),
            "delta": self.delta,
            "accountant_epsilon": codec.encode(self.accountant_epsilon),
            "release": None if self.release is None else codec.to_json(self.release),
            "cost": codec.encode(self.cost),
            "passed": self.passed,
            "findings": [one.to_json() | one.consequences() for one in self.findings],
        }


def preflight(setup: TrainingLoop, *, delta: float) -> PreflightResult:
    """Compute the cost of an actual DP-SGD loop, and list the differences to its accountant.

    Args:
        setup: the loop; nothing in it is private, and nothing of the data is looked at.
        delta: failure probability, in (0, 1).

    >>> loop = TrainingLoop(examples=60_000, batch_size=600, updates=1000, noise_multiplier=1.0, sampler="shuffled")
    >>> found = preflight(loop, delta=1e-6)
    >>> round(found.accountant_epsilon.upper, 2), round(found.cost.upper, 2)
    (2.12, 19.42)
    >>> [one.code for one in found.findings if one.status is Status.FAILED]
    ['sampler/shuffled', 'accountant-epsilon/too-low']
    """
    delta = check.in_open_interval(0, 1, check.DOWN)(delta=delta)
    setup = check.instance_of(TrainingLoop)(setup=setup)
    rate = setup.accountant_sampling_probability or min(setup.expected_batch / setup.examples, 1.0)
    reported = bound_epsilon(_build_accountant_release(setup, rate), delta=delta)
    release, cost = _account_loop(setup, delta)
    found = [
        _sampler(setup), _rate(setup, rate), _several(setup), _noise(setup), _check_noise(setup), _clipping(setup),
        _divisor(setup), *_truncation(setup, delta), *_signal(setup), _compare_epsilons(reported, cost),
    ]  # fmt: skip
    if _within(reported, cost):  # differences that cost nothing
        found = [replace(one, status=Status.WARNED) if one.status is Status.FAILED else one for one in found]
    found += [Finding.of(Message(f"{what}/not-checked"), Status.NOT_CHECKED) for what in NOT_CHECKED]
    return PreflightResult(setup, delta, reported, release, cost, tuple(found))


def _build_accountant_release(setup: TrainingLoop, rate: float) -> Release:
    """Return what the loop's accountant counts."""
    steps = setup.accountant_updates or setup.updates
    if setup.accountant_noise_multiplier is not None or len(setup.stages) == 1:
        noise = (
            setup.noise_multiplier if setup.accountant_noise_multiplier is None else setup.accountant_noise_multiplier
        )
        return Repeated(PoissonSampled(Gaussian(noise), rate), steps)
    counted = []
    for count, noise in (*setup.stages[:-1], (steps, setup.stages[-1][1])):  # the last noise lasts to the end
        part = min(count, steps)
        steps -= part
        if part:
            counted.append(Repeated(PoissonSampled(Gaussian(noise), rate), part))
    return Composed(counted)


def _each_update(setup: TrainingLoop, sampled: Callable[[Gaussian], Release]) -> Release:
    """Return all updates, each with its own noise."""
    parts = [Repeated(sampled(Gaussian(setup.get_summed_noise(noise))), count) for count, noise in setup.stages]
    return parts[0] if len(parts) == 1 else Composed(parts)


def _within(reported: Interval, cost: Interval) -> bool:
    """Return whether a loop costs at most what its accountant will report, up to a tolerance, for the same relation.

    No loop without a finite bound does: two infinite figures are not compared.
    """
    same = cost.relation is reported.relation
    return same and math.isfinite(cost.upper) and cost.upper <= reported.upper * (1 + _NEAR)


def _account_loop(setup: TrainingLoop, delta: float) -> tuple[Release | None, Interval]:
    """Return the release that the loop is, or one that dominates it, and its cost."""
    draws = setup.draws
    unamplified = _each_update(setup, lambda noise: _over(noise, draws))
    if setup.sampler == "weighted":
        return None, _unknown("nothing is proved about batches that are drawn by weights")
    if setup.sampler in EPOCHS:
        return _of(_epochs(setup), delta, _ZERO, "epochs without amplification")
    if setup.sampler == "with-replacement":
        return _of(
            _account_replacement(setup, delta), delta * (1 - _TAIL_SHARE), _ZERO, "unlikely repeats apart", at=delta
        )
    if setup.clipped == "microbatch":
        return _of(unamplified, delta, _ZERO, "micro-batches without amplification")
    if setup.sampler == "fixed-size":
        if draws > 1:
            return _of(unamplified, delta, _REPLACE, "several samples without amplification")
        pool = setup.smallest_pool
        fixed = _each_update(setup, lambda noise: FixedSizeSampled(noise, min(setup.places, pool), pool))
        return _of(fixed, delta, _REPLACE)
    if setup.divisor == "realised":
        if draws > 1 or setup.max_batch_size is not None:
            return _of(unamplified, delta, _ZERO, "sizes shown, without amplification")
        most = _most(setup.pool, setup.rate, _TAIL_SHARE * delta / setup.updates)
        pool = setup.smallest_pool
        release = _each_update(setup, lambda noise: FixedSizeSampled(noise, min(most, pool), pool))
        return _of(release, delta * (1 - _TAIL_SHARE), _REPLACE, "sizes shown, unlikely ones apart", at=delta)
    if setup.max_batch_size is not None:
        if draws > 1:
            return _of(unamplified, delta, _ZERO, "several cut samples, unamplified")
        most = setup.max_batch_size
        cut = _each_update(setup, lambda noise: TruncatedPoissonSampled(noise, setup.rate, setup.pool, most))
        return _of(cut, delta, _ADD)
    release = _each_update(setup, lambda noise: PoissonSampled(noise, setup.rate))
    return _of(release, delta, _ADD) if draws == 1 else _several_samples(release, unamplified, draws, delta)


def _of(
    release: Release, delta: float, relation: NeighboringRelation, how: str = "", *, at: float | None = None
) -> tuple[Release | None, Interval]:
    try:
        found = bound_epsilon(release, delta=delta, relation=relation)
    except UnsupportedMechanismError as error:
        return None, _unknown(str(error))
    lower = 0.0 if how else found.lower  # a release that dominates may lose more
    method = Message.of("method/training-loop@1", rest=found.method, how=how) if how else found.method
    return release, replace(found, lower=lower, method=method, given=(("delta", delta if at is None else at),))


def _unknown(why: str) -> Interval:
    return Interval(0.0, math.inf, Message.read(why), _ADD)


def _over(noise: Gaussian, times: float) -> Gaussian:
    """Noise on a sum that one example may enter several times."""
    return Gaussian(less(noise.noise_multiplier, 1 / times))


def _several_samples(
    release: Release, unamplified: Release, draws: int, delta: float
) -> tuple[Release | None, Interval]:
    """An update of several Poisson samples: an example is in a binomial number of them, as members of a group are."""
    other = _of(unamplified, delta, _ZERO, "several samples without amplification")
    if draws > _MOST_SAMPLES:
        return other
    found = profile(release).group_epsilon(units=draws, delta=delta)
    if other[1].upper < found.upper:
        return other
    kept = (one for one in found.assumptions if one.id != "assumes/joint-group")
    assumed = (*kept, Message("assumes/independent-samples"))
    method = Message.of("method/several-samples@1", rest=found.method)
    return release, replace(found, method=method, assumptions=assumed, given=(("delta", delta),))


def _epochs(setup: TrainingLoop) -> Release:
    """Epochs, each of which uses every example at most once a worker that could draw it; nothing is amplified.

    An update that sums batches over the end of an epoch may hold an example several times: w times at most. Then the
    squares of how often it is in each update add up to at most w times its uses.
    """
    repeats = setup.draws // setup.accumulation
    batches = max(setup.smallest_pool // setup.places, 1)
    epochs = -(-setup.updates * setup.accumulation // batches)
    return Repeated(_over(Gaussian(setup.noise), math.sqrt(_together(setup))), epochs * repeats)


def _together(setup: TrainingLoop) -> int:
    """Return how often one update of a loop over epochs may hold an example, at most."""
    repeats = setup.draws // setup.accumulation
    batches = max(setup.smallest_pool // setup.places, 1)
    even = setup.smallest_pool % setup.places == 0 and setup.examples % setup.workers == 0
    aligned = setup.accumulation == 1 or (even and batches % setup.accumulation == 0)
    together = 1 if aligned else -(-setup.accumulation // batches) + 1
    return min(together * repeats, setup.draws)


def _account_replacement(setup: TrainingLoop, delta: float) -> Release:
    """Return the release for places drawn with replacement; half of delta covers an example in more places."""
    places, chance, failure = setup.places * setup.draws, 1 / setup.smallest_pool, _TAIL_SHARE * delta / 2
    times = _most(places, chance, failure / setup.updates)
    uses = _most(places * setup.updates, chance, failure)
    return Repeated(_over(Gaussian(setup.noise), math.sqrt(times)), uses)


def _most(trials: int, chance: float, failure: float) -> int:
    """Return a number that the count of successes exceeds with probability at most ``failure``; nearly the least."""
    low, high = 0, trials
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if binomial_tail(trials, chance, middle) <= failure else (middle + 1, high)
    return max(low, 1)


def _holds(name: str, **numbers: float) -> Finding:
    return Finding.of(Message.of(f"{name}/passed", **numbers))


def _differs(code: str, *, status: Status = Status.FAILED, **numbers: float) -> Finding:
    return Finding.of(Message.of(code, **numbers), status)


def _sampler(setup: TrainingLoop) -> Finding:
    return _holds("sampler") if setup.sampler == "poisson" else _differs(f"sampler/{setup.sampler}")


def _rate(setup: TrainingLoop, accounted: float) -> Finding:
    drawn, taken = setup.expected_batch / setup.examples, setup.updates
    counted = setup.accountant_updates or taken
    if counted < taken:
        return _differs("sampling-rate/fewer-steps", counted=counted, taken=taken)
    if drawn > accounted * (1 + _NEAR):
        return _differs("sampling-rate/too-low", drawn=drawn, accounted=accounted)
    if drawn < accounted * (1 - _NEAR) or counted > taken:
        more = {"drawn": drawn, "accounted": accounted, "counted": counted, "taken": taken}
        return _differs("sampling-rate/too-high", status=Status.WARNED, **more)
    return _holds("sampling-rate")


def _several(setup: TrainingLoop) -> Finding:
    times = _together(setup) if setup.sampler in EPOCHS else setup.draws
    if setup.sampler == "with-replacement":
        times *= setup.places
    return _differs("batches/several-samples", samples=times) if times > 1 else _holds("batches")


def _noise(setup: TrainingLoop) -> Finding:
    if setup.noise_added != "update" and setup.noise > setup.least_noise:
        return _differs("noise-added/more-than-counted", status=Status.WARNED, noise=setup.noise)
    return _holds("noise-added")


def _check_noise(setup: TrainingLoop) -> Finding:
    claimed, least, most = setup.accountant_noise_multiplier, setup.least_noise, max(noise for _, noise in setup.stages)
    if claimed is not None and least < claimed * (1 - _NEAR):
        return _differs("accountant-noise/too-high", told=claimed, least=least)
    if claimed is not None and most > claimed * (1 + _NEAR):
        return _differs("accountant-noise/too-low", status=Status.WARNED, told=claimed, most=most)
    return _holds("accountant-noise")


def _clipping(setup: TrainingLoop) -> Finding:
    return _holds("clipping") if setup.clipped == "example" else _differs("clipping/microbatches")


def _divisor(setup: TrainingLoop) -> Finding:
    known = setup.divisor == "public" or setup.sampler != "poisson"
    return _holds("divisor") if known else _differs("divisor/realized-cohort-size")


def _truncation(setup: TrainingLoop, delta: float) -> tuple[Finding, ...]:
    if setup.max_batch_size is None:
        return ()
    batches = setup.updates * setup.accumulation * setup.workers
    chance = min(batches * binomial_tail(setup.pool, setup.rate, setup.max_batch_size), 1.0)
    if chance <= delta:
        return (_holds("truncation", chance=chance),)
    return (_differs("truncation/frequent", chance=chance),)


def _signal(setup: TrainingLoop) -> tuple[Finding, ...]:
    """Check the noise norm against the largest norm of a sum of clipped gradients; both are public."""
    if setup.parameters is None:
        return ()
    noise = setup.noise * (2 if setup.clipped == "microbatch" else 1)
    part = noise * math.sqrt(setup.parameters) / setup.expected_batch
    if part <= _DROWNED:
        return (_holds("utility", part=part),)
    return (_differs("utility/noise-dominates", status=Status.WARNED, part=part),)


def _compare_epsilons(reported: Interval, cost: Interval) -> Finding:
    if cost.upper <= reported.upper < math.inf or _within(reported, cost):
        return _holds("accountant-epsilon", reported=reported.upper)
    if math.isinf(cost.upper):
        return _differs("accountant-epsilon/unproven", reported=reported.upper)
    values = {"reported": reported.upper, "proved": cost.upper, "lower": cost.lower}
    return Finding.of(Message.of("accountant-epsilon/too-low", relation=cost.relation.value, **values), Status.FAILED)
