"""Where the system is no Unix, prices, plans, certificates and verification work; what cannot work says so.

A process without these modules and functions stands for such a system.
"""

import json
import subprocess
import sys

import pytest
from tests.reports.drawn import finish, make_plan

WITHOUT = """
import os, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("register_at_fork", "fork", "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "getuid", "geteuid"):
    delattr(os, name)
"""
PRICES = """
import epsilog as ep
from epsilog.accounting import montecarlo
sgd = ep.Repeated(ep.PoissonSampled(ep.Gaussian(1.0), 0.01), 1000)
assert 1 < ep.epsilon(sgd, delta=1e-5).upper < 3
assert ep.plan.queries(epsilon=1.0, queries=100, sensitivity=1.0, mechanism="laplace", delta=1e-6).shares
bins = ep.mechanisms.BallsInBins(ep.Gaussian(1.0), bins=16)
asked = {"epsilon": 1.0, "samples": 500, "journal": Path("j")}
found = montecarlo.bound_delta(bins, **asked)
assert montecarlo.bound_delta(bins, **asked) == found
"""
VERIFIED = """
import json
from typer.testing import CliRunner
from epsilog.cli.app import load
app = load()
verify = lambda what: CliRunner().invoke(app, ["verify", what, "--ledger", "ledger.db", "--json"])
found = [verify("run"), verify("run/report.json")]
Path("run/plan.json").rename("plan.json")
Path("run/plan.json").symlink_to(Path("plan.json").resolve())
found.append(verify("run"))
print(json.dumps([[one.exit_code, one.stdout, repr(one.exception)] for one in found]))
"""


REFUSED = """
from epsilog.terms import ConfigError
from epsilog.training import smoke_test
try:
    smoke_test._lock(Path("."), wait=True)
except ConfigError as error:
    assert "train on Linux" in str(error)
else:
    raise AssertionError
"""


@pytest.mark.slow
def test_prices_plans_certificates_and_verification_work_and_training_says_that_it_cannot(tmp_path):
    """All in one process: half of what each takes is to import the library."""
    finish(tmp_path / "run", tmp_path / "ledger.db", make_plan())
    code = f"{WITHOUT}\nfrom pathlib import Path\n{PRICES}{REFUSED}{VERIFIED}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    *verified, linked = json.loads(done.stdout)
    for code, document, error in verified:
        assert code in (0, 5), error
        assert json.loads(document)["status"] != "failed"
    assert "it is a symbolic link" in linked[2]
