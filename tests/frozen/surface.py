"""The frozen public surface: names, command-line help, the HTTP API's description and the schemas of documents."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

from tests.frozen.records import DATA

import epsilog

NAMES = DATA / "names.txt"
HELP = DATA / "help.txt"
OPENAPI = DATA / "openapi.json"
SCHEMAS = DATA / "schemas.json"
WIDTH = "100"


def names() -> dict[str, list[str]]:
    """The public names of each module that lists them, and of the package."""
    modules = ["epsilog", *(found.name for found in pkgutil.walk_packages(epsilog.__path__, "epsilog."))]
    listed = {
        name: getattr(importlib.import_module(name), "__all__", None) for name in modules if "__main__" not in name
    }
    return {name: sorted(found) for name, found in listed.items() if found}


def helps() -> dict[str, str]:
    """The help text of every command, by what is typed."""
    import typer
    from typer.testing import CliRunner

    from epsilog.cli.app import load

    app = load()

    runner, terminal = CliRunner(), {"COLUMNS": WIDTH, "TERM": "dumb", "NO_COLOR": "1", "TERMINAL_WIDTH": WIDTH}
    asked = [words for words, _ in _commands(typer.main.get_command(app), ())]
    told = {}
    for words in asked:
        done = runner.invoke(app, [*words, "--help"], env=terminal)
        assert done.exit_code == 0, (words, done.output)
        told[" ".join(("epsilog", *words))] = done.output.strip()
    return told


def _commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _commands(inner, (*words, name))


def openapi() -> dict[str, Any]:
    """The description of the HTTP API, without the version of the program."""
    from tests.server.described import description

    found = dict(description())
    found["info"] = {name: value for name, value in found["info"].items() if name != "version"}
    return found


def schemas() -> dict[str, Any]:
    """The schemas of documents that third parties check."""
    from epsilog import reports

    return {"report": reports.load_report_schema(), "registry": reports.load_registry_schema()}


def answers() -> dict[str, Any]:
    """Today's surface, place by place."""
    api = openapi()
    return {
        **{f"names of {module}": found for module, found in names().items()},
        **{f"help of {command}": text.splitlines() for command, text in helps().items()},
        **{f"API {path}": described for path, described in api.pop("paths").items()},
        **{f"API schema {name}": described for name, described in api["components"].pop("schemas").items()},
        "API": api,
        **{f"schema of a {kind}": schema for kind, schema in schemas().items()},
    }


def load() -> dict[str, Any]:
    """The stored surface, place by place."""
    found: dict[str, Any] = {}
    for line in NAMES.read_text(encoding="utf-8").splitlines():
        module, _, listed = line.partition(": ")
        found[f"names of {module}"] = listed.split(", ")
    for section in HELP.read_text(encoding="utf-8").removeprefix(MARK).split(f"\n{MARK}"):
        command, _, text = section.partition("\n")
        found[f"help of {command}"] = text.rstrip("\n").splitlines()
    api = json.loads(OPENAPI.read_text(encoding="utf-8"))
    found |= {f"API {path}": described for path, described in api.pop("paths").items()}
    found |= {f"API schema {name}": described for name, described in api["components"].pop("schemas").items()}
    found["API"] = api
    kinds = json.loads(SCHEMAS.read_text(encoding="utf-8"))
    return found | {f"schema of a {kind}": schema for kind, schema in kinds.items()}


MARK = "=== "


def save(found: Mapping[str, Any]) -> None:
    """Writes one name, line or field a line, so that a diff reads like the change."""
    parts: dict[str, dict[str, Any]] = {}
    for name, value in found.items():
        for kind in ("names of ", "help of ", "API schema ", "API ", "API", "schema of a "):
            if name.startswith(kind):
                parts.setdefault(kind, {})[name.removeprefix(kind)] = value
                break
    NAMES.write_text(
        "".join(f"{name}: {', '.join(each)}\n" for name, each in parts["names of "].items()), encoding="utf-8"
    )
    HELP.write_text(
        "".join(f"{MARK}{name}\n" + "".join(f"{line}\n" for line in text) for name, text in parts["help of "].items()),
        encoding="utf-8",
    )
    api = dict(parts["API"][""])
    api["components"] = {**api["components"], "schemas": parts["API schema "]}
    api["paths"] = parts["API "]
    for path, document in ((OPENAPI, api), (SCHEMAS, parts["schema of a "])):
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
