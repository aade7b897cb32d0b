"""The sparse vector technique: comparisons with a noisy threshold."""

from __future__ import annotations

from typing import Annotated

from epsilog.mechanisms.base import Release
from epsilog.terms.fields import DOWN, Field, term


@term("sparse-vector")
class SparseVector(Release):
    """Says of one query after another whether it reaches a threshold, up to noise, until so many have (AboveThreshold).

    One draw of Laplace noise is added to the threshold and stays as it is until the end; each query gets a draw of its
    own. Nothing but the comparisons is shown: a query's answer is another release, with noise of its own. A threshold
    with fresh noise after each query that reaches it is ``Repeated(SparseVector(..., positives=1), count)``.
    """

    threshold_noise_multiplier: Annotated[
        float,
        Field(
            "noise scale of the threshold divided by the queries' sensitivity; 0 gives no privacy",
            ge=0,
            rounding=DOWN,
        ),
    ]
    query_noise_multiplier: Annotated[
        float,
        Field(
            "noise scale of each query divided by the queries' sensitivity; 0 gives no privacy",
            ge=0,
            rounding=DOWN,
        ),
    ]
    positives: Annotated[
        int, Field("number of queries that reach the threshold before it ends; those that do not are free", "c", ge=1)
    ] = 1
    monotone: Annotated[bool, Field("whether no neighbor changes two queries in opposite directions")] = False
