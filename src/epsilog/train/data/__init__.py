"""What is trained on: sets of data that ship with a package, and anybody's own."""

from epsilog.train.data.chem97 import load_task
from epsilog.train.data.dataset import Dataset, TestSet
from epsilog.train.data.own import OwnData
from epsilog.train.data.schema import Schema

__all__ = ["Dataset", "OwnData", "Schema", "TestSet", "load_task"]
