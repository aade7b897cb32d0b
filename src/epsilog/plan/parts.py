"""One kind of release of a composition, as a form or a file states it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from epsilog.mechanisms import (
    ApproximateDP,
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Release,
    Repeated,
    ZeroConcentratedDP,
)
from epsilog.terms import CheckError, check, fields
from epsilog.terms.fields import Field

__all__ = ["KINDS", "Part"]

KINDS = {
    "gaussian": "Gaussian noise",
    "laplace": "Laplace noise",
    "randomized-response": "randomized response",
    "pure": "stated ε-DP",
    "approximate": "stated (ε, δ)-DP",
    "zcdp": "stated ρ-zCDP",
    "gdp": "stated μ-GDP",
}


@fields.document_fields
@dataclass(frozen=True, slots=True)
class Part:
    """One kind of release in a mix."""

    mechanism: Annotated[str, Field("mechanism", choices=KINDS)]
    parameter: Annotated[float, Field("noise multiplier, flip probability, epsilon, rho or mu")]
    second: Annotated[
        float | None,
        Field(
            "delta of a stated (epsilon, delta) guarantee, or number of categories", default=None, none_means="0, or 2"
        ),
    ] = None
    sampling_probability: Annotated[float, Field("sampling probability per unit", gt=0, le=1)] = 1.0
    count: Annotated[int, Field("number of repetitions", ge=1)] = 1

    def __post_init__(self) -> None:
        check.check_fields(self)

    def release(self, at: str = "") -> Release:
        """Return the release that a line of the form describes; its bounds are checked by the release itself.

        Args:
            at: the path to it, for what is refused.
        """
        try:
            inner = _MADE[self.mechanism](self)
            if self.sampling_probability != 1:
                inner = PoissonSampled(inner, self.sampling_probability)
            return Repeated(inner, self.count)
        except CheckError as error:
            field = error.field if error.field in ("sampling_probability", "count") else "parameter"
            field = "second" if error.field in ("delta", "categories") else field
            raise CheckError(field, error.bound, error.value, error.verb).under(at) from error


def _responses(part: Part) -> Release:
    second = 2.0 if part.second is None else part.second
    if second != int(second):
        raise CheckError("categories", "a whole number of categories", repr(second))
    return RandomizedResponse(part.parameter, int(second))


_MADE: Mapping[str, Callable[[Part], Release]] = {
    "gaussian": lambda part: Gaussian(part.parameter),
    "laplace": lambda part: Laplace(part.parameter),
    "randomized-response": _responses,
    "pure": lambda part: PureDP(part.parameter),
    "approximate": lambda part: ApproximateDP(part.parameter, part.second or 0.0),
    "zcdp": lambda part: ZeroConcentratedDP(part.parameter),
    "gdp": lambda part: GaussianDP(part.parameter),
}
