"""A question is described once: read strictly, written back whole, bounded in work, and shown by the API."""

import dataclasses
import hashlib
import inspect
import json
from typing import Annotated

import pytest
from tests.server.test_typescript import ASKED, DP_SGD, MIX

from epsilog import accounting, certificates, plan
from epsilog.mechanisms import (
    ApproximateDP,
    BinomialTrialCount,
    Composed,
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Repeated,
    Shuffled,
    ZeroConcentratedDP,
)
from epsilog.plan import QUESTIONS, Question
from epsilog.plan.questions import Part
from epsilog.server.routes import build_request_model
from epsilog.server.workers import MAX_WORK_SECONDS, QUICK_SECONDS
from epsilog.terms import CheckError, DeltaPolicy, NeighboringRelation, UnsupportedMechanismError, codec, fields
from epsilog.terms.fields import Field
from epsilog.terms.messages import KINDS, Message

GIVEN = {path: ask for path, ask in ASKED if path in QUESTIONS}
RUN = {"population": 1000, "cohort_size": 100, "rounds": 3, "noise_multiplier": 2.0}
REPLACE = NeighboringRelation.REPLACE_ONE


def test_every_question_is_given_here():
    assert set(GIVEN) == set(QUESTIONS)


@pytest.mark.parametrize("path", QUESTIONS)
def test_a_question_is_read_strictly_and_written_back_whole(path):
    asked = QUESTIONS[path].parse(GIVEN[path])
    written = asked.to_json()
    assert QUESTIONS[path].parse(written) == asked
    assert written.items() >= {n: v for n, v in GIVEN[path].items() if not isinstance(v, list | dict)}.items()
    with pytest.raises(CheckError, match="field must be one of"):
        QUESTIONS[path].parse(GIVEN[path] | {"more": 1})
    required = build_request_model(QUESTIONS[path]).model_json_schema().get("required", [])
    for name in required:
        with pytest.raises(CheckError, match=f"{name} must be given"):
            QUESTIONS[path].parse({key: value for key, value in GIVEN[path].items() if key != name})
        for wrong in (True, float("nan")):
            with pytest.raises(CheckError, match=name):
                QUESTIONS[path].parse(GIVEN[path] | {name: wrong})


def outside(one, kind):
    """Values just past a field's bounds, and none of its type."""
    step = 1 if kind is int else 1e-9
    yield from (one.ge - step,) if one.ge is not None else ()
    yield from (one.le + step,) if one.le is not None else ()
    yield from (bound for bound in (one.gt, one.lt) if bound is not None)
    yield from ("none of these",) if one.choices else ("",) if kind is str else ("1", float("nan"))


@pytest.mark.parametrize("path", QUESTIONS)
def test_every_bound_of_a_question_is_kept_there_and_in_the_library(path):
    """The function of ``plan`` that answers has fields of its own: whoever calls it is held to the same bounds."""
    kind = QUESTIONS[path]
    called = {"/dp-sgd": (plan.plan_dp_sgd, DP_SGD | {"noise_multiplier": 1.0})}
    called |= {"/federated": (plan.plan_federated, RUN), "/queries": (plan.queries, {"epsilon": 1.0, "queries": 3})}
    for name, one in fields.list_fields(kind).items():
        for value in outside(one, fields.field_type(kind, name)):
            given = [value] * 3 if fields.is_list(kind, name) else value
            with pytest.raises(CheckError, match=name):
                kind.parse(GIVEN[path] | {name: given})
            function, known = called.get(path, (None, {}))
            if (
                function is not None
                and name in inspect.signature(function).parameters
                and name not in ("group_size", "trials")
            ):
                with pytest.raises(CheckError, match=rf"^{name}(\[\d\])? must be"):
                    function(**known | {name: given})


@pytest.mark.parametrize(
    ("path", "changes", "says"),
    [
        ("/federated", {"cohort_size": 1001}, r"cohort_size must be in \[1, 1000\]"),
        ("/federated", {"privacy_unit": "x" * 81}, "privacy_unit must be 0 to 80 characters long"),
        ("/federated", {"relation": "swap"}, "relation must be one of"),
        ("/federated", {"group_size": 65}, r"group_size must be in \[1, 64\]"),
        ("/queries", {"queries": 1001, "weights": [1.0] * 1001}, "weights must be 0 to 1000 items long"),
        ("/account", {"parts": []}, "parts must be 1 to 20 items long"),
        (
            "/account",
            {"parts": [{"mechanism": "gdp", "parameter": 1.0}, {"mechanism": "gdp"}]},
            r"parts\[1\].parameter",
        ),
        ("/account", {"parts": ["gdp"]}, r"parts\[0\] must be a Part"),
    ],
)
def test_a_question_out_of_its_bounds_is_refused_by_name(path, changes, says):
    with pytest.raises(CheckError, match=says):
        QUESTIONS[path].parse(GIVEN[path] | changes)


def test_a_release_that_is_none_is_named_by_its_place():
    asked = QUESTIONS["/account"].parse({"parts": [{"mechanism": "randomized-response", "parameter": 2.0}]})
    with pytest.raises(CheckError, match=r"parts\[0\].parameter must be in \[0, 1\], got 2.0"):
        asked.answer()
    asked = QUESTIONS["/account"].parse({"parts": [{"mechanism": "approximate", "parameter": 2.0, "second": 2.0}]})
    with pytest.raises(CheckError, match=r"parts\[0\].second"):
        asked.answer()


def test_work_grows_with_what_makes_an_answer_dear_and_picks_where_it_is_worked_out():
    quick = [path for path, given in GIVEN.items() if QUESTIONS[path].parse(given).work() <= QUICK_SECONDS]
    assert quick == ["/dp-sgd", "/federated", "/queries", "/sensitivity"]
    assert all(QUESTIONS[path].parse(given).work() <= MAX_WORK_SECONDS for path, given in GIVEN.items())
    for more in ({"group_size": 64}, {"trials": "binomial:8,0.5"}):
        assert QUESTIONS["/federated"].parse(RUN | more).work() > QUICK_SECONDS
    weights = {"epsilon": 1.0, "queries": 1000, "delta": 1e-6, "weights": [1.0 + i for i in range(1000)]}
    assert QUESTIONS["/queries"].parse(weights).work() > QUICK_SECONDS
    assert QUESTIONS["/queries/risk"].parse(weights).work() > MAX_WORK_SECONDS  # minutes, and so it is not begun
    assert QUESTIONS["/queries/risk"].parse(weights | {"mechanism": "gaussian"}).work() < MAX_WORK_SECONDS


def test_a_new_field_reaches_the_api_by_its_description():
    class Longer(QUESTIONS["/sensitivity"], schema="LongerRequest"):
        """One count with a limit."""

        limit: Annotated[int | None, Field("the most", "l", ge=1, default=None, none_means="none")] = None

    schema = build_request_model(Longer).model_json_schema()
    assert schema["title"] == "LongerRequest"
    assert schema["description"] == "One count with a limit."
    told = schema["properties"]["limit"]
    assert told == {
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "default": None,
        "description": "the most",
        "minimum": 1,
        "title": "Limit",
        "x-blank": "none",
        "x-symbol": "l",
    }
    assert Longer.parse({"query": "count", "limit": 3}).to_json()["limit"] == 3
    assert "/sensitivity" in QUESTIONS
    assert QUESTIONS["/sensitivity"] is not Longer


def test_a_question_that_forgets_its_answer_is_never_made():
    class Silent(Question):
        """It says nothing."""

    with pytest.raises(TypeError, match="answer"):
        Silent()


# what is answered is the library's

MEANT = {
    "/federated": plan.plan_federated,
    "/federated/curve": plan.plan_federated,
    "/federated/noise": plan.calibrate_noise,
    "/queries": plan.queries,
    "/sensitivity": plan.compute_query_sensitivity,
    "/account": plan.plan_composition,
    "/account/interpretation": plan.interpret_guarantee,
    "/account/compare": plan.compare_releases,
    "/certificate": certificates.certificate,
}


@pytest.mark.parametrize("path", MEANT)
def test_what_is_left_out_means_what_it_means_in_the_library(path):
    known = inspect.signature(MEANT[path]).parameters
    for one in dataclasses.fields(QUESTIONS[path]):
        if (
            one.default is not dataclasses.MISSING
            and one.name in known
            and known[one.name].default is not inspect.Parameter.empty
        ):
            assert one.default == known[one.name].default, one.name
        if one.name == "delta_cap":
            assert DeltaPolicy(one.default) == DeltaPolicy()


def test_what_has_no_meaning_in_the_library_has_one_for_ever():
    """Pages, embeds and saved addresses leave it out."""
    alone = QUESTIONS["/federated"](**RUN)
    assert (alone.without_replacement, alone.rounds_per_release, alone.adaptive_clip) == (True, 1, False)
    assert alone.late_replies == "count-as-zero"
    mix = QUESTIONS["/account"].parse({"parts": [{"mechanism": "pure", "parameter": 1.0}]})
    assert (mix.delta, mix.fpr, mix.relation) == (1e-6, 0.01, "add-or-remove-one")
    assert mix.releases() == [Repeated(PureDP(1.0), 1)]


def test_a_question_is_handed_over_whole(monkeypatch):
    calls = {}
    for name in ("plan_federated", "calibrate_noise", "calibrate_rounds", "queries"):
        monkeypatch.setattr(plan, name, lambda name=name, **given: calls.setdefault(name, given) and 7)
    given = RUN | {"clip_norm": 2.5, "delta": 1e-7, "sampling": "fixed-size", "privacy_unit": "phone"}
    given |= {"releases_per_period": 3, "relation": REPLACE}
    whole = given | {"policy": DeltaPolicy(1e-8), "group_size": 4, "trials": BinomialTrialCount(8, 0.5), "fit": False}
    QUESTIONS["/federated"](**given, delta_cap=1e-8, adaptive_clip=True, group_size=4, trials="binomial:8,0.5").plan()
    assert calls["plan_federated"] == whole
    goal = RUN | {"epsilon": 2.0, "delta": 1e-7, "relation": REPLACE, "sampling": "balls-in-bins"}
    assert QUESTIONS["/federated/noise"](**goal, clip_norm=3.0).answer() == {"noise_multiplier": 7}
    assert QUESTIONS["/federated/rounds"](**goal, delta_cap=None).answer() == {"rounds": 7}
    for name, left, cap in (("calibrate_noise", "noise_multiplier", 1e-6), ("calibrate_rounds", "rounds", None)):
        assert calls[name] == {n: v for n, v in goal.items() if n != left} | {"policy": DeltaPolicy(cap)}
    query = {"epsilon": 1.0, "queries": 4, "sensitivity": 2.0, "mechanism": "gaussian", "delta": 1e-7}
    query |= {"queries_used": 2, "weights": (1.0, 2.0, 3.0, 4.0), "population": 90, "magnitude": 5.0}
    QUESTIONS["/queries"](**query, delta_cap=1e-8).plan()
    assert calls["queries"] == query | {"policy": DeltaPolicy(1e-8)}


@pytest.mark.parametrize(
    ("path", "ask"),
    [
        ("/federated", RUN | {"privacy_unit": "x" * 80, "group_size": 64}),
        ("/queries", {"epsilon": 1.0, "queries": 1000, "weights": [1.0] * 1000}),
        ("/account", {"parts": [{"mechanism": "pure", "parameter": 0.1}] * 20}),
    ],
)
def test_the_largest_questions_are_taken(path, ask):
    assert QUESTIONS[path].parse(ask)
    assert build_request_model(QUESTIONS[path]).model_validate(ask)


@pytest.mark.parametrize(
    ("part", "release"),
    [
        ({"mechanism": "gaussian", "parameter": 2.0}, Gaussian(2.0)),
        ({"mechanism": "laplace", "parameter": 2.0}, Laplace(2.0)),
        ({"mechanism": "randomized-response", "parameter": 0.25}, RandomizedResponse(0.25, 2)),
        ({"mechanism": "randomized-response", "parameter": 0.25, "second": 5.0}, RandomizedResponse(0.25, 5)),
        ({"mechanism": "pure", "parameter": 2.0}, PureDP(2.0)),
        ({"mechanism": "approximate", "parameter": 2.0}, ApproximateDP(2.0, 0.0)),
        ({"mechanism": "approximate", "parameter": 2.0, "second": 1e-7}, ApproximateDP(2.0, 1e-7)),
        ({"mechanism": "zcdp", "parameter": 2.0}, ZeroConcentratedDP(2.0)),
        ({"mechanism": "gdp", "parameter": 2.0}, GaussianDP(2.0)),
        ({"mechanism": "gaussian", "parameter": 2.0, "sampling_probability": 0.5}, PoissonSampled(Gaussian(2.0), 0.5)),
    ],
    ids=lambda each: str(each)[:40],
)
def test_a_line_of_the_form_is_a_release(part, release):
    for count in (1, 3):
        assert Part(**part, count=count).release() == Repeated(release, count)
    with pytest.raises(CheckError, match="second must be a whole number of categories"):
        Part("randomized-response", 0.25, second=2.5).release()


@pytest.mark.slow
def test_a_mix_and_its_profile_are_the_librarys():
    parts = [{"mechanism": "gaussian", "parameter": 3.0, "count": 2}, {"mechanism": "pure", "parameter": 0.5}]
    parts.append({"mechanism": "laplace", "parameter": 4.0})
    ask = {"parts": parts, "delta": 1e-4, "relation": "replace-one", "fpr": 0.05}
    releases = [Repeated(Gaussian(3.0), 2), Repeated(PureDP(0.5), 1), Repeated(Laplace(4.0), 1)]
    found, said = (
        plan.plan_composition(releases, delta=1e-4, relation=REPLACE),
        QUESTIONS["/account"].parse(ask).answer(),
    )
    assert codec.decode(said["epsilon"]) == found.epsilon
    assert codec.from_json(said["release"]) == Composed(releases)
    assert [codec.decode(part["alone"]) for part in said["parts"]] == [each.alone for each in found.parts]
    assert [codec.decode(part["without"]) for part in said["parts"]] == [each.without for each in found.parts]
    said = QUESTIONS["/account/profile"].parse(ask).answer()
    view = plan.compute_profile_view(Composed(releases), delta=1e-4, relation=REPLACE)
    assert said["fpr"] == 0.05
    assert said["advantage"] == view.advantage.upper
    for point, at, delta in zip(said["profile"], view.epsilons, view.deltas, strict=True):
        assert (point["epsilon"], point["lower"], point["upper"]) == (at, delta.lower, delta.upper)
    fprs = [point["fpr"] for point in said["roc"]]
    assert fprs == sorted(set(fprs))
    assert (fprs[0] < 0.001, fprs[-1]) == (True, 1.0)
    assert all(point["tpr"] == view.true_positive_rate(point["fpr"]) for point in said["roc"])
    certain = accounting.profile(Composed(releases), relation=REPLACE).tpr(0.05)
    assert certain.lower <= said["tpr"] <= min(1.01 * certain.upper, view.true_positive_rate(0.05))


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "chance"), [(50.0, 1.0), pytest.param(1.0, 0.01, marks=pytest.mark.extended)])
def test_the_playground_has_one_figure_of_an_attack(noise, chance):
    """Two bounds of one share stood on a page, 3.27% beside 3.26%."""
    parts = [{"mechanism": "gaussian", "parameter": noise, "sampling_probability": chance, "count": 1000}]
    parts.append({"mechanism": "laplace", "parameter": 10.0, "count": 5})
    for fpr in (0.001, 0.01):
        risk, profile = (
            QUESTIONS[f"/account/{one}"].parse({"parts": parts, "fpr": fpr}) for one in ("risk", "profile")
        )
        (told,) = [figure for label, figure in risk.answer()["rows"] if label == ["attack/tpr", {"fpr": fpr}]]
        assert told == KINDS["percent"](profile.answer()["tpr"])


@pytest.mark.slow
def test_a_schedules_answers_are_the_librarys():
    everybody = RUN | {"cohort_size": RUN["population"]}  # a Gaussian, at once
    given = everybody | {"relation": "replace-one", "releases_per_period": 2, "clip_norm": 3.0}
    boundary = {
        "without_replacement": False,
        "rounds_per_release": 5,
        "adaptive_clip": True,
        "late_replies": "close-early",
    }
    found = plan.plan_federated(**given)
    grade, sentence = plan.grade_delta(found.delta.delta, RUN["population"])
    limits = plan.list_limits(sampling="poisson", privacy_unit="client", **boundary)
    told = {"delta_grade": grade, "delta_sentence": sentence, "limits": [limit.to_json() for limit in limits]}
    told["release"] = codec.to_json(found.release)
    assert QUESTIONS["/federated"].parse(given | boundary).answer() == found.to_json() | told
    points = QUESTIONS["/federated/curve"].parse(given).answer()["points"]
    for point, known in zip(points, plan.compute_epsilon_curve(found), strict=True):
        assert (point["rounds"], point["closed_form"]) == (known.rounds, known.closed_form)
        assert (point["lower"], point["upper"]) == (known.epsilon.lower, known.epsilon.upper)
    more = QUESTIONS["/federated"].parse(everybody | {"group_size": 4, "trials": "binomial:8,0.5"}).answer()
    whole = plan.plan_federated(**everybody, group_size=4, trials=BinomialTrialCount(8, 0.5))
    assert (more["group_size"], more["group_interval"]) == (4, codec.encode(whole.group_interval))
    assert more["tuning_cost"] == whole.tuning_cost.to_json()
    assert (
        whole.epsilon.upper
        < whole.tuning_cost.best.upper
        < whole.tuning_cost.all_released.upper
        < whole.group_interval.upper
    )
    assert not {"group_size", "group_interval", "tuning_cost"} & set(QUESTIONS["/federated"].parse(everybody).answer())
    with pytest.raises(CheckError, match=r"^trials must be one of"):
        QUESTIONS["/federated"].parse(everybody | {"trials": "often:3"}).answer()


@pytest.mark.parametrize(("delta", "population"), [(None, 100), (1e-7, None), (1e-7, 100), (1e-4, 50)])
def test_a_query_plans_delta_is_graded_where_there_is_a_population(delta, population):
    mechanism = "laplace" if delta is None else "gaussian"
    ask = {"epsilon": 1.0, "queries": 2, "mechanism": mechanism, "delta": delta, "population": population}
    found, graded = plan.queries(**ask), (None, None)
    if found.delta is not None and population is not None:
        graded = plan.grade_delta(found.delta.delta, population)
    told = {"release": codec.to_json(found.release), "delta_grade": graded[0], "delta_sentence": graded[1]}
    assert QUESTIONS["/queries"].parse(ask).answer() == found.to_json() | told


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/federated", RUN | {"cohort_size": 1000}),
        ("/queries", {"epsilon": 1.0, "queries": 3, "mechanism": "gaussian", "delta": 1e-6}),
        ("/account", MIX),
    ],
)
def test_an_answer_holds_the_release_that_a_certificate_is_made_of(path, more):
    answer = QUESTIONS[path].parse(more).answer()
    asked = {"release": answer["release"], "delta": 1e-5, "slack": 0.01}
    found = QUESTIONS["/certificate"].parse(asked).answer()
    assert found == certificates.certificate(codec.from_json(answer["release"]), delta=1e-5, slack=0.01).to_json()
    verdict = certificates.check_certificate(found["certificate"])
    assert verdict == (True, found["message"], found["checker_sha256"])
    assert ("epsilon", json.loads(found["certificate"])["claim"]["epsilon"]) in found["claim"]
    assert found["sha256"] == hashlib.sha256(found["certificate"].encode()).hexdigest()


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"release": codec.to_json(Shuffled(PureDP(1.0), 1000))}, UnsupportedMechanismError, "Shuffled"),
        ({"epsilon": 0.01}, certificates.NotProvenError, "not above the accountant's bound"),
        ({"release": {"v": 1, "term": {"type": "laughter"}}}, CheckError, r"^release.type must be one of"),
        ({"release": {"type": "gaussian"}}, CheckError, r"^release must be one that is known here"),
        ({"release": {}}, CheckError, r"^release must be"),
    ],
)
def test_a_certificate_that_is_not_made_says_why(changes, error, says):
    asked = {"release": codec.to_json(Gaussian(1.0)), "delta": 1e-6}
    with pytest.raises(error, match=says):
        QUESTIONS["/certificate"].parse(asked | changes).answer()


def test_sensitivities_and_crossovers_are_the_librarys(monkeypatch):
    ask = {"query": "mean", "contributions": 3, "low": -2.0, "high": 1.0, "size": 50, "relation": "replace-one"}
    assert QUESTIONS["/sensitivity"].parse(ask).answer() == codec.plain_fields(plan.compute_query_sensitivity(**ask))
    monkeypatch.setattr(
        plan,
        "compare_query_noise",
        lambda **given: plan.QuerySensitivity(given["epsilon"], Message.read(str(given["counts"]))),
    )
    told = QUESTIONS["/queries/crossover"](epsilon=0.5, delta=1e-5, queries=37).answer()
    assert told == {"value": 0.5, "reason": str([1, 2, 5, 10, 20, 37, 50, 100, 200, 500, 1000])}


def test_a_comparison_tells_at_each_point_who_is_better():
    first, second = ({"mechanism": "gaussian", "parameter": z, "count": 1} for z in (1.0, 2.0))
    asked = {"first": first, "second": second}
    told = QUESTIONS["/account/compare"].parse(asked).answer()
    points = [*told["deltas"], *told["fprs"]]
    assert {one["better"] for one in points} == {"second"}
    assert all(set(one) == {"at", "first", "second", "better"} for one in points)


@pytest.mark.slow
def test_the_risk_of_queries_is_about_a_person():
    told = QUESTIONS["/queries/risk"].parse({"epsilon": 1.0, "queries": 2, "delta": 1e-6}).answer()
    assert "person" in json.dumps(told["attack_note"])
    assert told["rows"]


def test_the_federated_calculator_grades_delta_in_a_sentence():
    asked = {"population": 1000, "cohort_size": 10, "rounds": 2, "noise_multiplier": 1.0, "delta_cap": None}
    for delta in (1e-3, 1e-6):
        told = QUESTIONS["/federated"].parse(asked | {"delta": delta}).answer()
        assert {"delta_grade", "delta_sentence", "limits"} <= set(told)
        assert (told["delta_grade"], told["delta_sentence"]) == plan.sentences.grade_delta(delta, 1000)
