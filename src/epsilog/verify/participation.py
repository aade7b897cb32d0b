"""Did clients take part as the plan's sampler says? Tests inside the trust boundary, on the curator's records.

The claim is charged at the *scheduled* sampling; observed counts are a diagnostic. A rejected sampler loses the
amplified claim: only the unamplified number remains.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, chdtr, chdtrc, rel_entr

from epsilog.terms import CustodyRecord, Finding, RoundRecord, Scheme, Verdict
from epsilog.terms.cohorts import (
    BinnedCohorts,
    CappedCohorts,
    Cohorts,
    CyclicCohorts,
    FixedSizeCohorts,
    PoissonCohorts,
)

FALSE_ALARM = 1e-6  # how often a sound run is rejected, over all tests of this module together
NOT_HERE = "The curator's records are not here."


def check_custody(custody: Sequence[CustodyRecord] | None, records: Sequence[RoundRecord], scheme: Scheme) -> Finding:
    """The curator's lists are of the public rounds, and nobody is in a round twice: then one contribution was clipped.

    A round was given up exactly where too few replied.

    Args:
        custody: the curator's records; None where they are not here.
        records: the public records.
        scheme: who could take part.
    """
    if custody is None:
        return Finding("custody/not-checked", Verdict.NOT_CHECKED, NOT_HERE, lacks="custody")
    if [record.round for record in custody] != [record.round for record in records]:
        says = "The curator's records are of other rounds than the public ones."
        return Finding("custody/other-rounds", Verdict.FAILED, says)
    for record in custody:
        ids = record.drawn
        if len(set(ids)) != len(ids) or any(not 0 <= i < scheme.clients for i in ids):
            says = f"Round {record.round} lists a client twice, or one outside 0..{scheme.clients - 1}."
            return Finding("custody/impossible-list", Verdict.FAILED, says)
    gone: set[int] = set()
    for record in custody:
        gone |= set(record.withdrawn)
        if gone & set(record.participants):
            says = f"Round {record.round} has a client that had withdrawn."
            return Finding("custody/withdrawn-takes-part", Verdict.FAILED, says)
    for record, public in zip(custody, records, strict=True):
        replies = len(record.participants) - record.silent
        if public.given_up != scheme.gives_up(replies):
            says = f"Round {record.round} had {replies} replies, and was {'' if public.given_up else 'not '}given up."
            return Finding("custody/other-replies", Verdict.FAILED, says)
    return Finding(
        "custody/holds", Verdict.PASSED, f"The curator's {len(custody)} lists name each client at most once."
    )


def check_participation(custody: Sequence[CustodyRecord] | None, scheme: Scheme) -> Finding:
    """Tests who took part against the scheme; without the curator's file nothing is checked."""
    if custody is None:
        return Finding("participation/not-checked", Verdict.NOT_CHECKED, NOT_HERE, lacks="custody")
    if not custody:
        return Finding("participation/not-checked", Verdict.NOT_CHECKED, "The curator's records hold no round.")
    return _tested(scheme.cohorts, custody)


@singledispatch
def _tested(cohorts: Cohorts, custody: Sequence[CustodyRecord]) -> Finding:  # noqa: ARG001
    return Finding("participation/not-checked", Verdict.NOT_CHECKED, f"No test is known for {type(cohorts).__name__}.")


def _two_sided(count: int, trials: int, probability: float) -> float:
    """Twice the smaller tail of Binomial(trials, probability) at ``count``, at most 1."""
    below = float(bdtr(count, trials, probability))
    above = float(bdtrc(count - 1, trials, probability)) if count > 0 else 1.0
    return min(1.0, 2 * min(below, above))


@_tested.register
def _(cohorts: PoissonCohorts, custody: Sequence[CustodyRecord]) -> Finding:
    """Counts per round are Binomial(N, q), per client Binomial(T, q); spread is neither too small nor too large."""
    clients, rounds, q = cohorts.clients, len(custody), cohorts.probability
    sizes = np.array([len(record.drawn) for record in custody])
    inside = [i for record in custody for i in record.drawn if 0 <= i < clients]  # the others fail elsewhere
    per_client = np.bincount(inside, minlength=clients)
    numbers: list[tuple[str, float]] = [("planned_rate", q), ("observed_rate", float(sizes.mean()) / clients)]
    if q == 1:
        holds = bool((sizes == clients).all())
        says = f"Every cohort {'is' if holds else 'should be'} everyone."
        if not holds:
            return Finding("participation/another-sampler", Verdict.FAILED, says, tuple(numbers))
        return Finding("participation/holds", Verdict.PASSED, says, tuple(numbers))
    dispersion = float(((sizes - clients * q) ** 2).sum() / (clients * q * (1 - q)))  # about chi-square, rounds degrees
    p_values = {
        "p_total": _two_sided(int(sizes.sum()), clients * rounds, q),
        "p_worst_round": min(1.0, rounds * min(_two_sided(int(size), clients, q) for size in sizes)),
        "p_busiest_client": min(1.0, clients * float(bdtrc(int(per_client.max()) - 1, rounds, q))),
        "p_spread": min(1.0, 2 * float(min(chdtr(rounds, dispersion), chdtrc(rounds, dispersion)))),
    }
    numbers += [("cohort_min", float(sizes.min())), ("cohort_max", float(sizes.max())), *p_values.items()]
    says = (
        f"Cohorts of {sizes.min()} to {sizes.max()} in {rounds} rounds agree with Poisson({q:g}) of {clients} clients."
    )
    return _weighed(f"Poisson({q:g})", p_values, says, numbers)


def _weighed(sampler: str, p_values: dict[str, float], says: str, numbers: Sequence[tuple[str, float]]) -> Finding:
    """Rejects a sampler one of whose tests is too unlikely."""
    failed = [name for name, p in p_values.items() if p < FALSE_ALARM / len(p_values)]
    if not failed:
        return Finding("participation/holds", Verdict.PASSED, says, tuple(numbers))
    why = f"The sampler is not {sampler}: {', '.join(failed)} below {FALSE_ALARM / len(p_values):.2g}. "
    why += "Only the unamplified claim remains."
    return Finding("participation/another-sampler", Verdict.FAILED, why, tuple(numbers))


def _misfit(seen: int, trials: int, probability: float) -> float:
    """Bounds the chance that a mean of bounded draws is so far off on its side, twice (Hoeffding 1963, Theorem 1).

    It holds for sums of hypergeometric counts as for binomial ones (his Theorem 4).
    """
    if not trials:
        return 1.0
    share = seen / trials
    apart = rel_entr(share, probability) + rel_entr(1 - share, 1 - probability)
    return min(1.0, 2 * float(np.exp(-trials * apart)))


@_tested.register
def _(cohorts: FixedSizeCohorts, custody: Sequence[CustodyRecord]) -> Finding:
    """Every cohort has the size; each client's rounds are Binomial(T, m/N); neighbouring cohorts share m m/N."""
    clients, size, rounds = cohorts.clients, cohorts.cohort_size, len(custody)
    for record in custody:
        if len(record.drawn) != size:
            says = f"Round {record.round} has {len(record.drawn)} clients where {size} were due."
            return Finding("participation/cohort-size", Verdict.FAILED, says)
    inside = [i for record in custody for i in record.drawn if 0 <= i < clients]
    per_client, q = np.bincount(inside, minlength=clients), size / clients
    pairs = list(itertools.pairwise(set(record.drawn) for record in custody))
    shared = sum(len(one & other) for one, other in pairs)
    extremes = (int(per_client.min()), int(per_client.max()))
    p_values = {
        "p_some_client": min(1.0, clients * min(_two_sided(times, rounds, q) for times in extremes)),
        "p_shared": _misfit(shared, len(pairs) * size, q),
    }
    numbers = [("cohort_size", float(size)), ("shared_by_neighbours", float(shared)), *p_values.items()]
    says = f"Every cohort has {size} of {clients} clients, each in {extremes[0]} to {extremes[1]} of {rounds} rounds."
    return _weighed(f"a draw of {size}", p_values, says, numbers)


@_tested.register
def _(cohorts: BinnedCohorts, custody: Sequence[CustodyRecord]) -> Finding:
    """Nobody is in two rounds of a cycle; sizes are Binomial(N, 1/b), and so are all moves from cycle to cycle."""
    clients, length = cohorts.clients, cohorts.cycle_length
    cycles = [_slots(cohorts, custody[first : first + length]) for first in range(0, len(custody), length)]
    known = [slots for slots in cycles if slots is not None]
    if len(known) < len(cycles):
        says = f"A client takes part more than once in a cycle of {length} rounds."
        return Finding("participation/out-of-turn", Verdict.FAILED, says)
    missed = sum(int((slots < 0).sum()) for slots in known[: len(custody) // length])
    sizes = [len(record.drawn) for record in custody]
    moves = [_moves(one, other, length) for one, other in itertools.pairwise(known)]
    p_values = {
        "p_worst_round": min(1.0, len(sizes) * min(_two_sided(size, clients, 1 / length) for size in sizes)),
        "p_moves": min([1.0, *(length * len(moves) * p for p in moves)]),
    }
    if length == 1:
        p_values = {}
    numbers = [
        ("missed_turns", float(missed)),
        ("cohort_min", min(sizes)),
        ("cohort_max", max(sizes)),
        *p_values.items(),
    ]
    says = f"Nobody took part twice in a cycle of {length} rounds; cohorts have {min(sizes)} to {max(sizes)} clients; "
    return _weighed(f"balls in {length} bins", p_values, f"{says}{missed} turns were missed.", numbers)


def _slots(cohorts: BinnedCohorts, cycle: Sequence[CustodyRecord]) -> NDArray[np.int64] | None:
    """Each client's slot in a cycle, -1 where it has none; None where one has two."""
    slots = np.full(cohorts.clients, -1)
    for slot, record in enumerate(cycle):
        here = np.array([i for i in record.drawn if 0 <= i < cohorts.clients], dtype=np.int64)
        if (slots[here] >= 0).any():
            return None
        slots[here] = slot
    return slots


def _moves(one: NDArray[np.int64], other: NDArray[np.int64], length: int) -> float:
    """How likely the most or least frequent move around the cycle is, of those who are seen in both cycles."""
    if other.max() < length - 1:  # cut short: who is due later is not seen
        return 1.0
    both = (one >= 0) & (other >= 0)
    steps = np.bincount((other - one)[both] % length, minlength=length)
    return min(_two_sided(int(times), int(both.sum()), 1 / length) for times in (steps.min(), steps.max()))


@_tested.register
def _(cohorts: CappedCohorts, custody: Sequence[CustodyRecord]) -> Finding:
    """Cohorts have the stated size while enough clients are below their cap, and nobody passes it."""
    times: Counter[int] = Counter()
    for record in custody:
        free = cohorts.clients - sum(1 for taken in times.values() if taken >= cohorts.max_participations)
        due = min(cohorts.cohort_size, free)
        if len(record.drawn) != due:
            says = f"Round {record.round} has {len(record.drawn)} clients where {due} were due."
            return Finding("participation/cohort-size", Verdict.FAILED, says)
        times.update(record.participants)
    busiest = max(times.values(), default=0)
    numbers = (
        ("max_participations", cohorts.max_participations),
        ("busiest_client", busiest),
        ("clients_seen", len(times)),
    )
    if busiest > cohorts.max_participations:
        says = f"A client took part {busiest} times; the noise was calibrated to {cohorts.max_participations}."
        return Finding("participation/too-often", Verdict.FAILED, says, numbers)
    says = f"Nobody took part more than {busiest} times (cap {cohorts.max_participations}); "
    says += f"{len(times)} clients were seen."
    return Finding("participation/holds", Verdict.PASSED, says, numbers)


@_tested.register
def _(cohorts: CyclicCohorts, custody: Sequence[CustodyRecord]) -> Finding:
    """Nobody takes part out of turn; who misses a turn weakens nothing."""
    missed = 0
    for record in custody:
        due = cohorts.due(record.round)
        early = [i for i in record.drawn if i not in due]
        if early:
            says = f"Round {record.round} has {len(early)} clients whose turn it was not."
            return Finding("participation/out-of-turn", Verdict.FAILED, says)
        missed += len(due) - len(record.drawn)
    says = f"Everybody took part in turn, every {cohorts.cycle_length} rounds; {missed} turns were missed."
    return Finding("participation/holds", Verdict.PASSED, says, (("missed_turns", missed),))
