"""The maths: a release goes in, a certified interval comes out. Pure functions; no disk, no clock, no randomness.

``epsilon`` and ``delta`` ask about one release, ``profile`` about its whole curve, ``calibrate`` and
``rounds_that_fit`` turn the question round. Every answer is an interval: its ``upper`` may be claimed. Asked about a
series they answer with ``Intervals``, arrays of both sides; ``epsilon_curve`` and ``delta_curve`` go over rounds. The
formulas of ``closed_forms`` are estimates, shown beside it and never charged. Proofs: docs/accounting/.

Where to look: ``mechanisms.composition`` reads a release once, ``account`` asks the ``methods``, one a file, and
``calibration`` and ``curve`` ask ``account``. What the methods stand on, from below:

- ``numerics``: base laws with their masses, pairs that say how sampling bends them, and how both compose;
- ``mechanisms``: from each mechanism to its dominating pairs, and ``composition``, which folds them;
- ``inversion``: an inversion integral with a proven error;
- ``tradeoff``, ``tuning``: the best test, and the best of several trials;
- ``gaussian``, ``renyi``, ``moments``: closed forms, Renyi divergences, and what they say about delta.

``montecarlo`` simulates what none of them can price.
"""

from epsilog.accounting.account import assumptions, delta, epsilon
from epsilog.accounting.calibration import calibrate, delta_curve, epsilon_curve, rounds_that_fit
from epsilog.accounting.closed_forms import (
    FederatedEstimate,
    classic_gaussian_stddev,
    even_split,
    fl_formula,
    laplace_scale,
    true_positive_rate,
)
from epsilog.accounting.comparing import Comparison, GaussianFit, Standing, compare, gaussian_fit
from epsilog.accounting.curve import Profile, mu, profile, rho
from epsilog.accounting.intervals import Intervals, Series
from epsilog.accounting.renyi import rdp, rdp_attained, renyi_delta, renyi_epsilon
from epsilog.accounting.truncation import cut_chance, truncated
from epsilog.accounting.tuning import mean_trials
from epsilog.numerics.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from epsilog.numerics.moments import epsilon_by_order
from epsilog.numerics.tails import binomial_above

__all__ = [
    "Comparison",
    "FederatedEstimate",
    "GaussianFit",
    "Intervals",
    "Profile",
    "Series",
    "Standing",
    "assumptions",
    "binomial_above",
    "calibrate",
    "classic_gaussian_stddev",
    "compare",
    "cut_chance",
    "delta",
    "delta_curve",
    "epsilon",
    "epsilon_by_order",
    "epsilon_curve",
    "even_split",
    "fl_formula",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_fit",
    "gaussian_mu",
    "laplace_scale",
    "mean_trials",
    "mu",
    "profile",
    "rdp",
    "rdp_attained",
    "renyi_delta",
    "renyi_epsilon",
    "rho",
    "rounds_that_fit",
    "true_positive_rate",
    "truncated",
]
