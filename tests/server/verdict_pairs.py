"""The cards of epsilon and delta that the custom element must show: web/tests/verdict.test.ts compares its own.

python tests/server/verdict_pairs.py  # writes tests/vectors/verdict_pairs.json
"""

import json
from itertools import product
from pathlib import Path

from epsilog.plan.verdict import build_card

FILE = Path(__file__).parents[1] / "vectors" / "verdict_pairs.json"
UNITS = ("person", "user-day", "box", "Person!")
RELATIONS = ("add-or-remove-one", "replace-one")


def describe(ask):
    card = build_card(**ask)
    said = (card.headline, *card.notes, card.suspicion, card.highest, card.claim, *card.unprotected)
    return {"ask": ask, "found": card.found, "says": list(map(str, said))}


def build():
    grid = product((0.0, 0.1, 1.0, 4.0, 12.5, 800.0), (0.0, 1e-9, 1e-5, 0.02, 0.6), (0.5, 0.1, 0.001))
    asks = [
        {
            "epsilon": epsilon,
            "delta": delta,
            "prior": prior,
            "privacy_unit": UNITS[n % 4],
            "relation": RELATIONS[n % 3 % 2],
        }
        for n, (epsilon, delta, prior) in enumerate(grid)
    ]
    return {"source": "tests/server/verdict_pairs.py", "cards": list(map(describe, asks))}


if __name__ == "__main__":
    FILE.write_text(json.dumps(build(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
