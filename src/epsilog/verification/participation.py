"""Test participation against the planned sampler, on the curator's records or on logs.

The claim's cost is for the *scheduled* sampling; observed counts are diagnostic. If a test rejects the sampler, only
the unamplified claim remains.
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
from epsilog.verification.evidence import FALSE_ALARM, Evidence
from epsilog.verification.hidden import weigh_at
from epsilog.verification.sampler_tests import Ids, Numbers, bound_cohort_drift

Numbered = tuple[tuple[str, float], ...]


def check_custody(evidence: Evidence) -> Finding:
    """Check that each round lists enrolled clients, each once, and that the round records agree.

    A round of ours must be aborted exactly if too few clients replied.
    """
    lists, scheme = evidence.participation, evidence.claim.scheme
    assert lists is not None
    numbers = (("clients", float(lists.clients)), ("repeated", float(lists.repeated - lists.copies)))
    if lists.repeated > lists.copies:
        message = f"{lists.repeated - lists.copies} entries repeat a client of the same round."
        return Finding("custody/invalid-participants", Status.FAILED, message, numbers)
    if lists.withdrawn:
        message = f"{lists.withdrawn} clients took part before joining or after leaving."
        return Finding("custody/withdrawn-participant", Status.FAILED, message, numbers)
    if lists.outside or lists.clients > scheme.clients:
        message = f"{lists.clients} clients took part; N = {scheme.clients} excludes {lists.outside} of them."
        return Finding("custody/invalid-participants", Status.FAILED, message, numbers)
    wrong = _compare_with_records(evidence, numbers) if evidence.logs is None else _compare_with_log(evidence, numbers)
    if wrong is not None:
        return wrong
    message = f"{lists.clients} clients took part, each at most once per round."
    return Finding("custody/passed", Status.PASSED, message, numbers)


def _compare_with_records(evidence: Evidence, numbers: Numbered) -> Finding | None:
    """Report curator's rounds that differ from the public records, or that were wrongly aborted or kept."""
    custody, records = evidence.custody or (), evidence.records or ()
    if [record.round for record in custody] != [record.round for record in records]:
        message = "The curator's records and the public records name different rounds."
        return Finding("custody/round-mismatch", Status.FAILED, message, numbers)
    for private, public in zip(custody, records, strict=True):
        replies = len(private.participants) - private.non_responders
        if public.aborted != evidence.claim.scheme.aborts_round(replies):
            message = f"Round {private.round} had {replies} replies, yet was {'' if public.aborted else 'not '}aborted."
            return Finding("custody/reply-count-mismatch", Status.FAILED, message, numbers)
    return None


def _compare_with_log(evidence: Evidence, numbers: Numbered) -> Finding | None:
    """Report rounds with different cohort sizes in round log and participation list."""
    rounds, lists, sizes = evidence.rounds, evidence.participation, evidence.cohort_sizes
    if rounds is None or rounds.cohort is None or lists is None or sizes is None:
        return None
    other = rounds.number[sizes[rounds.number - 1] != rounds.cohort]
    if not other.size and lists.rounds <= rounds.number.max():
        return None
    message = f"Cohort sizes differ between round log and participation list, such as in rounds {other[:5].tolist()}."
    return Finding("custody/cohort-mismatch", Status.FAILED, message, numbers)


def check_participation(evidence: Evidence) -> Finding:
    """Test participants, or at least cohort sizes, against the sampler; ``hidden`` bounds the false-alarm rate."""
    return weigh_at(
        evidence.hidden_false_alarm_rate,
        lambda level: check_participation_at(evidence, level),
        warned=evidence.false_alarm_rate,
    )


def check_participation_at(evidence: Evidence, false_alarm_rate: float) -> Finding:
    """Test participation at one level.

    Args:
        evidence: with participation lists or cohort sizes.
        false_alarm_rate: largest probability that all tests together reject a sound run.
    """
    sizes, lists, scheme = evidence.cohort_sizes, evidence.participation, evidence.claim.scheme
    if sizes is None or not sizes.size:
        message = "The participation records contain no round."
        return Finding("participation/not-checked", Status.NOT_CHECKED, message)
    if lists is None:
        return compare_cohort_sizes(scheme.cohorts, sizes, false_alarm_rate)
    if evidence.logs is not None and isinstance(scheme.cohorts, RoundRobinSampler):
        return _check_turns(lists, scheme.cohorts.cycle_length)
    if evidence.logs is not None and sizes.size > scheme.rounds:  # a log may name any round
        message = f"{sizes.size} rounds were run, but {scheme.rounds} were planned, so no list was tested."
        counted = (("planned", float(scheme.rounds)), ("recorded", float(sizes.size)))
        return Finding("participation/not-checked", Status.NOT_CHECKED, message, counted)
    return check_cohorts(scheme.cohorts, list(lists.iterate_cohorts(sizes.size)), false_alarm_rate)


def _check_turns(lists: Participation, length: int) -> Finding:
    """Check that each client's rounds are whole cycles apart; the order of first turns is unknown in logs."""
    places, turn = lists.members % lists.width, (lists.members // lists.width - 1) % length
    first, last = np.full(lists.width, length), np.full(lists.width, -1)
    np.minimum.at(first, places, turn)
    np.maximum.at(last, places, turn)
    moved = int((first < last).sum())
    if moved:
        message = f"{moved} clients took part in rounds that are not whole cycles of {length} apart."
        return Finding("participation/out-of-order", Status.FAILED, message)
    message = f"Participations of each client are whole cycles of {length} rounds apart."
    return Finding("participation/passed", Status.PASSED, message)


def check_population(evidence: Evidence) -> Finding:
    """Check that at least N clients were enrolled; with fewer, each was sampled more often."""
    assert evidence.logs is not None
    enrolled, claimed = evidence.logs.enrolled, evidence.claim.scheme.clients
    assert enrolled is not None
    counted = enrolled.population
    numbers = (("claimed", float(claimed)), ("counted", float(counted)), ("listed", float(len(enrolled.names))))
    message = f"{counted} of {len(enrolled.names)} clients on the enrollment list count; N = {claimed} is claimed."
    run = get_run_period(evidence)
    if enrolled.counted_on > (time.time() if run is None else run[1]):
        message = "The counting date of N is after the last logged time, or in the future."
        return Finding("population/counted-later", Status.FAILED, message, numbers)
    if counted < claimed:
        return Finding("population/overstated", Status.FAILED, message, numbers)
    if run is not None and (initial := enrolled.count_at(run[0])) < claimed:
        message = f"N = {claimed} is claimed, but {initial} clients were enrolled at the first logged time."
        return Finding("population/counted-earlier", Status.WARNED, message, numbers)
    if counted > claimed:
        return Finding("population/understated", Status.WARNED, message, numbers)
    return Finding("population/passed", Status.PASSED, message, numbers)


def get_run_period(evidence: Evidence) -> tuple[float, float] | None:
    """Return the first and the last logged time of a run; None if it has none."""
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
    """Test cohorts against the planned sampler.

    Args:
        cohorts: the planned sampler.
        seen: the cohort of each round, in order; at least one.
        false_alarm_rate: largest probability that all tests together reject a sound run.
    """
    return Finding("participation/not-checked", Status.NOT_CHECKED, f"No test exists for {type(cohorts).__name__}.")


def _lists(seen: Sequence[Cohort], clients: int) -> list[Ids]:
    """Return the sampled clients of each round; ``check_custody`` rejects repeated and unknown ones."""
    lists = (np.unique(cohort.drawn) for cohort in seen)
    return [ids[(ids >= 0) & (ids < clients)] for ids in lists]


def _least(p_values: Numbers | float, cases: int) -> float:
    """Return the least p-value, corrected for the number of cases (union bound)."""
    return min(1.0, max(cases, 1) * float(np.min(p_values, initial=1.0)))


def _repeats(lists: Sequence[Ids], clients: int, probability: float) -> dict[str, float]:
    """Test independent rounds for repeated cohorts and for dependence on earlier rounds or on client indices.

    The overlap of two cohorts is binomial or hypergeometric, and so is that of a cohort with any set fixed before it.
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
    """Return the least p-value, over classes and rounds, for an excess of one class in one round."""
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
        if not (sizes == clients).all():
            message = "Every cohort should contain all clients."
            return Finding("participation/sampler-mismatch", Status.FAILED, message, tuple(numbers))
        return Finding("participation/passed", Status.PASSED, "Every cohort contains all clients.", tuple(numbers))
    p_values, drifted = _test_poisson_sizes(sizes, clients, q)
    p_values["p_busiest_client"] = _least(bdtrc(int(per_client.max()) - 1, rounds, q), clients)
    p_values |= _repeats(lists, clients, q)
    numbers += [("cohort_min", float(sizes.min())), ("cohort_max", float(sizes.max()))]
    numbers += [("drifted_by_round", float(drifted)), *p_values.items()]
    message = (
        f"Cohorts of {sizes.min()} to {sizes.max()} in {rounds} rounds agree with Poisson({q:g}) of {clients} clients."
    )
    return _judge_sampler(f"Poisson({q:g})", p_values, message, numbers, false_alarm_rate)


def _test_poisson_sizes(sizes: Ids, clients: int, q: float) -> tuple[dict[str, float], int]:
    """Return p-values of the sizes of Poisson cohorts, and the round of the strongest evidence of drift."""
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
    """Reject a sampler if any of its p-values is too small."""
    failed = [name for name, p in p_values.items() if p < false_alarm_rate / len(p_values)]
    if not failed:
        rate = false_alarm_rate if p_values else 0.0
        return Finding("participation/passed", Status.PASSED, message, tuple(numbers), false_alarm_rate=rate)
    if failed == ["p_drift"]:
        code, by = "participation/drift", f"{dict(numbers)['drifted_by_round']:.0f}"
        why = f"Cohort sizes drift: by round {by} they no longer agree with {sampler}, though each alone may. "
    else:
        code = "participation/sampler-mismatch"
        why = f"The sampler is not {sampler}: {', '.join(failed)} below {false_alarm_rate / len(p_values):.2g}. "
    why += "Only the unamplified claim remains."
    return Finding(code, Status.FAILED, why, tuple(numbers), false_alarm_rate=false_alarm_rate)


@check_cohorts.register
def _(cohorts: FixedSizeSampler, seen: Sequence[Cohort], false_alarm_rate: float = FALSE_ALARM) -> Finding:
    """Every cohort has the planned size; each client's rounds are Binomial(T, m/N); all overlaps are hypergeometric."""
    clients, size, rounds = cohorts.clients, cohorts.cohort_size, len(seen)
    for cohort in seen:
        if len(cohort.drawn) != size:
            return _report_size(cohort.round, len(cohort.drawn), size)
    lists, q = _lists(seen, clients), size / clients
    per_client = np.bincount(np.concatenate(lists), minlength=clients)
    extremes = (int(per_client.min()), int(per_client.max()))
    p_values = {
        "p_some_client": _least(sampler_tests.compute_two_sided_p_value(np.array(extremes), rounds, q), clients),
        **_repeats(lists, clients, q),
    }
    numbers = [("cohort_size", float(size)), *p_values.items()]
    message = (
        f"Every cohort has {size} of {clients} clients, each in {extremes[0]} to {extremes[1]} of {rounds} rounds."
    )
    return _judge_sampler(f"a draw of {size}", p_values, message, numbers, false_alarm_rate)


def _report_size(number: int, size: int, planned: int) -> Finding:
    message = f"Round {number} has {size} clients; the plan requires {planned}."
    return Finding("participation/cohort-size", Status.FAILED, message)


@check_cohorts.register
def _(cohorts: BallsInBinsSampler, seen: Sequence[Cohort], false_alarm_rate: float = FALSE_ALARM) -> Finding:
    """No client is in two rounds of a cycle; slots are uniform, independent of other cycles and of indices."""
    clients, length, lists = cohorts.clients, cohorts.cycle_length, _lists(seen, cohorts.clients)
    cycles = [_slots(clients, lists[first : first + length]) for first in range(0, len(lists), length)]
    known = [slots for slots in cycles if slots is not None]
    if len(known) < len(cycles):
        message = f"A client takes part more than once in a cycle of {length} rounds."
        return Finding("participation/out-of-order", Status.FAILED, message)
    whole = len(lists) // length
    missed = sum(int((slots < 0).sum()) for slots in known[:whole])
    sizes = np.array([ids.size for ids in lists])
    if _strays(known, cohorts.separation):
        message = f"A client's rounds differ modulo {cohorts.separation} between cycles."
        return Finding("participation/out-of-order", Status.FAILED, message)
    pairs = list(_iterate_cycle_slots(known, cohorts))
    moves = [_moves(one, other, among) for one, other, number, among in pairs if number < whole]
    groups = [_groups(one, other, among) for one, other, _, among in pairs]
    alone = len(known) if cohorts.separation == 1 else 1  # cycles with sizes independent of earlier ones
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
    message = f"No client took part twice in a cycle of {length} rounds; cohorts have {sizes.min()} to {sizes.max()} "
    message += f"clients; {missed} turns were missed."
    return _judge_sampler(f"balls in {length} bins", p_values, message, numbers, false_alarm_rate)


def _slots(clients: int, cycle: Sequence[Ids]) -> Ids | None:
    """Return each client's slot in a cycle, -1 for none; None if a client has two."""
    slots = np.full(clients, -1)
    for slot, here in enumerate(cycle):
        if (slots[here] >= 0).any():
            return None
        slots[here] = slot
    return slots


def _spread(sizes: Ids, known: Sequence[Ids], length: int) -> float:
    """Return a p-value for cycle sizes, each binomial of the remaining clients (of a whole cycle, of those present)."""
    each = [
        sampler_tests.count_remaining_in_cycle(cycle, cycle.sum() if cycle.size == length else slots.size, length)
        for cycle, slots in zip(np.split(sizes, range(length, sizes.size, length)), known, strict=True)
    ]
    left, rounds = (np.concatenate(column) for column in zip(*each, strict=True))
    return sampler_tests.bound_dispersion(sizes, left, 1 / rounds)


def _strays(known: Sequence[Ids], separation: int) -> bool:
    """Return whether a client's slots differ modulo the separation between cycles."""
    slots = np.stack(known)
    least = np.where(slots < 0, separation, slots % separation).min(axis=0)
    most = np.where(slots < 0, -1, slots % separation).max(axis=0)
    return bool((least < most).any())


def _iterate_cycle_slots(known: Sequence[Ids], cohorts: BallsInBinsSampler) -> Iterator[tuple[Ids, Ids, int, int]]:
    """Yield classes or earlier slots, independent slots, their cycle's number, and the number of possible slots.

    Slots are independent of client indices, and of earlier cycles given the value modulo the separation.
    """
    length, apart = cohorts.cycle_length, cohorts.separation
    for classes in sampler_tests.list_public_classes(cohorts.clients, length):
        yield from ((classes, slots, number, length) for number, slots in enumerate(known))
    drawn = [slots // apart for slots in known]  # -1 stays -1
    if length > apart:
        yield from ((drawn[i], drawn[j], j, length // apart) for i, j in sampler_tests.choose_pairs(len(known)))


def _moves(one: Ids, other: Ids, length: int) -> float:
    """Return the p-value of the most or least frequent shift, over clients present in both cycles."""
    both = (one >= 0) & (other >= 0)
    steps = np.bincount((other - one)[both] % length, minlength=length)
    return float(
        sampler_tests.compute_two_sided_p_value(np.array([steps.min(), steps.max()]), int(both.sum()), 1 / length).min()
    )


def _groups(one: Ids, other: Ids, length: int) -> float:
    """Return the least p-value for clients of one slot sharing a slot again."""
    first = one >= 0
    cells, together = np.unique((one * length + other)[first & (other >= 0)], return_counts=True)
    of = np.bincount(one[first], minlength=length)
    return float(sampler_tests.bound_excess(together, of[cells // length], 1 / length).min(initial=1.0))


@check_cohorts.register
def _(cohorts: CappedSampler, seen: Sequence[Cohort], false_alarm_rate: float = FALSE_ALARM) -> Finding:  # noqa: ARG001
    """Cohorts have the stated size while enough clients are below their cap, and no client exceeds the cap."""
    times = np.zeros(cohorts.clients, dtype=np.int64)
    for cohort in seen:
        due = min(cohorts.cohort_size, int((times < cohorts.max_participations).sum()))
        if len(cohort.drawn) != due:
            return _report_size(cohort.round, len(cohort.drawn), due)
        present = cohort.participants
        np.add.at(times, present[(present >= 0) & (present < times.size)], 1)
    busiest, many = int(times.max(initial=0)), int((times > 0).sum())
    numbers = (
        ("max_participations", cohorts.max_participations),
        ("busiest_client", busiest),
        ("clients_seen", many),
    )
    if busiest > cohorts.max_participations:
        message = f"A client took part {busiest} times; the noise was calibrated to {cohorts.max_participations}."
        return Finding("participation/above-maximum", Status.FAILED, message, numbers)
    message = f"{many} clients took part, at most {busiest} times each (cap {cohorts.max_participations})."
    return Finding("participation/passed", Status.PASSED, message, numbers)


@check_cohorts.register
def _(cohorts: RoundRobinSampler, seen: Sequence[Cohort], false_alarm_rate: float = FALSE_ALARM) -> Finding:  # noqa: ARG001
    """No client takes part out of turn; a missed turn does not weaken the claim."""
    missed = 0
    for cohort in seen:
        due = cohorts.due(cohort.round)
        early = len(cohort.drawn) - int(np.isin(cohort.drawn, due).sum())
        if early:
            message = f"Round {cohort.round} has {early} clients out of turn."
            return Finding("participation/out-of-order", Status.FAILED, message)
        missed += len(due) - len(cohort.drawn)
    message = f"All clients took part in turn, every {cohorts.cycle_length} rounds; {missed} turns were missed."
    return Finding("participation/passed", Status.PASSED, message, (("missed_turns", missed),))


def compare_cohort_sizes(cohorts: Cohorts, sizes: Ids, false_alarm_rate: float = FALSE_ALARM) -> Finding:
    """Test cohort sizes, if the participants are unknown; one client in every round would pass.

    Args:
        cohorts: the planned sampler.
        sizes: the number of clients in each round, in order; at least one round.
        false_alarm_rate: largest probability that all tests together reject a sound run.
    """
    agree = f"Cohorts of {sizes.min()} to {sizes.max()} in {sizes.size} rounds agree with"
    if sizes.max() > cohorts.clients:
        message = f"Round {sizes.argmax() + 1} has {sizes.max()} clients; N is {cohorts.clients}."
        return Finding("participation/cohort-size", Status.FAILED, message)
    match cohorts:
        case PoissonSampler(clients=clients, probability=q) if q < 1:
            p_values, drifted = _test_poisson_sizes(sizes, clients, q)
            numbers = [("planned_rate", q), ("observed_rate", float(sizes.mean()) / clients)]
            numbers += [("drifted_by_round", float(drifted)), *p_values.items()]
            sampler = f"Poisson({q:g})"
            message = f"{agree} {sampler} of {clients} clients."
            return _judge_sampler(sampler, p_values, message, numbers, false_alarm_rate)
        case BallsInBinsSampler(clients=clients, cycle_length=length) if length > 1:
            p_values = {
                "p_worst_round": _least(sampler_tests.compute_two_sided_p_value(sizes, clients, 1 / length), sizes.size)
            }
            sampler = f"balls in {length} bins"
            return _judge_sampler(sampler, p_values, f"{agree} {sampler}.", list(p_values.items()), false_alarm_rate)
        case FixedSizeSampler(cohort_size=due):
            most = least = np.full(sizes.size, due)
        case RoundRobinSampler():
            most = np.array([len(cohorts.due(number)) for number in range(1, sizes.size + 1)])
            least = np.zeros_like(most)  # a missed turn does not weaken the claim
        case CappedSampler(cohort_size=due):
            most, least = np.full(sizes.size, due), np.zeros(sizes.size, dtype=np.int64)  # few may remain below the cap
        case _:  # all clients, in every round
            most = least = np.full(sizes.size, cohorts.clients)
    wrong = np.flatnonzero((sizes < least) | (sizes > most))
    if wrong.size:
        return _report_size(wrong[0] + 1, sizes[wrong[0]], most[wrong[0]])
    return Finding("participation/passed", Status.PASSED, f"{agree} the plan.")
