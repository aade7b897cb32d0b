"""How each scheme of ``terms.schemes`` is trained: one file a scheme, which is all that training knows of it."""

from epsilog.train.schemes import client_level_central, example_level_client_side  # noqa: F401 - they enter themselves
from epsilog.train.schemes.base import TRAINED, Change, Streams, Trainer, trains

__all__ = ["TRAINED", "Change", "Streams", "Trainer", "trains"]
