"""Mechanisms: what is released, and how releases compose. One file a mechanism.

Frozen descriptions that check themselves at construction. Plans are accounted from them, the ledger stores them
permanently (see ``terms.codec``), and a verifier recomputes the claim from them. Every file of this package is read,
and its mechanisms are names of the package, listed below or not.
"""

import importlib
import pkgutil

from epsilog.mechanisms.balls_in_bins import BallsInBins
from epsilog.mechanisms.base import Release
from epsilog.mechanisms.composition import Composed, Repeated
from epsilog.mechanisms.description import describe_release as describe_release
from epsilog.mechanisms.discrete_gaussian import DiscreteGaussian
from epsilog.mechanisms.discrete_laplace import DiscreteLaplace
from epsilog.mechanisms.exponential import ExponentialMechanism
from epsilog.mechanisms.fixed_size_sampled import FixedSizeSampled
from epsilog.mechanisms.gaussian import Gaussian
from epsilog.mechanisms.grouped import Grouped
from epsilog.mechanisms.laplace import Laplace
from epsilog.mechanisms.matrix import (
    BallsInBinsParticipation,
    BoundedParticipation,
    BufferedToeplitzStrategy,
    CyclicPoissonParticipation,
    DenseStrategy,
    FullParticipation,
    MatrixMechanism,
    MinSepParticipation,
    RandomAllocationParticipation,
    ToeplitzStrategy,
    TreeAggregationStrategy,
)
from epsilog.mechanisms.mixture_of_gaussians import MixtureOfGaussians
from epsilog.mechanisms.poisson_sampled import PoissonSampled
from epsilog.mechanisms.randomized_response import RandomizedResponse
from epsilog.mechanisms.report_noisy_max import ReportNoisyMax
from epsilog.mechanisms.shuffled import Shuffled
from epsilog.mechanisms.sparse_vector import SparseVector
from epsilog.mechanisms.staircase import Staircase
from epsilog.mechanisms.statements import ApproximateDP, GaussianDP, PureDP, ZeroConcentratedDP
from epsilog.mechanisms.truncated_poisson_sampled import TruncatedPoissonSampled
from epsilog.mechanisms.tuned import (
    TRIAL_FORMATS as TRIAL_FORMATS,
    BestOfTrials,
    BinomialTrialCount,
    NegativeBinomialTrialCount,
    PoissonTrialCount,
    TrialDistribution,
    format_trials as format_trials,
    parse_trials as parse_trials,
)

__all__ = [
    "ApproximateDP",
    "BallsInBins",
    "BallsInBinsParticipation",
    "BestOfTrials",
    "BinomialTrialCount",
    "BoundedParticipation",
    "BufferedToeplitzStrategy",
    "Composed",
    "CyclicPoissonParticipation",
    "DenseStrategy",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExponentialMechanism",
    "FixedSizeSampled",
    "FullParticipation",
    "Gaussian",
    "GaussianDP",
    "Grouped",
    "Laplace",
    "MatrixMechanism",
    "MinSepParticipation",
    "MixtureOfGaussians",
    "NegativeBinomialTrialCount",
    "PoissonSampled",
    "PoissonTrialCount",
    "PureDP",
    "RandomAllocationParticipation",
    "RandomizedResponse",
    "Release",
    "Repeated",
    "ReportNoisyMax",
    "Shuffled",
    "SparseVector",
    "Staircase",
    "ToeplitzStrategy",
    "TreeAggregationStrategy",
    "TrialDistribution",
    "TruncatedPoissonSampled",
    "ZeroConcentratedDP",
]

for _file in pkgutil.iter_modules(__path__):
    if _file.name != "matrix_sensitivity":  # of matrices: it loads NumPy, and is asked for where it is needed
        importlib.import_module(f"{__name__}.{_file.name}")

_further = {kind.__name__: kind for kind in Release.__subclasses__() if kind.__name__ not in __all__}
globals().update(_further)
__all__ += list(_further)
