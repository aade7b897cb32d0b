"""Export a plan of the federated calculator as a run config, and compute the cost of a run config without its data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from epsilog.pipeline.config import RunConfig, load_plan_config
from epsilog.pipeline.preparation import compute_plan_interval, hash_settings
from epsilog.plan import FederatedPlan, RegisteredPlan
from epsilog.terms import CheckError, ConfigError
from epsilog.terms.codec import quote_toml

NOT_STATED = "not said yet"
PARTICIPATION = {
    "poisson": "Poisson: each unit joins each round independently, at most one update a round",
    "fixed-size": "each round takes as many units, drawn without replacement, at most one update each",
    "balls-in-bins": "each unit takes part in one hidden round of each cycle",
}


def export_config(plan: FederatedPlan, *, cap: float, rounds_per_release: int | None = None) -> str:
    """Write a run config without [data], [model] and [training] from a plan of one run.

    ``epsilog run --check`` computes the cost of the file, and refuses it if the cost exceeds the cap or no scheme
    matches it. Values that the plan lacks are "not said yet".

    Args:
        plan: of one run.
        cap: the policy's cap on epsilon, which becomes the budget.
        rounds_per_release: rounds between two models that leave the server; None for one model after the last round.

    Raises:
        CheckError: no scheme of a run config matches the plan.
    """
    schedule = plan.schedule
    if not math.isfinite(plan.epsilon.upper):
        raise CheckError("noise_multiplier", "large enough for a finite epsilon", f"{schedule.noise_multiplier!r}")
    if schedule.sampling == "balls-in-bins" and schedule.rounds > schedule.bins:
        bound = f"at most {schedule.bins}: a run draws bins anew for each cycle, where this plan keeps them"
        raise CheckError("rounds", bound, f"{schedule.rounds}")
    sampling = {
        "poisson": f"sampling_probability = {schedule.sampling_probability!r}",
        "fixed-size": f'sampling = "fixed-size"\ncohort_size = {schedule.cohort_size}',
        "balls-in-bins": f'sampling = "balls-in-bins"\ncycle_length = {schedule.bins}',
    }[schedule.sampling]
    count = plan.releases_per_period
    releases = "" if count == 1 else f"# This is one of {count} releases in a period.\n"
    group = f"group_size = {plan.group_size}\n" if plan.group_size > 1 else ""
    return f"""\
# From the federated calculator. To compute its cost again: epsilog run --check FILE. To run it, replace each
# "{NOT_STATED}", and add [data], [model] and [training].
{releases}
[identity]
name = "calculated"
purpose = "{NOT_STATED}"
owner = "{NOT_STATED}"

[guarantee]
privacy_unit = {quote_toml(plan.privacy_unit)}
relation = "{plan.relation.value}"
population = {schedule.population}

[budget]
scope = "not-said-yet"
epsilon = "{float(cap)!r}"
delta = "{plan.delta.delta!r}"
delta_rationale = {quote_toml(plan.delta.rationale)}

[scheme]
kind = "client-level-central"
clip_norm = {schedule.clip_norm!r}
{sampling}
rounds = {schedule.rounds}
noise_multiplier = {schedule.noise_multiplier!r}

[coverage]
participation = {quote_toml(PARTICIPATION[schedule.sampling])}
rounds_per_release = {schedule.rounds if rounds_per_release is None else rounds_per_release}
adaptive_clip = false
post_processing = "{NOT_STATED}"
{group}
[reporting]
period = "{NOT_STATED}"

[run]
simulation = false
"""


@dataclass(frozen=True, slots=True)
class CheckedConfig:
    """A run config with its cost, computed without its data.

    Attributes:
        plan: the plan of the config.
        is_complete: whether the config has [data], [model] and [training], too.
    """

    plan: RegisteredPlan
    is_complete: bool


def check_config(path: Path) -> CheckedConfig:
    """Read a run config and compute its cost; charge nothing and read no data.

    Raises:
        ConfigError: the file is wrong, or its population comes from the data.
        CalibrationError: the budget cannot be met.
    """
    config = load_plan_config(path)
    population = config.guarantee.stated_population
    if population is None:
        raise ConfigError(str(path), [CheckError("guarantee.population", "a number without its data", "from data")])
    plan = compute_plan_interval(config, population, {"settings": hash_settings(config)})
    return CheckedConfig(plan, isinstance(config, RunConfig))
