"""Convert histories of Opacus, and provide a certified accountant and DP-SGD at a site (opacus >= 1.6).

    from epsilog.adapters.opacus import register
    register()
    engine = PrivacyEngine(accountant="epsilog")

An Opacus history lists (noise multiplier, sample rate, steps). Every step is a Poisson-sampled Gaussian on examples,
under add-or-remove-one. Histories are read and written without PyTorch.

For a client that trains locally (``training.site``), ``run_dp_sgd`` is DP-SGD on per-example gradients by Opacus.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog import accounting
from epsilog.adapters import make_class_on_demand
from epsilog.adapters.opacus_loop import require_scaled_noise
from epsilog.mechanisms import Composed, Gaussian, PoissonSampled, Release, Repeated
from epsilog.mechanisms.composition import flatten
from epsilog.schemes import LocalDPSGD
from epsilog.terms import CheckError, Interval, UnsupportedMechanismError, check
from epsilog.training import LocalTraining, Randomness
from epsilog.training.engines import compute_gradients_or_nan, sum_clipped_examples
from epsilog.training.models import (
    ROWS,
    ROWS_APART,
    call_user_code,
    reject_cross_row_layers,
    require_deterministic_per_row,
)

MECHANISM = "epsilog"
LOUD = 1e6  # factor by which the other synthetic rows are larger

History = list[tuple[float, float, int]]
Run = Callable[[NDArray[np.float64], LocalDPSGD, LocalTraining], NDArray[np.float64]]
"""(model, runs, training) -> model update: the ``noisy_run`` of ``training.site.make_function_site_engine``."""


def from_history(history: Iterable[tuple[float, float, int]]) -> Release:
    """Convert a history: triples of noise multiplier, sample rate (a probability) and steps.

    Raises:
        CheckError: an entry describes no Poisson-sampled Gaussian, such as a sample rate above 1.

    >>> from_history([(1.0, 0.01, 300)]).releases[0].count
    300
    """
    read: History = []
    _extend(read, history)
    return Composed(Repeated(PoissonSampled(Gaussian(noise), rate), steps) for noise, rate, steps in read)


def to_history(release: Release) -> History:
    """Convert a release to a history in which equal steps are one entry.

    Raises:
        UnsupportedMechanismError: a part is neither a Gaussian nor a Poisson-sampled one.

    >>> to_history(Repeated(PoissonSampled(Gaussian(1.0), 0.01), 300))
    [(1.0, 0.01, 300)]
    """
    history = []
    for part, steps in flatten(release).items():
        if (step := part.sampled_gaussian) is None:
            raise UnsupportedMechanismError(part, method="an Opacus history")
        history.append((*step, steps))
    return history


def register() -> None:
    """Register the accountant for ``PrivacyEngine(accountant="epsilog")`` and ``get_noise_multiplier``."""
    from opacus.accountants import register_accountant

    register_accountant(MECHANISM, __getattr__("CertifiedAccountant"), force=True)


def run_dp_sgd(
    module: Any, loss: Callable[[Any, Any], Any], features: Any, targets: Any, *, ids: int | None = None
) -> Run:
    """Return DP-SGD on the rows of a site, for ``make_function_site_engine``; Opacus computes the gradients.

    It supports the layers that Opacus supports, recurrent ones included. Sampling, clipping and noise are ours: random
    bits from the operating system, norms and sums in doubles. The module is copied and tried on synthetic rows. An
    example on which it fails later counts as zero.

    Args:
        module: a ``torch.nn.Module`` in training mode; its parameters that require a gradient are the model, in order.
            The output for a row depends on no other row and is deterministic, and no ``if`` depends on values of rows.
        loss: maps outputs and targets to one number per example (``reduction="none"``).
        features: the rows of the site, a tensor of shape (n, ...).
        targets: shape (n, ...).
        ids: number of ids, if every feature is a whole number from 0 (the id of a word or of an item).

    Raises:
        CheckError: Opacus does not support the module, or a row has no gradient that depends on this row alone.
    """
    module = copy.deepcopy(module)
    _require_own_gradients(module, loss, features, targets, ids)

    def run(model: NDArray[np.float64], runs: LocalDPSGD, training: LocalTraining) -> NDArray[np.float64]:
        net = copy.deepcopy(module)
        parameters = _list_trainable(net)
        if sum(one.numel() for one in parameters) != model.size:
            raise CheckError("module", f"one of {model.size} parameters", f"{sum(p.numel() for p in parameters)}")
        draws, start = Randomness.from_os(), _fill_parameters(parameters, model)
        step_size = training.learning_rate / (runs.batch_probability * training.expected_examples)
        here, formed = start, partial(_gradients, net, loss)
        for _ in range(runs.steps):
            joined = draws.stream("batches", 0).coins((len(features),), runs.batch_probability)
            total = runs.noise_stddev * draws.stream("noise", 0).normals((model.size,))
            if joined.any():
                each = compute_gradients_or_nan(formed, features[joined], targets[joined], size=model.size)
                total += sum_clipped_examples(each, runs.clip_norm).total
            here = _fill_parameters(parameters, here - step_size * total)
        return here - start

    return run


def _gradients(module: Any, loss: Callable[[Any, Any], Any], features: Any, targets: Any) -> NDArray[np.floating[Any]]:
    """Return the gradient of each example; shape (n, d)."""
    return _compute_rows(module, loss, features, targets)["gradient"]


def _compute_rows(
    module: Any, loss: Callable[[Any, Any], Any], features: Any, targets: Any
) -> dict[str, NDArray[np.floating[Any]]]:
    """Return outputs, losses and gradients of rows, from a copy of the module, so that no state carries over."""
    net, count = _list_hooked(module), len(features)
    outputs = net(features)
    losses = _losses(loss, outputs, targets)
    with warnings.catch_warnings():  # gradients with respect to the rows are not needed
        warnings.filterwarnings("ignore", "Full backward hook is firing")
        losses.sum().backward()
    each = [one.grad_sample for one in _list_trainable(net)]
    for one, held in zip(each, _list_trainable(net), strict=True):
        found = tuple(getattr(one, "shape", ()))
        if found != (count, *held.shape):
            bound = "a gradient of each row for each parameter (in train(), rows first)"
            raise CheckError("module", bound, f"shape {found}", verb="have")
    flat = [one.reshape(count, -1).numpy() for one in each]
    seen = {"module": outputs, "loss": losses}
    return {name: one.detach().numpy() for name, one in seen.items()} | {"gradient": np.concatenate(flat, axis=1)}


def _list_hooked(module: Any) -> Any:
    from opacus import GradSampleModule

    return GradSampleModule(copy.deepcopy(module), loss_reduction="sum")


def _list_trainable(module: Any) -> list[Any]:
    return [one for one in module.parameters() if one.requires_grad]


def _losses(loss: Callable[[Any, Any], Any], outputs: Any, targets: Any) -> Any:
    """Return the loss of each example; shape (n,)."""
    losses = loss(outputs, targets)
    if losses.shape != (len(targets),):
        raise CheckError("loss", "one number for each example", f"shape {tuple(losses.shape)}", verb="give")
    return losses


def _require_own_gradients(
    module: Any, loss: Callable[[Any, Any], Any], features: Any, targets: Any, ids: int | None
) -> None:
    """Try a module on synthetic rows, with its parameters and with others; of the data, only shape and type are read.

    The other rows have the same scale or a million times that, so that slight mixing of rows shows, too.
    """
    import torch

    if not isinstance(module, torch.nn.Module) or not _list_trainable(module):
        raise CheckError("module", "a torch.nn.Module with a parameter to train", f"a {type(module).__name__}")
    if len(features) != len(targets):
        raise CheckError("targets", "one for each row of features", "another number of them")
    reject_cross_row_layers(module)
    call_user_code("module", "be one that Opacus has gradients of examples for", lambda: _list_hooked(module))
    draws = np.random.Generator(np.random.Philox(key=1))
    rows, others = (_made_up(features, ids, draws) for _ in range(2))
    goals, other_goals = (_made_up(targets, None if targets.is_floating_point() else 2, draws) for _ in range(2))
    others[0], other_goals[0] = rows[0], goals[0]
    loud = others.clone()
    loud[1:] *= 1 if ids is not None else LOUD
    moved = copy.deepcopy(module)
    with torch.no_grad():
        for one in _list_trainable(moved):
            one.add_(0.1 * torch.from_numpy(draws.standard_normal(one.shape)).to(one.dtype))
    for net in (module, moved):
        for beside in (others, loud):
            require_deterministic_per_row(partial(_tried_on, net, loss), (rows, goals), (beside, other_goals))
        _require_no_slope(net, loss, rows, goals)
        _require_no_questions(net, loss, rows, goals)


def _tried_on(module: Any, loss: Callable[[Any, Any], Any], features: Any, targets: Any) -> Any:
    compute = partial(_compute_rows, module, loss, features, targets)
    return call_user_code("module", "have a gradient for each row (Opacus)", compute)


def _made_up(like: Any, ids: int | None, draws: np.random.Generator) -> Any:
    """Return synthetic rows of the same shape and type: real numbers, or whole ones below ``ids``."""
    import torch

    shape = (ROWS, *like.shape[1:])
    if ids is None and not like.is_floating_point():
        raise CheckError("ids", "given where features are whole numbers", "None")
    drawn = draws.standard_normal(shape) if ids is None else draws.integers(0, ids, shape)
    return torch.from_numpy(np.asarray(drawn)).to(like.dtype)


def _require_no_slope(module: Any, loss: Callable[[Any, Any], Any], features: Any, targets: Any) -> None:
    """Refuse a module in which the loss of one row has a gradient with respect to another, however small."""
    import torch

    if not features.is_floating_point():
        return
    features = features.clone().requires_grad_()
    first = _losses(loss, copy.deepcopy(module)(features), targets)[0]
    (slope,) = torch.autograd.grad(first, features, allow_unused=True) if first.requires_grad else (None,)
    if slope is not None and slope[1:].nan_to_num().any():
        raise CheckError("module", ROWS_APART, "a row's loss that changes with another row")


def _require_no_questions(module: Any, loss: Callable[[Any, Any], Any], features: Any, targets: Any) -> None:
    """Refuse a module that reads values of rows, as an ``if`` does: synthetic rows cannot show what it would do."""
    import torch

    kind = torch.Tensor
    asks = (kind.__bool__, kind.__int__, kind.__float__, kind.__index__, kind.__contains__, kind.__array__, kind.item,
            kind.tolist, kind.numpy, kind.equal, kind.allclose, kind.is_nonzero, kind.nonzero, torch.equal,
            torch.allclose, torch.is_nonzero, torch.nonzero)  # fmt: skip

    class Row(torch.Tensor):  # type: ignore[misc]
        """A tensor with a class that carries over to everything computed from it."""

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in asks:
                raise CheckError("module", "the same steps whatever rows hold (no if over values)", func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    with torch.no_grad():
        outputs = copy.deepcopy(module)(features.as_subclass(Row))
        loss(outputs, targets.as_subclass(Row))


def _fill_parameters(parameters: Any, vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """Write a vector into parameters and return the values that they hold in their precision."""
    import torch

    held, begin = [], 0
    with torch.no_grad():
        for one in parameters:
            part = torch.from_numpy(vector[begin : begin + one.numel()]).reshape(one.shape)
            one.copy_(part)
            held.append(one.detach().double().reshape(-1).numpy().copy())
            begin += one.numel()
    return np.concatenate(held)


class _CertifiedOpacusAccountant:
    """An Opacus accountant that returns certified upper bounds of epsilon.

    The guarantee protects one example under add-or-remove-one and requires batches drawn by Poisson sampling. Opacus'
    ``poisson_sampling=False`` voids it, which no accountant can detect.

    Attributes:
        history: the steps so far, as Opacus stores them; equal consecutive entries are merged.
    """

    def __init__(self) -> None:
        self.history: History = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Add one noisy step; if the noise multiplier or sample rate is out of range, raise ``CheckError``."""
        _extend(self.history, [(noise_multiplier, sample_rate, 1)])

    def interval(self, delta: float, *, relative_width: float = 0.002) -> Interval:
        """Bound epsilon at ``delta`` from both sides, with method and assumptions."""
        return accounting.epsilon(from_history(self.history), delta=delta, relative_width=relative_width)

    def get_epsilon(self, delta: float, *args: Any, **kwargs: Any) -> float:  # noqa: ARG002 - Opacus passes more
        """Bound epsilon at ``delta`` from above, in nats."""
        return self.interval(delta).upper

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """Return the hook that Opacus calls before each optimizer step; it raises if it cannot account for the step.

        That prevents the step, for example if the clip norm adapts or differs from the norm that scales the noise.
        """
        checked: list[object] = []  # the clip norm at the last check of the optimizer

        def count_one_step(optimizer: Any) -> None:
            norm = getattr(optimizer, "max_grad_norm", None)
            if norm not in checked:
                require_scaled_noise(optimizer)
                checked[:] = [norm]
            if check.integer(0)(accumulated_iterations=optimizer.accumulated_iterations) != 1:
                raise UnsupportedMechanismError(
                    PoissonSampled(Gaussian(optimizer.noise_multiplier), sample_rate),
                    method="the Opacus accountant",
                    reason=f"{optimizer.accumulated_iterations} batches were summed before one noise, and their sum is "
                    "not a Poisson sample; split one large batch with BatchMemoryManager instead",
                )
            self.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=sample_rate)

        return count_one_step

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state of ``state_dict``; an invalid one raises ``CheckError`` and changes nothing.

        Histories of other Opacus accountants are alike: pass ``state | {"mechanism": "epsilog"}`` to adopt one.
        """
        if not state_dict or "history" not in state_dict or state_dict.get("mechanism") != MECHANISM:
            raise CheckError(
                "state_dict", f"a history and the mechanism {MECHANISM!r}", f"{state_dict!r:.80}", verb="hold"
            )
        restored: History = []
        _extend(restored, state_dict["history"])
        self.history = restored

    def __len__(self) -> int:
        """Return the number of steps so far."""
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """Return the name under which ``register`` registers it."""
        return MECHANISM


def _extend(history: History, entries: Iterable[tuple[float, float, int]]) -> None:
    """Append entries after all of them are checked; merge equal consecutive ones."""
    one = check.at_least(0, check.DOWN), check.in_closed_interval(0, 1, check.UP), check.integer(1)
    read = []
    for entry in check.sequence_of(check.instance_of((tuple, list)))(history=entries):
        if len(entry) != 3:
            bound = "triples of noise multiplier, sample rate and steps"
            raise CheckError("history", bound, f"{entry!r:.80}", verb="hold")
        noise, rate, steps = entry
        read.append((one[0](noise_multiplier=noise), one[1](sample_rate=rate), one[2](steps=steps)))
    for noise, rate, steps in read:
        before = history.pop()[2] if history and tuple(history[-1][:2]) == (noise, rate) else 0
        history.append((noise, rate, before + steps))


__getattr__ = make_class_on_demand(_CertifiedOpacusAccountant, "opacus.accountants:IAccountant")
