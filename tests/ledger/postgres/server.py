"""A PostgreSQL server of one's own, from Debian's packages, on a socket in a folder of its own."""

import atexit
import os
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from urllib.parse import quote

SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}'
shared_buffers = 16MB
max_connections = 60
"""


def binaries():
    """The newest of the installed servers; None where there is none that this user can run."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found or (os.geteuid() == 0 and not shutil.which("runuser")):
        return None
    return found[-1].parent


class Server:
    """A cluster in a new folder; a root user runs it as Debian's ``postgres``, since PostgreSQL refuses root."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="epsilog-pg-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
        self.data, self.user = self.folder / "data", []
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
            self.user = ["runuser", "-u", "postgres", "--"]
        self.folder.chmod(0o700)
        self._run("initdb", "-D", self.data, "--no-sync", "-A", "trust", "-E", "UTF8", "--locale=C", "-U", "postgres")
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS.format(folder=self.folder))
        self.start()
        # it outlives this process however that ends, and removes the server once the pipe to it closes
        stop = shlex.join(map(str, [*self.user, binaries() / "pg_ctl", "-D", self.data, "-m", "immediate", "stop"]))
        remove = f"cat; cd /; {stop}; rm -rf {shlex.quote(str(self.folder))}"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.guard = subprocess.Popen(
            ["/bin/sh", "-c", remove], stdin=subprocess.PIPE, start_new_session=True, cwd="/", **quiet
        )
        atexit.register(self.remove)

    def _run(self, name, *words):
        command = [*self.user, binaries() / name, *words]
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self):
        self._run("pg_ctl", "-D", self.data, "-l", self.folder / "log", "-w", "start")

    def stop(self, mode):
        """Ends the server: ``fast`` in order, ``immediate`` as a crash does."""
        self._run("pg_ctl", "-D", self.data, "-m", mode, "-w", "stop")

    def remove(self):
        """Stop the server and remove its folder."""
        if self.guard.returncode is None:
            self.guard.communicate()

    def url(self, ledger, *, user="postgres"):
        return f"postgresql://{user}@/postgres?host={quote(str(self.folder), safe='')}&ledger={ledger}"


@cache
def server():
    """The one that all tests of this process share."""
    return Server()
