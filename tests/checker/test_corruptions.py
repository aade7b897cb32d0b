"""What is corrupted proves nothing that the accountant refutes, in any language; and the schema knows the format."""

import json
import random
import re
from pathlib import Path

import jsonschema
import pytest
from tests.checker.test_dp_certificate import (
    ALTERED,
    CHECKER,
    HEAVY,
    SGD,
    cut_reasons,
    draw_certificate,
    judge,
    to_release,
)
from tests.extent import amount

from epsilog.accounting import delta
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

CERTIFICATES = [SGD, *(Path(__file__).parent / "certificates.txt").read_text("ascii").splitlines()]
SCHEMA = json.loads((CHECKER.parent / "dp-certificate-1.schema.json").read_text("ascii"))
NUMBER = re.compile(r'"?-?[0-9][0-9.e-]*"?')
STRANGE = [
    "-1", "0", "1e999", "1e-999", "0.5", "1.0", "true", "null", '""', '"-1"', '"0"', '"1e999"', '"1e-999"', '"NaN"',
    '"1_0"', '"\u0661"', "9007199254740993", "1" + "0" * 400, '"' + "9" * 40 + '"', "[]", "{}", "[" * 3000, '"1 of 2"',
]  # fmt: skip


def corrupt(text, numbers):
    """One change: of a digit, a number, a length, a key, a nesting."""
    spans, keys = [match.span() for match in NUMBER.finditer(text)], re.findall(r'"[a-z_]+":', text)
    if not spans or not keys:
        return text
    place, (start, end) = numbers.randrange(len(text)), numbers.choice(spans)
    match numbers.randrange(8):
        case 0:
            return (
                text[:place] + chr(numbers.choice([*range(32, 127), 0, 10, 0x661, 0x9EA, 0xFF11])) + text[place + 1 :]
            )
        case 1:
            return text[:place]
        case 2:
            return text[:place] + text[place + numbers.randrange(1, 9) :]
        case 3:
            return text[:place] + text[numbers.randrange(place + 1) : place] + text[place:]
        case 4:
            return text[:start] + numbers.choice(STRANGE) + text[end:]
        case 5:
            key = numbers.choice(keys)
            return text.replace(key, f"{key}{numbers.choice(STRANGE)},{key}", 1)
        case 6:
            digit = numbers.choice([i for i, c in enumerate(text) if c in "0123456789"])
            return text[:digit] + numbers.choice("0123456789") + text[digit + 1 :]
    old = text[start:end].strip('"')
    if not re.fullmatch("-?[0-9]+", old):
        return text[:start] + f'"{numbers.uniform(0, 10):.3f}"' + text[end:]
    new = str(int(int(old) * numbers.choice([0.5, 0.9, 0.99, 1.01, 1.1, 2, 1000, -1])))
    return text[:start] + text[start:end].replace(old, new) + text[end:]


def find_false(texts, said):
    """Accepted texts whose claim the accountant's certified lower bound refutes."""
    false = []
    for text, one in zip(texts, said, strict=True):
        if one.startswith("PROVEN"):
            stated = json.loads(text)["claim"]
            relation, at = NeighboringRelation(stated["relation"]), float(stated["epsilon"])
            try:
                known = delta(to_release(stated), epsilon=min(at, 1e6), relation=relation, group_size=stated["group"])
            except UnsupportedMechanismError:
                continue
            if known.lower > float(stated["delta"]) * (1 + 1e-12):
                false.append(text)
    return false


@pytest.mark.slow
def test_the_certificates_are_proven_and_not_far_above_the_truth():
    assert {one.split(":")[0] for one in map(judge, CERTIFICATES)} == {"PROVEN"}
    below = []
    for text in CERTIFICATES[:: amount(2, 1)]:
        claim = json.loads(text)
        claim["claim"]["epsilon"] = f"{float(claim['claim']['epsilon']) * 0.9:.4f}"
        below.append(json.dumps(claim, separators=(",", ":")))
    assert find_false(below, ["PROVEN"] * len(below))  # the control: the accountant refutes a smaller claim
    assert not any(judge(text).startswith("PROVEN") for text in find_false(below, ["PROVEN"] * len(below)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(amount(1, 2)))
def test_no_corruption_is_accepted_that_the_accountant_refutes(seed, judge_elsewhere):
    """60 texts in each language at a change, 2 x 5,000 in all tests."""
    numbers = random.Random(1000 + seed)  # noqa: S311
    texts = []
    while len(texts) < amount(60, 5000):
        text = numbers.choice(CERTIFICATES[1:] * 4 + [SGD])
        for _ in range(numbers.choice([1, 1, 2])):
            text = corrupt(text, numbers)
        texts.append(text)
    said = list(map(judge, texts))
    assert all(re.match("(PROVEN|REFUSED): ", one) and "\n" not in one for one in said)
    assert find_false(texts, said) == []
    assert cut_reasons(judge_elsewhere(texts)) == cut_reasons(said)
    assert {"PROVEN", "REFUSED"} == {one.split(":")[0] for one in said}


# ---- schema ----------------------------------------------------------------------------------------------------------


def is_valid(text):
    """The schema accepts what the text holds."""
    try:
        return jsonschema.Draft202012Validator(SCHEMA).is_valid(json.loads(text))
    except (ValueError, RecursionError):
        return False


def test_the_schema_is_one_and_says_what_each_field_obliges_to():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    seen = []

    def walk(node):
        if isinstance(node, dict):
            for name, field in node.get("properties", {}).items():
                seen.append(name)
                assert name == "type" or len(field["description"]) > 10, name
            if node.get("type") == "object":
                assert node["additionalProperties"] is False
            list(map(walk, node.values()))
        elif isinstance(node, list):
            list(map(walk, node))

    walk(SCHEMA)
    assert {"epsilon", "delta", "relation", "group", "releases", "mechanisms", "poisson", "count", "bits"} <= set(seen)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(amount(1, 4)))
def test_the_schema_accepts_whatever_a_checker_bounds(seed):
    numbers = random.Random(seed)  # noqa: S311
    bounded = 0
    while bounded < amount(25, 50):
        text = json.dumps(draw_certificate(numbers), separators=(",", ":"))
        if "millionths" in judge(text):
            bounded += 1
            assert is_valid(text)
    assert all(map(is_valid, CERTIFICATES))


def test_the_schema_refuses_what_is_wrong_in_structure():
    """What it lets through is no matter of structure: an order, a sum, a comparison, a grid's meaning."""
    passed = [(old, new) for old, new in ALTERED if is_valid(SGD.replace(old, new, 1))]
    assert len(ALTERED) - len(passed) >= 33
    assert not any(judge(SGD.replace(old, new, 1)).startswith("PROVEN") for old, new in ALTERED)
    for change in ({"group": 1.5}, {"unknown": 1}, {"epsilon": 1}, {"relation": "other"}, {"releases": []}):
        claim = json.loads(SGD)
        claim["claim"] |= change
        assert not is_valid(json.dumps(claim))
    assert all(is_valid(json.dumps(one)) for one in HEAVY)
