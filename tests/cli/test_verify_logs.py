"""`epsilog verify --logs` ends as `epsilog verify` does elsewhere, and says what its logs leave of the claim."""

import json

import pytest
from tests.verify.logs.damaged import ONLY_SIZES, begun_again
from tests.verify.logs.simulated import C, Z, honest, save
from typer.testing import CliRunner

from epsilog.cli.entry import app


def verify(*words):
    done = CliRunner().invoke(app, ["verify", *map(str, words), "--json"])
    return done.exit_code, json.loads(done.stdout) if done.stdout.startswith("{") else str(done.exception)


def test_each_end_has_its_code(tmp_path):
    path = save(honest(), tmp_path)
    code, said = verify("--logs", path)
    assert (code, said["verdict"]) == (0, "passed")
    assert "The released models are (1.964, 1e-5)-differentially private" in said["stands"]
    save(honest(), tmp_path, mapping=ONLY_SIZES)
    assert verify("--logs", path)[0] == 5
    assert verify("--logs", path, "--require", "cohorts")[0] == 0
    assert "must be one of cohorts, clients" in verify("--logs", path, "--require", "ledger")[1]
    assert "path must be given, or --logs" in verify()[1]
    assert "ledger must be absent with --logs" in verify("--logs", path, "--ledger", tmp_path / "ledger.db")[1]
    assert "and not both" in verify(tmp_path, "--logs", path)[1]


@pytest.mark.slow
def test_what_is_wrong_has_its_code(tmp_path):
    path = save(begun_again(honest()), tmp_path)
    assert verify("--logs", path)[0] == 5
    save(honest(stddev=0.7 * C * Z), tmp_path)
    code, said = verify("--logs", path)
    assert (code, said["verdict"]) == (4, "failed")
    noise = next(one for one in said["findings"] if one["check"] == "noise")
    assert (noise["grade"], noise["effect"], noise["false_alarm"]) == ("critical", "falls", 1e-6)
    assert said["false_alarm"] == 2e-6
    assert "playbook" not in noise
    (tmp_path / "playbook.toml").write_text('[steps]\nnoise = "stop the release"\n')
    noise = verify("--logs", path, "--playbook", tmp_path / "playbook.toml")[1]["findings"][9]
    assert noise["playbook"]["steps"] == ["stop the release"]
    assert len(noise["playbook"]["sha256"]) == 64
    assert said["stands"].endswith("Nothing is claimed: checks fail on noise.")
    done = CliRunner().invoke(app, ["verify", "--logs", str(path)])
    assert done.exit_code == 4
    assert "an estimate, not a guarantee" in " ".join(done.stdout.split())
    done = CliRunner().invoke(app, ["verify", "--logs", str(path), "--playbook", str(tmp_path / "playbook.toml")])
    assert "noise/too-weak triggers: stop the release (playbook" in " ".join(done.stdout.split())
