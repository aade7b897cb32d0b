"""Every check of a reconciliation by itself: what it accepts, what it refuses, and the figures that it shows."""

import math
from dataclasses import replace

import pytest
from scipy import stats
from tests.reports.drawn import central, drawn, local, make_plan
from tests.verification.checked import applied, apply

from epsilog.accounting import epsilon as bound_epsilon
from epsilog.mechanisms import Composed, Gaussian, PoissonSampled, Repeated
from epsilog.schemes import ClientLevelDistributed
from epsilog.terms import OUTCOME_SHARE, NeighboringRelation, Status
from epsilog.verification import Claim, Evidence, SimulatedUtility, bound_any_sampler, claim, publish, verify_evidence
from epsilog.verification.charge_checks import LEDGER_CHECKS, check_charge, check_released
from epsilog.verification.claim import certified_run, check_claim, check_delta, check_plan
from epsilog.verification.ledger_excerpt import LedgerExcerpt
from epsilog.verification.owner_checks import check_control, check_owner
from epsilog.verification.rounds import check_rounds
from epsilog.verification.what_if import compute_what_ifs

CHECKS = ("certificate", "claim", "plan", "delta", *LEDGER_CHECKS, "rounds", "noise", "clipping")
CHECKS += ("custody", "norms", "participation", "attestation", "control")


def verdicts(found):
    return {finding.check: finding.status.value for finding in found}


def planned(run, **changes):
    return replace(run, claim=Claim.from_plan(replace(run.plan, **changes)))


def test_every_check_is_made_once_and_in_order(run):
    found = verify_evidence(run)
    assert tuple(finding.check for finding in found.findings) == CHECKS
    assert set(verdicts(found.findings).values()) == {"passed"}
    assert found.status is Status.PASSED
    assert found.to_json()["status"] == "passed"
    assert [f["check"] for f in found.to_json()["findings"]] == list(CHECKS)


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        (lambda e: replace(e, records=e.records[:-1]), {"released": "failed", "rounds": "warned", "custody": "failed"}),
        (lambda e: replace(e, records=(*e.records[:1], replace(e.records[1], clip_norm=0.4), *e.records[2:])),
         {"clipping": "failed"}),
        (lambda e: replace(e, records=(*e.records[:1], replace(e.records[1], noise_stddev=0.4), *e.records[2:])),
         {"clipping": "failed"}),
        (lambda e: replace(e, custody=tuple(replace(one, largest_norm=0.51) for one in e.custody)),
         {"norms": "failed"}),
        (lambda e: replace(e, records=tuple(replace(one, padding=(1e-9,) * 16) for one in e.records)),
         {"noise": "failed"}),
        (lambda e: replace(e, custody=tuple(replace(one, participants=tuple(range(150))) for one in e.custody)),
         {"participation": "failed"}),
        (lambda e: replace(e, owner=None), {"attestation": "failed"}),
        (lambda e: replace(e, ledger=LedgerExcerpt(sound=False, trouble="a link is broken")), {"ledger": "failed"}),
    ],
)  # fmt: skip
def test_one_thing_that_is_wrong_is_found_where_it_is(run, change, failing):
    found = verify_evidence(change(run))
    told = verdicts(found.findings)
    assert {check: told[check] for check in failing} == failing
    others = set(told.items()) - set(failing.items())
    assert {verdict for check, verdict in others if verdict == "failed"} == set()
    assert found.status is Status.FAILED


# the claim


@pytest.mark.parametrize(
    ("claimed", "verdict", "below_all"),
    [(4.0, "passed", False), (4.1, "passed", False), (3.99, "warned", False), (3.97, "failed", False),
     (3.89, "failed", True), (0.0, "failed", True)],
)  # fmt: skip
def test_a_claim_is_held_against_both_ends_of_our_interval(run, monkeypatch, claimed, verdict, below_all):
    asked = []

    def certified(*question):
        asked.append(question)
        return replace(run.plan.epsilon, lower=3.9, upper=4.0)

    monkeypatch.setattr(claim, "compute_certified_interval", certified)
    found = check_claim(claimed, certified_run(run.plan))
    assert found.status == verdict
    assert dict(found.values) == {"claimed": claimed, "lower": 3.9, "upper": 4.0}
    assert ("below the lower bound, 3.9" in found.message) is below_all
    guarantee = run.plan.guarantee
    for_model = guarantee.delta * (1 - OUTCOME_SHARE)
    assert asked == [(run.plan.scheme.release(), delta, guarantee.relation) for delta in (guarantee.delta, for_model)]


def test_a_claim_whose_interval_is_wide_is_close_only_within_it(run):
    assert check_claim(3.9985, replace(run.plan.epsilon, lower=3.999, upper=4.0)).status == "failed"
    wide = replace(run.plan.epsilon, lower=0.0, upper=4.0)
    assert check_claim(3.981, wide).status == "warned"
    assert check_claim(3.979, wide).status == "failed"


def test_a_schedule_without_noise_has_no_claim(run):
    silent = replace(run.plan, scheme=replace(run.plan.scheme, noise_multiplier=0.0))
    found = check_claim(1e300, certified_run(silent))
    assert found.status == "failed"
    assert [name for name, _ in found.values] == ["claimed", "lower"]  # an infinite figure has no place in a report


# the plan


def contradictions(plan):
    assert check_plan(plan).status == "passed"
    upper, other = plan.epsilon.upper, NeighboringRelation.REPLACE_ONE
    yield "it claims", {"guarantee": replace(plan.guarantee, epsilon=math.nextafter(upper, 9e9))}
    for name in ("epsilon", "unamplified"):
        stated = getattr(plan, name)
        question = f"{name} has another quantity, relation or delta"
        yield question, {name: replace(stated, relation=other)}
        yield question, {name: replace(stated, given=(("delta", 1e-6),))}
        yield question, {name: replace(stated, quantity="delta")}
        yield f"{name} is [", {name: replace(stated, lower=stated.upper * 1.001, upper=stated.upper * 1.001)}
        if name == "unamplified":
            low = stated.upper * 0.99
            yield f"{name} is [", {name: replace(stated, lower=min(stated.lower, low), upper=low)}
    assert plan.epsilon.assumptions
    yield "epsilon omits assumptions", {"epsilon": replace(plan.epsilon, assumptions=())}
    for term in ("root_term", "linear_term"):
        wrong = getattr(plan.closed_form, term) * (1 + 1e-8)
        yield f"the closed form's {term}", {"closed_form": replace(plan.closed_form, **{term: wrong})}
    yield "its budget is at delta", {"budget": plan.budget | {"delta": "0.00001000000000000001"}}
    yield "its scheme has 150 clients", {"guarantee": replace(plan.guarantee, population=149)}


def test_a_plan_that_contradicts_itself_is_told_where():
    plan, told = make_plan(), []
    for says, changes in contradictions(plan):
        found = check_plan(replace(plan, **changes))
        assert found.status == "failed", says
        assert says in found.message
        assert found.message.count(";") == (says == "epsilon is [")  # whose end is no longer the claim's
        told.append(says)
    assert len(told) == 15


def test_examples_that_count_by_their_rows_need_sizes_that_are_public():
    plan = make_plan(local, training={"example_cap": 9})
    zero_out = replace(plan.guarantee, relation=NeighboringRelation.ZERO_OUT)
    public = {"data": {"units": 150, "client_sizes": "public"}}
    for changes in ({}, {"guarantee": zero_out}, {"details": plan.details | public}):
        assert "clients have weights by row counts" in check_plan(replace(plan, **changes)).message
    said = replace(plan, guarantee=zero_out, details=plan.details | public)
    assert "clients count by their rows" not in check_plan(said).message
    assert check_plan(make_plan(central, training={"example_cap": 9})).status == "passed"


def test_what_a_plan_may_differ_in():
    """A hair in the closed form, further assumptions, a wider interval, and a population of examples."""
    plan = make_plan()
    for changes in (
        {"closed_form": replace(plan.closed_form, root_term=plan.closed_form.root_term * (1 + 1e-12))},
        {
            "unamplified": replace(
                plan.unamplified, upper=plan.unamplified.upper * 2, assumptions=(*plan.unamplified.assumptions, "more")
            )
        },
        {"unamplified": replace(plan.unamplified, lower=0.0)},
    ):
        found = check_plan(replace(plan, **changes))
        assert found.status == "passed", found.message
    pupils = make_plan(local)
    assert pupils.guarantee.population != pupils.scheme.clients
    assert check_plan(pupils).status == "passed"


@pytest.mark.parametrize(
    ("delta", "verdict"),
    [(1 / 160, "passed"), (1 / 150, "warned"), (math.nextafter(1 / 150, 0), "passed"), (0.5, "warned")],
)
def test_delta_is_below_one_over_n(run, delta, verdict):
    found = check_delta(planned(run, guarantee=replace(run.plan.guarantee, delta=delta)))
    assert found.status == verdict
    assert dict(found.values) == {"delta": delta, "one_over_n": 1 / 150}


# the ledger


def of_ledger(evidence):
    return [found for name in LEDGER_CHECKS for found in apply(name, evidence)]


def test_without_a_sound_excerpt_nothing_of_the_ledger_is_checked(run):
    for word, first in ((None, ["not checked"]), (LedgerExcerpt(sound=False, trouble="torn"), ["failed"]),
                        (replace(run.ledger, key=None), ["passed", "failed"])):  # fmt: skip
        found = of_ledger(replace(run, ledger=word))
        assert tuple(finding.check for finding in found) == LEDGER_CHECKS
        assert [finding.status.value for finding in found] == first + ["not checked"] * (5 - len(first))
        assert all(finding.missing_evidence == "ledger" for finding in found[len(first) :])
    assert "torn" in of_ledger(replace(run, ledger=LedgerExcerpt(sound=False, trouble="torn")))[0].message
    assert {found.status for found in of_ledger(run)} == {Status.PASSED}


def test_a_charge_shows_what_was_paid_claimed_and_priced(run):
    found = check_charge(run)
    again = bound_epsilon(run.plan.scheme.release(), delta=1e-5)
    assert dict(found.values) == {
        "charged_epsilon": float(run.ledger.charged["epsilon"]),
        "claimed_epsilon": run.plan.guarantee.epsilon,
        "priced_again": again.upper,
    }
    assert found.message.startswith(f"Epsilon {run.ledger.charged['epsilon']} at delta {run.ledger.charged['delta']}")
    reserved = replace(run.ledger, state="reserved")
    assert check_charge(replace(run, records=(), ledger=reserved)).status == "warned"
    assert check_charge(replace(run, ledger=reserved)).status == "failed"
    twice = check_charge(replace(run, ledger=replace(run.ledger, other_charges=1)))
    assert twice.message.startswith("2 charges name this plan")


def test_released_models_are_the_recorded_ones(run):
    word = run.ledger
    assert check_released(run).status == "passed"
    for released, wrong in (
        (dict(word.released) | {2: "0" * 64}, "[2]"),
        ({n: h for n, h in word.released.items() if n != 3}, "[3]"),
        (dict(word.released) | {5: "0" * 64}, "[5]"),
        ({1: word.released[2], 2: word.released[1], 3: word.released[3], 4: word.released[4]}, "[1, 2]"),
    ):
        found = check_released(replace(run, ledger=replace(word, released=released)))
        assert found.status == "failed"
        assert f"rounds {wrong}" in found.message


def test_each_attempt_is_told(run):
    def attempts(times):
        return applied("attempts", replace(run, ledger=replace(run.ledger, attempts=times)))

    found = attempts({1: 1, 2: 3, 3: 2, 4: 2, 5: 2, 6: 2, 7: 1})
    assert found.status == "warned"
    assert dict(found.values) == {"rounds_begun": 7, "attempts": 13}
    assert found.message.startswith(
        "6 further attempts at rounds are recorded, at [2, 3, 4, 5, 6]; rounds [5, 6, 7] were started and not released."
    )
    assert attempts(dict.fromkeys(range(1, 5), 1) | {2: 2}).message.startswith("1 further attempt at a round is")
    assert attempts(dict.fromkeys(range(1, 6), 1)).message.startswith("Rounds [5] were started and not released.")
    assert attempts(dict.fromkeys(range(1, 5), 1)).status == "passed"


# the rounds


def test_rounds_are_complete_and_in_order(run):
    one, two, three, four = run.records
    more = replace(four, round=5)
    lost = replace(four, test_loss=None, test_score=None, diverged=True)
    unscored = replace(four, test_loss=None, test_score=None)
    for records, verdict, says in (
        ((one, two, three, four), "passed", "All 4 rounds"),
        ((), "warned", "0 of 4"),
        ((one, two, three), "warned", "3 of 4 planned rounds"),
        ((one, two, four), "failed", "3 rows, missing rounds [3]"),
        ((one, two, two, three), "failed", "repeated rounds [2]"),
        ((two, one, three, four), "failed", "out of order"),
        ((one, two, three, four, more), "failed", "5 rounds were run, 4 were planned"),
        ((one, two, three, lost), "warned", "diverged in round 4 of 4"),
        ((one, two, three, unscored), "passed", "All 4 rounds"),
    ):
        found = check_rounds(replace(run, records=records))
        assert found.status == verdict, says
        assert says in found.message
        assert dict(found.values) == {"planned": 4, "recorded": max((one.round for one in records), default=0)}


def test_a_round_that_was_given_up_released_nothing(run):
    """Under a scheme that may give up, and with the model of the round before."""
    shared = ClientLevelDistributed(150, 30, 20, 4, 4, 0.5, 0.01, 20, 2.0)
    one, two, three, four = run.records
    idle = replace(three, aborted=True, padding=(), output_hash=two.output_hash)
    for scheme, records, code in (
        (shared, (one, two, idle, four), "rounds/passed"),
        (shared, (one, two, replace(idle, output_hash=three.output_hash), four), "rounds/aborted-with-output"),
        (run.plan.scheme, (one, two, idle, four), "rounds/aborted-with-output"),
        (shared, (replace(one, aborted=True, padding=()), two, three, four), "rounds/aborted-immediately"),
    ):
        assert check_rounds(replace(planned(run, scheme=scheme), records=records)).code == code
    with pytest.raises(ValueError, match="padding must be absent where a round was given up"):
        replace(one, aborted=True)


# the owner


def test_the_owners_word_speaks_of_what_was_planned(run):
    assert verdicts(check_owner(run)) == {"attestation": "passed", "control": "passed"}
    assert verdicts(check_owner(replace(run, owner=None))) == {"attestation": "failed"}
    assert verdicts(check_owner(planned(run, simulation=False))) == {"attestation": "failed"}
    silent = replace(run, owner=replace(run.owner, utility=None))
    assert verdicts(check_owner(silent)) == {"attestation": "failed"}
    assert verdicts(check_owner(planned(silent, simulation=False))) == {"attestation": "passed"}


def test_a_control_that_was_accepted_is_no_control_or_too_short():
    for control, verdict in (
        ({"status": "failed", "values": {"values": 960.0}}, "passed"),
        ({"status": "passed", "values": {"values": 960.0}}, "failed"),
        ({"status": "passed", "values": {"values": 48.0}}, "warned"),
    ):
        assert check_control(SimulatedUtility("score", control=control)).status == verdict


def test_the_owners_word_on_private_checks_binds(run):
    owner = replace(run.owner, custody_checks=dict(run.owner.custody_checks) | {"norms": Status.WARNED})
    found = {f.check: f for f in verify_evidence(replace(run, owner=owner)).findings}
    assert found["norms"].status == "failed"
    assert found["norms"].message.startswith(
        "The owner attests warned, but custody.jsonl gives passed: No norm exceeds"
    )
    assert {found["custody"].status, found["participation"].status} == {"passed"}
    public = publish(verify_evidence(replace(run, owner=owner, custody=None)))
    shown = {f.check: f for f in public.findings}
    assert shown["norms"].status == "warned"
    assert shown["norms"].message.endswith("which is not public: warned.")
    assert shown["custody"].status == "passed"
    assert not shown["norms"].values
    assert shown["noise"].values


# what deviations would cost


def test_what_ifs_are_the_prices_that_they_name(run):
    scheme, delta = run.plan.scheme, run.plan.guarantee.delta
    again = replace(run, ledger=replace(run.ledger, attempts={1: 1, 2: 3, 3: 1, 4: 1, 5: 1}))
    found = {one.name: one for one in compute_what_ifs(again)}
    padding = [x for record in run.records for x in record.padding]
    weak = math.sqrt(sum(x * x for x in padding) / stats.chi2(len(padding)).isf(0.025)) / scheme.clip_norm
    sizes = [len(record.participants) for record in run.custody]
    occurred = Composed([PoissonSampled(Gaussian(3.0), m / 150) for m in sizes])
    for name, release in {
        "weakest noise that the padding allows (95%)": Repeated(PoissonSampled(Gaussian(weak), 0.2), 4),
        "every attempt released": Repeated(PoissonSampled(Gaussian(3.0), 0.2), 4 + 3),
        "observed cohort sizes": occurred,
        "participation lists known": Repeated(Gaussian(3.0), 4),
    }.items():
        truth = bound_epsilon(release, delta=delta)
        assert found.pop(name).epsilon == pytest.approx(truth.upper, rel=1e-5), name
    assert not found
    assert {one.name: one.private for one in compute_what_ifs(again) if one.private} == {"observed cohort sizes": True}


def test_what_ifs_without_their_evidence_are_left_out(run):
    names = [one.name for one in compute_what_ifs(replace(run, ledger=None, custody=None, records=()))]
    assert names == ["participation lists known"]
    quiet = tuple(replace(one, padding=(0.0,) * 16) for one in run.records)
    assert "weakest" not in " ".join(one.name for one in compute_what_ifs(replace(run, records=quiet)))
    empty = tuple(replace(one, participants=()) for one in run.custody)
    assert "observed cohort sizes" not in [one.name for one in compute_what_ifs(replace(run, custody=empty))]
    crowd = tuple(replace(one, participants=(*range(150), 3)) for one in run.custody)
    (cost,) = [one.epsilon for one in compute_what_ifs(replace(run, custody=crowd)) if one.private]
    assert cost == pytest.approx(run.plan.unamplified.upper, rel=1e-6)
    published = publish(verify_evidence(run))
    assert "observed cohort sizes" not in [one.name for one in published.what_ifs]
    assert len(published.what_ifs) == len(verify_evidence(run).what_ifs) - 1


def test_a_client_side_run_is_reconciled_too():
    plan = make_plan(local, name="local")
    public, private = drawn(plan.scheme, 3)
    evidence = Evidence(Claim.from_plan(plan), tuple(public), tuple(private), None)
    found = verify_evidence(evidence, required=("custody",))
    told = verdicts(found.findings)
    assert {name for name, verdict in told.items() if verdict != "passed"} == {
        *LEDGER_CHECKS,
        "attestation",
        "certificate",
    }
    assert [one.name for one in found.what_ifs] == [
        "weakest noise that the padding allows (95%)",
        "participation lists known",
    ]
    padding = [x for record in public for x in record.padding]
    weak = math.sqrt(sum(x * x for x in padding) / stats.chi2(len(padding)).isf(0.025))
    sums = Repeated(PoissonSampled(Gaussian(weak), 0.5), plan.scheme.noisy_sums(3))
    assert found.what_ifs[0].epsilon == pytest.approx(bound_epsilon(sums, delta=1e-5).upper, rel=1e-5)
    every = Repeated(Gaussian(plan.scheme.noise_multiplier), 3 * plan.scheme.noisy_sums(2) // 2)
    assert bound_any_sampler(Claim.from_plan(plan)) == pytest.approx(bound_epsilon(every, delta=1e-5).upper, rel=1e-6)
    assert bound_any_sampler(Claim.from_plan(make_plan(central))) == make_plan(central).unamplified.upper
