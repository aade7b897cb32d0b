"""Did clients take part as the plan's sampler says? Tests inside the trust boundary, on the curator's records.

The claim is charged at the *scheduled* sampling; observed counts are a diagnostic. A rejected sampler loses the
amplified claim: only the unamplified number remains.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from functools import singledispatch

import numpy as np
from scipy.special import bdtrc

from epsilog.schemes.cohorts import (
    BallsInBinsSampler,
    CappedSampler,
    Cohorts,
    FixedSizeSampler,
    PoissonSampler,
    RoundRobinSampler,
)
from epsilog.terms import Finding, Status
from epsilog.verification import sampler_tests
from epsilog.verification.columns import Cohort, Participation
from epsilog.verification.drift import bound_cohort_drift
from epsilog.verification.evidence import FALSE_ALARM, Evidence
from epsilog.verification.hidden import weigh_at
from epsilog.verification.sampler_tests import Ids, Numbers

Numbered = tuple[tuple[str, float], ...]


def check_custody(evidence: Evidence) -> Finding:
    """Check that lists name each client at most once a round, nobody from outside, and as many as the rounds say.

    A round of ours was given up exactly where too few replied.
    """
    lists, scheme = evidence.participation, evidence.claim.scheme
    assert lists is not None
    numbers = (("clients", float(lists.clients)), ("repeated", float(lists.repeated - lists.copies)))
    if lists.repeated > lists.copies:
        message = f"{lists.repeated - lists.copies} entries name a client that is in the round already."
        return Finding("custody/invalid-participants", Status.FAILED, message, numbers)
    if lists.withdrawn:
        message = f"{lists.withdrawn} clients took part before they had joined, or after they had left."
        return Finding("custody/withdrawn-participant", Status.FAILED, message, numbers)
    if lists.outside or lists.clients > scheme.clients:
        message = (
            f"{lists.clients} clients took part; {lists.outside} of them do not count to the N = {scheme.clients}."
        )
        return Finding("custody/invalid-participants", Status.FAILED, message, numbers)
    wrong = _compare_with_records(evidence, numbers) if evidence.logs is None else _compare_with_log(evidence, numbers)
    if wrong is not None:
        return wrong
    return Finding("custody/passed", Status.PASSED, f"{lists.clients} clients, nobody twice in a round.", numbers)


def _compare_with_records(evidence: Evidence, numbers: Numbered) -> Finding | None:
    """Find rounds of the curator that the public records do not have, or that were given up without need."""
    custody, records = evidence.custody or (), evidence.records or ()
    if [record.round for record in custody] != [record.round for record in records]:
        message = "The curator's records are of other rounds than the public ones."
        return Finding("custody/round-mismatch", Status.FAILED, message, numbers)
    for private, public in zip(custody, records, strict=True):
        replies = len(private.participants) - private.non_responders
        if public.aborted != evidence.claim.scheme.aborts_round(replies):
            message = (
                f"Round {private.round} had {replies} replies, and was {'' if public.aborted else 'not '}given up."
            )
            return Finding("custody/reply-count-mismatch", Status.FAILED, message, numbers)
    return None


def _compare_with_log(evidence: Evidence, numbers: Numbered) -> Finding | None:
    """Find rounds of which the log of rounds counts others than the list of clients."""
    rounds, lists, sizes = evidence.rounds, evidence.participation, evidence.cohort_sizes
    if rounds is None or rounds.cohort is None or lists is None or sizes is None:
        return None
    other = rounds.number[sizes[rounds.number - 1] != rounds.cohort]
    if not other.size and lists.rounds <= rounds.number.max():
        return None
    message = f"The log of rounds counts others than the list of clients, as in rounds {other[:5].tolist()}."
    return Finding("custody/cohort-mismatch", Status.FAILED, message, numbers)


def check_participation(evidence: Evidence) -> Finding:
    """Test who took part, or at least how many, against the sampler; see ``hidden`` for how seldom it may fail."""
    return weigh_at(
        evidence.hidden_false_alarm_rate,
        lambda level: check_participation_at(evidence, level),
        warned=evidence.false_alarm_rate,
    )


def check_participation_at(evidence: Evidence, false_alarm_rate: float) -> Finding:
    """Test who took part at one level.

    Args:
        evidence: with lists, or with sizes of cohorts.
        false_alarm_rate: how often a sound run may be rejected, over all tests together.
    """
    sizes, lists, scheme = evidence.cohort_sizes, evidence.participation, evidence.claim.scheme
    if sizes is None or not sizes.size:
        return Finding("participation/not-checked", Status.NOT_CHECKED, "The records of who took part hold no round.")
    if lists is None:
        return compare_cohort_sizes(scheme.cohorts, sizes, false_alarm_rate)
    if evidence.logs is not None and isinstance(scheme.cohorts, RoundRobinSampler):
        return _check_turns(lists, scheme.cohorts.cycle_length)
    if evidence.logs is not None and sizes.size > scheme.rounds:  # a log may name any round
        message = (
            f"{sizes.size} rounds were run where {scheme.rounds} were planned, so no list is held against the plan."
        )
        counted = (("planned", float(scheme.rounds)), ("recorded", float(sizes.size)))
        return Finding("participation/not-checked", Status.NOT_CHECKED, message, counted)
    return check_cohorts(scheme.cohorts, list(lists.iterate_cohorts(sizes.size)), false_alarm_rate)


def _check_turns(lists: Participation, length: int) -> Finding:
    """Check that everybody's rounds are whole cycles apart; a name does not say whose turn comes first."""
    places, turn = lists.members % lists.width, (lists.members // lists.width - 1) % length
    first, last = np.full(lists.width, length), np.full(lists.width, -1)
    np.minimum.at(first, places, turn)
    np.maximum.at(last, places, turn)
    moved = int((first < last).sum())
    if moved:
        message = f"{moved} clients took part in rounds that are no whole cycles of {length} apart."
        return Finding("participation/out-of-order", Status.FAILED, message)
    message = f"Everybody who took part twice did so whole cycles of {length} rounds apart."
    return Finding("participation/passed", Status.PASSED, message)


def check_population(evidence: Evidence) -> Finding:
    """Check that as many as N could take part: with fewer, each was drawn more often."""
    assert evidence.logs is not None
    enrolled, claimed = evidence.logs.enrolled, evidence.claim.scheme.clients
    assert enrolled is not None
    counted = enrolled.population
    numbers = (("claimed", float(claimed)), ("counted", float(counted)), ("listed", float(len(enrolled.names))))
    message = f"{counted} of {len(enrolled.names)} on the enrollment list could take part; N = {claimed} is claimed."
    run = get_run_period(evidence)
    if enrolled.counted_on > (time.time() if run is None else run[1]):
        message = "N is counted on a date after the last time that is logged, or on one that has not come."
        return Finding("population/counted-later", Status.FAILED, message, numbers)
    if counted < claimed:
        return Finding("population/overstated", Status.FAILED, message, numbers)
    if run is not None and (there := enrolled.count_at(run[0])) < claimed:
        message = f"N = {claimed} is claimed, and {there} on the enrollment list were there at the first logged time."
        return Finding("population/counted-earlier", Status.WARNED, message, numbers)
    if counted > claimed:
        return Finding("population/understated", Status.WARNED, message, numbers)
    return Finding("population/passed", Status.PASSED, message, numbers)


def get_run_period(evidence: Evidence) -> tuple[float, float] | None:
    """Return the first and the last time that a run logged; None where it logged none."""
    rounds, lists = evidence.rounds, evidence.participation
    times = [] if lists is None or lists.span is None else list(lists.span)
    if rounds is not None and rounds.ended is not None:
        times += [float(rounds.ended.min()), float(rounds.ended.max())]
    return (min(times), max(times)) if times else None


@singledispatch
def check_cohorts(
    cohorts: Cohorts,
    seen: Sequence[Cohort],  # noqa: ARG001
    false_alarm_rate: float = FALSE_ALARM,  # noqa: ARG001
) -> Finding:
    """Tests who took part against how a round's clients are picked.

    Args:
        cohorts: as planned.
        seen: who was in each round; at least one round, in order.
        false_alarm_rate: how often a sound run may be rejected, over all tests together.
    """
    return Finding("participation/not-checked", Status.NOT_CHECKED, f"No test is known for {type(cohorts).__name__}.")


def _lists(seen: Sequence[Cohort], clients: int) -> list[Ids]:
    """Who was drawn in each round; a list that names somebody else, or somebody twice, fails elsewhere."""
    lists = (np.unique(cohort.drawn) for cohort in seen)
    return [ids[(ids >= 0) & (ids < clients)] for ids in lists]


def _least(p_values: Numbers | float, cases: int) -> float:
    """The least of many, by as much as many cases together may bring it about."""
    return min(1.0, max(cases, 1) * float(np.min(p_values, initial=1.0)))


def _repeats(lists: Sequence[Ids], clients: int, probability: float) -> dict[str, float]:
    """What rounds that are drawn each by itself must not show: cohorts that come again, or whom they pass over.

    The overlap of two cohorts is binomial, or hypergeometric, and so is that of a cohort with whoever is known before.
    """
    shared = sampler_tests.count_shared_clients(lists, clients)
    sizes = np.array([ids.size for ids in lists])
    seen, trials = (
        np.array(column, dtype=np.int64) for column in (list(shared.values()), [sizes[i] for i, _ in shared])
    )
    neighbors = np.array([shared[pair] for pair in itertools.pairwise(range(len(lists)))], dtype=np.int64)
    classes = max(2, min(round(1 / probability), clients // 10))
    by_place = [_cells(place, lists, probability) for place in sampler_tests.list_public_classes(clients, classes)]
    return {
        "p_same_cohort": _least(sampler_tests.bound_misfit(seen, trials, probability), seen.size),
        "p_neighbors": sampler_tests.bound_total_shift(neighbors, sizes[:-1], probability),
        "p_came_before": sampler_tests.bound_total_shift(
            *sampler_tests.count_early_returns(lists, clients, probability), probability
        ),
        "p_places": _least(np.array(by_place), len(by_place) * classes * len(lists)),
    }


def _cells(class_of: Ids, lists: Sequence[Ids], probability: float) -> float:
    """How likely it is that so many clients of one class are in one round, for the least likely of them."""
    of = np.bincount(class_of)
    each = (sampler_tests.bound_excess(np.bincount(class_of[ids], minlength=of.size), of, probability) for ids in lists)
    return min(float(p.min()) for p in each)


@check_cohorts.register
def _(cohorts: PoissonSampler, seen: Sequence[Cohort], false_alarm_rate: float = FALSE_ALARM) -> Finding:
    """Counts per round are Binomial(N, q), per client Binomial(T, q); all overlaps are binomial."""
    clients, rounds, q = cohorts.clients, len(seen), cohorts.probability
    sizes, lists = np.array([len(cohort.drawn) for cohort in seen]), _lists(seen, clients)
    per_client = np.bincount(np.concatenate(lists), minlength=clients)
    numbers: list[tuple[str, float]] = [("planned_rate", q), ("observed_rate", float(sizes.mean()) / clients)]
    if q == 1:
        holds = bool((sizes == clients).all())
        says = f"Every cohort {'is' if holds else 'should be'} everyone."
        if not holds:
            return Finding("participation/sampler-mismatch", Status.FAILED, says, tuple(numbers))
        return Finding("participation/passed", Status.PASSED, says, tuple(numbers))
    p_values, drifted = _test_poisson_sizes(sizes, clients, q)
    p_values["p_busiest_client"] = _least(bdtrc(int(per_client.max()) - 1, rounds, q), clients)
    p_values |= _repeats(lists, clients, q)
    numbers += [("cohort_min", float(sizes.min())), ("cohort_max", float(sizes.max()))]
    numbers += [("drifted_by_round", float(drifted)), *p_values.items()]
    says = (
        f"Cohorts of {sizes.min()} to {sizes.max()} in {rounds} rounds agree with Poisson({q:g}) of {clients} clients."
    )
    return _judge_sampler(f"Poisson({q:g})", p_values, says, numbers, false_alarm_rate)


def _test_poisson_sizes(sizes: Ids, clients: int, q: float) -> tuple[dict[str, float], int]:
    """Return how likely sizes of Poisson cohorts are, and the round by which they seem to have drifted."""
    p_drift, drifted = bound_cohort_drift(sizes, clients, q)
    p_values = {
        "p_total": float(sampler_tests.compute_two_sided_p_value(sizes.sum(), clients * sizes.size, q)),
        "p_worst_round": _least(sampler_tests.compute_two_sided_p_value(sizes, clients, q), sizes.size),
        "p_drift": p_drift,
        "p_spread": sampler_tests.bound_dispersion(sizes, np.full(sizes.size, clients), np.full(sizes.size, q)),
    }
    return p_values, drifted


def _judge_sampler(
    sampler: str,
    p_values: dict[str, float],
    message: str,
    numbers: Sequence[tuple[str, float]],
    false_alarm_rate: float,
) -> Finding:
    """Rejects a sampler one of whose tests is too unlikely."""
    failed = [name for name, p in p_values.items() if p < false_alarm_rate / len(p_values)]
    if not failed:
        rate = false_alarm_rate if p_values else 0.0
        return Finding("participation/passed", Status.PASSED, message, tuple(numbers), false_alarm_rate=rate)
    if failed == ["p_drift"]:
        by = f"{dict(numbers)['drifted_by_round']:.0f}"
        why = (
            f"Cohorts grow or shrink on the way: by round {by} they are no longer {sampler}, though each alone may be. "
        )
        why += "Only the unamplified claim remains."
        return Finding("participation/drift", Status.FAILED, why, tuple(numbers), false_alarm_rate=false_alarm_rate)
    why = f"The sampler is not {sampler}: {', '.join(failed)} below {false_alarm_rate / len(p_values):.2g}. "
    why += "Only the unamplified claim remains."
    return Finding(
        "participation/sampler-mismatch", Status.FAILED, why, tuple(numbers), false_alarm_rate=false_alarm_rate
    )


@check_cohorts.register
def _(cohorts: FixedSizeSampler, seen: Sequence[Cohort], false_alarm_rate: float = FALSE_ALARM) -> Finding:
    """Every cohort has the size; each client's rounds are Binomial(T, m/N); all overlaps are hypergeometric."""
    clients, size, rounds = cohorts.clients, cohorts.cohort_size, len(seen)
    for cohort in seen:
        if len(cohort.drawn) != size:
            says = f"Round {cohort.round} has {len(cohort.drawn)} clients where {size} were due."
            return Finding("participation/cohort-size", Status.FAILED, says)
    lists, q = _lists(seen, clients), size / clients
    per_client = np.bincount(np.concatenate(lists), minlength=clients)
    extremes = (int(per_client.min()), int(per_client.max()))
    p_values = {
        "p_some_client": _least(sampler_tests.compute_two_sided_p_value(np.array(extremes), rounds, q), clients),
        **_repeats(lists, clients, q),
    }
    numbers = [("cohort_size", float(size)), *p_values.items()]
    says = f"Every cohort has {size} of {clients} clients, each in {extremes[0]} to {extremes[1]} of {rounds} rounds."
    return _judge_sampler(f"a draw of {size}", p_values, says, numbers, false_alarm_rate)


@check_cohorts.register
def _(cohorts: BallsInBinsSampler, seen: Sequence[Cohort], false_alarm_rate: float = FALSE_ALARM) -> Finding:
    """Nobody is in two rounds of a cycle; slots are uniform, whoever stood where in another cycle, or in the data."""
    clients, length, lists = cohorts.clients, cohorts.cycle_length, _lists(seen, cohorts.clients)
    cycles = [_slots(clients, lists[first : first + length]) for first in range(0, len(lists), length)]
    known = [slots for slots in cycles if slots is not None]
    if len(known) < len(cycles):
        says = f"A client takes part more than once in a cycle of {length} rounds."
        return Finding("participation/out-of-order", Status.FAILED, says)
    whole = len(lists) // length
    missed = sum(int((slots < 0).sum()) for slots in known[:whole])
    sizes = np.array([ids.size for ids in lists])
    if _strays(known, cohorts.separation):
        says = f"A client's rounds do not leave the same rest modulo {cohorts.separation} in all cycles."
        return Finding("participation/out-of-order", Status.FAILED, says)
    beside = list(_iterate_cycle_slots(known, cohorts))
    moves = [_moves(one, other, among) for one, other, number, among in beside if number < whole]
    groups = [_groups(one, other, among) for one, other, _, among in beside]
    alone = len(known) if cohorts.separation == 1 else 1  # cycles whose sizes hang on nothing before them
    p_values = {
        "p_worst_round": _least(sampler_tests.compute_two_sided_p_value(sizes, clients, 1 / length), sizes.size),
        "p_spread": _spread(sizes[: alone * length], known[:alone], length),
        "p_moves": _least(np.array(moves), length * len(moves)),
        "p_groups": _least(np.array(groups), length * length * len(groups)),
    }
    if length == 1:
        p_values = {}
    numbers = [
        ("missed_turns", float(missed)),
        ("cohort_min", float(sizes.min())),
        ("cohort_max", float(sizes.max())),
        *p_values.items(),
    ]
    says = (
        f"Nobody took part twice in a cycle of {length} rounds; cohorts have {sizes.min()} to {sizes.max()} clients; "
    )
    return _judge_sampler(
        f"balls in {length} bins", p_values, f"{says}{missed} turns were missed.", numbers, false_alarm_rate
    )


def _slots(clients: int, cycle: Sequence[Ids]) -> Ids | None:
    """Each client's slot in a cycle, -1 where it has none; None where one has two."""
    slots = np.full(clients, -1)
    for slot, here in enumerate(cycle):
        if (slots[here] >= 0).any():
            return None
        slots[here] = slot
    return slots


def _spread(sizes: Ids, known: Sequence[Ids], length: int) -> float:
    """Sizes of a cycle are binomial one after another, each of whoever is left; of a whole cycle, whoever is seen."""
    each = [
        sampler_tests.count_remaining_in_cycle(cycle, cycle.sum() if cycle.size == length else slots.size, length)
        for cycle, slots in zip(np.split(sizes, range(length, sizes.size, length)), known, strict=True)
    ]
    left, rounds = (np.concatenate(column) for column in zip(*each, strict=True))
    return sampler_tests.bound_dispersion(sizes, left, 1 / rounds)


def _strays(known: Sequence[Ids], separation: int) -> bool:
    """Whether a client's slots leave different rests in cycles where it has one."""
    slots = np.stack(known)
    least = np.where(slots < 0, separation, slots % separation).min(axis=0)
    most = np.where(slots < 0, -1, slots % separation).max(axis=0)
    return bool((least < most).any())


def _iterate_cycle_slots(known: Sequence[Ids], cohorts: BallsInBinsSampler) -> Iterator[tuple[Ids, Ids, int, int]]:
    """What a cycle's slots must be independent of, and they, the cycle's number, and among how many they are drawn.

    Places; and earlier cycles, of which the rest is known.
    """
    length, apart = cohorts.cycle_length, cohorts.separation
    for place in sampler_tests.list_public_classes(cohorts.clients, length):
        yield from ((place, slots, number, length) for number, slots in enumerate(known))
    drawn = [slots // apart for slots in known]  # -1 stays -1
    if length > apart:
        yield from ((drawn[i], drawn[j], j, length // apart) for i, j in sampler_tests.choose_pairs(len(known)))


def _moves(one: Ids, other: Ids, length: int) -> float:
    """How likely the most or least frequent move around the cycle is, of those who are seen in both cycles."""
    both = (one >= 0) & (other >= 0)
    steps = np.bincount((other - one)[both] % length, minlength=length)
    return float(
        sampler_tests.compute_two_sided_p_value(np.array([steps.min(), steps.max()]), int(both.sum()), 1 / length).min()
    )


def _groups(one: Ids, other: Ids, length: int) -> float:
    """How likely it is that so many who stood together stand together again, wherever that is."""
    first = one >= 0
    cells, together = np.unique((one * length + other)[first & (other >= 0)], return_counts=True)
    of = np.bincount(one[first], minlength=length)
    return float(sampler_tests.bound_excess(together, of[cells // length], 1 / length).min(initial=1.0))


@check_cohorts.register
def _(cohorts: CappedSampler, seen: Sequence[Cohort], false_alarm_rate: float = FALSE_ALARM) -> Finding:  # noqa: ARG001
    """Cohorts have the stated size while enough clients are below their cap, and nobody passes it."""
    times = np.zeros(cohorts.clients, dtype=np.int64)
    for cohort in seen:
        due = min(cohorts.cohort_size, int((times < cohorts.max_participations).sum()))
        if len(cohort.drawn) != due:
            says = f"Round {cohort.round} has {len(cohort.drawn)} clients where {due} were due."
            return Finding("participation/cohort-size", Status.FAILED, says)
        there = cohort.participants
        np.add.at(times, there[(there >= 0) & (there < times.size)], 1)
    busiest, many = int(times.max(initial=0)), int((times > 0).sum())
    numbers = (
        ("max_participations", cohorts.max_participations),
        ("busiest_client", busiest),
        ("clients_seen", many),
    )
    if busiest > cohorts.max_participations:
        says = f"A client took part {busiest} times; the noise was calibrated to {cohorts.max_participations}."
        return Finding("participation/above-maximum", Status.FAILED, says, numbers)
    says = f"Nobody took part more than {busiest} times (cap {cohorts.max_participations}); "
    says += f"{many} clients were seen."
    return Finding("participation/passed", Status.PASSED, says, numbers)


@check_cohorts.register
def _(cohorts: RoundRobinSampler, seen: Sequence[Cohort], false_alarm_rate: float = FALSE_ALARM) -> Finding:  # noqa: ARG001
    """Nobody takes part out of turn; who misses a turn weakens nothing."""
    missed = 0
    for cohort in seen:
        due = cohorts.due(cohort.round)
        early = len(cohort.drawn) - int(np.isin(cohort.drawn, due).sum())
        if early:
            says = f"Round {cohort.round} has {early} clients whose turn it was not."
            return Finding("participation/out-of-order", Status.FAILED, says)
        missed += len(due) - len(cohort.drawn)
    says = f"Everybody took part in turn, every {cohorts.cycle_length} rounds; {missed} turns were missed."
    return Finding("participation/passed", Status.PASSED, says, (("missed_turns", missed),))


def compare_cohort_sizes(cohorts: Cohorts, sizes: Ids, false_alarm_rate: float = FALSE_ALARM) -> Finding:
    """Tests how many were in each round, where nobody says who: one client in every round passes unseen.

    Args:
        cohorts: as planned.
        sizes: clients in each round; at least one round, in order.
        false_alarm_rate: how often a sound run may be rejected, over all tests together.
    """
    told = f"Cohorts of {sizes.min()} to {sizes.max()} in {sizes.size} rounds agree with"
    if sizes.max() > cohorts.clients:
        says = f"Round {sizes.argmax() + 1} has {sizes.max()} clients of {cohorts.clients}."
        return Finding("participation/cohort-size", Status.FAILED, says)
    match cohorts:
        case PoissonSampler(clients=clients, probability=q) if q < 1:
            p_values, drifted = _test_poisson_sizes(sizes, clients, q)
            numbers = [("planned_rate", q), ("observed_rate", float(sizes.mean()) / clients)]
            numbers += [("drifted_by_round", float(drifted)), *p_values.items()]
            sampler = f"Poisson({q:g})"
            return _judge_sampler(
                sampler, p_values, f"{told} {sampler} of {clients} clients.", numbers, false_alarm_rate
            )
        case BallsInBinsSampler(clients=clients, cycle_length=length) if length > 1:
            p_values = {
                "p_worst_round": _least(sampler_tests.compute_two_sided_p_value(sizes, clients, 1 / length), sizes.size)
            }
            sampler = f"balls in {length} bins"
            return _judge_sampler(sampler, p_values, f"{told} {sampler}.", list(p_values.items()), false_alarm_rate)
        case FixedSizeSampler(cohort_size=due):
            most = least = np.full(sizes.size, due)
        case RoundRobinSampler():
            most = np.array([len(cohorts.due(number)) for number in range(1, sizes.size + 1)])
            least = np.zeros_like(most)  # who misses a turn weakens nothing
        case CappedSampler(cohort_size=due):
            most, least = np.full(sizes.size, due), np.zeros(sizes.size, dtype=np.int64)  # few may be left
        case _:  # everybody, in every round
            most = least = np.full(sizes.size, cohorts.clients)
    wrong = np.flatnonzero((sizes < least) | (sizes > most))
    if wrong.size:
        says = f"Round {wrong[0] + 1} has {sizes[wrong[0]]} clients where {most[wrong[0]]} were due."
        return Finding("participation/cohort-size", Status.FAILED, says)
    return Finding("participation/passed", Status.PASSED, f"{told} the plan.")
