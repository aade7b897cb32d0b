"""A SuperLink and three SuperNodes on loopback: our rounds over Flower, a dead node, a late one, a killed server, and a
killed SuperLink.

Nothing leaves this machine, and what was started is ended by its process id.
"""

import datetime as dt
import ipaddress
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec

APP = Path(__file__).parent / "app"
sys.path.insert(0, str(APP))
from gridded import apps  # noqa: E402

from epsilog.adapters.flower_app import name_clients, name_public_key  # noqa: E402
from epsilog.adapters.flower_processes import find_free_port, kill_tree  # noqa: E402
from epsilog.ledger import open_ledger, read_ledger  # noqa: E402
from epsilog.terms import CustodyRecord  # noqa: E402
from epsilog.training import checkpoints, run_rounds  # noqa: E402
from epsilog.training.engines.remote import make_remote_engine  # noqa: E402

TOOLS = Path(sys.executable).parent
KEEPS = " " not in str(TOOLS)  # Flower finds no migrations for its database where its own path has a blank
PATIENCE = 400  # seconds, for what takes some ten on a quiet machine


class Federation:
    """The processes of one federation, and where they live."""

    def __init__(self, folder):
        self.folder, self.running, self.port = folder, {}, find_free_port()
        home = folder / "home"
        (home / ".flwr").mkdir(parents=True)
        kept = {
            name: value for name, value in os.environ.items() if re.match("PYTHONPATH$|LANG$|JAX_|XLA_|NPROC$", name)
        }
        self.environment = kept | {
            "HOME": str(home),
            "FLWR_HOME": str(home / ".flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "PATH": f"{TOOLS}:/usr/bin:/bin",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        connection = (
            f'[superlink]\ndefault = "here"\n[superlink.here]\n'
            f'address = "127.0.0.1:{self.port}"\nroot-certificates = "{folder}/ca.pem"\n'
        )
        (home / ".flwr" / "config.toml").write_text(connection)

    def start(self, name, tool, *arguments):
        with (self.folder / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                [TOOLS / tool, *map(str, arguments)], cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )

    def start_superlink(self):
        tls = ("--ssl-ca-certfile", "ca.pem", "--ssl-certfile", "server.pem", "--ssl-keyfile", "server.key")
        kept = ("--database", self.folder / "superlink.db") if KEEPS else ()  # registrations of nodes
        arguments = (*tls, *kept, "--port", self.port, "--enable-supernode-auth")
        self.start("superlink", "flower-superlink", *arguments, "--disable-runtime-dependency-installation")
        self.wait_for(self.answers)

    def flwr(self, *arguments):
        done = subprocess.run(
            [TOOLS / "flwr", *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def wait_for(self, what):
        until = time.monotonic() + PATIENCE
        while not what():
            gone = [name for name, process in self.running.items() if process.poll() is not None]
            assert not gone, self.logs()
            assert time.monotonic() < until, self.logs()
            time.sleep(0.2)

    def logs(self):
        return "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in self.folder.glob("*.log"))

    def answers(self):
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def end(self):
        for process in self.running.values():
            kill_tree(process)


@pytest.fixture(name="federation")
def _federation(tmp_path):
    made = Federation(tmp_path)
    try:
        yield made
    finally:
        made.end()


def keys_for(folder):
    """A key pair for each site, as OpenSSH writes them."""
    for site in range(apps.SITES):
        key = ec.generate_private_key(ec.SECP384R1())
        (folder / f"site-{site}").write_bytes(
            key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.OpenSSH, forms.NoEncryption())
        )
        public = key.public_key()
        (folder / f"site-{site}.pub").write_bytes(
            public.public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH)
        )
        pem = public.public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo)
        assert name_public_key(pem) == name_public_key((folder / f"site-{site}.pub").read_bytes())


def certificates(folder):
    """An authority of this test's own, and a certificate of it for the loopback address."""
    day = dt.timedelta(days=1)
    now = dt.datetime.now(dt.UTC)
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("ca", "server")}
    subjects = {name: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in keys}
    for name, key in keys.items():
        made = (
            x509.CertificateBuilder()
            .subject_name(subjects[name])
            .issuer_name(subjects["ca"])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(x509.BasicConstraints(ca=name == "ca", path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(keys["ca"].public_key()), critical=False)
        )
        if name == "server":
            loopback = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
            made = made.add_extension(x509.SubjectAlternativeName(loopback), critical=False)
        signed = made.sign(keys["ca"], hashes.SHA256())
        (folder / f"{name}.pem").write_bytes(signed.public_bytes(forms.Encoding.PEM))
        secret = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
        (folder / f"{name}.key").write_bytes(secret)


def heard(folder):
    """The sites that the server heard of in each round: of a round that was sent out again, what came then."""
    sites = {(folder / f"node-{site}").read_text(): site for site in (0, 2)}
    came = [line.split() for line in (folder / "heard").read_text().splitlines()]
    last = len((folder / "pushed").read_text().splitlines())
    return [{sites[node] for number, node in came if int(number) == push} for push in (1, 3, last)]


def embedded(folder, names, answered):
    """The same run in this process, in which those answer who answered there."""

    class Here:
        rounds = 0

        def carry(self, orders):
            self.rounds += 1
            for name, order in orders.items():
                site = names.index(name)
                if site in answered[self.rounds - 1]:
                    yield name, apps.site_at(site, folder).answer(order)

    for site in range(apps.SITES):
        apps.books_of(folder / f"site-{site}.db")
    with open_ledger(folder / "server.db") as books:
        engine = make_remote_engine(Here(), apps.SCHEME, "one")
        return run_rounds(apps.paid_from(books), apps.task_of(names), folder=folder / "run", engine=engine).model


def booked(path):
    """Rounds that a site's own ledger, which holds, has released."""
    with read_ledger(path) as books:
        books.verify()
        charge = books.find("one")
        return len(charge.rounds_released) if charge else 0


@pytest.mark.slow
def test_a_run_over_flower_is_that_of_one_process_whoever_dies(federation, tmp_path):
    keys_for(tmp_path)
    certificates(tmp_path)
    federation.start_superlink()
    began = time.monotonic()
    for site in range(apps.SITES):
        federation.flwr("supernode", "register", tmp_path / f"site-{site}.pub", "here")
        apps.books_of(tmp_path / f"site-{site}.db")
        federation.start(
            f"supernode-{site}",
            "flower-supernode",
            "--root-certificates",
            tmp_path / "ca.pem",
            "--superlink",
            f"127.0.0.1:{federation.port}",
            "--port",
            find_free_port(),
            "--auth-supernode-private-key",
            tmp_path / f"site-{site}",
            "--node-config",
            f'site={site} folder="{tmp_path}"',
        )
    app = shutil.copytree(APP, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__"))
    seconds = max(8.0, 2.5 * (time.monotonic() - began))  # what a process takes to start here, now
    settings = f'folder="{tmp_path}" reply-seconds={seconds}'
    online = lambda: federation.flwr("supernode", "list", "here", "--format", "json").count('"online"')  # noqa: E731
    federation.wait_for(lambda: online() == apps.SITES)
    kill_tree(federation.running.pop("supernode-1"))

    federation.flwr("run", app, "here", "--run-config", settings)
    pushed = tmp_path / "pushed"
    federation.wait_for(lambda: pushed.exists() and len(pushed.read_text().splitlines()) == 2)
    with read_ledger(tmp_path / "server.db") as books:
        assert list(books.find("one").rounds_released) == [1]
    assert not (tmp_path / "model.npy").exists()
    federation.flwr("run", app, "here", "--run-config", settings)
    federation.wait_for(lambda: len(pushed.read_text().splitlines()) == 4)  # round 3 is out
    if KEEPS:
        kill_tree(federation.running.pop("superlink"))
        federation.start_superlink()
        federation.wait_for(lambda: online() == apps.SITES - 1)
    with read_ledger(tmp_path / "server.db") as books:
        assert list(books.find("one").rounds_released) == [1, 2]
    federation.flwr("run", app, "here", "--run-config", settings)
    federation.wait_for((tmp_path / "model.npy").exists)

    names = name_clients([tmp_path / f"site-{site}.pub" for site in range(apps.SITES)])
    (tmp_path / "here").mkdir()
    answered = heard(tmp_path)  # on a machine that is busy, somebody may be late who was not to be
    assert answered[0] <= {0}
    assert set.union(*answered) == {0, 2}
    model = embedded(tmp_path / "here", names, answered)
    assert np.load(tmp_path / "model.npy") == pytest.approx(model, abs=1e-15)
    rounds = checkpoints.read_records(tmp_path / "run" / "custody.jsonl", CustodyRecord)
    assert [one.participants for one in rounds] == [(0, 1, 2)] * apps.SCHEME.rounds
    assert [one.non_responders for one in rounds] == [apps.SITES - len(sites) for sites in answered]
    for site, computed in ((0, 3), (1, 0), (2, 3)):  # what was late is counted at the node, where it was computed
        federation.wait_for(lambda path=tmp_path / f"site-{site}.db", n=computed: booked(path) == n)
