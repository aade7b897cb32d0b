"""Writes, compares or draws what is frozen: ``.venv/bin/python tests/frozen write`` (see README.md)."""

import argparse
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Runs one command and prints what changes."""
    # another package of the environment is called tests, too
    tests = types.ModuleType("tests")
    tests.__path__ = [str(ROOT / "tests")]
    sys.modules["tests"] = tests
    sys.path[0] = str(ROOT)
    import tests.conftest
    from tests.frozen import kinds

    parser = argparse.ArgumentParser(prog="tests/frozen", description=__doc__)
    parser.add_argument("command", choices=["compare", "write", "draw"])
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(kinds.KINDS)}; all if none is named")
    given = parser.parse_args()
    if unknown := set(given.kinds) - kinds.KINDS.keys():
        parser.error(f"no kind is called {', '.join(sorted(unknown))}")
    if given.command == "draw":
        kinds.draw()
    return kinds.run(given.kinds or list(kinds.KINDS), write=given.command != "compare")


if __name__ == "__main__":
    sys.exit(main())
