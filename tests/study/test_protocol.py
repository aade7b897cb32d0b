"""A study measures what its protocol names, the same again from the same seeds, and says no more than that."""

from dataclasses import replace

import pytest
from tests.study.conftest import central, classes_task

from epsilog.accounting import profile
from epsilog.ledger import read_ledger
from epsilog.study import (
    Backdoor,
    CanaryExperiment,
    Condition,
    MembershipExperiment,
    PropertyExperiment,
    Study,
    StudyProtocol,
    Subject,
    run_study,
)
from epsilog.study.protocol import measure_subject
from epsilog.study.results import build_tables, draw_study_plots, write_conclusions
from epsilog.terms import CalibrationError
from epsilog.training.engines import program

BACKDOOR = Backdoor(attackers=3, features=(3,), value=12.0, target=1, boost=6.0)
PROTOCOL = StudyProtocol(
    budgets=(8.0, 0.5), seeds=(1, 2), backdoors=(BACKDOOR,), membership=MembershipExperiment((0.1,))
)
WHOLE = replace(
    PROTOCOL,
    membership=MembershipExperiment((0.1,), shadows=4),
    mark=PropertyExperiment((3,), 6.0),
    canaries=CanaryExperiment(5),
    budgets=(1.0,),
)


@pytest.fixture(name="subject")
def _subject(task):
    return Subject("central", task, central, 1e-3)


def quiet(_says):
    pass


@pytest.fixture(name="measured", scope="module")
def _measured():
    """The conditions of ``PROTOCOL``, and what was told of the progress."""
    told = []
    subject = Subject("central", classes_task(), central, 1e-3)
    return list(measure_subject(subject, PROTOCOL, on_progress=told.append)), told


@pytest.mark.slow
def test_every_condition_and_seed_is_measured(measured):
    found, told = measured
    assert [one.epsilon for one in found] == [None, 8.0, 0.5]
    assert [len(one.runs) for one in found] == [2, 2, 2]
    assert told[0] == "central, without DP: seed 1 of 2, utility"
    assert len(told) == 6 * 3
    assert found[0].noise_multiplier is None
    assert 0 < found[1].noise_multiplier < found[2].noise_multiplier
    scores = [one.of("utility", "score")[0] for one in found]
    assert scores[0] > 0.9
    assert scores[0] >= scores[1] > scores[2]
    works = [one.of("backdoor", "success")[0] for one in found]
    alone = [one.of("utility", "backdoor, no attackers")[0] for one in found]
    assert works[0] > max(0.5, alone[0] + 0.3)


@pytest.mark.slow
def test_a_seed_measures_the_same_again_and_compiles_nothing_more(measured, subject):
    compiled = program.sum_updates._cache_size()
    fewer = replace(PROTOCOL, seeds=(2,), budgets=(0.5,))
    again = list(measure_subject(subject, fewer, on_progress=quiet))
    assert [one.runs for one in again] == [measured[0][place].runs[1:] for place in (0, 2)]
    assert program.sum_updates._cache_size() == compiled


@pytest.mark.slow
def test_no_attack_can_pass_what_the_accountant_allows(measured, subject):
    (one,) = [each for each in measured[0] if each.epsilon == 0.5]
    exact = profile(subject.at(0.5).release()).tpr(0.1)
    assert exact.lower <= one.largest_tprs["0.1"] <= exact.upper * (1 + 1e-9)
    assert one.largest_tprs["0.1"] < 0.1 * 2.718**0.5 + 2e-3


@pytest.mark.slow
def test_what_is_not_asked_for_is_not_measured(subject):
    bare = StudyProtocol(budgets=(1.0,), seeds=(3,))
    for one in measure_subject(subject, bare, on_progress=quiet):
        assert [set(run) for run in one.runs] == [{"utility"}]
        assert one.largest_tprs == {}
    assert [each.title for each in build_tables([one])] == ["utility"]


@pytest.mark.slow
def test_every_attack_that_is_asked_for_is_measured_where_it_can_be_made(subject, make_task, client_side):
    rows = Subject("rows", make_task(unit_is_client=False), client_side, 1e-3)
    skips = replace(BACKDOOR, complies=False, name="skips")
    told = {
        each.name: list(
            measure_subject(each, replace(WHOLE, backdoors=(BACKDOOR, skips), seeds=(1,)), on_progress=quiet)
        )
        for each in (subject, rows)
    }
    common = {"utility", "backdoor", "losses", "LiRA", "property"}
    assert [set(one.runs[0]) for one in told["central"]] == [common | {"canaries"}] * 2
    assert [set(one.runs[0]) for one in told["rows"]] == [common | {"skips"}] * 2
    both = [*told["central"], *told["rows"]]
    assert [each.title for each in build_tables(both)] == ["utility", "backdoors", "membership", "property", "canaries"]
    for each in build_tables(both):
        assert {len(row) for row in each.rows} == {len(each.headings)}
    assert {"score", "losses", "lira", "property", "canaries", "backdoor-1", "backdoor-2"} == set(
        draw_study_plots(both)
    )


@pytest.mark.slow
def test_a_budget_that_no_noise_meets_is_refused_before_anything_is_trained(task):
    told, deaf = [], Subject("deaf", task, lambda _z: central(1.0), 1e-3)
    with pytest.raises(CalibrationError):
        list(measure_subject(deaf, replace(PROTOCOL, budgets=(0.5,)), on_progress=told.append))
    assert told == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"budgets": ()}, "budgets must name some, each once"),
        ({"seeds": (1, 1)}, "seeds must name some, each once"),
        ({"budgets": (0.0,)}, "budgets"),
        ({"backdoors": (BACKDOOR, BACKDOOR)}, "backdoors must be each with a name that no other attack has"),
        (
            {"backdoors": (replace(BACKDOOR, name="utility"),)},
            "backdoors must be each with a name that no other attack has",
        ),
        (
            {"backdoors": (replace(BACKDOOR, name="losses"),)},
            "backdoors must be each with a name that no other attack has",
        ),
        ({"seeds": (10**9,)}, "seeds"),
    ],
)
def test_a_protocol_without_sense_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        replace(PROTOCOL, **changes)


def condition(epsilon, *, auc=(0.5, 0.5), beyond=(0.0, 0.0), tpr=0.1, largest=None, score=(0.8, 0.9)):
    runs = tuple(
        {
            "utility": {"score": one},
            "backdoor": {"score": one, "success": 0.25},
            "losses": {
                "auc": area,
                "auc_beyond_chance": sure,
                "tpr_at_0.1": tpr,
                "tpr_at_0.1_beyond_chance": float(tpr > 0.2),
            },
        }
        for one, area, sure in zip(score, auc, beyond, strict=True)
    )
    return Condition("s", epsilon, None if epsilon is None else 1.0, {} if largest is None else {"0.1": largest}, runs)


def test_sentences_say_what_the_numbers_say():
    sure = condition(None, auc=(0.7, 0.8), beyond=(1.0, 1.0))
    told = write_conclusions([sure, condition(1.0, largest=0.3, score=(0.1, 0.2))], PROTOCOL)
    assert "s: at epsilon 1 the score is 0.150 (0.100 to 0.200); without DP 0.850 (0.800 to 0.900)." in told
    assert "s: without DP losses identify members beyond chance in every seed (AUC 0.750 (0.700 to 0.800))." in told
    assert "s: without DP backdoor works on 25% of rows (25% to 25%)." in told
    calm = tuple(run | {"utility": run["utility"] | {"backdoor, no attackers": 0.2}} for run in sure.runs)
    told_both = "works on 25% of rows (25% to 25%); without attackers, on 20% of rows (20% to 20%)."
    assert f"s: without DP backdoor {told_both}" in write_conclusions([replace(sure, runs=calm)], PROTOCOL)
    assert any("at epsilon 1 losses identify members beyond chance in no seed" in each for each in told)
    assert not any("FPR" in each for each in told)
    more = write_conclusions([condition(None), condition(1.0, tpr=0.25, largest=0.3)], PROTOCOL)
    rate, bound = (
        "of members at an FPR of 0.1, beyond chance in every seed",
        "the bound for an attack on one unit is 0.3.",
    )
    assert f"s: at epsilon 1 losses identify 0.250 (0.250 to 0.250) {rate}; {bound}" in more
    mixed = write_conclusions([condition(None, auc=(0.503, 0.6), beyond=(0.0, 1.0))], PROTOCOL)
    assert any("beyond chance in 1 of 2 seeds" in each for each in mixed)
    assert told[-1].startswith("An attack that finds nothing does not exclude")
    near = write_conclusions([condition(None), condition(1.0, largest=0.3)], PROTOCOL)
    assert any("within the range of the seeds" in each for each in near)


def test_a_run_that_diverged_has_no_number():
    gone = Condition("s", 1.0, 1.0, {}, ({"utility": None}, {"utility": {"score": 0.5}}))
    assert gone.of("utility", "score") is None
    assert build_tables([gone]) == []
    assert any("at least one run diverged" in each for each in write_conclusions([condition(None), gone], PROTOCOL))
    assert set(draw_study_plots([condition(None), condition(1.0)])) == {"score", "backdoor-1", "losses"}


@pytest.mark.slow
def test_the_protocol_stands_in_the_ledger_before_the_first_run_and_the_outcome_after_the_last(subject, tmp_path):
    whole = Study("trial", (subject,), replace(PROTOCOL, budgets=(1.0,), seeds=(1,), backdoors=()))
    ledger, seen = tmp_path / "ledger.db", []

    def tell(_says):
        with read_ledger(ledger) as books:
            entry = list(books.history())[-1]
            seen.append((entry.verb.value, books.find(f"study-{whole.hash[:32]}").request.plan_hash))

    document = run_study(whole, folder=tmp_path, ledger=ledger, on_progress=tell)
    assert seen[0] == ("started", whole.hash)
    with read_ledger(ledger) as books:
        books.verify()
        last = list(books.history())[-1]
    assert last.verb.value == "committed"
    folder = tmp_path / f"study-trial-{whole.hash[:8]}"
    assert {path.name for path in folder.iterdir()} == {"study.json", "study.md", "score.svg", "losses.svg"}
    assert whole.hash in (folder / "study.md").read_text()
    seen.clear()
    assert run_study(whole, folder=tmp_path, ledger=ledger, on_progress=tell) == document
    assert seen == []
    other = replace(whole, protocol=replace(whole.protocol, seeds=(2,)))
    assert other.hash != whole.hash
    run_study(other, folder=tmp_path, ledger=ledger, on_progress=quiet)
    assert len(list(tmp_path.glob("study-*"))) == 2


def test_a_study_names_its_subjects_apart(subject):
    with pytest.raises(ValueError, match="subjects must be a list of subjects with distinct names"):
        Study("trial", (subject, subject), PROTOCOL)
