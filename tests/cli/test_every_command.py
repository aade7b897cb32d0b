"""What holds of every command: help for each parameter, an example, JSON for results and errors."""

import json
import sys

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


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_explains_every_parameter_and_shows_an_example(name):
    command = COMMANDS[name]
    unexplained = [one.name for one in command.params if not one.hidden and not (one.help or "").strip()]
    assert unexplained == []
    assert f"Example: epsilog {name}" in command.help


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
