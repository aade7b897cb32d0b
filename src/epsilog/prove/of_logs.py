"""The claim that logs leave standing. A mapping file and logs are their writer's word; no ledger binds them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from epsilog.prove.narrative import statement, supported_statement
from epsilog.terms import Verdict

if TYPE_CHECKING:
    from epsilog.verify.logs import LogExamination

OF_SAMPLING = {"participation", "population"}  # what makes a sampler another one than was claimed
UNBOUND = "Logs are their writer's word, and nothing binds them to the run. "


def logs_statement(found: LogExamination) -> str:
    """The claim in a sentence: all of it, the one without amplification by sampling, or none."""
    failed = {one.check for one in found.outcome.findings if one.verdict is Verdict.FAILED}
    if failed and failed <= OF_SAMPLING:
        failed = {"participation"}
    unseen = [one.check for one in found.outcome.findings if one.verdict is Verdict.NOT_CHECKED]
    blank = f" What these logs do not show, and it takes for true: {', '.join(unseen)}." if unseen else ""
    guarantee, simulation = found.claim.guarantee, found.claim.simulation
    if failed:
        return UNBOUND + supported_statement(
            guarantee, unamplified=found.unamplified, failed=failed, simulation=simulation
        )
    if not {"participation", "custody"} & set(unseen):
        return UNBOUND + statement(guarantee, simulation=simulation) + blank
    says = statement(replace(guarantee, epsilon=found.unamplified), simulation=simulation)
    return (
        f"{UNBOUND}Nothing shows who took part, so what can be checked is the claim without amplification by sampling: "
        f"{says} The smaller epsilon of the claim rests on its writer's word.{blank}"
    )
