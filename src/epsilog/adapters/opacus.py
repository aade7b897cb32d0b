"""Opacus: its history in our terms and back, a certified accountant, and its gradients at a site (opacus >= 1.6).

    from epsilog.adapters.opacus import register
    register()
    engine = PrivacyEngine(accountant="epsilog")

An Opacus history lists (noise multiplier, sample rate, steps); every step is a Poisson-sampled Gaussian on examples,
under add-or-remove-one. Histories are read and written without torch.

Where a client computes for itself (``train.site``), ``noisy_run`` is its DP-SGD on Opacus' gradients of examples.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog import accounting
from epsilog.accounting.flatten import flatten
from epsilog.terms import (
    CheckError,
    Composed,
    Gaussian,
    Interval,
    PoissonSampled,
    Release,
    Repeated,
    UnsupportedMechanismError,
)
from epsilog.train import Randomness, Training
from epsilog.train.engines import NoisyRuns, clipped_examples

MECHANISM = "epsilog"

History = list[tuple[float, float, int]]
Run = Callable[[NDArray[np.float64], NoisyRuns, Training], NDArray[np.float64]]
"""(model, runs, training) -> the model's change; what ``train.site.from_functions`` takes as its ``noisy_run``."""


def from_history(history: Iterable[tuple[float, float, int]]) -> Release:
    """Reads a history: triples of noise multiplier, sample rate (a probability) and steps.

    Raises:
        ValueError: an entry that describes no Poisson-sampled Gaussian, such as a sample rate above 1.

    >>> from_history([(1.0, 0.01, 300)]).releases[0].count
    300
    """
    return Composed(Repeated(PoissonSampled(Gaussian(noise), rate), steps) for noise, rate, steps in history)


def to_history(release: Release) -> History:
    """Writes a release as a history, equal steps together.

    Raises:
        UnsupportedMechanismError: a part is not a Gaussian, Poisson-sampled or not.

    >>> to_history(Repeated(PoissonSampled(Gaussian(1.0), 0.01), 300))
    [(1.0, 0.01, 300)]
    """
    history = []
    for part, steps in flatten(release).items():
        match part:
            case PoissonSampled(release=Gaussian(noise_multiplier=noise), sampling_probability=rate):
                history.append((noise, rate, steps))
            case Gaussian(noise_multiplier=noise):
                history.append((noise, 1.0, steps))
            case _:
                raise UnsupportedMechanismError(part, method="an Opacus history")
    return history


def register() -> None:
    """Makes ``PrivacyEngine(accountant="epsilog")`` and ``get_noise_multiplier(..., accountant="epsilog")`` work."""
    from opacus.accountants import register_accountant

    register_accountant(MECHANISM, _accountant(), force=True)


def noisy_run(module: Any, loss: Callable[[Any, Any], Any], features: Any, targets: Any) -> Run:
    """DP-SGD on a site's rows, as ``train.site.from_functions`` takes it; Opacus computes the gradients.

    So it takes what Opacus' hooks know, its recurrent layers among them, and refuses what they do not. Batches, clip
    and noise are ours: coins and normals from the operating system, norms and sums in doubles.

    Args:
        module: a ``torch.nn.Module``; its parameters that require a gradient are the model, in their own order.
        loss: of outputs and targets, a number for each example (``reduction="none"``).
        features: the site's rows, a tensor of shape (n, ...).
        targets: shape (n, ...).
    """

    def run(model: NDArray[np.float64], runs: NoisyRuns, training: Training) -> NDArray[np.float64]:
        from opacus import GradSampleModule

        net = GradSampleModule(copy.deepcopy(module), loss_reduction="sum")
        parameters = [one for one in net.parameters() if one.requires_grad]
        if sum(one.numel() for one in parameters) != model.size:
            raise CheckError("module", f"one of {model.size} parameters", f"{sum(p.numel() for p in parameters)}")
        draws, start = Randomness.from_os(), _filled(parameters, model)
        step_size = training.learning_rate / (runs.batch_probability * training.nominal_examples)
        here = start
        for _ in range(runs.steps):
            joined = draws.stream("batches", 0).coins((len(features),), runs.batch_probability)
            total = runs.noise_stddev * draws.stream("noise", 0).normals((model.size,))
            if joined.any():
                net.zero_grad(set_to_none=True)
                with warnings.catch_warnings():  # that no slope of the rows is asked for is as it should be
                    warnings.filterwarnings("ignore", "Full backward hook is firing")
                    _losses(net, loss, features[joined], targets[joined]).sum().backward()
                each = [one.grad_sample.reshape(joined.sum(), -1).numpy() for one in parameters]
                total += clipped_examples(np.concatenate(each, axis=1), runs.clip_norm).total
            here = _filled(parameters, here - step_size * total)
        return here - start

    return run


def _losses(net: Any, loss: Callable[[Any, Any], Any], features: Any, targets: Any) -> Any:
    """The loss of each example; shape (n,)."""
    losses = loss(net(features), targets)
    if losses.shape != (len(features),):
        raise CheckError("loss", "one number for each example", f"shape {tuple(losses.shape)}", verb="give")
    return losses


def _filled(parameters: Any, vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """Writes a vector into a module's parameters, and returns what they hold in their own precision."""
    import torch

    held, begin = [], 0
    with torch.no_grad():
        for one in parameters:
            part = torch.from_numpy(vector[begin : begin + one.numel()]).reshape(one.shape)
            one.copy_(part)
            held.append(one.detach().double().reshape(-1).numpy().copy())
            begin += one.numel()
    return np.concatenate(held)


class _Certified:
    """An Opacus accountant whose epsilon is a certified upper bound.

    The claim is about one example, under add-or-remove-one, for batches that were drawn by Poisson sampling: Opacus'
    ``poisson_sampling=False`` breaks that, and no accountant can see it.

    Attributes:
        history: what was released so far, as Opacus keeps it; equal neighbours are merged.
    """

    def __init__(self) -> None:
        self.history: History = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Adds one noisy step; a noise multiplier or sample rate out of range is a ``ValueError``, and adds nothing."""
        _extend(self.history, [(float(noise_multiplier), float(sample_rate), 1)])

    def interval(self, delta: float, *, gap: float = 0.002) -> Interval:
        """Bounds epsilon at ``delta`` from both sides, with method and assumptions."""
        return accounting.epsilon(from_history(self.history), delta=delta, gap=gap)

    def get_epsilon(self, delta: float, *args: Any, **kwargs: Any) -> float:  # noqa: ARG002 - Opacus hands on its own
        """Bounds epsilon at ``delta`` from above, in nats."""
        return self.interval(delta).upper

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """Returns what Opacus calls before each optimizer step; it raises, and the step is not taken, if unpriced."""

        def count_one_step(optimizer: Any) -> None:
            if optimizer.accumulated_iterations != 1:
                raise UnsupportedMechanismError(
                    PoissonSampled(Gaussian(float(optimizer.noise_multiplier)), float(sample_rate)),
                    method="the Opacus accountant",
                    reason=f"{optimizer.accumulated_iterations} batches were summed before one noise, which is no "
                    "Poisson sample; split one large batch with BatchMemoryManager instead",
                )
            self.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=sample_rate)

        return count_one_step

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restores what ``state_dict`` gave; a state that cannot be priced is a ``ValueError``, and changes nothing.

        The history of another Opacus accountant says the same: pass ``state | {"mechanism": "epsilog"}`` to adopt it.
        """
        if not state_dict or "history" not in state_dict or state_dict.get("mechanism") != MECHANISM:
            raise CheckError(
                "state_dict", f"a history and the mechanism {MECHANISM!r}", f"{state_dict!r:.80}", verb="hold"
            )
        restored: History = []
        _extend(restored, state_dict["history"])
        self.history = restored

    def __len__(self) -> int:
        """Steps so far."""
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """The name under which ``register`` makes it known."""
        return MECHANISM


def _extend(history: History, entries: Iterable[tuple[float, float, int]]) -> None:
    """Appends entries once all of them are checked; equal neighbours become one."""
    entries = list(entries)
    from_history(entries)
    for noise, rate, steps in entries:
        before = history.pop()[2] if history and tuple(history[-1][:2]) == (noise, rate) else 0
        history.append((float(noise), float(rate), before + int(steps)))


@cache
def _accountant() -> type[Any]:
    """``_Certified`` as a subclass of Opacus' own base class, which brings ``state_dict``."""
    from opacus.accountants import IAccountant

    body = {"__doc__": _Certified.__doc__, "__module__": __name__}
    return type("CertifiedAccountant", (_Certified, IAccountant), body)


def __getattr__(name: str) -> Any:
    """Makes ``CertifiedAccountant`` when it is first asked for, so that histories need no torch."""
    if name == "CertifiedAccountant":
        return _accountant()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
