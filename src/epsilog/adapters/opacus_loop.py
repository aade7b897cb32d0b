"""Opacus: what a loop of its own will do, read off its optimizer and loader before it runs (opacus >= 1.6).

    model, optimizer, loader = PrivacyEngine().make_private(...)
    noise = ExponentialNoise(optimizer, gamma=0.99)
    found = preflight(setup_of(optimizer, loader, updates=3_000, schedulers=[(noise, 1_000)]), delta=1e-6)

What objects cannot show is for the caller to say: how often the loop steps, after how many batches, and how often it
steps its schedulers. A ``BatchMemoryManager`` splits batches, and draws none. Objects that no argument names are looked
for, too: a scheduler or a loss of this optimizer that would change its noise or its clip norm is refused.
"""

from __future__ import annotations

import copy
import gc
import inspect
import math
import sys
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from epsilog.plan import TrainingLoop
from epsilog.terms import CheckError, check

_COUPLED = ("DPOptimizer", "DistributedDPOptimizer")  # one attribute says where to clip and how much noise to add
_PER_LAYER = ("DPPerLayerOptimizer", "SimpleDistributedPerLayerOptimizer")
_GHOST = (
    "DPOptimizerFastGradientClipping",
    "DistributedDPOptimizerFastGradientClipping",
    "FSDPOptimizerFastGradientClipping",
)
_STEPS = ("step", "pre_step", "clip_and_accumulate", "accumulate", "add_noise", "scale_grad", "reduce_gradients")
_ROUNDED = 1e-5  # relatively: what float32 makes of a norm of norms


def read_training_loop(
    optimizer: Any,
    loader: Any,
    *,
    updates: int,
    accumulation: int = 1,
    sample_rate: float | None = None,
    schedulers: Iterable[tuple[Any, int]] = (),
) -> TrainingLoop:
    """Reads a loop off what ``make_private`` returned.

    Args:
        optimizer: a ``DPOptimizer``.
        loader: the ``DataLoader`` that the loop goes through, Opacus' own or any other.
        updates: noisy steps of the optimizer that the loop will take.
        accumulation: batches of the loader between two of them.
        sample_rate: what the accountant is told; blank for what ``make_private`` told it.
        schedulers: Opacus' schedulers of noise and of the clip norm that the loop steps, each with the number of
            updates between two of its steps. They are stepped in copies, in this order, on an object that holds the
            optimizer's noise multiplier and clip norm; what they call must answer the same in the run.

    Raises:
        CheckError: an optimizer that is not Opacus' own, or whose methods were replaced; a clip norm that adapts (its
            counts are released), or that is not the one that noise is scaled by; a scheduler of this optimizer that
            ``schedulers`` leaves out, or whose next value follows from anything else; a loader whose sampler is not
            known, or deals to another number of workers than the optimizer sums; steps that no accountant hears of.
    """
    kind = _kind(optimizer)
    examples = _rows(loader)
    updates = check.integer(1)(updates=updates)
    require_scaled_noise(optimizer)
    sampler, size, dealt, padded = _sampler(loader, examples)
    workers = check.integer(1)(world_size=getattr(optimizer, "world_size", dealt))
    if dealt not in (1, workers):
        raise CheckError("loader", f"dealt to the {workers} workers of the optimizer", f"{dealt}", verb="be")
    changes = _read_noise_schedule(optimizer, kind, schedulers, updates)
    return TrainingLoop(
        examples=examples,
        batch_size=size,
        updates=updates,
        noise_multiplier=_noise(optimizer),
        noise_changes=tuple(changes) or None,
        changed_noise=tuple(changes.values()) or None,
        sampler=sampler,
        workers=workers,
        own_shards=dealt == workers,
        padded_shards=padded,
        accumulation=accumulation,
        believed_rate=_read_sampling_rate(optimizer) if sample_rate is None else sample_rate,
        parameters=sum(one.numel() for one in optimizer.params if one.requires_grad) or None,
    )


def _kind(optimizer: Any) -> str:
    """The name of an optimizer's class, which must be Opacus' own."""
    kind = type(optimizer)
    known = kind.__name__ in (*_COUPLED, *_PER_LAYER, *_GHOST, "AdaClipDPOptimizer")
    if not known or not kind.__module__.startswith("opacus.optimizers"):
        raise CheckError("optimizer", "a DPOptimizer of Opacus, as make_private returns it", kind.__name__)
    for name in _STEPS:
        own = vars(optimizer).get(name)
        if own is not None and not getattr(own, "_wrapped_by_lr_sched", False):
            raise CheckError("optimizer", f"one with Opacus' own {name}", "a replaced one", verb="be")
    return kind.__name__


def _noise(optimizer: Any) -> float:
    return check.at_least(0)(noise_multiplier=optimizer.noise_multiplier)


def require_scaled_noise(optimizer: Any) -> None:
    """Refuses an optimizer of Opacus that clips to another norm than noise is scaled by, or to one that adapts.

    Where it adapts, Opacus 1.6 prices counts of a batch as if one example moved them by 1/2, and not by 1, and divides
    them by the size of the batch, which is private.

    Raises:
        CheckError: it is one of these.
    """
    kind = type(optimizer).__name__
    if not type(optimizer).__module__.startswith("opacus."):
        return
    if kind == "AdaClipDPOptimizer" or hasattr(optimizer, "target_unclipped_quantile"):
        raise CheckError("optimizer", "one with a fixed clip norm", kind)
    scale = check.positive()(max_grad_norm=optimizer.max_grad_norm)
    if kind in _PER_LAYER:
        norms = check.sequence_of(check.positive())(max_grad_norms=optimizer.max_grad_norms)
        _check_scale(scale, math.hypot(*norms))
    if kind not in _GHOST:
        return
    if hasattr(optimizer, "_adjusted_noise_multiplier"):
        raise CheckError("optimizer", "one with a fixed clip norm", "one whose loss adapts it", verb="be")
    losses = list(_alive("opacus.utils.fast_gradient_clipping_utils", ("DPLossFastGradientClipping",), optimizer))
    if not losses:
        raise CheckError("optimizer", "one whose loss (criterion) is held, since it clips", "no such loss", verb="be")
    for loss in losses:
        if hasattr(loss, "target_unclipped_quantile"):
            raise CheckError("optimizer", "one with a fixed clip norm", type(loss).__name__)
        _check_scale(scale, check.positive()(max_grad_norm=loss.module.max_grad_norm))


def _check_scale(scale: float, clip: float) -> None:
    if scale < clip * (1 - _ROUNDED):
        bound = f"at least the norm {clip:g} that gradients are clipped to, since it scales the noise"
        raise CheckError("max_grad_norm", bound, f"{scale:g}")


def _alive(module: str, names: tuple[str, ...], optimizer: Any) -> Iterator[Any]:
    """All objects of Opacus' classes that hold this optimizer."""
    home = sys.modules.get(module)
    kinds = tuple(getattr(home, name) for name in names if hasattr(home, name))
    for one in gc.get_objects():
        if issubclass(type(one), kinds) and vars(one).get("optimizer") is optimizer:
            yield one


def _read_noise_schedule(
    optimizer: Any, kind: str, schedulers: Iterable[tuple[Any, int]], updates: int
) -> dict[int, float]:
    """By updates done: the noise multiplier from then on, where it changes."""
    stated = [check.pair_of(check.instance_of(object), check.integer(1))(schedulers=one) for one in schedulers]
    home = ("opacus.schedulers", ("_NoiseScheduler", "_GradClipScheduler"), optimizer)
    alive = list(_alive(*home))
    for one in alive:
        if all(one is not each for each, _ in stated):
            raise CheckError(
                "schedulers", "all schedulers of the optimizer", f"none for {type(one).__name__}", verb="list"
            )
    stand_in = SimpleNamespace(
        noise_multiplier=_noise(optimizer), max_grad_norm=check.positive()(max_grad_norm=optimizer.max_grad_norm)
    )
    copies = []
    for scheduler, every in stated:
        if all(scheduler is not one for one in alive):
            bound = "schedulers of noise or clip norm (opacus.schedulers) that hold this optimizer"
            raise CheckError("schedulers", bound, type(scheduler).__name__, verb="list")
        copies.append((_copy_scheduler(scheduler, stand_in), every))
    found: dict[int, float] = {}
    before = stand_in.noise_multiplier
    due = sorted({done for _, every in copies for done in range(every, updates, every)})
    for done in due:
        for one, every in copies:
            if done % every == 0:
                _step(one)
        noise = check.at_least(0)(noise_multiplier=stand_in.noise_multiplier)
        clip = check.positive()(max_grad_norm=stand_in.max_grad_norm)
        if kind not in _COUPLED and clip != optimizer.max_grad_norm:
            bound = "no scheduler of the clip norm: this optimizer scales noise by it, and clips to another"
            raise CheckError("schedulers", bound, kind, verb="list")
        if noise != before:
            found[done] = before = noise
    return found


def _copy_scheduler(scheduler: Any, stand_in: SimpleNamespace) -> Any:
    own = copy.copy(scheduler)
    own.optimizer = stand_in
    try:
        return copy.deepcopy(own, {id(stand_in): stand_in})
    except Exception as error:
        raise CheckError("schedulers", "schedulers that can be copied", f"{error!r:.80}", verb="list") from error


def _step(scheduler: Any) -> None:
    try:
        scheduler.step()
    except Exception as error:
        bound = "schedulers whose values follow from steps, noise and clip norm alone"
        raise CheckError("schedulers", bound, f"{type(scheduler).__name__}: {error}", verb="list") from error


def _read_sampling_rate(optimizer: Any) -> float:
    """The sampling rate that ``make_private`` has told the accountant, which hears of each step."""
    hook = optimizer.step_hook
    told = inspect.getclosurevars(hook).nonlocals if inspect.isfunction(hook) else {}
    if "sample_rate" not in told or not hasattr(told.get("self"), "get_epsilon"):
        raise CheckError("sample_rate", "given where no accountant of Opacus hears of the optimizer's steps", "None")
    return check.in_unit_interval()(sample_rate=told["sample_rate"])


def _rows(loader: Any) -> int:
    try:
        return check.integer(1)(examples=len(loader.dataset))
    except (AttributeError, TypeError):
        raise CheckError("loader", "a DataLoader of a data set that has a length", type(loader).__name__) from None


def _sampler(loader: Any, examples: int) -> tuple[str, float, int, bool]:
    """How batches are drawn, how many examples one has on average, to how many workers, and if rows are repeated."""
    drawn, size = loader.batch_sampler, loader.batch_size
    while type(drawn).__name__ == "BatchSplittingSampler":  # BatchMemoryManager
        drawn = drawn.sampler
        size = getattr(drawn, "batch_size", None)
    workers = check.integer(1)(num_replicas=getattr(drawn, "num_replicas", 1))
    if type(drawn).__name__ in ("UniformWithReplacementSampler", "DistributedUniformWithReplacementSampler"):
        _check_rows(getattr(drawn, "total_size", drawn.num_samples), examples)
        return "poisson", check.in_unit_interval()(sample_rate=drawn.sample_rate) * examples / workers, workers, False
    if type(drawn).__name__ != "BatchSampler" or size is None:
        raise CheckError("loader", "one with a batch size, or Opacus' own sampler", type(drawn).__name__, verb="be")
    inner = drawn.sampler
    workers = check.integer(1)(num_replicas=getattr(inner, "num_replicas", 1))
    match type(inner).__name__:
        case "SequentialSampler":
            kind, rows = "in-order", len(inner)
        case "DistributedSampler":
            kind, rows = ("shuffled" if inner.shuffle else "in-order"), len(inner.dataset)
        case "RandomSampler" if inner.replacement:
            kind, rows = "with-replacement", len(inner.data_source)
        case "RandomSampler":
            kind, rows = "shuffled", len(inner)
        case "WeightedRandomSampler":
            kind, rows = "weighted", len(inner.weights)
        case name:
            raise CheckError("loader", "one whose sampler is known", name, verb="have")
    _check_rows(rows, examples)
    return (
        kind,
        float(min(check.integer(1)(batch_size=size), examples)),
        workers,
        workers > 1 and not getattr(inner, "drop_last", False),
    )


def _check_rows(rows: Any, examples: int) -> None:
    """Refuses a sampler of other rows than the data set's: of more, one may be in a batch twice."""
    if check.integer(0)(rows=rows) != examples:
        bound = f"one whose sampler goes through all {examples} examples, each once"
        raise CheckError("loader", bound, f"{rows}")
