"""What commands in the docs really print. ``python tests/docs/outputs.py`` writes it into the pages afresh.

A block opens with the word console, then ``$ epsilog ...``, then the output. Blocks that only plan are compared in a
test; those that train, or that print hashes with a time in them, are only written by this script. A command may end in
a filter, as in ``| grep epsilon``, to show the lines that matter.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))
from commands import run  # noqa: E402 - this is a script too

BLOCK = re.compile(r"```console\n\$ (epsilog [^\n]*)\n(.*?)```", re.DOTALL)
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
QUICK = re.compile(r"epsilog (plan|account)\b(?! montecarlo (bound-delta|search-noise|execute|recompute))")


COMMANDS = [ROOT / f"docs/reference/cli/{name}.md" for name in ("runs", "verify", "plan", "account", "ledger")]
"""The command reference, in the order in which its examples build on each other."""


def pages() -> list[Path]:
    """Every page: the README first, the command reference last."""
    others = (p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts and p not in COMMANDS)
    return [ROOT / "README.md", *sorted(others), *COMMANDS]


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Each command of a page with the output that stands there."""
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield match[1], match[2]


def typed_commands(page: Path, heading: str) -> list[str]:
    """The commands of ours in the shell blocks of a section, in order."""
    part = page.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [line for shell in SHELL.findall(part) for line in shell.splitlines() if line.startswith("epsilog ")]


def is_quick(command: str) -> bool:
    """Whether a command's output is the same on every machine, and there at once."""
    return QUICK.match(command) is not None


def printed(command: str, folder: Path) -> str:
    """What a command prints, as plain text without trailing blanks."""
    command, *filters = command.split(" | ")
    words = []
    for word in shlex.split(command)[1:]:
        found = sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if "*" in word else []
        words += found or [word]
    done = run(*words, cwd=folder, COLUMNS="88", NO_COLOR="1", FORCE_COLOR="", PY_COLORS="", TERM="dumb")
    if "Traceback" in done.stderr:
        raise RuntimeError(f"{command}: {done.stderr}")
    text = done.stdout + done.stderr
    for each in filters:
        text = subprocess.run(shlex.split(each), input=text, capture_output=True, text=True, check=True).stdout
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


def refresh() -> None:
    """Writes what commands print into the pages; two pages have runs and ledgers of their own."""
    apart = [page for page in pages() if page.stem in ("own-data", "tutorial")]
    for group in (*([page] for page in apart), [page for page in pages() if page not in apart]):
        _refresh(group)


def _refresh(some: list[Path]) -> None:
    """Runs every command of some pages once, in order, beside the examples."""
    answers: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("examples", "docs"):
            shutil.copytree(ROOT / part, folder / part)

        def answered(match: re.Match[str]) -> str:
            command = match[1]
            if command is None:  # the tutorial's own code, which later commands look at
                subprocess.run([sys.executable, "-c", match[3]], cwd=folder, check=True)
                return match[0]
            if command not in answers:
                answers[command] = printed(command, folder)
            return f"```console\n$ {command}\n{answers[command]}```"

        for page in some:
            before = page.read_text(encoding="utf-8")
            steps = re.compile(
                f"{BLOCK.pattern}|{CODE.pattern}" if page.stem == "tutorial" else BLOCK.pattern, re.DOTALL
            )
            after = steps.sub(answered, before)
            if after != before:
                page.write_text(after, encoding="utf-8")
                sys.stdout.write(f"wrote {page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    refresh()
