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
        return f"{self.deed[0].upper()}{self.deed[1:]}. What would detect it: {self.stopped_by}."


def _server_adds_the_noise(plan: RegisteredPlan) -> bool:
    return any(party.name == "Server" and party.holds is ProtectionLevel.NOTHING for party in plan.scheme.parties)


FORGERIES = (
    ResidualRisk(
        "the curator fabricated all records from the start, padding and lists included, and committed them",
        "a trusted execution environment, or noise from more than one party",
        _server_adds_the_noise,
    ),
    ResidualRisk(
        "the curator fabricated all records from the start, padding and lists included, and committed them",
        "clients who keep what they sent",
        lambda plan: not _server_adds_the_noise(plan),
    ),
    ResidualRisk(
        "clients added too little noise, or only on the padding",
        "an audit of the clients' code",
        lambda plan: not _server_adds_the_noise(plan),
    ),
    ResidualRisk(
        "training on other data, or on more people, than planned",
        "access to the data",
    ),
    ResidualRisk(
        "another name for the unit in plan, charge and data, or another number of units",
        "access to the data",
    ),
    ResidualRisk(
        "custody.jsonl withheld, with participation and norms said to pass",
        "that file with its key, which the commit binds",
    ),
    ResidualRisk(
        "a round repeated without a record or on a copy of the ledger, and the better result kept",
        "noise that no one can draw again",
    ),
    ResidualRisk(
        "other trials than the tuning distribution drew, or their number disclosed",
        "access to the trial ledger, and a witness of the draw",
        lambda plan: plan.trials is not None,
    ),
    ResidualRisk(
        "coins seen before the plan was charged, or fabricated canary scores",
        "scoring the canaries again from the released model",
        lambda plan: PLANNED in plan.details,
    ),
    ResidualRisk(
        "the ledger truncated or rewritten, and the reports too, before a checkpoint was kept",
        "frequent external checkpoints from the start",
    ),
    ResidualRisk(
        "different ledgers shown to different readers",
        "readers who compare their checkpoints",
    ),
    ResidualRisk(
        "two runs on the same people charged to two ledgers",
        "the data owner keeping the only ledger",
    ),
    ResidualRisk(
        "a release that bypasses the ledger",
        "nothing in these files",
    ),
    ResidualRisk(
        "a seeded run called real",
        "nothing in these files: seeds can be kept",
        lambda plan: not plan.simulation,
    ),
)


FORGERIES_OF_LOGS = (
    ResidualRisk(
        "the author of the logs fabricated all of them consistently",
        "records that a ledger binds during the run, and noise from more than one party",
    ),
    ResidualRisk(
        "training in other rounds, on other data, or on more people, than the logs state",
        "access to the data, and to what ran",
    ),
    ResidualRisk(
        "updates not clipped, or noise other than the logged noise",
        "an audit of the code that ran",
    ),
    ResidualRisk(
        "another name for the privacy unit, or another number of units",
        "access to the data",
    ),
    ResidualRisk(
        "the run restarted without a record in the logs, and the better result kept",
        "noise that no one can draw again",
    ),
    ResidualRisk(
        "another release about the same people: the logs of one run hold no budget",
        "one ledger for all releases about them",
    ),
)
SEEDED = ResidualRisk("seeded randomness: anyone who kept the seed can remove the noise", "nothing in these files")


def list_residual_log_risks(*, simulation: bool) -> list[str]:
    """What logs that pass do not rule out, a sentence each."""
    return [forgery.says for forgery in (*FORGERIES_OF_LOGS, *(() if simulation else (SEEDED,)))]


def list_residual_risks(plan: RegisteredPlan) -> list[str]:
    """What a passed verification of this plan's run does not rule out, a sentence each."""
    return [forgery.says for forgery in FORGERIES if forgery.applies(plan)]
