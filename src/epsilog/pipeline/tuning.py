"""A sweep: a secret number of trials, each a whole run of the scheme, of which the best alone is released.

The price of the tuned release is spent before the first trial. Trials are booked in a ledger of their own, which stays
with the curator as the data do: their number, scores, records and times tell of the data. What the ledger of the budget
learns is the winner's rounds, once it is chosen.
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

TUNING = "tuning"  # in a plan's details
FOLDER, DRAWN, CHOSEN, BOOKS = "trials", "drawn.json", "chosen.json", "ledger.db"  # within a run's own folder
MOST = 1000  # runs: on average, or at most where there is a most
VARIED = ("learning_rate", "local_steps", "schedule")  # settings that no price depends on


class TuningSection(ConfigSection):
    """[tuning]: the run is the best of a random number of trials, whose law is stated beforehand."""

    trials: Text
    candidates: tuple[dict[str, Any], ...] = ()

    @property
    def law(self) -> TrialDistribution:
        """The law of the number of trials."""
        return parse_trials(self.trials)


def require_trial_distribution(tuning: TuningSection, *, simulation: bool) -> None:
    """Refuses laws that are none, too many trials, settings that are no candidates, and a number that a clock tells.

    Raises:
        CheckError: named within [tuning].
    """
    law = tuning.law
    expected = float(law.most) if isinstance(law, BinomialTrialCount) else expected_trials(law)
    if not expected <= MOST:
        raise CheckError("trials", f"of at most {MOST} runs", repr(tuning.trials))
    if not simulation and not isinstance(law, BinomialTrialCount):
        bound = "fixed or binomial when simulation = false: any other number is told by how long the run takes"
        raise CheckError("trials", bound, repr(tuning.trials))
    for candidate in tuning.candidates:
        if not candidate or not set(candidate) <= set(VARIED):
            raise CheckError("candidates", f"settings among {', '.join(VARIED)}", repr(dict(candidate)), verb="name")


def list_candidate_tasks(plan: RegisteredPlan, task: Task) -> list[Task]:
    """The task with each candidate's settings, or as it is where there are none.

    Raises:
        CheckError: a setting that is none.
    """
    stated = plan.details[TUNING]["candidates"]
    return [replace(task, training=replace(task.training, **one)) for one in stated] or [task]


def get_selected_settings(folder: Path) -> dict[str, Any] | None:
    """The winner's settings, as the owner tells them; None where no trial was chosen."""
    file = folder / FOLDER / CHOSEN
    found = codec.parse_json(file.read_bytes()) if file.exists() else None
    return found if isinstance(found, dict) else None


@dataclass(frozen=True, slots=True, eq=False)
class TrialRunner:
    """A sweep under its started charge; whatever of it was done before is not done again.

    Attributes:
        plan: with its law.
        task: what is trained on what.
        folder: the run's own.
        seed: of a simulation; None for the operating system's randomness.
        engine: as in ``run_rounds``.
        withdrawn: as in ``run_rounds``.
        stage: told when a trial begins.
    """

    plan: RegisteredPlan
    task: Task
    folder: Path
    seed: int | None
    engine: Callable[[Task], Engine] | None
    withdrawn: Callable[[], Collection[int]] | None
    stage: Callable[[str], None]

    @property
    def _place(self) -> Path:
        return self.folder / FOLDER

    def run(self, charge: Charge) -> None:
        """Trains what is left to train, chooses, and releases the winner under the charge.

        Raises:
            RecordError: what was drawn is no draw.
        """
        self._place.mkdir(mode=0o700, exist_ok=True)
        if charge.state == "reserved":
            charge.start()  # before the first trial
        looked_at, settings = self._draw_trials()
        tasks = list_candidate_tasks(self.plan, self.task)
        best: tuple[float, int, TrainingResult, Mapping[int, int]] | None = None
        with open_ledger(self._place / BOOKS) as books:
            for number, which in enumerate(settings, start=1):
                self.stage(f"training trial {number}")
                trained, attempts = self._trial(books, number, tasks[which])
                rank = _score(trained)
                if number <= looked_at and (best is None or rank > best[0]):
                    best = rank, number, trained, attempts
        if best is None:  # the law drew none: nothing is released but that
            self._put(b"", b"")
            return
        _, number, trained, attempts = best
        own, task = self._of(number), tasks[settings[number - 1]]
        stated = self.plan.details[TUNING]["candidates"]
        durable_io.write_atomically(
            self._place / CHOSEN,
            codec.encode_canonical(dict(stated[settings[number - 1]]) if stated else {}) + b"\n",
            private=True,
        )
        _release(charge, trained, attempts)
        self._put((own / RunArtifact.ROUNDS).read_bytes(), (own / RunArtifact.CUSTODY).read_bytes())
        from epsilog.training.models import ReleasedModel

        arrays = ReleasedModel(task.model, trained.model).arrays
        durable_io.write_atomically(self.folder / RunArtifact.MODEL, npz.encode_npz(arrays))

    def _of(self, number: int) -> Path:
        return self._place / f"{number:04d}"

    def _draw_trials(self) -> tuple[int, list[int]]:
        """How many trials are looked at, and each one's settings, by place: drawn once, for the curator alone.

        Where a law has a most, so many are trained in any case, and as many of them looked at as the law drew: how long
        it takes tells nothing.
        """
        file, law = self._place / DRAWN, self.plan.trials
        assert law is not None
        if not file.exists():
            below = secrets.randbelow if self.seed is None else random.Random(self._seed("drawn")).randrange  # noqa: S311
            count = law.draw(below)
            trained = law.most if isinstance(law, BinomialTrialCount) else count
            among = max(len(self.plan.details[TUNING]["candidates"]), 1)
            drawn = {"looked_at": count, "settings": [below(among) for _ in range(trained)]}
            durable_io.write_atomically(file, codec.encode_canonical(drawn) + b"\n", private=True)
        try:
            found = codec.parse_json(file.read_bytes())
            return check.integer(0)(looked_at=found["looked_at"]), [check.integer(0)(one=n) for n in found["settings"]]
        except codec.UNREADABLE as error:
            raise RecordError(f"{file} does not hold what was drawn: {error!r}") from error

    def _seed(self, purpose: str) -> int:
        return int.from_bytes(hashlib.sha256(f"epsilog/trials/{self.seed}/{purpose}".encode()).digest()[:6], "big")

    def _trial(self, books: Ledger, number: int, task: Task) -> tuple[TrainingResult, Mapping[int, int]]:
        """One whole run, in a folder and under a charge of its own; and how often each of its rounds was begun."""
        from epsilog.training import AuthorizedRun, Randomness, run_rounds

        plan, guarantee, scope = self.plan, self.plan.guarantee, f"trials/{number:04d}"
        release, relation = plan.scheme.release(), guarantee.relation
        cap = Decimal(epsilon(release, delta=guarantee.delta, relation=relation).upper) + 1
        books.create_budget(
            scope,
            kind="approximate",
            relation=relation,
            privacy_unit=guarantee.privacy_unit,
            simulation=plan.simulation,
            epsilon=str(round(cap, 6)),
            delta=plan.budget["delta"],
        )
        paid = books.reserve(
            scope,
            release,
            key=f"trial-{number}",
            delta=plan.budget["delta"],
            relation=relation,
            privacy_unit=guarantee.privacy_unit,
            plan_hash=plan.hash,
            rounds=plan.scheme.rounds,
            simulation=plan.simulation,
        )
        fresh = Randomness.from_os() if self.seed is None else Randomness.simulated(self._seed(f"{number}"))
        trained = run_rounds(
            AuthorizedRun(plan.scheme, paid, fresh),
            task,
            folder=self._of(number),
            engine=self.engine,
            withdrawn=self.withdrawn,
        )
        paid.commit()
        return trained, paid.rounds_started

    def _put(self, rounds: bytes, custody: bytes) -> None:
        """The winner's records, where everybody finds them."""
        durable_io.write_atomically(self.folder / RunArtifact.CUSTODY, custody, private=True)
        durable_io.write_atomically(self.folder / RunArtifact.ROUNDS, rounds)


def _release(charge: Charge, trained: TrainingResult, attempts: Mapping[int, int]) -> None:
    """Tells the ledger of the winner's rounds, each begun as often as it was."""
    begun, told = charge.rounds_started, charge.rounds_released
    for record in trained.records:
        if record.round not in told:
            for _ in range(begun.get(record.round, 0), attempts[record.round]):
                charge.round_started(record.round)
            charge.round_released(record.round, output_hash=record.output_hash)


def _score(trained: TrainingResult) -> float:
    """By which trials are compared: the last score on the public test set; where training diverged, the lowest."""
    score = trained.records[-1].test_score if trained.records else None
    return -math.inf if score is None else score
