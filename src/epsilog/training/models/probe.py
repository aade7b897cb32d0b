"""A test of models on synthetic rows: the output for a row must depend on that row alone.

A model that mixes the rows of a batch, as BatchNorm does, has no gradient of a single example: each example would
change the gradients of all others. Rows, targets and parameters come from a fixed public key; no private data are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import CheckError
from epsilog.training.models.base import Model

ROWS = 6
TOLERANCE = 1e-4  # relative error of float32 sums in another order; mixed rows differ in the first digit


@lru_cache(maxsize=32)
def require_per_example(model: Model, *, inputs: int) -> None:
    """Refuse a model without example gradients, or one that is not deterministic.

    Args:
        model: the model.
        inputs: number of features of a row.

    Raises:
        CheckError: ``apply`` fails on rows of this width, or its output changes on a second call or with other rows; or
            the loss is not one number for each example.
    """
    draws = np.random.Generator(np.random.Philox(key=1))
    features, others = (_rows(model, inputs, draws) for _ in range(2))
    targets, other_targets = (_targets(model, draws) for _ in range(2))
    others[0], other_targets[0] = features[0], targets[0]
    with model.doubles():
        for vector in (model.start, model.start + 0.1 * draws.standard_normal(model.size)):
            made = partial(_compute_rows, model, model.unflatten(model.asarray(vector)))
            require_deterministic_per_row(made, (features, targets), (others, other_targets))
            if model.framework == "torch":
                _require_gradients(model, vector, features, targets)
    if model.framework == "jax":
        _require_no_callbacks(model, features, targets)


def require_deterministic_per_row(
    made: Callable[[Any, Any], Mapping[str, NDArray[Any]]], here: tuple[Any, Any], others: tuple[Any, Any]
) -> None:
    """Refuse results that change on a second call, or for a row if other rows change or are absent.

    Args:
        made: (features, targets) -> results by name, each with one entry per row.
        here: features and targets.
        others: features and targets with the same first row.
    """
    alone = here[0][:1], here[1][:1]
    first, again, *changed = (made(*one) for one in (here, here, others, alone))
    for name, one in first.items():
        if not np.array_equal(one, again[name], equal_nan=True):
            raise CheckError(name, "the same function each time", "different results for equal rows")
    for results in changed:
        for name, one in first.items():
            _require_equal(name, one[0], results[name][0])


def _require_gradients(model: Model, vector: NDArray[Any], features: NDArray[Any], targets: NDArray[Any]) -> None:
    """Refuse a PyTorch model without example gradients, as with operations that ``vmap`` does not support."""
    from epsilog.training.models.torch_modules import compute_torch_gradients

    given = (model.asarray(each) for each in (vector, features, targets))
    call_user_code("apply", "have a gradient for each row (torch.func)", lambda: compute_torch_gradients(model, *given))


def _require_no_callbacks(model: Model, features: NDArray[Any], targets: NDArray[Any]) -> None:
    """Refuse callbacks into Python, which could fail on a row; other compiled code always returns."""
    import jax

    from epsilog.training.models.gradients import list_steps

    def loss(vector: Any, features: Any, targets: Any) -> Any:
        return model.losses(model.apply(model.unflatten(vector), features), targets).sum()

    with model.doubles():
        given = [model.asarray(each) for each in (model.start, features, targets)]
        traced = jax.make_jaxpr(jax.grad(loss))
        steps = call_user_code("apply", "be such that JAX can compile and differentiate it", lambda: traced(*given))
    for step in list_steps(steps.jaxpr):
        if (name := step.primitive.name).endswith("callback"):
            raise CheckError("apply", "made of JAX operations without callbacks, so that it cannot fail on a row", name)


def _require_equal(name: str, one: NDArray[Any], other: NDArray[Any]) -> None:
    scale = 1.0 + np.abs(one).max(initial=0.0, where=np.isfinite(one))
    if not np.allclose(one, other, rtol=0.0, atol=TOLERANCE * scale, equal_nan=True):
        raise CheckError(
            name,
            "a function of each row alone (LayerNorm and GroupNorm normalize within a row; BatchNorm mixes rows)",
            "a result for a row that changes with other rows",
        )


def _compute_rows(model: Model, params: Any, features: NDArray[Any], targets: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return outputs and losses, each with one entry per row."""
    count, width = features.shape
    outputs = call_user_code(
        "apply", f"take rows of {width} features", lambda: model.apply(params, model.asarray(features))
    )
    if getattr(outputs, "shape", ())[:1] != (count,):
        raise CheckError("apply", "an output for each row", _kind(outputs), verb="give")
    if model.loss_name == "cross-entropy" and outputs.shape != (count, model.classes):
        raise CheckError("apply", f"{model.classes} outputs for each row", _kind(outputs), verb="give")
    goals = model.asarray(targets)
    losses = call_user_code("loss", "take outputs and targets", lambda: model.losses(outputs, goals))
    score = call_user_code("score", "take outputs and targets", lambda: model.compute_score(outputs, goals))
    for name, found, expected, what in (
        ("loss", losses, (count,), "one number for each example"),
        ("score", score, (), "one number for a test set"),
    ):
        if getattr(found, "shape", None) != expected:
            raise CheckError(name, what, _kind(found), verb="give")
    return {"apply": np.asarray(outputs), "loss": np.asarray(losses)}


def call_user_code(name: str, does: str, run: Callable[[], Any]) -> Any:
    """Return the result of user code; if it fails, raise ``CheckError``."""
    try:
        return run()
    except CheckError:
        raise
    except Exception as error:  # user code may raise anything
        verb, _, bound = does.partition(" ")
        raise CheckError(name, bound, f"{type(error).__name__}: {error}".splitlines()[0][:200], verb=verb) from error


def _kind(made: Any) -> str:
    shape = getattr(made, "shape", None)
    return f"a {type(made).__name__}" if shape is None else f"shape {tuple(shape)}"


def _rows(model: Model, inputs: int, draws: np.random.Generator) -> NDArray[np.float64]:
    if model.ids is None:
        return draws.standard_normal((ROWS, inputs))
    return draws.integers(0, model.ids, (ROWS, inputs)).astype(np.float64)


def _targets(model: Model, draws: np.random.Generator) -> NDArray[Any]:
    return draws.standard_normal(ROWS) if model.classes is None else draws.integers(0, model.classes, ROWS)
