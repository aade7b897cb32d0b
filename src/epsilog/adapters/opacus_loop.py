"""Opacus: what a loop of its own will do, read off its optimizer and loader before it runs (opacus >= 1.6).

    model, optimizer, loader = PrivacyEngine().make_private(...)
    found = preflight(setup_of(optimizer, loader, updates=3 * len(loader)), delta=1e-6)

What objects cannot show is for the caller to say: how often the loop steps, and after how many batches. A
``BatchMemoryManager`` splits batches, and draws none.
"""

from __future__ import annotations

from typing import Any

from epsilog.plan import TrainingSetup
from epsilog.terms import CheckError, check


def setup_of(
    optimizer: Any, loader: Any, *, updates: int, accumulation: int = 1, sample_rate: float | None = None
) -> TrainingSetup:
    """Reads a loop off what ``make_private`` returned.

    Args:
        optimizer: a ``DPOptimizer``.
        loader: the ``DataLoader`` that the loop goes through, Opacus' own or any other.
        updates: noisy steps of the optimizer that the loop will take.
        accumulation: batches of the loader between two of them.
        sample_rate: what the accountant is told; Opacus tells it 1 / len(loader) when it is blank.

    Raises:
        CheckError: an optimizer without noise of Opacus, or with a clip norm that adapts (its counts are released);
            a loader whose sampler is not known, or deals to another number of workers than the optimizer sums.
    """
    if not hasattr(optimizer, "noise_multiplier") or not hasattr(optimizer, "expected_batch_size"):
        raise CheckError("optimizer", "a DPOptimizer, as make_private returns it", type(optimizer).__name__)
    examples = check.integer(1)(examples=len(loader.dataset))
    if hasattr(optimizer, "target_unclipped_quantile"):
        raise CheckError("optimizer", "one with a fixed clip norm", type(optimizer).__name__)
    sampler, size, dealt, padded = _sampler(loader, examples)
    workers = int(getattr(optimizer, "world_size", dealt))
    if dealt not in (1, workers):
        raise CheckError("loader", f"dealt to the {workers} workers of the optimizer", f"{dealt}", verb="be")
    return TrainingSetup(
        examples=examples,
        batch_size=size,
        updates=updates,
        noise_multiplier=float(optimizer.noise_multiplier),
        sampler=sampler,
        workers=workers,
        own_shards=dealt == workers,
        padded_shards=padded,
        accumulation=accumulation,
        believed_rate=1 / len(loader) if sample_rate is None else sample_rate,
        parameters=sum(one.numel() for one in optimizer.params if one.requires_grad) or None,
    )


def _sampler(loader: Any, examples: int) -> tuple[str, float, int, bool]:
    """How batches are drawn, how many examples one has on average, to how many workers, and if rows are repeated."""
    drawn, size = loader.batch_sampler, loader.batch_size
    workers = int(getattr(drawn, "num_replicas", 1))
    if hasattr(drawn, "sample_rate"):  # Opacus' own: a coin for each example
        return "poisson", float(drawn.sample_rate) * examples / workers, workers, False
    inner = getattr(drawn, "sampler", loader.sampler)
    workers = int(getattr(inner, "num_replicas", 1))
    if size is None:
        raise CheckError("loader", "one with a batch size, or Opacus' own sampler", type(drawn).__name__, verb="be")
    match type(inner).__name__:
        case "SequentialSampler":
            kind = "in-order"
        case "DistributedSampler":
            kind = "shuffled" if inner.shuffle else "in-order"
        case "RandomSampler":
            kind = "with-replacement" if inner.replacement else "shuffled"
        case "WeightedRandomSampler":
            kind = "weighted"
        case name:
            raise CheckError("loader", "one whose sampler is known", name, verb="have")
    return kind, float(min(size, examples)), workers, workers > 1 and not getattr(inner, "drop_last", False)
