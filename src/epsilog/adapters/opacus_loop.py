"""Read an Opacus training loop off its optimizer and loader before it runs (opacus >= 1.6).

    model, optimizer, loader = PrivacyEngine().make_private(...)
    noise = ExponentialNoise(optimizer, gamma=0.99)
    loop = read_training_loop(optimizer, loader, updates=3_000, schedulers=[(noise, 1_000)])
    found = preflight(loop, delta=1e-6)

The caller states what objects cannot show: how often the loop steps, after how many batches, and how often it steps its
schedulers. A ``BatchMemoryManager`` splits batches and draws none. Schedulers and losses of this optimizer that no
argument names are found, too, and refused if they would change its noise or its clip norm.
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
_ROUNDING = 1e-5  # relative rounding error of a float32 norm of norms


def read_training_loop(
    optimizer: Any,
    loader: Any,
    *,
    updates: int,
    accumulation: int = 1,
    sample_rate: float | None = None,
    schedulers: Iterable[tuple[Any, int]] = (),
) -> TrainingLoop:
    """Read a training loop off the objects that ``make_private`` returns.

    Args:
        optimizer: a ``DPOptimizer``.
        loader: the ``DataLoader`` of the loop, of Opacus or any other.
        updates: noisy steps of the optimizer that the loop will take.
        accumulation: batches of the loader between two updates.
        sample_rate: sampling probability that the accountant receives; None for the one that ``make_private`` set.
        schedulers: Opacus' schedulers of noise and clip norm that the loop steps, each with the number of updates
            between two of its steps. Copies are stepped in this order, on an object that holds the optimizer's noise
            multiplier and clip norm. Functions that a scheduler calls must return the same values in the run.

    Raises:
        CheckError: the optimizer is not one of Opacus, or a method was replaced. The clip norm adapts (its counts are
            released), or it is not the norm that scales the noise. ``schedulers`` lacks a scheduler of this optimizer,
            or a scheduler depends on anything else. The sampler is unknown, or its number of workers differs from that
            of the optimizer. No accountant counts the steps.
    """
    kind = _require_opacus_optimizer(optimizer)
    examples = _count_examples(loader)
    updates = check.integer(1)(updates=updates)
    require_scaled_noise(optimizer)
    sampler, size, shards, padded = _read_sampler(loader, examples)
    workers = check.integer(1)(world_size=getattr(optimizer, "world_size", shards))
    if shards not in (1, workers):
        raise CheckError("loader", f"dealt to the {workers} workers of the optimizer", f"{shards}", verb="be")
    changes = _read_noise_schedule(optimizer, kind, schedulers, updates)
    return TrainingLoop(
        examples=examples,
        batch_size=size,
        updates=updates,
        noise_multiplier=_read_noise(optimizer),
        noise_changes=tuple(changes) or None,
        changed_noise=tuple(changes.values()) or None,
        sampler=sampler,
        workers=workers,
        own_shards=shards == workers,
        padded_shards=padded,
        accumulation=accumulation,
        accountant_sampling_probability=_read_sampling_rate(optimizer) if sample_rate is None else sample_rate,
        parameters=sum(one.numel() for one in optimizer.params if one.requires_grad) or None,
    )


def _require_opacus_optimizer(optimizer: Any) -> str:
    """Return the name of the optimizer's class, which must be Opacus' own."""
    kind = type(optimizer)
    known = kind.__name__ in (*_COUPLED, *_PER_LAYER, *_GHOST, "AdaClipDPOptimizer")
    if not known or not kind.__module__.startswith("opacus.optimizers"):
        raise CheckError("optimizer", "a DPOptimizer of Opacus, as make_private returns it", kind.__name__)
    for name in _STEPS:
        own = vars(optimizer).get(name)
        if own is not None and not getattr(own, "_wrapped_by_lr_sched", False):
            raise CheckError("optimizer", f"one with Opacus' own {name}", "a replaced one", verb="be")
    return kind.__name__


def _read_noise(optimizer: Any) -> float:
    return check.at_least(0)(noise_multiplier=optimizer.noise_multiplier)


def require_scaled_noise(optimizer: Any) -> None:
    """Refuse an Opacus optimizer with a clip norm that adapts or is not the norm that scales the noise.

    With an adaptive norm, Opacus 1.6 accounts for counts of a batch as if one example changed them by 1/2 instead of 1.
    It also divides them by the batch size, which is private.

    Raises:
        CheckError: the optimizer is one of these.
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
        raise CheckError("optimizer", "one with a fixed clip norm", "one with a loss that adapts it", verb="be")
    losses = list(
        _find_live_objects("opacus.utils.fast_gradient_clipping_utils", ("DPLossFastGradientClipping",), optimizer)
    )
    if not losses:
        raise CheckError(
            "optimizer", "one with a loss (criterion) that is held, since it clips", "no such loss", verb="be"
        )
    for loss in losses:
        if hasattr(loss, "target_unclipped_quantile"):
            raise CheckError("optimizer", "one with a fixed clip norm", type(loss).__name__)
        _check_scale(scale, check.positive()(max_grad_norm=loss.module.max_grad_norm))


def _check_scale(scale: float, clip: float) -> None:
    if scale < clip * (1 - _ROUNDING):
        bound = f"at least the norm {clip:g} that gradients are clipped to, since it scales the noise"
        raise CheckError("max_grad_norm", bound, f"{scale:g}")


def _find_live_objects(module: str, names: tuple[str, ...], optimizer: Any) -> Iterator[Any]:
    """Yield every live object of these Opacus classes that holds this optimizer."""
    home = sys.modules.get(module)
    kinds = tuple(getattr(home, name) for name in names if hasattr(home, name))
    for one in gc.get_objects():
        if issubclass(type(one), kinds) and vars(one).get("optimizer") is optimizer:
            yield one


def _read_noise_schedule(
    optimizer: Any, kind: str, schedulers: Iterable[tuple[Any, int]], updates: int
) -> dict[int, float]:
    """Return each new noise multiplier by the number of updates before it."""
    stated = [check.pair_of(check.instance_of(object), check.integer(1))(schedulers=one) for one in schedulers]
    home = ("opacus.schedulers", ("_NoiseScheduler", "_GradClipScheduler"), optimizer)
    alive = list(_find_live_objects(*home))
    for one in alive:
        if all(one is not each for each, _ in stated):
            raise CheckError(
                "schedulers", "all schedulers of the optimizer", f"none for {type(one).__name__}", verb="list"
            )
    norm = check.positive()(max_grad_norm=optimizer.max_grad_norm)
    stand_in = SimpleNamespace(noise_multiplier=_read_noise(optimizer), max_grad_norm=norm)
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
                _step_scheduler(one)
        noise = _read_noise(stand_in)
        clip = check.positive()(max_grad_norm=stand_in.max_grad_norm)
        if kind not in _COUPLED and clip != norm:
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


def _step_scheduler(scheduler: Any) -> None:
    try:
        scheduler.step()
    except Exception as error:
        bound = "schedulers with values that depend on steps, noise and clip norm alone"
        raise CheckError("schedulers", bound, f"{type(scheduler).__name__}: {error}", verb="list") from error


def _read_sampling_rate(optimizer: Any) -> float:
    """Return the sampling probability that ``make_private`` set for the accountant, which counts each step."""
    hook = optimizer.step_hook
    held = inspect.getclosurevars(hook).nonlocals if inspect.isfunction(hook) else {}
    if "sample_rate" not in held or not hasattr(held.get("self"), "get_epsilon"):
        raise CheckError("sample_rate", "given where no accountant of Opacus counts the optimizer's steps", "None")
    return check.in_unit_interval()(sample_rate=held["sample_rate"])


def _count_examples(loader: Any) -> int:
    try:
        return check.integer(1)(examples=len(loader.dataset))
    except (AttributeError, TypeError):
        raise CheckError("loader", "a DataLoader of a data set that has a length", type(loader).__name__) from None


def _read_sampler(loader: Any, examples: int) -> tuple[str, float, int, bool]:
    """Return how batches are drawn, their mean size, the number of workers, and whether shards are padded."""
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
            kind, rows = ("shuffled" if check.boolean()(shuffle=inner.shuffle) else "in-order"), len(inner.dataset)
        case "RandomSampler" if check.boolean()(replacement=inner.replacement):
            kind, rows = "with-replacement", len(inner.data_source)
        case "RandomSampler":
            kind, rows = "shuffled", len(inner)
        case "WeightedRandomSampler":
            kind, rows = "weighted", len(inner.weights)
        case name:
            raise CheckError("loader", "one with a known sampler", name, verb="have")
    _check_rows(rows, examples)
    complete = check.boolean()(drop_last=getattr(inner, "drop_last", False))
    mean = float(min(check.integer(1)(batch_size=size), examples))
    return kind, mean, workers, workers > 1 and not complete


def _check_rows(rows: Any, examples: int) -> None:
    """Refuse a sampler of other rows than the data set's: with more rows, one may be in a batch twice."""
    if check.integer(0)(rows=rows) != examples:
        bound = f"one with a sampler of all {examples} examples, each once"
        raise CheckError("loader", bound, f"{rows}")
