"""Start and end Flower's processes on this machine: a SuperLink on loopback with SuperNodes.

There is no network beyond loopback, no ``uv sync`` and no telemetry. Every process ends with the one that started it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from epsilog.terms import ConfigError
from epsilog.terms.codec import quote_toml
from epsilog.terms.extras import install_command

HERE = "127.0.0.1"
NAME = "epsilog-here"  # of the connection
TIMEOUT = 120.0  # seconds, for steps that take a few on an idle machine
MAX_STARTS = 5  # of one SuperNode, before its end ends the run
LOG_CHARACTERS = 2000  # of a log in an error
PR_SET_PDEATHSIG = 1  # of prctl(2)
OWNER = "EPSILOG_FLOWER_OWNER"  # environment variable: the id of the process with which all others end
POLL_SECONDS = 0.5  # between two checks of the owner

__all__ = ["FlowerProcesses", "end_with_owner", "is_running"]


class FlowerProcesses:
    """A context of processes, which it ends, with a folder of their logs and configuration.

    A SuperNode that ends is started again, up to ``MAX_STARTS`` starts in all.
    """

    def __init__(
        self, folder: Path, address: str | None = None, notify: Callable[[str], None] = lambda _message: None
    ) -> None:
        """Prepare the configuration; start nothing yet."""
        self.folder, self.address = folder, address or f"{HERE}:{find_free_port()}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._notify, self._starts = notify, dict[int, int]()
        (folder / "flwr").mkdir(parents=True)
        connection = f'[superlink]\ndefault = "{NAME}"\n[superlink.{NAME}]\naddress = {quote_toml(self.address)}\n'
        (folder / "flwr" / "config.toml").write_text(f"{connection}insecure = true\n", encoding="utf-8")
        self._environment = os.environ | {
            "FLWR_HOME": str(folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            OWNER: str(os.getpid()),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }

    def __enter__(self) -> FlowerProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._running.values()):
            kill_tree(process)

    def superlink(self) -> None:
        """Start a SuperLink on loopback, and wait until it accepts connections."""
        host, _, port = self.address.rpartition(":")
        arguments = ("--insecure", "--host", host, "--port", port, "--disable-runtime-dependency-installation")
        self._start("superlink", "flower-superlink", *arguments)
        self.wait(self._accepts_connections, "the SuperLink to answer")

    def supernode(self, number: int) -> None:
        """Start a SuperNode of the SuperLink."""
        self._starts[number] = self._starts.get(number, 0) + 1
        arguments = ("--insecure", "--superlink", self.address, "--port", str(find_free_port()))
        self._start(f"supernode-{number}", "flower-supernode", *arguments)

    def run(self, app: Path) -> None:
        """Submit an app to the SuperLink."""
        command = [_tool("flwr"), "run", str(app), NAME]
        done = subprocess.run(  # noqa: S603 - Flower's own command
            command,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        if done.returncode:
            raise ConfigError("flwr run", [(done.stdout + done.stderr).strip()[-LOG_CHARACTERS:]])

    def wait(self, holds: Callable[[], Any], what: str, seconds: float | None = TIMEOUT) -> None:
        """Wait until a condition holds.

        Raises:
            ConfigError: a process ended for good, or the wait timed out; the error has the ends of the logs.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while not holds():
            gone = [
                name
                for name, process in list(self._running.items())
                if process.poll() is not None and not self._restart(name, process)
            ]
            late = until is not None and time.monotonic() > until
            if gone or late:
                raise ConfigError("Flower", [f"{gone[0]} ended" if gone else f"waited for {what}", self.logs()])
            time.sleep(0.2)

    def _restart(self, name: str, ended: subprocess.Popen[bytes]) -> bool:
        """Restart a SuperNode that has ended; return False if it ended too often or is another process."""
        kind, _, number = name.partition("-")
        if kind != "supernode" or self._starts[int(number)] >= MAX_STARTS:
            return False
        kill_tree(ended)  # its children may still run
        self._notify(f"{name} ended with exit code {ended.returncode}; it is started again, and waited for")
        self.supernode(int(number))
        return True

    def logs(self) -> str:
        """Return the end of the log of every process."""
        found = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{path.stem}: {path.read_text(errors='replace')[-LOG_CHARACTERS:]}" for path in found)

    def _start(self, name: str, tool: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(  # noqa: S603 - Flower's own command
                [_tool(tool), *arguments],
                cwd=self.folder,
                env=self._environment,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one thread, and a system call
            )

    def _accepts_connections(self) -> bool:
        host, _, port = self.address.rpartition(":")
        with socket.socket() as one:
            return one.connect_ex((host, int(port))) == 0


def end_with_owner() -> None:
    """Make this process, an app that Flower started, end with the process of its ``FlowerProcesses``.

    Flower itself interrupts the main thread, which may wait for an answer that never comes, and so keep the lock of the
    run.
    """
    if owner := os.environ.get(OWNER):
        threading.Thread(target=_end_with, args=(int(owner),), daemon=True).start()


def _end_with(owner: int) -> None:
    while is_running(owner):
        time.sleep(POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)  # safe at any time, like a crash


def find_free_port() -> int:
    """Return an unused port on loopback."""
    with socket.socket() as one:
        one.bind((HERE, 0))
        return int(one.getsockname()[1])


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its descendants."""
    for pid in {*list_descendants(process.pid), process.pid}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def is_running(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def list_descendants(pid: int) -> set[int]:
    """Return the ids of all descendants of a process."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):  # gone by now
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
    found, last = set[int](), {pid}
    while last:
        last = {child for child, parent in parents.items() if parent in last} - found
        found |= last
    return found


def _tool(name: str) -> str:
    """Return the path of a command of Flower in this environment."""
    tool = Path(sys.executable).parent / name
    if not tool.exists():
        raise ConfigError(name, [f"is not installed here: {install_command('flower', 'train')}"])
    return str(tool)


def _die_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):  # on Linux alone
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
