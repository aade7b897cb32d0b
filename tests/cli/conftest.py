"""The command line is built once, not for every command that a test gives."""

from functools import cache

import pytest
import typer.testing


@pytest.fixture(scope="session", autouse=True)
def _built_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(typer.testing._get_command))
        yield
