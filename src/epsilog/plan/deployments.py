"""Published privacy budgets of well-known programs, each with its source: what a verdict card compares an epsilon with.

Figures are the publishers' own. Where rho of zCDP is published, epsilon is what it implies at the stated delta.
docs/learn/decision-makers.md shows the same table with its limits.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DEPLOYMENTS", "WHOLE", "Deployment"]

WHOLE, PART = "all data of a person or device", "hours, a day, a month or one value"


class Deployment(NamedTuple):
    """One published budget.

    Attributes:
        name: publisher and release.
        protects: how much of a person's data one unit holds: ``WHOLE`` or ``PART``.
        epsilon: at ``delta``, in nats.
        delta: the publisher's, or the one that rho was converted at.
        rho: of zCDP, where that was published; else None.
        source: where the figures stand.
    """

    name: str
    protects: str
    epsilon: float
    delta: float
    rho: float | None
    source: str


_APPLE = "https://desfontain.es/blog/real-world-differential-privacy.html"
_ABOWD = "https://doi.org/10.1162/99608f92.529e3cb9"
_GBOARD = "https://research.google/blog/advances-in-private-training-for-production-on-device-language-models/"
_WIKIMEDIA = "https://analytics.wikimedia.org/published/datasets/country_project_page/00_README.html"
_REGISTRY = "https://github.com/opendp/deployments-registry-data/blob/main/deployments/"
_RAPPOR = (
    "https://android.googlesource.com/platform/external/chromium_org/+/1850ca92fc5c5faa2907b3befcf40067265148cc/"
    "tools/metrics/rappor/rappor.xml"
)

DEPLOYMENTS = (
    Deployment("Google keyboard, best", WHOLE, 0.994, 1e-10, None, _GBOARD),
    Deployment("Microsoft Assistive AI", WHOLE, 4.0, 1e-07, None, f"{_REGISTRY}assistive_ai.yaml"),
    Deployment("Google keyboard, weakest", WHOLE, 13.69, 1e-10, None, _GBOARD),
    Deployment("US Census 2020, redistricting", WHOLE, 17.44, 1e-10, 2.63, _ABOWD),
    Deployment("US Census 2020, demographics", WHOLE, 51.57, 1e-10, 15.29, "https://arxiv.org/abs/2312.10863"),
    Deployment("Wikipedia page views", PART, 1.0, 1e-07, None, _WIKIMEDIA),
    Deployment("Windows app use", PART, 1.672, 0.0, None, f"{_REGISTRY}telemetry_collection_windows.yaml"),
    Deployment("Apple health types", PART, 2.0, 0.0, None, _APPLE),
    Deployment("Google mobility reports", PART, 2.64, 0.0, None, f"{_REGISTRY}google_mobility.yaml"),
    Deployment("Apple emoji", PART, 4.0, 0.0, None, _APPLE),
    Deployment("Chrome RAPPOR, domains", PART, 4.395, 0.0, None, _RAPPOR),
    Deployment("Apple typed words", PART, 16.0, 0.0, None, _APPLE),
    Deployment("LinkedIn audiences", PART, 34.9, 7e-09, None, "https://arxiv.org/abs/2002.05839"),
)
