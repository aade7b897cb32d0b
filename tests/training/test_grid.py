"""Clients elsewhere: the same model as in one process, and nothing that a node does, or does not, weakens the claim."""

import dataclasses
import functools
from pathlib import Path

import numpy as np
import pytest
from tests.training.conftest import MemoryCharge
from tests.training.linear import LinearEngine

from epsilog.ledger import headroom, open_ledger
from epsilog.schemes import (
    ClientLevelAdaptiveClip,
    ClientLevelBufferedNoise,
    ClientLevelCentral,
    ClientLevelClientSide,
    ClientLevelCorrelatedNoise,
    ClientLevelDistributed,
    ExampleLevelClientSide,
    NoisyUpdate,
    RawUpdate,
)
from epsilog.terms import BudgetExceededError, CheckError, ConflictError, CustodyRecord, NeighboringRelation
from epsilog.training import (
    AuthorizedRun,
    Federation,
    LocalTraining,
    Randomness,
    checkpoints,
    run_rounds,
    train_without_charge,
)
from epsilog.training.engines import RoundInputs
from epsilog.training.engines.remote import SimulatedDraws, TrainRequest, make_remote_engine
from epsilog.training.site import Site, make_function_site_engine, make_task_site_engine

CENTRAL = ClientLevelCentral(12, 0.5, 3, 0.2, 1.0)
ALONE = ClientLevelClientSide(12, 5, 3, 2, 0.2, 1.0)
RUNS = ExampleLevelClientSide(12, 5, 3, 2, 0.5, 1, 0.2, 1.0)
SCHEMES = [
    CENTRAL,
    ClientLevelAdaptiveClip(12, 0.5, 3, 0.2, 0.5, 0.3, 1.0, 1.0),
    ClientLevelCorrelatedNoise(12, 3, 3, 3, 0.2, 1.0),
    ClientLevelBufferedNoise(12, 3, 3, (0.9, 0.3), (0.3, 0.2), 0.2, 1.0),
    ALONE,
    RUNS,
]
ALONE_COHORT = np.array([0])


def named(client):
    return f"site-{client:02d}"


def afar(task):
    """The same task as its server knows it."""
    clients = Federation.remote_clients(
        [named(client) for client in range(task.clients.count)], width=task.clients.features.shape[1]
    )
    return dataclasses.replace(task, clients=clients, population=task.units)


def only(task, client):
    """The task of one client, with its own rows."""
    here = task.clients.rows_of(client)
    rows = Federation(task.clients.features[here], task.clients.targets[here], task.clients.sizes[client : client + 1])
    return dataclasses.replace(task, clients=rows)


def site_of(task, client, folder, scheme, *, epsilon="1000", engine=LinearEngine, **settings):
    """A site with a ledger of its own."""
    place = Path(folder) / f"{named(client)}.db"
    if not place.exists():
        with open_ledger(place) as books:
            books.create_budget(
                "site",
                kind="approximate",
                relation=scheme.relations[0],
                privacy_unit=task.unit,
                simulation=settings.get("simulation", True),
                epsilon=epsilon,
                delta="0.01",
            )
    defaults = {"trusts_server": True, "simulation": True}
    computing = settings.pop("computing", None) or make_task_site_engine(only(task, client), engine)
    return Site(computing, task.unit, task.unit_is_client, place, "site/runs", "1e-6", **defaults | settings)


class Post:
    """A courier in this process, whose letters go through JSON; ``twist`` changes what a client sends."""

    def __init__(self, sites, twist=lambda name, answer: [(name, answer)]):
        self.sites, self.twist, self.asked, self.refused = sites, twist, [], []

    def carry(self, orders):
        self.asked.append(sorted(orders))
        for name, order in orders.items():
            read = TrainRequest.from_json(order.to_json(), order.model.copy())
            try:
                answer = self.sites[name].answer(read)
            except Exception as error:  # noqa: BLE001 - as a node does
                self.refused.append((name, error))
                answer = None
            yield from self.twist(name, answer)


@pytest.fixture(autouse=True, scope="module")
def _prices_are_found_once():
    """Every site works out the same price; here it is worked out once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(headroom, "compute_cost", functools.lru_cache(headroom.compute_cost))
        yield


@pytest.fixture(
    params=[ALONE, *(pytest.param(one, marks=pytest.mark.slow) for one in SCHEMES if one != ALONE)],
    ids=lambda scheme: scheme.kind,
    name="scheme",
)
def _scheme(request):
    return request.param


def sites_of(task, folder, scheme, **settings):
    return {named(client): site_of(task, client, folder, scheme, **settings) for client in range(task.clients.count)}


def post_of(task, folder, scheme, twist=lambda name, answer: [(name, answer)], **settings):
    return Post(sites_of(task, folder, scheme, **settings), twist)


def train(task, folder, scheme, charge, **settings):
    paid = AuthorizedRun(scheme, charge, Randomness.from_seed(4))
    return run_rounds(paid, task, folder=folder, **settings)


def custody(folder):
    return checkpoints.read_records(folder / "custody.jsonl", CustodyRecord)


def both(small_task, tmp_path, scheme, twist=lambda name, answer: [(name, answer)], **training):
    """A run here, and the same run over a grid: both results, and the courier."""
    task = small_task(unit_is_client=scheme.unit_is_client, widths=(3, 1), **training)
    here = train(task, tmp_path / "here", scheme, MemoryCharge(scheme, task.unit), engine=LinearEngine)
    post = post_of(task, tmp_path, scheme, twist)
    there = train(
        afar(task),
        tmp_path / "grid",
        scheme,
        MemoryCharge(scheme, task.unit),
        engine=make_remote_engine(post, scheme, "one"),
    )
    return here, there, post


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_the_model_is_that_of_one_process(small_task, tmp_path, scheme, batch_size):
    batches = {"batch_size": batch_size} if scheme.unit_is_client else {}
    here, there, post = both(small_task, tmp_path, scheme, schedule="step", **batches)
    assert not post.refused
    assert there.model == pytest.approx(here.model, abs=1e-15)
    for ours, theirs in zip(there.records, here.records, strict=True):
        assert ours.padding == pytest.approx(theirs.padding, abs=1e-15)
        assert ours.unclipped == (None if theirs.unclipped is None else pytest.approx(theirs.unclipped))
        assert ours.test_loss == pytest.approx(theirs.test_loss)
    for ours, theirs in zip(custody(tmp_path / "grid"), custody(tmp_path / "here"), strict=True):
        assert (ours.participants, ours.non_finite_updates, ours.non_responders) == (theirs.participants, 0, 0)
        if scheme in (ALONE, RUNS):
            assert ours.largest_norm is None
        else:
            assert ours.largest_norm == pytest.approx(theirs.largest_norm, rel=1e-12)
            assert ours.clipped_fraction == theirs.clipped_fraction


class Letters:
    """A courier that brings whatever a test says."""

    def __init__(self, answers):
        self.answers, self.orders = answers, {}

    def carry(self, orders):
        self.orders = orders
        return self.answers(orders) if callable(self.answers) else self.answers


@pytest.fixture(name="engine_with")
def _engine_with(small_task):
    def make(answers, scheme=CENTRAL):
        task = afar(small_task(unit_is_client=scheme.unit_is_client, widths=(3, 1)))
        return make_remote_engine(Letters(answers), scheme, "one")(task)

    return make


def draws(client):
    return Randomness.from_seed(1).stream("noise", 1, client)


def updates_of(engine, cohort=(0, 4, 7), clip_norm=0.2):
    return engine.sum_uploads(RoundInputs(np.zeros(4), np.array(cohort), draws), RawUpdate(clip_norm))


def noisy_of(engine, cohort=(0, 4, 7)):
    upload = NoisyUpdate(ALONE.clip_norm, ALONE.noise_stddev)
    return engine.sum_uploads(RoundInputs(np.zeros(4), np.array(cohort), draws, draws), upload)


GOOD = np.array([0.1, 0.0, 0.0, 0.05])
NOT_ANSWERS = {
    "none": None,
    "text": "0.1",
    "list": [0.1, 0.0, 0.0, 0.0],
    "another shape": np.zeros(3),
    "a matrix": np.zeros((4, 1)),
    "half as precise": GOOD.astype(np.float32),
    "integers": np.ones(4, dtype=np.int64),
    "complex": GOOD.astype(complex),
    "objects": np.array([0.1, 0.0, 0.0, object()], dtype=object),
    "an array that says it is one": np.ma.masked_array(GOOD),
}
NOT_FINITE = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "1e300": 1e300}


@pytest.mark.parametrize("bad", NOT_ANSWERS.values(), ids=NOT_ANSWERS)
def test_what_cannot_be_read_is_a_zero_update_from_somebody_silent(engine_with, bad):
    ours = updates_of(engine_with([(named(0), GOOD), (named(4), bad), (named(7), -GOOD / 2)]))
    assert ours.total == pytest.approx(GOOD / 2)
    assert (ours.count, ours.silent, ours.dropped, ours.clipped) == (2, 1, 0, 0)


@pytest.mark.parametrize("value", NOT_FINITE.values(), ids=NOT_FINITE)
@pytest.mark.parametrize("noisy", [False, True])
def test_what_is_not_finite_is_dropped(engine_with, noisy, value):
    good, bad = np.zeros(4 + noisy) + 0.05, np.array([0.1, value, 0.0, 0.0] + [0.3] * noisy)
    answers = [(named(4), bad), (named(0), good), (named(7), good)]
    ours = noisy_of(engine_with(answers, ALONE)) if noisy else updates_of(engine_with(answers))
    assert ours.total == pytest.approx(2 * good[:4])
    assert (ours.count, ours.silent, ours.dropped) == (3, 0, 1)
    assert ours.padding.tolist() == [0.05, 0.05] * noisy


def test_the_server_clips_whatever_a_node_sends(engine_with):
    ours = updates_of(engine_with([(named(0), 1e9 * GOOD), (named(4), GOOD.astype(">f8"))]))
    assert np.linalg.norm(ours.total - GOOD) <= 0.2
    assert ours.largest_norm <= 0.2
    assert (ours.count, ours.silent, ours.clipped) == (2, 1, 1)


def test_a_noisy_upload_that_noise_could_not_make_that_long_is_dropped(engine_with):
    rng, scale = np.random.default_rng(1), ALONE.noise_stddev
    honest = [(named(client), scale * rng.standard_normal(5)) for client in (0, 4)]
    ours = noisy_of(engine_with([*honest, (named(7), np.full(5, 1e3))], ALONE))
    assert ours.total == pytest.approx(honest[0][1][:4] + honest[1][1][:4])
    assert (ours.dropped, ours.padding.size, ours.largest_norm) == (1, 2, None)


def test_nobody_answers_twice_or_for_another(engine_with):
    answers = [
        (named(0), GOOD),
        (named(0), 2 * GOOD),  # again
        (named(1), GOOD),  # was not asked
        ("somebody", GOOD),
        (4, GOOD),  # its number is not its name
        (None, GOOD),
    ]
    ours = updates_of(engine_with(answers))
    assert np.array_equal(ours.total, GOOD)
    assert (ours.count, ours.silent) == (1, 2)


def test_a_sum_does_not_depend_on_who_answers_first(engine_with):
    rng = np.random.default_rng(2)
    answers = [(named(client), rng.standard_normal(4)) for client in range(12)]
    sums = [updates_of(engine_with(order), range(12)).total for order in (answers, answers[::-1])]
    assert np.array_equal(*sums)


def test_nobody_is_asked_for_an_empty_cohort_or_in_a_rehearsal(engine_with, small_task, tmp_path):
    def fail(orders):
        raise AssertionError(orders)

    assert updates_of(engine_with(fail), ()).silent == 0
    scheme = dataclasses.replace(CENTRAL, rounds=1)
    task = afar(small_task(widths=(3, 1)))
    charge = MemoryCharge(scheme, task.unit)
    with pytest.raises(AssertionError):  # in the first round, and not before: the charge has started
        train(task, tmp_path, scheme, charge, engine=make_remote_engine(Letters(fail), scheme, "one"))
    assert charge.started == [1]


def test_orders_hold_no_draws_in_a_real_run(engine_with):
    engine = engine_with([])
    real = Randomness.from_os()
    now = RoundInputs(np.zeros(4), np.array([2]), lambda client: real.stream("batches", 1, client))
    ours = engine.sum_uploads(now, RawUpdate(0.2))
    assert ours.silent == 1
    (order,) = engine._transport.orders.values()
    assert order.draws is None
    updates_of(engine, (2,))
    (order,) = engine._transport.orders.values()
    assert order.draws is not None


def test_what_clients_would_not_go_by_is_refused(engine_with):
    engine = engine_with([], ALONE)
    with pytest.raises(CheckError, match=r"clip_norm must be 0\.2, as clients have charged, got inf"):
        engine.sum_uploads(RoundInputs(np.zeros(4), ALONE_COHORT), NoisyUpdate(np.inf, 0.2))
    with pytest.raises(CheckError, match=r"noise_stddev must be 0\.2, as clients have charged, got 0\.1"):
        engine.sum_uploads(RoundInputs(np.zeros(4), ALONE_COHORT), NoisyUpdate(0.2, 0.1))


class KilledError(BaseException):
    pass


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheme", [CENTRAL, dataclasses.replace(ALONE, cohort_size=3, max_participations=3)], ids=lambda one: one.kind
)
@pytest.mark.parametrize("after", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_a_server_that_is_killed_in_a_round_goes_on_to_the_same_model(small_task, tmp_path, scheme, after):
    """Killed in round 2, before or after some sites have answered; these are asked for it again."""
    task = small_task(widths=(3, 1))
    whole = train(task, tmp_path / "here", scheme, MemoryCharge(scheme, task.unit), engine=LinearEngine)
    post, charge = post_of(task, tmp_path, scheme), MemoryCharge(scheme, task.unit)
    answered = []

    def kill(name, answer):
        if len(post.asked) == 2:
            answered.append(name)
            if len(answered) > after:
                raise KilledError
        return [(name, answer)]

    post.twist = kill
    with pytest.raises(KilledError):
        train(afar(task), tmp_path / "grid", scheme, charge, engine=make_remote_engine(post, scheme, "one"))
    again = post_of(task, tmp_path, scheme)
    resumed = train(afar(task), tmp_path / "grid", scheme, charge, engine=make_remote_engine(again, scheme, "one"))
    assert resumed.resumed_after == 1
    assert resumed.model == pytest.approx(whole.model, abs=1e-15)
    assert again.asked[0] == post.asked[1]
    assert not again.refused
    with open_ledger(tmp_path / f"{answered[0]}.db") as books:
        counted = len(books.find("one").rounds_released)
    asked = sum(answered[0] in names for names in (*post.asked, *again.asked))
    assert counted == (asked if scheme.relations == ALONE.relations else asked - 1)  # noise of its own left it twice


def test_a_run_is_bound_to_who_its_clients_are(small_task, tmp_path):
    from epsilog.training.rounds import hash_run_inputs

    task = afar(small_task(widths=(3, 1)))
    others = [f"other-{client}" for client in range(12)]
    moved = dataclasses.replace(task, clients=dataclasses.replace(task.clients, names=tuple(others)))
    turned = dataclasses.replace(task, clients=dataclasses.replace(task.clients, names=task.clients.names[::-1]))
    assert len({hash_run_inputs(CENTRAL, one) for one in (task, moved, turned)}) == 3
    with pytest.raises(CheckError, match="engine must be one that reaches the clients"):
        train_without_charge(CENTRAL, task, randomness=Randomness.from_seed(1))


def test_clients_elsewhere_are_named_once_each_and_have_no_rows_here(small_task):
    with pytest.raises(CheckError, match="population must be declared if clients hold their own rows"):
        dataclasses.replace(afar(small_task(unit_is_client=False)), population=None)
    for names in (["a", "a"], ["a", ""], []):
        with pytest.raises(CheckError):
            Federation.remote_clients(names, width=2)
    with pytest.raises(CheckError, match="no rows if clients have names"):
        Federation(np.zeros((2, 1)), np.zeros(2), np.array([2]), names=("a",))


def test_noise_in_shares_is_refused_over_a_grid():
    distributed = ClientLevelDistributed(12, 4, 3, 2, 2, 0.2, 1e-3, 32, 1.0)
    with pytest.raises(CheckError, match="one that lets a server see single uploads"):
        make_remote_engine(Letters([]), distributed, "one")


# --- the site


def order_for(scheme, *, run="one", model=None, draws=SimulatedDraws(1, 2)):  # noqa: B008
    model = np.zeros(4) if model is None else model
    return TrainRequest(run, scheme, LocalTraining(0.1, local_steps=2), model, draws)


@pytest.fixture(name="site_for")
def _site_for(small_task, tmp_path):
    def make(scheme, **settings):
        task = small_task(unit_is_client=scheme.unit_is_client, widths=(3, 1))
        return site_of(task, 0, tmp_path, scheme, engine=LinearEngine, **settings)

    return make


def test_a_site_takes_part_as_often_as_was_declared_and_a_restart_does_not_forget(site_for):
    for _ in range(ALONE.cohorts.count_max_participations(ALONE.rounds)):
        assert site_for(ALONE).answer(order_for(ALONE)).shape == (5,)  # a site of its own each time: a restarted node
    with pytest.raises(ConflictError, match="round must be at most 2"):
        site_for(ALONE).answer(order_for(ALONE))


def test_a_site_counts_a_killed_round_of_a_trusted_server_once(site_for):
    site, scheme = site_for(CENTRAL), CENTRAL
    for value in (0.0, 1.0, 2.0):
        for _ in range(2):
            assert site.answer(order_for(scheme, model=np.full(4, value))).shape == (4,)
    with pytest.raises(ConflictError, match="round must be at most 3"):
        site.answer(order_for(scheme, model=np.full(4, 3.0)))


def test_an_answer_is_counted_before_it_is_computed_since_that_it_fails_is_seen_too(site_for):
    def die(model, training):
        raise KilledError

    with pytest.raises(KilledError):
        site_for(ALONE, computing=make_function_site_engine(die)).answer(order_for(ALONE))
    site_for(ALONE).answer(order_for(ALONE))
    with pytest.raises(ConflictError, match="round must be at most 2"):
        site_for(ALONE).answer(order_for(ALONE))


class FailsOnRows(LinearEngine):
    """As a module does that does not know one of the words."""

    def rows(self, client):
        features, targets = super().rows(client)
        if len(features):
            raise IndexError(f"index {features[0, 0]} out of range")
        return features, targets


def test_a_site_engine_has_the_rows_of_one_client(small_task):
    task = small_task(widths=(3, 1))
    for several in (task, afar(only(task, 0))):
        with pytest.raises(CheckError, match="clients must be one, with its rows here"):
            make_task_site_engine(several, LinearEngine)


@pytest.mark.parametrize("scheme", [ALONE, RUNS, CENTRAL], ids=lambda one: one.kind)
def test_an_engine_that_fails_on_rows_answers_as_one_without_any(small_task, tmp_path, scheme):
    task = only(small_task(unit_is_client=scheme.unit_is_client, widths=(3, 1)), 0)
    nobody = Federation(task.clients.features[:0], task.clients.targets[:0], np.zeros(1, np.int64))
    failing = make_task_site_engine(task, FailsOnRows)
    without = make_task_site_engine(dataclasses.replace(task, clients=nobody), LinearEngine)
    one, other = (
        site_of(task, 0, tmp_path / name, scheme, computing=made).answer(order_for(scheme))
        for name, made in (("failing", failing), ("without", without))
    )
    assert one.shape == (5 - (scheme is CENTRAL),)
    assert one.any() == (scheme is not CENTRAL)
    assert np.array_equal(one, other)
    with open_ledger(tmp_path / "failing" / f"{named(0)}.db") as books:
        assert len(books.find("one").rounds_released) == 1


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(ALONE, noise_multiplier=0.5),
        dataclasses.replace(ALONE, noise_multiplier=2.0),
        dataclasses.replace(ALONE, clip_norm=0.1),
        dataclasses.replace(ALONE, max_participations=3),
        dataclasses.replace(ALONE, cohort_size=6),
    ],
    ids=["less noise", "more noise", "another clip", "more often", "a larger cohort"],
)
def test_a_site_goes_by_the_scheme_that_it_has_booked(site_for, other):
    site = site_for(ALONE)
    site.answer(order_for(ALONE))
    with pytest.raises(ConflictError, match="taken by another request"):
        site.answer(order_for(other))
    site.answer(order_for(ALONE))


def test_a_budget_that_cannot_bear_the_whole_scheme_bears_no_answer(site_for):
    site = site_for(ALONE, epsilon="1")
    with pytest.raises(BudgetExceededError):
        site.answer(order_for(ALONE))
    with open_ledger(site.ledger) as books:
        assert not books.find("one")


def test_two_answers_at_once_are_never_counted_as_one(site_for):
    """While a site computes, it is asked again: each has been counted before it is computed."""

    def asked_again(model, training):
        site_for(ALONE).answer(order_for(ALONE))
        return 0 * model

    site_for(ALONE, computing=make_function_site_engine(asked_again)).answer(order_for(ALONE))
    with pytest.raises(ConflictError, match="round must be at most 2"):
        site_for(ALONE).answer(order_for(ALONE))


@pytest.mark.parametrize(("own", "asked"), [(ALONE, RUNS), (RUNS, ALONE)])
def test_a_scheme_that_protects_another_unit_is_refused(site_for, own, asked):
    """Noise for one example, booked as that of a whole client, would be a price that is too low."""
    site = site_for(own)
    with pytest.raises(CheckError, match=f"scheme must be one that protects the unit '{site.unit}'"):
        site.answer(order_for(asked))


def test_what_a_site_does_not_take(site_for, tmp_path):
    refusals = {
        "this site does not trust the server": (site_for(CENTRAL, trusts_server=False), order_for(CENTRAL)),
        "draws must be given, since this site is a simulation": (site_for(ALONE), order_for(ALONE, draws=None)),
        "noise_multiplier must be above 0": (
            site_for(ALONE),
            order_for(dataclasses.replace(ALONE, noise_multiplier=0.0)),
        ),
        "must be such that clip and noise are in the range of reliable arithmetic": (
            site_for(ALONE),
            order_for(dataclasses.replace(ALONE, clip_norm=1e-200)),
        ),
        "model must be finite": (site_for(ALONE), order_for(ALONE, model=np.full(4, np.nan))),
        "model must be float64 of shape": (site_for(ALONE), order_for(ALONE, model=np.zeros((2, 2)))),
        "example_cap must be absent, since it would disclose the number of rows of this site, got 9": (
            dataclasses.replace(site_for(ALONE), unit_is_client=False),
            dataclasses.replace(order_for(RUNS), training=LocalTraining(0.1, local_steps=2, example_cap=9)),
        ),
        "ledger must be an existing ledger": (
            dataclasses.replace(site_for(ALONE), ledger=tmp_path / "gone.db"),
            order_for(ALONE),
        ),
        "one that lets a server see single uploads": (
            site_for(ALONE),
            order_for(ClientLevelDistributed(12, 4, 3, 2, 2, 0.2, 1e-3, 32, 1.0)),
        ),
    }
    for says, (site, order) in refusals.items():
        with pytest.raises(CheckError, match=says):
            site.answer(order)
    assert not (tmp_path / "gone.db").exists()
    with open_ledger(tmp_path / f"{named(0)}.db") as books:
        assert not books.find("one")


def test_a_relation_that_a_scheme_has_no_price_for_is_refused(tmp_path, small_task):
    site = site_of(small_task(widths=(3, 1)), 0, tmp_path, CENTRAL, engine=LinearEngine)  # add or remove one
    assert ALONE.relations == (NeighboringRelation.ZERO_OUT,)
    with pytest.raises(CheckError, match="relation must be zero-out for client-level-client-side"):
        site.answer(order_for(ALONE))


def test_a_real_site_draws_for_itself_and_takes_no_draws(site_for):
    scheme = dataclasses.replace(ALONE, rounds=40, max_participations=40, noise_multiplier=3.0)
    site = site_for(scheme, simulation=False, computing=make_function_site_engine(lambda model, _: 0 * model))
    with pytest.raises(CheckError, match="draws must be absent, since this site has real data"):
        site.answer(order_for(scheme))
    drawn = np.concatenate([site.answer(order_for(scheme, draws=None, model=np.zeros(400))) for _ in range(2)])
    assert len(np.unique(drawn)) == drawn.size
    assert 0.85 < drawn.std() / scheme.noise_stddev < 1.15  # 802 draws: 6 standard deviations; 0.7 would be seen


def test_an_order_is_read_back_whole_and_nothing_else_is_read():
    local = LocalTraining(0.1, local_steps=2, batch_size=3, expected_examples=7, example_cap=9)
    order = dataclasses.replace(order_for(ALONE), training=local)
    read = TrainRequest.from_json(order.to_json(), order.model)
    assert (read.run, read.scheme, read.training, read.draws) == (order.run, order.scheme, order.training, order.draws)
    for change in ({"run": 3}, {"scheme": {"type": "gaussian"}}, {"draws": 7}, {"draws": {}}, {"training": None}):
        with pytest.raises((ValueError, TypeError, KeyError)):
            TrainRequest.from_json(order.to_json() | change, order.model)
