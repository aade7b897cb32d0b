"""Before a DP-SGD run: what its loop will really cost, beside what its own accountant will say.

An accountant is told a noise multiplier, a rate and a number of steps, and takes for granted that batches are Poisson
samples, that noise is added once to their sum, and that the sum is divided by a public number. Loops differ: batches
come from shuffled epochs, workers draw the same rows, micro-batches are clipped as one. Each difference is a finding,
and what then runs is priced where something is proved about it. docs/how-to/check-a-training-loop.md tells them one by
one, with the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from epsilog.accounting import binomial_above, profile
from epsilog.accounting import epsilon as bound_epsilon
from epsilog.mechanisms import (
    Composed,
    FixedSizeSampled,
    Gaussian,
    PoissonSampled,
    Release,
    Repeated,
    TruncatedPoissonSampled,
)
from epsilog.plan.training_setup import EPOCHS, NOISES, SAMPLERS, TrainingSetup, less
from epsilog.terms import (
    Finding,
    Interval,
    NeighboringRelation,
    UnsupportedMechanismError,
    Verdict,
    check,
    codec,
    fields,
)
from epsilog.terms.digits import lower_text, upper_text
from epsilog.terms.messages import Message

_ADD, _ZERO, _REPLACE = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.ZERO_OUT,
    NeighboringRelation.REPLACE_ONE,
)
_MOST_SAMPLES = 256  # of an update, whose mixture is worked out
_NEAR = 1e-3  # two rates that differ by less than this part are one
_SET_APART = 0.5  # of delta, for the chance that coins fall worse than what is priced
_DROWNED = 1.0  # the noise of an update over the longest that its sum could be

NOT_LOOKED_AT = {
    "gradients": "whether what is clipped is the gradient of one example alone (layers and collations that mix rows, "
    "hooks, autocasting, loss terms on parameters)",
    "changes": "whether the loop changes noise, clip norm, sampler or optimizer in a way that is not stated, such as "
    "by a figure of the data",
    "randomness": "where coins and noise come from (seeds that are known or shared, floating-point noise)",
    "other-uses": "what else is computed from the data: scaling, validation that steers learning rates or stops, "
    "statistics of normalization, sizes of batches that are shown",
    "earlier-steps": "what was released of the same data before: earlier runs, steps that an accountant already holds",
}


@dataclass(frozen=True, slots=True)
class Preflight:
    """What a loop will cost, beside what its accountant will say.

    Attributes:
        setup: the loop.
        delta: the failure probability of both.
        believed: epsilon as the loop's own accountant would have it if it were exact: certified, for what it is told.
        release: what runs, as it was priced; None where nothing is proved.
        cost: epsilon of what runs; above it is ``inf`` where nothing is proved.
        findings: what differs, and what was looked at and does not.
    """

    setup: TrainingSetup
    delta: float
    believed: Interval
    release: Release | None
    cost: Interval
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether the loop costs no more than its accountant will say, for the same neighbours.

        That is said of what was looked at: findings that were not checked name the rest.
        """
        return all(one.verdict is not Verdict.FAILED for one in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; infinite numbers are the text "inf"."""
        return {
            "setup": fields.write_fields(self.setup),
            "delta": self.delta,
            "believed": codec.encode(self.believed),
            "release": None if self.release is None else codec.to_json(self.release),
            "cost": codec.encode(self.cost),
            "holds": self.holds,
            "findings": [one.to_json() | one.consequences() for one in self.findings],
        }


def preflight(setup: TrainingSetup, *, delta: float) -> Preflight:
    """Prices a loop of DP-SGD as it is, and says where that is not what its accountant counts.

    Args:
        setup: the loop; nothing in it is private, and nothing of the data is looked at.
        delta: failure probability, in (0, 1).

    >>> loop = TrainingSetup(examples=60_000, batch_size=600, updates=1000, noise_multiplier=1.0, sampler="shuffled")
    >>> found = preflight(loop, delta=1e-6)
    >>> round(found.believed.upper, 2), round(found.cost.upper, 2)
    (2.12, 19.42)
    >>> [one.code for one in found.findings if one.verdict is Verdict.FAILED]
    ['sampler/shuffled', 'believed/too-low']
    """
    delta = check.between(0, 1, check.DOWN)(delta=delta)
    setup = check.instance(TrainingSetup)(setup=setup)
    rate = setup.believed_rate or min(setup.expected_batch / setup.examples, 1.0)
    believed = bound_epsilon(_told(setup, rate), delta=delta)
    release, cost = _priced(setup, delta)
    found = [
        _sampler(setup), _rate(setup, rate), _several(setup), _noise(setup), _told_noise(setup), _clipping(setup),
        _divisor(setup), *_truncation(setup, delta), *_signal(setup), _believed(believed, cost),
    ]  # fmt: skip
    if _within(believed, cost):  # differences that cost nothing
        found = [replace(one, verdict=Verdict.WARNED) if one.verdict is Verdict.FAILED else one for one in found]
    found += [
        Finding(f"{what}/not-looked-at", Verdict.NOT_CHECKED, f"Not looked at: {says}.")
        for what, says in NOT_LOOKED_AT.items()
    ]
    return Preflight(setup, delta, believed, release, cost, tuple(found))


def _told(setup: TrainingSetup, rate: float) -> Release:
    """What the loop's accountant counts."""
    steps = setup.believed_updates or setup.updates
    if setup.believed_noise is not None or len(setup.stages) == 1:
        noise = setup.noise_multiplier if setup.believed_noise is None else setup.believed_noise
        return Repeated(PoissonSampled(Gaussian(noise), rate), steps)
    counted = []
    for count, noise in (*setup.stages[:-1], (steps, setup.stages[-1][1])):  # the last goes on as long as it counts
        part = min(count, steps)
        steps -= part
        if part:
            counted.append(Repeated(PoissonSampled(Gaussian(noise), rate), part))
    return Composed(counted)


def _each_update(setup: TrainingSetup, sampled: Callable[[Gaussian], Release]) -> Release:
    """All updates, each with its own noise."""
    parts = [Repeated(sampled(Gaussian(setup.summed(noise))), count) for count, noise in setup.stages]
    return parts[0] if len(parts) == 1 else Composed(parts)


def _within(believed: Interval, cost: Interval) -> bool:
    """Whether a loop costs no more than its accountant will say, but for a hair, and for the same neighbours.

    No loop without a finite bound does: two infinite figures are not compared.
    """
    same = cost.relation is believed.relation
    return same and math.isfinite(cost.upper) and cost.upper <= believed.upper * (1 + _NEAR)


def _priced(setup: TrainingSetup, delta: float) -> tuple[Release | None, Interval]:
    """The release that the loop is, or one that dominates it, and its cost."""
    draws = setup.draws
    unamplified = _each_update(setup, lambda noise: _over(noise, draws))
    if setup.sampler == "weighted":
        return None, _unknown("nothing is proved about batches that are drawn by weights")
    if setup.sampler in EPOCHS:
        return _of(_epochs(setup), delta, _ZERO, "epochs without amplification")
    if setup.sampler == "with-replacement":
        return _of(_replaced(setup, delta), delta * (1 - _SET_APART), _ZERO, "unlikely repeats apart", at=delta)
    if setup.clipped == "microbatch":
        return _of(unamplified, delta, _ZERO, "micro-batches without amplification")
    if setup.sampler == "fixed-size":
        if draws > 1:
            return _of(unamplified, delta, _REPLACE, "several samples without amplification")
        pool = setup.smallest_pool
        fixed = _each_update(setup, lambda noise: FixedSizeSampled(noise, min(setup.places, pool), pool))
        return _of(fixed, delta, _REPLACE)
    if setup.divisor == "realised":
        if draws > 1 or setup.largest_batch is not None:
            return _of(unamplified, delta, _ZERO, "sizes shown, without amplification")
        most = _most(setup.pool, setup.rate, _SET_APART * delta / setup.updates)
        pool = setup.smallest_pool
        release = _each_update(setup, lambda noise: FixedSizeSampled(noise, min(most, pool), pool))
        return _of(release, delta * (1 - _SET_APART), _REPLACE, "sizes shown, unlikely ones apart", at=delta)
    if setup.largest_batch is not None:
        if draws > 1:
            return _of(unamplified, delta, _ZERO, "several cut samples, unamplified")
        most = setup.largest_batch
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


def _epochs(setup: TrainingSetup) -> Release:
    """Epochs, each of which uses every example at most once a worker that could draw it; nothing is amplified.

    An update that sums batches over the end of an epoch may hold an example several times: w times at most. Then the
    squares of how often it is in each update add up to at most w times its uses.
    """
    repeats = setup.draws // setup.accumulation
    batches = max(setup.smallest_pool // setup.places, 1)
    epochs = -(-setup.updates * setup.accumulation // batches)
    return Repeated(_over(Gaussian(setup.noise), math.sqrt(_together(setup))), epochs * repeats)


def _together(setup: TrainingSetup) -> int:
    """How often one update of a loop over epochs may hold an example, at most."""
    repeats = setup.draws // setup.accumulation
    batches = max(setup.smallest_pool // setup.places, 1)
    whole = setup.smallest_pool % setup.places == 0 and setup.examples % setup.workers == 0
    aligned = setup.accumulation == 1 or (whole and batches % setup.accumulation == 0)
    together = 1 if aligned else -(-setup.accumulation // batches) + 1
    return min(together * repeats, setup.draws)


def _replaced(setup: TrainingSetup, delta: float) -> Release:
    """Places that are drawn anew: but for half of delta an example is in no more of them, in one update or in all."""
    places, chance, apart = setup.places * setup.draws, 1 / setup.smallest_pool, _SET_APART * delta / 2
    times = _most(places, chance, apart / setup.updates)
    uses = _most(places * setup.updates, chance, apart)
    return Repeated(_over(Gaussian(setup.noise), math.sqrt(times)), uses)


def _most(trials: int, chance: float, failure: float) -> int:
    """A number that so many coins exceed with at most the chance ``failure``; about the least."""
    low, high = 0, trials
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if binomial_above(trials, chance, middle) <= failure else (middle + 1, high)
    return max(low, 1)


def _found(code: str, failed: str, *, verdict: Verdict = Verdict.FAILED, **numbers: float) -> Finding:
    return Finding(code, verdict, failed, tuple((name, float(value)) for name, value in numbers.items()))


def _passed(check_: str, says: str) -> Finding:
    return Finding(f"{check_}/holds", Verdict.PASSED, says)


def _sampler(setup: TrainingSetup) -> Finding:
    match setup.sampler:
        case "poisson":
            return _passed("sampler", "Batches are Poisson samples, as accountants of DP-SGD take for granted.")
        case "fixed-size":
            says = (
                "Batches have a fixed size: amplification is proved for data sets that replace one example by another, "
                "not for one that joins or leaves."
            )
            return _found("sampler/fixed-size", says)
        case "shuffled" | "in-order":
            says = (
                f"Batches are parts of an epoch ({SAMPLERS[setup.sampler]}), not Poisson samples. No amplification is "
                "proved for them: each epoch costs what one round on all examples does."
            )
            return _found(f"sampler/{setup.sampler}", says)
    says = f"In a batch {SAMPLERS[setup.sampler]}: one example may fill it, and no amplification is proved."
    return _found(f"sampler/{setup.sampler}", says)


def _rate(setup: TrainingSetup, believed: float) -> Finding:
    drawn = setup.expected_batch / setup.examples
    counted = setup.believed_updates or setup.updates
    if counted < setup.updates:
        says = f"The accountant counts {counted} steps, and the optimizer takes {setup.updates} noisy ones."
        return _found("rate/fewer-steps", says, counted=counted, taken=setup.updates)
    if drawn > believed * (1 + _NEAR):
        says = (
            f"An update takes {drawn:.6g} of all examples on average, and the accountant is told {believed:.6g}: "
            "look at the sampler, the workers and the accumulation."
        )
        return _found("rate/too-low", says, drawn=drawn, believed=believed)
    if drawn < believed * (1 - _NEAR) or counted > setup.updates:
        says = (
            f"The accountant is told more than is done (rate {believed:.6g} for {drawn:.6g}, {counted} steps for "
            f"{setup.updates}): the claim holds, and noise is wasted."
        )
        return _found("rate/too-high", says, verdict=Verdict.WARNED, drawn=drawn, believed=believed)
    return _passed("rate", "The accountant is told the rate and the steps that the loop has.")


def _several(setup: TrainingSetup) -> Finding:
    if setup.sampler in EPOCHS and setup.draws > 1:
        times = _together(setup)
        if times > 1:
            says = (
                f"An update may hold an example {times} times: its batches reach over the end of an epoch, or workers "
                "hold the same rows."
            )
            return _found("batches/several-samples", says, samples=times)
    elif setup.draws > 1:
        shared = setup.draws > setup.accumulation
        where = "workers that draw from the same examples" if shared else "accumulated batches"
        says = (
            f"An update sums {setup.draws} samples ({where}) before one noise: an example may be in several of them, "
            "and moves the sum by as many clip norms. That is no Poisson sample of the sum's size."
        )
        return _found("batches/several-samples", says, samples=setup.draws)
    if setup.sampler == "with-replacement" and setup.expected_batch > 1:
        return _found("batches/several-samples", "An example may be in several places of one batch.")
    return _passed("batches", "No example can be drawn for one update more than once.")


def _noise(setup: TrainingSetup) -> Finding:
    if setup.noise_added != "update" and setup.noise > setup.least_noise:
        says = f"Noise is added {NOISES[setup.noise_added]}: the sum has more of it than the accountant counts."
        return _found("noise-added/more-than-counted", says, verdict=Verdict.WARNED, noise=setup.noise)
    return _passed("noise-added", "Noise is added once to the sum of an update.")


def _told_noise(setup: TrainingSetup) -> Finding:
    told, least, most = setup.believed_noise, setup.least_noise, max(noise for _, noise in setup.stages)
    if told is not None and least < told * (1 - _NEAR):
        says = f"The accountant is told a noise multiplier of {told:g}, and an update has {least:g}."
        return _found("noise-told/too-high", says, told=told, least=least)
    if told is not None and most > told * (1 + _NEAR):
        says = (
            f"The accountant is told a noise multiplier of {told:g}, and updates have up to {most:g}: noise is wasted."
        )
        return _found("noise-told/too-low", says, verdict=Verdict.WARNED, told=told, most=most)
    return _passed("noise-told", "The accountant is told the noise multiplier of each update.")


def _clipping(setup: TrainingSetup) -> Finding:
    if setup.clipped == "example":
        return _passed("clipping", "The gradient of each example is clipped.")
    says = (
        "Micro-batches are clipped as one: an example changes the direction of the whole, and moves the sum by up to "
        "two clip norms; where others fall depends on whether it is there."
    )
    return _found("clipping/microbatches", says)


def _divisor(setup: TrainingSetup) -> Finding:
    if setup.divisor == "public" or setup.sampler not in ("poisson",):
        return _passed("divisor", "Noisy sums are divided by a public number.")
    says = (
        "Noisy sums are divided by how many examples were drawn, which accountants do not cover: for one that joins or "
        "leaves nothing is proved; sizes shown, an example that is replaced is hidden as in samples of fixed size."
    )
    return _found("divisor/realised-cohort", says)


def _truncation(setup: TrainingSetup, delta: float) -> tuple[Finding, ...]:
    if setup.largest_batch is None:
        return ()
    batches = setup.updates * setup.accumulation * setup.workers
    chance = min(batches * binomial_above(setup.pool, setup.rate, setup.largest_batch), 1.0)
    if chance <= delta:
        return (
            _passed("truncation", f"A batch is cut with a chance of at most {upper_text(chance, 2)} in the whole run."),
        )
    says = (
        f"Batches may be cut (chance {upper_text(chance, 2)} in the run at most): accountants of Poisson samples leave "
        "that out."
    )
    return (_found("truncation/frequent", says, chance=chance),)


def _signal(setup: TrainingSetup) -> tuple[Finding, ...]:
    """The noise's length beside the longest that a sum of clipped gradients could be: both public."""
    if setup.parameters is None:
        return ()
    noise = setup.noise * (2 if setup.clipped == "microbatch" else 1)
    part = noise * math.sqrt(setup.parameters) / setup.expected_batch
    if part <= _DROWNED:
        return (_passed("signal", f"An update's noise is {part:.2g} times as long as its sum could be at most."),)
    says = (
        f"An update's noise is {part:.3g} times as long as its sum could be if all gradients agreed: train fewer "
        "parameters, take larger batches, or expect many updates to average it."
    )
    return (_found("signal/drowned", says, verdict=Verdict.WARNED, part=part),)


def _believed(believed: Interval, cost: Interval) -> Finding:
    stated = upper_text(believed.upper)
    if cost.upper <= believed.upper < math.inf:
        return _passed("believed", f"The loop costs no more than its accountant will say ({stated}).")
    if math.isinf(cost.upper):
        return _found(
            "believed/nothing-proved", f"The accountant will say {stated}, and nothing is proved of this loop."
        )
    if _within(believed, cost):
        return _passed("believed", f"The loop costs what its accountant will say ({stated}), but for a hair.")
    least = f" and at least {lower_text(cost.lower)}" if cost.lower > believed.upper else ""
    proved = f"{upper_text(cost.upper)}{least} (neighbours: {cost.relation})"
    says = f"The accountant will say {stated}; what is proved of this loop is {proved}."
    return _found("believed/too-low", says, believed=believed.upper, proved=cost.upper)
