"""Flower: the state of its accountants in our terms, and a certified accountant for its strategies (flwr >= 1.41).

    from epsilog.adapters.flower import CertifiedAccountant
    strategy = DifferentialPrivacyServerSideFixedClipping(..., accountant=CertifiedAccountant(config))

``config`` is Flower's ``PrivacyConfig``; its units are clients. With a ``max_epsilon`` the strategy asks
``would_exceed`` before it sends anything out, and refuses with Flower's ``PrivacyBudgetExhausted``. States are read
without Flower.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from epsilog import accounting
from epsilog.mechanisms import Composed, FixedSizeSampled, Gaussian, PoissonSampled, Release, Repeated
from epsilog.terms import CheckError, Interval, NeighboringRelation, check
from epsilog.terms.messages import Message

if TYPE_CHECKING:
    from flwr.serverapp import GaussianPrivacyEvent, PrivacyConfig, PrivacySpent

BACKEND = "epsilog"
SCHEMA_VERSION = 1  # of Flower's own state, which ours extends by a backend

_READABLE = (BACKEND, "rdp")  # both list the events themselves, so either can be priced afresh
_UNAMPLIFIED = "who is sampled does not depend on who is in the population: an absent client is a zero update"
_FIELDS = ("target_delta", "population_size", "neighboring_relation", "sampling_method", "max_epsilon")


@dataclass(frozen=True, slots=True)
class AccountantState:
    """What the state of a Flower accountant says.

    Attributes:
        release: all that was released so far; the unit is a client.
        relation: which populations of clients are neighbours.
        delta: the failure probability it reports at.
        population: clients in all.
        max_epsilon: the limit before which it refuses, in nats; None for none.
        assumptions: what Flower's way of sampling takes for granted, beyond what the release itself says.
    """

    release: Release
    relation: NeighboringRelation
    delta: float
    population: int
    max_epsilon: float | None
    assumptions: tuple[str, ...] = ()

    def interval(self, delta: float | None = None, *, gap: float = 0.002) -> Interval:
        """Bounds epsilon from both sides, with method and assumptions; a blank delta is the one it reports at."""
        at = self.delta if delta is None else delta
        at = check.in_open_interval(0, 1, check.DOWN)(delta=at)
        bounds = accounting.epsilon(self.release, delta=at, relation=self.relation, gap=gap)
        return replace(bounds, assumptions=(*bounds.assumptions, *map(Message.read, self.assumptions)))


def from_state(state: Mapping[str, Any]) -> AccountantState:
    """Reads ``state_dict()`` of this accountant or of Flower's ``RdpAccountant``; nothing in it is trusted.

    Raises:
        ValueError: a version or backend that is not known, a field that is missing, or a value out of range.

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
        delta, population, limit = config["target_delta"], config["population_size"], config["max_epsilon"]
        relation = NeighboringRelation(config["neighboring_relation"])
        parts = [(entry["event"], entry["count"]) for entry in state["compositions"]]
        sums = [
            Repeated(_noisy_sum(event, population, config["sampling_method"], relation), count)
            for event, count in parts
        ]
    except (KeyError, TypeError) as error:
        raise ValueError(f"state is not that of a Flower accountant: {error!r}") from error
    delta = check.in_open_interval(0, 1, check.DOWN)(target_delta=delta)
    population = check.integer(1)(population_size=population)
    if limit is not None:
        limit = check.positive(check.DOWN)(max_epsilon=limit)
    assumed = (_UNAMPLIFIED,) if config["sampling_method"] == "no-amplification" else ()
    return AccountantState(Composed(sums), relation, delta, population, limit, assumed)


def _noisy_sum(event: Mapping[str, Any], population: int, sampling: str, relation: NeighboringRelation) -> Release:
    """One release of the sampling that was declared; other pairs of sampling and relation have no meaning there."""
    if event["population_size"] != population:
        raise CheckError("population_size", f"{population}", repr(event["population_size"]))
    noise = Gaussian(check.positive()(noise_multiplier=event["noise_multiplier"]))
    size = check.integer(1, population)(sample_size=event["sample_size"])
    match sampling, relation:
        case "poisson", NeighboringRelation.ADD_OR_REMOVE_ONE:
            return PoissonSampled(noise, size / population)
        case "without-replacement", NeighboringRelation.REPLACE_ONE:
            return FixedSizeSampled(noise, size, population)
        case "no-amplification", NeighboringRelation.ADD_OR_REMOVE_ONE:
            return noise
    raise CheckError("sampling_method", f"one that goes with {relation}", repr(sampling))


class CertifiedAccountant:
    """Flower's ``PrivacyAccountant`` protocol, answered with certified upper bounds.

    ``compose`` records what has been released and therefore never refuses on grounds of budget; ``would_exceed`` is
    the question to ask before a release.
    """

    def __init__(self, config: PrivacyConfig) -> None:
        self._config = config
        self._counts: dict[tuple[float, int], int] = {}  # by noise multiplier and sample size
        self._run()  # checks

    @property
    def config(self) -> PrivacyConfig:
        """The configuration it was made with."""
        return self._config

    @property
    def num_releases(self) -> int:
        """How many releases were composed."""
        return sum(self._counts.values())

    def compose(self, event: GaussianPrivacyEvent, count: int = 1) -> None:
        """Records releases that have been made; one that cannot be described is an error, and changes nothing."""
        self._counts = self._with(event, count)

    def interval(self, delta: float | None = None, *, gap: float = 0.002) -> Interval:
        """Bounds epsilon from both sides, with method and assumptions; a blank delta is the configured one."""
        return self._run().interval(delta, gap=gap)

    def get_epsilon(self, delta: float) -> float:
        """Bounds epsilon at ``delta`` from above, in nats."""
        return self.interval(delta).upper

    def get_delta(self, epsilon: float) -> float:
        """Bounds delta at ``epsilon`` from above."""
        run = self._run()
        return accounting.delta(run.release, epsilon=epsilon, relation=run.relation).upper

    def get_privacy_spent(self, delta: float | None = None) -> PrivacySpent:
        """Reports the bound, its delta, and the method that proved it."""
        from flwr.serverapp import PrivacySpent

        interval = self.interval(delta)
        at = self._config.target_delta if delta is None else delta
        return PrivacySpent(interval.upper, at, self.num_releases, f"{BACKEND}: {interval.method}")

    def would_exceed(self, event: GaussianPrivacyEvent, max_epsilon: float | None = None, count: int = 1) -> bool:
        """Says whether these releases on top of all others would break the limit; changes nothing."""
        limit = self._config.max_epsilon if max_epsilon is None else max_epsilon
        if limit is None:
            raise CheckError("max_epsilon", "given here or in the configuration", "None")
        limit = check.positive(check.DOWN)(max_epsilon=limit)
        return not self._run(self._with(event, count)).interval().upper <= limit

    def state_dict(self) -> dict[str, object]:
        """Returns all of it as JSON values, in Flower's own form."""
        return self._document(self._counts)

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Takes over a state of this accountant, or of Flower's own, that has the same configuration.

        Raises:
            ValueError: as in ``from_state``, or another configuration; nothing changes then.
        """
        from_state(state)  # checks every field, so that what follows can only find what is there
        known: Any = state
        if {field: known["config"].get(field) for field in _FIELDS} != self._document({})["config"]:
            raise CheckError("config", "that of this accountant", repr(known["config"]))
        counts: dict[tuple[float, int], int] = {}
        for entry in known["compositions"]:
            key = (entry["event"]["noise_multiplier"], entry["event"]["sample_size"])
            counts[key] = counts.get(key, 0) + entry["count"]
        self._counts = counts

    def _with(self, event: GaussianPrivacyEvent, count: int) -> dict[tuple[float, int], int]:
        if event.population_size != self._config.population_size:
            raise CheckError("population_size", f"{self._config.population_size}", repr(event.population_size))
        count = check.integer(1)(count=count)
        key = (event.noise_multiplier, event.sample_size)
        counts = self._counts | {key: self._counts.get(key, 0) + count}
        self._run(counts)  # checks the event
        return counts

    def _run(self, counts: dict[tuple[float, int], int] | None = None) -> AccountantState:
        return from_state(self._document(self._counts if counts is None else counts))

    def _document(self, counts: dict[tuple[float, int], int]) -> dict[str, object]:
        config = {field: getattr(self._config, field) for field in _FIELDS}
        config |= {field: config[field].value for field in ("neighboring_relation", "sampling_method")}
        return {
            "schema_version": SCHEMA_VERSION,
            "backend": BACKEND,
            "config": config,
            "compositions": [
                {
                    "event": {
                        "noise_multiplier": noise,
                        "sample_size": size,
                        "population_size": self._config.population_size,
                    },
                    "count": count,
                }
                for (noise, size), count in counts.items()
            ],
        }
