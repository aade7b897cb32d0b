"""How much of the tests runs: each change passes most of them, ``make test-all`` runs all.

A test marked ``extended`` runs in ``make test-all`` only. So do further cases of a slow test with many: by default, one
of two cases stays where there are three or more, one of three from six cases on and one of four from twelve on, and one
of n with ``@pytest.mark.every(n)``. ``every(1)`` keeps all.
Where tests of a module are marked ``smoke``, its other slow tests are extended.
"""

import os
from collections import Counter

import pytest

ALL = os.environ.get("EPSILOG_TEST_ALL") == "1"
FEWER = (3, 6, 12)  # numbers of cases from which on a slow test keeps one of two, three and four
GOLDEN = (5**0.5 - 1) / 2  # its multiples spread evenly and keep no step with the sizes of a grid of parameters


def amount(few: int, every: int) -> int:
    """Return how many examples, rounds or steps a test takes: ``few`` at each change, ``every`` in all tests."""
    return every if ALL else few


def mark_extended(items: list[pytest.Item]) -> None:
    """Mark as extended the cases of slow tests that only ``make test-all`` runs."""
    slow = [item for item in items if item.get_closest_marker("slow") or item.get_closest_marker("every")]
    chosen_modules = {item.path for item in slow if item.get_closest_marker("smoke")}
    cases = Counter(map(_name, slow))
    seen: Counter[str] = Counter()
    for item in slow:
        name = _name(item)
        chosen = item.get_closest_marker("every")
        step = chosen.args[0] if chosen else 1 + sum(cases[name] >= many for many in FEWER)
        if not is_kept(seen[name], step) or (item.path in chosen_modules and not item.get_closest_marker("smoke")):
            item.add_marker(pytest.mark.extended)
        seen[name] += 1


def is_kept(index: int, step: int) -> bool:
    """Tell whether ``make test`` runs this case of a test that keeps about one case of ``step``."""
    return index * GOLDEN % 1 < 1 / step


def _name(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]
