"""Writes ``web/src/lib/openapi.ts``: the types, parameters and readers of the pages, from the API's OpenAPI document.

    python scripts/typescript.py

A test fails while the file is not what this script would write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from epsilog.plan.deployments import DEPLOYMENTS
from epsilog.server import create_app

TARGET = Path(__file__).parents[1] / "web/src/lib/openapi.ts"
HEAD = """\
// Made from the API's OpenAPI document by scripts/typescript.py; not edited by hand. "inf" in JSON is Infinity here.

import type { ParameterSpec } from "./parameter-spec";
import { choice, choiceOrNull, flag, number, numberOrNull } from "./parse-values";
import { numbersOrNull, type RawValues, text, textOrNull } from "./parse-values";
"""
FORMS = (
    "DPSGDRequest",
    *("FederatedRequest", "FederatedGoal", "QueriesRequest", "SensitivityRequest", "MonteCarloRequest"),
    *("CompositionInterpretationRequest", "CompareRequest", "Part", "VerdictRequest"),
)
READ = ("DPSGDRequest", "FederatedRequest", "FederatedSchedule", "QueriesRequest")  # what a form holds is read as these
KINDS = {"integer": "integer", "number": "real", "boolean": "flag", "string": "text", "array": "list", "object": "text"}
BOUNDS = {"minimum": "min", "exclusiveMinimum": "exclusiveMin", "exclusiveMaximum": "exclusiveMax", "maximum": "max"}

Schema = dict[str, Any]


def document() -> str:
    """The whole file."""
    schemas = create_app().openapi()["components"]["schemas"]
    ours = {name: schema for name, schema in schemas.items() if "ValidationError" not in name}
    members = {name: _members(name, schema) for name, schema in ours.items()}
    parts = [HEAD, *(_type(name, ours[name]["description"], members) for name in ours)]
    parts += [_parameters({name: ours[name] for name in FORMS})]
    parts += [_reader(name, ours[name]) for name in READ]
    parts += [_published()]
    return "\n".join(parts)


def _members(name: str, schema: Schema) -> dict[str, str]:
    """Each member; where a question has a default the pages give a value all the same, an answer may lack it."""
    asked, found = name.endswith(("Request", "Goal", "Schedule", "Part")), {}
    for field, told in schema["properties"].items():
        words = f"  /** {told['description']} */\n" if "description" in told else ""
        sure = asked or field in schema.get("required", ())
        found[field] = f"{words}  {field}{'' if sure else '?'}: {_written(told)};"
    return found


def _type(name: str, description: str, members: dict[str, dict[str, str]]) -> str:
    """An object type; it adds its members to those of the largest type that it has all members of."""
    own = members[name]
    inner = [other for other, more in members.items() if len(own) > len(more) > 2 and more.items() <= own.items()]
    base = max(inner, key=lambda other: len(members[other]), default=None)
    lines = [line for field, line in own.items() if base is None or field not in members[base]]
    head = f"/** {description} */\nexport type {name} = {'' if base is None else f'{base} & '}{{"
    return "\n".join([head, *lines, "};", ""])


def _written(told: Schema) -> str:
    """A schema as a type."""
    if "$ref" in told:
        return str(told["$ref"]).rpartition("/")[2]
    if "anyOf" in told:
        return " | ".join(dict.fromkeys(_written(each) for each in told["anyOf"]))
    if told.get("const") == "inf":
        return "number"
    words = told.get("enum") or ([told["const"]] if "const" in told else None)
    if words:
        return " | ".join(map(json.dumps, words))
    if told.get("type") == "array":
        if "prefixItems" in told:
            return f"[{', '.join(map(_written, told['prefixItems']))}]"
        inner = _written(told["items"])
        return f"({inner})[]" if " " in inner else f"{inner}[]"
    plain = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}
    return plain.get(str(told.get("type")), "Record<string, unknown>")


def _published() -> str:
    """The published budgets, as an element shows them without a server."""
    rows = [json.dumps({"name": one.name, "protects": one.protects, "epsilon": one.epsilon}) for one in DEPLOYMENTS]
    lines = ["/** Published epsilons (plan/deployments.py). */", "export const PUBLISHED = ["]
    return "\n".join([*lines, *(f"  {row}," for row in rows), "] as const;", ""])


def _parameters(forms: dict[str, Schema]) -> str:
    lines = ["export const PARAMETERS = {"]
    for name, schema in forms.items():
        lines.append(f"  {name}: {{")
        for field, told in schema["properties"].items():
            if "$ref" in told or "$ref" in told.get("items", ()):  # an object has a form of its own
                continue
            entries = ", ".join(
                f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in _parameter(field, told)
            )
            lines.append(f"    {field}: {{ {entries} }},")
        lines.append("  },")
    return "\n".join([*lines, "} as const satisfies Record<string, Record<string, ParameterSpec>>;", ""])


def _parameter(field: str, told: Schema) -> Iterator[tuple[str, Any]]:
    """One fact, as a form needs it."""
    main, nullable = _main(told)
    yield "name", field
    yield "kind", "choice" if "enum" in main else KINDS[main["type"]]
    yield "help", told.get("description", "")
    yield "initial", _typed(told["examples"][0] if "examples" in told else told.get("default"))
    if nullable:
        yield "optional", True
    for key, name in BOUNDS.items():
        if key in told:
            yield name, int(told[key]) if float(told[key]).is_integer() else told[key]
    for key, name in {"x-symbol": "symbol", "x-at-most": "maxField", "x-blank": "noneMeans"}.items():
        if key in told:
            yield name, told[key]
    if "enum" in main:
        yield "choices", [[word, told.get("x-choices", {}).get(word, word)] for word in main["enum"]]
    if "maxLength" in main:
        yield "max", main["maxLength"]


def _main(told: Schema) -> tuple[Schema, bool]:
    """A schema without null, and whether null is allowed."""
    kinds = [each for each in told.get("anyOf", [told]) if each.get("type") != "null"]
    return kinds[0], "anyOf" in told


def _typed(value: Any) -> str:
    """A value as somebody would type it into a form."""
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    return str(value) if isinstance(value, str) else f"{value:g}".replace("e-0", "e-")


def _reader(name: str, schema: Schema) -> str:
    lines = [f"/** What a form holds, as a {name}; what it does not ask stands at its default. */"]
    lines.append(f"export const read{name} = (values: RawValues): {name} => ({{")
    for field, told in schema["properties"].items():
        (main, nullable), end = _main(told), ""
        kind = "choice" if "enum" in main else KINDS[main["type"]]
        reader = {"integer": "number", "real": "number", "list": "numbers"}.get(kind, kind) + (
            "OrNull" if nullable else ""
        )
        if kind == "choice":
            end = f", {json.dumps(main['enum'])} as const"
        if "default" in told:
            end += f", {json.dumps(told['default'])}"
        lines.append(f'  {field}: {reader}(values, "{field}"{end}),')
    return "\n".join([*lines, "});", ""])


if __name__ == "__main__":
    TARGET.write_text(document(), encoding="utf-8")
