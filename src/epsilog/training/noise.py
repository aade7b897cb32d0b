"""All randomness of a training run, in one place.

A real run draws from AES-128 in counter mode, with a new key from the operating system for each purpose of each round;
nothing can replay it. A simulation draws from counter-based Philox streams keyed by (seed, purpose, round, client), so
that a resumed run has equal draws. In both, the same code turns 64-bit words into coins and normals, so tests run the
code that protects people.
"""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import CheckError, check

AT_ONCE = 1 << 22  # words in memory while coins are drawn


@dataclass(frozen=True, slots=True)
class RandomStream:
    """A sequence of independent draws.

    Attributes:
        generator: a source of uniform 64-bit words.
        noise_factor: multiplies each normal; 1 except in a control that a verifier must reject.
    """

    generator: np.random.Generator
    noise_factor: float = 1.0

    @classmethod
    def from_key(cls, key: int, noise_factor: float = 1.0) -> RandomStream:
        """Return the simulated stream of a ``key``, at its beginning; equal keys give equal draws anywhere."""
        return cls(np.random.Generator(np.random.Philox(key=key)), noise_factor)

    @property
    def key(self) -> int | None:
        """The key that gives the same draws again; None for draws that protect people, which have no such key."""
        drawing = self.generator.bit_generator
        if not isinstance(drawing, np.random.Philox):
            return None
        low, high = drawing.state["state"]["key"].tolist()
        return int(low) | int(high) << 64

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw 64-bit words; shape (count,)."""
        return np.asarray(self.generator.bit_generator.random_raw(count), dtype=np.uint64)

    def uniforms(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Draw uniform numbers, the midpoints of 2^53 equal cells of (0, 1); shape ``shape``."""
        count = math.prod(shape)
        return (((self.words(count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53).reshape(shape)

    def coins(self, shape: tuple[int, ...], probability: float) -> NDArray[np.bool_]:
        """Draw coins that are True with ``probability``, rounded down to a multiple of 2^-53; shape ``shape``."""
        true = np.uint64(int(probability * 2.0**53))  # the product is exact; int rounds down
        tossed = np.empty(math.prod(shape), dtype=np.bool_)
        for first in range(0, tossed.size, AT_ONCE):
            part = tossed[first : first + AT_ONCE]
            np.less(self.words(part.size) >> np.uint64(11), true, out=part)
        return tossed.reshape(shape)

    def normals(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Draw standard normals by NumPy's ziggurat method (Marsaglia & Tsang 2000); shape ``shape``.

        A draw has 52 random bits and a sign, and is at most 13.7 in size. The docs name the theoretical risk of
        floating-point noise (Mironov 2012).
        """
        drawn = np.empty(shape)
        self.fill(drawn)
        return drawn

    def fill(self, out: NDArray[np.float64]) -> None:
        """Draw the same normals as ``normals`` into a contiguous array."""
        self.generator.standard_normal(out=out)
        if self.noise_factor != 1:
            out *= self.noise_factor


@dataclass(frozen=True, slots=True)
class Randomness:
    """The source of all draws of a run; see ``from_os``, ``from_seed`` and ``with_weaker_noise``.

    Attributes:
        seed: the seed of a simulation; None for entropy of the operating system.
        noise_factor: multiplies each normal; 1 except in a control that a verifier must reject.

    >>> one, two = Randomness.from_seed(7).stream("noise", 1), Randomness.from_seed(7).stream("noise", 1)
    >>> bool((one.normals((3,)) == two.normals((3,))).all())
    True
    """

    seed: Annotated[int | None, check.optional(check.integer(0))]
    noise_factor: Annotated[float, check.at_least(0)] = 1.0

    def __post_init__(self) -> None:
        check.check_fields(self)
        if self.seed is None and self.noise_factor != 1:
            raise CheckError("noise_factor", "1 outside a simulation", repr(self.noise_factor))

    @classmethod
    def from_os(cls) -> Randomness:
        """Return the source for real runs: new entropy for each draw."""
        return cls(None)

    @classmethod
    def from_seed(cls, seed: int) -> Randomness:
        """Return replayable draws, which protect no one and mark the run as a simulation."""
        return cls(seed)

    @classmethod
    def with_weaker_noise(cls, seed: int, *, noise_factor: float) -> Randomness:
        """Return a simulation with less noise than it states: the control that a verifier must reject."""
        return cls(seed, noise_factor)

    @property
    def is_simulated(self) -> bool:
        """Return whether a seed replays the draws."""
        return self.seed is not None

    def stream(self, purpose: str, round: int, client: int | None = None) -> RandomStream:  # noqa: A002 (the field's word)
        """Return the draws for one purpose in one round, of the server or of one client.

        A second call returns the beginning of a simulated stream again. No two streams share a draw.
        """
        if self.seed is None:
            return _secure(os.getpid(), purpose, round)
        owner = "" if client is None else f"/{client}"
        named = hashlib.sha256(f"epsilog/training/{self.seed}/{purpose}/{round}{owner}".encode()).digest()
        return RandomStream.from_key(int.from_bytes(named[:16], "little"), self.noise_factor)


@lru_cache(maxsize=8)
def _secure(process: int, purpose: str, round: int) -> RandomStream:  # noqa: ARG001, A002
    """Return AES-128 in counter mode (FIPS 197) with a new key; a second call in this process continues it."""
    from randomgen import AESCounter

    return RandomStream(np.random.Generator(AESCounter(key=int.from_bytes(os.urandom(16), "little"))))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_secure.cache_clear)  # process ids can repeat
