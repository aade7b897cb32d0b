"""`epsilog verify --logs` ends as `epsilog verify` does elsewhere, and says what its logs leave of the claim."""

import json

import pytest
from tests.verification.logs.damaged import ONLY_SIZES, begun_again
from tests.verification.logs.simulated import C, Z, honest, save
from typer.testing import CliRunner

from epsilog.cli.app import load
from epsilog.terms import CheckError

app = load()


def verify(*words):
    done = CliRunner().invoke(app, ["verify", *map(str, words), "--json"])
    return done.exit_code, json.loads(done.stdout) if done.stdout.startswith("{") else str(done.exception)


def report(*words):
    done = CliRunner().invoke(app, ["report", *map(str, words)])
    return done.exit_code, done.stdout.replace("\n", "") if "--json" not in words else done.stdout


@pytest.mark.slow
def test_each_end_has_its_code(tmp_path):
    path = save(honest(), tmp_path)
    code, said = verify("--logs", path)
    assert (code, said["status"]) == (0, "passed")
    assert "The released models are (1.964, 1e-5)-differentially private" in said["supported_claim"]
    save(honest(), tmp_path, mapping=ONLY_SIZES)
    assert verify("--logs", path)[0] == 5
    assert verify("--logs", path, "--require", "cohorts")[0] == 0
    assert "must be one of cohorts, clients" in verify("--logs", path, "--require", "ledger")[1]
    assert "path must be given, or --logs" in verify()[1]
    assert "ledger must be absent with --logs" in verify("--logs", path, "--ledger", tmp_path / "ledger.db")[1]
    line = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
    for words in (("--key", line), ("--signature", tmp_path / "s")):
        assert "must be absent without a report" in verify("--logs", path, *words)[1]
    assert (
        "is no report of logs" in verify(path, "--logs", path)[1]
        or "not unambiguous JSON" in verify(path, "--logs", path)[1]
    )


@pytest.mark.slow
def test_what_is_wrong_has_its_code(tmp_path):
    path = save(begun_again(honest()), tmp_path)
    assert verify("--logs", path)[0] == 5
    save(honest(stddev=0.7 * C * Z), tmp_path)
    code, said = verify("--logs", path)
    assert (code, said["status"]) == (4, "failed")
    noise = next(one for one in said["findings"] if one["check"] == "noise")
    assert (noise["severity"], noise["claim_effect"], noise["false_alarm_rate"]) == ("critical", "unsupported", 1e-6)
    assert 1e-6 < said["false_alarm_rate"] < 1e-6 * (1 + 1e-9)  # delta covers the outcome of the check on who took part
    assert "playbook" not in noise
    (tmp_path / "playbook.toml").write_text('[steps]\nnoise = "stop the release"\n')
    said_too = verify("--logs", path, "--playbook", tmp_path / "playbook.toml")[1]
    noise = next(one for one in said_too["findings"] if one["check"] == "noise")
    assert noise["playbook"]["steps"] == ["stop the release"]
    assert len(noise["playbook"]["sha256"]) == 64
    assert said["supported_claim"].endswith("Checks failed (noise), so no guarantee is supported.")
    done = CliRunner().invoke(app, ["verify", "--logs", str(path)])
    assert done.exit_code == 4
    assert "an estimate, not a guarantee" in " ".join(done.stdout.split())
    done = CliRunner().invoke(app, ["verify", "--logs", str(path), "--playbook", str(tmp_path / "playbook.toml")])
    assert "noise/too-weak triggers: stop the release (playbook" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_from_logs_to_a_report_that_whoever_has_them_verifies(tmp_path):
    path = save(honest(), tmp_path)
    assert report("--logs", path) == (0, f"wrote {tmp_path / 'report.html'}")
    code, said = verify(tmp_path / "report.html", "--logs", path)
    assert (code, {one["code"] for one in said["findings"]} >= {"report/passed", "page/passed"}) == (0, True)
    assert "no part" not in json.dumps(said["findings"])  # whoever has the logs sees their figures
    for kind, name in (("markdown", "report.md"), ("summary", "summary.md"), ("json", "report.json")):
        assert report("--logs", path, "--format", kind) == (0, f"wrote {tmp_path / name}")
    document = json.loads((tmp_path / "report.json").read_text())
    assert json.loads(report("--logs", path, "--json")[1]) == document
    assert verify(tmp_path / "report.json", "--logs", path)[0] == 0
    assert "with the mapping of those logs" in verify(tmp_path / "report.json")[1]
    changed = (tmp_path / "report.json").read_text().replace('"population":400', '"population":401')
    (tmp_path / "report.json").write_text(changed)
    code, said = verify(tmp_path / "report.json", "--logs", path)
    assert (code, said["supported_claim"]) == (4, "Checks failed (report), so no guarantee is supported.")


def test_a_report_has_one_source_and_logs_no_record(tmp_path):
    path = save(honest(), tmp_path)
    for words in ((), (tmp_path, "--logs", path)):
        with pytest.raises(CheckError, match="folder must be given, or --logs"):
            raise CliRunner().invoke(app, ["report", *map(str, words)]).exception
    with pytest.raises(CheckError, match="format must be one of html"):
        raise CliRunner().invoke(app, ["report", "--logs", str(path), "--format", "registry"]).exception


@pytest.mark.slow
def test_steps_of_the_mappings_playbook_are_told(tmp_path):
    (tmp_path / "steps.toml").write_text('[steps]\nattempts = "ask"\n')
    path = save(begun_again(honest()), tmp_path, head='playbook = "steps.toml"\n')
    (told,) = [one["playbook"] for one in verify("--logs", path)[1]["findings"] if "playbook" in one]
    assert told["steps"] == ["ask"]
    (tmp_path / "other.toml").write_text('[steps]\nattempts = "tell"\n')
    other = verify("--logs", path, "--playbook", tmp_path / "other.toml")[1]["findings"]
    assert [one["playbook"]["steps"] for one in other if "playbook" in one] == [["tell"]]
