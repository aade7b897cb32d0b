"""What holds of every command: help for each parameter, an example, JSON for results and errors, and files."""

import io
import json
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer.main

from epsilog.cli import app as application


def list_commands(command, words=()):
    """Return every command below one, with the words that call it."""
    children = getattr(command, "commands", {})
    found = [(words, command)] if not children or command.params else []  # `account` is both
    return found + [one for name, child in children.items() for one in list_commands(child, (*words, name))]


COMMANDS = {" ".join(words): command for words, command in list_commands(typer.main.get_command(application.load()))}
RUNNERS = {"serve", "train", "predict", "embed"}  # they run on, or their result is the file that they write
COMMANDS.pop("", None)


def test_the_help_explains_every_parameter_and_shows_an_example():
    for name, command in COMMANDS.items():
        unexplained = [one.name for one in command.params if not one.hidden and not (one.help or "").strip()]
        assert unexplained == [], name
        assert f"Example: epsilog {name}" in command.help


def test_no_switch_is_on_that_nobody_gave():
    for name, command in COMMANDS.items():
        switches = [one for one in command.params if getattr(one, "is_flag", False)]
        assert [one.name for one in switches if one.default is not False and not one.secondary_opts] == [], name


def test_every_result_is_json_on_request():
    without = {name for name, one in COMMANDS.items() if not any("--json" in option.opts for option in one.params)}
    assert without == RUNNERS


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - RUNNERS))
def test_an_unknown_option_is_an_error_in_json_that_names_it(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["epsilog", *name.split(), "--json", "--no-such-option"])
    with pytest.raises(SystemExit) as end:
        application.main()
    error = json.loads(capsys.readouterr().out)["error"]
    assert (end.value.code, "--no-such-option" in error["message"]) == (2, True)


# ---- files -----------------------------------------------------------------------------------------------------------


def list_paths(name):
    """Return the parameters of a command that name files or folders, by their name."""
    return {one.name: one for one in COMMANDS[name].params if "Path" in str(one.type_descriptor.annotation)}


def read_example(name):
    """Return the words of the example of a command."""
    (example,) = re.findall(r"Example: epsilog (.*(?:\n\s*\S.*)*)", COMMANDS[name].help)
    return shlex.split(example.split(" > ")[0])


def run(words, monkeypatch, capsys):
    """Return the exit code of a command, and its error."""
    monkeypatch.setattr(sys, "argv", ["epsilog", *words])
    with pytest.raises(SystemExit) as end:
        application.main()
    return end.value.code, capsys.readouterr().err


PATHS = [name for name in COMMANDS if list_paths(name)]
READING = [
    name
    for name in PATHS
    if name not in {"account", "plan verdict", "serve", "selftest", "key create", "token create", "embed"}
    and list_paths(name).keys() != {"certificate"}  # an answer's, which is written
]
STANDARD_INPUT = [
    (name, one) for name in PATHS for one in list_paths(name) if "- for standard input" in list_paths(name)[one].help
]


@pytest.mark.parametrize("name", PATHS)
def test_files_are_read_from_arguments_and_written_by_output(name):
    for one in list_paths(name).values():
        writes = re.match("(New f|F)ile\\b|File to ", one.help) is not None
        besides = "--certificate" in one.opts and not name.startswith("ledger")  # that of an answer
        assert writes == ("--output" in one.opts or besides), one.name
        assert ("--output" in one.opts) == ("-o" in one.opts), one.name


@pytest.mark.parametrize("name", READING)
def test_a_file_that_is_missing_is_an_input_error_that_names_it(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = read_example(name)
    code, error = run(words, monkeypatch, capsys)
    missing = [one for one in (*words, "runs/ledger.db", "tokens.json") if re.search("[./]", one) and one in error]
    assert (code, bool(missing)) == (2, True), error
    assert list(tmp_path.iterdir()) == []


def replace_by_hyphen(words, name, field):
    """Return an example with a hyphen instead of a file: the value of an option, or an argument."""
    option = max(list_paths(name)[field].opts, key=len)
    if option.startswith("--"):
        return [*words[: words.index(option) + 1], "-", *words[words.index(option) + 2 :]] if option in words else [
            *words, option, "-"
        ]  # fmt: skip
    arguments = [one for one in list_paths(name) if not list_paths(name)[one].opts[0].startswith("-")]
    given = [i for i, word in enumerate(words) if Path(word).suffix and not words[i - 1].startswith("-")]
    place = given[arguments.index(field)]
    return [*words[:place], "-", *words[place + 1 :]]


@pytest.mark.parametrize(("name", "field"), STANDARD_INPUT)
def test_standard_input_is_read_for_a_hyphen(name, field, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for file in ("docs/examples/rare.toml", "docs/examples/gaussian.json"):  # the other one of a comparison
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes((Path(__file__).parents[2] / file).read_bytes())
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"{")))
    code, error = run(replace_by_hyphen(read_example(name), name, field), monkeypatch, capsys)
    if name == "check":  # whatever is no certificate proves nothing
        assert code == 4
    else:
        assert (code, ", got -: " in error) == (2, True), error
