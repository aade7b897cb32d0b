"""Tilted loss laws as a Laplace inversion sees them: moments, characteristic functions and how they fall."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from epsilog.numerics.laws.base import Array
from epsilog.numerics.rounding import MU, gamma

Complex = npt.NDArray[np.complex128]

MU_APART = gamma(3.0 * MU)  # how far, relatively, the mus of the two sides may be apart

_MOST_TERMS = 1_500_000  # of one sum


class OutOfReachError(Exception):
    """The inversion would be too long, or its error has no useful bound: the lattice has to answer."""


class Moments(NamedTuple):
    """K(theta) = ln E e^(theta L) with a bound on its error, and the tilted loss' mean and variance (plans only)."""

    log_total: float
    log_total_error: float
    mean: float
    variance: float


class Characteristic(NamedTuple):
    """Tilted characteristic functions less one, E e^(i w (L - mean)) - 1, shape (k,), and how far each may be off.

    Less one, since many rounds leave each of them close to 1: its distance from 1 is what the power is made of.
    """

    less_one: Complex
    error: Array
    terms: int = 1  # of the sums that made it


class TiltedLaw(Protocol):
    """One loss law at one tilt.

    Attributes:
        moments: K and the tilted moments.
        spread: bounds the tilted standard deviation of the loss from above.
        infinite: the mass that gives everything away.
    """

    @property
    def moments(self) -> Moments: ...  # noqa: D102

    @property
    def spread(self) -> float: ...  # noqa: D102

    @property
    def infinite(self) -> float: ...  # noqa: D102

    def characteristic(self, frequencies: Array, nats: float) -> Characteristic:
        """Returns characteristic functions about ``moments.mean``, to about e^-nats, with their proven error."""
        ...

    def decay(self, frequency: Array) -> Array:
        """Bounds the modulus of the characteristic function at all frequencies from each on, at most 1; shape (k,)."""
        ...


def mean_less_one(frequencies: Array, away: Array, weight: Array) -> Complex:
    """E e^(i w a) - 1 without cancellation, for each w; shape (k,)."""
    if len(frequencies) * len(away) > _MOST_TERMS:
        raise OutOfReachError(f"{len(frequencies)} frequencies of {len(away)} nodes")
    half = np.sin(np.outer(frequencies / 2, away))
    return np.asarray(-2 * (half * half) @ weight + 1j * (np.sin(np.outer(frequencies, away)) @ weight))
