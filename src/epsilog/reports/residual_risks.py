"""What whoever keeps the records could still have done without verification seeing it, told where it applies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from epsilog.plan import RegisteredPlan
from epsilog.schemes import ProtectionLevel
from epsilog.verification.audits import PLANNED


@dataclass(frozen=True, slots=True)
class ResidualRisk:
    """One deed that leaves no trace in plan, records, ledger and report.

    Attributes:
        deed: what somebody could have done, as the table in the docs names it.
        stopped_by: what would show or stop it.
        applies: whether a run of this plan is open to it.
    """

    deed: str
    stopped_by: str
    applies: Callable[[RegisteredPlan], bool] = lambda _: True

    @property
    def says(self) -> str:
        """One sentence for a reader of the report."""
        return f"{self.deed[0].upper()}{self.deed[1:]}. What would show it: {self.stopped_by}."


def _server_adds_the_noise(plan: RegisteredPlan) -> bool:
    return any(party.name == "Server" and party.holds is ProtectionLevel.NOTHING for party in plan.scheme.parties)


FORGERIES = (
    ResidualRisk(
        "the curator made up all records from the start, padding and lists included, and committed those",
        "a trusted execution environment, or noise added by more than one party",
        _server_adds_the_noise,
    ),
    ResidualRisk(
        "the curator made up all records from the start, padding and lists included, and committed those",
        "clients who keep what they sent",
        lambda plan: not _server_adds_the_noise(plan),
    ),
    ResidualRisk(
        "clients added less noise than the plan says, or put it on the padding alone",
        "an audit of what runs at the clients",
        lambda plan: not _server_adds_the_noise(plan),
    ),
    ResidualRisk(
        "the curator trained on other data, or on more people, than the plan says",
        "access to the data",
    ),
    ResidualRisk(
        "the curator called a unit by another name in plan, charge and data alike, or stated another number of units",
        "access to the data",
    ),
    ResidualRisk(
        "the curator said that the checks on participation and norms passed, and kept custody.jsonl back",
        "that file with its key, which the commit binds",
    ),
    ResidualRisk(
        "the curator ran a round again, without noting the attempt or on a copy of the ledger, and kept the better",
        "noise that nobody can draw again",
    ),
    ResidualRisk(
        "the curator ran other trials than the law of the sweep drew, or told somebody how many there were",
        "access to the ledger of trials, and a witness of the draw",
        lambda plan: plan.trials is not None,
    ),
    ResidualRisk(
        "the curator looked at coins before the plan was booked, or made up the scores of canaries",
        "scoring the canaries again from the released model",
        lambda plan: PLANNED in plan.details,
    ),
    ResidualRisk(
        "the ledger's owner cut its end off or wrote it afresh, and the reports too, before a checkpoint was kept",
        "a checkpoint kept elsewhere from the start, and often",
    ),
    ResidualRisk(
        "the ledger's owner showed different readers different ledgers",
        "readers who compare their checkpoints",
    ),
    ResidualRisk(
        "two runs on the same people were charged to two ledgers with one budget each",
        "the owner of the data keeping the one ledger",
    ),
    ResidualRisk(
        "something was released beside the ledger",
        "nothing in these files",
    ),
    ResidualRisk(
        "a seeded run was called real",
        "nothing in these files: seeds can be kept",
        lambda plan: not plan.simulation,
    ),
)


FORGERIES_OF_LOGS = (
    ResidualRisk(
        "whoever wrote the logs made up all of them, so that they agree",
        "records that a ledger binds while the run goes on, and noise added by more than one party",
    ),
    ResidualRisk(
        "the model was trained in other rounds, on other data, or on more people, than the logs say",
        "access to the data, and to what ran",
    ),
    ResidualRisk(
        "nothing was clipped, or the noise that was logged is not the noise that was added",
        "an audit of what ran",
    ),
    ResidualRisk(
        "a privacy unit was called by another name, or another number of them was stated",
        "access to the data",
    ),
    ResidualRisk(
        "the run was begun again without a line in the logs, and the better outcome was kept",
        "noise that nobody can draw again",
    ),
    ResidualRisk(
        "something else was released about the same people: logs of one run hold no budget",
        "one ledger for all that is released about them",
    ),
)
SEEDED = ResidualRisk(
    "randomness was seeded, so that whoever kept the seed can take the noise off", "nothing in these files"
)


def list_residual_log_risks(*, simulation: bool) -> list[str]:
    """What logs that pass do not rule out, a sentence each."""
    return [forgery.says for forgery in (*FORGERIES_OF_LOGS, *(() if simulation else (SEEDED,)))]


def list_residual_risks(plan: RegisteredPlan) -> list[str]:
    """What a passed verification of this plan's run does not rule out, a sentence each."""
    return [forgery.says for forgery in FORGERIES if forgery.applies(plan)]
