"""The commands from logs to a verdict, to a report, and back to the logs print what the page says, and end so."""

import runpy
import shutil

import pytest
from tests.docs import outputs

PAGE = outputs.ROOT / "docs/how-to/verify-logs.md"
OPEN = "passed, as far as was required; not checked: population, attempts, noise, custody, norms"
ENDS = (OPEN, "not checked", "passed", "wrote report.html", "norms, divisor")


@pytest.mark.slow
def test_the_commands_print_what_the_page_shows(tmp_path):
    shutil.copytree(outputs.ROOT / "examples/logs", tmp_path / "examples/logs")
    blocks = list(outputs.blocks(PAGE))
    assert len(blocks) == len(ENDS)
    for (command, output), end in zip(blocks, ENDS, strict=True):
        assert outputs.printed(command, tmp_path) == output, command
        assert output.splitlines()[-1] == end


@pytest.mark.slow
def test_the_examples_are_what_their_script_makes(tmp_path):
    shutil.copytree(outputs.ROOT / "examples/logs", tmp_path / "logs")
    before = {file: file.read_bytes() for file in (tmp_path / "logs").rglob("*.*") if file.is_file()}
    runpy.run_path(str(tmp_path / "logs/make.py"), run_name="__main__")
    assert {file: file.read_bytes() for file in before} == before
