"""Draws ``visits.csv``: visits to 240 clinics that do not exist. ``python make.py`` writes the same file every time.

Nobody's data is in it. A long stay is likelier for the old, after surgery, and in some clinics; as in any real file,
some ages are missing or mistyped, and a few wards are on no list.
"""

import csv
import datetime as dt
import math
import random
from pathlib import Path

CLINICS, SEED = 240, 20261122
WARDS = {"surgery": 1.0, "internal": 0.2, "children": -0.8, "maternity": -0.2}
TOWNS = ["Aarau", "Bülach", "Chur", "Delémont", "Ebikon", "Flims", "Gstaad", "Höri"]


def visits() -> list[list[str]]:
    """Rows of the file, in the order of their dates."""
    draws, rows = random.Random(SEED), []  # noqa: S311 - a synthetic file
    for clinic in range(CLINICS):
        name, bent = f"{TOWNS[clinic % len(TOWNS)]} {clinic:03d}", draws.gauss(0, 0.3)
        for _ in range(draws.randint(6, 30)):
            ward = draws.choice(list(WARDS))
            age = round(min(max(draws.gauss(8 if ward == "children" else 55, 4 if ward == "children" else 20), 0), 108))
            day = dt.date(2025, 1, 1) + dt.timedelta(draws.randrange(365))
            lean = (age - 50) / 15 + WARDS[ward] + bent
            long = "yes" if draws.random() < 1 / (1 + math.exp(-lean)) else "no"
            slip = draws.random()
            shown = "" if slip < 0.01 else "999" if slip < 0.015 else str(age)
            rows.append([day.isoformat(), name, shown, "other" if slip > 0.995 else ward, long])
    rows.sort()
    return [[f"v{number:05d}", *row] for number, row in enumerate(rows, start=1)]


if __name__ == "__main__":
    with Path(__file__).with_name("visits.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["visit", "arrived", "clinic", "age", "ward", "long_stay"])
        lines.writerows(visits())
