"""dp-accounting: its events in our terms and back, and a certified accountant for its users (dp-accounting >= 0.6).

Both libraries describe releases apart from their accounting, so most events map one to one. What has no counterpart is
refused by name, never replaced by something near.

    from epsilog.adapters.dp_accounting import CertifiedAccountant
    dp_accounting.calibrate_dp_mechanism(CertifiedAccountant, make_event, target_epsilon, target_delta)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilog import accounting, mechanisms
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
    from dp_accounting import DpEvent
    from dp_accounting import NeighboringRelation as TheirRelation

_METHOD = "conversion of dp-accounting events"
_NEARLY_ONE = 1 - 2.0**-53
_LARGEST_EPSILON = 1e6
_FEWEST_STOPS = 1e-9  # a stopping probability that terms take
_ROUNDED = 1e-12  # relatively: far above what roundings of a mean come to


def from_event(event: DpEvent, relation: NeighboringRelation | None = None) -> Release:
    """Reads a ``DpEvent``.

    Args:
        event: what dp-accounting describes; events that it has after 0.6.0 are told by their names.
        relation: under which the release will be priced, for events that dp-accounting defines under some relations
            only; its REPLACE_SPECIAL is ``ZERO_OUT``. Blank for all others.

    Raises:
        UnsupportedMechanismError: the event, or one inside it, has no counterpart here, or none under this relation;
            it says why. Random allocation is read where each record is in one step, in all or in none.
        CheckError: a parameter that is out of its bounds.

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
            raise _build_refusal(event, "a record may be in a sample several times: a term for that is missing")
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
    """An event with no other inside it, or one that 0.6.0 does not have."""
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
            raise _build_refusal(event, "xi beside rho: nothing is proved here about it")
        case dp.ZCDpEvent():
            rho = check.exact("rho", event.rho)
            return (
                _build_non_private()
                if isinstance(rho, float) and rho == math.inf
                else mechanisms.ZeroConcentratedDP(event.rho)
            )
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
    """What is computed on a sample; to be outside of one is not to be replaced by a special record."""
    if _is_stated(event.event, relation):
        raise _build_refusal(event, "a special record stands in for one that is in the sample, and not for one outside")
    return _read(event.event, relation)


def _from_response(event: Any, relation: NeighboringRelation | None) -> Release:
    """Randomized response; one that is replaced by the special record answers uniformly in its neighbour.

    That is stated in ``privacy_loss_distribution.from_randomized_response`` (0.6.0). With k answers and p the chance of
    a uniform one, the true answer is k (1 - p) + p times as likely as without the record, any other is p times: both
    ratios bound pure DP, and ``CertifiedAccountant`` claims nothing from below.
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
    """A mixture of Gaussians, which dp-accounting describes for a record that is there or not."""
    if relation is NeighboringRelation.REPLACE_ONE:
        raise _build_refusal(
            event, "a mixture is defined for a record that joins, leaves or is replaced by a special one"
        )
    return mechanisms.MixtureOfGaussians(event.standard_deviation, event.sensitivities, event.sampling_probs)


def _from_trees(event: Any, relation: NeighboringRelation | None) -> Release:
    """Tree aggregation in which a record is in one leaf: it moves the nodes above that leaf, each by the sensitivity.

    Of n steps at most floor(log2 n) + 1 complete nodes hold a leaf (Kairouz et al. 2021, App. D, arXiv:2103.00039v3).
    """
    if relation is not NeighboringRelation.ZERO_OUT:
        raise _build_refusal(
            event, "trees are aggregated for records that are replaced by a special one: others keep places"
        )
    counts = event.step_counts if check.is_series(event.step_counts) else [event.step_counts]
    most = max(check.sequence_of(check.integer(0))(step_counts=counts), default=0)
    noise = mechanisms.Gaussian(event.noise_multiplier)
    return mechanisms.Repeated(noise, most.bit_length()) if most else mechanisms.Composed([])


def _from_allocation(event: Any, relation: NeighboringRelation | None) -> Release:
    """Random allocation of each record to ``num_selected`` of ``num_steps`` calls (dp-accounting, pull request 414)."""
    inner = _convert_sampled(event, relation)
    steps = check.integer(1)(num_steps=event.num_steps)
    selected = check.integer(0, steps)(num_selected=event.num_selected)
    if selected == 0:
        return mechanisms.Composed([])
    if selected == steps:
        return mechanisms.Repeated(inner, steps)
    if selected > 1:
        raise _build_refusal(event, "a record in several steps of many, each set of them alike, has no term here")
    return mechanisms.BallsInBins(inner, steps)


def _trials(event: Any) -> mechanisms.TrialDistribution:
    """The law of a repeat-and-select event, told by its mean; where that is rounded, to more trials."""
    mean, shape = check.real()(mean=event.mean), check.real()(shape=event.shape)
    if not (shape >= 0 and 1 <= mean < math.inf):
        raise _build_refusal(event, "a mean of at least 1 and a shape of at least 0 are meant")
    if math.isinf(shape):
        return mechanisms.PoissonTrialCount(mean)
    if mean == 1:
        return mechanisms.BinomialTrialCount(1, 1.0)
    enough = mean * (1 + _ROUNDED)

    def expects(stops: float) -> bool:
        return accounting.expected_trials(mechanisms.NegativeBinomialTrialCount(shape, stops)) >= enough

    low, high = _FEWEST_STOPS, _NEARLY_ONE
    if not expects(low):
        raise _build_refusal(event, "so many trials are not priced")
    while high > low * (1 + _ROUNDED):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if expects(middle) else (low, middle)
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
    """Repeat-and-select, and events that dp-accounting has after 0.6.0, told by their names: 0.6.0 lacks those.

    Permute-and-flip is the noisy maximum of exponential noise, priced by its epsilon-DP statement: dp-accounting prices
    it as Laplace noise, for which we know no proof.
    """
    match type(event).__name__:
        case "EpsilonDeltaDpEvent":
            stated = mechanisms.ApproximateDP(event.epsilon, event.delta)
            return stated if stated.delta else mechanisms.PureDP(stated.epsilon)
        case "DiscreteGaussianDpEvent" if event.dimension is not None:
            moved, dimension = (
                check.exact_rational()(sensitivity=event.sensitivity),
                check.integer(1)(dimension=event.dimension),
            )
            if moved.denominator == dimension == 1:
                return mechanisms.DiscreteGaussian(event.sigma, sensitivity=moved.numerator)
        case "ExponentialMechanismDpEvent":
            return mechanisms.ExponentialMechanism(event.epsilon)
        case "PermuteAndFlipDpEvent":
            return mechanisms.ReportNoisyMax(event.epsilon, "exponential")
        case "RepeatAndSelectDpEvent":
            return mechanisms.BestOfTrials(_read(event.event, relation), _trials(event))
        case "RandomAllocationDpEvent":
            return _from_allocation(event, relation)
    raise _build_refusal(event)


def to_event(release: Release) -> DpEvent:
    """Writes a release as a ``DpEvent``.

    dp-accounting 0.6.0 has no words for statements other than zCDP, for discrete Gaussian noise and for the exponential
    mechanism; later releases have, and get them.

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
    q, size, most = one.sampling_probability, one.population, one.largest_batch
    return dp.TruncatedSubsampledGaussianDpEvent(size, q, most, one.release.noise_multiplier)


def _write_selection(one: Any, dp: Any) -> Any:
    kind = _SELECTIONS.get(one.noise)
    return getattr(dp, kind)(one.epsilon) if kind and hasattr(dp, kind) and not one.monotone else None


def _write_tuned(one: Any, dp: Any) -> Any:
    """A law of trials by its mean and shape, where those tell it."""
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
"""Events that 0.6.0 lacks, by the tag of what they stand for."""

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
    "tuned": _write_tuned,
}
"""The event of each mechanism by its tag; None where its parameters have no counterpart."""


class _CertifiedDpAccountant:
    """A dp-accounting ``PrivacyAccountant`` whose epsilon and delta are certified upper bounds.

    Args:
        neighboring_relation: dp-accounting's own; its REPLACE_SPECIAL is our zero-out. Add-or-remove-one when blank.
        gap: the relative width of the interval to aim for.
    """

    def __init__(self, neighboring_relation: TheirRelation | None = None, *, gap: float = 0.002) -> None:
        from dp_accounting import NeighboringRelation as Theirs

        theirs = Theirs.ADD_OR_REMOVE_ONE if neighboring_relation is None else neighboring_relation
        super().__init__(theirs)  # type: ignore[call-arg]  # dp-accounting's base class
        self._relation = {
            Theirs.ADD_OR_REMOVE_ONE: NeighboringRelation.ADD_OR_REMOVE_ONE,
            Theirs.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
            Theirs.REPLACE_SPECIAL: NeighboringRelation.ZERO_OUT,
        }[theirs]
        self._gap = gap
        self._counts: dict[Release, int] = {}
        self._stated = False

    def compose(self, event: DpEvent, count: int = 1) -> Any:
        """Adds an event ``count`` times, at least once; one that has no certified bound changes nothing.

        Raises:
            CheckError: a parameter that is out of its bounds, by name.
            UnsupportedEventError: dp-accounting's, for anything else that has no certified bound.
        """
        count = check.integer(1)(count=count)
        try:
            from_event(event, self._relation)
        except CheckError:
            raise
        except Exception:  # noqa: BLE001, S110 - said by what dp-accounting raises below
            pass
        return super().compose(event, count)  # type: ignore[misc]  # dp-accounting's base class

    def _maybe_compose(self, event: DpEvent, count: int, do_compose: bool) -> Any:
        """Adds the event ``count`` times, or only says which event inside it has no certified bound, and why.

        Whatever is wrong with an event that is asked about is a reason, and no exception.
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
            self._stated |= _is_stated(event, self._relation)
        return None

    def _release(self) -> Release:
        return Composed(Repeated(release, count) for release, count in self._counts.items())

    def interval(self, target_delta: float) -> Interval:
        """Bounds epsilon at ``target_delta`` from both sides, with method and assumptions."""
        found = accounting.epsilon(self._release(), delta=target_delta, relation=self._relation, gap=self._gap)
        return replace(found, lower=0.0) if self._stated else found

    def get_epsilon(self, target_delta: float) -> float:
        """Bounds epsilon from above, in nats; at delta 1, where all is allowed, it is that of the delta just below."""
        return self.interval(_NEARLY_ONE if target_delta == 1 else target_delta).upper

    def get_delta(self, target_epsilon: float) -> float:
        """Bounds delta from above; beyond a million nats, ``inf`` included, it is that of a million."""
        epsilon = _LARGEST_EPSILON if target_epsilon > _LARGEST_EPSILON else target_epsilon
        return accounting.delta(self._release(), epsilon=epsilon, relation=self._relation, gap=self._gap).upper

    def get_true_positive_rates(
        self, false_positive_rates: ArrayLike, deltas: ArrayLike | None = None
    ) -> float | NDArray[np.float64]:
        """Bounds from above how often the best test is right that is wrong as often as said.

        dp-accounting has it after 0.6.0.

        Args:
            false_positive_rates: in [0, 1]; a number, or an array of any shape.
            deltas: not looked at: no grid of them is used.

        Returns:
            A number, or an array of the same shape.
        """
        del deltas
        curve = accounting.profile(self._release(), relation=self._relation, gap=self._gap)
        if not check.is_series(false_positive_rates):
            return float(curve.tpr(false_positive_rates).upper)  # type: ignore[arg-type]
        return np.asarray(curve.tpr(false_positive_rates).upper)  # type: ignore[arg-type]


def _culprit(error: UnsupportedMechanismError, event: DpEvent) -> DpEvent:
    """The event that has no bound; the whole where what lacks it is no event of theirs."""
    if not isinstance(error.term, Release):
        return error.term
    try:
        return to_event(error.term)
    except (EpsilogError, ValueError):
        return event


def _is_stated(event: Any, relation: NeighboringRelation | None) -> bool:
    """Whether a part of an event is priced by a statement that it meets and need not attain."""
    special = relation is NeighboringRelation.ZERO_OUT
    name = type(event).__name__
    if special and name in ("RandomizedResponseDpEvent", "SingleEpochTreeAggregationDpEvent"):
        return True
    inner = [*getattr(event, "events", ()), *([event.event] if hasattr(event, "event") else ())]
    return any(_is_stated(part, relation) for part in inner)


@lru_cache(maxsize=4096)
def _require_supported(parts: frozenset[Release], relation: NeighboringRelation) -> float:
    """Prices every distinct part once, roughly: raises ``UnsupportedMechanismError`` where no method has a proof."""
    return accounting.epsilon(Composed(parts), delta=1e-3, relation=relation, gap=0.5).upper


@cache
def _accountant() -> type[Any]:
    """The accountant as a subclass of dp-accounting's own base class, which brings ``compose`` and ``ledger``."""
    from dp_accounting import PrivacyAccountant

    body = {"__doc__": _CertifiedDpAccountant.__doc__, "__module__": __name__}
    return type("CertifiedAccountant", (_CertifiedDpAccountant, PrivacyAccountant), body)


def __getattr__(name: str) -> Any:
    """Makes ``CertifiedAccountant`` when it is first asked for, so that importing this module needs nobody's code."""
    if name == "CertifiedAccountant":
        return _accountant()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
