"""What is trained on: sets of data that ship with a package, and anybody's own."""

from epsilog.training.data.dataset import TestSet
from epsilog.training.data.own import OwnData, columns_of
from epsilog.training.data.schema import Feature, Schema, Target, feature, goal
from epsilog.training.data.shipped import SHIPPED, load_dataset, load_task

__all__ = [
    "SHIPPED",
    "Feature",
    "OwnData",
    "Schema",
    "Target",
    "TestSet",
    "columns_of",
    "feature",
    "goal",
    "load_dataset",
    "load_task",
]
