"""The program answers as it did when its answers were frozen; README.md says when they may be written anew."""

from __future__ import annotations

import copy
import json
import math

import pytest
from tests.extent import is_kept
from tests.frozen import intervals, ledgers, plans, records, surface, verification
from tests.frozen.kinds import KINDS
from tests.frozen.records import ABSENT, compare, summary, told

PARTS = 40
FROZEN = records.DATA
FEW = {  # what each change passes of the records that take long to make
    "plans": 10,
    "verification": 30,
}


def part(names, number, parts):
    """Every so many-th of the names, from one on; of the first part, spread evenly and out of step with the order."""
    listed = list(names)
    first = [name for index, name in enumerate(listed) if is_kept(index, parts)]
    if number == 0:
        return first
    chosen = set(first)
    return [name for name in listed if name not in chosen][number - 1 :: parts - 1]


def in_parts(parts):
    return [
        pytest.param(number, marks=[pytest.mark.slow, pytest.mark.every(1)] if number == 0 else pytest.mark.extended)
        for number in range(parts)
    ]


def check(stored, found):
    differences = compare(stored, found)
    assert not differences, told(differences)


@pytest.mark.parametrize("number", in_parts(PARTS))
def test_intervals(number):
    asked = intervals.questions()
    stored = intervals.load()
    assert stored.keys() == asked.keys()
    names = part(asked, number, PARTS)
    check({name: stored[name] for name in names}, intervals.answers({name: asked[name] for name in names}))


@pytest.mark.slow
@pytest.mark.every(1)
def test_ledgers():
    check(records.load(ledgers.FILE), ledgers.answers())


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        pytest.param(kind, *param.values, marks=param.marks)
        for kind, parts in FEW.items()
        for param in in_parts(parts)[:2]
    ],
)
def test_plans_and_findings(kind, number):
    """A few at each change; in the extended tests all others at once."""
    module = {"plans": plans, "verification": verification}[kind]
    stored = records.load(module.FILE)
    assert stored.keys() == module.calls().keys()
    few = [name for name in part(stored, 0, FEW[kind]) if not name.startswith("trained")]
    names = few if number == 0 else [name for name in stored if name not in set(few)]
    check({name: stored[name] for name in names}, module.answers(names))


@pytest.mark.slow
@pytest.mark.every(1)
def test_names():
    check(_of(surface.load(), "names of "), {f"names of {name}": each for name, each in surface.names().items()})


@pytest.mark.extended
def test_surface():
    check(surface.load(), surface.answers())


def _of(found, start):
    return {name: value for name, value in found.items() if name.startswith(start)}


def test_every_part_is_asked():
    names = [f"{number:04d}" for number in range(3200)]
    asked = [name for number in range(PARTS) for name in part(names, number, PARTS)]
    assert sorted(asked) == names
    assert 75 < len(part(names, 0, PARTS)) < 85


def test_what_is_frozen():
    """Enough of each kind, refusals and every verb and method among them."""
    found = intervals.load()
    assert len(found) >= 3000
    errors = [each["error"] for each in found.values() if isinstance(each, dict) and "error" in each]
    assert {"UnsupportedMechanismError", "CheckError", "ValueError"} <= set(errors)
    methods = " ".join(each["method"] for each in found.values() if isinstance(each, dict) and "method" in each)
    for said in ("gaussian", "pure-composition", "balls-in-bins", "inversion", "lattice"):
        assert f"method/{said}@" in methods
    assert len(errors) < len(found) / 3
    chains = records.load(ledgers.FILE)
    assert len({json.loads(each)["verb"] for name, each in chains.items() if ": entry" in name}) == 23
    names = verification.calls()
    assert len([name for name in names if name.startswith(("run, ", "logs, ", "ledger, ", "as it is, "))]) >= 60
    assert len([name for name in names if "report" in name]) >= 35


# Negative controls: what is changed in a file is found.


def flipped(number):
    """The next double."""
    return math.nextafter(float.fromhex(number), math.inf).hex()


@pytest.mark.parametrize("exact", [True, False])
def test_a_changed_bit_and_a_changed_message_are_found(exact):
    asked = intervals.questions()
    stored = intervals.load()
    interval = next(name for name, each in stored.items() if "method" in each and "inf" not in each["upper"])
    refusal = next(name for name, each in stored.items() if "error" in each)
    names = {interval, refusal}
    chosen = {name: copy.deepcopy(stored[name]) for name in names}
    found = intervals.answers({name: asked[name] for name in names})
    assert compare(chosen, found) == []
    chosen[interval]["upper"] = flipped(chosen[interval]["upper"])
    chosen[refusal]["says"] += "."
    places = {(each.name, each.place) for each in compare(chosen, found, exact=exact)}
    expected = {(refusal, ("says",))} | ({(interval, ("upper",))} if exact else set())
    assert places == expected


def test_a_changed_entry_is_found():
    stored = records.load(ledgers.FILE)
    name = next(name for name in stored if ": entry" in name)
    changed = stored | {name: stored[name].replace('"index":1,', '"index":2,')}
    assert [each.name for each in compare(changed, stored)] == [name]


@pytest.mark.parametrize(
    ("was", "now", "close"),
    [
        (1.0, 1.0 + 1e-12, True),
        (1.0, 1.0 + 1e-8, False),
        ((1.0).hex(), (1.0 + 1e-12).hex(), True),
        ("inf", (1e300).hex(), False),
        ("costs 1.234 in all", "costs 1.235 in all", True),
        ("costs 1.234 in all", "costs 1.236 in all", False),
        ("costs 3 in all", "costs 4 in all", False),
        ("entry 3", "row 3", False),
        ("ab" * 32, "cd" * 32, True),
        (1, True, False),
        (None, ABSENT, False),
    ],
)
def test_another_platform_may_round_otherwise_and_do_no_more(was, now, close):
    assert (compare({"x": {"y": was}}, {"x": {"y": now}}, exact=False) == []) is close
    assert len(compare({"x": {"y": was}}, {"x": {"y": now}}, exact=True)) == 1


def test_intervals_of_one_number_share_a_point():
    """Wherever they are computed: else one of them is wrong."""
    stored = {"x": {"lower": (1.0).hex(), "upper": (1.0 + 1e-10).hex()}}
    beside = {"x": {"lower": (1.0 + 1e-10).hex(), "upper": (1.0 + 2e-10).hex()}}
    apart = {"x": {"lower": (1.0 + 2e-10).hex(), "upper": (1.0 + 3e-10).hex()}}
    assert compare(stored, beside, exact=False) == []
    assert [each.place for each in compare(stored, apart, exact=False)] == [("lower to upper",)]
    assert "CONTRADICTION" in summary("intervals", stored, apart)
    assert "CONTRADICTION" not in summary("intervals", stored, beside)


def test_lines_that_came_and_went_are_told():
    stored, found = {"help": ["a", "b", "c"]}, {"help": ["a", "c", "d"]}
    assert [(each.stored, each.found) for each in compare(stored, found)] == [("b", ABSENT), (ABSENT, "d")]
    assert len(compare({"x": ["a"]}, {"x": []})) == 1
    assert len(compare({"x": ["a"]}, {"x": [1]})) == 1


def test_a_summary_tells_what_changes():
    stored = {"a": {"upper": (1.0).hex()}, "b": {"says": "no"}, "c": 1, "d": 2}
    found = {"a": {"upper": (1.5).hex()}, "b": {"says": "never"}, "c": 1, "e": 3}
    told_ = summary("things", stored, found)
    for said in ("4 records, 2 changed, 1 added, 1 removed", "+0.333", "1 up, 0 down", "1 times: no -> never"):
        assert said in told_


@pytest.mark.slow
@pytest.mark.every(1)
def test_records_are_read_as_they_are_written(tmp_path, monkeypatch):
    stored = {name: kind.load() for name, kind in KINDS.items()}
    monkeypatch.setattr(records, "DATA", tmp_path)
    monkeypatch.setattr(intervals, "ANSWERS", tmp_path / "intervals.jsonl")
    for name in ("NAMES", "HELP", "OPENAPI", "SCHEMAS"):
        monkeypatch.setattr(surface, name, tmp_path / getattr(surface, name).name)
    for name, kind in KINDS.items():
        kind.save(stored[name])
        assert kind.load() == stored[name], name
        for path in tmp_path.iterdir():
            assert path.read_bytes() == (FROZEN / path.name).read_bytes(), path.name
