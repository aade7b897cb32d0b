"""How each scheme of ``epsilog.schemes`` is trained: one file a scheme, which is all that training knows of it."""

from epsilog.training.schemes import (  # noqa: F401 - they enter themselves
    client_level_adaptive_clip,
    client_level_buffered_noise,
    client_level_central,
    client_level_client_side,
    client_level_correlated_noise,
    client_level_distributed,
    example_level_client_side,
)
from epsilog.training.schemes.base import TRAINED, RoundContext, RoundStreams, RoundUpdate, Trainer, register_trainer

__all__ = ["TRAINED", "RoundContext", "RoundStreams", "RoundUpdate", "Trainer", "register_trainer"]
