"""The maths: a release goes in, a certified interval comes out. Pure functions; no disk, no clock, no randomness.

``epsilon`` and ``delta`` bound one release, ``profile`` its privacy profile; ``calibrate`` and ``max_rounds``
solve for a parameter. Every answer is an interval: its ``upper`` may be claimed. Questions about a series return
``Intervals``, arrays of both sides; ``epsilon_curve`` and ``delta_curve`` go over rounds. The formulas of
``closed_forms`` are estimates, shown for comparison and never charged. Proofs: docs/accounting/.

Where to look: ``mechanisms.composition`` reads a release once, ``account`` asks the ``methods``, one a file, and
``calibration`` and ``privacy_profile`` ask ``account``. What the methods stand on, from below:

- ``numerics``: base pairs with their masses, sampled pairs, and composition;
- ``mechanisms``: from each mechanism to its dominating pairs, and ``composition``, which folds them;
- ``inversion``: an inversion integral with a proven error;
- ``tradeoff``, ``tuning``: the best test, and the best of several trials;
- ``gaussian``, ``renyi``, ``rdp_conversion``: closed forms, Renyi divergences, and what they say about delta.

``montecarlo`` simulates releases that none of them supports.
"""

from epsilog.accounting.account import delta, epsilon, list_assumptions
from epsilog.accounting.calibration import calibrate, delta_curve, epsilon_curve, max_rounds
from epsilog.accounting.closed_forms import (
    FederatedClosedForm as FederatedClosedForm,
    classic_gaussian_stddev as classic_gaussian_stddev,
    federated_closed_form,
    laplace_scale as laplace_scale,
    split_epsilon_evenly as split_epsilon_evenly,
    tpr_upper_bound as tpr_upper_bound,
)
from epsilog.accounting.comparison import (
    GaussianDPFit as GaussianDPFit,
    PointComparison as PointComparison,
    ProfileComparison,
    compare_profiles,
    fit_gaussian_dp,
)
from epsilog.accounting.intervals import ArrayLike as ArrayLike, Intervals
from epsilog.accounting.privacy_profile import PrivacyProfile, mu, profile, rho
from epsilog.accounting.renyi import rdp, rdp_lower_bound as rdp_lower_bound, renyi_delta as renyi_delta, renyi_epsilon
from epsilog.accounting.truncation import (
    build_truncated_poisson_pair as build_truncated_poisson_pair,
    truncation_probability as truncation_probability,
)
from epsilog.accounting.tuning import expected_trials
from epsilog.numerics.counts import binomial_tail as binomial_tail
from epsilog.numerics.gaussian import (
    gaussian_delta as gaussian_delta,
    gaussian_epsilon as gaussian_epsilon,
    gaussian_mu,
)
from epsilog.numerics.rdp_conversion import rdp_to_epsilon_by_order as rdp_to_epsilon_by_order

__all__ = [
    "Intervals",
    "PrivacyProfile",
    "ProfileComparison",
    "calibrate",
    "compare_profiles",
    "delta",
    "delta_curve",
    "epsilon",
    "epsilon_curve",
    "expected_trials",
    "federated_closed_form",
    "fit_gaussian_dp",
    "gaussian_mu",
    "list_assumptions",
    "max_rounds",
    "mu",
    "profile",
    "rdp",
    "renyi_epsilon",
    "rho",
]
