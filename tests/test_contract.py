"""The import contract holds, and a tree that breaks it is noticed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINT = Path(sys.executable).with_name("lint-imports")


def lint(folder):
    import os

    return subprocess.run(
        [LINT, "--no-logo", "--no-cache"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "line", "broken"),
    [
        (None, "", None),
        ("verify/noise.py", "import epsilog.train.noise", "verify and prove never import train"),
        ("terms/check.py", "import epsilog.plan", "the story runs one way"),
        ("spend/ledger.py", "import epsilog.plan", "the story runs one way"),
        ("accounting/renyi.py", "import time", "touch no disk, clock, network"),
    ],
)
def test_the_contract_is_kept_and_can_break(tmp_path, file, line, broken):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("static", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    if file is not None:
        path = tmp_path / "src" / "epsilog" / file
        path.write_text(path.read_text() + f"\n{line}\n")
    done = lint(tmp_path)
    assert (done.returncode == 0) is (broken is None), done.stdout
    if broken is not None:
        assert any(broken in row and "BROKEN" in row for row in done.stdout.splitlines()), done.stdout
