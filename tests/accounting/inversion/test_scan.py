"""From which frequency on the modulus is small: held by a law whose modulus is known, and by what is no number."""

import math

import numpy as np
import pytest

from epsilog.accounting.inversion import tilted
from epsilog.accounting.inversion.sampled import Characteristic, InversionInfeasibleError
from epsilog.accounting.inversion.tilted import find_decay_frequency


class Waves:
    """A mixture of two normal laws: its modulus falls, comes back ``apart`` radians of frequency later, and falls."""

    infinite, spread = 0.0, math.hypot(1.0, 10.0)

    def __init__(self, known=1.0):
        self.known = known  # what the characteristic function is multiplied by

    def phi(self, w):
        return np.exp(-np.square(w) / 2) * np.cos(10.0 * w)

    def characteristic(self, frequencies, nats):  # noqa: ARG002
        return Characteristic(self.known * (self.phi(frequencies) - 1).astype(complex), np.zeros(len(frequencies)))

    def decay(self, frequency):
        return np.minimum(np.exp(-np.square(frequency) / 2) * 3.0, 1.0)


@pytest.mark.parametrize("count", [1, 30])
@pytest.mark.parametrize("nats", [1.0, 5.0, 20.0])
def test_nothing_above_it_is_larger_and_it_is_near_the_last_that_is(nats, count):
    laws = [(Waves(), count)]
    found = find_decay_frequency(laws, nats, first=0.01, most=1e3)
    above = np.linspace(found, found + 20, 200_001)
    with np.errstate(divide="ignore"):
        lost = -count * np.log(np.abs(Waves().phi(above)))
        every = np.linspace(0.01, 20, 200_001)
        last = every[-count * np.log(np.abs(Waves().phi(every))) < nats].max(initial=0.01)
    assert lost.min() >= nats
    assert found <= 1.5 * last  # it is of use


def test_what_is_no_number_proves_nothing():
    laws = [(Waves(math.nan), 1)]
    far = tilted._decayed_from(laws, 0.01, 5.0)
    assert find_decay_frequency(laws, 5.0, first=0.01, most=1e3) == far
    with pytest.raises(InversionInfeasibleError, match="too slowly"):
        find_decay_frequency(laws, 5.0, first=0.01, most=far / 2)


def test_a_law_that_never_falls_is_out_of_reach(monkeypatch):
    monkeypatch.setattr(Waves, "decay", lambda _, frequency: np.ones(len(frequency)))
    with pytest.raises(InversionInfeasibleError, match="not known to fall"):
        find_decay_frequency([(Waves(), 1)], 5.0, first=0.01, most=1e3)
