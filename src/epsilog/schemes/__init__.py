"""How a federated run protects people: one frozen description that drives plan, sampler, noise and verifier alike.

The server may add the noise, or the clients. A certificate never says just "local": it names the scheme, and every
scheme says who sees what. A scheme is one file here, and one in ``train.schemes`` that computes its rounds.
"""

from epsilog.schemes.base import SCHEMES, Party, ProtectionLevel, Scheme, register_scheme
from epsilog.schemes.client_level_adaptive_clip import ClientLevelAdaptiveClip
from epsilog.schemes.client_level_buffered_noise import ClientLevelBufferedNoise
from epsilog.schemes.client_level_central import ClientLevelCentral
from epsilog.schemes.client_level_client_side import ClientLevelClientSide
from epsilog.schemes.client_level_correlated_noise import ClientLevelCorrelatedNoise
from epsilog.schemes.client_level_distributed import ClientLevelDistributed
from epsilog.schemes.example_level_client_side import ExampleLevelClientSide
from epsilog.schemes.round_robin import RoundRobinScheme

__all__ = [
    "SCHEMES",
    "ClientLevelAdaptiveClip",
    "ClientLevelBufferedNoise",
    "ClientLevelCentral",
    "ClientLevelClientSide",
    "ClientLevelCorrelatedNoise",
    "ClientLevelDistributed",
    "ExampleLevelClientSide",
    "Party",
    "ProtectionLevel",
    "RoundRobinScheme",
    "Scheme",
    "register_scheme",
]
