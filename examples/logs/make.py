"""Makes the logs beside it: a small honest run for each framework, as its users log one. The numbers are made up."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
DRAW = np.random.default_rng(20260101)


def table(path: Path, rows: list[dict]) -> None:
    """Writes CSV."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def lines(path: Path, rows: list[dict]) -> None:
    """Writes JSON Lines."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def flower() -> None:
    """The metrics of a ServerApp: a strategy that samples 20 of 400 clients and adds noise to their mean."""
    rounds = {
        str(number): {
            "train_loss": round(2.3 * 0.97**number, 4),
            "clients": 20,
            "clipping_norm": 0.5,
            "noise_stdv": 1.5 * 0.5 / 20,
        }
        for number in range(1, 31)
    }
    path = HERE / "flower" / "metrics.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"train_metrics_clientapp": rounds}, indent=1) + "\n", encoding="utf-8")


def opacus() -> None:
    """A row for each optimizer step of a private data loader: expected batch 256 of 20,000 examples."""
    table(
        HERE / "opacus" / "steps.csv",
        [
            {
                "step": step,
                "batch_size": DRAW.binomial(20_000, 0.0128),
                "noise_multiplier": 1.1,
                "max_grad_norm": 1.0,
                "expected_batch_size": 256,
                "lr": 0.05,
            }
            for step in range(1, 121)
        ],
    )


def nvflare() -> None:
    """What an event handler writes at each contribution: all of 12 sites in every round."""
    rows = [
        {
            "current_round": number,
            "contributor_name": f"site-{site}",
            "l2_norm": 1.0,
            "received": 1767225600 + 600 * number + 5 * site,
        }
        for number in range(8)
        for site in range(1, 13)
    ]
    lines(HERE / "nvflare" / "contributions.jsonl", rows)
    table(
        HERE / "nvflare" / "sites.csv",
        [{"site": f"site-{site}", "joined": "2025-09-01", "left": ""} for site in range(1, 13)],
    )


def jax_privacy() -> None:
    """Steps from 0, noise on the mean, and 32 coordinates without a gradient at each."""
    steps, normalize_by = 100, 128.0
    lines(
        HERE / "jax-privacy" / "steps.jsonl",
        [
            {
                "step": step,
                "batch_size": int(DRAW.binomial(10_000, 0.0128)),
                "l2_clip_norm": 1.0,
                "normalize_by": normalize_by,
                "stddev": 1.3 / normalize_by,
                "noise_sample": (DRAW.normal(0, 1.3, 32) / normalize_by).tolist(),
            }
            for step in range(steps)
        ],
    )


def generic() -> None:
    """Everything that can be checked: rounds, clients, padding and enrollment, as plain tables."""
    clients, probability, rounds = 300, 0.1, 40
    there = [np.flatnonzero(DRAW.random(clients) < probability) for _ in range(rounds)]
    day = "2026-02-01T{:02d}:{:02d}:{:02d}"
    table(
        HERE / "generic" / "rounds.csv",
        [
            {
                "round": t,
                "clients": ids.size,
                "clip_norm": 0.8,
                "sigma": 2.0,
                "divisor": 30,
                "attempts": 1,
                "ended": day.format(t // 2, 30 * (t % 2), 0),
            }
            for t, ids in enumerate(there, start=1)
        ],
    )
    table(
        HERE / "generic" / "clients.csv",
        [
            {
                "round": t,
                "client": f"c{i:03d}",
                "norm": f"{min(0.8, DRAW.exponential(0.6)):.6f}",
                "at": day.format((t - 1) // 2, 30 * ((t - 1) % 2) + 10, i % 60),
            }
            for t, ids in enumerate(there, start=1)
            for i in ids
        ],
    )
    table(
        HERE / "generic" / "padding.csv",
        [{"round": t, "noise": f"{x:.9f}"} for t in range(1, rounds + 1) for x in DRAW.normal(0, 2.0 * 0.8, 24)],
    )
    gone = [
        {"client": f"c{i:03d}", "joined": "2025-03-01", "left": "2026-01-10", "seen": "2026-01-09"}
        for i in range(300, 305)
    ]
    here = [{"client": f"c{i:03d}", "joined": "2025-03-01", "left": "", "seen": "2026-01-28"} for i in range(clients)]
    table(HERE / "generic" / "enrollment.csv", here + gone)


if __name__ == "__main__":
    for made in (flower, opacus, nvflare, jax_privacy, generic):
        made()
