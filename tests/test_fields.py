"""One fact, one description: library, command line, API, run config and docs agree on names, bounds and words."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.server.described import description

from epsilog import plan
from epsilog.pipeline.sections import TrainingSection, make_scheme_section
from epsilog.schemes import SCHEMES, ClientLevelCorrelatedNoise
from epsilog.schemes.sampled import NEEDS, SampledScheme
from epsilog.terms import fields, parameters
from epsilog.terms.fields import REQUIRED, Field

FACTS = fields.list_fields(plan.QUESTIONS["/federated/curve"])
QUERIES = fields.list_fields(plan.QUESTIONS["/queries"])
PAGE = (Path(__file__).parents[1] / "docs/how-to/run-config.md").read_text(encoding="utf-8")
BOUNDARY = {
    "without_replacement": parameters.WITHOUT_REPLACEMENT,
    "rounds_per_release": parameters.ROUNDS_PER_RELEASE,
    "adaptive_clip": parameters.ADAPTIVE_CLIP,
    "late_replies": parameters.LATE_REPLY_POLICY,
}


def without(known, *names):
    return {name: fact for name, fact in known.items() if name not in names}


# the library


@pytest.mark.parametrize(
    ("function", "known", "more"),
    [
        (plan.plan_federated, without(FACTS, "delta_cap"), {"policy", "relative_width", "group_size", "fit", "trials"}),
        (plan.calibrate_noise, {"epsilon": parameters.EPSILON} | FACTS, {"policy"}),
        (plan.calibrate_rounds, {"epsilon": parameters.EPSILON} | FACTS, {"policy"}),
        (plan.queries, without(QUERIES, "delta_cap"), {"policy"}),
        (
            plan.list_limits,
            BOUNDARY | {"sampling": parameters.SAMPLING, "privacy_unit": parameters.PRIVACY_UNIT},
            set(),
        ),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_the_calculators_take_the_facts_by_their_names(function, known, more):
    given = inspect.signature(function).parameters
    assert set(given) <= set(known) | more
    if function in (plan.plan_federated, plan.queries):
        assert set(given) == set(known) | more
    for name in set(given) & set(known):
        default = known[name].default
        if given[name].default is not inspect.Parameter.empty:
            assert given[name].default == default
        elif function is not plan.list_limits:
            assert default is REQUIRED, name
    told = dict(re.findall(r"^ +(\w+): (.*)$", inspect.getdoc(function), flags=re.MULTILINE))
    if function is plan.plan_federated:
        for name, fact in known.items():
            assert told[name].startswith(fact.help), name


def in_its_place(scheme, name, value):
    """A value as a field holds it: alone, or as the second of a list."""
    return (0.5, value) if fields.is_list(scheme, name) else value


def outside(fact: Field, kind: type) -> list:
    """Values that are just past a fact's bounds, and no numbers at all."""
    step = 1 if kind is int else 1e-9
    found = [] if kind is str else [float("nan"), "1"]
    found += [fact.ge - step] if fact.ge is not None else []
    found += [fact.gt] if fact.gt is not None else []
    found += [fact.lt] if fact.lt is not None else []
    found += [fact.le + step] if fact.le is not None else []
    return found


def inside(fact: Field, kind: type):
    """The least value that a fact allows."""
    return kind(fact.ge) if fact.ge is not None else 5e-324


# the run config


GIVEN = {"clients": 12, "cohort_size": 3, "rounds": 4, "max_participations": 2, "epochs": 1, "noise_multiplier": 1.0}
GIVEN |= {"clip_norm": 1.0, "sampling_probability": 0.5, "batch_probability": 0.5}
GIVEN |= {"target_quantile": 0.5, "clip_learning_rate": 0.2, "quantile_noise": 2.0, "cycle_length": 4, "bands": 2}
GIVEN |= {"decays": (0.9, 0.3), "weights": (0.3, 0.2)}
GIVEN |= {"survivors": 2, "grid": 0.01, "modulus_bits": 20}
WAYS = [
    (scheme, {"sampling": way} | {name: GIVEN[name] if name == NEEDS[way] else None for name in NEEDS.values()})
    for scheme in SCHEMES.values()
    if issubclass(scheme, SampledScheme)
    for way in NEEDS
]
WAYS += [(ClientLevelCorrelatedNoise, {"sampling": way}) for way in ("cyclic", "balls-in-bins")]
WAYS += [(scheme, {}) for scheme in SCHEMES.values() if scheme not in {known for known, _ in WAYS}]


@pytest.mark.parametrize(
    ("scheme", "way"), WAYS, ids=lambda each: each.get("sampling", "") if isinstance(each, dict) else each.kind
)
def test_the_file_takes_what_the_term_takes(scheme, way):
    known = fields.list_fields(scheme)
    given = {name: way[name] if name in way else GIVEN[name] for name in known}
    made = make_scheme_section(scheme)
    assert set(made.model_fields) == {"kind", *known} - ({"clients"} if scheme.unit_is_client else set())
    stated = {name: value for name, value in given.items() if name in made.model_fields and value is not None}
    stated |= {"kind": scheme.kind}
    assert made.model_validate(stated).build_scheme(12, 1.0) == scheme(**given)
    for name in set(known) & set(stated) - {"noise_multiplier", "sampling"}:  # the file knows "calibrate", and no zero
        kind, fact = fields.field_type(scheme, name), known[name]
        least = in_its_place(scheme, name, inside(fact, kind))
        changed = {name: least} | {below: least for below, other in known.items() if other.le_field == name}
        assert made.model_validate(stated | changed).build_scheme(12, 1.0) == scheme(**given | changed)
        past = [given[fact.le_field] + 1] if fact.le_field in made.model_fields else []
        for value in [in_its_place(scheme, name, value) for value in outside(fact, kind) + past]:
            with pytest.raises(ValueError, match=name):
                scheme(**given | {name: value})
            with pytest.raises(ValidationError, match=name):
                made.model_validate(stated | {name: value})


CALIBRATED = 'above 0, or `"calibrate"` (the least that meets the budget)'


def bound(scheme, name, fact: Field, kind: type) -> str:
    """A bound as the page says it; the clients of a scheme at the client level are the population."""
    if fact.choices:
        shown = [f'`"{choice}"`' + " (default)" * (choice == fact.default) for choice in fact.choices]
        return f"{', '.join(shown[:-1])} or {shown[-1]}"
    if kind is int:
        most = "guarantee.population" if fact.le_field == "clients" and scheme.unit_is_client else fact.le_field
        most = f"`{most}`" if most else fact.le
        return f"whole number, at least {fact.ge}" + (f", at most {most}" if most else "")
    shown = {(0, None, None): "above 0", (0, 1, None): "in (0, 1]", (0, None, 1): "in (0, 1)"}
    return "list of numbers, each " * fields.is_list(scheme, name) + shown[fact.gt, fact.le, fact.lt]


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_the_page_of_the_file_says_what_the_facts_say(scheme):
    shown = PAGE.split(f'## [scheme], kind = "{scheme.kind}"')[1].split("\n## ")[0]
    assert scheme.summary in shown
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", shown, flags=re.MULTILINE))
    assert set(rows) == set(make_scheme_section(scheme).model_fields) - {"kind"}
    for name, told in rows.items():
        fact = fields.list_fields(scheme)[name]
        start = bound(scheme, name, fact, fields.field_type(scheme, name)) if name != "noise_multiplier" else CALIBRATED
        assert told.startswith(f"{start}: {fact.help}"), name


def test_each_local_setting_is_one_of_the_files():
    for scheme in SCHEMES.values():
        assert set(scheme.local_settings) <= set(TrainingSection.model_fields)
        assert all(
            f"`{scheme.kind}`" in PAGE.split(f"| `{name}` |")[1].split("\n")[0] for name in scheme.local_settings
        )


@pytest.mark.parametrize(("scheme", "way"), [each for each in WAYS if issubclass(each[0], SampledScheme)])
def test_a_way_of_sampling_takes_its_own_fact_and_no_other(scheme, way):
    given = {name: way[name] if name in way else GIVEN[name] for name in fields.list_fields(scheme)}
    needed = NEEDS[way["sampling"]]
    with pytest.raises(ValueError, match=f"{needed} must be given for sampling = '{way['sampling']}', got nothing"):
        scheme(**given | {needed: None})
    for name in set(NEEDS.values()) - {needed}:
        with pytest.raises(ValueError, match=f"{name} must be absent for sampling = '{way['sampling']}'"):
            scheme(**given | {name: GIVEN[name]})
    with pytest.raises(ValueError, match="sampling must be one of"):
        scheme(**given | {"sampling": "none"})


# the API


@pytest.mark.parametrize("path", plan.QUESTIONS)
def test_the_api_asks_for_the_facts(path):
    asked = plan.QUESTIONS[path]
    content = description()["paths"][f"/api/v1{path}"]["post"]["requestBody"]["content"]["application/json"]
    assert content["schema"] == {"$ref": f"#/components/schemas/{asked.schema}"}
    schema, known = description()["components"]["schemas"][asked.schema], fields.list_fields(asked)
    stated = {each.name: each.default for each in dataclasses.fields(asked) if each.default is not dataclasses.MISSING}
    assert set(schema["properties"]) == set(known)
    assert set(schema.get("required", ())) == set(known) - set(stated)
    names = {"ge": "minimum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum", "le": "maximum"}
    for name, fact in known.items():
        told = schema["properties"][name]
        assert told["description"] == fact.help
        assert {key: told[key] for key in names.values() if key in told} == {
            names[key]: value for key, value in fact.bounds.items()
        }
        assert told.get("default") == stated.get(name)  # a null is left out
        words = next((one["enum"] for one in (told, *told.get("anyOf", ())) if "enum" in one), ())
        assert set(words) == set(fact.choices)
        assert told.get("x-at-most", "") == fact.le_field
