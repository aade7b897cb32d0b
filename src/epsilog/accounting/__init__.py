"""The maths: a release goes in, a certified interval comes out. Pure functions; no disk, no clock, no randomness.

``epsilon`` and ``delta`` ask about one release, ``profile`` about its whole curve, ``calibrate`` and
``rounds_that_fit`` turn the question round. Every answer is an interval: its ``upper`` may be claimed. The formulas of
``closed_forms`` are estimates, shown beside it and never charged. Proofs: docs/accounting/.

Where to look: ``prepared`` reads a release once (``flatten`` counts its single releases, ``dominating`` finds their
pairs of laws: ``laws``, ``replaced``, ``groups``, ``allocated``); ``account`` asks the ``methods``, one a file, by

- ``gaussian``: closed forms;
- ``spectral``: an inversion integral with a proven error (``tilted`` laws, ``tilted_sampled``, their ``waves``);
- ``many``: the central limit theorem with a proven error;
- ``distributions``: a lattice (``saddle`` plans it, ``discretise`` and ``lattice`` cut, ``composition`` composes);
- ``allocation``, by sums of lognormals (``ratio_sums``): balls-in-bins;
- ``renyi``: Renyi divergences.

``profile`` and ``calibrate`` ask ``account``; ``montecarlo`` simulates what none of them can price.
"""

from epsilog.accounting.account import delta, epsilon
from epsilog.accounting.assumptions import assumptions
from epsilog.accounting.calibrate import calibrate, epsilon_curve, rounds_that_fit
from epsilog.accounting.closed_forms import (
    FederatedEstimate,
    classic_gaussian_stddev,
    even_split,
    fl_formula,
    laplace_scale,
    true_positive_rate,
)
from epsilog.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from epsilog.accounting.profile import Profile, mu, profile, rho
from epsilog.accounting.renyi import rdp, renyi_delta, renyi_epsilon

__all__ = [
    "FederatedEstimate",
    "Profile",
    "assumptions",
    "calibrate",
    "classic_gaussian_stddev",
    "delta",
    "epsilon",
    "epsilon_curve",
    "even_split",
    "fl_formula",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "laplace_scale",
    "mu",
    "profile",
    "rdp",
    "renyi_delta",
    "renyi_epsilon",
    "rho",
    "rounds_that_fit",
    "true_positive_rate",
]
