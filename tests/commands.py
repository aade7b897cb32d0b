"""Runs commands of ours as ``python -m epsilog`` does, without a new interpreter and its imports for each.

A server imports the command line once and forks for every command. The child goes on as a fresh interpreter would: with
its own folder, output and environment, through ``main``, and down to the interpreter's end. Only what is read of the
environment while modules are imported, as colors and widths are, needs a server of its own.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PRELOADED = (
    "epsilog.cli.account",
    "epsilog.accounting.montecarlo",
    "epsilog.pipeline",
    "epsilog.ledger.sqlite",
    "jinja2",
    "jsonschema",
    "pydantic.type_adapter",
    "rich.table",
)
READ_WHEN_USED = ("EPSILOG_", "SSL_CERT_")


def run(*words: object, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a command prints and how it ends, in a folder and with more in its environment."""
    with tempfile.TemporaryDirectory() as name:
        outputs = [Path(name) / "stdout", Path(name) / "stderr"]
        late = {name: value for name, value in environment.items() if name.startswith(READ_WHEN_USED)}
        job = {"words": [*map(str, words)], "cwd": str(cwd or Path.cwd()), "outputs": [*map(str, outputs)]}
        job["environment"] = late
        server = _server(tuple(sorted(environment.items() - late.items())))
        server.stdin.write(json.dumps(job) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(job["words"], code, *(path.read_text("utf-8") for path in outputs))


@functools.cache
def _server(environment: tuple[tuple[str, str], ...]) -> subprocess.Popen[str]:
    """One for each environment that is read at import; it ends with this process."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    server = subprocess.Popen([sys.executable, __file__], env=os.environ | dict(environment), **pipes)
    atexit.register(server.communicate)
    return server


def _serve() -> None:
    """Forks for every job and tells its exit code; returns in each child."""
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()  # or each child tidies up all that was imported
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            return _become(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # noqa: T201 - the answer
    return sys.exit()


def _become(words: list[str], cwd: str, outputs: list[str], environment: dict[str, str]) -> None:
    os.chdir(cwd)
    os.environ.update(environment)
    sys.argv = ["epsilog", *words]
    for number, path in enumerate((os.devnull, *outputs)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), number)


if __name__ == "__main__":
    _serve()
    from epsilog.cli.app import main

    main()
