"""Logs of a simulated run, honest unless told otherwise, with the mapping that says what their columns are."""

import csv
from dataclasses import dataclass, field

import numpy as np

N, Q, T, C, Z, DIVISOR = 400, 0.05, 60, 0.5, 1.2, 20.0
CLAIM = {
    "delta": 1e-5,
    "relation": "add-or-remove-one",
    "privacy_unit": "client",
    "population": N,
    "rounds": T,
    "sampling": "poisson",
    "sampling_probability": Q,
    "clip_norm": C,
    "noise_multiplier": Z,
    "divisor": DIVISOR,
}


@dataclass
class Run:
    """What a run did; tests change one thing of it before it is written."""

    took_part: list
    norms: list
    clip: np.ndarray
    noise: np.ndarray
    divisor: np.ndarray
    attempts: np.ndarray
    padding: np.ndarray
    claim: dict = field(default_factory=lambda: dict(CLAIM))
    enrolled: list = field(default_factory=lambda: [[str(i), "2025-01-01", "", "2025-12-30"] for i in range(N)])

    @property
    def rounds(self):
        return range(1, len(self.took_part) + 1)


def honest(seed=1, *, q=Q, stddev=C * Z):
    rng = np.random.default_rng(seed)
    took_part = [np.flatnonzero(rng.random(N) < np.broadcast_to(q, T)[t]) for t in range(T)]
    return Run(
        took_part=took_part,
        norms=[np.minimum(rng.exponential(0.4, ids.size), C) for ids in took_part],
        clip=np.full(T, C),
        noise=np.full(T, Z),
        divisor=np.full(T, DIVISOR),
        attempts=np.ones(T, dtype=int),
        padding=rng.normal(0, stddev, (T, 64)),
    )


def start(number):
    return f"2026-01-01T{number // 60:02d}:{number % 60:02d}:00Z"


def rows_of_rounds(run):
    return [
        {
            "round": t,
            "clients": len(run.took_part[t - 1]),
            "C": repr(float(run.clip[t - 1])),
            "sigma": repr(float(run.noise[t - 1])),
            "divisor": repr(float(run.divisor[t - 1])),
            "attempts": int(run.attempts[t - 1]),
            "padding": " ".join(map(repr, run.padding[t - 1].tolist())),
            "ended": start(t),
        }
        for t in run.rounds
    ]


def rows_of_clients(run):
    return [
        {"round": t, "client": str(i), "norm": repr(float(norm)), "at": start(t - 1)[:-3] + "30Z"}
        for t in run.rounds
        for i, norm in zip(run.took_part[t - 1], run.norms[t - 1], strict=True)
    ]


def write(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


MAPPING = """
[rounds]
file = "rounds.csv"
format = "csv"
first_round = 1
[rounds.columns]
round = "round"
cohort = "clients"
clip_norm = "C"
noise = { column = "sigma", unit = "clip norms", on = "sum" }
divisor = "divisor"
attempts = "attempts"
padding = { column = "padding", unit = "absolute", on = "sum" }
ended = { column = "ended", unit = "iso" }

[participation]
file = "clients.csv"
format = "csv"
first_round = 1
[participation.columns]
round = "round"
client = "client"
norm = "norm"
time = { column = "at", unit = "iso" }

[enrollment]
file = "enrollment.csv"
format = "csv"
counted_on = "2026-01-01"
active_within_days = 30
[enrollment.columns]
client = "client"
joined = { column = "joined", unit = "iso" }
left = { column = "left", unit = "iso" }
last_active = { column = "active", unit = "iso" }
"""


def claim_text(claim):
    lines = (f"{name} = {value!r}".replace("'", '"') for name, value in claim.items())
    return "[claim]\n" + "\n".join(lines) + "\n"


def rows_of_padding(run):
    return [{"round": t, "value": repr(value)} for t in run.rounds for value in run.padding[t - 1].tolist()]


def save(run, folder, *, rounds=None, clients=None, padding=None, mapping=MAPPING, head=""):
    """Writes the logs and their mapping; ``rounds``, ``clients`` and ``padding`` change the rows of a file."""
    keep = lambda rows: rows  # noqa: E731
    write(folder / "rounds.csv", (rounds or keep)(rows_of_rounds(run)))
    write(folder / "clients.csv", (clients or keep)(rows_of_clients(run)))
    if padding is not None:
        write(folder / "padding.csv", padding(rows_of_padding(run)))
    enrolled = [dict(zip(("client", "joined", "left", "active"), row, strict=True)) for row in run.enrolled]
    write(folder / "enrollment.csv", enrolled)
    path = folder / "mapping.toml"
    path.write_text(head + claim_text(run.claim) + mapping)
    return path
