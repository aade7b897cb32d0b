"""The description of a DP-SGD loop, by its owner or from another library's objects; input of ``preflight``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from epsilog.numerics.rounding import round_down
from epsilog.terms import CheckError, check, fields
from epsilog.terms.fields import Field

SAMPLERS = {
    "poisson": "each example joins each batch by its own coin",
    "shuffled": "each epoch goes through all examples in a new random order",
    "in-order": "each epoch goes through all examples in the same order",
    "fixed-size": "each batch is drawn anew, without replacement",
    "with-replacement": "each place of each batch is drawn anew from all examples, all alike",
    "weighted": "each place of each batch is drawn anew, some examples more often than others",
}
NOISES = {
    "update": "once to the sum of everything that an update takes",
    "worker": "by each worker to its own sum",
    "batch": "to each batch of each worker",
}
CLIPS = {"example": "the gradient of each example", "microbatch": "the gradient of several examples together"}
DIVISORS = {"public": "a number fixed beforehand", "realised": "how many examples happened to be drawn"}

EPOCHS = ("shuffled", "in-order")
_MOST_LEVELS = 1000  # of noise in a run
_SUMMED = 4  # roundings of noise times a root over a count: three


@fields.document_fields
@dataclass(frozen=True, slots=True)
class TrainingLoop:
    """What a loop of DP-SGD does, as its configuration and its code say."""

    examples: Annotated[int, Field("number of examples in the training set; public", "n", ge=1)]
    batch_size: Annotated[float, Field("expected number of examples in a worker's batch", "B", gt=0)]
    updates: Annotated[int, Field("noisy steps of the optimizer", "T", ge=1)]
    noise_multiplier: Annotated[
        float,
        Field(
            "standard deviation of each noise sample on a gradient sum, divided by the clip norm",
            ge=0,
            rounding=check.DOWN,
        ),
    ]
    sampler: Annotated[str, Field("batch sampler", choices=SAMPLERS)] = "poisson"
    workers: Annotated[int, Field("number of processes that sample batches", "W", ge=1)] = 1
    own_shards: Annotated[bool, Field("whether each worker samples from its own shard")] = True
    padded_shards: Annotated[
        bool | None,
        Field("whether rows are repeated until shards have equal size", none_means="where epochs are dealt out"),
    ] = None
    accumulation: Annotated[int, Field("separately sampled batches of a worker in one update", "k", ge=1)] = 1
    noise_changes: Annotated[
        tuple[int, ...] | None, Field("updates after which the noise multiplier changes", ge=1, none_means="it stays")
    ] = None
    changed_noise: Annotated[
        tuple[float, ...] | None,
        Field("noise multiplier after each change", ge=0, none_means="it stays", rounding=check.DOWN),
    ] = None
    noise_added: Annotated[str, Field("where noise is added", choices=NOISES)] = "update"
    clipped: Annotated[str, Field("what is clipped to the norm", choices=CLIPS)] = "example"
    divisor: Annotated[str, Field("divisor of the sums", choices=DIVISORS)] = "public"
    max_batch_size: Annotated[
        int | None, Field("size to which a worker's Poisson sample is truncated", ge=1, none_means="no truncation")
    ] = None
    accountant_sampling_probability: Annotated[
        float | None,
        Field("sampling probability in the loop's own accountant", gt=0, le=1,
             none_means="examples of an update, divided by all examples"),
    ] = None  # fmt: skip
    accountant_updates: Annotated[
        int | None, Field("steps that the loop's own accountant counts", ge=1, none_means="the updates")
    ] = None
    accountant_noise_multiplier: Annotated[
        float | None,
        Field("noise multiplier in the loop's own accountant", ge=0,
             none_means="that of each update"),
    ] = None  # fmt: skip
    parameters: Annotated[int | None, Field("number of trained parameters", "d", ge=1, none_means="not checked")] = None

    def __post_init__(self) -> None:
        check.check_fields(self)
        check.integer(1, self.examples)(workers=self.workers)
        if self.max_batch_size is not None and self.sampler != "poisson":
            raise CheckError("max_batch_size", "left out where the sampler is not poisson", f"{self.max_batch_size}")
        self._check_changes()
        if self.rate >= 1 and self.batch_size > self.examples / (self.workers if self.own_shards else 1):
            raise CheckError("batch_size", "at most the examples that a worker draws from", f"{self.batch_size:g}")

    def _check_changes(self) -> None:
        steps, noise = self.noise_changes or (), self.changed_noise or ()
        if len(steps) != len(noise):
            raise CheckError("changed_noise", f"{len(steps)} values, one for each change", f"{len(noise)}", verb="hold")
        for before, step in zip((0, *steps), (*steps, self.updates), strict=True):
            if not before < step:
                bound = f"in rising order and below the {self.updates} updates"
                raise CheckError("noise_changes", bound, f"{steps!r:.80}")
        if len({self.noise_multiplier, *noise}) > _MOST_LEVELS:
            bound = f"at most {_MOST_LEVELS} different values"
            raise CheckError("changed_noise", bound, f"{len({*noise})}", verb="hold")

    @property
    def stages(self) -> tuple[tuple[int, float], ...]:
        """Updates in a row with one noise multiplier, and that multiplier, in their order."""
        ends = (*(self.noise_changes or ()), self.updates)
        noises = (self.noise_multiplier, *(self.changed_noise or ()))
        return tuple((end - begin, one) for begin, end, one in zip((0, *ends), ends, noises, strict=False))

    @property
    def least_noise(self) -> float:
        """Return the smallest noise multiplier of an update."""
        return min(noise for _, noise in self.stages)

    @property
    def expected_batch(self) -> float:
        """Examples that one update takes, on average, all workers and batches together; one may count several times."""
        return self.batch_size * self.workers * self.accumulation

    @property
    def pool(self) -> int:
        """Examples that one worker draws from, at most."""
        return -(-self.examples // self.workers) if self.own_shards else self.examples

    @property
    def smallest_pool(self) -> int:
        """Return the same of the worker that has least."""
        return self.examples // self.workers if self.own_shards else self.examples

    @property
    def places(self) -> int:
        """Examples in one batch of one worker where it has a size; what is not whole is rounded up."""
        return math.ceil(self.batch_size)

    @property
    def rate(self) -> float:
        """Return the chance that an example is in one batch that could hold it."""
        return min(self.batch_size / (self.examples / self.workers if self.own_shards else self.examples), 1.0)

    @property
    def repeated(self) -> bool:
        """Return whether an example may be in two parts: some are repeated, each once, until the parts are equal."""
        padded = self.sampler in EPOCHS if self.padded_shards is None else self.padded_shards
        return self.own_shards and padded and self.examples % self.workers != 0

    @property
    def draws(self) -> int:
        """Batches of one update that could hold the same example."""
        return self.accumulation * ((2 if self.repeated else 1) if self.own_shards else self.workers)

    @property
    def noise(self) -> float:
        """The least deviation of all noise on an update's sum, over what one example moves it by in one batch."""
        return self.get_summed_noise(self.least_noise)

    def get_summed_noise(self, noise_multiplier: float) -> float:
        """Return the same of an update with this noise multiplier."""
        drawings = {"update": 1, "worker": self.workers, "batch": self.workers * self.accumulation}[self.noise_added]
        moved = 2 if self.clipped == "microbatch" else 1
        return less(noise_multiplier, math.sqrt(drawings) / moved)

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> TrainingLoop:
        """Read names of fields with their values, as TOML and JSON have them.

        Raises:
            CheckError: a field that is unknown, missing or out of bounds.
        """
        return fields.parse_fields(cls, document)


def less(noise: float, factor: float) -> float:
    """Noise times a factor, and never more."""
    return noise if factor == 1 else round_down(noise * factor, _SUMMED)
