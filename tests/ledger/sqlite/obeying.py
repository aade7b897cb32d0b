"""Another process with a ledger open: does one line of Python at a time, and says how that went."""

from multiprocessing.connection import Connection
from pathlib import Path

from epsilog.ledger import open_ledger
from epsilog.ledger.sqlite import ledger_file, store, version
from epsilog.mechanisms import PureDP


def obey(pipe: Connection) -> None:
    """Does what comes through a pipe, until it is killed."""
    names: dict[str, object] = {"Path": Path, "PureDP": PureDP, "open_ledger": open_ledger}
    names |= {"library": version, "ledger_file": ledger_file, "store": store}
    while True:
        line = pipe.recv()
        try:
            exec(line, names)  # noqa: S102
            answer = "done"
        except Exception as error:  # noqa: BLE001 - it is the answer
            answer = f"{type(error).__name__}: {error}"
        pipe.send(answer)
