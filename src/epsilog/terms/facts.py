"""The public facts of a run, each told once: what it means, what it must be, and how papers write it.

A term's field carries its fact in its annotation, and ``settle`` checks it at birth. The programme file, the command
line, the API and the form on the page take bounds and words from the same fact, or are compared with it by a test.

>>> from epsilog.terms import ClientLevelCentral
>>> of(ClientLevelCentral)["rounds"].says
'training rounds'
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from inspect import cleandoc
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

from epsilog.terms import check
from epsilog.terms.check import DOWN, UP
from epsilog.terms.guarantee import NeighboringRelation

__all__ = ["REQUIRED", "Fact", "described", "of", "settle", "type_of"]

REQUIRED: Any = object()
"""The default of a fact that has none."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One public fact: what a number, a word or a choice means, and what it must be.

    Attributes:
        says: what it means, as a phrase.
        symbol: how papers write it; "" if they do not.
        least: the smallest number that is allowed.
        above: a number that it must be above.
        below: a number that it must be below.
        most: the largest number that is allowed.
        at_most: the name of another fact beside it that it must not be above; "" for none.
        choices: the words that are allowed, each with what it means.
        default: what stands where nothing is said; ``REQUIRED`` for a fact that must be stated.
        blank: what leaving it out means; "" where it cannot be left out.
        series: whether it is a list of such numbers.
        safe: the side to which a number between two doubles is rounded, ``UP`` or ``DOWN``; None where neither is safe.
    """

    says: str
    symbol: str = ""
    least: float | None = None
    above: float | None = None
    below: float | None = None
    most: float | None = None
    at_most: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    default: Any = REQUIRED
    blank: str = ""
    series: bool = False
    safe: float | None = None

    @property
    def bounds(self) -> dict[str, float]:
        """The bounds that are stated, by name."""
        named = {"least": self.least, "above": self.above, "below": self.below, "most": self.most}
        return {name: bound for name, bound in named.items() if bound is not None}

    def rule(self, kind: type, most: float | None = None) -> check.Rule[Any]:
        """The rule for one value of ``kind``; ``most`` is the value of the fact that it must not be above."""
        if kind is bool:
            return check.flag()
        if issubclass(kind, Enum):
            return check.member(kind)
        if kind is str:
            return check.one_of(tuple(self.choices)) if self.choices else check.text()
        return self._whole(most) if kind is int else self._real()

    def _whole(self, most: float | None) -> check.Rule[int]:
        least, most = int(self.least or 0), self.most if most is None else most
        return check.integer(least) if most is None else check.integer(least, int(most))

    def _real(self) -> check.Rule[float]:
        match self.bounds:
            case bounds if not bounds:
                return check.finite(self.safe)
            case {"above": low, "below": high}:
                return check.between(low, high, self.safe)
            case {"above": 0, "most": 1}:
                return check.share(self.safe)
            case {"least": low, "most": high}:
                return check.within(low, high, self.safe)
            case {"above": 0}:
                return check.positive(self.safe)
            case {"least": low}:
                return check.at_least(low, self.safe)
        raise TypeError(f"no rule is known for a number with bounds {self.bounds}")


K = TypeVar("K", bound=type[Any])


@cache
def _annotated(kind: Any) -> dict[str, tuple[type, Fact]]:
    """Each described field of a dataclass with its type."""
    hints = get_type_hints(kind, include_extras=True)
    found = {each.name: (*get_args(hints[each.name]), None)[:2] for each in dataclasses.fields(kind)}
    return {name: (_stated(base), fact) for name, (base, fact) in found.items() if isinstance(fact, Fact)}


def _stated(kind: Any) -> type:
    """What a fact is where it is not left out; of a list, each of its items."""
    parts = [part for part in get_args(kind) if part is not NoneType]
    found: type = _stated(parts[0]) if parts else kind
    return found


def of(kind: type) -> dict[str, Fact]:
    """The facts that a term's fields carry, by name and in their order."""
    return {name: fact for name, (_, fact) in _annotated(kind).items()}


def type_of(kind: type, name: str) -> type:
    """What a described field is where it is stated: int, float, str, bool or an enum; of a list, each of its items."""
    return _annotated(kind)[name][0]


def settle(born: Any) -> None:
    """Checks every described field of a frozen dataclass, for its ``__post_init__``; each becomes Python's own kind."""
    of_what: type = type(born)
    for name, (kind, fact) in _annotated(of_what).items():
        most = getattr(born, fact.at_most) if fact.at_most else None
        rule = check.each(fact.rule(kind, most)) if fact.series else fact.rule(kind, most)
        check.fields(born, **{name: rule if fact.default is not None else check.optional(rule)})


def described(kind: K) -> K:
    """Writes a dataclass's facts where readers look: their words into its docstring, plain types into its signature."""
    if kind.__doc__:  # Python may have stripped it
        lines = "\n".join(f"    {name}: {fact.says}." for name, fact in of(kind).items())
        kind.__doc__ = f"{cleandoc(kind.__doc__)}\n\nAttributes:\n{lines}\n"
    kind.__init__.__annotations__ |= {name: _shown(type_of(kind, name), fact) for name, fact in of(kind).items()}
    return kind


def _shown(kind: type, fact: Fact) -> str:
    return (f"tuple[{kind.__name__}, ...]" if fact.series else kind.__name__) + " | None" * (fact.default is None)


RELATIONS = {
    NeighboringRelation.ADD_OR_REMOVE_ONE.value: "add or remove one",
    NeighboringRelation.REPLACE_ONE.value: "replace one",
    NeighboringRelation.ZERO_OUT.value: "zero out one",
}
SAMPLERS = {
    "poisson": "Poisson: a coin for every unit",
    "fixed-size": "fixed size, without replacement",
    "balls-in-bins": "balls in bins: one round an epoch",
}

POPULATION = Fact("privacy units in all; declared, public", "N", least=1)
CLIENTS = Fact("clients in all; declared, public", "N", least=1)
COHORT_SIZE = Fact("units expected in a round", "m", least=1, at_most="population")
ROUNDS = Fact("training rounds", "T", least=1)
NOISE_MULTIPLIER = Fact("noise standard deviation on the sum, over the clip norm", "σ", least=0, safe=DOWN)
CORRELATED_NOISE = Fact(
    "standard deviation of the noise before it is correlated, over the clip norm", "σ", least=0, safe=DOWN
)
UPDATE_CLIP = Fact("the L2 norm to which each client's update is clipped", "C", above=0)
TURNS = Fact("rounds from one turn of a client to its next; its place says when", "b", least=1, at_most="clients")
CLIP_NORM = Fact("the most one unit can move the sum, in L2 norm; costs nothing", "C", above=0, default=1.0)
SAMPLING = Fact("what the code really does to pick a cohort", choices=SAMPLERS, default="poisson")
RELATION = Fact("which data sets are neighbours", choices=RELATIONS, default=NeighboringRelation.ADD_OR_REMOVE_ONE)
LATE_REPLIES = {
    "zero": "left out: each counts as a zero update",
    "first": "the round closes once enough have replied",
    "again": "others are invited in their place",
}
PRIVACY_UNIT = Fact("what one neighbour differs in", default="client")
DELTA = Fact("failure probability", "δ", above=0, below=1, default=None, blank="min(1/N, the cap)", safe=DOWN)
DELTA_CAP = Fact("the largest delta that the policy accepts", above=0, below=1, default=1e-6, blank="no cap", safe=DOWN)
RELEASES_PER_PERIOD = Fact("runs released in one period on the same population", least=1, default=1)
GROUP = Fact("units that one person holds, at most: adds that person's price", "k", least=1, most=64, default=1)
TRIALS = Fact(
    "the law of the number of runs, of which the best alone is released: adds what that sweep costs",
    default=None,
    blank="one run; else such as binomial:8,0.5 or geometric:0.1",
)
WITHOUT_REPLACEMENT = Fact("one unit gives at most one update a round", default=True)
ROUNDS_PER_RELEASE = Fact("rounds between two models that leave the server", least=1, default=1)
ADAPTIVE_CLIP = Fact("the clip norm is learnt from the same data", default=False)
LATE = Fact("what becomes of late or missing replies", choices=LATE_REPLIES, default="zero")
EPSILON = Fact("the goal, in nats", "ε", above=0, safe=DOWN)

MECHANISMS = {"laplace": "Laplace", "gaussian": "Gaussian"}
TOTAL_EPSILON = Fact("the whole budget, in nats", "ε", above=0, safe=DOWN)
TOTAL_DELTA = Fact("total failure probability", "δ", above=0, below=1, default=None, blank="none, or from N", safe=DOWN)
QUERIES = Fact("queries planned", "Q", least=1)
QUERIES_USED = Fact("queries answered already", least=0, default=0)
SENSITIVITY = Fact("the most one unit can move an answer", "Δ", above=0, default=1.0, safe=UP)
MECHANISM = Fact("the noise", choices=MECHANISMS, default="laplace")
UNITS = Fact("privacy units, for the delta policy", "N", least=1, default=None, blank="unknown")
WEIGHTS = Fact("relative shares, one for each query", above=0, default=None, blank="even")
MAGNITUDE = Fact("a typical true answer, to compare errors with", default=None, blank="unknown")
