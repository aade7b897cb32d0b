"""All randomness of a training run, in one place.

A real run draws from the operating system; nothing can replay it. A simulation draws from counter-based Philox streams
keyed by (seed, purpose, round, client), so that a run that was killed and resumed meets the same draws. Both feed the
same few lines that turn 64-bit words into uniforms and normals: what the tests see is what protects people.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import CheckError, check

Words = Callable[[int], NDArray[np.uint64]]
BLOCK = 32_768  # normals drawn at a time, so that the work stays in cache


@dataclass(frozen=True, slots=True)
class Stream:
    """Independent draws, one after another.

    Attributes:
        words: returns n fresh 64-bit words, each uniform.
        noise_factor: multiplies every normal; 1 except in a control that must be caught.
    """

    words: Words
    noise_factor: float = 1.0

    def uniforms(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Draws uniforms from the middles of 2^53 equal cells of (0, 1); shape ``shape``."""
        count = math.prod(shape)
        return (((self.words(count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53).reshape(shape)

    def coins(self, shape: tuple[int, ...], probability: float) -> NDArray[np.bool_]:
        """Tosses coins that show True with ``probability``, rounded down to a multiple of 2^-53; shape ``shape``."""
        count = math.prod(shape)
        true = np.uint64(int(probability * 2.0**53))  # exact: a shift of the exponent, and then down
        return ((self.words(count) >> np.uint64(11)) < true).reshape(shape)

    def normals(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Draws standard normals by Box & Muller 1958; shape ``shape``.

        The grid of the uniforms ends the tails at 8.65, where a true normal has mass 5e-18 a draw; floating-point noise
        is a theoretical hazard (Mironov 2012) that the docs name.
        """
        drawn = np.empty(math.prod(shape))
        for first in range(0, drawn.size, BLOCK):
            drawn[first : first + BLOCK] = self._pairs(min(BLOCK, drawn.size - first))
        return self.noise_factor * drawn.reshape(shape)

    def _pairs(self, count: int) -> NDArray[np.float64]:
        u = self.uniforms((2, (count + 1) // 2))
        radius, angle = np.sqrt(-2.0 * np.log(u[0])), 2.0 * np.pi * u[1]
        return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


@dataclass(frozen=True, slots=True)
class Randomness:
    """Where a run's draws come from; made by ``from_os``, ``simulated`` or ``weakened``.

    Attributes:
        seed: of a simulation; None for the operating system's entropy.
        noise_factor: multiplies every normal; 1 except in a control that must be caught.

    >>> one, two = Randomness.simulated(7).stream("noise", 1), Randomness.simulated(7).stream("noise", 1)
    >>> bool((one.normals((3,)) == two.normals((3,))).all())
    True
    """

    seed: int | None
    noise_factor: float = 1.0

    def __post_init__(self) -> None:
        check.fields(self, seed=check.optional(check.integer(0)), noise_factor=check.at_least(0))
        if self.seed is None and self.noise_factor != 1:
            raise CheckError("noise_factor", "1 outside a simulation", repr(self.noise_factor))

    @classmethod
    def from_os(cls) -> Randomness:
        """Fresh entropy for every draw: what a real run uses."""
        return cls(None)

    @classmethod
    def simulated(cls, seed: int) -> Randomness:
        """Replayable draws: protects nobody, and marks the run as a simulation."""
        return cls(seed)

    @classmethod
    def weakened(cls, seed: int, *, noise_factor: float) -> Randomness:
        """A simulation whose noise source lies about its size: the control that a verifier has to reject."""
        return cls(seed, noise_factor)

    @property
    def is_simulated(self) -> bool:
        """True if a seed replays the draws."""
        return self.seed is not None

    def stream(self, purpose: str, round: int, client: int | None = None) -> Stream:  # noqa: A002 (the field's word)
        """Opens the draws for one purpose in one round, the server's or one client's.

        Opened twice, a simulated stream repeats itself; no two streams share a draw.
        """
        if self.seed is None:
            return Stream(_os_words, self.noise_factor)
        whose = "" if client is None else f"/{client}"
        return Stream(_philox_words(f"epsilog/train/{self.seed}/{purpose}/{round}{whose}"), self.noise_factor)


def _os_words(count: int) -> NDArray[np.uint64]:
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def _philox_words(name: str) -> Words:
    digest = hashlib.sha256(name.encode()).digest()
    generator = np.random.Philox(key=int.from_bytes(digest[:16], "little"))

    def words(count: int) -> NDArray[np.uint64]:
        return np.asarray(generator.random_raw(count), dtype=np.uint64)

    return words
