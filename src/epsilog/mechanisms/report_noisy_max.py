"""The candidate with the highest noisy score."""

from __future__ import annotations

from typing import Annotated

from epsilog.mechanisms.base import MONOTONE, Release
from epsilog.terms.fields import UP, Field, term

NOISES = {
    "gumbel": "Gumbel noise: the exponential mechanism",
    "exponential": "exponential noise: permute-and-flip",
    "laplace": "Laplace noise",
}


@term("report-noisy-max")
class ReportNoisyMax(Release):
    """Adds noise to the score of every candidate and says which of them is the highest, and nothing else."""

    epsilon: Annotated[
        float,
        Field(
            "2 * sensitivity / noise scale, for the relation under which the scores' sensitivity was measured",
            "ε",
            unit="in nats",
            ge=0,
            rounding=UP,
        ),
    ]
    noise: Annotated[
        str,
        Field('"gumbel" (the exponential mechanism), "exponential" (permute-and-flip) or "laplace"', choices=NOISES),
    ]
    monotone: Annotated[bool, MONOTONE] = False
