"""Delta as a sum over frequencies with all errors bounded from above: tight, if the moments of all losses are known.

Docs: accounting/rigorous, section 4. The period's copies only add, so that nothing has to be known of them.
"""

from __future__ import annotations

import math

from epsilog.accounting.rigorous.balls import acb, arb, midpoint, probability_of_none
from epsilog.accounting.rigorous.connect_dots import NoProofError, bounded_power
from epsilog.accounting.rigorous.orders import Parts
from epsilog.accounting.rigorous.plan import TiltPlan, round_to_few_bits
from epsilog.accounting.rigorous.transforms import build_moment_line

_NATS = 34.0  # of accuracy, beyond what rounds ask for
_MOST_FREQUENCIES = 20_000
_MOST_LOOKS = 400
_WIDER = 1.000001  # so that no frequency falls between two looks by rounding


class BallInversion:
    """The composition of some profiles by their moments on one line; bounds delta at any epsilon."""

    def __init__(self, parts: Parts, plan: TiltPlan) -> None:
        rounds = sum(count for _, count in parts)
        nats = _NATS + math.log(rounds)
        self._theta = plan.theta
        self._lines = [(build_moment_line(profile, plan.theta, nats), count) for profile, count in parts]
        self._tail_nats = 36.0 - math.log(min(plan.kernel, 1.0))
        self._step = round_to_few_bits(2 * math.pi / plan.period)
        last = self._safe_from(1.05 * math.sqrt(2 * self._tail_nats) / plan.deviation)
        count = math.ceil(last / self._step) + 1
        if count > _MOST_FREQUENCIES:
            raise NoProofError(f"{count} frequencies")
        self.frequencies = count - 1
        self._log_total, left = arb(0), arb(1)
        for profile, times in parts:
            left *= probability_of_none(profile.infinite(), times)
        self._infinite = 1 - left
        product = [acb(1)] * count
        for one, times in self._lines:
            at_zero, values = one.at_zero(), one.along(self._step, count, nats)
            self._log_total += times * at_zero.log()
            product = [
                known * bounded_power(value / at_zero, times) for known, value in zip(product, values, strict=True)
            ]
        theta, step = arb(self._theta), arb(self._step)
        for k in range(count):
            z = acb(theta, k * step)
            product[k] = product[k] / (z * (z + 1))
        self._terms = product

    def _safe_from(self, start: float) -> float:
        """A frequency from which on the modulus is proven to be at most e^-nats."""
        nats, most = self._tail_nats, self._step * _MOST_FREQUENCIES
        if self._beyond(start) >= nats:
            return start
        far = start
        while self._beyond(far) < nats:
            far *= 1.3
            if far > 1e6 * start:
                raise NoProofError("the characteristic function is not known to fall")
        safe = here = start
        around = 0.2 * start
        for _ in range(_MOST_LOOKS):
            if here >= far:
                return safe
            if safe > most:
                break
            if self._around(here + around, _WIDER * around) >= nats:
                here, around = here + 2 * around, 1.5 * around
            elif around > 2e-3 * here:
                around /= 2
            else:
                safe = here = 1.05 * here
                around = 0.1 * here
        raise NoProofError("the characteristic function falls too slowly")

    def _around(self, frequency: float, around: float) -> float:
        return _floor(sum((count * one.falls(frequency, around) for one, count in self._lines), arb(0)))

    def _beyond(self, frequency: float) -> float:
        return _floor(sum((count * one.falls_beyond(frequency) for one, count in self._lines), arb(0)))

    def delta(self, epsilon: float) -> arb:
        """Bounds delta at ``epsilon``: the ball's upper end."""
        at, step = arb(epsilon), arb(self._step)
        total = self._terms[0].real / 2
        for k in range(1, len(self._terms)):
            total += (self._terms[k] * acb(0, -k * step * at).exp()).real
        beyond = (-arb(self._tail_nats)).exp() / (step * self.frequencies)
        value = (step * total + beyond) / arb.pi()
        return self._infinite + (self._log_total - arb(self._theta) * at).exp() * value


def _floor(nats: arb) -> float:
    """A double that is not above; NaN and what is not known count as nothing."""
    least = nats.lower()
    return math.nextafter(midpoint(least), -math.inf) if bool(least > 0) and bool(least < 1e300) else 0.0
