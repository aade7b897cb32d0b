"""Convert events of dp-accounting to releases and back, and provide a certified accountant (dp-accounting >= 0.6).

Both libraries describe a release apart from its accounting, so most events have one counterpart. An event without one
is refused by name; no similar release replaces it.

    from epsilog.adapters.dp_accounting import CertifiedAccountant
    dp_accounting.calibrate_dp_mechanism(CertifiedAccountant, make_event, target_epsilon, target_delta)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilog import accounting, mechanisms
from epsilog.adapters import make_class_on_demand
from epsilog.mechanisms import Composed, Release, Repeated
from epsilog.mechanisms.composition import flatten
from epsilog.numerics.rounding import ELEMENTARY, round_outward, round_up
from epsilog.terms import (
    CheckError,
    EpsilogError,
    Interval,
    NeighboringRelation,
    UnsupportedMechanismError,
    check,
    codec,
)

if TYPE_CHECKING:
    from dp_accounting import DpEvent, NeighboringRelation as TheirRelation

_METHOD = "conversion of dp-accounting events"
_NEARLY_ONE = 1 - 2.0**-53
_LARGEST_EPSILON = 1e6
_MIN_STOP_PROBABILITY = 1e-9  # of NegativeBinomialTrialCount
_ROUNDING = 1e-12  # relative; far above the rounding error of a mean


def from_event(event: DpEvent, relation: NeighboringRelation | None = None) -> Release:
    """Convert a ``DpEvent`` to a release.

    Args:
        event: an event of dp-accounting; those of versions after 0.6.0 are recognized by the names of their classes.
        relation: the neighboring relation of the accounting, for events that dp-accounting defines under some relations
            only; its REPLACE_SPECIAL is ``ZERO_OUT``. None for all other events.

    Raises:
        UnsupportedMechanismError: the event, or one inside it, has no counterpart, or none under this relation; the
            error says why. Random allocation is supported if each record is in one step, in all or in none.
        CheckError: a parameter is out of bounds.

    Source:
        dp_accounting/dp_event.py, 0.6.0: ``noise_parameter`` of a discrete Laplace is 1 / scale; of randomized response
        it is the probability of a uniform answer.
    """
    try:
        return _read(event, relation)
    except RecursionError:
        raise CheckError("event", "nested less deeply", f"a {type(event).__name__}") from None


def _read(event: Any, relation: NeighboringRelation | None) -> Release:
    from dp_accounting import dp_event as dp

    match event:
        case dp.PoissonSampledDpEvent():
            return mechanisms.PoissonSampled(_convert_sampled(event, relation), event.sampling_probability)
        case dp.SampledWithoutReplacementDpEvent():
            return mechanisms.FixedSizeSampled(
                _convert_sampled(event, relation), event.sample_size, event.source_dataset_size
            )
        case dp.SampledWithReplacementDpEvent():
            raise _build_refusal(event, "a record may be in a sample several times, which no mechanism describes")
        case dp.TruncatedSubsampledGaussianDpEvent():
            return _from_truncated(event)
        case dp.SelfComposedDpEvent():
            return mechanisms.Repeated(_read(event.event, relation), event.count)
        case dp.ComposedDpEvent() if not check.is_series(event.events):
            raise CheckError("events", "a series of events", check.format_value(event.events))
        case dp.ComposedDpEvent():
            return mechanisms.Composed(_read(part, relation) for part in event.events)
    return _mechanism(event, relation)


def _mechanism(event: Any, relation: NeighboringRelation | None) -> Release:
    """Convert an event with no other inside it, or one that 0.6.0 lacks."""
    from dp_accounting import dp_event as dp

    match event:
        case dp.NoOpDpEvent():
            return mechanisms.Composed([])
        case dp.NonPrivateDpEvent():
            return _build_non_private()
        case dp.GaussianDpEvent():
            return mechanisms.Gaussian(event.noise_multiplier)
        case dp.LaplaceDpEvent():
            return mechanisms.Laplace(event.noise_multiplier)
        case dp.DiscreteLaplaceDpEvent():
            rate = check.exact_rational()(noise_parameter=event.noise_parameter)
            scale = check.at_least(0, check.DOWN)(noise_scale=1 / rate) if rate else 0.0
            return mechanisms.DiscreteLaplace(scale, sensitivity=event.sensitivity) if rate else _build_non_private()
        case dp.RandomizedResponseDpEvent():
            return _from_response(event, relation)
        case dp.ZCDpEvent() if check.real()(xi=event.xi) != 0:
            raise _build_refusal(event, "no bound is implemented for xi above 0")
        case dp.ZCDpEvent():
            infinite = type(check.exact("rho", event.rho)) is float and event.rho == math.inf
            return _build_non_private() if infinite else mechanisms.ZeroConcentratedDP(event.rho)
        case dp.MixtureOfGaussiansDpEvent():
            return _from_mixture(event, relation)
        case dp.SingleEpochTreeAggregationDpEvent():
            return _from_trees(event, relation)
    return _from_newer(event, relation)


def _build_refusal(event: Any, reason: str = "") -> UnsupportedMechanismError:
    return UnsupportedMechanismError(event, method=_METHOD, reason=reason)


def _build_non_private() -> Release:
    return mechanisms.Gaussian(noise_multiplier=0.0)


def _convert_sampled(event: Any, relation: NeighboringRelation | None) -> Release:
    """Convert the event on a sample; a record outside the sample is not replaced by a special record."""
    if _is_bounded_above_only(event.event, relation):
        raise _build_refusal(event, "a special record replaces one in the sample, not one outside it")
    return _read(event.event, relation)


def _from_response(event: Any, relation: NeighboringRelation | None) -> Release:
    """Convert randomized response; in the neighboring data set, the special record answers uniformly.

    ``privacy_loss_distribution.from_randomized_response`` (0.6.0) states this. Of k answers, let p be the probability
    of a uniform one. The record multiplies the probability of its true answer by k (1 - p) + p, and that of any other
    by p. Both ratios bound pure DP, and ``CertifiedAccountant`` claims no lower bound.
    """
    buckets = check.integer(1)(num_buckets=event.num_buckets)
    if buckets == 1:
        return mechanisms.Composed([])
    if relation is not NeighboringRelation.ZERO_OUT:
        return mechanisms.RandomizedResponse(event.noise_parameter, categories=buckets)
    chance = check.exact_rational()(
        noise_parameter=check.in_closed_interval(0, 1, check.DOWN)(noise_parameter=event.noise_parameter)
    )
    if not chance:
        return _build_non_private()
    beyond = round_outward((buckets - 1) * (1 - chance), up=True)  # of the true answer's ratio above 1
    losses = math.log1p(beyond), -math.log(chance)
    return mechanisms.PureDP(round_up(max(losses), ELEMENTARY))


def _from_mixture(event: Any, relation: NeighboringRelation | None) -> Release:
    """Convert a mixture of Gaussians, which dp-accounting defines for a record that is present or absent."""
    if relation is NeighboringRelation.REPLACE_ONE:
        raise _build_refusal(
            event, "a mixture is defined for a record that joins, leaves or is replaced by a special one"
        )
    return mechanisms.MixtureOfGaussians(event.standard_deviation, event.sensitivities, event.sampling_probs)


def _from_trees(event: Any, relation: NeighboringRelation | None) -> Release:
    """Convert tree aggregation with a record in one leaf, which changes each node above it by the sensitivity.

    Of n steps at most floor(log2 n) + 1 complete nodes hold a leaf (Kairouz et al. 2021, App. D, arXiv:2103.00039v3).
    """
    if relation is not NeighboringRelation.ZERO_OUT:
        raise _build_refusal(event, "tree aggregation is defined for a record that is replaced by a special one")
    counts = event.step_counts if check.is_series(event.step_counts) else [event.step_counts]
    most = max(check.sequence_of(check.integer(0))(step_counts=counts), default=0)
    noise = mechanisms.Gaussian(event.noise_multiplier)
    return mechanisms.Repeated(noise, most.bit_length()) if most else mechanisms.Composed([])


def _from_allocation(event: Any, relation: NeighboringRelation | None) -> Release:
    """Convert random allocation of each record to ``num_selected`` of ``num_steps`` calls (dp-accounting, pull 414)."""
    inner = _convert_sampled(event, relation)
    steps = check.integer(1)(num_steps=event.num_steps)
    selected = check.integer(0, steps)(num_selected=event.num_selected)
    if selected == 0:
        return mechanisms.Composed([])
    if selected == steps:
        return mechanisms.Repeated(inner, steps)
    if selected > 1:
        raise _build_refusal(event, "random allocation to several steps of many is not supported")
    return mechanisms.BallsInBins(inner, steps)


def _find_trial_distribution(event: Any) -> mechanisms.TrialDistribution:
    """Find the trial-count distribution of a repeat-and-select event from its mean; round to more trials."""
    mean, shape = check.real()(mean=event.mean), check.real()(shape=event.shape)
    if not (shape >= 0 and 1 <= mean < math.inf):
        raise _build_refusal(event, "the mean must be at least 1 and the shape at least 0")
    if math.isinf(shape):
        return mechanisms.PoissonTrialCount(mean)
    if mean == 1:
        return mechanisms.BinomialTrialCount(1, 1.0)
    enough = mean * (1 + _ROUNDING)

    def has_enough_trials(stop: float) -> bool:
        return accounting.expected_trials(mechanisms.NegativeBinomialTrialCount(shape, stop)) >= enough

    low, high = _MIN_STOP_PROBABILITY, _NEARLY_ONE
    if not has_enough_trials(low):
        raise _build_refusal(event, "the mean number of trials is too large")
    while high > low * (1 + _ROUNDING):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if has_enough_trials(middle) else (low, middle)
    return mechanisms.NegativeBinomialTrialCount(shape, low)


def _from_truncated(event: Any) -> Release:
    size = check.integer(0)(dataset_size=event.dataset_size)
    most = check.integer(0)(truncated_batch_size=event.truncated_batch_size)
    if 0 in (size, most):
        return mechanisms.Composed([])
    return mechanisms.TruncatedPoissonSampled(
        mechanisms.Gaussian(event.noise_multiplier), event.sampling_probability, size, most
    )


def _from_newer(event: Any, relation: NeighboringRelation | None) -> Release:
    """Convert repeat-and-select and events of versions after 0.6.0, recognized by the names of their classes.

    Permute-and-flip is the noisy maximum with exponential noise, bounded by its epsilon-DP guarantee. dp-accounting
    bounds it as Laplace noise, for which we know no proof.
    """
    match type(event).__name__:
        case "EpsilonDeltaDpEvent":
            stated = mechanisms.ApproximateDP(event.epsilon, event.delta)
            return stated if stated.delta else mechanisms.PureDP(stated.epsilon)
        case "DiscreteGaussianDpEvent" if event.dimension is not None:
            sensitivity = check.exact_rational()(sensitivity=event.sensitivity)
            if sensitivity.denominator == check.integer(1)(dimension=event.dimension) == 1:
                return mechanisms.DiscreteGaussian(event.sigma, sensitivity=sensitivity.numerator)
        case "ExponentialMechanismDpEvent":
            return mechanisms.ExponentialMechanism(event.epsilon)
        case "PermuteAndFlipDpEvent":
            return mechanisms.ReportNoisyMax(event.epsilon, "exponential")
        case "RepeatAndSelectDpEvent":
            return mechanisms.BestOfTrials(_read(event.event, relation), _find_trial_distribution(event))
        case "RandomAllocationDpEvent":
            return _from_allocation(event, relation)
    raise _build_refusal(event)


def to_event(release: Release) -> DpEvent:
    """Convert a release to a ``DpEvent``.

    dp-accounting 0.6.0 has no event for stated guarantees other than zCDP, for discrete Gaussian noise and for the
    exponential mechanism. Later versions have them, and are given them.

    Raises:
        UnsupportedMechanismError: the release, or one inside it, has no counterpart there.

    >>> to_event(mechanisms.Repeated(mechanisms.Gaussian(2.0), 3))
    SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=2.0), count=3)
    """
    from dp_accounting import dp_event as dp

    tag = codec.encode(release)["type"]
    needed = _LATER.get(tag)
    event = _WRITERS[tag](release, dp) if tag in _WRITERS and (needed is None or hasattr(dp, needed)) else None
    if event is None:
        raise UnsupportedMechanismError(release, method=_METHOD)
    return event


def _write_noise(kind: str) -> Callable[[Any, Any], Any]:
    return lambda one, dp: getattr(dp, kind)(one.noise_multiplier) if one.noise_multiplier else dp.NonPrivateDpEvent()


def _write_truncated(one: Any, dp: Any) -> Any:
    if one.release.sampled_gaussian is None or one.release.inner:
        return None
    q, size, most = one.sampling_probability, one.population, one.max_batch_size
    return dp.TruncatedSubsampledGaussianDpEvent(size, q, most, one.release.noise_multiplier)


def _write_selection(one: Any, dp: Any) -> Any:
    kind = _SELECTIONS.get(one.noise)
    return getattr(dp, kind)(one.epsilon) if kind and hasattr(dp, kind) and not one.monotone else None


def _write_tuned(one: Any, dp: Any) -> Any:
    """Convert the best of trials if a mean and a shape determine the trial-count distribution."""
    match codec.encode(one.trials):
        case {"most": 1, "probability": 1.0}:
            mean, shape = 1.0, 1.0
        case {"mean": mean} if mean >= 1:
            shape = math.inf
        case {"shape": shape} if shape >= 0:
            mean = accounting.expected_trials(one.trials)
        case _:
            return None
    return dp.RepeatAndSelectDpEvent(to_event(one.release), mean, shape)


_SELECTIONS = {"gumbel": "ExponentialMechanismDpEvent", "exponential": "PermuteAndFlipDpEvent"}

_LATER = {
    "pure": "EpsilonDeltaDpEvent",
    "approximate": "EpsilonDeltaDpEvent",
    "discrete-gaussian": "DiscreteGaussianDpEvent",
    "exponential": "ExponentialMechanismDpEvent",
}
"""Events that 0.6.0 lacks, by the tag of the mechanism."""

_WRITERS: dict[str, Callable[[Any, Any], Any]] = {
    "gaussian": _write_noise("GaussianDpEvent"),
    "laplace": _write_noise("LaplaceDpEvent"),
    "mixture-of-gaussians": lambda one, dp: dp.MixtureOfGaussiansDpEvent(
        one.noise_stddev, one.sensitivities, one.sampling_probabilities
    ),
    "discrete-laplace": lambda one, dp: (
        dp.DiscreteLaplaceDpEvent(1 / one.noise_scale, one.sensitivity) if one.noise_scale > 0 else None
    ),
    "randomized-response": lambda one, dp: dp.RandomizedResponseDpEvent(one.flip_probability, one.categories),
    "zcdp": lambda one, dp: dp.ZCDpEvent(one.rho),
    "poisson-sampled": lambda one, dp: dp.PoissonSampledDpEvent(one.sampling_probability, to_event(one.release)),
    "fixed-size-sampled": lambda one, dp: dp.SampledWithoutReplacementDpEvent(
        one.population, one.sample_size, to_event(one.release)
    ),
    "truncated-poisson-sampled": _write_truncated,
    "repeated": lambda one, dp: dp.SelfComposedDpEvent(to_event(one.release), one.count),
    "composed": lambda one, dp: dp.ComposedDpEvent([to_event(part) for part in one.releases]),
    "pure": lambda one, dp: dp.EpsilonDeltaDpEvent(one.epsilon, 0.0),
    "approximate": lambda one, dp: dp.EpsilonDeltaDpEvent(one.epsilon, one.delta),
    "discrete-gaussian": lambda one, dp: (
        dp.DiscreteGaussianDpEvent(one.noise_stddev, one.sensitivity, 1) if one.noise_stddev > 0 else None
    ),
    "exponential": lambda one, dp: dp.ExponentialMechanismDpEvent(one.epsilon) if not one.monotone else None,
    "report-noisy-max": _write_selection,
    "best-of-trials": _write_tuned,
}
"""Converters by the tag of the mechanism; each returns None if the parameters have no counterpart."""


class _CertifiedDpAccountant:
    """A dp-accounting ``PrivacyAccountant`` that returns certified upper bounds of epsilon and delta.

    Args:
        neighboring_relation: of dp-accounting; its REPLACE_SPECIAL is ``ZERO_OUT``. None for add-or-remove-one.
        relative_width: target relative width of the interval.
    """

    def __init__(self, neighboring_relation: TheirRelation | None = None, *, relative_width: float = 0.002) -> None:
        from dp_accounting import NeighboringRelation as Theirs

        theirs = Theirs.ADD_OR_REMOVE_ONE if neighboring_relation is None else neighboring_relation
        super().__init__(theirs)  # type: ignore[call-arg]  # dp-accounting's base class
        self._relation = {
            Theirs.ADD_OR_REMOVE_ONE: NeighboringRelation.ADD_OR_REMOVE_ONE,
            Theirs.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
            Theirs.REPLACE_SPECIAL: NeighboringRelation.ZERO_OUT,
        }[theirs]
        self._relative_width = relative_width
        self._counts: dict[Release, int] = {}
        self._bounded_above_only = False

    def compose(self, event: DpEvent, count: int = 1) -> Any:
        """Add an event ``count`` times, at least once; an event without a certified bound changes nothing.

        Raises:
            CheckError: a parameter is out of bounds.
            UnsupportedEventError: of dp-accounting, for any other event without a certified bound.
        """
        count = check.integer(1)(count=count)
        try:
            from_event(event, self._relation)
        except CheckError:
            raise
        except Exception:  # noqa: BLE001, S110 - dp-accounting raises its own error below
            pass
        return super().compose(event, count)  # type: ignore[misc]  # dp-accounting's base class

    def _maybe_compose(self, event: DpEvent, count: int, do_compose: bool) -> Any:
        """Add the event ``count`` times, or only report which event inside it has no certified bound, and why.

        Whatever is wrong with the event is reported as a reason; nothing is raised.
        """
        from dp_accounting import PrivacyAccountant

        try:
            release = from_event(event, self._relation)
            _require_supported(frozenset(flatten(release)), self._relation)
        except UnsupportedMechanismError as error:
            return PrivacyAccountant.CompositionErrorDetails(_culprit(error, event), str(error))
        except Exception as error:  # noqa: BLE001 - fields of any kind
            return PrivacyAccountant.CompositionErrorDetails(event, f"{type(error).__name__}: {error}")
        if do_compose:
            self._counts[release] = self._counts.get(release, 0) + count
            self._bounded_above_only |= _is_bounded_above_only(event, self._relation)
        return None

    def _release(self) -> Release:
        return Composed(Repeated(release, count) for release, count in self._counts.items())

    def interval(self, target_delta: float) -> Interval:
        """Bound epsilon at ``target_delta`` from both sides, with method and assumptions."""
        found = accounting.epsilon(
            self._release(), delta=target_delta, relation=self._relation, relative_width=self._relative_width
        )
        return replace(found, lower=0.0) if self._bounded_above_only else found

    def get_epsilon(self, target_delta: float) -> float:
        """Bound epsilon from above, in nats; delta 1, which allows everything, counts as the number just below it."""
        return self.interval(_NEARLY_ONE if target_delta == 1 else target_delta).upper

    def get_delta(self, target_epsilon: float) -> float:
        """Bound delta from above; an epsilon above a million nats, ``inf`` included, counts as a million."""
        epsilon = _LARGEST_EPSILON if target_epsilon > _LARGEST_EPSILON else target_epsilon
        return accounting.delta(
            self._release(), epsilon=epsilon, relation=self._relation, relative_width=self._relative_width
        ).upper

    def get_true_positive_rates(
        self, false_positive_rates: ArrayLike, deltas: ArrayLike | None = None
    ) -> float | NDArray[np.float64]:
        """Bound the true positive rate of every test at given false positive rates from above.

        dp-accounting has this method since versions after 0.6.0.

        Args:
            false_positive_rates: in [0, 1]; a number, or an array of any shape.
            deltas: ignored, since no grid of deltas is used.

        Returns:
            A number, or an array of the same shape.
        """
        del deltas
        curve = accounting.profile(self._release(), relation=self._relation, relative_width=self._relative_width)
        if not check.is_series(false_positive_rates):
            return float(curve.tpr(false_positive_rates).upper)  # type: ignore[arg-type]
        return np.asarray(curve.tpr(false_positive_rates).upper)  # type: ignore[arg-type]


def _culprit(error: UnsupportedMechanismError, event: DpEvent) -> DpEvent:
    """Return the event without a bound; the whole event if dp-accounting has no event for that part."""
    if not isinstance(error.term, Release):
        return error.term
    try:
        return to_event(error.term)
    except (EpsilogError, ValueError):
        return event


def _is_bounded_above_only(event: Any, relation: NeighboringRelation | None) -> bool:
    """Return whether a part of an event is replaced by a guarantee that it need not attain."""
    special = relation is NeighboringRelation.ZERO_OUT
    name = type(event).__name__
    if special and name in ("RandomizedResponseDpEvent", "SingleEpochTreeAggregationDpEvent"):
        return True
    inner = [*getattr(event, "events", ()), *([event.event] if hasattr(event, "event") else ())]
    return any(_is_bounded_above_only(part, relation) for part in inner)


@lru_cache(maxsize=4096)
def _require_supported(parts: frozenset[Release], relation: NeighboringRelation) -> float:
    """Account for every distinct part once, to raise ``UnsupportedMechanismError`` if no method supports it."""
    return accounting.epsilon(Composed(parts), delta=1e-3, relation=relation, relative_width=0.5).upper


__getattr__ = make_class_on_demand(_CertifiedDpAccountant, "dp_accounting:PrivacyAccountant")
