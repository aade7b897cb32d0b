"""Measures everything, one subject after another, each in a process of its own: `python -m bench [subject ...]`.

Prints Markdown; figures go into RESULTS.md by hand, with the date and what else ran on the machine.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(wanted: list[str]) -> int:
    subjects = sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_"))
    unknown = set(wanted) - set(subjects)
    if unknown:
        print(f"bench: subject must be one of {', '.join(subjects)}, got {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    for subject in wanted or subjects:
        print(f"\n## {subject}\n", flush=True)
        code = subprocess.run([sys.executable, HERE / f"{subject}.py"], check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
