"""Certificates by simulation, for releases that no closed form prices.

Balls-in-bins over matrix mechanisms, b-min-sep and cyclic Poisson sampling, k rounds of all. ``sweep`` goes from a
mechanism and a goal to a noise level, a claim and evidence; ``certify`` bounds the delta of one mechanism;
``check_document`` redraws it. ``plan_sweep`` and ``plan_certificate`` settle everything first, ``run_sweep`` and
``run_certificate`` draw. ``draw_losses`` draws for estimates of your own.
``balls_in_bins_delta`` is exact where the noise is independent. The four functions of the reference
(``overall_delta``, ``base_delta``, ``minimum_samples``, ``delta_from_samples``) mean the same here and are exact; the
``*_delta`` bounds beside them promise more for the same draws.

Where to look: ``pairs`` (what is drawn), ``tilt`` (importance sampling), ``shards`` (streams that can be drawn again),
``bounds`` and ``intervals`` (what counts of draws promise), ``sweeps`` and ``certificates`` (from a goal to a claim),
``recompute`` (which trusts none of it), ``strategies`` (columns of noise). Only ``run`` touches files, processes and
entropy.
"""

from epsilog.accounting.montecarlo.bounds import (
    binomial_delta,
    integrated_delta,
    largest_hits,
    listed_delta,
    pass_probability,
    supremum_delta,
)
from epsilog.accounting.montecarlo.certificates import (
    Certificate,
    CertificatePlan,
    certify,
    narrowing,
    plan_certificate,
    run_certificate,
)
from epsilog.accounting.montecarlo.intervals import anytime, clopper_pearson
from epsilog.accounting.montecarlo.oracle import OracleDelta, balls_in_bins_delta
from epsilog.accounting.montecarlo.payoff import BesideProfile, HockeyStick
from epsilog.accounting.montecarlo.recompute import check_document, plan_from_json, provenance
from epsilog.accounting.montecarlo.run import CHOSEN, NONCE, entropy, on_dask
from epsilog.accounting.montecarlo.shards import Trial, draw_losses
from epsilog.accounting.montecarlo.sweeps import (
    SweepPlan,
    SweepResult,
    envelope_delta,
    estimate_noise,
    plan_sweep,
    run_sweep,
    sweep,
)
from epsilog.accounting.montecarlo.two_point import (
    base_delta,
    delta_from_samples,
    minimum_samples,
    overall_delta,
)
from epsilog.numerics.pairs import Direction

__all__ = [
    "CHOSEN",
    "NONCE",
    "BesideProfile",
    "Certificate",
    "CertificatePlan",
    "Direction",
    "HockeyStick",
    "OracleDelta",
    "SweepPlan",
    "SweepResult",
    "Trial",
    "anytime",
    "balls_in_bins_delta",
    "base_delta",
    "binomial_delta",
    "certify",
    "check_document",
    "clopper_pearson",
    "delta_from_samples",
    "draw_losses",
    "entropy",
    "envelope_delta",
    "estimate_noise",
    "integrated_delta",
    "largest_hits",
    "listed_delta",
    "minimum_samples",
    "narrowing",
    "on_dask",
    "overall_delta",
    "pass_probability",
    "plan_certificate",
    "plan_from_json",
    "plan_sweep",
    "provenance",
    "run_certificate",
    "run_sweep",
    "supremum_delta",
    "sweep",
]
