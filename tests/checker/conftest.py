"""The checkers in other languages than Python."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECKER = ROOT / "checker/dp_certificate.py"
sys.path.insert(0, str(ROOT))
from hatch_build import find_node  # noqa: E402  (a script at the root)

del sys.path[0]

NODE = """
import { judge } from "CHECKER";
import { createInterface } from "node:readline";
for await (const line of createInterface({ input: process.stdin })) console.log(judge(Buffer.from(line, "hex"))[1]);
"""


def judge_in_javascript(texts, _built):
    """What the checker for Node and browsers says of each text."""
    program = NODE.replace("CHECKER", (CHECKER.with_suffix(".mjs")).as_uri())
    lines = "".join(text.encode("utf-8", "surrogatepass").hex() + "\n" for text in texts)
    command = [find_node()[0], "--input-type=module", "--eval", program]
    found = subprocess.run(command, input=lines, capture_output=True, check=True, text=True)
    return found.stdout.splitlines()


def judge_in_go(texts, built):
    """What the checker in Go says of each text."""
    said = []
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        found = subprocess.run([built, "/dev/stdin"], input=content, capture_output=True, check=False)
        assert not found.stderr
        said.append(found.stdout.decode().removesuffix("\n"))
        assert found.returncode == (0 if said[-1].startswith("PROVEN") else 1)
    return said


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The checker in Go, compiled; it is skipped without a compiler, and fails where CI=true (tests/conftest.py)."""
    compiler = shutil.which("go")
    if not compiler:
        pytest.skip("no Go compiler: apt-get install golang-go")
    folder = tmp_path_factory.mktemp("go")
    environment = os.environ | {"GOCACHE": str(ROOT / ".cache" / "go"), "GO111MODULE": "off", "GOFLAGS": ""}
    program = folder / "dp_certificate"
    subprocess.run([compiler, "build", "-o", program, CHECKER.with_suffix(".go")], env=environment, check=True)
    return program


@pytest.fixture(params=[judge_in_javascript, judge_in_go])
def judge_elsewhere(request):
    """What a checker in another language says of texts."""
    program = request.getfixturevalue("built") if request.param is judge_in_go else None
    return lambda texts: request.param(texts, program)
