"""Do a run's logs agree with what was claimed of it? One function a check; each says what it could not see."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from epsilog.schemes import Scheme
from epsilog.schemes.cohorts import RoundRobinSampler
from epsilog.terms import Finding, Status, delta_finding
from epsilog.verification.clipping import ROUNDING
from epsilog.verification.hidden import compute_alarm, weigh_at
from epsilog.verification.logs.claims import Claim
from epsilog.verification.logs.log_data import LogData, ParticipationData, RoundLog
from epsilog.verification.logs.tables import ReadSummary
from epsilog.verification.noise import compare_padding
from epsilog.verification.participation import check_cohort_sizes_drawn, compare_cohort_sizes
from epsilog.verification.reuse import check_noise_reuse
from epsilog.verification.sampler_tests import Ids, Numbers

CLOSE = 1e-6  # relatively: how well a number in single precision is kept


def check_logs(logs: LogData, claim: Claim, false_alarm: float, *, public: bool = False) -> tuple[Finding, ...]:
    """Every check on the logs, in an auditor's order.

    Args:
        logs: as read.
        claim: what they are held against.
        false_alarm: how often each statistical check may reject a sound run, or warn of it where draws are hidden.
        public: whether whoever sees the outcome may see the logs: then no draw is hidden.
    """
    level = false_alarm if public else min(false_alarm, compute_alarm(claim.guarantee))
    return (
        *check_log_columns(logs),
        check_log_population(logs, claim),
        check_log_delta(logs, claim),
        check_log_rounds(logs, claim.scheme),
        check_log_attempts(logs.rounds),
        check_log_settings(logs.rounds, claim.scheme),
        check_log_norms(logs, claim.scheme),
        check_log_divisor(logs, claim),
        check_log_padding(logs, claim.scheme, false_alarm),
        check_log_participation(logs, claim.scheme),
        weigh_at(level, lambda one: check_log_sampling(logs, claim.scheme, one), warned=false_alarm),
    )


def check_log_columns(logs: LogData) -> Iterator[Finding]:
    """What was read, and rows that a log of a run as it went would not have."""
    copies = {
        "rounds": logs.rounds.copies if logs.rounds else 0,
        "participation": logs.lists.copies if logs.lists else 0,
        "enrolment": logs.enrolled.copies if logs.enrolled else 0,
    }
    numbers = tuple(
        (f"{told.name}_{what}", float(getattr(told, what))) for told in logs.told for what in ("rows", "left_out")
    )
    if any(copies.values()):
        many = ", ".join(f"{count} of {name}" for name, count in copies.items() if count)
        says = f"Rows are there twice, word for word ({many}); each was counted once."
        found = tuple((f"{name}_copies", float(count)) for name, count in copies.items() if count)
        yield Finding("log/duplicated-rows", Status.WARNED, says, numbers + found)
    if logs.lists is not None and logs.lists.late:
        says = f"{logs.lists.late} rows have a time outside the round that they name; each was counted there."
        yield Finding("log/late-rows", Status.WARNED, says, (*numbers, ("late", float(logs.lists.late))))
    if logs.rounds is not None and (backwards := int((np.diff(logs.rounds.number) < 0).sum())):
        says = f"{backwards} rows of the log of rounds name an earlier round than the row before."
        yield Finding("log/out-of-order", Status.WARNED, says, (*numbers, ("backwards", float(backwards))))
    if logs.rounds is not None and (earlier := _earlier(logs.rounds)):
        says = f"{earlier} rounds ended before the round in front of them did, by the log of rounds."
        yield Finding("log/times-backwards", Status.WARNED, says, (*numbers, ("earlier", float(earlier))))
    if logs.padding_copies:
        says = f"{logs.padding_copies} rows of padding are there twice, with the same round and the same value."
        yield Finding("log/repeated-padding", Status.WARNED, says, (*numbers, ("copies", float(logs.padding_copies))))
    for told in logs.told:
        if told.like_read:
            says = f"{told.like_read} of {told.left_out} rows of {told.file} that are left out by where "
            says += f"({_filter(told)}) could be read like the others: what they say was not looked at."
            yield Finding("log/rows-left-out", Status.WARNED, says, (*numbers, ("like_read", float(told.like_read))))
    says = "; ".join(_read(told) for told in logs.told)
    yield Finding("log/holds", Status.PASSED, f"Every value is in its bounds. {says}.", numbers)


def _read(told: ReadSummary) -> str:
    says = f"{told.rows} rows of {told.file}"
    says += f", {told.left_out} left out by where ({_filter(told)})" if told.where else ""
    return says + (f", columns not read: {', '.join(told.unread)}" if told.unread else "")


def _filter(told: ReadSummary) -> str:
    return ", ".join(f"{column} = {value!r}" for column, value in told.where.items())


def _earlier(rounds: RoundLog) -> int:
    """Rounds that ended before the one in front of them."""
    if rounds.ended is None:
        return 0
    in_order = rounds.ended[np.argsort(rounds.number, kind="stable")]
    return int((np.diff(in_order) < 0).sum())


def check_log_population(logs: LogData, claim: Claim) -> Finding:
    """N as claimed is how many could take part: with fewer, each was drawn more often."""
    if logs.enrolled is None:
        says = f"No enrolment list was given: N = {claim.scheme.clients} is taken as claimed."
        return Finding("population/not-checked", Status.NOT_CHECKED, says, lacks="enrolment")
    counted, claimed = logs.enrolled.population, claim.scheme.clients
    numbers = (("claimed", float(claimed)), ("counted", float(counted)), ("listed", float(len(logs.enrolled.names))))
    says = f"{counted} of {len(logs.enrolled.names)} on the enrolment list could take part; N = {claimed} is claimed."
    run = get_run_period(logs)
    if logs.enrolled.counted_on > (time.time() if run is None else run[1]):
        says = "N is counted on a date after the last time that is logged, or on one that has not come."
        return Finding("population/counted-later", Status.FAILED, says, numbers)
    if counted < claimed:
        return Finding("population/overstated", Status.FAILED, says, numbers)
    if run is not None and (there := logs.enrolled.at(run[0])) < claimed:
        says = (
            f"N = {claimed} is claimed, and {there} on the enrolment list were there at the first time that is logged."
        )
        return Finding("population/counted-earlier", Status.WARNED, says, numbers)
    if counted > claimed:
        return Finding("population/understated", Status.WARNED, says, numbers)
    return Finding("population/holds", Status.PASSED, says, numbers)


def get_run_period(logs: LogData) -> tuple[float, float] | None:
    """The first and the last time that the run logged; None where it logged none."""
    times = [] if logs.lists is None or logs.lists.span is None else list(logs.lists.span)
    if logs.rounds is not None and logs.rounds.ended is not None:
        times += [float(logs.rounds.ended.min()), float(logs.rounds.ended.max())]
    return (min(times), max(times)) if times else None


def check_log_delta(logs: LogData, claim: Claim) -> Finding:
    """Delta is below 1/N, for N at the time."""
    population = claim.guarantee.population if logs.enrolled is None else max(1, logs.enrolled.population)
    return delta_finding(claim.guarantee.delta, population=population)


def list_round_numbers(logs: LogData) -> Ids:
    """The rounds that any log names, ascending."""
    named = [logs.rounds.number] if logs.rounds is not None else []
    named += [logs.lists.members // logs.lists.width] if logs.lists is not None else []
    named += [np.array(list(logs.padding), dtype=np.int64)] if logs.padding else []
    return np.unique(np.concatenate(named)) if named else np.zeros(0, dtype=np.int64)


def check_log_rounds(logs: LogData, scheme: Scheme) -> Finding:
    """Every planned round is logged once, and no log names another one.

    A round in which nobody was has no row in a log of clients, so those alone may have gaps.
    """
    planned, named = scheme.rounds, list_round_numbers(logs)
    last = int(named.max(initial=0))
    counted = (("planned", float(planned)), ("recorded", float(last)))
    if logs.rounds is not None:
        numbers, times = np.unique(logs.rounds.number, return_counts=True)
        if numbers.size != numbers[-1] or (times > 1).any():
            missing = np.setdiff1d(np.arange(1, min(int(numbers[-1]), planned + numbers.size) + 1), numbers)
            says = f"{numbers[-1] - numbers.size} rounds are missing (such as {missing[:5].tolist()}), and "
            says += f"{int((times > 1).sum())} are there more than once, in different words."
            return Finding("rounds/out-of-order", Status.FAILED, says, counted)
        if (alone := np.setdiff1d(named, numbers)).size:
            says = f"{alone.size} rounds that other logs name are not in the log of rounds, such as "
            return Finding("rounds/not-in-the-log", Status.FAILED, f"{says}{alone[:5].tolist()}.", counted)
    if last > planned:
        return Finding("rounds/too-many", Status.FAILED, f"{last} rounds were run, {planned} were planned.", counted)
    if last < planned:
        says = f"{last} of {planned} planned rounds are logged: the run stopped early, or the log was cut off."
        return Finding("rounds/stopped-early", Status.WARNED, says, counted)
    return Finding("rounds/holds", Status.PASSED, f"All {planned} rounds are logged.", counted)


def check_log_attempts(rounds: RoundLog | None) -> Finding:
    """Who runs a round again can choose between its outcomes: every attempt counts."""
    if rounds is None or rounds.attempts is None:
        says = "No log says how often a round was begun."
        return Finding("attempts/not-checked", Status.NOT_CHECKED, says, lacks="attempts")
    begun, many = int(rounds.attempts.size), int(rounds.attempts.sum())
    numbers = (("rounds_begun", float(begun)), ("attempts", float(many)))
    if many == begun:
        return Finding("attempts/holds", Status.PASSED, "Every round was begun once.", numbers)
    says = f"{many - begun} further attempts at rounds are logged. "
    says += "The claim stands if nothing of an attempt was seen before the next."
    return Finding("attempts/repeated", Status.WARNED, says, numbers)


def compute_noise_multipliers(rounds: RoundLog | None, scheme: Scheme) -> Numbers | None:
    """Logged noise over logged clip norm, round by round; what is not logged is as claimed; None where neither is."""
    if rounds is None or (rounds.noise_stddev is None and rounds.clip_norm is None):
        return None
    clip_norm = np.full(rounds.number.size, scheme.clip_norm) if rounds.clip_norm is None else rounds.clip_norm
    noise = scheme.noise_stddev if rounds.noise_stddev is None else rounds.noise_stddev
    with np.errstate(divide="ignore", invalid="ignore"):
        found = noise / clip_norm
    return np.asarray(np.where(clip_norm > 0, found, np.inf))  # nothing passes a clip norm of 0


def check_log_settings(rounds: RoundLog | None, scheme: Scheme) -> Finding:
    """The logged noise is, over the logged clip norm, no less than claimed. Noise that is not logged is as claimed."""
    found = compute_noise_multipliers(rounds, scheme)
    if found is None:
        says = "No log says which clip norm and which noise were set."
        return Finding("clipping/not-checked", Status.NOT_CHECKED, says, lacks="settings")
    claimed, low, high = scheme.noise_multiplier, float(found.min()), float(found.max())
    numbers = (("claimed_multiplier", claimed), ("lowest_multiplier", low), ("highest_multiplier", min(high, 1e300)))
    if low < claimed * (1 - CLOSE):
        weak = int((found < claimed * (1 - CLOSE)).sum())
        says = f"In {weak} rounds the noise that was set is less than {claimed:g} clip norms, down to {low:.6g}."
        return Finding("clipping/other-settings", Status.FAILED, says, numbers)
    if high > claimed * (1 + CLOSE):
        says = (
            f"The noise that was set is up to {high:.6g} clip norms, where {claimed:g} is claimed: is its unit right?"
        )
        return Finding("clipping/more-noise", Status.WARNED, says, numbers)
    clips = None if rounds is None else rounds.clip_norm
    if clips is not None and not np.allclose(clips, scheme.clip_norm, rtol=CLOSE):
        says = (
            f"Clip norms are {clips.min():g} to {clips.max():g}, where {scheme.clip_norm:g} is claimed; noise followed."
        )
        return Finding("clipping/another-norm", Status.WARNED, says, numbers)
    says = f"The noise that was set is {claimed:g} clip norms in every round."
    return Finding("clipping/holds", Status.PASSED, says, numbers)


def check_log_norms(logs: LogData, scheme: Scheme) -> Finding:
    """No contribution is longer than its round's clip norm, over all groups of parameters together."""
    if logs.lists is None or logs.lists.largest_norm is None:
        return Finding("norms/not-checked", Status.NOT_CHECKED, "No log has norms of contributions.", lacks="norms")
    limits = np.full(logs.lists.rounds, scheme.clip_norm)
    if logs.rounds is not None and logs.rounds.clip_norm is not None:
        here = logs.rounds.number <= limits.size
        limits[logs.rounds.number[here] - 1] = logs.rounds.clip_norm[here]
    largest = np.nan_to_num(logs.lists.largest_norm, nan=0.0)
    over = np.flatnonzero(largest > limits * (1 + ROUNDING)) + 1
    numbers = (("clip_norm", float(limits.max())), ("largest_norm", float(largest.max())))
    if over.size:
        says = f"{over.size} rounds hold norms above the clip norm, such as {over[:5].tolist()}."
        return Finding("norms/too-large", Status.FAILED, says, numbers)
    says = f"No norm exceeds {limits.max():g} (largest {largest.max():.6g})."
    return Finding("norms/holds", Status.PASSED, says, numbers)


def get_cohort_sizes(logs: LogData) -> Ids | None:
    """How many took part, round by round from the first; None where no log says."""
    if logs.lists is not None:
        return _padded_with_zeros(logs.lists.sizes, int(logs.rounds.number.max()) if logs.rounds else 0)
    if logs.rounds is None or logs.rounds.cohort is None:
        return None
    return np.asarray(logs.rounds.cohort[np.argsort(logs.rounds.number, kind="stable")])


def _padded_with_zeros(sizes: Ids, rounds: int) -> Ids:
    return np.concatenate([sizes, np.zeros(max(0, rounds - sizes.size), dtype=np.int64)])


def check_log_divisor(logs: LogData, claim: Claim) -> Finding:
    """The divisor is one public number: the size of the cohort that came about is a function of the data."""
    if logs.rounds is None or logs.rounds.divisor is None:
        says = "No log says what noisy sums were divided by."
        return Finding("divisor/not-checked", Status.NOT_CHECKED, says, lacks="divisor")
    divisor, sizes = logs.rounds.divisor, _get_cohort_sizes(logs)
    numbers = (("smallest", float(divisor.min())), ("largest", float(divisor.max())))
    if divisor.max() > divisor.min() * (1 + CLOSE):
        if sizes is not None and np.allclose(divisor, np.maximum(sizes, 1), rtol=CLOSE):
            says = "Sums were divided by the cohort that came about, which no accountant's analysis covers."
            return Finding("divisor/realised-cohort", Status.FAILED, says, numbers)
        says = (
            f"The divisor changes from round to round ({divisor.min():g} to {divisor.max():g}): what does it depend on?"
        )
        return Finding("divisor/varies", Status.FAILED, says, numbers)
    if claim.divisor is not None and not np.allclose(divisor, claim.divisor, rtol=CLOSE):
        says = f"Sums were divided by {divisor[0]:g}, where {claim.divisor:g} is claimed."
        return Finding("divisor/another", Status.FAILED, says, numbers)
    return Finding("divisor/holds", Status.PASSED, f"Every sum was divided by {divisor[0]:g}.", numbers)


def _get_cohort_sizes(logs: LogData) -> Ids | None:
    """The cohort of each row of the log of rounds."""
    assert logs.rounds is not None
    if logs.rounds.cohort is not None:
        return logs.rounds.cohort
    sizes = get_cohort_sizes(logs)
    return None if sizes is None else np.asarray(sizes[logs.rounds.number - 1])


@dataclass(frozen=True, slots=True)
class PaddingRound:
    """A round with noise on sums that are truly 0; as ``reuse.Padded`` says."""

    round: int
    padding: tuple[float, ...]


def rescale_padding(logs: LogData, scheme: Scheme) -> list[PaddingRound]:
    """Padding in units of the claimed clip norm, where rounds were clipped otherwise."""
    scale: dict[int, float] = {}
    if logs.rounds is not None and logs.rounds.clip_norm is not None:
        clips = zip(logs.rounds.number.tolist(), logs.rounds.clip_norm.tolist(), strict=True)
        scale = {number: scheme.clip_norm / clip for number, clip in clips if clip > 0}
    found = sorted((logs.padding or {}).items())
    return [
        PaddingRound(number, tuple((values * scale.get(number, 1.0)).tolist()))
        for number, values in found
        if values.size
    ]


def check_log_padding(logs: LogData, scheme: Scheme, false_alarm: float) -> Finding:
    """Noise where the true sum is 0 has the claimed standard deviation, in every round, and none of it comes again."""
    found = _of_padding(logs, scheme, false_alarm)
    return replace(found, false_alarm=false_alarm) if found.false_alarm else found


def _of_padding(logs: LogData, scheme: Scheme, false_alarm: float) -> Finding:
    """Half of the false alarms are for noise that comes again, half for its size."""
    rounds = rescale_padding(logs, scheme)
    again = check_noise_reuse(rounds, scheme.noise_stddev, logs.digits, false_alarm / 2) if rounds else None
    if again is not None and again.verdict is Status.FAILED:
        return again
    found = compare_padding(rounds, scheme.noise_stddev, false_alarm / 2) if rounds else None
    if found is None:
        says = "No log has noise on sums that are truly 0, so what was added is not known: only what was set."
        return Finding("noise/not-checked", Status.NOT_CHECKED, says, lacks="padding")
    bare = list_rounds_without_padding(logs, rounds)
    if bare.size and found.verdict is not Status.FAILED:
        says = f"{bare.size} rounds have no padding, such as {bare[:5].tolist()}."
        counted = (("rounds_without_padding", float(bare.size)),)
        return Finding("noise/not-checked", Status.NOT_CHECKED, says, counted, lacks="padding")
    return found if again is None or found.verdict is Status.FAILED else again


def list_rounds_without_padding(logs: LogData, rounds: Sequence[PaddingRound]) -> Ids:
    """The rounds of the run, up to the last that any log names, whose noise nobody logged."""
    run = np.arange(1, int(list_round_numbers(logs).max(initial=0)) + 1)
    return np.setdiff1d(run, np.array([one.round for one in rounds], dtype=np.int64))


def check_log_participation(logs: LogData, scheme: Scheme) -> Finding:
    """Each round's list names nobody twice, nobody from outside, and as many as the log of rounds says."""
    lists = logs.lists
    if lists is None:
        says = "No log names who took part: one client in every round would pass unseen."
        return Finding("custody/not-checked", Status.NOT_CHECKED, says, lacks="clients")
    numbers = (("clients", float(lists.clients)), ("repeated", float(lists.repeated - lists.copies)))
    if lists.repeated > lists.copies:
        says = f"{lists.repeated - lists.copies} rows name a client that is in the round already, in other words."
        return Finding("custody/impossible-list", Status.FAILED, says, numbers)
    if lists.withdrawn:
        says = f"{lists.withdrawn} clients took part before they had joined, or after they had left."
        return Finding("custody/withdrawn-takes-part", Status.FAILED, says, numbers)
    if lists.outside or lists.clients > scheme.clients:
        says = f"{lists.clients} clients took part; {lists.outside} of them do not count to the N = {scheme.clients}."
        return Finding("custody/impossible-list", Status.FAILED, says, numbers)
    if logs.rounds is not None and logs.rounds.cohort is not None:
        sizes = _padded_with_zeros(lists.sizes, int(logs.rounds.number.max()))
        other = logs.rounds.number[sizes[logs.rounds.number - 1] != logs.rounds.cohort]
        if other.size or lists.rounds > logs.rounds.number.max():
            says = f"The log of rounds counts others than the list of clients, as in rounds {other[:5].tolist()}."
            return Finding("custody/other-cohorts", Status.FAILED, says, numbers)
    return Finding("custody/holds", Status.PASSED, f"{lists.clients} clients, nobody twice in a round.", numbers)


def check_log_sampling(logs: LogData, scheme: Scheme, false_alarm: float) -> Finding:
    """Who took part, or at least how many, agrees with the claimed sampler; see ``verify.participation``."""
    sizes = get_cohort_sizes(logs)
    if sizes is None or not sizes.size:
        says = "No log says how many took part in a round."
        return Finding("participation/not-checked", Status.NOT_CHECKED, says, lacks="cohorts")
    if logs.lists is None:
        return compare_cohort_sizes(scheme.cohorts, sizes, false_alarm)
    if isinstance(scheme.cohorts, RoundRobinSampler):
        return _in_turn(logs.lists, scheme.cohorts.cycle_length)
    if sizes.size > scheme.rounds:
        says = f"{sizes.size} rounds were run where {scheme.rounds} were planned, so no list is held against the plan."
        counted = (("planned", float(scheme.rounds)), ("recorded", float(sizes.size)))
        return Finding("participation/not-checked", Status.NOT_CHECKED, says, counted)
    return check_cohort_sizes_drawn(scheme.cohorts, list(logs.lists.cohorts(sizes.size)), false_alarm)


def _in_turn(lists: ParticipationData, length: int) -> Finding:
    """Everybody's rounds are whole cycles apart. Whose turn comes first, a name does not say."""
    places, turn = lists.members % lists.width, (lists.members // lists.width - 1) % length
    first, last = np.full(lists.width, length), np.full(lists.width, -1)
    np.minimum.at(first, places, turn)
    np.maximum.at(last, places, turn)
    moved = int((first < last).sum())
    if moved:
        says = f"{moved} clients took part in rounds that are no whole cycles of {length} apart."
        return Finding("participation/out-of-turn", Status.FAILED, says)
    says = f"Everybody who took part twice did so whole cycles of {length} rounds apart."
    return Finding("participation/holds", Status.PASSED, says)
