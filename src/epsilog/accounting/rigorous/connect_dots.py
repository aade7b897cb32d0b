"""Any profiles, composed on a lattice: the dots of each are connected, and one transform does the rest, all in balls.

Docs: accounting/rigorous, section 3. What is rounded up is the lattice's step, squared; what wraps around only adds.
"""

from __future__ import annotations

import math

from epsilog.accounting.rigorous.balls import acb, arb, ctx, error_ball, midpoint, probability_of_none
from epsilog.accounting.rigorous.orders import Parts
from epsilog.accounting.rigorous.plan import TiltPlan, find_negligible_loss, round_to_few_bits
from epsilog.accounting.rigorous.profiles import BallProfile

_MOST = 1 << 18  # points of one release's lattice
_DROPPED = 70.0  # nats below which a transform is known to be small, and no better
_QUARTERS = (acb(1), acb(0, 1), acb(-1), acb(0, -1))


class NoProofError(ArithmeticError):
    """A method has no bound here, or none in reasonable time."""


class PrecisionLossError(NoProofError):
    """Balls grew too large for a bound to come out: more bits may help."""


class BallComposition:
    """The composition of some profiles on a lattice of ``cells`` points, tilted; bounds delta at any epsilon."""

    def __init__(self, parts: Parts, plan: TiltPlan, delta: float, *, cells: int) -> None:
        self._theta = arb(plan.theta)
        rounds = sum(count for _, count in parts)
        own = parts[0][0].steps() if len(parts) == 1 else None
        if own is not None:
            profile, count = parts[0]
            first, step = own
            last = max(round(midpoint((profile.max_loss() - first) / step)), 0)
            cells = min(cells, 1 << max(2, math.ceil(math.log2(last * count + 2))))
            lattices = [(first, last)]
        else:
            step = arb(round_to_few_bits(plan.period / cells))
            lattices = []
            for profile, _ in parts:
                low, high = find_negligible_loss(profile, 1e-9 * delta / rounds)
                if (high - low) / midpoint(step) > _MOST:
                    step = arb(round_to_few_bits((high - low) / _MOST))
            for profile, _ in parts:
                low, high = find_negligible_loss(profile, 1e-9 * delta / rounds)
                start = math.floor(low / midpoint(step))
                lattices.append((start * step, math.ceil(high / midpoint(step)) - start))
        self.cells, self._step, self._offset = cells, step, arb(0)
        self._log_total, left = arb(0), arb(1)
        spectrum = [acb(1)] * (cells // 2 + 1)
        for (profile, count), (first, last) in zip(parts, lattices, strict=True):
            tilted, infinite = self._tilt_masses(profile, first, last)
            transform = acb.dft([acb(one) for one in tilted])
            at_zero = transform[0].real
            if not bool(at_zero > 0):
                raise PrecisionLossError("the tilted distribution of a release has no proven mass")
            self._log_total += count * at_zero.log()
            self._offset += count * first
            left *= probability_of_none(infinite, count)
            spectrum = [one * bounded_power(transform[k] / at_zero, count) for k, one in enumerate(spectrum)]
        self._infinite = 1 - left
        both = spectrum + [one.conjugate() for one in reversed(spectrum[1 : cells // 2])]
        self._tilted = [one.real for one in acb.dft(both, inverse=True)]

    def _tilt_masses(self, profile: BallProfile, first: arb, last: int) -> tuple[list[arb], arb]:
        """The tilted masses of the connected dots, folded onto the lattice, and what is beyond it."""
        x = [(first + i * self._step).exp() for i in range(last + 1)]
        above = [profile.delta(first + i * self._step) for i in range(last + 1)]
        folded, slope = [arb(0)] * self.cells, (above[0] - 1) / x[0]
        for i in range(last + 1):
            following = (above[i + 1] - above[i]) / (x[i + 1] - x[i]) if i < last else arb(0)
            mass = x[i] * (following - slope)
            folded[i % self.cells] += mass * (self._theta * (first + i * self._step)).exp()
            slope = following
        return folded, above[-1]

    def delta(self, epsilon: float) -> arb:
        """Bounds delta at ``epsilon``: the ball's upper end."""
        theta, step, at = self._theta, self._step, arb(epsilon)
        period = self.cells * step
        start = math.floor(midpoint((at - self._offset) / step)) - 1
        y = self._offset + start * step - at
        if not (bool(y < 0) and bool(y + period > 0) and bool(y + 4 * step > 0)):
            raise PrecisionLossError("the lattice is not known to lie where it was laid")
        scales = [1 / (1 - (-rate * period).exp()) for rate in (theta, theta + 1)]
        total = arb(0)
        for i in range(4):  # these may lie on either side of epsilon
            here = y + i * step
            kernel = scales[0] * (-theta * (here + period)).exp() - scales[1] * (-(theta + 1) * (here + period)).exp()
            own = ((-theta * here).exp() * (1 - (-here).exp())).max(arb(0))
            total += self._tilted[(start + i) % self.cells] * (kernel + own)
        slow, fast = (
            scale * (-rate * (y + 4 * step)).exp() for scale, rate in zip(scales, (theta, theta + 1), strict=True)
        )
        slower, faster = (-theta * step).exp(), (-(theta + 1) * step).exp()
        for i in range(4, self.cells):
            total += self._tilted[(start + i) % self.cells] * (slow - fast)
            slow, fast = slow * slower, fast * faster
        return self._infinite + (self._log_total - theta * at).exp() * total


def bounded_power(value: acb, count: int) -> acb:
    """A power of a number of modulus 1 at most; where it is next to nothing, a ball around 0."""
    most = value.abs_upper()
    if not bool(most < 1 + arb(2) ** -20):
        raise PrecisionLossError(f"{ctx.prec} bits lose a transform")
    small = (most.max(arb(2) ** -100000).log() * count).exp() if bool(most > 0) else arb(0)
    if bool(small > math.exp(-_DROPPED)):
        for quarters, turned in enumerate((value, acb(0, -1) * value, -value, acb(0, 1) * value)):
            if bool(turned.real > abs(turned.imag) / 2):  # away from where the logarithm jumps
                return (turned.log() * count).exp() * _QUARTERS[quarters * count % 4]
    return acb(error_ball(small), error_ball(small))
