"""The checker of certificates: the standalone program of the folder ``checker``, executed unchanged.

Each check executes the program's text in a new namespace. Threads cannot disturb each other, and the stated SHA-256 is
that of the executed bytes.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

MAX_BYTES = 1 << 16
FORMAT = "dp-certificate/1"


class Verdict(NamedTuple):
    """What the checker says of a certificate.

    Attributes:
        proven: whether it proves its claim.
        message: the checker's line; it begins with PROVEN or REFUSED.
        checker: SHA-256 of the checker's text.
    """

    proven: bool
    message: str
    checker: str


def check_certificate(content: bytes | str) -> Verdict:
    """Check a certificate with the standalone checker.

    Args:
        content: the file, of at most 64 KiB.

    Returns:
        A refusal for whatever is no certificate, or does not prove its claim; nothing is raised.

    >>> check_certificate("{}").message
    'REFUSED: an object must have the keys format, claim, proof, in order'
    """
    text = content.encode("utf-8", "replace") if isinstance(content, str) else content
    proven, message = open_checker()["judge"](text)
    return Verdict(bool(proven), str(message), _read()[1])


def find_checker(name: str) -> Path:
    """The path of a file of the standalone folder: inside an installed package, or at the root of a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "checker" / name
    return installed if installed.exists() else package.parents[1] / "checker" / name


def open_checker() -> dict[str, Any]:
    """Return the checker's functions in a new namespace, which also holds their precision."""
    namespace: dict[str, Any] = {"__name__": "dp_certificate"}
    exec(_read()[0], namespace)  # noqa: S102  (the package's own file)
    return namespace


@cache
def _read() -> tuple[CodeType, str]:
    """The program, and the hash of its text."""
    text = find_checker("dp_certificate.py").read_bytes()
    return compile(text, "dp_certificate.py", "exec"), hashlib.sha256(text).hexdigest()
