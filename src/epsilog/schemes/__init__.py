"""Training schemes: one frozen description of the protection for plan, sampler, noise and verifier.

The server or the clients may add the noise. A report never says just "local": it names the scheme, and each scheme
states what each party sees. A scheme is a file here, and a file in ``training.schemes`` that computes its rounds. All
files of both folders are imported, so a new scheme is known by its kind everywhere.
"""

from importlib import import_module
from pkgutil import iter_modules

from epsilog.schemes.base import (
    SCHEMES as SCHEMES,
    LocalDPSGD,
    NoisyUpdate as NoisyUpdate,
    Party as Party,
    ProtectionLevel,
    RawUpdate as RawUpdate,
    Scheme,
    Upload as Upload,
    register_scheme,
    remove_protection as remove_protection,
)
from epsilog.schemes.client_level_adaptive_clip import ClientLevelAdaptiveClip
from epsilog.schemes.client_level_buffered_noise import ClientLevelBufferedNoise
from epsilog.schemes.client_level_central import ClientLevelCentral
from epsilog.schemes.client_level_correlated_noise import ClientLevelCorrelatedNoise
from epsilog.schemes.client_level_distributed import ClientLevelDistributed
from epsilog.schemes.client_side import ClientLevelClientSide, ExampleLevelClientSide
from epsilog.schemes.round_robin import RoundRobinScheme

__all__ = [
    "ClientLevelAdaptiveClip",
    "ClientLevelBufferedNoise",
    "ClientLevelCentral",
    "ClientLevelClientSide",
    "ClientLevelCorrelatedNoise",
    "ClientLevelDistributed",
    "ExampleLevelClientSide",
    "LocalDPSGD",
    "ProtectionLevel",
    "RoundRobinScheme",
    "Scheme",
    "register_scheme",
]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
