"""Did clients take part as the plan's sampler says? Tests inside the trust boundary, on the curator's records.

The claim is charged at the *scheduled* sampling; observed counts are a diagnostic. A rejected sampler loses the
amplified claim: only the unamplified number remains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import singledispatch

import numpy as np
from scipy.special import bdtr, bdtrc, chdtr, chdtrc

from epsilog.terms import CustodyRecord, Finding, Scheme, Verdict
from epsilog.terms.cohorts import CappedCohorts, Cohorts, CyclicCohorts, PoissonCohorts

FALSE_ALARM = 1e-6  # how often a sound run is rejected, over all tests of this module together
NOT_HERE = "The curator's records are not here."


def check_custody(custody: Sequence[CustodyRecord] | None, rounds: Sequence[int], scheme: Scheme) -> Finding:
    """The curator's lists are of the public rounds, and nobody is in a round twice: then one contribution was clipped.

    Args:
        custody: the curator's records; None where they are not here.
        rounds: the rounds of the public records, in their order.
        scheme: who could take part.
    """
    if custody is None:
        return Finding("custody/not-checked", Verdict.NOT_CHECKED, NOT_HERE, lacks="custody")
    if [record.round for record in custody] != list(rounds):
        says = "The curator's records are of other rounds than the public ones."
        return Finding("custody/other-rounds", Verdict.FAILED, says)
    for record in custody:
        ids = record.participants
        if len(set(ids)) != len(ids) or any(not 0 <= i < scheme.clients for i in ids):
            says = f"Round {record.round} lists a client twice, or one outside 0..{scheme.clients - 1}."
            return Finding("custody/impossible-list", Verdict.FAILED, says)
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
    sizes = np.array([len(record.participants) for record in custody])
    inside = [i for record in custody for i in record.participants if 0 <= i < clients]  # the others fail elsewhere
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
    failed = [name for name, p in p_values.items() if p < FALSE_ALARM / len(p_values)]
    if failed:
        says = f"The sampler is not Poisson({q:g}): {', '.join(failed)} below {FALSE_ALARM / len(p_values):.2g}. "
        return Finding(
            "participation/another-sampler",
            Verdict.FAILED,
            says + "Only the unamplified claim remains.",
            tuple(numbers),
        )
    says = (
        f"Cohorts of {sizes.min()} to {sizes.max()} in {rounds} rounds agree with Poisson({q:g}) of {clients} clients."
    )
    return Finding("participation/holds", Verdict.PASSED, says, tuple(numbers))


@_tested.register
def _(cohorts: CappedCohorts, custody: Sequence[CustodyRecord]) -> Finding:
    """Cohorts have the stated size while enough clients are below their cap, and nobody passes it."""
    times: Counter[int] = Counter()
    for record in custody:
        free = cohorts.clients - sum(1 for taken in times.values() if taken >= cohorts.max_participations)
        due = min(cohorts.cohort_size, free)
        if len(record.participants) != due:
            says = f"Round {record.round} has {len(record.participants)} clients where {due} were due."
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
        early = [i for i in record.participants if i not in due]
        if early:
            says = f"Round {record.round} has {len(early)} clients whose turn it was not."
            return Finding("participation/out-of-turn", Verdict.FAILED, says)
        missed += len(due) - len(record.participants)
    says = f"Everybody took part in turn, every {cohorts.cycle_length} rounds; {missed} turns were missed."
    return Finding("participation/holds", Verdict.PASSED, says, (("missed_turns", missed),))
