"""Write ``browser_accountant.json``: the library's answers that the pages' accountant must match.

    python tests/vectors/browser_accountant.py

Run it by hand after a change of the mathematics. ``tests/server/test_browser_vectors.py`` compares the file with the
library, ``web/tests/browser-accountant.test.ts`` with the pages. ``upper`` is a bound that the pages may not undercut
(but for their own rounding) where both are exact; ``lower`` is a certified lower bound.
"""

from __future__ import annotations

import json
import math
import random
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from epsilog import plan
from epsilog.accounting import (
    classic_gaussian_stddev,
    delta,
    epsilon,
    federated_closed_form,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    rdp,
)
from epsilog.mechanisms import Gaussian, PoissonSampled, Repeated
from epsilog.terms import NeighboringRelation

FILE = Path(__file__).with_name("browser_accountant.json")
_RELATION = NeighboringRelation.ADD_OR_REMOVE_ONE


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """What the library says to one case."""
    match case["kind"]:
        case "gaussian_delta":
            lower, upper = gaussian_delta(case["mu"], case["epsilon"])
            return {"lower": lower, "upper": upper}
        case "gaussian_epsilon":
            lower, upper = gaussian_epsilon(case["mu"], case["delta"])
            return {"lower": lower, "upper": upper}
        case "gaussian_noise":
            return {"upper": 1 / gaussian_mu(epsilon=case["epsilon"], delta=case["delta"])}
        case "rdp":
            release = PoissonSampled(Gaussian(case["sigma"]), case["q"])
            return {"upper": float(rdp(release, np.array([float(case["order"])]), relation=_RELATION)[0])}
        case "sampled_epsilon":
            release = Repeated(PoissonSampled(Gaussian(case["sigma"]), case["q"]), case["rounds"])
            found = epsilon(release, delta=case["delta"], relative_width=0.005)
            return {"lower": _json(found.lower), "upper": _json(found.upper)}
        case "sampled_delta":
            release = Repeated(PoissonSampled(Gaussian(case["sigma"]), case["q"]), case["rounds"])
            found = delta(release, epsilon=case["epsilon"], relative_width=0.01)
            return {"lower": _json(found.lower), "upper": _json(found.upper)}
        case "fl_formula":
            found = federated_closed_form(
                sampling_probability=case["q"],
                noise_multiplier=case["sigma"],
                rounds=case["rounds"],
                delta=case["delta"],
            )
            return {"root": _json(found.root_term), "linear": _json(found.linear_term)}
        case "classic":
            return {"value": classic_gaussian_stddev(epsilon=case["epsilon"], delta=case["delta"])}
        case "queries":
            found = plan.queries(**case["ask"]).to_json()
            kept = ("remaining", "queries_left", "compatible", "saving", "classic_total_delta", "relative_error_95")
            ways = {way: {"upper": found["consumed"][way]["upper"]} for way in ("classic", "exact", "optimal")}
            consumed = {"split": found["consumed"]["split"]} | ways
            return {name: found[name] for name in kept} | {"consumed": consumed, "shares": found["shares"]}
    raise ValueError(f"kind must be known, got {case['kind']!r}")


def _json(value: float) -> float | str:
    return "inf" if math.isinf(value) else value


def questions() -> list[dict[str, Any]]:
    """About 2,200 cases, edges first."""
    rng = random.Random(20261121)  # noqa: S311

    def log(low: float, high: float) -> float:
        return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.6g}")

    deltas = (0.5, 1e-2, 1e-5, 1e-6, 1e-9, 1e-15, 1e-80)
    cases: list[dict[str, Any]] = []
    for mu in (1e-6, 1e-3, 0.1, 1.0, 3.0, 10.0, 40.0):
        cases += [{"kind": "gaussian_delta", "mu": mu, "epsilon": e} for e in (0.0, 1e-9, 0.01, 1.0, 5.0, 30.0)]
        cases += [{"kind": "gaussian_epsilon", "mu": mu, "delta": d} for d in deltas]
    cases += [{"kind": "gaussian_noise", "epsilon": e, "delta": d} for e in (1e-3, 0.1, 1.0, 8.0, 30.0) for d in deltas]
    cases += [{"kind": "fl_formula", "q": 0.5, "sigma": 0.0, "rounds": 3, "delta": 1e-6}]
    for _ in range(220):
        cases.append({"kind": "gaussian_delta", "mu": log(1e-3, 30), "epsilon": log(1e-4, 60)})
        cases.append({"kind": "gaussian_epsilon", "mu": log(1e-3, 30), "delta": log(1e-30, 0.9)})
    for _ in range(120):
        cases.append({"kind": "gaussian_noise", "epsilon": log(1e-3, 40), "delta": log(1e-20, 0.5)})
        cases.append({"kind": "classic", "epsilon": log(1e-3, 40), "delta": log(1e-20, 0.5)})
        cases.append(
            {
                "kind": "fl_formula",
                "q": log(1e-5, 1),
                "sigma": log(0.1, 20),
                "rounds": round(log(1, 1e6)),
                "delta": log(1e-12, 0.1),
            }
        )
        cases.append(
            {
                "kind": "rdp",
                "q": log(1e-5, 1),
                "sigma": log(0.3, 20),
                "order": rng.choice([1.1, 1.5, 2, 3.7, 5, 17, 64]),
            }
        )
    cases += [
        {"kind": "rdp", "q": 1.0, "sigma": 2.0, "order": 4},
        {"kind": "rdp", "q": 1e-9, "sigma": 0.5, "order": 32},
    ]
    for sigma in (0.2, 1.0, 1000.0):  # the corners
        for q in (1e-8, 1e-3, 0.999999, 1.0):
            for rounds, d in ((1, 1e-5), (1000, 1e-300), (1_000_000, 0.5), (1_000_000, 1e-9)):
                cases.append({"kind": "sampled_epsilon", "q": q, "sigma": sigma, "rounds": rounds, "delta": d})
    cases += _sampled()
    for _ in range(60):
        cases.append(
            {
                "kind": "sampled_delta",
                "q": log(1e-4, 0.5),
                "sigma": log(0.5, 10),
                "rounds": round(log(1, 1e4)),
                "epsilon": log(0.01, 10),
            }
        )
    for _ in range(60):
        used, many = rng.randint(0, 12), rng.randint(1, 10)
        ask: dict[str, Any] = {
            "epsilon": log(0.05, 10),
            "queries": many,
            "sensitivity": log(0.1, 100),
            "mechanism": rng.choice(["laplace", "gaussian"]),
            "queries_used": used,
            "weights": rng.choice([None, [float(rng.randint(1, 5)) for _ in range(many)]]),
            "magnitude": rng.choice([None, -250.0, 1000.0]),
        }
        if ask["mechanism"] == "gaussian":
            ask["delta"] = log(1e-9, 1e-3)
        cases.append({"kind": "queries", "ask": ask})
    return cases


def _sampled() -> list[dict[str, Any]]:
    """A thousand schedules: what people ask, and what they might."""
    usual, wide = random.Random(2), random.Random(3)  # noqa: S311

    def log(rng: random.Random, low: float, high: float) -> float:
        return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.6g}")

    def case(q: float, sigma: float, rounds: float, d: float) -> dict[str, Any]:
        return {"kind": "sampled_epsilon", "q": q, "sigma": sigma, "rounds": round(rounds), "delta": d}

    cases = [
        case(log(usual, 1e-5, 1), log(usual, 0.3, 30), log(usual, 1, 1e5), log(usual, 1e-10, 1e-3)) for _ in range(500)
    ]
    for _ in range(500):
        q = log(wide, 1e-6, 1) if wide.random() > 0.1 else wide.choice([1.0, 0.9999, 0.999999, 0.5])
        sigma, rounds = log(wide, 0.2, 1e3), log(wide, 1, 1e6)
        cases.append(case(q, sigma, rounds, log(wide, 1e-300, 0.5) if wide.random() < 0.4 else log(wide, 1e-12, 0.1)))
    little = random.Random(4)  # noqa: S311
    for _ in range(60):  # noise below what cells are made for: the rounds that a unit is in are taken as seen
        q, sigma, rounds = log(little, 1e-6, 0.99), log(little, 1e-3, 0.035), log(little, 1, 1e5)
        cases.append(case(q, sigma, rounds, log(little, 1e-12, 1e-2)))
    return cases


if __name__ == "__main__":
    with ProcessPoolExecutor() as pool:
        made = [case | {"want": found} for case, found in zip(questions(), pool.map(answer, questions()), strict=True)]
    source = "Balle & Wang 2018; Mironov et al. 2019; docs/accounting; Dwork & Roth 2014, Thm A.1"
    lines = ",\n".join(json.dumps(case) for case in made)
    FILE.write_text(f'{{"v": 0, "source": {json.dumps(source)}, "cases": [\n{lines}\n]}}\n')
    print(len(made))  # noqa: T201
