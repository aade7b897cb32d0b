"""What must be true of a run for its numbers to hold, in plain words."""

from __future__ import annotations

from epsilog.mechanisms import (
    ApproximateDP,
    BallsInBins,
    ExponentialMechanism,
    FixedSizeSampled,
    GaussianDP,
    Grouped,
    MatrixMechanism,
    MixtureOfGaussians,
    PoissonSampled,
    PureDP,
    Release,
    ReportNoisyMax,
    Shuffled,
    SparseVector,
    TruncatedPoissonSampled,
    Tuned,
    ZeroConcentratedDP,
)
from epsilog.mechanisms.composition import Bag, flatten, sampled_parts
from epsilog.terms import check

_FIXED = "parameters were fixed before the run; outputs may steer what is asked next"
_POISSON = "each unit joins each round independently with the stated probability, and who joined stays hidden"
_FIXED_SIZE = "each sample is drawn uniformly without replacement, has exactly the stated size, and stays hidden"
_BINS = "each unit is put into one round of an epoch at random, independently of the others, and where stays hidden"
_WHOLE = (
    "rounds use their whole sample, none is truncated, topped up or skipped, and sums are divided by public numbers"
)
_TRUNCATED = (
    "samples are cut for their size alone, to the first of an order in which data have no part, none is topped up or "
    "skipped, sums are divided by public numbers, and there are at most as many units as stated"
)
_STATED = "the guarantee that a part states is taken as given"
_ON_SAMPLES = "a sampled part's statement holds on every sample that could be drawn, whatever was released before"
_TRIALS = (
    "the number of trials was drawn once from the stated law, apart from all data, and stays hidden, as do the trials "
    "that were not chosen, their number's traces (logs, bills, running time) included"
)
_ALIKE = "every trial is the same mechanism with fresh randomness, and its price covers what its score saw"
_WORST = (
    "the lower bound is that of the worst score that a tuner may choose, which may draw coins of its own; the score of "
    "the run may lose less"
)
_HELD = "nobody holds more than {units} of the units that the release is described for, in all its rounds together"
_TOGETHER = "the group joins or leaves as a whole"
_SHUFFLED = (
    "each unit makes its report by the same randomizer, with coins of its own that it tells nobody, on what it alone "
    "holds; all reports, and nothing else, are handed on in an order drawn at random"
)
_TURNS = (
    "who takes part in which rounds does not depend on data, nobody more often or at less distance than stated, and "
    "nobody's joining or leaving moves another"
)
_DRAWN = (
    "how much of a unit counts is drawn for each unit and round with the stated probabilities, apart from all data and "
    "from all other draws, and stays hidden"
)
_SCORE = "the score's sensitivity was measured for this relation"
_HIGHEST = "every candidate's noise is a draw of its own, and nothing but which is the highest is shown"
_SPARSE = (
    "the queries' sensitivity was measured for this relation; one draw of Laplace noise is the threshold's until the "
    "end, every query has a draw of its own, no noisy answer that was compared is shown, and it ends as stated"
)
_OF_KIND: dict[type, tuple[str, ...]] = {
    ExponentialMechanism: (_SCORE,),
    ReportNoisyMax: (_SCORE, _HIGHEST),
    SparseVector: (_SPARSE,),
    MatrixMechanism: (_TURNS,),
    MixtureOfGaussians: (_DRAWN, _WHOLE),
}


def assumptions(release: Release) -> tuple[str, ...]:
    """Lists what the accountant took for granted about ``release``.

    >>> assumptions(PureDP(1.0))[1]
    'the guarantee that a part states is taken as given'
    """
    return assumed(flatten(check.instance(Release)(release=release)))


def _unnested(release: Release) -> Release:
    """What is computed in the end on a sample of a sample."""
    return _unnested(release.release) if isinstance(release, PoissonSampled) else release


def assumed(bag: Bag) -> tuple[str, ...]:
    """The same about single releases with their counts."""
    found = {_FIXED: None}
    for part in bag:
        match part:
            case Tuned(release=inner):
                found[_TRIALS] = found[_ALIKE] = found[_WORST] = None
                found |= dict.fromkeys(assumed(flatten(inner)))
                continue
            case Grouped(release=inner, units=units):
                found[_HELD.format(units=units)] = None
                if sampled_parts(flatten(inner)):
                    found[_TOGETHER] = None
                found |= dict.fromkeys(assumed(flatten(inner)))
                continue
            case PoissonSampled(release=inner):
                found[_POISSON] = found[_WHOLE] = None
            case TruncatedPoissonSampled(release=inner):
                found[_POISSON] = found[_TRUNCATED] = None
            case FixedSizeSampled(release=inner):
                found[_FIXED_SIZE] = None
            case BallsInBins(release=inner):
                found[_BINS] = found[_WHOLE] = None
            case Shuffled(release=inner):
                found[_SHUFFLED] = None
                found |= dict.fromkeys(assumed(flatten(inner)))
                continue
            case _:
                inner = part
        for one in flatten(_unnested(inner)):
            if isinstance(one, PureDP | ApproximateDP | ZeroConcentratedDP | GaussianDP):
                found |= {_STATED: None} if inner is part else {_STATED: None, _ON_SAMPLES: None}
            found |= dict.fromkeys(_OF_KIND.get(type(one), ()))
    return tuple(found)
