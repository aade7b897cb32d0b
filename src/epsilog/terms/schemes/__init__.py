"""How a federated run protects people: one frozen description that drives plan, sampler, noise and verifier alike.

The server may add the noise, or the clients. A certificate never says just "local": it names the scheme, and every
scheme says who sees what. A scheme is one file here, and one in ``train.schemes`` that computes its rounds.
"""

from epsilog.terms.schemes import (  # noqa: F401 - they enter themselves
    client_level_adaptive_clip,
    client_level_buffered_noise,
    client_level_central,
    client_level_client_side,
    client_level_correlated_noise,
    client_level_distributed,
    example_level_client_side,
)
from epsilog.terms.schemes.base import SCHEMES, Against, Party, scheme
from epsilog.terms.schemes.in_turn import InTurn

__all__ = ["SCHEMES", "Against", "InTurn", "Party", "scheme"]
