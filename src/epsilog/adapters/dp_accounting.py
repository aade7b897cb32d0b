"""dp-accounting: its events in our terms and back, and a certified accountant for its users (dp-accounting >= 0.6).

Both libraries describe releases apart from their accounting, so most events map one to one. What has no counterpart is
refused by name, never replaced by something near.

    from epsilog.adapters.dp_accounting import CertifiedAccountant
    dp_accounting.calibrate_dp_mechanism(CertifiedAccountant, make_event, target_epsilon, target_delta)
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from epsilog import accounting, terms
from epsilog.accounting.flatten import flatten
from epsilog.terms import Composed, Interval, NeighboringRelation, Release, Repeated, UnsupportedMechanismError

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from dp_accounting import NeighboringRelation as TheirRelation

_METHOD = "conversion of dp-accounting events"
_NEARLY_ONE = 1 - 2.0**-53
_LARGEST_EPSILON = 1e6
_FEWEST_STOPS = 1e-9  # a stopping probability that terms take
_ROUNDED = 1e-12  # relatively: far above what roundings of a mean come to


def from_event(event: DpEvent) -> Release:
    """Reads a ``DpEvent``.

    Raises:
        UnsupportedMechanismError: the event, or one inside it, has no counterpart here.

    Source:
        dp_accounting/dp_event.py, 0.6.0: ``noise_parameter`` of a discrete Laplace is 1 / scale; of randomized response
        it is the probability of a uniform answer.
    """
    from dp_accounting import dp_event as dp

    match event:
        case dp.NoOpDpEvent():
            return terms.Composed([])
        case dp.NonPrivateDpEvent():
            return terms.Gaussian(noise_multiplier=0.0)
        case dp.GaussianDpEvent():
            return terms.Gaussian(event.noise_multiplier)
        case dp.LaplaceDpEvent():
            return terms.Laplace(event.noise_multiplier)
        case dp.DiscreteLaplaceDpEvent():
            return terms.DiscreteLaplace(1 / event.noise_parameter, sensitivity=event.sensitivity)
        case dp.RandomizedResponseDpEvent():
            return terms.RandomizedResponse(event.noise_parameter, categories=event.num_buckets)
        case dp.ZCDpEvent() if event.xi == 0:
            return terms.ZeroConcentratedDP(event.rho)
        case dp.PoissonSampledDpEvent():
            return terms.PoissonSampled(from_event(event.event), event.sampling_probability)
        case dp.SampledWithoutReplacementDpEvent():
            return terms.FixedSizeSampled(from_event(event.event), event.sample_size, event.source_dataset_size)
        case dp.TruncatedSubsampledGaussianDpEvent():
            return _from_truncated(event)
        case dp.SelfComposedDpEvent():
            return terms.Repeated(from_event(event.event), event.count)
        case dp.ComposedDpEvent():
            return terms.Composed(from_event(part) for part in event.events)
    return _from_newer(event)


def _trials(event: Any) -> terms.Trials:
    """The law of a repeat-and-select event, told by its mean; where that is rounded, to more trials."""
    mean, shape = float(event.mean), float(event.shape)
    if not (shape >= 0 and 1 <= mean < math.inf):
        raise UnsupportedMechanismError(event, method=_METHOD)
    if math.isinf(shape):
        return terms.PoissonTrials(mean)
    if mean == 1:
        return terms.BinomialTrials(1, 1.0)
    enough = mean * (1 + _ROUNDED)

    def expects(stops: float) -> bool:
        return accounting.mean_trials(terms.NegativeBinomialTrials(shape, stops)) >= enough

    low, high = _FEWEST_STOPS, _NEARLY_ONE
    if not expects(low):
        raise UnsupportedMechanismError(event, method=_METHOD)
    while high > low * (1 + _ROUNDED):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if expects(middle) else (low, middle)
    return terms.NegativeBinomialTrials(shape, low)


def _from_truncated(event: Any) -> Release:
    if 0 in (event.dataset_size, event.truncated_batch_size):
        return terms.Composed([])
    noise, chance = terms.Gaussian(event.noise_multiplier), event.sampling_probability
    return terms.TruncatedPoissonSampled(noise, chance, event.dataset_size, event.truncated_batch_size)


def _from_newer(event: Any) -> Release:
    """Repeat-and-select, and events that dp-accounting has after 0.6.0, told by their names: 0.6.0 lacks those.

    Permute-and-flip is the noisy maximum of exponential noise, priced by its epsilon-DP statement: dp-accounting prices
    it as Laplace noise, for which we know no proof.
    """
    match type(event).__name__:
        case "EpsilonDeltaDpEvent":
            return terms.ApproximateDP(event.epsilon, event.delta) if event.delta else terms.PureDP(event.epsilon)
        case "DiscreteGaussianDpEvent" if event.dimension == 1 and event.sensitivity == int(event.sensitivity):
            return terms.DiscreteGaussian(event.sigma, sensitivity=int(event.sensitivity))
        case "ExponentialMechanismDpEvent":
            return terms.ExponentialMechanism(event.epsilon)
        case "PermuteAndFlipDpEvent":
            return terms.ReportNoisyMax(event.epsilon, "exponential")
        case "RepeatAndSelectDpEvent":
            return terms.Tuned(from_event(event.event), _trials(event))
    raise UnsupportedMechanismError(event, method=_METHOD)


def to_event(release: Release) -> DpEvent:
    """Writes a release as a ``DpEvent``.

    dp-accounting 0.6.0 has no words for statements other than zCDP, for discrete Gaussian noise and for the exponential
    mechanism; later releases have, and get them.

    Raises:
        UnsupportedMechanismError: the release, or one inside it, has no counterpart there.

    >>> to_event(terms.Repeated(terms.Gaussian(2.0), 3))
    SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=2.0), count=3)
    """
    from dp_accounting import dp_event as dp

    match release:
        case terms.Gaussian():
            return dp.GaussianDpEvent(release.noise_multiplier) if release.noise_multiplier else dp.NonPrivateDpEvent()
        case terms.Laplace():
            return dp.LaplaceDpEvent(release.noise_multiplier) if release.noise_multiplier else dp.NonPrivateDpEvent()
        case terms.DiscreteLaplace() if release.noise_scale > 0:
            return dp.DiscreteLaplaceDpEvent(1 / release.noise_scale, release.sensitivity)
        case terms.RandomizedResponse():
            return dp.RandomizedResponseDpEvent(release.flip_probability, release.categories)
        case terms.ZeroConcentratedDP():
            return dp.ZCDpEvent(release.rho)
        case terms.PoissonSampled():
            return dp.PoissonSampledDpEvent(release.sampling_probability, to_event(release.release))
        case terms.FixedSizeSampled():
            event = to_event(release.release)
            return dp.SampledWithoutReplacementDpEvent(release.population, release.sample_size, event)
        case terms.TruncatedPoissonSampled(release=terms.Gaussian(noise_multiplier=noise)):
            q, size, most = release.sampling_probability, release.population, release.largest_batch
            return dp.TruncatedSubsampledGaussianDpEvent(size, q, most, noise)
        case terms.Repeated():
            return dp.SelfComposedDpEvent(to_event(release.release), release.count)
        case terms.Composed():
            return dp.ComposedDpEvent([to_event(part) for part in release.releases])
    return _to_newer(release, dp)


def _to_newer(release: Release, dp: Any) -> Any:
    match release:
        case terms.PureDP(epsilon=epsilon) if hasattr(dp, "EpsilonDeltaDpEvent"):
            return dp.EpsilonDeltaDpEvent(epsilon, 0.0)
        case terms.ApproximateDP(epsilon=epsilon, delta=delta) if hasattr(dp, "EpsilonDeltaDpEvent"):
            return dp.EpsilonDeltaDpEvent(epsilon, delta)
        case terms.DiscreteGaussian(noise_stddev=stddev) if stddev > 0 and hasattr(dp, "DiscreteGaussianDpEvent"):
            return dp.DiscreteGaussianDpEvent(stddev, release.sensitivity, 1)
        case terms.ExponentialMechanism(monotone=False) if hasattr(dp, "ExponentialMechanismDpEvent"):
            return dp.ExponentialMechanismDpEvent(release.epsilon)
        case terms.ReportNoisyMax(noise="gumbel", monotone=False) if hasattr(dp, "ExponentialMechanismDpEvent"):
            return dp.ExponentialMechanismDpEvent(release.epsilon)
        case terms.ReportNoisyMax(noise="exponential", monotone=False) if hasattr(dp, "PermuteAndFlipDpEvent"):
            return dp.PermuteAndFlipDpEvent(release.epsilon)
        case terms.Tuned(trials=terms.BinomialTrials(most=1, probability=1.0)):
            return dp.RepeatAndSelectDpEvent(to_event(release.release), 1.0, 1.0)
        case terms.Tuned(trials=terms.PoissonTrials(mean=mean)) if mean >= 1:
            return dp.RepeatAndSelectDpEvent(to_event(release.release), mean, math.inf)
        case terms.Tuned(trials=terms.NegativeBinomialTrials(shape=shape)) if shape >= 0:
            mean = accounting.mean_trials(release.trials)
            return dp.RepeatAndSelectDpEvent(to_event(release.release), mean, shape)
    raise UnsupportedMechanismError(release, method=_METHOD)


class _Certified:
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

    def _maybe_compose(self, event: DpEvent, count: int, do_compose: bool) -> Any:
        """Adds the event ``count`` times, or only says which event inside it has no certified bound, and why."""
        from dp_accounting import PrivacyAccountant

        try:
            release = from_event(event)
            _price(frozenset(flatten(release)), self._relation)
            _require_alone(Composed([self._release(), Repeated(release, max(count, 1))]))  # 0 only asks
        except UnsupportedMechanismError as error:
            culprit = error.term if not isinstance(error.term, Release) else to_event(error.term)
            return PrivacyAccountant.CompositionErrorDetails(culprit, str(error))
        if do_compose:
            self._counts[release] = self._counts.get(release, 0) + count
        return None

    def _release(self) -> Release:
        return Composed(Repeated(release, count) for release, count in self._counts.items())

    def interval(self, target_delta: float) -> Interval:
        """Bounds epsilon at ``target_delta`` from both sides, with method and assumptions."""
        return accounting.epsilon(self._release(), delta=target_delta, relation=self._relation, gap=self._gap)

    def get_epsilon(self, target_delta: float) -> float:
        """Bounds epsilon from above, in nats; at delta 1, where all is allowed, it is that of the delta just below."""
        return self.interval(_NEARLY_ONE if target_delta == 1 else target_delta).upper

    def get_delta(self, target_epsilon: float) -> float:
        """Bounds delta from above; beyond a million nats, ``inf`` included, it is that of a million."""
        epsilon = _LARGEST_EPSILON if target_epsilon > _LARGEST_EPSILON else target_epsilon
        return accounting.delta(self._release(), epsilon=epsilon, relation=self._relation, gap=self._gap).upper


@lru_cache(maxsize=4096)
def _price(parts: frozenset[Release], relation: NeighboringRelation) -> float:
    """Prices every distinct part once, roughly: raises ``UnsupportedMechanismError`` where no method has a proof."""
    return accounting.epsilon(Composed(parts), delta=1e-3, relation=relation, gap=0.5).upper


def _require_alone(release: Release) -> None:
    """Refuses the best of several trials with anything beside it: no pair of it is known, so it does not compose."""
    parts = flatten(release)
    tuned = next((part for part in parts if isinstance(part, terms.Tuned)), None)
    if tuned is not None and parts != {tuned: 1}:
        raise UnsupportedMechanismError(
            tuned, method="composition", reason="the best of several trials is priced alone"
        )


@cache
def _accountant() -> type[Any]:
    """``_Certified`` as a subclass of dp-accounting's own base class, which brings ``compose`` and ``ledger``."""
    from dp_accounting import PrivacyAccountant

    body = {"__doc__": _Certified.__doc__, "__module__": __name__}
    return type("CertifiedAccountant", (_Certified, PrivacyAccountant), body)


def __getattr__(name: str) -> Any:
    """Makes ``CertifiedAccountant`` when it is first asked for, so that importing this module needs nobody's code."""
    if name == "CertifiedAccountant":
        return _accountant()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
