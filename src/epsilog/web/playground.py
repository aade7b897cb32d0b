"""The accountant over HTTP: a mix of releases in, intervals and curves out."""

from __future__ import annotations

from typing import Any

from epsilog import accounting, plan
from epsilog.accounting import GaussianFit, Standing
from epsilog.mechanisms import (
    ApproximateDP,
    Composed,
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Release,
    Repeated,
    ZeroConcentratedDP,
)
from epsilog.plan import wording
from epsilog.terms import CheckError, NeighboringRelation, UnsupportedMechanismError, codec
from epsilog.web import answers
from epsilog.web.asks import CompareAsk, MixAsk, MixVerdictAsk, Part
from epsilog.web.calculators import risk_answer
from epsilog.web.questions import Questions

questions = Questions("playground", heavy=True)

# what a release calls its fields, and the form; every other one is its parameter
_ASKED_AS = {
    "delta": "second",
    "categories": "second",
    "sampling_probability": "sampling_probability",
    "count": "count",
}
_RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@questions.add("/account", answers.MixAnswer, summary="What a mix of releases costs")
def account(ask: MixAsk) -> dict[str, Any]:
    """The certified interval, and what each part costs alone and adds to the rest."""
    found = plan.mix(_releases(ask), delta=ask.delta, relation=_relation(ask))
    return {
        "epsilon": codec.encode(found.epsilon),
        "parts": [{"alone": codec.encode(each.alone), "without": codec.encode(each.without)} for each in found.parts],
    }


@questions.add(
    "/account/profile", answers.ProfileAnswer, summary="The privacy profile of a mix, and what an attacker can tell"
)
def profile(ask: MixAsk) -> dict[str, Any]:
    """Delta over epsilon, the bound on the attacker's ROC curve, its value at one rate, and the advantage."""
    release = Composed(_releases(ask))
    view = plan.profile_view(release, delta=ask.delta, relation=_relation(ask))
    return {
        "profile": [
            {"epsilon": eps, "lower": delta.lower, "upper": delta.upper}
            for eps, delta in zip(view.epsilons, view.deltas, strict=True)
        ],
        "roc": [{"fpr": fpr, "tpr": view.true_positive_rate(fpr)} for fpr in _RATES],
        "fpr": ask.fpr,
        "tpr": min(view.true_positive_rate(ask.fpr), _found(release, ask)),
        "advantage": view.advantage.upper,
    }


def _found(release: Release, ask: MixAsk) -> float:
    """The bound that ``risk`` states of this attack, so that a page has one figure of it; 1 where there is none."""
    try:
        return accounting.profile(release, relation=_relation(ask), gap=plan.RISK_GAP).tpr(ask.fpr).upper
    except UnsupportedMechanismError:
        return 1.0


@questions.add("/account/verdict", answers.VerdictAnswer, summary="What a mix of releases means for one person")
def verdict(ask: MixVerdictAsk) -> dict[str, Any]:
    """Odds, several such mixes together, delta at worst and room under a cap, in a report's sentences."""
    found = plan.mix_meaning(_releases(ask), delta=ask.delta, relation=_relation(ask), cap=ask.cap)
    return found.to_json() | {"limits": []}


@questions.add("/account/risk", answers.RiskAnswer, summary="What attacks find, and what copies cost")
def risk(ask: MixAsk) -> dict[str, Any]:
    """True positive rates, and epsilon for those who hold several units, of all together: a report's tables."""
    release, known = Composed(_releases(ask)), Composed(_releases(ask, sampled=False))
    reading = plan.risk_reading(release, delta=ask.delta, relation=_relation(ask), known=known, fit=False)
    if release == known:  # nobody is sampled
        reading |= {"unamplified_mu": None}
    return risk_answer(reading, "person", ask.delta)


@questions.add("/account/compare", answers.CompareAnswer, summary="Which of two releases protects better, and where")
def compare(ask: CompareAsk) -> dict[str, Any]:
    """Epsilons over deltas and attacks over false-positive rates of both, the mu of both, and words."""
    pair = (release_of(ask.first, "first"), release_of(ask.second, "second"))
    both = plan.side_by_side(*pair, delta=ask.delta, fpr=ask.fpr, relation=NeighboringRelation(ask.relation))
    found, fits = both.found, [fit and _fit(fit) for fit in both.fits]
    return {
        "verdict": found.verdict,
        "better": wording.BETTER[found.verdict],
        "says": both.says,
        "deltas": [_standing(each) for each in found.at_deltas],
        "fprs": [_standing(each) for each in found.at_fprs],
        "first_excess": found.first_excess,
        "second_excess": found.second_excess,
        "tolerance": found.tolerance,
        "first_fit": fits[0],
        "second_fit": fits[1],
    }


def _standing(each: Standing) -> dict[str, Any]:
    (_, at), *_ = each.first.given
    return {"at": at, "first": codec.encode(each.first), "second": codec.encode(each.second), "better": each.better}


def _fit(fit: GaussianFit) -> dict[str, Any]:
    return {"mu": codec.encode(fit.mu), "beyond": fit.beyond, "regret": fit.regret}


def _releases(ask: MixAsk, *, sampled: bool = True) -> list[Release]:
    """The parts; not ``sampled``: as they are for whoever knows who was drawn."""
    parts = ask.parts if sampled else [part.model_copy(update={"sampling_probability": 1.0}) for part in ask.parts]
    return [release_of(part, f"parts[{i}]") for i, part in enumerate(parts)]


def release_of(part: Part, at: str = "") -> Release:
    """The release that a line of the form describes; its bounds are checked by the release itself.

    Args:
        part: the line.
        at: the path to it, for what is refused.
    """
    try:
        inner = _single(part)
        if part.sampling_probability != 1:
            inner = PoissonSampled(inner, part.sampling_probability)
        return Repeated(inner, part.count)
    except CheckError as error:
        field = _ASKED_AS.get(error.field, "parameter")
        raise CheckError(field, error.bound, error.value, error.verb).under(at) from error


def _single(part: Part) -> Release:
    match part.mechanism:
        case "gaussian":
            return Gaussian(part.parameter)
        case "laplace":
            return Laplace(part.parameter)
        case "randomized-response":
            second = 2.0 if part.second is None else part.second
            if second != int(second):
                raise CheckError("categories", "a whole number of categories", repr(second))
            return RandomizedResponse(part.parameter, int(second))
        case "pure":
            return PureDP(part.parameter)
        case "approximate":
            return ApproximateDP(part.parameter, part.second or 0.0)
        case "zcdp":
            return ZeroConcentratedDP(part.parameter)
        case "gdp":
            return GaussianDP(part.parameter)


def _relation(ask: MixAsk) -> NeighboringRelation:
    return NeighboringRelation(ask.relation)
