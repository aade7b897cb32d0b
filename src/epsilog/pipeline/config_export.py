"""What a calculator found, as the part of a programme file that promises; and what such a file costs, without data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from epsilog.pipeline.config import RunConfig, load_plan_config
from epsilog.pipeline.preparation import compute_plan_interval, hash_settings
from epsilog.plan import FederatedPlan, RegisteredPlan
from epsilog.terms import CheckError, ConfigError
from epsilog.terms.codec import quote_toml
from epsilog.terms.formatting import format_upper

UNSAID = "not said yet"
PARTICIPATION = {
    "poisson": "Poisson: each unit joins each round by a coin of its own, at most one update a round",
    "fixed-size": "each round takes as many units, drawn without replacement, at most one update each",
    "balls-in-bins": "each unit takes part in one hidden round of each cycle",
}


def export_config(plan: FederatedPlan, *, cap: float | None = None, rounds_per_release: int | None = None) -> str:
    """Writes the sections of a programme file that a plan fills; [data], [model] and [training] are left out.

    Each fact stands as it was stated. ``epsilog run --check`` reads and prices the file, and refuses it where its price
    is above the cap or no programme does what it says. What is unsaid stands as "not said yet".

    Args:
        plan: of one run.
        cap: the policy's cap on epsilon, which becomes the budget; None: the plan's own price, rounded up.
        rounds_per_release: rounds between two models that leave the server; None: one model, after the last round.

    Raises:
        CheckError: no scheme of a programme does what the plan says.
    """
    schedule = plan.schedule
    own = plan.epsilon.upper
    if not math.isfinite(own):
        raise CheckError("noise_multiplier", "large enough for a finite epsilon", f"{schedule.noise_multiplier!r}")
    if schedule.sampling == "balls-in-bins" and schedule.rounds > schedule.bins:
        bound = f"at most {schedule.bins}: a programme draws bins anew for each cycle, where this plan keeps them"
        raise CheckError("rounds", bound, f"{schedule.rounds}")
    budget = format_upper(own, 6) if cap is None else repr(float(cap))
    picked = {
        "poisson": f"sampling_probability = {schedule.sampling_probability!r}",
        "fixed-size": f'sampling = "fixed-size"\ncohort_size = {schedule.cohort_size}',
        "balls-in-bins": f'sampling = "balls-in-bins"\ncycle_length = {schedule.bins}',
    }[schedule.sampling]
    together = (
        "" if plan.releases_per_period == 1 else f"# Of {plan.releases_per_period} releases in a period, this is one.\n"
    )
    held = f"records_per_person = {plan.group}\n" if plan.group > 1 else ""
    return f"""\
# From the federated calculator. To price it again: epsilog run --check FILE. To run it, say what stands as
# "{UNSAID}", and add [data], [model] and [training].
{together}
[programme]
name = "calculated"
purpose = "{UNSAID}"
owner = "{UNSAID}"

[guarantee]
privacy_unit = {quote_toml(plan.privacy_unit)}
relation = "{plan.relation.value}"
population = {schedule.population}

[budget]
scope = "not-said-yet"
epsilon = "{budget}"
delta = "{plan.delta.delta!r}"
delta_rationale = {quote_toml(plan.delta.rationale)}

[scheme]
kind = "client-level-central"
clip_norm = {schedule.clip_norm!r}
{picked}
rounds = {schedule.rounds}
noise_multiplier = {schedule.noise_multiplier!r}

[boundary]
participation = {quote_toml(PARTICIPATION[schedule.sampling])}
rounds_per_release = {schedule.rounds if rounds_per_release is None else rounds_per_release}
adaptive_clip = false
post_processing = "{UNSAID}"
{held}
[reporting]
period = "{UNSAID}"

[run]
simulation = false
"""


@dataclass(frozen=True, slots=True)
class CheckedConfig:
    """A programme file that was read and priced, without its data.

    Attributes:
        plan: what it promises, priced.
        whole: whether it says what is trained on what, too.
    """

    plan: RegisteredPlan
    whole: bool


def check_config(path: Path) -> CheckedConfig:
    """Reads a programme file, or the part of one that promises, and prices it; nothing is booked, and no data is read.

    Raises:
        ConfigError: the file is wrong, or its population is in the data.
        CalibrationError: its budget cannot be met.
    """
    programme = load_plan_config(path)
    stated = programme.guarantee.to_guarantee
    if stated is None:
        raise ConfigError(str(path), [CheckError("guarantee.population", "a number without its data", "from data")])
    plan = compute_plan_interval(programme, stated, {"settings": hash_settings(programme)})
    return CheckedConfig(plan, isinstance(programme, RunConfig))
