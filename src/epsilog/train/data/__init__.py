"""What is trained on: sets of data that ship with a package, and anybody's own."""

from epsilog.train.data.dataset import Dataset, TestSet
from epsilog.train.data.own import OwnData
from epsilog.train.data.schema import Schema
from epsilog.train.data.shipped import SHIPPED, load_dataset, load_task

__all__ = ["SHIPPED", "Dataset", "OwnData", "Schema", "TestSet", "load_dataset", "load_task"]
