"""Monte Carlo evidence: bounds on delta by simulation, for releases without a closed form.

Supported: balls-in-bins over matrix mechanisms, b-min-sep and cyclic Poisson sampling, random allocation.
``search_noise`` goes from a mechanism and a goal to a noise level, a claim and evidence; ``bound_delta`` bounds the
delta of one mechanism; ``recompute_document`` redraws it. ``plan_noise_search`` and ``plan_delta_bound`` fix the whole
plan first; ``run_noise_search`` and ``run_delta_bound`` draw. ``draw_losses`` draws for other estimates.
``compute_balls_in_bins_delta`` is exact for independent noise. The four functions of the reference (``overall_delta``,
``base_delta``, ``minimum_samples``, ``delta_from_samples``) mean the same here and are exact; ``binomial_delta`` and
``bound_listed_delta`` are tighter for the same draws.

Modules: ``pairs`` (sampled pairs), ``tilt`` (importance sampling), ``shards`` (repeatable streams), ``bounds``
(guarantees from counts), ``noise_search`` and ``delta_bound`` (from a goal to a claim), ``recompute``
(which trusts none of it), ``strategies`` (columns of noise). Only ``run`` uses files, processes and entropy.
"""

from epsilog.accounting.montecarlo.bounds import binomial_delta as binomial_delta, bound_listed_delta
from epsilog.accounting.montecarlo.delta_bound import (
    DeltaBoundPlan as DeltaBoundPlan,
    MonteCarloEvidence,
    bound_delta,
    compute_running_interval as compute_running_interval,
    plan_delta_bound,
    run_delta_bound,
)
from epsilog.accounting.montecarlo.noise_search import (
    NoiseSearchResult as NoiseSearchResult,
    estimate_noise,
    plan_noise_search,
    run_noise_search,
    search_noise,
)
from epsilog.accounting.montecarlo.oracle import compute_balls_in_bins_delta
from epsilog.accounting.montecarlo.recompute import (
    describe_seed_provenance as describe_seed_provenance,
    plan_from_json as plan_from_json,
    recompute_document,
)
from epsilog.accounting.montecarlo.run import (
    CHOSEN as CHOSEN,
    NONCE as NONCE,
    draw_entropy as draw_entropy,
    use_dask_cluster,
)
from epsilog.accounting.montecarlo.shards import BernoulliTrial as BernoulliTrial, draw_losses
from epsilog.accounting.montecarlo.tilt import ProfilePayoff as ProfilePayoff
from epsilog.accounting.montecarlo.two_point import (
    base_delta as base_delta,
    delta_from_samples,
    minimum_samples,
    overall_delta,
)
from epsilog.numerics.pairs import AdjacencyType

__all__ = [
    "AdjacencyType",
    "MonteCarloEvidence",
    "bound_delta",
    "bound_listed_delta",
    "compute_balls_in_bins_delta",
    "delta_from_samples",
    "draw_losses",
    "estimate_noise",
    "minimum_samples",
    "overall_delta",
    "plan_delta_bound",
    "plan_noise_search",
    "recompute_document",
    "run_delta_bound",
    "run_noise_search",
    "search_noise",
    "use_dask_cluster",
]
