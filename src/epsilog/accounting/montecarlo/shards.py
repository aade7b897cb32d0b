"""Keyed streams and shards: any part of a simulation can be recomputed alone, and parts merge as integers.

A run is keyed by (seed, direction, candidate, shard, index). The first four are hashed to the 128-bit key of a Philox
generator. Its counter starts at ``index`` times 2^192: block ``index`` of the shard, ``BLOCK`` draws. A shard is
``SHARD`` draws. The assignment of shards to workers, and their order, do not matter. Drawing anything in another order
makes a new ``STREAM``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from epsilog.accounting.montecarlo import tilt as tilts
from epsilog.accounting.montecarlo.normals import limit_to_one_thread
from epsilog.accounting.montecarlo.oracle import DIRECTIONS
from epsilog.accounting.montecarlo.pairs import build_simulated_pair
from epsilog.accounting.montecarlo.tilt import Payoff
from epsilog.mechanisms import Release
from epsilog.numerics.pairs import AdjacencyType
from epsilog.terms import CheckError, check

Array = NDArray[np.float64]

STREAM = "philox/1024/v0"
BLOCK = 1024
SHARD = 16 * BLOCK


@dataclass(frozen=True, slots=True)
class BernoulliTrial:
    """A Bernoulli experiment: one candidate in one direction.

    Attributes:
        release: the candidate.
        payoff: what a loss costs.
        tilt: direction and strength of the importance sampling.
        log_bound: log of M; a hit has chance delta / M.
        samples: how many draws.
        candidate: position in the list of candidates.
    """

    release: Release
    payoff: Payoff
    tilt: tilts.Tilt
    log_bound: Annotated[float, check.in_closed_interval(-tilts.LARGEST_LOG, tilts.LARGEST_LOG)]
    samples: Annotated[int, check.integer(1)]
    candidate: Annotated[int, check.integer(0)] = 0

    def __post_init__(self) -> None:
        check.check_fields(self)

    @property
    def bound(self) -> float:
        """M. Its round-off is far below what ``log_bound`` was rounded up by."""
        return math.exp(self.log_bound)

    @property
    def shards(self) -> int:
        """Return how many shards the draws fill, the last one perhaps in part."""
        return -(-self.samples // SHARD)


def open_block_stream(
    seed: int, direction: AdjacencyType, candidate: int, shard: int, index: int
) -> np.random.Generator:
    """Open the stream of one block.

    Source:
        Philox 4x64, 10 rounds: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".

    >>> int(open_block_stream(1, AdjacencyType.ADD, 0, 2, 3).integers(9)) == int(open_block_stream(1,
    ... AdjacencyType.ADD, 0, 2, 3).integers(9))
    True
    """
    return _philox(seed, (DIRECTIONS.index(direction), candidate, shard), index)


def open_pilot_stream(seed: int, direction: AdjacencyType) -> np.random.Generator:
    """Open the stream of a direction's pilot, which no evidence uses."""
    return _philox(seed, (len(DIRECTIONS) + DIRECTIONS.index(direction),), 0)


@limit_to_one_thread()
def estimate_pilot_delta(
    release: Release, payoff: Payoff, direction: AdjacencyType, seed: int, *, draws: int = 4096
) -> float:
    """Estimate delta from a separate stream, which no evidence uses."""
    pair = build_simulated_pair(release)
    tilt = tilts.choose_tilt(pair, payoff, direction)
    rng, log_m = open_pilot_stream(seed, direction), tilts.bound_log_value(pair, tilt, payoff)
    values = [
        np.exp(tilts.draw_log_values(pair, tilt, payoff, rng, BLOCK, log_m=log_m)) for _ in range(-(-draws // BLOCK))
    ]
    return float(np.concatenate(values).mean())


@limit_to_one_thread()
def draw_losses(release: Release, *, samples: int, seed: int, direction: AdjacencyType = AdjacencyType.REMOVE) -> Array:
    """Draw privacy losses of a release: to look at, or for estimates of your own; no evidence uses these draws.

    Args:
        release: what is simulated.
        samples: how many; a shorter run is a prefix of a longer one.
        seed: of the stream, up to 128 bits; ``entropy()`` makes a fresh one.
        direction: "remove" draws ln(P / Q) under P, the run with the unit; "add" draws ln(Q / P) under Q, without it.

    Returns:
        The losses, in nats; shape (samples,). ``delta_from_samples`` estimates delta from them; of both directions, the
        larger is the release's.

    Raises:
        UnsupportedMechanismError: there is no proven pair of this release that can be drawn.

    >>> from epsilog.mechanisms import BallsInBins, Gaussian
    >>> draw_losses(BallsInBins(Gaussian(1.0), bins=16), samples=3, seed=1).shape
    (3,)
    """
    samples, seed = check.integer(1)(samples=samples), check.integer(0, 2**128 - 1)(seed=seed)
    place = DIRECTIONS.index(check.one_of(DIRECTIONS)(direction=direction))
    pair, blocks = build_simulated_pair(check.instance_of(Release)(release=release)), []
    for index in range(-(-samples // BLOCK)):
        rng = _philox(seed, (2 * len(DIRECTIONS) + place,), index)
        blocks.append(pair.draw(rng, BLOCK, DIRECTIONS[place], floor=-math.inf, shift=0.0)[0])
    return np.concatenate(blocks)[:samples]


def _philox(seed: int, parts: tuple[int, ...], index: int) -> np.random.Generator:
    key = np.random.SeedSequence(seed, spawn_key=parts).generate_state(2, np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, 0, 0, index], dtype=np.uint64)))


def is_proven(trial: BernoulliTrial) -> bool:
    """Return whether M is at least the proven bound on the values of the trial, within half of its allowance."""
    proven = tilts.bound_log_value(build_simulated_pair(trial.release), trial.tilt, trial.payoff)
    return trial.log_bound >= proven - tilts.ROUND_OFF / 2


@limit_to_one_thread()
def count_hits(trial: BernoulliTrial, seed: int, shard: int) -> int:
    """Count the hits of one shard of a trial.

    Raises:
        ValueError: the trial has no such shard, or its M is not proven.
        ArithmeticError: the simulation left its proven bounds.
    """
    shard = check.integer(0, trial.shards - 1)(shard=shard)
    if not is_proven(trial):
        raise CheckError("log_bound", "at least what is proven for this pair and tilt", repr(trial.log_bound))
    pair = build_simulated_pair(trial.release)
    left = min(SHARD, trial.samples - shard * SHARD)
    total = 0
    for index in range(-(-left // BLOCK)):
        rng = open_block_stream(seed, trial.tilt.direction, trial.candidate, shard, index)
        hits = tilts.draw_hits(pair, trial.tilt, trial.payoff, rng, BLOCK, log_m=trial.log_bound)
        total += int(np.count_nonzero(hits[: left - index * BLOCK]))
    return total
