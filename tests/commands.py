"""Runs commands of ours as ``python -m epsilog`` does, without a new interpreter and its imports for each.

A server imports the command line once and forks for every command. The child goes on as a fresh interpreter would: with
its own folder and output, through ``main``, and down to the interpreter's end.
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
    "epsilog.cli.entry",
    "epsilog.accounting.montecarlo",
    "epsilog.programme",
    "epsilog.spend.sqlite",
    "jinja2",
    "jsonschema",
    "pydantic.type_adapter",
    "rich.markdown",
    "scipy.stats",
    "typer.rich_utils",
)


def run(*words: object, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a command prints and how it ends, in a folder and with more in its environment."""
    with tempfile.TemporaryDirectory() as name:
        outputs = [Path(name) / "stdout", Path(name) / "stderr"]
        job = {"words": [*map(str, words)], "cwd": str(cwd or Path.cwd()), "outputs": [*map(str, outputs)]}
        server = _server(tuple(environment.items()))
        server.stdin.write(json.dumps(job) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(job["words"], code, *(path.read_text("utf-8") for path in outputs))


@functools.cache
def _server(environment: tuple[tuple[str, str], ...]) -> subprocess.Popen[str]:
    """One for each environment, which is read at import; it ends with this process."""
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


def _become(words: list[str], cwd: str, outputs: list[str]) -> None:
    os.chdir(cwd)
    sys.argv = ["epsilog", *words]
    for number, path in enumerate((os.devnull, *outputs)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), number)


if __name__ == "__main__":
    _serve()
    from epsilog.cli.entry import main

    main()
