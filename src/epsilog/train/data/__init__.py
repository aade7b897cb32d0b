"""What is trained on: sets of data that ship with a package, and anybody's own."""

from epsilog.train.data.chem97 import load_task

__all__ = ["load_task"]
