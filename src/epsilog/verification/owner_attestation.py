"""The owner attestation: software, statuses of the private checks, and the utility of a simulation; and canary scores.

Others cannot recompute it. It is written before the charge is committed, and the commit names its hash, so that the
owner cannot change it later. Canaries are synthetic units, and their scores are functions of released models, so that
publishing both costs no privacy. The plan states the hash of the canaries' secret before the first round.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

from epsilog.terms import Canaries, CheckError, Status, check

VERSION = 1
CUSTODY_CHECKS = ("custody", "norms", "participation")  # checks on custody.jsonl; their figures are never published
MADE = ("date", "commit", "engine", "generator")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
CONTROL_NOISE_RATIO = 0.7  # the control's share of the planned noise


@dataclass(frozen=True, slots=True)
class SimulatedUtility:
    """The utility figures of a simulation; never measured on private data of a real run.

    Attributes:
        score_name: the score, such as "R squared on the public test set".
        baseline_rounds: loss and score after each round without clipping and noise; both None if training diverged.
        study: (epsilon, noise multiplier, final loss, final score) for other budgets; likewise.
        further_pairs: final scores with and without DP at further seeds.
        control: the noise finding of a control run with noise 30% too low.
    """

    score_name: str
    baseline_rounds: tuple[tuple[float | None, float | None], ...] = ()
    study: tuple[tuple[float, float, float | None, float | None], ...] = ()
    control: dict[str, Any] = field(default_factory=dict)
    further_pairs: tuple[tuple[float | None, float | None], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        rounds = [{"round": i, "test_loss": a, "test_score": b} for i, (a, b) in enumerate(self.baseline_rounds, 1)]
        return {
            "score_name": self.score_name,
            "baseline_rounds": rounds,
            "study": [dict(zip(STUDIED, point, strict=True)) for point in self.study],
            "control": self.control,
            **({} if not self.further_pairs else {"further_pairs": [_pair(*each) for each in self.further_pairs]}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read the output of ``to_json``."""
        return cls(
            data["score_name"],
            tuple((point["test_loss"], point["test_score"]) for point in data["baseline_rounds"]),
            tuple(tuple(point[name] for name in STUDIED) for point in data["study"]),
            data["control"],
            tuple((pair["test_score"], pair["baseline_score"]) for pair in data.get("further_pairs", ())),
        )


def _pair(with_dp: float | None, without: float | None) -> dict[str, float | None]:
    return {"test_score": with_dp, "baseline_score": without}


STUDIED = ("epsilon", "noise_multiplier", "test_loss", "test_score")


@dataclass(frozen=True, slots=True)
class OwnerAttestation:
    """The owner attestation, with its hash in the commit.

    Attributes:
        software: versions of the software, by name.
        custody_checks: the status of each check on the curator's records; their figures stay with the curator.
        utility: the utility of a simulation; None for a real run.
        selected_settings: settings of the best trial; None for a single run, or without a selection.
        counts: noisy counts released with the model, each under a separate charge: name, key, value, error, lower,
            upper, charged.
        provenance: the run's date, the source's commit, the engine and the noise generator; empty in old attestations.
    """

    software: Mapping[str, str]
    custody_checks: Mapping[str, Status]
    utility: SimulatedUtility | None = None
    selected_settings: Mapping[str, Any] | None = None
    counts: tuple[Mapping[str, Any], ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.provenance and set(self.provenance) != set(MADE):
            raise CheckError("provenance", ", ".join(MADE), ", ".join(map(str, self.provenance)), verb="name")
        for name, value in self.provenance.items():
            check.text()(**{name: value})
        if self.provenance and not _DAY.fullmatch(self.provenance["date"]):
            raise CheckError("date", "a day as YYYY-MM-DD", repr(self.provenance["date"]))
        if set(self.custody_checks) != set(CUSTODY_CHECKS):
            raise CheckError(
                "custody_checks", f"{', '.join(CUSTODY_CHECKS)}", f"{', '.join(self.custody_checks)}", verb="name"
            )
        for name, verdict in self.custody_checks.items():
            check.instance_of(Status)(**{name: verdict})
        for name, version in self.software.items():
            check.text()(**{name: version})

    def to_json(self) -> dict[str, Any]:
        """Return the document that is stored and hashed."""
        return {
            "v": VERSION,
            "kind": "owner-attestation",
            "software": dict(self.software),
            "custody_checks": {name: verdict.value for name, verdict in self.custody_checks.items()},
            "utility": None if self.utility is None else self.utility.to_json(),
            **({} if self.selected_settings is None else {"selected_settings": dict(self.selected_settings)}),
            **({} if not self.provenance else {"provenance": dict(self.provenance)}),
            **({} if not self.counts else {"counts": [dict(each) for each in self.counts]}),
        }

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Read the output of ``to_json``."""
        expected = (VERSION, "owner-attestation")
        if not isinstance(document, dict) or (document.get("v"), document.get("kind")) != expected:
            raise ValueError(f"it must be a version {VERSION} owner attestation")
        utility = document["utility"]
        return cls(
            document["software"],
            {name: Status(verdict) for name, verdict in document["custody_checks"].items()},
            None if utility is None else SimulatedUtility.from_json(utility),
            None if document.get("selected_settings") is None else dict(document["selected_settings"]),
            tuple(dict(each) for each in document.get("counts", ())),
            dict(document.get("provenance", {})),
        )


CANARIES_VERSION, KIND = 0, "canaries"


@dataclass(frozen=True, slots=True)
class CanaryScores:
    """The secret and the scores of all canaries.

    Attributes:
        secret: as in ``terms.Canaries``; published after the last round.
        scores: one for each canary, included or not; higher for those that seem included.
    """

    secret: str
    scores: Annotated[tuple[float, ...], check.sequence_of(check.finite())]

    def __post_init__(self) -> None:
        check.check_fields(self)
        _ = self.canaries

    @property
    def canaries(self) -> Canaries:
        """Return the canaries that the secret determines."""
        return Canaries(len(self.scores), self.secret)

    def to_json(self) -> dict[str, Any]:
        """Return the document that is stored and hashed."""
        return {"v": CANARIES_VERSION, "kind": KIND, "secret": self.secret, "scores": list(self.scores)}

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Read the output of ``to_json``."""
        if not isinstance(document, dict) or (document.get("v"), document.get("kind")) != (CANARIES_VERSION, KIND):
            raise ValueError(f"it must be the version {CANARIES_VERSION} scores of canaries")
        return cls(document["secret"], tuple(document["scores"]))
