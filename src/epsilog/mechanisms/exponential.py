"""The exponential mechanism."""

from __future__ import annotations

from typing import Annotated

from epsilog.mechanisms.base import MONOTONE, Release
from epsilog.terms.fields import UP, Field, term


@term("exponential")
class ExponentialMechanism(Release):
    """Picks one candidate with probability proportional to exp(epsilon * score / (2 * sensitivity))."""

    epsilon: Annotated[
        float,
        Field(
            "the mechanism's own parameter, for the relation under which the score's sensitivity was measured",
            "ε",
            unit="in nats",
            ge=0,
            rounding=UP,
        ),
    ]
    monotone: Annotated[bool, MONOTONE] = False
