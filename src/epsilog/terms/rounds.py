"""The records of a training round, in two files: one public, one for the curator.

``rounds.jsonl`` holds only public or released values. Noise is shown on *padding coordinates*: extra entries with true
sum 0, drawn in the same call as the real noise. Noise that was added to real values is never stored, because
subtracting it would undo the privacy. ``custody.jsonl`` names the participants, so its reader gets only the unamplified
claim. A commitment to it is published; ``custody.key`` opens it. The curator keeps the secret of the canaries until the
last round is released.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from epsilog.terms import check, codec, fields
from epsilog.terms.check import LARGEST_INTEGER
from epsilog.terms.disclosed import Private
from epsilog.terms.errors import CheckError
from epsilog.terms.fields import Field


class RunArtifact(StrEnum):
    """The files of a run's folder, by what they hold."""

    PLAN = "plan.json"
    ROUNDS = "rounds.jsonl"
    CUSTODY = "custody.jsonl"
    KEY = "custody.key"
    OWNER = "owner.json"
    CANARIES = "canaries.json"
    SECRET = "canaries.secret"  # noqa: S105 - a file's name
    CERTIFICATE = "certificate.json"
    MODEL = "model.npz"
    REPORT = "report.json"
    PAGE = "report.html"
    SOFTWARE = "software.json"  # what trained, noted for owner.json


COMMITMENT = "custody.commitment"
"""What a commit calls the keyed digest of ``custody.jsonl``: HMAC-SHA-256 under ``custody.key``."""


@fields.term("round")
class RoundRecord:
    """The public record of one round."""

    round: Annotated[int, Field("1, 2, ...", ge=1)]
    output_hash: Annotated[str, Field("SHA-256 of the released model, 64 hex digits; the ledger holds the same")]
    noise_stddev: Annotated[float, Field("the standard deviation that was asked of the noise source", ge=0)]
    clip_norm: Annotated[float, Field("the norm bound that was enforced", gt=0)]
    padding: Annotated[tuple[float, ...], Field("noise on the padding coordinates, in the order drawn")]
    test_loss: Annotated[
        float | None,
        Field(
            "loss on the public test set, outside the population", none_means="it is not finite, or nothing is scored"
        ),
    ]
    test_score: Annotated[
        float | None, Field("score on the public test set (R squared or accuracy)", none_means="as of the loss")
    ]
    unclipped: Annotated[
        float | None,
        Field("the noisy share of updates within the clip norm", none_means="the scheme does not ask"),
    ] = None
    diverged: Annotated[
        bool,
        Field("whether the released model, or its loss on the public test set, is not finite; training ends there"),
    ] = False
    aborted: Annotated[
        bool, Field("whether too few replied for the planned noise: nothing was seen, and the model did not change")
    ] = False

    def __post_init__(self) -> None:
        check.check_fields(self)
        if (self.test_loss is None) != (self.test_score is None):
            raise ValueError(f"test_loss and test_score must both be there or neither, got {self.test_score!r}")
        if self.diverged and self.test_loss is not None:
            raise CheckError("test_loss", "absent where training diverged", repr(self.test_loss))
        if self.aborted and self.padding:
            raise CheckError("padding", "absent where a round was given up", f"{len(self.padding)} values")


@codec.register_term("custody")
@fields.document_fields
@dataclass(frozen=True, slots=True, repr=False)
class CustodyRecord(Private):
    """The curator's record of one round: never published."""

    round: Annotated[int, Field("1, 2, ...", ge=1)]
    participants: Annotated[tuple[int, ...], Field("ids of the clients that took part", ge=-LARGEST_INTEGER)]
    largest_norm: Annotated[
        float | None,
        Field("the largest norm after clipping, of updates or example gradients", ge=0, none_means="clients clip"),
    ]
    clipped_fraction: Annotated[float, Field("the share of them that clipping shortened", ge=0, le=1)]
    non_finite_updates: Annotated[
        int, Field("how many of them were not finite, or had no finite norm, and counted as zero")
    ] = 0
    unusable_rows: Annotated[
        int, Field("rows of the participants that no step could use: a value not finite, or a label of no class")
    ] = 0
    non_responders: Annotated[int, Field("participants without a readable reply; each counted as a zero update")] = 0
    withdrawn: Annotated[
        tuple[int, ...],
        Field("ids of drawn clients that have withdrawn; their places stay empty", ge=-LARGEST_INTEGER),
    ] = ()

    __hash__ = Private.__hash__

    @property
    def drawn(self) -> tuple[int, ...]:
        """Whom the sampler picked, whether they have withdrawn or not."""
        return self.participants + self.withdrawn

    def __post_init__(self) -> None:
        check.check_fields(self)


def record_line(record: RoundRecord | CustodyRecord) -> bytes:
    """One line of the file that a record belongs in: canonical JSON and a newline."""
    document = codec.private_json(record) if isinstance(record, Private) else codec.to_json(record)
    return codec.encode_canonical(document) + b"\n"
