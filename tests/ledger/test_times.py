"""Entries of a run tell nothing of how long its data took: they carry the time of the reservation."""

from datetime import UTC, datetime, timedelta

from tests.ledger.stores import InMemory

from epsilog.ledger import Ledger, Verb
from epsilog.ledger.transitions import TRANSITIONS
from epsilog.mechanisms import PureDP

HASH = "ab" * 32
UNTIMED = [Verb.STARTED, Verb.ROUND_STARTED, Verb.ROUND_RELEASED, Verb.COMMITTED]


class Stopwatch:
    """A clock that a test moves."""

    def __init__(self):
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self):
        self.now += timedelta(microseconds=1)
        return self.now

    def work(self, seconds):
        self.now += timedelta(seconds=seconds)


def run(ledger, clock, seconds):
    """A run whose rounds take so long: a round with one large client takes ten times as long as one without."""
    ledger.create_budget("acme", kind="pure", epsilon="1")
    charge = ledger.reserve("acme", PureDP(0.5), key="run", rounds=len(seconds))
    clock.work(seconds[0])  # a rehearsal, which knows the sizes of arrays
    charge.start()
    for number, duration in enumerate(seconds, start=1):
        charge.round_started(number)
        clock.work(duration)
        charge.round_started(number)  # killed, and begun again
        charge.round_released(number, output_hash=HASH)
    charge.commit({"model": HASH})
    return [entry.document() for entry in ledger.history()]


def test_no_entry_of_a_run_depends_on_how_long_its_rounds_took():
    chains = []
    for seconds in ([1.0, 1.0, 1.0], [1.0, 10.0, 1.0]):
        clock = Stopwatch()
        with Ledger(InMemory(None).open(), clock=clock) as ledger:
            chains.append(run(ledger, clock, seconds))
            assert ledger.verify().count == len(chains[-1]) == 13
    assert chains[0] == chains[1]


def test_the_verbs_of_a_run_are_those_between_its_reservation_and_its_commit():
    assert [verb for verb, rule in TRANSITIONS.items() if rule.untimed] == UNTIMED


def test_whoever_decides_by_hand_notes_the_time():
    clock = Stopwatch()
    with Ledger(InMemory(None).open(), clock=clock) as ledger:
        run(ledger, clock, [1.0])
        clock.work(60.0)
        ledger.decommission("run", actor="dora", reason="an old one")
        times = {entry.verb: entry.time for entry in ledger.history()}
    assert len({times[verb] for verb in [Verb.RESERVED, *UNTIMED]}) == 1
    assert times[Verb.BUDGET_CREATED] < times[Verb.RESERVED] < times[Verb.DECOMMISSIONED]
