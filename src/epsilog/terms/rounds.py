"""What a training round leaves behind, in two files: one for everybody, one for the curator.

``rounds.jsonl`` holds only public or released values. Noise is shown on *padding coordinates*: extra entries whose true
sum is 0, drawn in the same call as the real noise; noise that was added to real values is never stored, since
subtracting it would undo the privacy. ``custody.jsonl`` names who took part; whoever reads it gets only the unamplified
claim.
"""

from __future__ import annotations

from dataclasses import dataclass

from epsilog.terms import check


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """The public record of one round.

    Attributes:
        round: 1, 2, ...
        output_hash: SHA-256 of the released model, 64 hex digits; the ledger holds the same.
        noise_stddev: the standard deviation that was asked of the noise source.
        clip_norm: the norm bound that was enforced.
        padding: noise on the padding coordinates, in the order drawn.
        test_loss: loss on the public test set, outside the population.
        test_score: score on the public test set (R squared or accuracy, as the programme says).
    """

    round: int
    output_hash: str
    noise_stddev: float
    clip_norm: float
    padding: tuple[float, ...]
    test_loss: float
    test_score: float

    def __post_init__(self) -> None:
        check.integer(1, round=self.round)
        check.at_least(0, noise_stddev=self.noise_stddev)
        check.positive(clip_norm=self.clip_norm)
        for value in self.padding:
            check.finite(padding=value)


@dataclass(frozen=True, slots=True)
class CustodyRecord:
    """The curator's record of one round: never published.

    Attributes:
        round: 1, 2, ...
        participants: ids of the clients that took part.
        largest_norm: the largest norm after clipping (of updates, or of example gradients, as the scheme says).
        clipped_fraction: the share of them that clipping shortened.
    """

    round: int
    participants: tuple[int, ...]
    largest_norm: float
    clipped_fraction: float

    def __post_init__(self) -> None:
        check.integer(1, round=self.round)
        check.at_least(0, largest_norm=self.largest_norm)
        check.within(0, 1, clipped_fraction=self.clipped_fraction)
