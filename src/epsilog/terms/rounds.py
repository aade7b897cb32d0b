"""What a training round leaves behind, in two files: one for everybody, one for the curator.

``rounds.jsonl`` holds only public or released values. Noise is shown on *padding coordinates*: extra entries whose true
sum is 0, drawn in the same call as the real noise; noise that was added to real values is never stored, since
subtracting it would undo the privacy. ``custody.jsonl`` names who took part; whoever reads it gets only the unamplified
claim. A commitment to it is published, which ``custody.key`` opens. What everything about canaries follows from is the
curator's until the last round is released.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from epsilog.terms import check, codec
from epsilog.terms.disclosed import Private
from epsilog.terms.errors import CheckError


class RunFile(StrEnum):
    """The files of a run's folder, by what they hold."""

    PLAN = "plan.json"
    ROUNDS = "rounds.jsonl"
    CUSTODY = "custody.jsonl"
    KEY = "custody.key"
    OWNER = "owner.json"
    CANARIES = "canaries.json"
    SECRET = "canaries.secret"  # noqa: S105 - a file's name
    MODEL = "model.npz"
    REPORT = "report.json"
    PAGE = "report.html"
    SOFTWARE = "software.json"  # what trained, noted for owner.json


COMMITMENT = "custody.commitment"
"""What a commit calls the keyed digest of ``custody.jsonl``: HMAC-SHA-256 under ``custody.key``."""


@codec.term("round")
@dataclass(frozen=True, slots=True)
class RoundRecord:
    """The public record of one round.

    Attributes:
        round: 1, 2, ...
        output_hash: SHA-256 of the released model, 64 hex digits; the ledger holds the same.
        noise_stddev: the standard deviation that was asked of the noise source.
        clip_norm: the norm bound that was enforced.
        padding: noise on the padding coordinates, in the order drawn.
        test_loss: loss on the public test set, outside the population; None where the released model has no finite one,
            or nothing is scored.
        test_score: score on the public test set (R squared or accuracy, as the programme says); None likewise.
        unclipped: the noisy share of updates that were within the clip norm; None where the scheme does not ask.
        diverged: whether the released model, or its loss on the public test set, is not finite: training ends there.
        given_up: whether too few replied for the planned noise: nothing was seen, and the model is the one before.
    """

    round: int
    output_hash: str
    noise_stddev: float
    clip_norm: float
    padding: tuple[float, ...]
    test_loss: float | None
    test_score: float | None
    unclipped: float | None = None
    diverged: bool = False
    given_up: bool = False

    def __post_init__(self) -> None:
        check.fields(
            self,
            round=check.integer(1),
            output_hash=check.text(),
            noise_stddev=check.at_least(0),
            clip_norm=check.positive(),
            padding=check.each(check.finite()),
            test_loss=check.optional(check.finite()),
            test_score=check.optional(check.finite()),
            unclipped=check.optional(check.finite()),
            diverged=check.flag(),
            given_up=check.flag(),
        )
        if (self.test_loss is None) != (self.test_score is None):
            raise ValueError(f"test_loss and test_score must both be there or neither, got {self.test_score!r}")
        if self.diverged and self.test_loss is not None:
            raise CheckError("test_loss", "absent where training diverged", repr(self.test_loss))
        if self.given_up and self.padding:
            raise CheckError("padding", "absent where a round was given up", f"{len(self.padding)} values")


@codec.term("custody")
@dataclass(frozen=True, slots=True, repr=False)
class CustodyRecord(Private):
    """The curator's record of one round: never published.

    Attributes:
        round: 1, 2, ...
        participants: ids of the clients that took part.
        largest_norm: the largest norm after clipping (of updates, or of example gradients, as the scheme says); None
            where clients clip elsewhere and nobody else sees a norm.
        clipped_fraction: the share of them that clipping shortened.
        dropped: how many of them were not finite, or had no finite norm, and counted as zero.
        unusable_rows: rows of the participants that no step could use: a value not finite, or a label of no class.
        silent: participants from whom nothing came that could be read; each counted as a zero update.
        withdrawn: ids of clients that were drawn and left out, since they have withdrawn; their places stay empty.
    """

    round: int
    participants: tuple[int, ...]
    largest_norm: float | None
    clipped_fraction: float
    dropped: int = 0
    unusable_rows: int = 0
    silent: int = 0
    withdrawn: tuple[int, ...] = ()

    __hash__ = Private.__hash__

    @property
    def drawn(self) -> tuple[int, ...]:
        """Whom the sampler picked, whether they have withdrawn or not."""
        return self.participants + self.withdrawn

    def __post_init__(self) -> None:
        check.fields(
            self,
            round=check.integer(1),
            participants=check.each(check.integer(-check.LARGEST_INTEGER)),
            largest_norm=check.optional(check.at_least(0)),
            clipped_fraction=check.within(0, 1),
            dropped=check.integer(0),
            unusable_rows=check.integer(0),
            silent=check.integer(0),
            withdrawn=check.each(check.integer(-check.LARGEST_INTEGER)),
        )


def record_line(record: RoundRecord | CustodyRecord) -> bytes:
    """One line of the file that a record belongs in: canonical JSON and a newline."""
    document = codec.private_json(record) if isinstance(record, Private) else codec.to_json(record)
    return codec.canonical(document) + b"\n"
