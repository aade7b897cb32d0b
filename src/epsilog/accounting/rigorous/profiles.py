"""One release, as the profile of its dominating pair: H(e) = E_P[(1 - e^(e - L))^+] at every real e, in balls.

A pair is used only through its profile. The pairs are those of docs/accounting/certified-bounds.md, section 1, taken
from the release itself and not from the accountant's rounded pairs; docs/accounting/rigorous.md derives each profile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from epsilog.accounting.rigorous.balls import arb, ctx, hull, make_ball, normal_tail, square_ball

Number = int | float | Fraction


class BallProfile(ABC):
    """The profile of one pair: by default of losses of any size, in no steps."""

    @abstractmethod
    def delta(self, epsilon: arb) -> arb:
        """H at ``epsilon``, any real number."""

    def max_loss(self) -> arb:
        """The largest finite loss; infinite if there is no largest."""
        return arb.pos_inf()

    def infinite(self) -> arb:
        """The mass under P of what gives everything away; none where the unit may not have been sampled."""
        return arb(0)

    def steps(self) -> tuple[arb, arb] | None:
        """The least loss and the step of a lattice that holds all losses, where there is one."""
        return None


@dataclass(frozen=True)
class GaussianProfile(BallProfile):
    """Gaussians that stand together for one: ``distances`` are (far, noise, count), each of mu = far / noise."""

    distances: tuple[tuple[Number, Number, int], ...]

    def mu_squared(self) -> arb:
        """The square of the distance that they amount to."""
        total = arb(0)
        for far, noise, count in self.distances:
            total += count * square_ball(make_ball(far) / make_ball(noise))
        return total

    def mu(self) -> arb:
        """That distance."""
        return self.mu_squared().sqrt()

    def delta(self, epsilon: arb) -> arb:
        """H(e) = Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu): Balle & Wang 2018, Theorem 8."""
        mu = self.mu()
        return normal_tail(epsilon / mu - mu / 2) - epsilon.exp() * normal_tail(epsilon / mu + mu / 2)


@dataclass(frozen=True)
class NonPrivateProfile(BallProfile):
    """Two distributions that have no outcome in common."""

    def delta(self, epsilon: arb) -> arb:  # noqa: ARG002
        """H(e) = 1."""
        return arb(1)

    def max_loss(self) -> arb:
        """Any finite one: there is no finite loss."""
        return arb(0)

    def infinite(self) -> arb:
        """All of it."""
        return arb(1)

    def steps(self) -> tuple[arb, arb] | None:
        """No loss is finite, so that any lattice holds them all."""
        return arb(0), arb(1)


@dataclass(frozen=True)
class LaplaceProfile(BallProfile):
    """One Laplace distribution shifted by ``far``, its scale being ``noise``."""

    far: Number
    noise: Number

    def delta(self, epsilon: arb) -> arb:
        """H(e) = max(0, 1 - e^e, 1 - e^((e - a) / 2)), a the largest loss."""
        falls = 1 - ((epsilon - self.max_loss()) / 2).exp()
        return falls.max(1 - epsilon.exp()).max(arb(0))

    def max_loss(self) -> arb:
        """The whole distance."""
        return make_ball(self.far) / make_ball(self.noise)


@dataclass(frozen=True)
class BoundedRangeProfile(BallProfile):
    """An exponential mechanism with losses of the range ``spread``."""

    spread: Fraction

    def delta(self, epsilon: arb) -> arb:
        """H(e) = (e^(s/2) - e^(e/2))^2 / (e^s - 1) between -s and s: Dong, Durfee & Rogers 2020."""
        s = make_ball(self.spread)
        clipped = epsilon.min(s).max(-s)
        inside = square_ball((s / 2).exp() - (clipped / 2).exp()) / s.expm1()
        return inside.max(1 - epsilon.exp())

    def max_loss(self) -> arb:
        """The range."""
        return make_ball(self.spread)


class _Finite(BallProfile):
    """What follows from finitely many outcomes with losses ``first + j step``."""

    @abstractmethod
    def outcomes(self) -> list[tuple[arb, arb]]:
        """Losses, ascending, and masses under P."""

    def delta(self, epsilon: arb) -> arb:
        """H(e), the sum over outcomes of p (1 - e^(e - L))^+."""
        total = self.infinite()
        for loss, mass in _outcomes(self, ctx.prec):
            total += mass * (1 - (epsilon - loss).exp()).max(arb(0))
        return total

    def max_loss(self) -> arb:
        """The last of them."""
        return _outcomes(self, ctx.prec)[-1][0]


@lru_cache(maxsize=64)
def _outcomes(profile: _Finite, bits: int) -> list[tuple[arb, arb]]:  # noqa: ARG001 - fewer bits give a worse result
    """Return the outcomes, computed once for each number of bits."""
    return profile.outcomes()


@dataclass(frozen=True)
class ApproximateDPProfile(_Finite):
    """What satisfies (epsilon, delta): binary randomized response, and a chance delta of giving everything away."""

    epsilon: Fraction
    certain: Fraction = Fraction(0)

    def outcomes(self) -> list[tuple[arb, arb]]:
        """Kairouz, Oh & Viswanath 2015, Theorem 3.1."""
        loss, left = make_ball(self.epsilon), 1 - make_ball(self.certain)
        return [(-loss, left / (1 + loss.exp())), (loss, left / (1 + (-loss).exp()))]

    def infinite(self) -> arb:
        """What is stated."""
        return make_ball(self.certain)

    def steps(self) -> tuple[arb, arb] | None:
        """Two losses, or one."""
        return -make_ball(self.epsilon), 2 * make_ball(self.epsilon) if self.epsilon else arb(1)


@dataclass(frozen=True)
class RandomizedResponseProfile(_Finite):
    """Randomized response: with chance ``flip`` any of the categories, else the truth."""

    flip: Fraction
    categories: int

    def outcomes(self) -> list[tuple[arb, arb]]:
        """Its two rows; every chance is a fraction."""
        rare = self.flip / self.categories
        common = 1 - self.flip + rare
        loss = make_ball(common / rare).log()
        return [(-loss, make_ball(rare)), (arb(0), make_ball(1 - common - rare)), (loss, make_ball(common))]

    def steps(self) -> tuple[arb, arb] | None:
        """Three losses."""
        loss = self.max_loss()
        return -loss, loss


@dataclass(frozen=True)
class DiscreteLaplaceProfile(_Finite):
    """One discrete Laplace distribution shifted by ``shift``; probabilities fall by e^(-1/scale) a step."""

    scale: Fraction
    shift: int

    def outcomes(self) -> list[tuple[arb, arb]]:
        """Losses (2 k - shift) / scale; up to the further center, and from the nearer one on, they are constant."""
        scale, shift = make_ball(self.scale), self.shift
        ratio = (-1 / scale).exp()
        top = 1 / (1 + ratio)
        center = (1 - ratio) / (1 + ratio)
        masses = [top * (-shift / scale).exp(), *(center * (-(shift - k) / scale).exp() for k in range(1, shift)), top]
        return [((2 * k - shift) / scale, mass) for k, mass in enumerate(masses)]

    def steps(self) -> tuple[arb, arb] | None:
        """One step of two over the scale after the other."""
        return -self.shift / make_ball(self.scale), 2 / make_ball(self.scale)


def _at_number(base: BallProfile, x: arb) -> arb:
    """H of ``base`` as a function of x = e^e, for x of either sign: 1 - x where x is at most 0."""
    if bool(x > 0):
        return base.delta(x.log())
    if bool(x <= 0):
        return 1 - x
    return hull(1 - x, arb(1))  # H is between 1 - x and 1 for x > 0


@dataclass(frozen=True)
class PoissonRemoveProfile(BallProfile):
    """((1 - q) Q + q P, Q): the unit is there, with chance q, or is not."""

    base: BallProfile
    share: Fraction

    def delta(self, epsilon: arb) -> arb:
        """Q takes x - (1 - q) times its part: H(x) = q H_base((x - (1 - q)) / q)."""
        q = make_ball(self.share)
        return q * _at_number(self.base, (epsilon.exp() - make_ball(1 - self.share)) / q)

    def max_loss(self) -> arb:
        """Of the largest ratio u: ln(1 + q (e^u - 1))."""
        return (make_ball(self.share) * self.base.max_loss().expm1()).log1p()

    def infinite(self) -> arb:
        """Where the unit is in the sample."""
        return make_ball(self.share) * self.base.infinite()

    def steps(self) -> tuple[arb, arb] | None:
        """Any two losses lie on a lattice."""
        return _two(self.base, lambda u: (make_ball(self.share) * u.expm1()).log1p())


@dataclass(frozen=True)
class PoissonAddProfile(BallProfile):
    """(P, (1 - q) P + q Q): the same the other way round."""

    base: BallProfile
    share: Fraction

    def delta(self, epsilon: arb) -> arb:
        """P takes c = 1 - x (1 - q) times its part: H(x) = c H_base(x q / c), and 0 where c is at most 0."""
        x = epsilon.exp()
        c = 1 - x * make_ball(1 - self.share)
        if bool(c > 0):
            return c * _at_number(self.base, x * make_ball(self.share) / c)
        return arb(0) if bool(c <= 0) else hull(arb(0), c.max(arb(0)))

    def max_loss(self) -> arb:
        """Of the largest ratio u: -ln(1 + q (e^-u - 1)); what P alone has loses -ln(1 - q)."""
        if not bool(self.base.infinite() == 0) or not self.base.max_loss().is_finite():
            return -make_ball(1 - self.share).log()
        return -(make_ball(self.share) * (-self.base.max_loss()).expm1()).log1p()

    def steps(self) -> tuple[arb, arb] | None:
        """Any two losses lie on a lattice."""
        return _two(self.base, lambda u: -(make_ball(self.share) * (-u).expm1()).log1p())


def _two(base: BallProfile, bent: Callable[[arb], arb]) -> tuple[arb, arb] | None:
    """The lattice of two losses that sampling has bent."""
    if not isinstance(base, ApproximateDPProfile) or base.certain:
        return None
    low, high = bent(-base.max_loss()), bent(base.max_loss())
    return low, high - low


@dataclass(frozen=True)
class FixedSizeReplaceProfile(BallProfile):
    """A sample of fixed size under replace-one: the profile of removal above 0, and its mirror image below."""

    base: BallProfile
    share: Fraction

    def delta(self, epsilon: arb) -> arb:
        """Balle, Barthe & Gaboardi 2018, Theorem 9; below 0 by H(x; P, Q) = 1 - x + x H(1/x; Q, P)."""
        removed = PoissonRemoveProfile(self.base, self.share)
        above = removed.delta(epsilon)
        if bool(epsilon >= 0):
            return above
        x = epsilon.exp()
        below = 1 - x + x * removed.delta(-epsilon)
        return below if bool(epsilon <= 0) else hull(above, below)

    def max_loss(self) -> arb:
        """That of removal."""
        return PoissonRemoveProfile(self.base, self.share).max_loss()

    def infinite(self) -> arb:
        """That of removal."""
        return PoissonRemoveProfile(self.base, self.share).infinite()


@dataclass(frozen=True)
class PoissonReplaceProfile(BallProfile):
    """Poisson-sampled Gaussians under replace-one: contributions mu either way (docs: accounting/replace-one)."""

    base: GaussianProfile
    share: Fraction

    def delta(self, epsilon: arb) -> arb:
        """The best test is a half-line from t on, where the ratio is x: a quadratic in e^(mu t) has one such root."""
        mu, q, x = self.base.mu(), make_ball(self.share), epsilon.exp()
        away, a = make_ball(1 - self.share), (-self.base.mu_squared() / 2).exp()
        b = away * (x - 1)
        t = ((b + (b * b + 4 * square_ball(q * a) * x).sqrt()) / (2 * q * a)).log() / mu
        p = away * normal_tail(t) + q * normal_tail(t - mu)
        return p - x * (away * normal_tail(t) + q * normal_tail(t + mu))
