"""What made a run, for the owner's word: its date, the source's commit, the engine and the noise generator.

Nobody else can recompute these. They are noted when training begins, and stand in the owner's word before the commit.
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
TRANSPORTS = ("flwr",)  # what reaches clients elsewhere
UNKNOWN = "unknown"
AES, PHILOX = "AES-128 in counter mode, keyed by the operating system", "Philox, seeded"


def note_engine(folder: Path, framework: str, *, elsewhere: bool, seeded: bool) -> None:
    """Notes what is about to train, beside what an earlier process of the same run noted.

    Args:
        folder: of the run.
        framework: of the model, as ``Task.model`` names it.
        elsewhere: whether clients compute elsewhere, over a framework that is loaded.
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
    """Versions by name of what ran; of a run that went on with another version, each."""
    noted = _read_notes(folder).get("software", {})
    return {name: _version(name) for name in BASE} | {name: ", ".join(each) for name, each in noted.items()}


def describe_provenance(folder: Path) -> dict[str, str]:
    """When the run was closed (a day, UTC), from which commit of the source, and what trained and drew its noise."""
    noted = _read_notes(folder)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": source_commit(),
        "engine": "; ".join(noted.get("engine", ())) or UNKNOWN,
        "generator": "; ".join(noted.get("generator", ())) or UNKNOWN,
    }


def source_commit() -> str:
    """The commit that epsilog was installed from, or that its checkout is at; "unknown" where nothing says."""
    try:
        told = json.loads(metadata.distribution("epsilog").read_text("direct_url.json") or "{}")
        if commit := told.get("vcs_info", {}).get("commit_id"):
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
    """What Git says of a folder; None where it says nothing, or is not here."""
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
    """Both notes, each value once."""
    listed = {name: _each(one.get(name, ()), two[name]) for name in ("engine", "generator")}
    old, new = one.get("software", {}), two["software"]
    return listed | {"software": {name: _each(old.get(name, ()), new.get(name, ())) for name in {**old, **new}}}


def _each(*parts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(value for part in parts for value in part))


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return UNKNOWN
