"""Training schemes: one frozen description of the protection for plan, sampler, noise and verifier.

The server or the clients may add the noise. A report never says just "local": it names the scheme, and each scheme
states what each party sees. A scheme is a file here, and a file in ``training.schemes`` that computes its rounds. All
files of both folders are imported, so a new scheme is known by its kind everywhere.
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
