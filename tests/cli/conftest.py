"""The command line is built once, not for every command that a test gives."""

import sys

import pytest
import typer.main
import typer.testing


@pytest.fixture(scope="session", autouse=True)
def _built_once():
    """Keep the commands of the modules that are loaded; a module adds its own."""
    build, built = typer.main.get_command, {}

    def get_command(app):
        key = app, sum(name.startswith("epsilog.cli.") for name in sys.modules)
        return built[key] if key in built else built.setdefault(key, build(app))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", get_command)
        patch.setattr(typer.testing, "_get_command", get_command)
        yield
