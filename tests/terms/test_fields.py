"""The contract of described fields: each field is described once, and construction enforces each bound."""

import dataclasses
import importlib
import inspect
import math
from pathlib import Path
from typing import Annotated, get_args

import pytest
from tests.terms.test_codec import SAMPLES

from epsilog import mechanisms, terms
from epsilog.ledger.checkpoints import Checkpoint
from epsilog.mechanisms.composition import Composition
from epsilog.plan import Schedule, TrainingLoop
from epsilog.plan.dp_sgd_plan import DPSGDRun
from epsilog.plan.questions import Part
from epsilog.schemes import SCHEMES
from epsilog.terms import CheckError, Finding, check
from epsilog.terms.check import check_fields
from epsilog.terms.fields import Field, _list_annotated, field_type, list_fields
from epsilog.terms.policy import DeltaChoice, DeltaPolicy

DESCRIBED = {type(term): term for term in reversed(SAMPLES) if list_fields(type(term))}
WITHOUT_TAG = {  # described, and no term of a document
    type(one): one
    for one in (
        Part("randomized-response", 0.25, second=2.0),
        TrainingLoop(9, 3.0, 5, 1.0, noise_changes=(2,), changed_noise=(0.5,), accountant_sampling_probability=0.5),
        DPSGDRun(90, 3, 1.0, epochs=2.0),
        Schedule(90, 3, 5, 1.0),
        DeltaChoice(1e-6, "a reason"),
        DeltaPolicy(1e-6),
    )
}
RECORDS = {kind for kind in DESCRIBED if kind.__module__ == "epsilog.terms.rounds"}


def of_each(kinds):
    return pytest.mark.parametrize("kind", kinds, ids=lambda kind: kind.__name__)


def test_every_mechanism_and_scheme_is_described():
    assert len(DESCRIBED) >= 40
    kinds = {type(one) for one in SAMPLES if not hasattr(terms, type(one).__name__) and dataclasses.fields(one)}
    assert kinds - DESCRIBED.keys() == {mechanisms.Composed}  # its one field takes any iterable


@of_each([kind for kind in DESCRIBED if kind not in RECORDS])
def test_every_field_is_described_once(kind):
    known = list_fields(kind)
    assert list(known) == [field.name for field in dataclasses.fields(kind)]
    for own in dataclasses.fields(kind):
        name, field = own.name, known[own.name]
        if own.default is not dataclasses.MISSING and kind in SCHEMES.values():
            assert own.default == field.default
        assert field.help, name
        assert not field.help.endswith("."), name
        assert f"    {name}: {field.help}" in kind.__doc__


def near(bound, side):
    """The next number on a side of a bound: a whole one, or a double."""
    return bound + side if isinstance(bound, int) else math.nextafter(bound, side * math.inf)


def put(value, number):
    """A number in the place of another one: alone, or the last of a list, or of its last row."""
    return (*value[:-1], put(value[-1] if value else 0, number)) if isinstance(value, tuple) else number


def refused(term, name, value):
    """The field that a value is refused for, or "" where it is taken as it is."""
    try:
        return "" if getattr(dataclasses.replace(term, **{name: value}), name) == value else "changed"
    except CheckError as error:
        return error.field


@of_each(DESCRIBED | WITHOUT_TAG)
def test_construction_enforces_each_bound(kind):
    """The least number is taken, unless another field says no; what is just past a bound, or no number, is refused."""
    term = (DESCRIBED | WITHOUT_TAG)[kind]
    for name, (stated, field) in _list_annotated(kind).items():
        scalar, value = field_type(kind, name), getattr(term, name)
        if scalar in (str, bool):
            assert all(refused(term, name, put(value, bad)) == name for bad in (1.5, *["?"] * bool(field.choices))), (
                name
            )
        if scalar not in (int, float) or value is None:
            continue
        bounds = {key: scalar(bound) for key, bound in field.bounds.items()}
        least = bounds.get("ge", near(bounds["gt"], 1) if "gt" in bounds else value)
        assert isinstance(value, tuple) or not refused(term, name, least).startswith(name)
        past = [near(at, -1 if key == "ge" else 1) if key in ("ge", "le") else at for key, at in bounds.items()]
        for bad in (*past, math.nan, True, "1", *([] if type(None) in get_args(stated) else [None])):
            assert refused(term, name, put(value, bad)).startswith(name), bad


def list_classes_with_rules():
    """Every dataclass of ours with a rule in an annotation of its own."""
    root = Path(terms.__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        if "Annotated[" in path.read_text("utf-8"):
            name = ".".join(("epsilog", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
            own = [
                one for one in vars(importlib.import_module(name)).values() if getattr(one, "__module__", "") == name
            ]
            for kind in filter(dataclasses.is_dataclass, own):
                if "Annotated" in str(kind.__annotations__) and not inspect.isabstract(kind):
                    yield kind


def test_every_class_with_rules_checks_its_fields_before_it_reads_one(monkeypatch):
    """Those of the ledger that are made for each command, and findings, check by hand."""

    class CheckedError(Exception):
        pass

    def check_fields(_):
        raise CheckedError

    by_hand = {Finding, Checkpoint, Composition}
    kinds = [one for one in list_classes_with_rules() if ".ledger.commands." not in one.__module__]
    assert len(kinds) > 100
    monkeypatch.setattr(check, "check_fields", check_fields)
    for kind in kinds:
        if kind not in by_hand:
            with pytest.raises(CheckedError):
                object.__new__(kind).__post_init__()


@dataclasses.dataclass(frozen=True)
class Unchecked:
    noise: Annotated[float, Field("noise", ge=0)]


def test_a_class_that_does_not_check_takes_what_its_fields_refuse():
    """The control of the test above."""
    made = Unchecked(-1.0)
    with pytest.raises(CheckError, match=r"^noise must be finite and at least 0, got -1"):
        check_fields(made)
    assert mechanisms.Gaussian(5e-324, sensitivity=5e-324).sensitivity == 5e-324
