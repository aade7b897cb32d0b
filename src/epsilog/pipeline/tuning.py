"""Tuning: a secret number of trials, each a whole run of the scheme; only the best one is released.

The cost of the best of trials is spent before the first trial. A ledger of the curator charges the trials, since their
number, scores, records and times depend on the data. The ledger of the budget receives the rounds of the winner, after
it is chosen.
"""

from __future__ import annotations

import hashlib
import math
import random
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilog import durable_io, npz
from epsilog.accounting import epsilon, expected_trials
from epsilog.ledger import Charge, Ledger, open_ledger
from epsilog.mechanisms import BinomialTrialCount, TrialDistribution, parse_trials
from epsilog.plan import RegisteredPlan
from epsilog.terms import CheckError, RecordError, RunArtifact, check, codec
from epsilog.toml_sections import ConfigSection, Text

if TYPE_CHECKING:
    from epsilog.training import Task, TrainingResult
    from epsilog.training.engines import Engine

__all__ = ["TUNING", "TrialRunner", "TuningSection", "get_selected_settings", "require_trial_distribution"]

TUNING = "tuning"  # in the details of a plan
FOLDER, DRAWN, CHOSEN, LEDGER = "trials", "drawn.json", "chosen.json", "ledger.db"  # inside the folder of a run
MAX_TRIALS = 1000  # on average, or at most if the distribution has a maximum
VARIED = ("learning_rate", "local_steps", "schedule")  # settings that change no cost


class TuningSection(ConfigSection):
    """[tuning]: the run is the best of a random number of trials; their distribution is stated beforehand."""

    trials: Text
    candidates: tuple[dict[str, Any], ...] = ()

    @property
    def trial_distribution(self) -> TrialDistribution:
        """Return the distribution of the number of trials."""
        return parse_trials(self.trials)


def require_trial_distribution(tuning: TuningSection, *, simulation: bool) -> None:
    """Refuse an invalid distribution, too many trials, other settings, and a number that the duration reveals.

    Raises:
        CheckError: a field of [tuning] is wrong.
    """
    distribution = tuning.trial_distribution
    fixed = isinstance(distribution, BinomialTrialCount)
    expected = (
        float(distribution.most) if isinstance(distribution, BinomialTrialCount) else expected_trials(distribution)
    )
    if not expected <= MAX_TRIALS:
        raise CheckError("trials", f"of at most {MAX_TRIALS} runs", repr(tuning.trials))
    if not simulation and not fixed:
        bound = "fixed or binomial when simulation = false: the duration of the run reveals any other number"
        raise CheckError("trials", bound, repr(tuning.trials))
    for candidate in tuning.candidates:
        if not candidate or not set(candidate) <= set(VARIED):
            raise CheckError("candidates", f"settings among {', '.join(VARIED)}", repr(dict(candidate)), verb="name")


def list_candidate_tasks(plan: RegisteredPlan, task: Task) -> list[Task]:
    """Return the task with the settings of each candidate; the task itself without candidates.

    Raises:
        CheckError: a setting is invalid.
    """
    candidates = plan.details[TUNING]["candidates"]
    return [replace(task, training=replace(task.training, **one)) for one in candidates] or [task]


def get_selected_settings(folder: Path) -> dict[str, Any] | None:
    """Return the settings of the winner, which the owner attests; None if no trial was chosen."""
    file = folder / FOLDER / CHOSEN
    found = codec.parse_json(file.read_bytes()) if file.exists() else None
    return found if isinstance(found, dict) else None


@dataclass(frozen=True, slots=True, eq=False)
class TrialRunner:
    """Runs the trials under a started charge, and resumes after those that are done.

    Attributes:
        plan: with the distribution of the number of trials.
        task: what is trained on which data.
        folder: the folder of the run.
        seed: of a simulation; None for the randomness of the operating system.
        engine: as in ``run_rounds``.
        withdrawn: as in ``run_rounds``.
        report_stage: receives the start of each trial.
    """

    plan: RegisteredPlan
    task: Task
    folder: Path
    seed: int | None
    engine: Callable[[Task], Engine] | None
    withdrawn: Callable[[], Collection[int]] | None
    report_stage: Callable[[str], None]

    def run(self, charge: Charge) -> None:
        """Train the remaining trials, choose the best, and release it under the charge.

        Raises:
            RecordError: the stored number of trials is invalid.
        """
        own = self.folder / FOLDER
        own.mkdir(mode=0o700, exist_ok=True)
        if charge.state == "reserved":
            charge.start()  # before the first trial
        eligible, settings = self._draw_trials()
        tasks = list_candidate_tasks(self.plan, self.task)
        best: tuple[float, int, TrainingResult, Mapping[int, int]] | None = None
        with open_ledger(own / LEDGER) as ledger:
            for number, candidate in enumerate(settings, start=1):
                self.report_stage(f"training trial {number}")
                trained, attempts = self._run_trial(ledger, number, tasks[candidate])
                score = _get_score(trained)
                if number <= eligible and (best is None or score > best[0]):
                    best = score, number, trained, attempts
        if best is None:  # no trial was drawn, and only that is released
            self._write_records(b"", b"")
            return
        _, number, trained, attempts = best
        candidate, candidates = settings[number - 1], self.plan.details[TUNING]["candidates"]
        _write_private(own / CHOSEN, dict(candidates[candidate]) if candidates else {})
        _release_rounds(charge, trained, attempts)
        records = (self._trial_folder(number) / name for name in (RunArtifact.ROUNDS, RunArtifact.CUSTODY))
        self._write_records(*(file.read_bytes() for file in records))
        from epsilog.training.models import ReleasedModel

        arrays = ReleasedModel(tasks[candidate].model, trained.model).arrays
        durable_io.write_atomically(self.folder / RunArtifact.MODEL, npz.encode_npz(arrays))

    def _trial_folder(self, number: int) -> Path:
        return self.folder / FOLDER / f"{number:04d}"

    def _draw_trials(self) -> tuple[int, list[int]]:
        """Draw once how many trials are eligible, and the candidate of each trial.

        If the distribution has a maximum, that many trials are always trained, so that the duration reveals nothing.
        """
        file, distribution = self.folder / FOLDER / DRAWN, self.plan.trials
        assert distribution is not None
        if not file.exists():
            below = secrets.randbelow if self.seed is None else random.Random(self._derive_seed("drawn")).randrange  # noqa: S311
            count = distribution.draw(below)
            trained = distribution.most if isinstance(distribution, BinomialTrialCount) else count
            candidates = max(len(self.plan.details[TUNING]["candidates"]), 1)
            _write_private(file, {"looked_at": count, "settings": [below(candidates) for _ in range(trained)]})
        try:
            found = codec.parse_json(file.read_bytes())
            return check.integer(0)(looked_at=found["looked_at"]), [check.integer(0)(one=n) for n in found["settings"]]
        except codec.UNREADABLE as error:
            raise RecordError(f"{file} does not hold what was drawn: {error!r}") from error

    def _derive_seed(self, purpose: str) -> int:
        return int.from_bytes(hashlib.sha256(f"epsilog/trials/{self.seed}/{purpose}".encode()).digest()[:6], "big")

    def _run_trial(self, ledger: Ledger, number: int, task: Task) -> tuple[TrainingResult, Mapping[int, int]]:
        """Run one trial in its own folder under its own charge; return it with the attempts of each round."""
        from epsilog.training import AuthorizedRun, Randomness, run_rounds

        plan, guarantee, scope = self.plan, self.plan.guarantee, f"trials/{number:04d}"
        release, delta = plan.scheme.release(), plan.budget["delta"]
        shared: dict[str, Any] = {
            "delta": delta,
            "relation": guarantee.relation,
            "privacy_unit": guarantee.privacy_unit,
            "simulation": plan.simulation,
        }
        cap = Decimal(epsilon(release, delta=guarantee.delta, relation=guarantee.relation).upper) + 1
        ledger.create_budget(scope, kind="approximate", epsilon=str(round(cap, 6)), **shared)
        charge = ledger.reserve(
            scope, release, key=f"trial-{number}", plan_hash=plan.hash, rounds=plan.scheme.rounds, **shared
        )
        randomness = Randomness.from_os() if self.seed is None else Randomness.from_seed(self._derive_seed(f"{number}"))
        trained = run_rounds(
            AuthorizedRun(plan.scheme, charge, randomness),
            task,
            folder=self._trial_folder(number),
            engine=self.engine,
            withdrawn=self.withdrawn,
        )
        charge.commit()
        return trained, charge.rounds_started

    def _write_records(self, rounds: bytes, custody: bytes) -> None:
        """Write the records of the winner to the folder of the run."""
        durable_io.write_atomically(self.folder / RunArtifact.CUSTODY, custody, private=True)
        durable_io.write_atomically(self.folder / RunArtifact.ROUNDS, rounds)


def _write_private(file: Path, document: Mapping[str, Any]) -> None:
    durable_io.write_atomically(file, codec.encode_canonical(document) + b"\n", private=True)


def _release_rounds(charge: Charge, trained: TrainingResult, attempts: Mapping[int, int]) -> None:
    """Release the rounds of the winner in the ledger, each after as many starts as it took."""
    started, released = charge.rounds_started, charge.rounds_released
    for record in trained.records:
        if record.round not in released:
            for _ in range(started.get(record.round, 0), attempts[record.round]):
                charge.round_started(record.round)
            charge.round_released(record.round, output_hash=record.output_hash)


def _get_score(trained: TrainingResult) -> float:
    """Return the last score on the public test set; the lowest number if training diverged."""
    score = trained.records[-1].test_score if trained.records else None
    return -math.inf if score is None else score
