"""What is trained on: sets of data that ship with a package, and anybody's own."""

from epsilog.training.data.bundled import SHIPPED, load_dataset, load_task
from epsilog.training.data.custom import CustomData, read_column_types
from epsilog.training.data.dataset import TestSet
from epsilog.training.data.schema import DataSchema, Feature, Target, parse_feature, parse_target

__all__ = [
    "SHIPPED",
    "CustomData",
    "DataSchema",
    "Feature",
    "Target",
    "TestSet",
    "load_dataset",
    "load_task",
    "parse_feature",
    "parse_target",
    "read_column_types",
]
