"""The adapters against the real libraries, each in an environment of its own (``scripts/peer-environments``).

The tests themselves are in ``in_opacus``, ``in_flower`` and ``in_flax``. Without the environment they
skip, and say so; under ``CI=true`` that is a failure.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WAITING, COMPUTING = ("flower",), ("opacus", "flax")


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize("peer", [*(pytest.param(each, marks=pytest.mark.patient) for each in WAITING), *COMPUTING])
def test_in_the_environment_of(peer):
    environment = ROOT / ".venvs" / peer
    if not (environment / ".ready").is_file():
        reason = f"no environment for {peer}: run scripts/peer-environments"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    warnings = "filterwarnings=default\nerror:::epsilog"  # theirs are theirs
    command = ["-m", "pytest", f"tests/adapters/in_{peer}", "-m", "slow or not slow", "-p", "no:cacheprovider"]
    command += ["-o", warnings]
    done = subprocess.run(
        [environment / "bin/python", *command], cwd=ROOT, capture_output=True, text=True, timeout=2400, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout, "nothing was tested"
    assert "skipped" not in done.stdout, "something was not tested: " + done.stdout[-2000:]


@pytest.mark.slow
def test_no_framework_is_imported_before_it_is_used():
    """Nor is scipy.stats, which takes a second."""
    ours = ", ".join(
        f"epsilog.adapters.{name}" for name in ("opacus", "opacus_loop", "flower", "flower_app", "dp_accounting")
    )
    ours += ", epsilog.training.site, epsilog.training.models.torch_modules, epsilog.training.engines.torch_engine"
    ours += ", epsilog.cli.run, epsilog.cli.account, epsilog.study, epsilog.server.app, epsilog.server.worker"
    frameworks = {"torch", "opacus", "flwr", "dp_accounting", "jax", "scipy.stats"}
    code = f"import sys, {ours}; print(sorted(set(sys.modules) & {frameworks}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
