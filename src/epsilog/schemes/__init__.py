"""How a federated run protects people: one frozen description that drives plan, sampler, noise and verifier alike.

The server may add the noise, or the clients. A certificate never says just "local": it names the scheme, and every
scheme says who sees what. A scheme is one file here and one in ``training.schemes`` that computes its rounds; both
folders are read whole, so a new file is known by its kind everywhere.
"""

from importlib import import_module
from pkgutil import iter_modules

from epsilog.schemes.base import (
    SCHEMES,
    LocalDPSGD,
    NoisyUpdate,
    Party,
    ProtectionLevel,
    RawUpdate,
    Scheme,
    Upload,
    register_scheme,
    remove_protection,
)
from epsilog.schemes.client_level_adaptive_clip import ClientLevelAdaptiveClip
from epsilog.schemes.client_level_buffered_noise import ClientLevelBufferedNoise
from epsilog.schemes.client_level_central import ClientLevelCentral
from epsilog.schemes.client_level_correlated_noise import ClientLevelCorrelatedNoise
from epsilog.schemes.client_level_distributed import ClientLevelDistributed
from epsilog.schemes.client_side import ClientLevelClientSide, ExampleLevelClientSide
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
    "LocalDPSGD",
    "NoisyUpdate",
    "Party",
    "ProtectionLevel",
    "RawUpdate",
    "RoundRobinScheme",
    "Scheme",
    "Upload",
    "register_scheme",
    "remove_protection",
]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
