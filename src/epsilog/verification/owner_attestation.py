"""What only the owner can say of a run: the software, how the private checks ended, and a simulation's utility.

Nobody else can recompute these. They are written before the charge is committed, and the commit names their hash: the
owner cannot take them back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from epsilog.terms import CheckError, Status, check

VERSION = 0
CUSTODY_CHECKS = ("custody", "norms", "participation")  # checks on custody.jsonl, whose figures are never published
MADE = ("date", "commit", "engine", "generator")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
CONTROL_NOISE_RATIO = 0.7  # the control's share of the planned noise


@dataclass(frozen=True, slots=True)
class SimulatedUtility:
    """What a simulation shows beside the run: never measured on private data of a real run.

    Attributes:
        score_name: what the score is, e.g. "R squared on the public test set".
        without_dp: loss and score after each round without clip and noise; None each where training diverged.
        study: (epsilon, noise multiplier, final loss, final score) for other budgets; likewise.
        control: what the verifier said of a run whose noise was 30% too low.
    """

    score_name: str
    without_dp: tuple[tuple[float | None, float | None], ...] = ()
    study: tuple[tuple[float, float, float | None, float | None], ...] = ()
    control: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        bare = [{"round": i, "test_loss": a, "test_score": b} for i, (a, b) in enumerate(self.without_dp, 1)]
        return {
            "score_name": self.score_name,
            "without_dp": bare,
            "study": [dict(zip(STUDIED, point, strict=True)) for point in self.study],
            "control": self.control,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Reads what ``to_json`` wrote."""
        return cls(
            data["score_name"],
            tuple((point["test_loss"], point["test_score"]) for point in data["without_dp"]),
            tuple(tuple(point[name] for name in STUDIED) for point in data["study"]),
            data["control"],
        )


STUDIED = ("epsilon", "noise_multiplier", "test_loss", "test_score")


@dataclass(frozen=True, slots=True)
class OwnerAttestation:
    """The owner's word, bound by its hash in the commit.

    Attributes:
        software: versions of what ran, by name.
        private: how each check on the curator's records ended; their figures stay with the curator.
        utility: what a simulation shows beside the run; None for a real run.
        chosen: settings of the trial that was chosen as the best; None where one run was made, or none was chosen.
        counts: noisy counts that were released beside the model, each under a charge of its own: name, key, value,
            error, lower, upper, charged.
        made: the run's date, the source's commit, the engine and the noise generator; empty in older words.
    """

    software: Mapping[str, str]
    private: Mapping[str, Status]
    utility: SimulatedUtility | None = None
    chosen: Mapping[str, Any] | None = None
    counts: tuple[Mapping[str, Any], ...] = ()
    made: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.made and set(self.made) != set(MADE):
            raise CheckError("made", ", ".join(MADE), ", ".join(map(str, self.made)), verb="name")
        for name, value in self.made.items():
            check.text()(**{name: value})
        if self.made and not _DAY.fullmatch(self.made["date"]):
            raise CheckError("date", "a day as YYYY-MM-DD", repr(self.made["date"]))
        if set(self.private) != set(CUSTODY_CHECKS):
            raise CheckError("private", f"{', '.join(CUSTODY_CHECKS)}", f"{', '.join(self.private)}", verb="name")
        for name, verdict in self.private.items():
            check.instance_of(Status)(**{name: verdict})
        for name, version in self.software.items():
            check.text()(**{name: version})

    def to_json(self) -> dict[str, Any]:
        """The document that is stored and hashed."""
        return {
            "v": VERSION,
            "kind": "owner-word",
            "software": dict(self.software),
            "private": {name: verdict.value for name, verdict in self.private.items()},
            "utility": None if self.utility is None else self.utility.to_json(),
            **({} if self.chosen is None else {"chosen": dict(self.chosen)}),
            **({} if not self.made else {"made": dict(self.made)}),
            **({} if not self.counts else {"counts": [dict(each) for each in self.counts]}),
        }

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Reads what ``to_json`` wrote."""
        if not isinstance(document, dict) or (document.get("v"), document.get("kind")) != (VERSION, "owner-word"):
            raise ValueError(f"it must be a version {VERSION} owner's word")
        utility = document["utility"]
        return cls(
            document["software"],
            {name: Status(verdict) for name, verdict in document["private"].items()},
            None if utility is None else SimulatedUtility.from_json(utility),
            None if document.get("chosen") is None else dict(document["chosen"]),
            tuple(dict(each) for each in document.get("counts", ())),
            dict(document.get("made", {})),
        )
