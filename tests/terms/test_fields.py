"""The contract of described fields: each mechanism describes all of its fields; construction enforces each bound."""

import dataclasses
import math
from typing import Annotated, get_args, get_type_hints

import pytest

from epsilog import mechanisms
from epsilog.mechanisms import Gaussian, PoissonTrialCount, Release, ToeplitzStrategy, TrialDistribution
from epsilog.terms import CheckError, codec
from epsilog.terms.check import check_fields
from epsilog.terms.fields import Field, _list_annotated, list_fields

KINDS = [
    kind
    for kind in codec.type_of.values()
    if kind.__module__.startswith("epsilog.mechanisms.")
    and (issubclass(kind, Release | TrialDistribution) or kind.__name__.endswith(("Strategy", "Participation")))
]
GIVEN = {
    "release": Gaussian(1.0),
    "trials": PoissonTrialCount(1.0),
    "strategy": ToeplitzStrategy((1.0,)),
    "participation": mechanisms.FullParticipation(),
    "rows": ((1.0,),),
    "sampling_probabilities": (1.0,),
}


def inside(stated, field: Field):
    """A value that the description allows."""
    if bool in (stated, *get_args(stated)):
        return False
    if field.choices:
        return next(iter(field.choices))
    low = field.ge if field.ge is not None else field.gt
    high = field.le if field.le is not None else field.lt
    if int in (stated, *get_args(stated)):
        return int(low or 0)
    number = (low + high) / 2 if low is not None and high is not None else (low or 0.0) + 1.0
    return (number,) if "tuple" in str(stated) else number


def example(kind):
    return {
        name: GIVEN[name] if name in GIVEN else inside(stated, field)
        for name, (stated, field) in _list_annotated(kind).items()
    }


def outside(field: Field):
    """Numbers just past each bound, and what is no number."""
    if field.ge is not None:
        yield field.ge - 1
    if field.le is not None:
        yield field.le + 1
    yield from (bound for bound in (field.gt, field.lt) if bound is not None)
    yield from (math.nan, True, "1", None)


def test_every_mechanism_is_found():
    assert len(KINDS) >= 34
    assert {Gaussian, mechanisms.BestOfTrials, mechanisms.MatrixMechanism, mechanisms.TreeAggregationStrategy} <= set(
        KINDS
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_is_described_once(kind):
    if kind is mechanisms.Composed:  # its one field takes any iterable
        return
    described = list_fields(kind)
    assert list(described) == [field.name for field in dataclasses.fields(kind)]
    for name, field in described.items():
        assert field.help, name
        assert not field.help.endswith("."), name
        assert f"    {name}: {field.help}" in kind.__doc__
    assert set(get_type_hints(kind)) >= set(described)


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind is not mechanisms.Composed], ids=lambda kind: kind.__name__
)
def test_construction_enforces_each_bound(kind):
    given = example(kind)
    made = kind(**given)
    assert codec.from_json(made.to_json()) == made if isinstance(made, Release) else made == kind(**given)
    for name, (stated, field) in _list_annotated(kind).items():
        if not {int, float} & {stated, *get_args(stated)}:
            continue
        for value in outside(field):
            if value is None and type(None) in get_args(stated):
                continue
            wrong = (value,) if "tuple" in str(stated) and name != "rows" else value
            with pytest.raises(CheckError, match=f"^{name}"):
                kind(**given | {name: wrong})


@dataclasses.dataclass(frozen=True)
class Unchecked:
    noise: Annotated[float, Field("noise", ge=0)]


def test_a_class_that_does_not_check_takes_what_its_fields_refuse():
    """The control of the test above."""
    made = Unchecked(-1.0)
    with pytest.raises(CheckError, match=r"^noise must be finite and at least 0, got -1"):
        check_fields(made)
