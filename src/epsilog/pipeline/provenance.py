"""The provenance of a run for the owner attestation: date, source commit, engine and noise generator.

Others cannot recompute these. They are noted when training begins, and attested before the commit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from epsilog.pipeline.preparation import write_json
from epsilog.terms import RunArtifact, codec

BASE = ("epsilog", "numpy", "scipy")
FRAMEWORKS = {"jax": ("jax", "jaxlib"), "torch": ("torch",)}
TRANSPORTS = ("flwr",)  # packages that reach remote clients
UNKNOWN = "unknown"
AES, PHILOX = "AES-128 in counter mode, keyed by the operating system", "Philox, seeded"


def note_engine(folder: Path, framework: str, *, elsewhere: bool, seeded: bool) -> None:
    """Note the engine of this process, after those of earlier processes of the same run.

    Args:
        folder: the folder of the run.
        framework: of the model, as in ``Task.model``.
        elsewhere: whether clients compute remotely, through a framework that is loaded.
        seeded: whether the noise comes from a seed.
    """
    reached = [name for name in TRANSPORTS if elsewhere and name in sys.modules]
    noise = "numpy" if seeded else "randomgen"
    now = {
        "engine": [" over ".join([framework, *reached])],
        "generator": [f"{PHILOX if seeded else AES} ({noise} {_version(noise)})"],
        "software": {name: [_version(name)] for name in (*FRAMEWORKS.get(framework, ()), *reached, noise)},
    }
    write_json(folder / RunArtifact.SOFTWARE, _merge_notes(_read_notes(folder), now))


def software(folder: Path) -> dict[str, str]:
    """Return the versions of the software by name; all of them if a run was resumed with another version."""
    noted = _read_notes(folder).get("software", {})
    return {name: _version(name) for name in BASE} | {name: ", ".join(each) for name, each in noted.items()}


def describe_provenance(folder: Path) -> dict[str, str]:
    """Return the day of the commit (UTC), the source commit, the engine and the noise generator of a run."""
    noted = _read_notes(folder)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": source_commit(),
        "engine": "; ".join(noted.get("engine", ())) or UNKNOWN,
        "generator": "; ".join(noted.get("generator", ())) or UNKNOWN,
    }


def source_commit() -> str:
    """Return the commit that epsilog was installed from or is checked out at; "unknown" without one."""
    try:
        origin = json.loads(metadata.distribution("epsilog").read_text("direct_url.json") or "{}")
        if commit := origin.get("vcs_info", {}).get("commit_id"):
            return str(commit)
    except (ValueError, AttributeError, metadata.PackageNotFoundError):
        return UNKNOWN
    package = Path(__file__).resolve().parents[1]
    top = _git(package, "rev-parse", "--show-toplevel")
    if top is None or (Path(top) / "src" / "epsilog").resolve() != package:
        return UNKNOWN
    changed = _git(package, "status", "--porcelain", "--untracked-files=no", "--", str(package))
    commit = _git(package, "rev-parse", "HEAD")
    return UNKNOWN if commit is None else f"{commit}{', with changes' if changed else ''}"


def _git(folder: Path, *words: str) -> str | None:
    """Return the output of Git in a folder; None if Git fails or is not installed."""
    command = ["git", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _read_notes(folder: Path) -> dict[str, Any]:
    file = folder / RunArtifact.SOFTWARE
    found: dict[str, Any] = codec.parse_json(file.read_bytes()) if file.exists() else {}
    return found


def _merge_notes(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    """Return the union of two notes."""
    listed = {name: _unique(one.get(name, ()), two[name]) for name in ("engine", "generator")}
    old, new = one.get("software", {}), two["software"]
    return listed | {"software": {name: _unique(old.get(name, ()), new.get(name, ())) for name in {**old, **new}}}


def _unique(*parts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(value for part in parts for value in part))


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return UNKNOWN
