"""Residual risks: deceptions that verification cannot detect, listed for the plans that they apply to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from epsilog.plan import RegisteredPlan
from epsilog.schemes import ProtectionLevel
from epsilog.verification.audits import PLANNED


@dataclass(frozen=True, slots=True)
class ResidualRisk:
    """One deception that leaves no trace in plan, records, ledger and report.

    Attributes:
        description: the deception, as the table in the docs names it.
        detected_by: what would detect or prevent it.
        applies: whether it is possible in a run of this plan.
    """

    description: str
    detected_by: str
    applies: Callable[[RegisteredPlan], bool] = lambda _: True

    def to_sentence(self) -> str:
        """Return the risk for a reader of the report."""
        return f"{self.description[0].upper()}{self.description[1:]}. What would detect it: {self.detected_by}."


def _is_server_trusted(plan: RegisteredPlan) -> bool:
    return any(party.name == "Server" and party.holds is ProtectionLevel.NOTHING for party in plan.scheme.parties)


RUN_RISKS = (
    ResidualRisk(
        "the curator fabricated all records from the start, padding and lists included, and committed them",
        "a trusted execution environment, or noise from more than one party",
        _is_server_trusted,
    ),
    ResidualRisk(
        "the curator fabricated all records from the start, padding and lists included, and committed them",
        "clients who keep what they sent",
        lambda plan: not _is_server_trusted(plan),
    ),
    ResidualRisk(
        "clients added too little noise, or only on the padding",
        "an audit of the clients' code",
        lambda plan: not _is_server_trusted(plan),
    ),
    ResidualRisk("training on other data, or on more people, than planned", "access to the data"),
    ResidualRisk(
        "another name for the unit in plan, charge and data, or another number of units",
        "access to the data",
    ),
    ResidualRisk(
        "withholding custody.jsonl, with participation and norms attested to pass",
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
    ResidualRisk("different ledgers shown to different readers", "readers who compare their checkpoints"),
    ResidualRisk("two runs on the same people charged to two ledgers", "the data owner keeping the only ledger"),
    ResidualRisk("a release that bypasses the ledger", "nothing in these files"),
    ResidualRisk(
        "a seeded run called real",
        "nothing in these files: seeds can be kept",
        lambda plan: not plan.simulation,
    ),
)


LOG_RISKS = (
    ResidualRisk(
        "the author of the logs fabricated all of them consistently",
        "records that a ledger binds during the run, and noise from more than one party",
    ),
    ResidualRisk(
        "training in other rounds, on other data, or on more people, than the logs state",
        "access to the data, and to what ran",
    ),
    ResidualRisk("updates not clipped, or noise other than the logged noise", "an audit of the code that ran"),
    ResidualRisk("another name for the privacy unit, or another number of units", "access to the data"),
    ResidualRisk(
        "the run restarted without a record in the logs, and the better result kept",
        "noise that no one can draw again",
    ),
    ResidualRisk(
        "another release about the same people: the logs of one run hold no budget",
        "one ledger for all releases about them",
    ),
)
SEEDED_RISK = ResidualRisk("seeded randomness: anyone who kept the seed can remove the noise", "nothing in these files")


def list_residual_log_risks(*, simulation: bool) -> list[str]:
    """Return what verified logs do not rule out, a sentence each."""
    return [risk.to_sentence() for risk in (*LOG_RISKS, *(() if simulation else (SEEDED_RISK,)))]


def list_residual_risks(plan: RegisteredPlan) -> list[str]:
    """Return what a passed verification of this plan's run does not rule out, a sentence each."""
    return [risk.to_sentence() for risk in RUN_RISKS if risk.applies(plan)]
