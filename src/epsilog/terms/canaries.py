"""Canaries: made-up units that are in a run or out of it by fair coins, all of them from one secret."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from epsilog.terms import check
from epsilog.terms.errors import CheckError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEWEST, MOST = 2, 10**6
_SECRET = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Canaries:
    """Synthetic privacy units; each joins a run by an independent fair coin.

    Coins and directions derive from 256 secret bits with separate labels. A hash published before the run commits to
    all of them and reveals none.

    Attributes:
        count: how many there are; public.
        secret: 64 hex digits; the curator's alone until the run is over, and published then.

    >>> two = Canaries(2, "ab" * 32)
    >>> two.included.tolist(), two.commitment[:8]
    ([True, False], 'b2ccad7e')
    """

    count: Annotated[int, check.integer(FEWEST, MOST)]
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        check.check_fields(self)
        if not (isinstance(self.secret, str) and _SECRET.fullmatch(self.secret)):
            raise CheckError("secret", "64 hex digits", f"a {type(self.secret).__name__}")

    @property
    def commitment(self) -> str:
        """SHA-256 that a plan names before the run: 64 hex digits."""
        return self._hash("commitment").hex()

    @property
    def included(self) -> NDArray[np.bool_]:
        """Return which canaries are in the run; shape (count,)."""
        import numpy as np  # terms are read without NumPy

        drawn = hashlib.shake_256(self._words("coins")).digest(-(-self.count // 8))
        return np.unpackbits(np.frombuffer(drawn, dtype=np.uint8))[: self.count].astype(bool)

    def key(self, purpose: str, canary: int) -> int:
        """128 bits from which one canary draws what it is made of; its coin does not follow from them."""
        return int.from_bytes(self._hash(f"{purpose}/{canary}")[:16], "little")

    def _hash(self, purpose: str) -> bytes:
        return hashlib.sha256(self._words(purpose)).digest()

    def _words(self, purpose: str) -> bytes:
        return f"epsilog/canaries/{purpose}/{self.secret}".encode()
