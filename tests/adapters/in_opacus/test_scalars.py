"""Numbers of PyTorch, and what holds none."""

from fractions import Fraction

import numpy as np
import pytest
import torch

import epsilog as ep
from epsilog.accounting.montecarlo import delta_from_samples
from epsilog.mechanisms import ExponentialMechanism, Gaussian, PureDP, Repeated
from epsilog.terms import CheckError, arrays

KINDS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("kind", KINDS)
def test_a_tensor_without_an_axis_is_the_number_that_it_holds(kind):
    tensor = torch.tensor(0.1, dtype=kind)
    found = Gaussian(tensor).noise_multiplier
    assert type(found) is float
    assert Fraction(found) == Fraction(tensor.double().item())
    assert Gaussian(torch.nn.Parameter(tensor)) == Gaussian(tensor.clone().requires_grad_()) == Gaussian(tensor)


def test_whole_numbers_and_flags_too():
    for kind in (torch.uint8, torch.int64):
        assert Repeated(PureDP(1.0), torch.tensor(200, dtype=kind)) == Repeated(PureDP(1.0), 200)
    assert ExponentialMechanism(1.0, monotone=torch.tensor(True)).monotone is True


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([0.5]),
        torch.tensor(True),
        torch.tensor(1j),
        torch.tensor(0.5, device="meta"),
        torch.tensor(0.5).as_subclass(type("Mine", (torch.Tensor,), {})),
        torch.tensor(float("nan")),
    ],
    ids=["an axis", "a flag", "complex", "no data", "a subclass", "not a number"],
)
def test_what_holds_no_number_is_refused(value):
    with pytest.raises(CheckError, match="noise_multiplier must be"):
        Gaussian(value)


def test_under_a_transformation_nothing_is_known():
    with pytest.raises(CheckError, match="noise_multiplier must be a number that can be read now"):
        torch.func.vmap(lambda x: x * Gaussian(x).noise_multiplier)(torch.ones(3))


def test_series():
    assert ep.epsilon(Gaussian(1.0), delta=torch.tensor(0.25)) == ep.epsilon(Gaussian(1.0), delta=0.25)
    for kind in KINDS:
        series = torch.tensor([0.25, 0.5], dtype=kind, requires_grad=True)
        assert ep.epsilon(Gaussian(1.0), delta=series).points == ep.epsilon(Gaussian(1.0), delta=[0.25, 0.5]).points
        assert arrays.doubles("losses", series).tolist() == [0.25, 0.5]
        assert delta_from_samples(epsilon=0.5, losses=series) == delta_from_samples(epsilon=0.5, losses=[0.25, 0.5])
    with pytest.raises(CheckError, match="that a double holds"):
        arrays.doubles("losses", torch.tensor([2**53 + 1]))
    assert arrays.doubles("losses", torch.tensor([2, 3])).dtype == np.float64
