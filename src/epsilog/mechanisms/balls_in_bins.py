"""A release in each round of an epoch, where each unit takes part in one of them."""

from __future__ import annotations

from typing import Annotated

from epsilog.mechanisms.base import Release
from epsilog.terms.fields import Field, term


@term("balls-in-bins")
class BallsInBins(Release):
    """Each unit is put into one of ``bins`` rounds at random and takes part in that round of every epoch."""

    release: Annotated[Release, Field("what is computed in each round")]
    bins: Annotated[int, Field("rounds in an epoch", "b", ge=1)]
    epochs: Annotated[int, Field("number of epochs, all with the same assignment", "E", ge=1)] = 1
