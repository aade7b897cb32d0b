"""Our rounds over FLARE: three sites in its simulator with one that refuses and a server that dies, and a provisioned
federation with certificates, where nobody is let in under another's name.

Nothing leaves this machine, and what was started is ended by its process id.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import epsilog

ROOT = Path(__file__).parents[3]
APP = Path(__file__).parent / "app"
sys.path.insert(0, str(APP))
import lines  # noqa: E402

from epsilog.adapters.flower_processes import end, free_port  # noqa: E402
from epsilog.spend import open_ledger, read_ledger  # noqa: E402
from epsilog.terms import CustodyRecord  # noqa: E402
from epsilog.train import checkpoints, run_rounds  # noqa: E402
from epsilog.train.engines.grid import on_grid  # noqa: E402

TOOLS = Path(sys.executable).parent
STREAMING = "site-2"  # its logs go to the server, as FLARE provisions sites
PATIENCE = 200  # seconds, for what takes some twenty on a quiet machine


def environment(folder, **more):
    kept = {name: value for name, value in os.environ.items() if re.match("LANG$|JAX_|XLA_|NPROC$", name)}
    paths = os.pathsep.join([str(APP), str(Path(epsilog.__file__).parents[1])])
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    home = {"HOME": str(folder), "PATH": f"{TOOLS}:/usr/bin:/bin", "PYTHONPATH": paths, "LINES": str(folder)}
    return kept | threads | home | more


def settings(name):
    """A file of JSON as the page shows it, for the test's own module."""
    page = (ROOT / "docs/how-to/train-on-nvflare.md").read_text(encoding="utf-8")
    (shown,) = re.findall(rf"`{re.escape(name)}`:\n\n```json\n(.*?)```", page, re.DOTALL)
    return shown.replace("visits.", "lines.")


def job_in(folder):
    """A job that holds no code: it names one class of the server's and one of the sites'."""
    job = folder / "job"
    (job / "app" / "config").mkdir(parents=True)
    for name in ("meta.json", "app/config/config_fed_server.json", "app/config/config_fed_client.json"):
        (job / name).write_text(settings(name))
    return job


def running_in(folder):
    """Processes whose command names the folder."""
    found = []
    for one in Path("/proc").iterdir():
        if one.name.isdigit() and int(one.name) != os.getpid():
            try:
                named = os.fsencode(folder) in (one / "cmdline").read_bytes()
            except OSError:  # it is over
                continue
            found += [int(one.name)] if named else []
    return found


@contextmanager
def nothing_left(folder):
    """Ends what was started for a folder: FLARE's own processes start others, in sessions of their own."""
    try:
        yield
    finally:
        while left := running_in(folder):
            for process in left:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.05)


def simulated(folder, job, number):
    """One run of FLARE's simulator, in a workspace of its own; it names its own classes, as sites do."""
    local = folder / f"simulator-{number}" / "local"
    local.mkdir(parents=True)
    (local / "resources.json").write_text(settings("simulator/local/resources.json"))
    with nothing_left(folder), (folder / f"simulator-{number}.log").open("wb") as log:
        command = [TOOLS / "nvflare", "simulator", job, "-w", local.parent, "-n", "3", "-t", "3"]
        subprocess.run(
            command, cwd=folder, env=environment(folder), stdout=log, stderr=log, timeout=PATIENCE, check=False
        )


def heard(folder):
    return [set(line.split()) for line in (folder / "heard").read_text().splitlines()[1:]]


def booked(path):
    """Rounds that a site's own ledger, which holds, has released."""
    with read_ledger(path) as books:
        books.verify()
        charge = books.find("one")
        return len(charge.rounds_released) if charge else 0


def embedded(folder, answered):
    """The same run in this process, in which those answer who answered there."""

    class Here:
        rounds = iter(answered)

        def carry(self, orders):
            came = next(self.rounds)
            return [(name, lines.site_at(name, folder).answer(order)) for name, order in orders.items() if name in came]

    for name in lines.NAMES:
        lines.books_of(folder / f"{name}.db")
    with open_ledger(folder / "server.db") as books:
        engine = on_grid(Here(), lines.SCHEME, "one")
        paid = lines.paid_from(books)
        return run_rounds(paid, lines.task_of(lines.NAMES), folder=folder / "run", engine=engine).model


@pytest.mark.slow
def test_a_run_in_flares_simulator_is_that_of_one_process_whoever_dies_or_refuses(tmp_path):
    for name, epsilon in zip(lines.NAMES, ("50", "0.01", "50"), strict=True):
        lines.books_of(tmp_path / f"{name}.db", epsilon)  # the second site's budget cannot bear the run
    job = job_in(tmp_path)
    simulated(tmp_path, job, 1)
    with read_ledger(tmp_path / "server.db") as books:
        assert list(books.find("one").rounds_released) == [1]
    assert not (tmp_path / "model.npy").exists()
    simulated(tmp_path, job, 2)

    first, died, *rest = heard(tmp_path)
    assert len(died) == 1
    answered = [first, *rest]
    assert set.union(*answered) == {"site-1", "site-3"}
    (tmp_path / "here").mkdir()
    assert np.load(tmp_path / "model.npy").tolist() == embedded(tmp_path / "here", answered).tolist()
    rounds = checkpoints.read_records(tmp_path / "run" / "custody.jsonl", CustodyRecord)
    assert [one.participants for one in rounds] == [(0, 1, 2)] * lines.SCHEME.rounds
    assert [one.silent for one in rounds] == [len(lines.NAMES) - len(names) for names in answered]
    with read_ledger(tmp_path / "server.db") as server, read_ledger(tmp_path / "here" / "server.db") as here:
        assert server.find("one").state == "committed"
        assert server.find("one").amounts == here.find("one").amounts, "whoever is silent, the claim is the same"
    assert [booked(tmp_path / f"{name}.db") for name in lines.NAMES] == [3, 0, 3]


def provisioned(folder):
    """Startup kits of FLARE's own making, with an authority of this test's own; what each may run is its own to say."""
    import yaml

    port, admin = free_port(), free_port()
    server = {"name": "localhost", "type": "server", "org": "acme", "fed_learn_port": port, "admin_port": admin}
    made = [{"name": name, "type": "client", "org": "acme"} for name in lines.NAMES]
    owner = {"name": "admin@acme.org", "type": "admin", "org": "acme", "role": "project_admin"}
    builders = {
        "workspace.WorkspaceBuilder": {"template_file": "master_template.yml"},
        "static_file.StaticFileBuilder": {"config_folder": "config", "scheme": "tcp"},
        "cert.CertBuilder": {},
        "signature.SignatureBuilder": {},
    }
    project = {
        "api_version": 3,
        "name": "lines",
        "description": "lines",
        "participants": [server, *made, owner],
        "builders": [{"path": f"nvflare.lighter.impl.{path}", "args": args} for path, args in builders.items()],
    }
    (folder / "project.yml").write_text(yaml.safe_dump(project))
    command = [TOOLS / "nvflare", "provision", "-p", "project.yml", "-w", "kits"]
    subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, check=True, timeout=PATIENCE)
    kits = folder / "kits" / "lines" / "prod_00"
    for name, allowed in [("localhost", "Rounds"), *((name, "Answering") for name in lines.NAMES)]:
        resources = json.loads((kits / name / "local" / "resources.json.default").read_text())
        assert resources.get("allow_log_streaming") is (True if allowed == "Answering" else None), "as FLARE has it"
        resources |= {"class_allow_list": [f"lines.{allowed}"]}
        if name == STREAMING:
            resources["class_allow_list"] += ["nvflare.app_common.logging.job_log_streamer.JobLogStreamer"]
        elif allowed == "Answering":
            resources["allow_log_streaming"] = False
        (kits / name / "local" / "resources.json").write_text(json.dumps(resources))
    return kits


@contextmanager
def federation(folder, kits):
    """A server and its sites as processes."""
    started = []

    def start(kit, kind, name):
        told = ["secure_train=true", "org=acme", "config_folder=config", f"uid={name}"]
        command = ["-u", "-m", f"nvflare.private.fed.app.{kind}.{kind}_train", "-m", kit, "-s", f"fed_{kind}.json"]
        with (folder / f"{kit.name}-as-{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *map(str, command), "--set", *told],
                cwd=kit,
                env=environment(folder, REAL="1"),
                stdout=log,
                stderr=log,
            )
        started.append(process)

    with nothing_left(folder):
        try:
            start(kits / "localhost", "server", "localhost")
            yield start
        finally:
            for process in started:
                end(process)


def wait_for(what, folder):
    until = time.monotonic() + PATIENCE
    while not what():
        logs = "\n".join(f"--- {path.name}\n{path.read_text()[-2000:]}" for path in folder.glob("*.log"))
        assert time.monotonic() < until, logs
        time.sleep(0.1)


@pytest.mark.slow
def test_sites_are_whom_their_certificates_name_and_answer_where_their_logs_stay_with_them(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "SIMULATION", False)
    for name in lines.NAMES:
        lines.books_of(tmp_path / f"{name}.db")
    kits = provisioned(tmp_path)
    job = job_in(tmp_path)
    stranger = shutil.copytree(kits / "site-2", kits / "stranger")  # has a certificate, but of another name
    claims = json.loads((stranger / "startup" / "fed_client.json").read_text())
    claims["client"]["fqsn"] = "site-3"
    (stranger / "startup" / "fed_client.json").write_text(json.dumps(claims))
    with federation(tmp_path, kits) as start:
        server = tmp_path / "localhost-as-localhost.log"
        wait_for(lambda: "Server started" in server.read_text(), tmp_path)
        for kit, name, told in (
            ("site-1", "site-1", "New client site-1@"),
            ("site-2", "site-2", "New client site-2@"),
            ("stranger", "site-3", "claimed endpoint 'site-3' requires identity 'site-3'"),
        ):
            start(kits / kit, "client", name)
            wait_for(lambda told=told: told in server.read_text(), tmp_path)
        submitted = subprocess.run(
            [TOOLS / "nvflare", "job", "submit", "-j", job, "--startup-kit", kits / "admin@acme.org"],
            cwd=tmp_path,
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert submitted.returncode == 0, submitted.stdout + submitted.stderr
        wait_for((tmp_path / "model.npy").exists, tmp_path)
    assert set.union(*heard(tmp_path)) == {"site-1"}
    rounds = checkpoints.read_records(tmp_path / "run" / "custody.jsonl", CustodyRecord)
    assert [one.silent for one in rounds] == [len(lines.NAMES) - len(names) for names in heard(tmp_path)]
    assert "allow_log_streaming must be false" in (tmp_path / f"{STREAMING}-as-{STREAMING}.log").read_text()
    with read_ledger(tmp_path / "server.db") as books:
        assert not books.find("one").request.simulation
    assert [booked(tmp_path / f"{name}.db") for name in lines.NAMES] == [3, 0, 0]
