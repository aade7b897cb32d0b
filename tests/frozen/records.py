"""Frozen records: JSON values by name, how they are stored, and how today's answers are compared with them.

A record is any plain JSON value. Numbers that must be kept to the last bit are written by ``float.hex``. On the
platform that wrote the records everything must be equal; elsewhere numbers may differ by rounding, whether they stand
alone or in a text, and hashes are not compared.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any

from tests.frozen.platforms import is_same_platform

DATA = Path(__file__).parent / "data"
TOLERANCE = 1e-9  # relative, on another platform
ROUNDING = 1e-14  # relative
ABSENT = "(absent)"
_NUMBER = re.compile(r"(?<![\w.])-?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w])")
_HEX = re.compile(r"-?(?:0x[01]\.?[0-9a-f]*p[-+]\d+|inf)|nan")
_HASH = re.compile(r"[0-9a-f]{64}|[A-Za-z0-9+/]{43}=|[A-Za-z0-9+/]{80,}=*")


@dataclass(frozen=True)
class Difference:
    """One place in which a record is not what is stored.

    Attributes:
        name: of the record.
        place: names and positions that lead to it.
        stored: the value in the file; ``ABSENT`` if it has none.
        found: today's value.
    """

    name: str
    place: tuple[str | int, ...]
    stored: Any
    found: Any

    @property
    def change(self) -> float | None:
        """The relative change of a number, signed; None if it is none."""
        was, now = _number(self.stored), _number(self.found)
        if was is None or now is None:
            return None
        if was == now or (math.isnan(was) and math.isnan(now)):
            return 0.0
        scale = max(abs(was), abs(now))
        return (now - was) / scale if math.isfinite(scale) else math.copysign(math.inf, now - was)

    def __str__(self) -> str:
        at, (was, now) = "/".join(map(str, self.place)), _shown(self.stored, self.found)
        return f"{self.name}{' at ' + at if at else ''}: stored {was}, found {now}"


def compare(stored: Mapping[str, Any], found: Mapping[str, Any], *, exact: bool | None = None) -> list[Difference]:
    """Every place where two sets of records differ.

    Args:
        stored: records of the file.
        found: today's records.
        exact: whether everything must be equal; None asks whether this is the platform that wrote the file.
    """
    exact = is_same_platform() if exact is None else exact
    differences = []
    for name in [*stored, *(name for name in found if name not in stored)]:
        one, other = stored.get(name, ABSENT), found.get(name, ABSENT)
        changed = [each for each in _differing((), one, other) if exact or not _is_close(*each[1:])]
        if not changed and contradicts(one, other):
            changed = [(("lower to upper",), _ends(one), _ends(other))]
        differences += [Difference(name, *each) for each in changed]
    return differences


def contradicts(was: Any, now: Any) -> bool:
    """Whether two intervals of one number share no point, but for the rounding of one that has no width."""
    one, other = _ends(was), _ends(now)
    if one is None or other is None:
        return False
    return any(low > high + ROUNDING * abs(high) for low, high in ((one[0], other[1]), (other[0], one[1])))


def _ends(value: Any) -> list[float] | None:
    if not isinstance(value, dict):
        return None
    ends = [value.get("lower"), value.get("upper")]
    return [float.fromhex(each) for each in ends] if all(isinstance(each, str) for each in ends) else None


def _differing(place: tuple[str | int, ...], was: Any, now: Any) -> Iterator[tuple[tuple[str | int, ...], Any, Any]]:
    if isinstance(was, dict) and isinstance(now, dict):
        for name in [*was, *(name for name in now if name not in was)]:
            yield from _differing((*place, name), was.get(name, ABSENT), now.get(name, ABSENT))
    elif isinstance(was, list) and isinstance(now, list) and all(isinstance(each, str) for each in (*was, *now)):
        yield from _differing_texts(place, was, now)
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for position, (one, other) in enumerate(zip(was, now, strict=True)):
            yield from _differing((*place, position), one, other)
    elif type(was) is not type(now) or was != now:
        yield place, was, now


def _differing_texts(
    place: tuple[str | int, ...], was: list[str], now: list[str]
) -> Iterator[tuple[tuple[str | int, ...], Any, Any]]:
    """Lines, names or codes that came, went or changed; the others may have moved."""
    if was == now:
        return
    for kind, start, end, begin, stop in difflib.SequenceMatcher(a=was, b=now, autojunk=False).get_opcodes():
        if kind != "equal":
            for number, pair in enumerate(zip_longest(was[start:end], now[begin:stop], fillvalue=ABSENT), start=start):
                yield (*place, number), *pair


def _number(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and _HEX.fullmatch(value):
        return float.fromhex(value)
    return None


def _is_close(was: Any, now: Any) -> bool:
    """Whether two values are equal but for rounding on another platform."""
    one, other = _number(was), _number(now)
    if one is not None and other is not None:
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-300)
    if not (isinstance(was, str) and isinstance(now, str)):
        return False
    texts = [_NUMBER.split(_HASH.sub("#", text)) for text in (was, now)]
    numbers = [_NUMBER.findall(_HASH.sub("#", text)) for text in (was, now)]
    if texts[0] != texts[1] or len(numbers[0]) != len(numbers[1]):
        return False
    return all(_is_one_digit_off(a, b) for a, b in zip(*numbers, strict=True))


def _is_one_digit_off(was: str, now: str) -> bool:
    """Whether two written numbers differ by one in the last place at most, as a rounded number may."""
    one, other = (float(text.replace(",", "")) for text in (was, now))
    digits, _, exponent = was.replace(",", "").lower().partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    return abs(one - other) <= max(1.001 * unit if "." in digits or exponent else 0.0, TOLERANCE * abs(one))


def load(name: str) -> dict[str, Any]:
    """The records of one file, by name."""
    with (DATA / name).open(encoding="utf-8") as file:
        return {record.pop("name"): record.pop("record") for record in map(json.loads, file)}


def save(name: str, records: Mapping[str, Any]) -> None:
    """Writes records, one a line, so that a change of one is one line of a diff."""
    lines = (
        json.dumps({"name": key, "record": value}, ensure_ascii=False, separators=(",", ":"))
        for key, value in records.items()
    )
    (DATA / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def summary(kind: str, stored: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """What changes if ``found`` takes the place of ``stored``: what to quote for a listed change."""
    differences = compare(stored, found, exact=True)
    changed = {each.name for each in differences} & stored.keys() & found.keys()
    added, removed = found.keys() - stored.keys(), stored.keys() - found.keys()
    lines = [f"{kind}: {len(found)} records, {len(changed)} changed, {len(added)} added, {len(removed)} removed"]
    wrong = sorted(name for name in changed if contradicts(stored[name], found[name]))
    lines += (
        [f"  CONTRADICTION: intervals that share no point with the stored ones: {', '.join(wrong)}"] if wrong else []
    )
    inside = [each for each in differences if each.name in changed]
    numbers = [(change, each) for each in inside if (change := each.change) is not None]
    if numbers:
        up, down = (sum(sign * change > 0 for change, _ in numbers) for sign in (1, -1))
        largest = max(numbers, key=lambda pair: abs(pair[0]))
        lines += [
            f"  numbers: {len(numbers)} changed, {up} up, {down} down",
            f"  largest relative change: {largest[0]:+.3g} ({largest[1]})",
        ]
    others = [each for each in inside if each.change is None]
    hashes = [each for each in others if _is_hash(each.stored) and _is_hash(each.found)]
    lines += [f"  hashes: {len(hashes)} changed"] if hashes else []
    texts = Counter(_shown(each.stored, each.found) for each in others if each not in hashes)
    if texts:
        lines.append(f"  texts and shapes: {len(texts)} distinct changes")
        lines += [f"    {count} times: {was} -> {now}" for (was, now), count in texts.most_common(SHOWN)]
        lines += [f"    and {len(texts) - SHOWN} more"] * (len(texts) > SHOWN)
    for word, names in (("added", added), ("removed", removed)):
        shown = sorted(names)
        lines += [f"  {word}: {', '.join(shown[:SHOWN])}{' ...' * (len(shown) > SHOWN)}"] if shown else []
    return "\n".join(lines)


SHOWN = 40
AROUND = 60  # characters before the first that differs


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and bool(_HASH.fullmatch(value))


def _shown(was: Any, now: Any) -> tuple[str, str]:
    """Two values, long texts from a little before the first difference on."""
    both = isinstance(was, str) and isinstance(now, str)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(was, now, strict=False))) if both else 0
    if same <= AROUND:
        return _short(was), _short(now)
    return _short(f"... {was[same - AROUND :]}"), _short(f"... {now[same - AROUND :]}")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 240 else f"{text[:200]} ... ({len(text)} characters)"


def told(differences: Iterable[Difference]) -> str:
    """Differences for the message of a test that fails."""
    listed = list(differences)
    lines = [str(each) for each in listed[:SHOWN]]
    return "\n".join([f"{len(listed)} places differ from what is frozen (tests/frozen/README.md)", *lines])
