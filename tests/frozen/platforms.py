"""Whether this machine computes the same floating-point numbers as the one that wrote the records.

NumPy, SciPy and the C library choose their code by the processor (fused multiply-add, vector width), and versions
differ. So records are compared to the last bit only where a few evaluations of the functions behind them are equal.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from functools import cache
from pathlib import Path

import numpy as np
import scipy
from scipy import fft, special

PLATFORM = Path(__file__).parent / "data" / "platform.json"


@cache
def fingerprint() -> dict[str, str]:
    """Versions, and a hash of evaluations."""
    x = np.arange(1, 4097) / 64
    parts = [
        *(function(x) for function in (np.exp, np.log, np.log1p, np.sqrt, np.sin, np.cos, np.tanh)),
        *(np.exp(-x), np.expm1(-x), np.power(x, 1.7), np.exp(1j * x), np.log(x + 1j), x.sum(), np.cumsum(1 / x)),
        *(function(-x) for function in (special.log_ndtr, special.ndtr, special.erf, special.erfcx)),
        *(special.gammaln(x), special.ndtri(1 / (1 + x)), special.logsumexp(-x), special.betaln(x, 3.5)),
        *(special.i0e(x), special.kve(0.5, x), special.stdtr(3, -x)),
        *(fft.fft(np.exp(-x[:size])) for size in (16, 1000, 1024, 4093, 4096)),
        *(fft.irfft(fft.rfft(np.exp(-x[:size]))) for size in (512, 1001, 4096)),
        *(np.dot(x, x), (x.reshape(64, 64) / 100) @ x.reshape(64, 64), np.convolve(x[:99], x[:77])),
        *(np.array([function(each / 64) for each in range(1, 999)]) for function in (math.exp, math.log, math.erfc)),
        *(np.array([function(each / 64) for each in range(1, 999)]) for function in (math.expm1, math.lgamma)),
    ]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    return {
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "machine": sys.platform,
        "evaluations": digest.hexdigest(),
    }


@cache
def is_same_platform() -> bool:
    """Whether records must be equal to the last bit here."""
    return PLATFORM.exists() and json.loads(PLATFORM.read_text()) == fingerprint()


def save_platform() -> None:
    """Notes this platform as the one that wrote the records."""
    PLATFORM.write_text(json.dumps(fingerprint(), indent=1) + "\n")
    is_same_platform.cache_clear()
