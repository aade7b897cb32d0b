"""A release as a bag of single releases."""

from epsilog.mechanisms.composition import Bag, flatten

__all__ = ["Bag", "flatten"]
