"""The calculators' questions about releases and cards, and their answers; ``run_questions`` has the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from epsilog import plan
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
from epsilog.plan import responses
from epsilog.plan.question import QUESTIONS, Question
from epsilog.plan.responses import INFINITE
from epsilog.plan.run_questions import (
    CAP,
    DPSGDQuestion,
    FederatedInterpretation,
    FederatedNoise,
    FederatedQuestion,
    QueriesInterpretation,
    QueriesQuestion,
    list_risk_tables,
)
from epsilog.terms import CheckError, NeighboringRelation, UnsupportedMechanismError, check, codec, fields, parameters
from epsilog.terms.fields import DOWN, UP, Field

if TYPE_CHECKING:
    from epsilog.accounting import PointComparison

__all__ = [
    "INFINITE",
    "QUESTIONS",
    "VERDICTS",
    "DPSGDQuestion",
    "FederatedInterpretation",
    "FederatedNoise",
    "FederatedQuestion",
    "QueriesInterpretation",
    "QueriesQuestion",
    "VerdictQuestion",
]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
VERDICTS = (
    *(
        f"{answer}{basis}{warning}"
        for answer in ("Holds", "Would hold")
        for basis in ("", ", on the curator’s word", ", on the author’s word", ", on the ledger’s copy")
        for warning in ("", ", with a warning")
    ),
    "Cannot tell",
)
"""Verdicts on a report that a card may state; a report that does not hold has no card."""


KINDS = {
    "gaussian": "Gaussian noise",
    "laplace": "Laplace noise",
    "randomized-response": "randomized response",
    "pure": "stated ε-DP",
    "approximate": "stated (ε, δ)-DP",
    "zcdp": "stated ρ-zCDP",
    "gdp": "stated μ-GDP",
}


@fields.document_fields
@dataclass(frozen=True, slots=True)
class Part:
    """One kind of release in a mix."""

    mechanism: Annotated[str, Field("mechanism", choices=KINDS)]
    parameter: Annotated[float, Field("noise multiplier, flip probability, epsilon, rho or mu")]
    second: Annotated[
        float | None,
        Field(
            "delta of a stated (epsilon, delta) guarantee, or number of categories", default=None, none_means="0, or 2"
        ),
    ] = None
    sampling_probability: Annotated[float, Field("sampling probability per unit", gt=0, le=1)] = 1.0
    count: Annotated[int, Field("number of repetitions", ge=1)] = 1

    def __post_init__(self) -> None:
        check.check_fields(self)

    def release(self, at: str = "") -> Release:
        """Return the release that a line of the form describes; its bounds are checked by the release itself.

        Args:
            at: the path to it, for what is refused.
        """
        try:
            inner = _MADE[self.mechanism](self)
            if self.sampling_probability != 1:
                inner = PoissonSampled(inner, self.sampling_probability)
            return Repeated(inner, self.count)
        except CheckError as error:
            field = error.field if error.field in ("sampling_probability", "count") else "parameter"
            field = "second" if error.field in ("delta", "categories") else field
            raise CheckError(field, error.bound, error.value, error.verb).under(at) from error


def _responses(part: Part) -> Release:
    second = 2.0 if part.second is None else part.second
    if second != int(second):
        raise CheckError("categories", "a whole number of categories", repr(second))
    return RandomizedResponse(part.parameter, int(second))


_MADE: Mapping[str, Callable[[Part], Release]] = {
    "gaussian": lambda part: Gaussian(part.parameter),
    "laplace": lambda part: Laplace(part.parameter),
    "randomized-response": _responses,
    "pure": lambda part: PureDP(part.parameter),
    "approximate": lambda part: ApproximateDP(part.parameter, part.second or 0.0),
    "zcdp": lambda part: ZeroConcentratedDP(part.parameter),
    "gdp": lambda part: GaussianDP(part.parameter),
}


class CompositionQuestion(
    Question, path="/account", schema="CompositionRequest", work=lambda ask: 0.5 + len(ask.parts) ** 2 / 100
):
    """Bound epsilon of several releases together."""

    parts: Annotated[tuple[Part, ...], Field("the releases", min_length=1, max_length=20)]
    delta: Annotated[float, Field("failure probability, in [0, 1)", "δ", ge=0, lt=1, rounding=DOWN)] = 1e-6
    relation: Annotated[NeighboringRelation, parameters.RELATION] = _ADD_OR_REMOVE
    fpr: Annotated[float, Field("FPR at which the trade-off curve is evaluated", ge=0, le=1, rounding=fields.UP)] = 0.01

    def releases(self, *, sampled: bool = True) -> list[Release]:
        """Return the parts; not ``sampled``: with known draws."""
        parts = self.parts if sampled else [replace(part, sampling_probability=1.0) for part in self.parts]
        return [part.release(f"parts[{i}]") for i, part in enumerate(parts)]

    def claim(self) -> dict[str, Any]:
        """All parts together."""
        return {"release": Composed(self.releases()), "delta": self.delta, "relation": self.relation}

    def answer(self) -> Annotated[dict[str, Any], responses.CompositionResponse, plan.CompositionPlan]:
        """The certified interval, and what each part costs alone and adds to the rest."""
        found = plan.plan_composition(self.releases(), delta=self.delta, relation=self.relation)
        return codec.plain_fields(found) | {"release": codec.to_json(Composed(self.releases()))}


class CompositionProfile(CompositionQuestion, path="/account/profile", work=lambda ask: 1.0 + len(ask.parts) / 2):
    """Compute the privacy profile of several releases."""

    def answer(self) -> Annotated[dict[str, Any], responses.ProfileResponse]:
        """Delta over epsilon, the bound on the attacker's ROC curve, its value at one rate, and the advantage."""
        release = Composed(self.releases())
        view = plan.compute_profile_view(release, delta=self.delta, relation=self.relation)
        return {
            "profile": [
                {"epsilon": eps, "lower": delta.lower, "upper": delta.upper}
                for eps, delta in zip(view.epsilons, view.deltas, strict=True)
            ],
            "roc": [{"fpr": fpr, "tpr": view.true_positive_rate(fpr)} for fpr in _RATES],
            "fpr": self.fpr,
            "tpr": min(view.true_positive_rate(self.fpr), self._rate(release)),
            "advantage": view.advantage.upper,
        }

    def _rate(self, release: Release) -> float:
        """Return the bound of ``CompositionRisk`` on this attack, so that a page has one figure of it; else 1."""
        from epsilog.accounting import profile

        try:
            return profile(release, relation=self.relation, relative_width=plan.RISK_RELATIVE_WIDTH).tpr(self.fpr).upper
        except UnsupportedMechanismError:
            return 1.0


class CompositionInterpretation(
    CompositionQuestion,
    path="/account/interpretation",
    schema="CompositionInterpretationRequest",
    work=lambda ask: 1.0 + len(ask.parts) / 2,
):
    """Interpret epsilon of several releases, against a cap."""

    cap: Annotated[float | None, CAP] = None

    def answer(self) -> Annotated[dict[str, Any], responses.InterpretationResponse]:
        """Return the statements of a report: odds, repeated compositions, delta at worst, available under a cap."""
        asked: dict[str, Any] = {"delta": self.delta, "relation": self.relation, "cap": self.cap}
        found = plan.interpret_guarantee(Composed(self.releases()), privacy_unit="person", subject="releases", **asked)
        return found.to_json() | {"limits": []}


class CompositionRisk(
    CompositionQuestion,
    path="/account/risk",
    work=lambda ask: 1.0 + sum(0.5 if part.sampling_probability == 1 else 3.0 for part in ask.parts),
):
    """Bound attacks on several releases, and group epsilons."""

    def answer(self) -> Annotated[dict[str, Any], responses.RiskMetricsResponse]:
        """True positive rates, and epsilon for those who hold several units, of all together: a report's tables."""
        release, known = Composed(self.releases()), Composed(self.releases(sampled=False))
        reading = plan.compute_risk_metrics(release, delta=self.delta, relation=self.relation, known=known, fit=False)
        if release == known:  # nothing is sampled
            reading |= {"unamplified_mu": None}
        return list_risk_tables(reading, "person", self.delta)


class CompareQuestion(Question, path="/account/compare", schema="CompareRequest", work=5.0):
    """Compare two releases at a delta and at a false-positive rate."""

    first: Annotated[Part, Field("a release")]
    second: Annotated[Part, Field("another")]
    delta: Annotated[
        float, Field("failure probability of the reported epsilons, in (0, 1)", "δ", gt=0, lt=1, rounding=DOWN)
    ] = 1e-6
    relation: Annotated[NeighboringRelation, parameters.RELATION] = _ADD_OR_REMOVE
    fpr: Annotated[float, Field("FPR of the reported attacks, in (0, 1)", gt=0, lt=1)] = 0.01

    def answer(self) -> Annotated[dict[str, Any], responses.ComparisonResponse]:
        """Epsilon at deltas, TPR at FPRs and mu of both releases, and the comparison in words."""
        from epsilog.plan.interpretation import fit_json

        pair = self.first.release("first"), self.second.release("second")
        both = plan.compare_releases(*pair, delta=self.delta, fpr=self.fpr, relation=self.relation)
        found, fits = both.found, [None if fit is None else fit_json(fit) for fit in both.fits]
        return {
            "outcome": found.outcome,
            "better": f"better/{found.outcome}",
            "messages": codec.plain(both.messages),
            "deltas": [_describe_comparison(each) for each in found.at_deltas],
            "fprs": [_describe_comparison(each) for each in found.at_fprs],
            "first_excess": found.first_excess,
            "second_excess": found.second_excess,
            "tolerance": found.tolerance,
            "first_fit": fits[0],
            "second_fit": fits[1],
        }


class VerdictQuestion(
    Question, path="/verdict", schema="VerdictRequest", work=lambda ask: 0.1 if ask.release is None else 10.0
):
    """Say what an epsilon means, out of 1,000 people."""

    epsilon: Annotated[
        float | None,
        Field("epsilon of the claim, in nats", "ε", ge=0, none_means="that of the release", rounding=UP, example=4.0),
    ] = None
    delta: Annotated[
        float, Field("failure probability of the claim, in [0, 1); 0 for pure DP", "δ", ge=0, lt=1, rounding=UP)
    ] = 0.0
    release: Annotated[
        dict[str, Any] | None, Field("the release, as tagged JSON", none_means="epsilon and delta alone")
    ] = None
    relation: Annotated[NeighboringRelation, parameters.RELATION] = _ADD_OR_REMOVE
    privacy_unit: Annotated[str, replace(parameters.PRIVACY_UNIT, max_length=80)] = "person"
    prior: Annotated[float, Field("suspicion beforehand, in (0, 1)", "π", gt=0, lt=1)] = 0.1
    simulation: Annotated[bool, Field("randomness was seeded, so that nobody is protected", default=False)] = False
    name: Annotated[str | None, Field("name of what is released", none_means="none", max_length=80)] = None
    report: Annotated[
        str | None, Field("SHA-256 of the report that the figures come from", none_means="none", max_length=64)
    ] = None
    verdict: Annotated[str | None, Field("verdict on the report", none_means="none", max_length=60)] = None
    date: Annotated[
        str | None, Field("date of the card", none_means="today on a page or a command line", max_length=10)
    ] = None

    def answer(self) -> Annotated[dict[str, Any], responses.VerdictResponse]:
        """A card in sentences and as one text, with the text's SHA-256."""
        from epsilog.plan.verdict import build_card

        if self.report is not None and not re.fullmatch("[0-9a-f]{64}", self.report):
            raise CheckError("report", "64 lower-case hex digits", repr(self.report))
        if self.date is not None and not re.fullmatch(r"\d{4}-[01]\d-[0-3]\d", self.date, re.ASCII):
            raise CheckError("date", "like 2026-11-28", repr(self.date))
        if self.verdict is not None and self.verdict not in VERDICTS:
            raise CheckError("verdict", "one that epsilog writes, such as Holds", repr(self.verdict))
        stated = {name: getattr(self, name) or "" for name in ("name", "report", "verdict", "date")}
        return build_card(
            None if self.release is None else codec.parse_term(Release, self.release, "release"),
            epsilon=self.epsilon,
            delta=self.delta,
            relation=self.relation,
            privacy_unit=self.privacy_unit,
            prior=self.prior,
            simulation=self.simulation,
            **stated,
        ).to_json()


class CertifyQuestion(Question, path="/certificate", schema="CertifyRequest", work=10.0):
    """Make a certificate of a release."""

    release: Annotated[dict[str, Any], Field("the release, as tagged JSON")]
    delta: Annotated[float, Field("failure probability, in [0, 1); 0 for pure DP", "δ", ge=0, lt=1, rounding=DOWN)]
    epsilon: Annotated[
        float | None,
        Field("epsilon to prove, in nats", "ε", ge=0, none_means="the bound and the slack of it", rounding=DOWN),
    ] = None
    slack: Annotated[float, Field("excess of epsilon over the accountant's bound, relative to it", gt=0, lt=1)] = 1e-3
    relation: Annotated[NeighboringRelation, parameters.RELATION] = _ADD_OR_REMOVE
    group_size: Annotated[int, replace(parameters.GROUP_SIZE, help="units that one person holds")] = 1

    def answer(self) -> Annotated[dict[str, Any], responses.CertifyResponse]:
        """A proof that anyone checks in a second without epsilog; made from the public release alone."""
        from epsilog.certificates import certificate

        given = {name: getattr(self, name) for name in fields.list_fields(CertifyQuestion)}
        return certificate(codec.parse_term(Release, given.pop("release"), "release"), **given).to_json()


def _describe_comparison(each: PointComparison) -> dict[str, Any]:
    (_, at), *_ = each.first.given
    return {"at": at, "first": codec.encode(each.first), "second": codec.encode(each.second), "better": each.better}
