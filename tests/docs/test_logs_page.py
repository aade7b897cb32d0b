"""The commands from logs to a verdict and to a report print what the page says, the verdict first."""

import runpy
import shutil

import pytest
from tests.docs import outputs

PAGE = outputs.ROOT / "docs/how-to/verify-logs.md"
VERDICTS = (
    "Holds, on the author’s word; not checked: population, attempts, noise, custody, norms",
    "Cannot tell, missing: padding, clients, norms, divisor",
    "Holds, on the author’s word",
    "wrote report.html",
)


@pytest.mark.slow
def test_the_commands_print_what_the_page_shows(tmp_path):
    shutil.copytree(outputs.ROOT / "examples/logs", tmp_path / "examples/logs")
    blocks = list(outputs.blocks(PAGE))
    for (command, output), verdict in zip(blocks, VERDICTS, strict=True):
        assert outputs.printed(command, tmp_path) == output, command
        assert output.splitlines()[0] == verdict


@pytest.mark.slow
def test_the_examples_are_what_their_script_makes(tmp_path):
    shutil.copytree(outputs.ROOT / "examples/logs", tmp_path / "logs")
    before = {file: file.read_bytes() for file in (tmp_path / "logs").rglob("*.*") if file.is_file()}
    runpy.run_path(str(tmp_path / "logs/make.py"), run_name="__main__")
    assert {file: file.read_bytes() for file in before} == before
