#!/usr/bin/env python3
"""Write 200 certificates and 200 texts that must be refused into checker/proven and checker/refused.

python scripts/certificates.py
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from epsilog import accounting
from epsilog.certificates import NotProvenError, certificate, check_certificate
from epsilog.mechanisms import (
    ApproximateDP,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Release,
    Repeated,
    TruncatedPoissonSampled,
    ZeroConcentratedDP,
)
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

FOLDER = Path(__file__).parents[1] / "checker"
EACH, SEED = 200, 2026


def draw_release(numbers: random.Random) -> Release:
    """A random composition, most often DP-SGD."""
    noise = round(10 ** numbers.uniform(-0.2, 1), 2)
    kinds: dict[str, Callable[[], Release]] = {
        "gaussian": lambda: Gaussian(noise),
        "laplace": lambda: Laplace(2 * noise),
        "discrete-gaussian": lambda: DiscreteGaussian(noise, numbers.randint(1, 2)),
        "discrete-laplace": lambda: DiscreteLaplace(noise, 1),
        "response": lambda: RandomizedResponse(round(numbers.uniform(0.2, 0.9), 2), numbers.randint(2, 5)),
        "statement": lambda: numbers.choice([PureDP(0.2), ApproximateDP(0.1, 1e-9), GaussianDP(0.3)]),
        "zcdp": lambda: ZeroConcentratedDP(round(numbers.uniform(0.001, 0.5), 3)),
        "choice": lambda: ExponentialMechanism(round(numbers.uniform(0.1, 2), 2)),
    }
    one = kinds[numbers.choice(["gaussian"] * 6 + [*kinds])]()
    if isinstance(one, ZeroConcentratedDP | ExponentialMechanism):
        return one
    if numbers.random() < 0.1:
        one = Composed(
            [one, *(kinds[name]() for name in numbers.sample(["laplace", "discrete-laplace", "response"], 2))]
        )
    sampling = numbers.choice(["all", "poisson", "poisson", "fixed", "limited"])
    if sampling == "all":
        return Repeated(one, numbers.choice([1, 2, 10, 50]))
    rounds = numbers.choice([1, 20, 100, 1000, 5000])
    if sampling == "poisson":
        return Repeated(PoissonSampled(one, round(10 ** numbers.uniform(-3, -0.5), 4)), rounds)
    if sampling == "limited":
        return Repeated(TruncatedPoissonSampled(one, 0.02, 5000, numbers.randint(160, 300)), rounds)
    return Repeated(FixedSizeSampled(one, numbers.randint(1, 50), 1000), rounds)


def draw_certificates(numbers: random.Random) -> Iterator[tuple[str, Release, Any]]:
    """Certificates with their releases and the accountant's intervals."""
    while True:
        releases = [draw_release(numbers) for _ in range(numbers.choice([1, 1, 1, 2]))]
        release = releases[0] if len(releases) == 1 else Composed(releases)
        asked: dict[str, Any] = {
            "delta": numbers.choice([1e-3, 1e-5, 1e-6, 1e-8, 1e-10, 0.0]),
            "relation": numbers.choice(list(NeighboringRelation)),
            "group_size": numbers.choice([1, 1, 1, 2]),
        }
        try:
            found = certificate(release, slack=numbers.choice([0.005, 0.002, 0.001]), **asked)
        except (UnsupportedMechanismError, NotProvenError):
            continue
        if 0.01 < found.epsilon < 30:
            yield found.text, release, accounting.epsilon(release, **asked)


def alter(text: str, known: Any, kind: str) -> str:
    """A text that must be refused: a false claim, hints that prove nothing, or no certificate."""
    found = json.loads(text)
    claim, release = found["claim"], found["claim"]["releases"][0]
    if kind == "epsilon-below-the-least":
        claim["epsilon"] = f"{0.99 * known.lower:.12f}"
    elif kind == "smallest-delta":
        claim["delta"] = "1e-300"
    elif kind == "unlimited-samples":
        release["poisson"] = "0.02, at most 101 of 5000"
    elif kind == "unknown-relation":
        claim["relation"] = "add-or-remove-two"
    elif kind == "unknown-mechanism":
        release["mechanisms"][0]["type"] = "noise"
    elif kind == "negative-count":
        release["count"] = -1
    elif kind == "count-as-text":
        release["count"] = str(release["count"])
    elif kind == "unknown-key":
        claim["comment"] = "true"
    elif kind == "no-cells":
        found["proof"]["lines"] = [[[], *line[1:]] for line in found["proof"]["lines"]]
    elif kind == "few-bits":
        found["proof"]["bits"] = 63
    elif kind == "next-format":
        found["format"] = "dp-certificate/2"
    changed = json.dumps(found, separators=(",", ":"))
    return {
        "blank": changed.replace(",", ", ", 1),
        "key-twice": changed.replace('"group":', '"group":1,"group":', 1),
        "float": re.sub(r'"count":(\d+)', r'"count":\1.0', changed, count=1),
        "exponent": re.sub(r'"count":(\d+)', r'"count":\1e0', changed, count=1),
        "unicode-digit": changed.replace('"epsilon":"', '"epsilon":"\u0661', 1),
        "truncated": changed[:-3],
        "nested": changed.replace('"lines":', '"lines":' + "[" * 3000, 1),
    }.get(kind, changed)


KINDS = (
    ["epsilon-below-the-least"] * 5
    + ["unknown-relation", "unknown-mechanism", "negative-count", "count-as-text", "unknown-key"]
    + ["no-cells", "few-bits", "next-format", "blank", "key-twice", "float", "exponent", "unicode-digit", "truncated"]
    + ["nested", "smallest-delta", "unlimited-samples"]
)


def main() -> None:
    """Write both folders afresh."""
    numbers = random.Random(SEED)  # noqa: S311
    made = draw_certificates(numbers)
    for name in ("proven", "refused"):
        (FOLDER / name).mkdir(exist_ok=True)
        for old in (FOLDER / name).glob("*.json"):
            old.unlink()
    for number in range(EACH):
        text, _, known = next(made)
        (FOLDER / "proven" / f"{number:03}.json").write_text(f"{text}\n", encoding="utf-8")
        kind = KINDS[number % len(KINDS)]
        bad = alter(text, known, kind)
        if check_certificate(bad).proven:
            raise SystemExit(f"not refused: {number} {kind}")
        (FOLDER / "refused" / f"{number:03}-{kind}.json").write_text(f"{bad}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
