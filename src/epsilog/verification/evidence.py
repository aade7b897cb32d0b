"""Everything that a verification rests on, read and not believed: what a run left behind, or the logs of any other run.

Two readers make it (``run_folder`` and ``logs``), and every rule reads it: rules do not know where a column comes from.
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
from epsilog.verification.canaries import CanaryScores
from epsilog.verification.columns import LogData, LogUnits, Participation, Rounds
from epsilog.verification.hidden import compute_alarm
from epsilog.verification.ledger_excerpt import LedgerExcerpt
from epsilog.verification.owner_attestation import OwnerAttestation
from epsilog.verification.reuse import PaddingRound, count_significant_digits
from epsilog.verification.sampler_tests import Ids

FALSE_ALARM = 1e-6  # how often a sound run is rejected by one statistical check, or warned of


@dataclass(frozen=True, slots=True)
class Claim:
    """A guarantee and the schedule that is said to give it.

    Attributes:
        guarantee: epsilon, delta, relation, unit and N.
        scheme: sampling, clipping, noise and rounds.
        divisor: the public number that noisy sums are divided by; None where nobody stated one.
        plan: the plan that claims it; None where a mapping states the claim itself.
    """

    guarantee: Guarantee
    scheme: Scheme
    divisor: float | None = None
    plan: RegisteredPlan | None = None

    @classmethod
    def from_plan(cls, plan: RegisteredPlan, divisor: float | None = None) -> Claim:
        """Return what a registered plan claims."""
        return cls(plan.guarantee, plan.scheme, divisor, plan)

    @property
    def simulation(self) -> bool:
        """Whether the plan says that randomness was seeded: then noise protects nobody."""
        return self.plan is not None and self.plan.simulation

    @property
    def release(self) -> Release:
        """What is released: by one run, or by the best of several."""
        return self.scheme.release() if self.plan is None else self.plan.release

    @property
    def expected_runs(self) -> float:
        """How many runs are expected of which one is published."""
        return 1.0 if self.plan is None or self.plan.trials is None else expected_trials(self.plan.trials)

    @property
    def units(self) -> LogUnits:
        """For columns that are measured in what is claimed."""
        return LogUnits(self.scheme.clients, self.scheme.clip_norm, self.divisor)


@dataclass(frozen=True)
class Evidence:
    """Everything that a verification rests on.

    Attributes:
        claim: what is held against the evidence.
        records: our own public round records, in file order; None for logs of another framework.
        custody: the curator's records; None when that file is not here.
        owner: the owner's attestation; None when that file is not here.
        hashes: SHA-256 of each public file that was read, by name, and the commitment to the curator's records where
            their key is here.
        ledger: the ledger's excerpt on the plan; None when no ledger was given.
        canaries: their coins and scores; None when that file is not here.
        certificate: a proof of the claim that a standalone program checks; None when that file is not here.
        logs: what was logged; None for a run of ours.
        public: whether those who see the outcome may see who took part: then no draw is hidden.
        false_alarm_rate: how often a sound run may be rejected by each statistical check, or warned of.
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
        """The plan of a run of ours."""
        assert self.claim.plan is not None
        return self.claim.plan

    def has(self, need: str) -> bool:
        """Return whether a part or a column is here, such as "participation" or "rounds.padding"; of "a|b", either."""

        def is_here(path: str) -> bool:
            found: Any = self
            for name in path.split("."):
                found = getattr(found, name)
                if found is None or found is False or (isinstance(found, list) and not found):
                    return False
            return True

        return any(is_here(path) for path in need.split("|"))

    @property
    def hidden_false_alarm_rate(self) -> float:
        """How often one check on hidden draws may reject a sound run, so that delta covers its outcome."""
        if self.public:
            return self.false_alarm_rate
        return min(self.false_alarm_rate, compute_alarm(self.claim.guarantee, trials=self.claim.expected_runs))

    @cached_property
    def rounds(self) -> Rounds | None:
        """One row a round; None where no log has any."""
        return Rounds.from_records(self.records or ()) if self.logs is None else self.logs.rounds

    @cached_property
    def participation(self) -> Participation | None:
        """Who was in which round; None where nobody says."""
        if self.logs is not None:
            return self.logs.lists
        return None if self.custody is None else Participation.from_custody(self.custody, self.claim.scheme.clients)

    @cached_property
    def padding(self) -> list[PaddingRound]:
        """Noise on sums that are truly 0, in the unit of the claimed clip norm, of the rounds that have any."""
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
            PaddingRound.scaled(number, values, scale.get(number, 1.0)) for number, values in recorded if len(values)
        ]

    @cached_property
    def digits(self) -> int:
        """How many significant digits padding was recorded with."""
        if self.logs is not None:
            return self.logs.digits
        return count_significant_digits(np.array([value for one in self.records or () for value in one.padding]))

    @cached_property
    def round_numbers(self) -> Ids:
        """The rounds that any record or log names, ascending."""
        named = [self.rounds.number] if self.rounds is not None else []
        if self.logs is not None:
            lists, padding = self.logs.lists, self.logs.padding
            named += [lists.members // lists.width] if lists is not None else []
            named += [np.array(list(padding), dtype=np.int64)] if padding else []
        return np.unique(np.concatenate(named)) if named else np.zeros(0, dtype=np.int64)

    @cached_property
    def unpadded_rounds(self) -> list[int]:
        """The rounds up to the last that any record names, in which noise was added and nobody recorded any of it."""
        if self.logs is None:
            return [one.round for one in self.records or () if not one.padding and not one.aborted]
        run = np.arange(1, int(self.round_numbers.max(initial=0)) + 1)
        padded: list[int] = np.setdiff1d(run, [one.round for one in self.padding]).tolist()
        return padded

    @property
    def attempts(self) -> Mapping[int, int] | None:
        """How often each round was started, by the ledger or the log; None where neither says."""
        if self.logs is None:
            return None if self.ledger is None else self.ledger.attempts
        if self.rounds is None or self.rounds.attempts is None:
            return None
        return dict(zip(self.rounds.number.tolist(), self.rounds.attempts.tolist(), strict=True))

    @cached_property
    def cohort_sizes(self) -> Ids | None:
        """How many took part, round by round from the first; None where nobody says."""
        if self.participation is not None:
            last = int(self.rounds.number.max(initial=0)) if self.logs is not None and self.rounds is not None else 0
            sizes = self.participation.sizes
            return np.concatenate([sizes, np.zeros(max(0, last - sizes.size), dtype=np.int64)])
        if self.rounds is None or self.rounds.cohort is None:
            return None
        return np.asarray(self.rounds.cohort[self.rounds.order])
