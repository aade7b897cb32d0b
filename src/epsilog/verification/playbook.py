"""Map findings to the steps of an organization's playbook, a TOML file identified by its hash."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from epsilog.terms import CheckError, Finding, RecordError, Status
from epsilog.verification.files import read_file

_KEY = re.compile(r"[a-z]+(-[a-z]+)*(/[a-z]+(-[a-z]+)*)?")


@dataclass(frozen=True, slots=True)
class Playbook:
    """Steps by trigger: the code of a finding, or a check for any of its findings.

    Attributes:
        sha256: of the file, which identifies the version.
        steps: names of steps, by code or by check.
    """

    sha256: str
    steps: Mapping[str, tuple[str, ...]]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file with one table, [steps]: codes or checks, each with a step or a list of steps.

        Raises:
            RecordError: the file cannot be read, or is not TOML.
            CheckError: an invalid key or step.
        """
        content = read_file(path)
        try:
            document = tomllib.loads(content.decode("utf-8"))
        except ValueError as error:
            raise RecordError(f"{path.name} is not TOML: {error}") from error
        table = document.get("steps")
        if set(document) != {"steps"} or not isinstance(table, dict):
            raise CheckError("playbook", "one table, [steps]", ", ".join(document) or "nothing")
        return cls(hashlib.sha256(content).hexdigest(), {key: _parse_steps(key, value) for key, value in table.items()})

    def steps_for(self, finding: Finding) -> tuple[str, ...]:
        """Return the steps of a finding's code, else of its check; none if it passed."""
        if finding.status is Status.PASSED:
            return ()
        return self.steps.get(finding.code, self.steps.get(finding.check, ()))


def _parse_steps(key: str, value: Any) -> tuple[str, ...]:
    steps = [value] if isinstance(value, str) else value
    if not _KEY.fullmatch(key):
        raise CheckError("steps", "by code, as check/outcome, or by check", repr(key))
    if not isinstance(steps, list) or not steps or not all(isinstance(step, str) and step.strip() for step in steps):
        raise CheckError(f"steps.{key}", "the name of a step, or a list of such names", repr(value))
    return tuple(steps)
