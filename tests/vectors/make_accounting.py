"""Makes accounting.json: random releases with their exact delta at some epsilon, by methods epsilog does not use.

One release: 40-digit closed forms (mpmath). Discrete compositions: 40-digit sums over the multinomial law of losses.
Compositions of Poisson-sampled Gaussians: Laplace inversion on the saddle line, twice with unlike tilts and grids, kept
only where both agree to 1e-9; a handful are repeated with 30 digits. Gaussians: the normal distribution in mpmath.

Run: python tests/vectors/make_accounting.py
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath
import numpy as np

from epsilog.mechanisms import (
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Release,
    Repeated,
)
from epsilog.terms import codec

mpmath.mp.dps = 40
SEED = 20260701
ADD, REPLACE = "add-or-remove-one", "replace-one"


def normal_above(x):
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def gaussian_delta(mu, epsilon):
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return normal_above(epsilon / mu - mu / 2) - mpmath.e**epsilon * normal_above(epsilon / mu + mu / 2)


def sampled_once(base_surplus, share, epsilon):
    """Both directions of a Poisson-sampled release, from the base's surplus p(u > t) - e^a q(u > t) as a function."""
    share, epsilon = mpmath.mpf(share), mpmath.mpf(epsilon)
    removed = base_surplus(mpmath.log1p(mpmath.expm1(epsilon) / share)) * share
    inside = 1 + mpmath.expm1(-epsilon) / share
    added = mpmath.mpf(0)
    if inside > 0:
        u = -mpmath.log(inside)
        added = share * mpmath.e ** (epsilon - u) * base_surplus(u)
    return max(removed, added)


def laplace_surplus(reach):
    def surplus(a):
        return 1 - mpmath.e ** ((a - reach) / 2) if a < reach else mpmath.mpf(0)

    return surplus


def pure_steps(reach, step_mass, count, epsilon):
    """Delta of ``count`` releases with losses reach * {1, 0, -1} of P-masses ``step_mass``; an exact sum."""
    often, middle, rare = (mpmath.mpf(m) for m in step_mass)
    law = {0: mpmath.mpf(1)}
    for _ in range(count):
        following: dict[int, mpmath.mpf] = {}
        for k, mass in law.items():
            for shift, chance in ((1, often), (0, middle), (-1, rare)):
                if chance:
                    following[k + shift] = following.get(k + shift, mpmath.mpf(0)) + mass * chance
        law = following
    return sum(m * (1 - mpmath.e ** (epsilon - k * reach)) for k, m in law.items() if k * reach > epsilon)


def inverted(noise, share, count, epsilon, theta, fine):  # noqa: PLR0917
    """Delta of the removal direction by Laplace inversion on Re z = theta, in doubles."""
    x = np.linspace(-9.5 * noise, theta + 1 + 9.5 * noise, int(260 * fine * (1 + (theta + 1) / (19 * noise))))
    u = (2 * x - 1) / (2 * noise**2)
    loss = np.logaddexp(math.log1p(-share), math.log(share) + u)
    log_p = -0.5 * (x / noise) ** 2 - math.log(noise * math.sqrt(2 * math.pi)) + math.log(x[1] - x[0]) + loss
    exponent = log_p + theta * loss
    top = exponent.max()
    keep = exponent > top - 44
    weight, kept = np.exp(exponent[keep] - top), loss[keep]
    total = weight.sum()
    mean = (weight * kept).sum() / total
    spread = math.sqrt(count * (weight * (kept - mean) ** 2).sum() / total)
    log_moment = count * (top + math.log(total))
    step = 2 * math.pi / (max(45 / theta, 20 * spread) * fine)
    for nodes in (400, 1600, 6400):
        w = (np.arange(nodes) + 0.5) * step
        powers = count * np.log(np.exp(1j * np.outer(w, kept)) @ weight / total)
        if powers[-1].real < -45:
            z = theta + 1j * w
            value = (np.exp(powers - 1j * w * epsilon) / (z * (z + 1))).real.sum() * step / math.pi
            lead = log_moment - theta * epsilon
            return math.exp(lead) * value if lead < 600 else math.nan
    return math.nan


def spectral(noise, share, count, epsilon):
    """The value if two unlike contours agree to 1e-9, else NaN; removal is the larger direction for epsilon > 0."""
    best = min((log_bound(noise, share, count, epsilon, t), t) for t in np.geomspace(0.05, 200, 60))[1]
    first = inverted(noise, share, count, epsilon, best, 1.0)
    second = inverted(noise, share, count, epsilon, 1.15 * best, 1.4)
    return first if abs(first - second) <= 1e-9 * abs(second) else math.nan


def log_bound(noise, share, count, epsilon, theta):
    x = np.linspace(-9 * noise, theta + 1 + 9 * noise, 400)
    loss = np.logaddexp(math.log1p(-share), math.log(share) + (2 * x - 1) / (2 * noise**2))
    log_p = -0.5 * (x / noise) ** 2 - math.log(noise * math.sqrt(2 * math.pi)) + math.log(x[1] - x[0]) + loss
    return count * np.logaddexp.reduce(log_p + theta * loss) - theta * epsilon


def entry(release: Release, relation: str, epsilon: float, value, method: str) -> dict | None:
    value = float(value)
    if not 1e-250 < value < 0.999999:
        return None
    return {"term": codec.encode(release), "relation": relation, "epsilon": epsilon, "delta": value, "by": method}


def draw(rng: np.random.Generator) -> dict | None:
    kind = rng.integers(7)
    epsilon = float(np.round(10 ** rng.uniform(-1.5, 1.2), 6))
    noise = float(np.round(10 ** rng.uniform(-0.4, 1.2), 4))
    share = float(np.round(10 ** rng.uniform(-3.5, -0.05), 6))
    if kind == 0:
        count = int(10 ** rng.uniform(0, 5))
        mu = mpmath.sqrt(count) / mpmath.mpf(noise)
        return entry(Repeated(Gaussian(noise), count), ADD, epsilon, gaussian_delta(mu, epsilon), "mpmath")
    if kind == 1:
        value = sampled_once(lambda a: gaussian_delta(1 / mpmath.mpf(noise), a), share, epsilon)
        return entry(PoissonSampled(Gaussian(noise), share), ADD, epsilon, value, "mpmath")
    if kind == 2:
        value = sampled_once(laplace_surplus(1 / mpmath.mpf(noise)), share, epsilon)
        return entry(PoissonSampled(Laplace(noise), share), ADD, epsilon, value, "mpmath")
    if kind == 3:
        count, flip, categories = (
            int(rng.integers(2, 120)),
            float(np.round(rng.uniform(0.2, 0.95), 4)),
            int(rng.integers(2, 6)),
        )
        rare = mpmath.mpf(flip) / categories
        often = 1 - (categories - 1) * rare
        mass = (often, 1 - often - rare, rare)
        value = pure_steps(mpmath.log(often / rare), mass, count, mpmath.mpf(epsilon))
        return entry(Repeated(RandomizedResponse(flip, categories), count), REPLACE, epsilon, value, "mpmath")
    if kind == 4:
        count, reach = int(rng.integers(2, 120)), float(np.round(10 ** rng.uniform(-2, 0.3), 5))
        often = 1 / (1 + mpmath.e ** -mpmath.mpf(reach))
        value = pure_steps(mpmath.mpf(reach), (often, 0, 1 - often), count, mpmath.mpf(epsilon))
        return entry(Repeated(PureDP(reach), count), ADD, epsilon, value, "mpmath")
    if kind == 5:
        count, scale = int(rng.integers(2, 120)), float(np.round(10 ** rng.uniform(0, 2), 3))
        often = 1 / (1 + mpmath.e ** (-1 / mpmath.mpf(scale)))  # one count more or less: randomized response again
        value = pure_steps(1 / mpmath.mpf(scale), (often, 0, 1 - often), count, mpmath.mpf(epsilon))
        return entry(Repeated(DiscreteLaplace(scale, 1), count), ADD, epsilon, value, "mpmath")
    count = int(10 ** rng.uniform(1.3, 5))
    noise = max(noise, 0.6)
    value = spectral(noise, share, count, epsilon)
    return (
        None
        if math.isnan(value)
        else entry(Repeated(PoissonSampled(Gaussian(noise), share), count), ADD, epsilon, value, "two contours")
    )


def main() -> None:
    rng = np.random.default_rng(SEED)
    found: list[dict] = []
    while len(found) < 2100:
        made = draw(rng)
        if made is not None:
            found.append(made)
    document = {
        "source": "tests/vectors/make_accounting.py (mpmath, 40 digits; Laplace inversion on two contours to 1e-9)",
        "seed": SEED,
        "cases": found,
    }
    text = json.dumps(document, separators=(",", ":")).replace('},{"term"', '},\n{"term"')
    (Path(__file__).parent / "accounting.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
