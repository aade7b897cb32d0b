"""The words: what was released, how releases compose, what is promised about them.

Frozen descriptions that check themselves at birth and compute nothing costly. Everything else in epsilog speaks in
these terms: a plan is priced from them, the ledger stores them for ever (see ``codec``), and a verifier recomputes the
claim from them.
"""

from epsilog.terms.canaries import Canaries
from epsilog.terms.composition import Composed, Repeated
from epsilog.terms.errors import (
    AccessError,
    BudgetExceededError,
    CalibrationError,
    CheckError,
    ConflictError,
    EpsilogError,
    LedgerIntegrityError,
    ProgrammeError,
    RecordsError,
    StorageError,
    UnansweredError,
    UnsupportedMechanismError,
)
from epsilog.terms.findings import EVIDENCE, LOG_EVIDENCE, Effect, Finding, Grade, Verdict
from epsilog.terms.groups import Grouped
from epsilog.terms.guarantee import Guarantee, NeighboringRelation
from epsilog.terms.interval import Interval
from epsilog.terms.matrices import (
    BinnedParticipation,
    BufferedStrategy,
    ChosenParticipation,
    CyclicParticipation,
    DenseStrategy,
    EveryRound,
    LimitedParticipation,
    MatrixMechanism,
    SpacedParticipation,
    ToeplitzStrategy,
    TreeStrategy,
)
from epsilog.terms.mechanisms import (
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    GaussianDP,
    Laplace,
    MixtureOfGaussians,
    PureDP,
    RandomizedResponse,
    Release,
    ReportNoisyMax,
    SparseVector,
    Staircase,
    ZeroConcentratedDP,
)
from epsilog.terms.policy import DeltaDecision, DeltaPolicy, delta_finding
from epsilog.terms.rounds import COMMITMENT, CustodyRecord, RoundRecord, RunFile, record_line
from epsilog.terms.sampling import BallsInBins, FixedSizeSampled, PoissonSampled, Shuffled, TruncatedPoissonSampled
from epsilog.terms.schemes.base import Scheme
from epsilog.terms.schemes.client_level_adaptive_clip import ClientLevelAdaptiveClip
from epsilog.terms.schemes.client_level_buffered_noise import ClientLevelBufferedNoise
from epsilog.terms.schemes.client_level_central import ClientLevelCentral
from epsilog.terms.schemes.client_level_client_side import ClientLevelClientSide
from epsilog.terms.schemes.client_level_correlated_noise import ClientLevelCorrelatedNoise
from epsilog.terms.schemes.client_level_distributed import ClientLevelDistributed
from epsilog.terms.schemes.example_level_client_side import ExampleLevelClientSide
from epsilog.terms.trials import (
    LAWS,
    BinomialTrials,
    NegativeBinomialTrials,
    PoissonTrials,
    Trials,
    Tuned,
    read_trials,
    write_trials,
)

__all__ = [
    "COMMITMENT",
    "EVIDENCE",
    "LAWS",
    "LOG_EVIDENCE",
    "AccessError",
    "ApproximateDP",
    "BallsInBins",
    "BinnedParticipation",
    "BinomialTrials",
    "BudgetExceededError",
    "BufferedStrategy",
    "CalibrationError",
    "Canaries",
    "CheckError",
    "ChosenParticipation",
    "ClientLevelAdaptiveClip",
    "ClientLevelBufferedNoise",
    "ClientLevelCentral",
    "ClientLevelClientSide",
    "ClientLevelCorrelatedNoise",
    "ClientLevelDistributed",
    "Composed",
    "ConflictError",
    "CustodyRecord",
    "CyclicParticipation",
    "DeltaDecision",
    "DeltaPolicy",
    "DenseStrategy",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Effect",
    "EpsilogError",
    "EveryRound",
    "ExampleLevelClientSide",
    "ExponentialMechanism",
    "Finding",
    "FixedSizeSampled",
    "Gaussian",
    "GaussianDP",
    "Grade",
    "Grouped",
    "Guarantee",
    "Interval",
    "Laplace",
    "LedgerIntegrityError",
    "LimitedParticipation",
    "MatrixMechanism",
    "MixtureOfGaussians",
    "NegativeBinomialTrials",
    "NeighboringRelation",
    "PoissonSampled",
    "PoissonTrials",
    "ProgrammeError",
    "PureDP",
    "RandomizedResponse",
    "RecordsError",
    "Release",
    "Repeated",
    "ReportNoisyMax",
    "RoundRecord",
    "RunFile",
    "Scheme",
    "Shuffled",
    "SpacedParticipation",
    "SparseVector",
    "Staircase",
    "StorageError",
    "ToeplitzStrategy",
    "TreeStrategy",
    "Trials",
    "TruncatedPoissonSampled",
    "Tuned",
    "UnansweredError",
    "UnsupportedMechanismError",
    "Verdict",
    "ZeroConcentratedDP",
    "delta_finding",
    "read_trials",
    "record_line",
    "write_trials",
]
