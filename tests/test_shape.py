"""The shape of the source may only get simpler: nobody asks which mechanism it has, and a question enters few files."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts/shape.py"
MOST_SITES = 0  # a function that needs to know what a mechanism can do calls a hook
MOST_ENTERED = {"Gaussian": 10, "DP-SGD": 18}  # files whose functions epsilon calls


@pytest.fixture(scope="module")
def shape():
    spec = importlib.util.spec_from_file_location("shape", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_no_further_place_asks_for_a_mechanism(shape):
    assert {"Gaussian", "PoissonSampled", "BestOfTrials", "MatrixMechanism"} <= shape.mechanisms()
    assert shape.count_sites().total() <= MOST_SITES, shape.count_sites().most_common(5)


@pytest.mark.parametrize(("name", "most"), MOST_ENTERED.items())
def test_a_question_enters_no_further_file(shape, name, most):
    entered = shape.list_entered(shape.questions()[name])
    assert {"accounting/account.py", "mechanisms/gaussian.py"} <= entered
    assert len(entered) <= most, sorted(entered)


@pytest.mark.parametrize(
    ("source", "sites"),
    [
        ("isinstance(x, Gaussian)", 1),
        ("isinstance(x, mechanisms.Gaussian | Laplace)", 1),
        ("isinstance(x, float)", 0),
        ("match x:\n    case Gaussian(sigma) | Laplace(sigma):\n        pass\n    case Other():\n        pass", 2),
        ("@f.register\ndef _(x: Gaussian): ...", 1),
        ("@f.register\ndef _(x: int): ...", 0),
    ],
)
def test_each_way_of_asking_is_counted(shape, source, sites):
    assert len(list(shape.dispatch_sites(source, {"Gaussian", "Laplace"}))) == sites
