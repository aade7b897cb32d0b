"""The evidence of a verification: a run folder, or the logs of another framework.

``run_folder`` and ``logs`` read it. Rules do not depend on the source of a column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from epsilog.accounting import expected_trials
from epsilog.mechanisms import Release
from epsilog.plan import RegisteredPlan
from epsilog.schemes import Scheme
from epsilog.terms import CustodyRecord, Guarantee, RoundRecord
from epsilog.terms.disclosed import Disclosed
from epsilog.verification.columns import LogData, LogUnits, Participation, Rounds
from epsilog.verification.hidden import compute_alarm
from epsilog.verification.ledger_excerpt import LedgerExcerpt
from epsilog.verification.owner_attestation import CanaryScores, OwnerAttestation
from epsilog.verification.reuse import PaddingRound, count_significant_digits
from epsilog.verification.sampler_tests import Ids

FALSE_ALARM = 1e-6  # probability that one statistical check rejects a sound run, or warns of it


@dataclass(frozen=True, slots=True)
class Claim:
    """A guarantee, and the schedule that should provide it.

    Attributes:
        guarantee: epsilon, delta, relation, unit and N.
        scheme: sampling, clipping, noise and rounds.
        divisor: the public divisor of noisy sums; None if none is stated.
        plan: the registered plan; None if a mapping states the claim.
    """

    guarantee: Guarantee
    scheme: Scheme
    divisor: float | None = None
    plan: RegisteredPlan | None = None

    @classmethod
    def from_plan(cls, plan: RegisteredPlan, divisor: float | None = None) -> Claim:
        """Return the claim of a registered plan."""
        return cls(plan.guarantee, plan.scheme, divisor, plan)

    @property
    def simulation(self) -> bool:
        """Return whether the plan states seeded randomness: then the noise gives no privacy."""
        return self.plan is not None and self.plan.simulation

    @property
    def release(self) -> Release:
        """Return the release of one run, or of the best of several."""
        return self.scheme.release() if self.plan is None else self.plan.release

    @property
    def expected_runs(self) -> float:
        """Return the expected number of runs, of which one is published."""
        return 1.0 if self.plan is None or self.plan.trials is None else expected_trials(self.plan.trials)

    @property
    def units(self) -> LogUnits:
        """Return the units of columns that the claim defines."""
        return LogUnits(self.scheme.clients, self.scheme.clip_norm, self.divisor)


@dataclass(frozen=True)
class Evidence:
    """The evidence of a verification; a missing file equals None.

    Attributes:
        claim: the claim to verify.
        records: our public round records, in file order; None for logs of another framework.
        custody: the curator's records.
        owner: the owner attestation.
        hashes: SHA-256 of each public file, and the commitment to the curator's records if their key is given.
        ledger: the ledger's excerpt on the plan; None if no ledger is given.
        canaries: coins and scores of the canaries.
        certificate: a proof of the claim that a standalone program checks.
        logs: the logs of another framework; None for our own run.
        public: whether readers of the outcome may see the participants; then no draw is hidden.
        false_alarm_rate: the largest probability that a statistical check rejects a sound run, or warns of it.
    """

    claim: Claim
    records: tuple[RoundRecord, ...] | None = None
    custody: tuple[CustodyRecord, ...] | None = None
    owner: OwnerAttestation | None = None
    hashes: Mapping[str, Disclosed] = field(default_factory=dict)
    ledger: LedgerExcerpt | None = None
    canaries: CanaryScores | None = None
    certificate: bytes | None = None
    logs: LogData | None = None
    public: bool = False
    false_alarm_rate: float = FALSE_ALARM

    @property
    def plan(self) -> RegisteredPlan:
        """Return the plan of our own run."""
        assert self.claim.plan is not None
        return self.claim.plan

    def has(self, need: str) -> bool:
        """Return whether a part or column exists, such as "participation" or "rounds.padding"; "a|b" means either."""

        def exists(path: str) -> bool:
            found: Any = self
            for name in path.split("."):
                found = getattr(found, name)
                if found is None or found is False or (isinstance(found, list) and not found):
                    return False
            return True

        return any(exists(path) for path in need.split("|"))

    @property
    def hidden_false_alarm_rate(self) -> float:
        """Return the largest false-alarm rate of a check on hidden draws; delta covers its outcome."""
        if self.public:
            return self.false_alarm_rate
        return min(self.false_alarm_rate, compute_alarm(self.claim.guarantee, trials=self.claim.expected_runs))

    @cached_property
    def rounds(self) -> Rounds | None:
        """Return one row per round; None without a round log."""
        return Rounds.from_records(self.records or ()) if self.logs is None else self.logs.rounds

    @cached_property
    def participation(self) -> Participation | None:
        """Return the participants of each round; None if unrecorded."""
        if self.logs is not None:
            return self.logs.lists
        return None if self.custody is None else Participation.from_custody(self.custody, self.claim.scheme.clients)

    @cached_property
    def padding(self) -> list[PaddingRound]:
        """Return the noise on coordinates with true sum 0, in the unit of the claimed clip norm, by round."""
        scheme = self.claim.scheme
        rounds = self.rounds if self.logs is not None or scheme.adaptive_clip else None
        scale: dict[int, float] = {}
        if rounds is not None and rounds.clip_norm is not None:
            clips = zip(rounds.number.tolist(), rounds.clip_norm.tolist(), strict=True)
            scale = {number: scheme.clip_norm / clip for number, clip in clips if clip > 0}
        if self.logs is None:
            recorded = [(one.round, one.padding) for one in self.records or ()]
        else:
            recorded = [(number, values.tolist()) for number, values in sorted((self.logs.padding or {}).items())]
        return [
            PaddingRound.from_values(number, values, scale.get(number, 1.0))
            for number, values in recorded
            if len(values)
        ]

    @cached_property
    def digits(self) -> int:
        """Return the number of significant digits of the recorded padding."""
        if self.logs is not None:
            return self.logs.digits
        return count_significant_digits(np.array([value for one in self.records or () for value in one.padding]))

    @cached_property
    def round_numbers(self) -> Ids:
        """Return all recorded rounds, sorted."""
        named = [self.rounds.number] if self.rounds is not None else []
        if self.logs is not None:
            lists, padding = self.logs.lists, self.logs.padding
            named += [lists.members // lists.width] if lists is not None else []
            named += [np.array(list(padding), dtype=np.int64)] if padding else []
        return np.unique(np.concatenate(named)) if named else np.zeros(0, dtype=np.int64)

    @cached_property
    def unpadded_rounds(self) -> list[int]:
        """Return the noisy rounds, up to the last recorded one, without recorded padding."""
        if self.logs is None:
            return [one.round for one in self.records or () if not one.padding and not one.aborted]
        run = np.arange(1, int(self.round_numbers.max(initial=0)) + 1)
        padded: list[int] = np.setdiff1d(run, [one.round for one in self.padding]).tolist()
        return padded

    @property
    def attempts(self) -> Mapping[int, int] | None:
        """Return the number of starts of each round, by the ledger or the log; None if neither counts them."""
        if self.logs is None:
            return None if self.ledger is None else self.ledger.attempts
        if self.rounds is None or self.rounds.attempts is None:
            return None
        return dict(zip(self.rounds.number.tolist(), self.rounds.attempts.tolist(), strict=True))

    @cached_property
    def cohort_sizes(self) -> Ids | None:
        """Return the cohort size of each round, from the first; None if unrecorded."""
        if self.participation is not None:
            last = int(self.rounds.number.max(initial=0)) if self.logs is not None and self.rounds is not None else 0
            sizes = self.participation.sizes
            return np.concatenate([sizes, np.zeros(max(0, last - sizes.size), dtype=np.int64)])
        if self.rounds is None or self.rounds.cohort is None:
            return None
        return np.asarray(self.rounds.cohort[self.rounds.order])
