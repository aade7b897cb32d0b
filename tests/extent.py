"""How much of the tests runs: each change passes most of them, ``make test-all`` runs all.

A test marked ``extended`` runs in ``make test-all`` only. So do further cases of a slow test with many: by default, one
of two cases stays where there are three or more, one of three from six cases on and one of four from twelve on, and one
of n with ``@pytest.mark.every(n)``. ``every(1)`` keeps all.
Where tests of a module are marked ``smoke``, its other slow tests are extended.
``make check`` takes about a minute: of a fast test with four cases or more it runs one in four.
"""

import os
from collections import Counter

import pytest

ALL = os.environ.get("EPSILOG_TEST_ALL") == "1"
FEW = os.environ.get("EPSILOG_TEST_FEW") == "1"
MANY, ONE_IN = 4, 4  # of so many cases of a fast test, `make check` runs one in so many
FEWER = (3, 6, 12)  # numbers of cases from which on a slow test keeps one of two, three and four
GOLDEN = (5**0.5 - 1) / 2  # its multiples spread evenly and keep no step with the sizes of a grid of parameters


def amount(few: int, every: int) -> int:
    """Return how many examples, rounds or steps a test takes: ``few`` at each change, ``every`` in all tests."""
    return every if ALL else few


def mark_extended(items: list[pytest.Item]) -> None:
    """Mark as extended the cases of slow tests that only ``make test-all`` runs."""
    slow = [item for item in items if item.get_closest_marker("slow") or item.get_closest_marker("every")]
    chosen_modules = {item.path for item in slow if item.get_closest_marker("smoke")}
    tests: dict[str, list[pytest.Item]] = {}
    for item in slow:
        tests.setdefault(_name(item), []).append(item)
    for cases in tests.values():
        chosen = cases[0].get_closest_marker("every")
        step = chosen.args[0] if chosen else 1 + sum(len(cases) >= many for many in FEWER)
        kept = kept_cases([_values(case) for case in cases], step)
        for index, item in enumerate(cases):
            if index not in kept or (item.path in chosen_modules and not item.get_closest_marker("smoke")):
                item.add_marker(pytest.mark.extended)


def list_left_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the cases of fast tests with many cases that ``make check`` leaves to ``make test``."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not item.get_closest_marker("slow"):
            tests.setdefault(_name(item), []).append(item)
    left = []
    for cases in tests.values():
        kept = kept_cases([_values(case) for case in cases], ONE_IN if len(cases) >= MANY else 1)
        left += [case for index, case in enumerate(cases) if index not in kept]
    return left


def is_kept(index: int, step: int) -> bool:
    """Tell whether a case is one of those that are spread evenly, about one of ``step``."""
    return index * GOLDEN % 1 < 1 / step


def kept_cases(cases: list[set[tuple[str, int]]], step: int) -> set[int]:
    """Return which cases ``make test`` runs: about one of ``step``, and no side of a grid of parameters is lost."""
    kept = {index for index in range(len(cases)) if is_kept(index, step)}
    shared = {value for value, count in Counter(value for case in cases for value in case).items() if count > 1}
    for index, case in enumerate(cases):
        if (case & shared) - {value for other in kept for value in cases[other]}:
            kept.add(index)
    return kept


def _values(item: pytest.Item) -> set[tuple[str, int]]:
    return {(name, id(value)) for name, value in item.callspec.params.items()} if hasattr(item, "callspec") else set()


def _name(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]
