"""Flower's own processes on this machine: a SuperLink on loopback with SuperNodes, ended by their process ids.

No network beyond loopback, no ``uv sync``, no telemetry. Everything that was started dies with whoever started it.
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
PATIENCE = 120.0  # seconds, for what takes a few on a quiet machine
STARTS = 5  # of one SuperNode, before one that keeps ending ends the run
TOLD = 2000  # characters of a log that are shown
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
OWNER = "EPSILOG_FLOWER_OWNER"  # the process without which no other is to be: its id, in their environment
LOOKS = 0.5  # seconds between two looks at whether it is there

__all__ = ["FlowerProcesses", "end_with_owner", "is_running"]


class FlowerProcesses:
    """What was started, and the folder where its logs and its configuration lie; a context that ends all of it.

    A SuperNode that has ended is told of, started again and waited for, ``STARTS`` times in all.
    """

    def __init__(
        self, folder: Path, address: str | None = None, tell: Callable[[str], None] = lambda _says: None
    ) -> None:
        """Takes a folder of its own, and HOST:PORT of a SuperLink; None for one that ``superlink`` starts.

        Args:
            folder: of logs and configuration.
            address: of the SuperLink.
            tell: is told of a SuperNode that has ended.
        """
        self.folder, self.address = folder, address or f"{HERE}:{find_free_port()}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._tell, self._starts = tell, dict[int, int]()
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
        """Starts a SuperLink on loopback, and waits until it answers."""
        host, _, port = self.address.rpartition(":")
        arguments = ("--insecure", "--host", host, "--port", port, "--disable-runtime-dependency-installation")
        self._start("superlink", "flower-superlink", *arguments)
        self.wait(self._answers, "the SuperLink to answer")

    def supernode(self, number: int) -> None:
        """Starts a SuperNode of the SuperLink."""
        self._starts[number] = self._starts.get(number, 0) + 1
        arguments = ("--insecure", "--superlink", self.address, "--port", str(find_free_port()))
        self._start(f"supernode-{number}", "flower-supernode", *arguments)

    def run(self, app: Path) -> None:
        """Hands an app to the SuperLink, which runs it."""
        command = [_tool("flwr"), "run", str(app), NAME]
        done = subprocess.run(  # noqa: S603 - Flower's own command
            command,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode:
            raise ConfigError("flwr run", [(done.stdout + done.stderr).strip()[-TOLD:]])

    def wait(self, holds: Callable[[], Any], what: str, seconds: float | None = PATIENCE) -> None:
        """Waits until something holds.

        Raises:
            ConfigError: a process ended for good, or it took too long; with the ends of the logs.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while not holds():
            gone = [
                name
                for name, process in list(self._running.items())
                if process.poll() is not None and not self._again(name, process)
            ]
            late = until is not None and time.monotonic() > until
            if gone or late:
                raise ConfigError("Flower", [f"{gone[0]} ended" if gone else f"waited for {what}", self.logs()])
            time.sleep(0.2)

    def _again(self, name: str, ended: subprocess.Popen[bytes]) -> bool:
        """Starts a SuperNode again that has ended; False where it has ended too often, or is none."""
        kind, _, number = name.partition("-")
        if kind != "supernode" or self._starts[int(number)] >= STARTS:
            return False
        kill_tree(ended)  # what it started may still run
        self._tell(f"{name} ended with exit code {ended.returncode}; it is started again, and waited for")
        self.supernode(int(number))
        return True

    def logs(self) -> str:
        """The end of every process's log."""
        found = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{path.stem}: {path.read_text(errors='replace')[-TOLD:]}" for path in found)

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

    def _answers(self) -> bool:
        host, _, port = self.address.rpartition(":")
        with socket.socket() as one:
            return one.connect_ex((host, int(port))) == 0


def end_with_owner() -> None:
    """Ends this process, an app that Flower started, soon after the one that ``FlowerProcesses`` was made in is gone.

    Flower's own watch raises an interrupt that the main thread has to take, which may be waiting for an answer that
    never comes: such an app kept the lock of its run.
    """
    if owner := os.environ.get(OWNER):
        threading.Thread(target=_end_with, args=(int(owner),), daemon=True).start()


def _end_with(owner: int) -> None:
    while is_running(owner):
        time.sleep(LOOKS)
    os.kill(os.getpid(), signal.SIGKILL)  # what is written by then is safe, as after any crash


def find_free_port() -> int:
    """A port on loopback that nobody listens on."""
    with socket.socket() as one:
        one.bind((HERE, 0))
        return int(one.getsockname()[1])


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and all that it started."""
    for pid in {*list_descendants(process.pid), process.pid}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def is_running(pid: int) -> bool:
    """Whether there is such a process, and more of it than its exit code."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def list_descendants(pid: int) -> set[int]:
    """Processes that a process started, and those that they did."""
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
    """Flower's command in this environment."""
    tool = Path(sys.executable).parent / name
    if not tool.exists():
        raise ConfigError(name, [f"is not installed here: {install_command('flower', 'train')}"])
    return str(tool)


def _die_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):  # Linux alone has it
        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
