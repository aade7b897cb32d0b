"""Documents that a third party redraws: an honest one agrees, and every changed leaf is noticed."""

import copy
import json
import math
import re

import pytest
from tests.accounting.montecarlo.simulated import BANDED, BINS

from epsilog.accounting import montecarlo
from epsilog.accounting.montecarlo import documents, recompute, run, shards
from epsilog.accounting.montecarlo.tilt import ProfilePayoff
from epsilog.terms import codec

NONCE = "drand quicknet 19482411: 6fd1f7"


def as_read(found):
    return codec.parse_json(json.dumps(found.to_json()).encode())


@pytest.fixture(scope="module")
def swept():
    found = montecarlo.search_noise(BANDED, epsilon=1.0, delta=1e-2, slack=0.5, seed=21, noises=(3.0, 1.0))
    assert found.chosen == 0
    assert len(found.evidence) == 4
    return as_read(found)


@pytest.fixture(scope="module")
def bounded():
    return as_read(montecarlo.bound_delta(BINS, epsilon=1.0, samples=40_000, seed=5))


@pytest.fixture(scope="module")
def derived():
    plan = montecarlo.plan_delta_bound(BINS, epsilon=1.0, samples=20_000, seed=run.draw_entropy())
    return as_read(montecarlo.run_delta_bound(plan, nonce=NONCE))


@pytest.mark.slow
def test_a_third_party_recomputes_everything(swept, bounded, derived):
    for one in (swept, bounded, derived):
        assert montecarlo.recompute_document(one) == ()
    assert swept["claim"]["delta"] <= 1e-2
    assert 6.876e-4 in codec.decode(bounded["interval"])


# ---- every leaf ------------------------------------------------------------------------------------------------------


def leaves(value, path=()):
    """The paths to everything in a document that is neither a list nor an object, and to every empty one."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [leaf for name, part in inside for leaf in leaves(part, (*path, name))]
    return found or [path]


def others(leaf):
    """Values that a leaf might be replaced by."""
    if isinstance(leaf, bool):
        return (not leaf, int(leaf), str(leaf), None)
    if isinstance(leaf, int):
        return (leaf + 1, leaf - 1, leaf + 0.5, str(leaf), True, 2**60, 10**400)
    if isinstance(leaf, float):
        nudged = math.nextafter(leaf, math.inf) if leaf else 1e-300
        return (leaf * 1.01 + 1e-9, -leaf - 1, nudged, math.nan, math.inf, repr(leaf), None, 10**400)
    if isinstance(leaf, str):
        return (leaf + " ", leaf[:-1], "7" + leaf, 7, [leaf])
    return (0, "", {}, [], False) if leaf is None else (None,)


def at(document, path):
    for name in path:
        document = document[name]
    return document


def changed(document, path, value):
    result = copy.deepcopy(document)
    at(result, path[:-1])[path[-1]] = value
    return result


def noticed(document, **options):
    try:
        return montecarlo.recompute_document(document, **options) != ()
    except ValueError:
        return True


ROUNDED = {("interval", "lower"), ("interval", "upper"), ("interval", "estimate"), ("claim", "delta")}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bounded", "swept"])
def test_every_changed_leaf_is_noticed_without_a_draw(request, kind, monkeypatch):
    """By what the document says of itself; drawing again comes on top. Only results may differ in their last bits."""
    document = request.getfixturevalue(kind)
    monkeypatch.setattr(recompute, "_redrawn", lambda *_: [])
    assert montecarlo.recompute_document(document) == ()
    paths, missed = leaves(document), []
    for path in paths:
        leaf = at(document, path)
        for value in others(leaf):
            if path in ROUNDED and isinstance(value, float) and abs(value / leaf - 1) < 1e-15:
                continue
            if path[0] == "hits" and isinstance(value, int) and not isinstance(value, bool) and abs(value - leaf) == 1:
                continue  # another count may have the same consequence, or its own: see below
            if not noticed(changed(document, path, value)):
                missed.append((path, value))
    assert missed == []
    assert len(paths) > 40


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize("kind", ["swept", "bounded", "derived"])
def test_another_count_is_noticed_by_drawing_again(request, kind):
    document = request.getfixturevalue(kind)
    for place in range(len(document["hits"])):
        other = changed(document, ("hits", place, 0), document["hits"][place][0] + 1)
        assert any("hits recorded" in line for line in montecarlo.recompute_document(other))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["swept", "derived"])
def test_what_is_added_or_left_out_is_noticed(request, kind, monkeypatch):
    document = request.getfixturevalue(kind)
    monkeypatch.setattr(recompute, "_redrawn", lambda *_: [])

    def inner(value, path=()):
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        return [path, *(each for name, part in inside for each in inner(part, (*path, name)))]

    for path in inner(document):
        copied = copy.deepcopy(document)
        place = at(copied, path)
        if isinstance(place, dict):
            place["certified"] = True
        elif isinstance(place, list):
            place.append(copy.deepcopy(place[-1]) if place else 0)
        assert copied == document or noticed(copied), path
        if path:
            copied = copy.deepcopy(document)
            del at(copied, path[:-1])[path[-1]]
            assert noticed(copied), path


@pytest.mark.slow
def test_a_simulation_cannot_be_relabeled(bounded):
    """Neither in one place nor in all: another provenance has other draws."""
    assert montecarlo.recompute_document(bounded | {"simulation": False}) != ()
    other = copy.deepcopy(bounded)
    other["source"]["provenance"] = "entropy"
    seen = run.RandomnessSource("entropy", other["source"]["value"])
    other |= {"simulation": False, "seed": str(seen.seed(other["commitment"]))}
    other["interval"]["assumptions"][-1] = seen.assumption
    assert any("hits recorded" in line for line in montecarlo.recompute_document(other))
    honest = montecarlo.MonteCarloEvidence(
        montecarlo.plan_from_json(other["plan"]),
        seen,
        tuple(
            recompute.TrialEvidence(
                trial, tuple(shards.count_hits(trial, int(other["seed"]), i) for i in range(trial.shards))
            )
            for trial in montecarlo.plan_from_json(other["plan"]).trials
        ),
    )
    assert montecarlo.recompute_document(as_read(honest)) == ()  # and what nobody can check says so
    assert "only the operator of the run can check" in montecarlo.describe_seed_provenance(as_read(honest))


def reforged(document, change):
    """Changes a plan and everything that follows from it without draws."""
    plan = copy.deepcopy(document["plan"])
    change(plan)
    settled = codec.hash_canonical(plan)
    source = run.RandomnessSource(document["source"]["provenance"], document["source"]["value"])
    return document | {"plan": plan, "commitment": settled, "seed": str(source.seed(settled))}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda p: p["code"].update(numpy=""), "blank"),
        (lambda p: p.update(stream="other"), "stream"),
        (lambda p: p.update(shard=8), "stream"),
        (lambda p: p.update(pilot="007"), "pilot"),
        (lambda p: p.update(pilot=str(2**128)), "pilot"),
        (lambda p: p["checks"][0][0].update(log_bound=800.0), "log_bound"),
        (lambda p: p["checks"][0][0].update(samples=0), "samples"),
        (lambda p: p["checks"][0][1].update(log_bound=p["checks"][0][1]["log_bound"] - 1e-8), "not proven"),
        (lambda p: p["checks"][-1][0].update(passes=p["checks"][-1][0]["samples"]), "/claim/delta"),
        (lambda p: (p["checks"].pop(), p["noises"].pop()), "hits must be|more of it|drawn"),
        (lambda p: p.update(target_delta=0.5), "drawn"),
        (lambda p: p.update(fallback_delta=1e-4), "drawn"),
        (lambda p: p["code"].update(numpy="9.9"), "drawn"),
    ],
)
def test_a_plan_that_was_changed_throughout_is_none_or_has_other_draws(swept, change, says):
    try:
        found = montecarlo.recompute_document(reforged(swept, change))
    except ValueError as error:
        found = (str(error),)
    assert any(re.search(says, line) for line in found)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["plan"].update(kind="montecarlo-whatever"),
        lambda d: d["plan"].update(v=True),
        lambda d: d.pop("source"),
        lambda d: d["source"].update(provenance="god"),
        lambda d: d["source"].update(value="-1"),
        lambda d: d["source"].update(value="٧"),
        lambda d: d["source"].update(value=str(2**128)),
        lambda d: d["source"].update(value="9" * 9999),
        lambda d: d.update(hits=7),
        lambda d: d.update(hits=[[0.0], [0]]),
        lambda d: d["hits"][0].append(0),
        lambda d: d["hits"].append([0]),
        lambda d: d["plan"]["trials"].reverse(),
        lambda d: d["plan"]["trials"][0].update(tilt=1e9),
        lambda d: d["plan"]["trials"][0]["payoff"].update(epsilon=10**400),
    ],
)
def test_what_is_no_document_is_refused(bounded, change):
    other = copy.deepcopy(bounded)
    change(other)
    with pytest.raises(ValueError, match="must"):
        montecarlo.recompute_document(other)


@pytest.mark.parametrize(
    ("field", "value"), [("bins", 10**5), ("epochs", 2**53 - 1), ("noise", 1e-300), ("noise", 0.0)]
)
def test_what_cannot_be_drawn_at_all_is_no_hang_and_no_crash(bounded, field, value):
    other = copy.deepcopy(bounded)
    for trial in other["plan"]["trials"]:
        if field == "noise":
            trial["release"]["release"]["noise_multiplier"] = value
        else:
            trial["release"][field] = value
    try:
        found = montecarlo.recompute_document(other)
    except ValueError as error:
        found = (str(error),)
    assert any("Monte Carlo has no proven bound" in line for line in found)


@pytest.mark.slow
def test_spot_checks_are_not_predictable(monkeypatch, bounded):
    """A forger who knows which shards are drawn again forges the others: the choice comes from fresh entropy."""
    drawn = set()
    monkeypatch.setattr(recompute, "count_hits", lambda _, __, shard: drawn.add(shard) or 0)
    for _ in range(60):
        montecarlo.recompute_document(bounded, shards=1)
    assert drawn == {0, 1, 2}  # of three shards, one is missed with probability 3 (2 / 3)^120 < 1e-20


@pytest.mark.parametrize("none", [0, -1, 1.0, True])
def test_redrawing_nothing_is_no_check(bounded, none):
    with pytest.raises(ValueError, match="shards must be"):
        montecarlo.recompute_document(bounded, shards=none)
    assert montecarlo.recompute_document(bounded, shards=99) == ()


def test_a_composition_states_what_it_takes_from_outside():
    table = ProfilePayoff(1.0, (-1.0, 0.0, 1.0, 2.0), (0.7, 0.1, 0.01, 0.0))
    document = as_read(montecarlo.bound_delta(BINS, epsilon=1.0, payoffs=(table, table), samples=20_000, seed=6))
    assert any("given profiles" in line for line in document["interval"]["assumptions"])
    assert montecarlo.recompute_document(document) == ()


# ---- plans and nonces ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_nonce_settles_the_draws_together_with_the_plan(derived):
    plan = montecarlo.plan_from_json(derived["plan"])
    assert as_read(montecarlo.run_delta_bound(plan, nonce=NONCE)) == derived
    assert derived["simulation"] is False
    assert "if the plan was published first, it is the only one" in montecarlo.describe_seed_provenance(derived)
    other = montecarlo.run_delta_bound(plan, nonce=NONCE + "0")
    assert other.seed != int(derived["seed"])
    assert [list(part.hits) for part in other.evidence] != derived["hits"]
    published = {"commitment": plan.commitment, "nonce": NONCE}
    assert montecarlo.recompute_document(derived, **published) == ()
    for wrong in ({"commitment": "0" * 64}, {"nonce": NONCE + "0"}):
        assert len(montecarlo.recompute_document(derived, **(published | wrong))) == 1
    assert len(montecarlo.recompute_document(as_read(montecarlo.run_delta_bound(plan)), nonce=NONCE)) == 1


@pytest.mark.slow
def test_every_part_of_a_plan_settles_the_draws(swept, bounded):
    """Whoever changes anything that decides the claim has another fingerprint, and other draws."""
    source = run.RandomnessSource(run.NONCE, NONCE)
    for plan in (swept["plan"], bounded["plan"]):
        seeds, paths = set(), leaves(plan)
        for path in paths:
            leaf = at(plan, path)
            value = leaf + "0" if isinstance(leaf, str) else leaf + 1
            seeds.add(source.seed(codec.hash_canonical(changed(plan, path, value))))
        assert len(seeds | {source.seed(codec.hash_canonical(plan))}) == len(paths) + 1


@pytest.mark.parametrize(
    "nonce", ["", "7", " " * 20, "0123456789abcdef ", "0123456789abcde\n", "é" * 20, "x" * 1025, 7]
)
def test_a_nonce_that_could_be_foreseen_or_misread_is_refused(nonce):
    plan = montecarlo.plan_delta_bound(BINS, epsilon=1.0, samples=1000, seed=1)
    with pytest.raises(ValueError, match="nonce must be"):
        montecarlo.run_delta_bound(plan, nonce=nonce)


def test_a_nonce_beside_a_seed_and_plans_of_other_code_are_refused(derived):
    plan = copy.deepcopy(derived["plan"])
    with pytest.raises(ValueError, match="if a nonce is given"):
        montecarlo.run_delta_bound(montecarlo.plan_from_json(plan), nonce=NONCE, seed=1)
    plan["code"]["numpy"] = "1.0"
    with pytest.raises(ValueError, match="versions installed here"):
        montecarlo.run_delta_bound(montecarlo.plan_from_json(plan), nonce=NONCE)


def test_a_sweep_rests_on_what_a_bound_rests_on_and_on_its_own_luck(swept, bounded):
    stated, assumed = swept["assumptions"], bounded["interval"]["assumptions"]
    assert len(documents.ASSUMPTIONS) > 0
    for said in (stated, assumed):
        assert set(documents.ASSUMPTIONS) < set(said)
        assert len(set(said)) == len(said)
    assert "one run, and its result was used in any case" in stated
    assert len(stated) == len(documents.ASSUMPTIONS) + 2
