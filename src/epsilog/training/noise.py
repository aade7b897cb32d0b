"""All randomness of a training run, in one place.

A real run draws from AES-128 in counter mode, under a key that the operating system draws anew for every purpose of
every round; nothing can replay it. A simulation draws from counter-based Philox streams keyed by (seed, purpose, round,
client), so that a run that was killed and resumed meets the same draws. Both feed the same code that turns 64-bit words
into coins and normals, so tests see the code that protects people.
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

AT_ONCE = 1 << 22  # words that are held while coins are tossed


@dataclass(frozen=True, slots=True)
class RandomStream:
    """Independent draws, one after another.

    Attributes:
        generator: of 64-bit words, each uniform.
        noise_factor: multiplies every normal; 1 except in a control that must be caught.
    """

    generator: np.random.Generator
    noise_factor: float = 1.0

    @classmethod
    def from_key(cls, key: int, noise_factor: float = 1.0) -> RandomStream:
        """Open simulated draws by their ``key``, from the beginning, wherever that is."""
        return cls(np.random.Generator(np.random.Philox(key=key)), noise_factor)

    @property
    def key(self) -> int | None:
        """What opens the same draws again; None of draws that protect people, which nothing opens again."""
        drawing = self.generator.bit_generator
        if not isinstance(drawing, np.random.Philox):
            return None
        low, high = drawing.state["state"]["key"].tolist()
        return int(low) | int(high) << 64

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw 64-bit words; shape (count,)."""
        return np.asarray(self.generator.bit_generator.random_raw(count), dtype=np.uint64)

    def uniforms(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Draw uniforms from the middles of 2^53 equal cells of (0, 1); shape ``shape``."""
        count = math.prod(shape)
        return (((self.words(count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53).reshape(shape)

    def coins(self, shape: tuple[int, ...], probability: float) -> NDArray[np.bool_]:
        """Toss coins that show True with ``probability``, rounded down to a multiple of 2^-53; shape ``shape``."""
        true = np.uint64(int(probability * 2.0**53))  # exact: a shift of the exponent, and then down
        tossed = np.empty(math.prod(shape), dtype=np.bool_)
        for first in range(0, tossed.size, AT_ONCE):
            part = tossed[first : first + AT_ONCE]
            np.less(self.words(part.size) >> np.uint64(11), true, out=part)
        return tossed.reshape(shape)

    def normals(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Draw standard normals by the ziggurat of Marsaglia & Tsang 2000, as NumPy has it; shape ``shape``.

        A draw has 52 random bits and a sign, and may lie anywhere up to 13.7. Floating-point noise is a theoretical
        hazard (Mironov 2012) that the docs name.
        """
        drawn = np.empty(shape)
        self.fill(drawn)
        return drawn

    def fill(self, out: NDArray[np.float64]) -> None:
        """Draw the same normals as ``normals``, into an array that lies in one piece."""
        self.generator.standard_normal(out=out)
        if self.noise_factor != 1:
            out *= self.noise_factor


@dataclass(frozen=True, slots=True)
class Randomness:
    """Where a run's draws come from; made by ``from_os``, ``from_seed`` or ``with_weaker_noise``.

    Attributes:
        seed: of a simulation; None for the operating system's entropy.
        noise_factor: multiplies every normal; 1 except in a control that must be caught.

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
        """Fresh entropy for every draw: what a real run uses."""
        return cls(None)

    @classmethod
    def from_seed(cls, seed: int) -> Randomness:
        """Replayable draws: protects nobody, and marks the run as a simulation."""
        return cls(seed)

    @classmethod
    def with_weaker_noise(cls, seed: int, *, noise_factor: float) -> Randomness:
        """A simulation whose noise source lies about its size: the control that a verifier has to reject."""
        return cls(seed, noise_factor)

    @property
    def is_simulated(self) -> bool:
        """True if a seed replays the draws."""
        return self.seed is not None

    def stream(self, purpose: str, round: int, client: int | None = None) -> RandomStream:  # noqa: A002 (the field's word)
        """Open the draws for one purpose in one round, the server's or one client's.

        Opened twice, a simulated stream repeats itself; no two streams share a draw.
        """
        if self.seed is None:
            return _secure(os.getpid(), purpose, round)
        whose = "" if client is None else f"/{client}"
        named = hashlib.sha256(f"epsilog/training/{self.seed}/{purpose}/{round}{whose}".encode()).digest()
        return RandomStream.from_key(int.from_bytes(named[:16], "little"), self.noise_factor)


@lru_cache(maxsize=8)
def _secure(process: int, purpose: str, round: int) -> RandomStream:  # noqa: ARG001, A002
    """AES-128 in counter mode (FIPS 197) under a fresh key; opened again by the same process, it goes on."""
    from randomgen import AESCounter

    return RandomStream(np.random.Generator(AESCounter(key=int.from_bytes(os.urandom(16), "little"))))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_secure.cache_clear)  # a number may come again where processes are numbered anew
