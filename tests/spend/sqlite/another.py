"""Another process with a ledger open: does one line of Python at a time, and says how that went."""

import sys
from pathlib import Path

from epsilog.spend import open_ledger
from epsilog.spend.sqlite import library, place, store
from epsilog.terms import PureDP


def obey() -> None:
    names: dict[str, object] = {"Path": Path, "PureDP": PureDP, "open_ledger": open_ledger}
    names |= {"library": library, "place": place, "store": store}
    for line in iter(sys.stdin.readline, ""):
        try:
            exec(line, names)  # noqa: S102
            answer = "done"
        except Exception as error:  # noqa: BLE001 - it is the answer
            answer = f"{type(error).__name__}: {error}"
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    obey()
