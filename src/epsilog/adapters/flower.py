"""Read the state of Flower's accountants, and provide a certified accountant for its strategies (flwr >= 1.41).

    from epsilog.adapters.flower import CertifiedAccountant
    strategy = DifferentialPrivacyServerSideFixedClipping(..., accountant=CertifiedAccountant(config))

``config`` is Flower's ``PrivacyConfig``; the privacy unit is a client. With a ``max_epsilon`` the strategy calls
``would_exceed`` before each round, and raises Flower's ``PrivacyBudgetExhausted``. States are read without Flower.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from epsilog import accounting
from epsilog.mechanisms import Composed, FixedSizeSampled, Gaussian, PoissonSampled, Release, Repeated
from epsilog.terms import CheckError, Interval, NeighboringRelation, check
from epsilog.terms.messages import Message

if TYPE_CHECKING:
    from flwr.serverapp import GaussianPrivacyEvent, PrivacyConfig, PrivacySpent

BACKEND = "epsilog"
SCHEMA_VERSION = 1  # of Flower's state, to which we add a backend

_READABLE = (BACKEND, "rdp")  # both list the events, from which epsilon is computed again
_UNAMPLIFIED = "who is sampled does not depend on who is in the population: an absent client is a zero update"
_FIELDS = ("target_delta", "population_size", "neighboring_relation", "sampling_method", "max_epsilon")

_Counts = dict[tuple[float, int], int]
"""Number of releases by noise multiplier and sample size."""


@dataclass(frozen=True, slots=True)
class AccountantState:
    """The state of a Flower accountant.

    Attributes:
        release: all releases so far; the privacy unit is a client.
        relation: the neighboring relation of populations of clients.
        delta: the delta of its reports.
        population: number of clients.
        max_epsilon: the largest epsilon that it allows, in nats; None for no limit.
        assumptions: assumptions of Flower's sampling method, beyond those of the release.
    """

    release: Release
    relation: NeighboringRelation
    delta: float
    population: int
    max_epsilon: float | None
    assumptions: tuple[str, ...] = ()

    def interval(self, delta: float | None = None, *, relative_width: float = 0.002) -> Interval:
        """Bound epsilon from both sides, with method and assumptions; delta None is the delta of its reports."""
        at = self.delta if delta is None else delta
        at = check.in_open_interval(0, 1, check.DOWN)(delta=at)
        bounds = accounting.epsilon(self.release, delta=at, relation=self.relation, relative_width=relative_width)
        return replace(bounds, assumptions=(*bounds.assumptions, *map(Message.read, self.assumptions)))


def from_state(state: Mapping[str, Any]) -> AccountantState:
    """Read the ``state_dict()`` of this accountant or of Flower's ``RdpAccountant``; nothing in it is trusted.

    Raises:
        ValueError: the version or backend is unknown, a field is missing, or a value is out of range.

    >>> event = {"noise_multiplier": 2.0, "sample_size": 10, "population_size": 100}
    >>> config = {"target_delta": 1e-5, "population_size": 100, "max_epsilon": None,
    ...           "neighboring_relation": "add-or-remove-one", "sampling_method": "poisson"}
    >>> state = {"schema_version": 1, "backend": "rdp", "config": config}
    >>> from_state(state | {"compositions": [{"event": event, "count": 3}]}).release.releases
    (Repeated(release=PoissonSampled(release=Gaussian(noise_multiplier=2.0, sensitivity=1.0), ...
    """
    state = check.instance_of(Mapping)(state=state)
    if state.get("schema_version") != SCHEMA_VERSION or state.get("backend") not in _READABLE:
        raise CheckError(
            "state",
            f"schema_version {SCHEMA_VERSION} and a backend in {_READABLE}",
            f"{state.get('schema_version')!r} and {state.get('backend')!r}",
            verb="have",
        )
    try:
        config = state["config"]
        delta = check.in_open_interval(0, 1, check.DOWN)(target_delta=config["target_delta"])
        population = check.integer(1)(population_size=config["population_size"])
        limit = check.optional(check.positive(check.DOWN))(max_epsilon=config["max_epsilon"])
        relation, sampling = NeighboringRelation(config["neighboring_relation"]), config["sampling_method"]
        counts = _read_counts(state["compositions"], population)
    except (KeyError, TypeError) as error:
        raise ValueError(f"state is not that of a Flower accountant: {error!r}") from error
    sums = [
        Repeated(_build_release(noise, size, population, sampling, relation), count)
        for (noise, size), count in counts.items()
    ]
    assumptions = (_UNAMPLIFIED,) if sampling == "no-amplification" else ()
    return AccountantState(Composed(sums), relation, delta, population, limit, assumptions)


def _read_counts(compositions: Iterable[Mapping[str, Any]], population: int) -> _Counts:
    """Read the events of a state, each with its count; equal events are one."""
    counts: _Counts = {}
    for entry in compositions:
        event = entry["event"]
        stated = check.integer(1)(population_size=event["population_size"])
        if stated != population:
            raise CheckError("population_size", f"{population}", f"{stated}")
        noise = check.positive()(noise_multiplier=event["noise_multiplier"])
        key = noise, check.integer(1, population)(sample_size=event["sample_size"])
        counts[key] = counts.get(key, 0) + check.integer(1)(count=entry["count"])
    return counts


def _build_release(
    noise_multiplier: float, size: int, population: int, sampling: str, relation: NeighboringRelation
) -> Release:
    """Return one release under the declared sampling; Flower defines three pairs of sampling and relation."""
    noise = Gaussian(noise_multiplier)
    match sampling, relation:
        case "poisson", NeighboringRelation.ADD_OR_REMOVE_ONE:
            return PoissonSampled(noise, size / population)
        case "without-replacement", NeighboringRelation.REPLACE_ONE:
            return FixedSizeSampled(noise, size, population)
        case "no-amplification", NeighboringRelation.ADD_OR_REMOVE_ONE:
            return noise
    raise CheckError("sampling_method", f"one that goes with {relation}", repr(sampling))


class CertifiedAccountant:
    """An accountant for Flower's ``PrivacyAccountant`` protocol that returns certified upper bounds.

    ``compose`` records releases that have been made, and therefore ignores the budget; call ``would_exceed`` before a
    release.
    """

    def __init__(self, config: PrivacyConfig) -> None:
        self._config = config
        self._counts: _Counts = {}
        self._build_state()  # checks the configuration

    @property
    def config(self) -> PrivacyConfig:
        """Return the configuration of this accountant."""
        return self._config

    @property
    def num_releases(self) -> int:
        """Number of composed releases."""
        return sum(self._counts.values())

    def compose(self, event: GaussianPrivacyEvent, count: int = 1) -> None:
        """Record releases that have been made; an invalid event raises an error and changes nothing."""
        self._counts = self._add_event(event, count)

    def interval(self, delta: float | None = None, *, relative_width: float = 0.002) -> Interval:
        """Bound epsilon from both sides, with method and assumptions; delta None is the configured one."""
        return self._build_state().interval(delta, relative_width=relative_width)

    def get_epsilon(self, delta: float) -> float:
        """Bound epsilon at ``delta`` from above, in nats."""
        return self.interval(delta).upper

    def get_delta(self, epsilon: float) -> float:
        """Bound delta at ``epsilon`` from above."""
        state = self._build_state()
        return accounting.delta(state.release, epsilon=epsilon, relation=state.relation).upper

    def get_privacy_spent(self, delta: float | None = None) -> PrivacySpent:
        """Return the bound, its delta and its accounting method."""
        from flwr.serverapp import PrivacySpent

        interval = self.interval(delta)
        at = self._config.target_delta if delta is None else delta
        return PrivacySpent(interval.upper, at, self.num_releases, f"{BACKEND}: {interval.method}")

    def would_exceed(self, event: GaussianPrivacyEvent, max_epsilon: float | None = None, count: int = 1) -> bool:
        """Return whether these releases, after all others, would exceed the limit; change nothing."""
        limit = self._config.max_epsilon if max_epsilon is None else max_epsilon
        if limit is None:
            raise CheckError("max_epsilon", "given here or in the configuration", "None")
        limit = check.positive(check.DOWN)(max_epsilon=limit)
        return not self._build_state(self._add_event(event, count)).interval().upper <= limit

    def state_dict(self) -> dict[str, object]:
        """Return the state as JSON values, in Flower's form."""
        return self._to_json(self._counts)

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Adopt a state of this accountant, or of Flower's, with the same configuration.

        Raises:
            ValueError: as in ``from_state``, or another configuration; nothing changes.
        """
        population = from_state(state).population
        known: Any = state
        if {field: known["config"].get(field) for field in _FIELDS} != self._to_json({})["config"]:
            raise CheckError("config", "that of this accountant", repr(known["config"]))
        self._counts = _read_counts(known["compositions"], population)

    def _add_event(self, event: GaussianPrivacyEvent, count: int) -> _Counts:
        names = ("noise_multiplier", "sample_size", "population_size")
        entry = {"event": {name: getattr(event, name) for name in names}, "count": count}
        counts = dict(self._counts)
        for key, added in _read_counts([entry], self._build_state().population).items():
            counts[key] = counts.get(key, 0) + added
        return counts

    def _build_state(self, counts: _Counts | None = None) -> AccountantState:
        return from_state(self._to_json(self._counts if counts is None else counts))

    def _to_json(self, counts: _Counts) -> dict[str, object]:
        config = {field: getattr(self._config, field) for field in _FIELDS}
        config |= {field: config[field].value for field in ("neighboring_relation", "sampling_method")}
        population = config["population_size"]
        compositions = [
            {"event": {"noise_multiplier": noise, "sample_size": size, "population_size": population}, "count": count}
            for (noise, size), count in counts.items()
        ]
        return {"schema_version": SCHEMA_VERSION, "backend": BACKEND, "config": config, "compositions": compositions}
