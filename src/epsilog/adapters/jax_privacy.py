"""JAX Privacy: our accountant for its plans and trainings, and its Monte Carlo statistics under their own names.

Since June 2026 JAX Privacy describes a training by an event of dp-accounting, and asks for an accountant by a function
of the neighboring relation, which ``CertifiedAccountant`` is:

    from epsilog.adapters.jax_privacy import CertifiedAccountant, bound_epsilon
    config = BandMFConfig(...).calibrate(epsilon=1.0, delta=1e-6, accountant_fn=CertifiedAccountant)
    bound_epsilon(config.make(), delta=1e-6)

Version 2.0.0 asks its accountants for a configuration instead:

    from epsilog.adapters.jax_privacy import CertifiedAccountantConfig
    accountant = jax_privacy.accounting.DpsgdTrainingAccountant(CertifiedAccountantConfig())

The functions below are a drop-in for ``jax_privacy.experimental.monte_carlo`` (2.0.0 and after). Same meaning, three
differences: values are exact and on the safe side where the original's optimiser is not, nothing hangs, and samples
that are NaN or weights that are negative are errors instead of passes. Tighter promises for the same samples are in
``epsilog.accounting.montecarlo``. They import nothing of JAX.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from epsilog.accounting import montecarlo
from epsilog.accounting.montecarlo import ProfilePayoff
from epsilog.terms import CheckError, Interval, UnsupportedMechanismError, arrays, check

if TYPE_CHECKING:
    from dp_accounting import NeighboringRelation as TheirRelation


def bound_epsilon(plan: Any, *, delta: float, relation: TheirRelation | None = None, gap: float = 0.002) -> Interval:
    """Bounds epsilon of a plan or an event from both sides.

    Args:
        plan: a ``DPExecutionPlan``, or an event of dp-accounting such as ``jax_privacy.accounting.dpsgd_event`` makes.
        delta: failure probability, in [0, 1].
        relation: dp-accounting's; blank for the plan's own, of an event for add-or-remove-one.
        gap: the relative width of the interval to aim for.

    Raises:
        UnsupportedMechanismError: the event, or one inside it, has no certified bound.
    """
    from epsilog.adapters.dp_accounting import CertifiedAccountant

    event = getattr(plan, "dp_event", plan)
    theirs = getattr(plan, "neighboring_relation", None) if relation is None else relation
    accountant = CertifiedAccountant(theirs, gap=gap)
    details = accountant._maybe_compose(event, 1, do_compose=False)
    if details is not None:
        raise UnsupportedMechanismError(
            details.invalid_event, method="the certified accountant", reason=details.error_message
        )
    found: Interval = accountant.compose(event).interval(delta)
    return found


def get_overall_delta(num_samples: int, base_delta: float) -> float:
    """Bounds the delta of estimate-verify-release; see ``montecarlo.overall_delta``.

    >>> get_overall_delta(10_745_967, 5e-6) <= 1e-5
    True
    """
    return montecarlo.overall_delta(samples=num_samples, base_delta=base_delta)


def get_base_delta(num_samples: int, target_delta: float) -> float:
    """Finds the largest threshold that meets a target; see ``montecarlo.base_delta``.

    >>> round(get_base_delta(1000, 0.1), 4)
    0.067
    """
    return montecarlo.base_delta(samples=num_samples, target_delta=target_delta)


def minimum_samples_to_calibrate(base_delta: float, target_delta: float) -> int:
    """Finds the least number of samples; see ``montecarlo.minimum_samples``.

    >>> minimum_samples_to_calibrate(5e-6, 1e-5)
    10745967
    """
    return montecarlo.minimum_samples(base_delta=base_delta, target_delta=target_delta)


def delta_from_epsilon_and_samples(
    epsilon: float,
    samples: ArrayLike,
    counts: ArrayLike | None = None,
    other_event: ProfilePayoff | None = None,
) -> float:
    """Estimates delta from privacy losses; see ``montecarlo.delta_from_samples``.

    Args:
        epsilon: in nats, at least 0.
        samples: privacy losses, shape (n,).
        counts: how often each was seen, shape (n,).
        other_event: the certified profile of what is composed with it, as a ``ProfilePayoff`` at this epsilon.

    >>> delta_from_epsilon_and_samples(0.0, [float("inf"), -3.0])
    0.5
    """
    plain = montecarlo.delta_from_samples(epsilon=epsilon, losses=samples, weights=counts)  # checks the samples, too
    if other_event is None:
        return plain
    other_event = check.instance_of(ProfilePayoff)(other_event=other_event)
    if other_event.epsilon != epsilon:
        raise CheckError("other_event", f"a profile at epsilon = {epsilon!r}", repr(other_event.epsilon))
    loss = arrays.doubles("samples", samples)
    weight = np.ones(loss.shape) if counts is None else arrays.doubles("counts", counts)
    weight = weight / weight.max()
    return float(min(1.0, (weight * np.exp(other_event.log_value(loss))).sum() / weight.sum()))


def perform_calibration_from_samples(
    epsilon: float,
    delta: float,
    *,
    positive_samples: Sequence[ArrayLike],
    positive_counts: Sequence[ArrayLike] | None = None,
    negative_samples: Sequence[ArrayLike] | None = None,
    negative_counts: Sequence[ArrayLike] | None = None,
    other_event: ProfilePayoff | None = None,
) -> tuple[bool, int | float]:
    """Verifies candidates in order and names the last one before the first failure.

    Args:
        epsilon: of the promise, in nats.
        delta: of the promise, in (0, 1].
        positive_samples: per candidate, from the most private to the least, its losses in the remove direction.
        positive_counts: per candidate, whole numbers: how often each loss was seen.
        negative_samples: the same for the add direction; a candidate passes only in both.
        negative_counts: the same for the add direction.
        other_event: what is composed with each candidate; see ``delta_from_epsilon_and_samples``.

    Returns:
        ``(True, index)``, or ``(False, base_delta)`` if the first candidate fails: then release something that is
        (epsilon, base_delta)-DP for certain. Overall either is (epsilon, delta)-DP.

    >>> perform_calibration_from_samples(1.0, 0.1, positive_samples=[[0.0] * 1000, [9.0] * 1000])
    (True, 0)
    """
    sides = [(positive_samples, positive_counts)]
    if negative_samples is not None:
        sides.append((negative_samples, negative_counts))
    elif negative_counts is not None:
        raise ValueError("negative_counts must come with negative_samples")
    rows: list[list[tuple[ArrayLike, ArrayLike | None]]] = []
    for samples, counts in sides:
        if len(samples) == 0 or len(samples) != len(positive_samples):
            raise CheckError(
                "samples", f"{len(positive_samples)} candidates, at least 1", f"{len(samples)}", verb="list"
            )
        if counts is not None and len(counts) != len(samples):
            raise CheckError("counts", f"{len(samples)} candidates", f"{len(counts)}", verb="list")
        rows.append([(losses, None if counts is None else counts[i]) for i, losses in enumerate(samples)])
    estimates = [
        [delta_from_epsilon_and_samples(epsilon, losses, weight, other_event) for losses, weight in row] for row in rows
    ]
    fewest = min(_size(losses, weight) for row in rows for losses, weight in row)
    threshold = get_base_delta(fewest, delta)
    passed = [max(candidate) <= threshold for candidate in zip(*estimates, strict=True)]
    if not passed[0]:
        return False, threshold
    return True, (passed.index(False) if False in passed else len(passed)) - 1


@cache
def _config() -> type[Any]:
    """A ``DpAccountantConfig`` that makes our accountant: JAX Privacy 2.0.0 asks it for a new one each time."""
    try:
        from jax_privacy.accounting import DpAccountantConfig
    except ImportError as error:
        raise ImportError(
            "this JAX Privacy has no DpAccountantConfig, which 2.0.0 has: give CertifiedAccountant where it takes an "
            "accountant_fn, or ask price(plan, delta=...)"
        ) from error

    from epsilog.adapters.dp_accounting import CertifiedAccountant

    class CertifiedAccountantConfig(DpAccountantConfig):  # type: ignore[misc]  # untyped base
        """Certified upper bounds wherever JAX Privacy asks for epsilon: its accountants, and its calibrations."""

        def create_accountant(self) -> Any:
            """A new accountant, for adding or removing one example."""
            return CertifiedAccountant()

    return CertifiedAccountantConfig


def __getattr__(name: str) -> Any:
    """Makes the classes when they are first asked for, so that this module needs neither JAX nor dp-accounting."""
    if name == "CertifiedAccountantConfig":
        return _config()
    if name == "CertifiedAccountant":
        from epsilog.adapters import dp_accounting

        return dp_accounting.CertifiedAccountant
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _size(losses: ArrayLike, counts: ArrayLike | None) -> int:
    """How many draws a list stands for."""
    if counts is None:
        return int(np.asarray(losses).size)
    values = arrays.doubles("counts", counts)
    if not (values == np.floor(values)).all():
        raise CheckError("counts", "whole numbers", repr(counts))
    return int(values.sum())
