"""Charged first, drawn once, kept, and only then told; whatever happens in between."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from epsilog.ledger import Charge, open_ledger
from epsilog.ledger.backups import copy_ledger, restore_backup
from epsilog.queries import (
    Count,
    CountAbove,
    FirstCategoryAbove,
    Histogram,
    Mean,
    MostCommonCategory,
    QueryResult,
    Sum,
    estimate_query_cost,
    execution,
    reserve_answer,
    run_query,
)
from epsilog.queries.contributions import sum_contributions
from epsilog.queries.noise import plan_noise
from epsilog.queries.result_store import ResultStore
from epsilog.terms import (
    BudgetExceededError,
    CheckError,
    ConflictError,
    EpsilogError,
    NeighboringRelation,
    RecordError,
    UnsupportedMechanismError,
)

FRAME = {"id": [1, 1, 2, 3], "age": [30, 40, 50, 60], "kind": ["a", "b", "a", "a"]}


def seeded(seed):
    return random.Random(seed).randrange  # noqa: S311


@pytest.fixture
def ledger(tmp_path):
    with open_ledger(tmp_path / "budget.db") as books:
        books.create_budget("acme", kind="pure", epsilon="10", privacy_unit="patient")
        books.create_budget("test", kind="pure", epsilon="1000000", simulation=True)
        yield books


@pytest.fixture
def put(ledger, tmp_path):
    """Asks, with what is not said as in most tests."""

    def put(query=None, frame=FRAME, *, scope="acme", key="q", unit=None, epsilon="0.5", keep="answers", **more):
        query = Count() if query is None else query
        return run_query(ledger, scope, query, frame, unit=unit, key=key, epsilon=epsilon, keep=tmp_path / keep, **more)

    put.ledger = ledger
    return put


def spent(ledger):
    return ledger.balance("acme").spent["epsilon"]


def test_an_answer_is_charged_kept_and_the_same_again(ledger, put, tmp_path):
    first = put()
    assert spent(ledger) == "0.5"
    assert first.charged == {"pure": {"epsilon": "0.5"}}
    again = put(frame={"other": []})  # the question names no column
    assert again == first
    assert spent(ledger) == "0.5"
    (kept,) = (tmp_path / "answers").iterdir()
    assert QueryResult.read(kept.read_bytes()) == first
    assert ledger.find("q").state == "committed"
    assert ledger.find("q").rounds_released[1] == ledger.page("acme", limit=1)[0].body["evidence"]["answer.json"]
    assert ledger.verify().rechecked == 1


def test_another_question_or_price_under_the_same_key_is_refused(ledger, put):
    put()
    for other in ({"query": Count("age")}, {"epsilon": "0.4"}, {"unit": "id"}):
        with pytest.raises(ConflictError):
            put(**other)
    assert spent(ledger) == "0.5"


def test_a_key_is_that_of_an_answer_in_each_scope_also_in_one_folder(ledger, put, tmp_path):
    found = [put(scope=scope) for scope in ("acme", "acme/anna")]
    assert [(one.scope, one.key) for one in found] == [("acme", "q"), ("acme/anna", "q")]
    assert spent(ledger) == "1"
    assert [put(scope=one.scope, frame={"other": []}) for one in found] == found
    assert len(list((tmp_path / "answers").iterdir())) == 2


def test_what_does_not_fit_touches_no_data(ledger, put):
    class Secret(dict):
        def __getitem__(self, name):
            raise AssertionError("a value was read")

    with pytest.raises(BudgetExceededError):
        put(Count("age"), Secret(FRAME), epsilon="11")
    assert ledger.find("q") is None
    assert spent(ledger) == "0"
    with pytest.raises(RecordError):  # a control: the frame is read once it is paid for
        put(Count("age"), Secret(FRAME))
    assert spent(ledger) == "0.5"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"query": "count"}, "query must be an instance of Query|query must be a Query"),
        ({"query": Count("height")}, "frame must have a column 'height', got 'id', 'age', 'kind'"),
        ({"unit": "person"}, "frame must have a column 'person'"),
        ({"rows": 2}, "rows must be 1 where each row is a unit"),
        ({"unit": "id", "rows": 0}, "rows must be in"),
        ({"frame": [1, 2]}, "frame must be a frame of Polars, pandas or Arrow"),
        ({"frame": {"a": [1], "b": []}}, "frame must have columns of one length"),
        ({"below": seeded(1)}, "below must be left out"),
        ({"scope": "nobody"}, "scope must have a budget"),
        ({"key": " "}, "key must be"),
        ({"keep": "budget.db"}, "keep must be a folder"),
        ({"epsilon": None}, "price must be one of"),
        ({"epsilon": "1e-8", "query": Sum("age", (0, 1e9))}, "price must be such that noise is within"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_charged(ledger, put, wrong, said):
    with pytest.raises(CheckError, match=said):
        put(**wrong)
    assert ledger.head()[0] == 2  # the two budgets


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one", "zero-out"])  # first that with finer steps
def test_every_question_is_answered_about_right(tmp_path, relation):
    """With hardly any noise; the seed is fixed, and budgets of simulations pay."""
    below = seeded(7)
    with open_ledger(tmp_path / "budget.db") as ledger:
        ledger.create_budget("sim", kind="pure", epsilon="1000000", simulation=True, relation=relation)

        def put(query, **more):
            more = {"unit": None, "epsilon": "1000"} | more
            key = str(ledger.head()[0])
            return run_query(ledger, "sim", query, FRAME, key=key, keep=tmp_path, simulation=True, below=below, **more)

        assert put(Count()).value == 4
        assert put(Count(), unit="id").value == 3
        assert put(Count(), unit="id", rows=2).value == 4
        assert put(Sum("age", (0, 100))).value == pytest.approx(180, abs=1)
        assert put(Sum("age", (0, 100)), unit="id").value == pytest.approx(140, abs=1)
        assert put(Sum("age", (35, 55))).value == pytest.approx(35 + 40 + 50 + 55, abs=1)
        mean = put(Mean("age", (0, 100)))
        assert mean.lower <= 45 <= mean.upper
        assert mean.value == pytest.approx(45, abs=1)
        known = put(Mean("age", (0, 100), population=4))
        assert known.lower <= 45 <= known.upper
        assert put(Histogram("kind", categories=("a", "b", "c"))).value == {"a": 3, "b": 1, "c": 0}
        assert put(Histogram("kind", categories=("a", "b")), unit="id", rows=2).value == {"a": 3, "b": 1}
        assert put(Histogram("age", edges=(0, 40, 60))).value == {"[0, 40)": 1, "[40, 60]": 3}
        assert put(MostCommonCategory("kind", ("a", "b"))).value == "a"
        assert put(CountAbove(4)).value is True
        assert put(CountAbove(5)).value is False
        assert put(FirstCategoryAbove(3, "kind", ("b", "a"))).value == "a"
        assert put(FirstCategoryAbove(1, "kind", ("b", "a"))).value == "b"
        assert put(FirstCategoryAbove(9, "kind", ("b", "a"))).value is None


@pytest.mark.slow
def test_error_bars_hold_as_often_as_they_say():
    """2,000 draws; a bar of 95% fails with a chance below 1e-6, one of 92% nearly always."""
    below, relation = seeded(11), NeighboringRelation.ADD_OR_REMOVE_ONE
    for query, truth, least in (
        (Count("age"), 200, 60),
        (Mean("age", (0, 100)), 45, 0),
        (Sum("age", (0, 99)), 9000, 60),
    ):
        plan = plan_noise(query, rows=1, relation=relation, kinds=frozenset({"pure"}), epsilon="0.3")
        sums = sum_contributions({"age": [20.0, 70.0] * 100}, query, plan.parts, unit=None, rows=1)
        told = [execution.draw_noisy_values(query, plan, sums, below) for _ in range(2000)]
        assert least <= sum(not one["lower"] <= truth <= one["upper"] for one in told) <= 147


@pytest.mark.parametrize("frame", [{"age": []}, {"age": [0.0]}, {"age": [100.0] * 4}])
def test_a_mean_of_few_rows_is_as_wide_as_its_bounds_allow(frame):
    """300 draws of each; the count may be noise alone, and the interval still misses in 5% at most (here 26: 4e-3)."""
    query, truth = Mean("age", (0, 100)), sum(frame["age"]) / max(len(frame["age"]), 1)
    plan = plan_noise(
        query, rows=1, relation=NeighboringRelation.ADD_OR_REMOVE_ONE, kinds=frozenset({"pure"}), epsilon="1"
    )
    sums, below = sum_contributions(frame, query, plan.parts, unit=None, rows=1), seeded(4)
    told = [execution.draw_noisy_values(query, plan, sums, below) for _ in range(300)]
    assert all(0 <= one["value"] <= 100 and one["lower"] <= one["value"] <= one["upper"] for one in told)
    assert sum(not one["lower"] <= truth <= one["upper"] for one in told) <= 26
    assert any((one["lower"], one["upper"]) == pytest.approx((0, 100), abs=1e-3) for one in told)


def test_a_folder_that_cannot_keep_an_answer_is_found_before_anything_is_spent(ledger, put, monkeypatch):
    def fails(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("pathlib.Path.hardlink_to", fails)
    with pytest.raises(
        CheckError, match=r"keep must be a folder to write to, with links, .* \(Operation not permitted\)"
    ):
        put()
    assert ledger.find("q") is None


def test_simulations_are_charged_to_their_own_budgets_only(ledger, put):
    with pytest.raises(ConflictError, match="simulation"):
        put(simulation=True, below=seeded(1))
    with pytest.raises(ConflictError, match="simulation"):
        put(scope="test")
    assert spent(ledger) == "0"


CHOICE = MostCommonCategory("kind", ("a", "b"))
LAWS = {"epsilon": "discrete-laplace", "rho": "discrete-gaussian", "mu": "gaussian"}


@pytest.mark.parametrize(
    ("kinds", "query", "asked", "charged"),
    [
        ("zcdp", Count(), {"rho": "0.125"}, {"zcdp": {"rho": 0.125}}),
        ("zcdp", Count(), {"epsilon": "0.5"}, {"zcdp": {"rho": 0.125}}),
        ("zcdp", CHOICE, {"epsilon": "0.5"}, {"zcdp": {"rho": 0.125}}),
        ("approximate", Mean("age", (0, 99)), {"epsilon": "0.25"}, {"approximate": {"epsilon": 0.25, "delta": 0}}),
        ("gdp", Count(), {"epsilon": "0.25"}, None),
        ("gdp", Count(), {"mu": "0.125"}, {"gdp": {"mu_squared": 1 / 64}}),
        ("gdp", Mean("age", (0, 99)), {"mu": 0.125}, {"gdp": {"mu_squared": 1 / 64}}),
        ("gdp", Histogram("kind", ("a", "b")), {"mu": "1/8", "unit": "id", "rows": 2}, {"gdp": {"mu_squared": 1 / 64}}),
        ("zcdp approximate", Count(), {"error": 12}, {"zcdp": ..., "approximate": ...}),
        ("gdp zcdp", Count(), {"error": 12}, {"gdp": ..., "zcdp": ...}),
    ],
)
def test_kinds_of_budgets_choose_the_noise(put, kinds, query, asked, charged):
    ledger = put.ledger
    caps = {"zcdp": {"rho": "1"}, "approximate": {"epsilon": "1", "delta": "1e-6"}, "gdp": {"mu_squared": "1"}}
    scope = ""
    for kind in kinds.split():
        scope = f"{scope}/{kind}".strip("/")
        ledger.create_budget(scope, kind=kind, **caps[kind])
    asked = {"scope": scope, "epsilon": None} | asked
    if charged is None:
        with pytest.raises(UnsupportedMechanismError):
            put(query, **asked)
        assert ledger.find("q") is None
        return
    told = put(query, **asked)
    assert told.charged.keys() == charged.keys()
    if "error" in asked:
        assert told.error <= 12
        return
    for kind, amounts in charged.items():
        found = {unit: float(amount) for unit, amount in told.charged[kind].items()}
        assert found == pytest.approx(amounts, rel=1e-9)
        assert kind != "gdp" or found["mu_squared"] <= 1 / 64
    if query is not CHOICE:
        (law,) = {one["law"]["term"]["type"] for one in json.loads(told.document)["noise"]}
        assert law == LAWS[next(name for name in LAWS if asked.get(name))]
    ledger.verify()


@pytest.mark.parametrize(
    "query",
    [
        Count(),
        CountAbove(3),
        Sum("age", (0, 9)),
        Mean("age", (0, 9), population=99),
        Histogram("kind", ("a",)),
        MostCommonCategory("kind", ("a", "b")),
        FirstCategoryAbove(2, "kind", ("a", "b")),
    ],
    ids=lambda query: type(query).__name__,
)
def test_a_quote_says_what_an_answer_will_cost_and_how_exact_it_will_be(ledger, put, query):
    told = estimate_query_cost(ledger, "acme", query, unit="id", rows=2, epsilon="0.5")
    assert ledger.find("q") is None
    answer = put(query, unit="id", rows=2)
    assert told.charged == answer.charged
    assert answer.error <= told.error
    assert answer.error == told.error or isinstance(query, Mean)
    assert estimate_query_cost(ledger, "acme", Mean("age", (0, 9)), unit=None, epsilon="0.5").error is None


@pytest.mark.parametrize(
    ("kind", "caps", "price"),
    [
        ("pure", {"epsilon": "10"}, {"epsilon": "0.5"}),
        ("pure", {"epsilon": "10"}, {"error": 40.0}),
        ("zcdp", {"rho": "2"}, {"rho": "0.125"}),
        ("gdp", {"mu_squared": "2"}, {"mu": "0.25"}),
    ],
)
def test_an_answer_that_is_reserved_first_is_told_at_the_reserved_cost(ledger, tmp_path, kind, caps, price):
    ledger.create_budget("first", kind=kind, **caps)
    asked = {"unit": "id", "rows": 2, **price}
    quoted = estimate_query_cost(ledger, "first", Count(), **asked).charged[kind]
    charge = reserve_answer(ledger, "first", Count(), key="q", **asked)
    assert ledger.balance("first").reserved == quoted
    assert charge.key == "q"
    with pytest.raises(ConflictError):
        reserve_answer(ledger, "first", Count(), key="q", **(asked | {"rows": 1}))
    answer = run_query(ledger, "first", Count(), FRAME, key="q", keep=tmp_path / "kept", **asked)
    assert (answer.charged, ledger.balance("first").spent) == ({kind: quoted}, quoted)


def test_a_simulation_is_reserved_as_one(ledger):
    for simulation, scope in ((True, "test"), (False, "acme")):
        asked = {"unit": None, "key": f"{scope} q", "epsilon": "0.5"}
        with pytest.raises(EpsilogError):
            reserve_answer(ledger, scope, Count(), simulation=not simulation, **asked)
        reserve_answer(ledger, scope, Count(), simulation=simulation, **asked)
        assert ledger.find(f"{scope} q").request.simulation is simulation


def test_a_budget_of_renyi_orders_pays_for_both_noises(ledger, put):
    ledger.create_budget("orders", kind="rdp", epsilon="9", delta="1e-5", orders=(4, 8))
    told = estimate_query_cost(ledger, "orders", Count(), unit=None, rho="0.125")
    answer = put(scope="orders", epsilon=None, rho="0.125")
    assert told.charged == answer.charged
    assert [float(answer.charged["rdp"][order]) for order in ("rdp_4", "rdp_8")] == pytest.approx([0.5, 1], rel=1e-5)
    assert 0 < float(put(scope="orders", key="r").charged["rdp"]["rdp_4"]) < 0.5


STEPS = ["reserve", "start", "round_started", "draw", "drafted", "round_released", "publish", "commit"]


class Kill(BaseException):
    """What nobody catches."""


def break_at(monkeypatch, ledger, step, *, after):
    """Makes one step of asking fail, before or after it is done, the first time."""
    from epsilog.queries.result_store import ResultStore

    at = {"reserve": (ledger, "reserve"), "draw": (execution, "draw_noisy_values")}
    at |= {name: (Charge, name) for name in ("start", "round_started", "round_released", "commit")}
    at |= {"drafted": (ResultStore, "_write_draft"), "publish": (ResultStore, "publish")}
    owner, name = at[step]
    whole, broken = getattr(owner, name), []

    def breaks(*args, **named):
        if broken:
            return whole(*args, **named)
        broken.append(step)
        if after:
            whole(*args, **named)
        raise Kill

    monkeypatch.setattr(owner, name, breaks)
    return broken


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_loses_no_money_and_draws_nothing_twice(monkeypatch, put, tmp_path, step, after):
    ledger, drawn, told = put.ledger, [], execution.draw_noisy_values

    def counted(*args, **named):
        drawn.append(told(*args, **named))
        return drawn[-1]

    monkeypatch.setattr(execution, "draw_noisy_values", counted)
    broken = break_at(monkeypatch, ledger, step, after=after)
    with pytest.raises(Kill):
        put()
    assert broken
    released = {} if ledger.find("q") is None else ledger.find("q").rounds_released
    if drawn:
        assert spent(ledger) == "0.5"
    first = put()
    assert spent(ledger) == "0.5"
    assert put() == first
    assert len(drawn) == (2 if (step, after) in (("draw", True), ("drafted", False)) else 1)
    assert not released or ledger.find("q").rounds_released == released
    assert ledger.find("q").state == "committed"
    (kept,) = (tmp_path / "answers").iterdir()
    assert kept.read_bytes() == first.document
    ledger.verify()


def test_from_another_folder_a_released_answer_is_not_drawn_again(ledger, put, tmp_path):
    first = put()
    with pytest.raises(ConflictError, match=r"already has an answer .* does not hold it"):
        put(keep="elsewhere")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert put() == first
    assert spent(ledger) == "0.5"


def test_of_two_folders_that_draw_at_once_one_is_released(monkeypatch, ledger, put, tmp_path):
    """The first has drawn, and stops just before it releases; the second overtakes it, and draws the same number."""
    monkeypatch.setattr(
        execution, "draw_noisy_values", lambda *_: {"value": 4, "error": 1, "lower": 3, "upper": 5, "rounding": 0}
    )
    whole, there = Charge.round_released, []

    def slow(self, number, *, output_hash):
        if not there:
            there.append(True)
            there.append(put(keep="fast"))
        return whole(self, number, output_hash=output_hash)

    monkeypatch.setattr(Charge, "round_released", slow)
    with pytest.raises(ConflictError, match="already has an answer"):
        put(keep="slow")
    assert not [path for path in (tmp_path / "slow").iterdir() if path.is_file()]  # its draft is gone
    assert put(keep="fast") == there[1]
    assert spent(ledger) == "0.5"


def test_a_draft_whose_noise_somebody_knows_is_told_for_no_other_charge(monkeypatch, tmp_path):
    """Two ledgers, one a simulation's, and one folder: each crashed once it had reserved, the first with a draft."""
    first, second = (open_ledger(tmp_path / f"{name}.db") for name in ("simulated", "real"))
    first.create_budget("acme", kind="pure", epsilon="1", simulation=True)
    second.create_budget("acme", kind="pure", epsilon="1")
    more = {"unit": None, "key": "q", "keep": tmp_path / "answers", "epsilon": "0.5"}
    with monkeypatch.context() as patch:
        break_at(patch, second, "start", after=False)
        with pytest.raises(Kill):
            run_query(second, "acme", Count(), FRAME, **more)
    with monkeypatch.context() as patch:
        break_at(patch, first, "round_released", after=False)
        with pytest.raises(Kill):
            run_query(first, "acme", Count(), FRAME, simulation=True, below=seeded(1), **more)
    with pytest.raises(ConflictError, match="not this charge's"):
        run_query(second, "acme", Count(), FRAME, **more)
    first.close()
    second.close()


def test_what_another_ledger_left_in_the_folder_is_not_told(put, tmp_path):
    put()
    with open_ledger(tmp_path / "other.db") as other:
        other.create_budget("acme", kind="pure", epsilon="10")
        with pytest.raises(ConflictError, match="is not this ledger's"):
            run_query(other, "acme", Count(), FRAME, unit=None, key="q", keep=tmp_path / "answers", epsilon="0.5")
        assert other.head()[0] == 1


def test_a_restored_ledger_does_not_draw_again_what_it_may_have_released_since(tmp_path, monkeypatch):
    def put(ledger, keep):
        return run_query(ledger, "acme", Count(), FRAME, unit=None, key="q", keep=tmp_path / keep, epsilon="0.5")

    path, copy = tmp_path / "first" / "budget.db", tmp_path / "budget.backup"
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="10")
        with monkeypatch.context() as patch:
            patch.setattr(Charge, "round_released", lambda *_, **__: copy_ledger(path, copy))
            patch.setattr(Charge, "rounds_released", property(lambda _: {1: ""} if copy.exists() else {}))
            with pytest.raises(ConflictError):
                put(ledger, "lost")
        put(ledger, "answers")
    path.rename(tmp_path / "gone")
    restore_backup(copy, path, actor="dora", reason="the disk is gone")
    with open_ledger(path) as ledger:
        with pytest.raises(ConflictError):
            put(ledger, "again")
        ledger.accept_restored(actor="dora", reason="nothing is missing")
        with pytest.raises(ConflictError, match="can only be abandoned"):
            put(ledger, "again")
        assert not [one for one in (tmp_path / "again").iterdir() if one.suffix == ".json"]


def test_a_draft_of_another_charge_is_not_taken_for_ones_own(put, tmp_path, monkeypatch):
    def other(ledger):
        keep = tmp_path / "answers"
        return run_query(ledger, "acme", Count(), FRAME, unit=None, key="q", keep=keep, epsilon="0.25")

    with open_ledger(tmp_path / "other.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="10")
        for asks, step in ((lambda: other(ledger), "drafted"), (put, "publish")):  # before its draft; and behind it
            with monkeypatch.context() as patch:
                break_at(patch, ledger, step, after=False)
                with pytest.raises(Kill):
                    asks()
        with pytest.raises(ConflictError, match="is not this charge's"):
            other(ledger)
    assert put().charged == {"pure": {"epsilon": "0.5"}}


@pytest.mark.parametrize("same", [True, False])
def test_racers_get_one_answer(ledger, tmp_path, same):
    """Threads with a ledger each, in one folder; or each in its own, where all but one are refused."""
    together = threading.Barrier(6)

    def race(n):
        with open_ledger(tmp_path / "budget.db") as books:
            together.wait()
            try:
                folder = tmp_path / ("answers" if same else f"answers{n}")
                return run_query(
                    books, "acme", Sum("age", (0, 100)), FRAME, unit=None, key="q", keep=folder, epsilon="0.5"
                )
            except ConflictError:
                return None

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(race, range(6)))
    assert len({each.document for each in found if each is not None}) == 1
    assert found.count(None) == (0 if same else 5)
    assert spent(ledger) == "0.5"
    ledger.verify()


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_folder_is_tried_again_where_what_was_tried_is_swept_away(tmp_path, monkeypatch, times):
    """Who releases an answer takes what others try the folder with for a stray of the dead."""
    left, link = iter(range(times)), Path.hardlink_to

    def swept(self, target):
        if next(left, None) is not None:
            Path(target).unlink()
        link(self, target)

    monkeypatch.setattr(Path, "hardlink_to", swept)
    shelf = ResultStore(tmp_path / "answers", "acme", "q")
    if times < 3:
        shelf.prepare()
    else:
        with pytest.raises(CheckError, match="a folder to write to, with links"):
            shelf.prepare()
    assert list((tmp_path / "answers").iterdir()) == []


SCRIPT = """
import os, signal, sys
from pathlib import Path
from epsilog.queries import Count, run_query, execution
from epsilog.queries.result_store import ResultStore
from epsilog.ledger import Charge, open_ledger
owners = {"a": execution, "s": ResultStore, "c": Charge, "p": Path}
owner, name, after = owners[sys.argv[1]], sys.argv[2], sys.argv[3] == "1"
whole = getattr(owner, name)
def dies(*args, **named):
    if name == "hardlink_to" and args[0].suffix == ".link": return whole(*args, **named)
    if after: whole(*args, **named)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(owner, name, dies)
with open_ledger("budget.db") as ledger:
    run_query(ledger, "acme", Count(), {"a": [1] * 50}, unit=None, key="q", keep="answers", epsilon="0.5")
"""


@pytest.mark.every(6)
@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    [
        f"{step} {after}"
        for step in (
            "c start",
            "a draw_noisy_values",
            "s _write_draft",
            "p hardlink_to",
            "c round_released",
            "c commit",
        )
        for after in (0, 1)
    ],
)
def test_a_killed_process_leaves_one_charge_and_one_answer(ledger, tmp_path, step):
    """The steps above, and the bytes that are linked; at each change two of them."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, *step.split()], cwd=tmp_path, env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    released = ledger.find("q").rounds_released
    told = run_query(
        ledger, "acme", Count(), {"a": [1] * 50}, unit=None, key="q", keep=tmp_path / "answers", epsilon="0.5"
    )
    assert spent(ledger) == "0.5"
    assert not released or ledger.find("q").rounds_released == released
    (kept,) = (tmp_path / "answers").iterdir()
    assert kept.read_bytes() == told.document
    assert told.key == "q"
    ledger.verify()
