"""Write run configs: from a plan of the federated calculator, or a template for the columns of a file.

Names and types of columns are public and are read. Ranges, lists and counts are not, so the user states them. The
placeholder is ``"?"``, which ``epsilog run`` refuses by name.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from epsilog.pipeline.config import RunConfig, load_plan_config
from epsilog.pipeline.preparation import compute_plan_interval, hash_settings
from epsilog.plan import FederatedPlan, RegisteredPlan
from epsilog.terms import CheckError, ConfigError, check
from epsilog.terms.codec import quote_toml
from epsilog.training.data import read_column_types

LEVELS = ("client", "row")
_IDENTIFIERS = {  # words in names of columns
    "id", "ids", "uid", "uuid", "guid", "identifier", "key", "hash", "index", "row", "nr", "no", "number", "code",
    "email", "mail", "phone", "telephone", "mobile", "fax", "name", "surname", "firstname", "lastname", "forename",
    "username", "user", "login", "address", "street", "iban", "ssn", "passport", "insurance", "account", "licence",
    "license", "plate", "vin", "imei", "mac", "ip", "url",
}  # fmt: skip

SCHEMES = {
    "client": """\
[scheme]
kind = "client-level-central"     # the server clips each client's update, sums, and adds the noise to the sum
clip_norm = 1.0                   # choose it on public or synthetic data: each run on people's data is charged
sampling_probability = 0.2        # each client joins each round with this probability
rounds = 40
noise_multiplier = "calibrate"    # the least noise that meets the budget
""",
    "row": """\
[scheme]
kind = "example-level-client-side"  # each client adds the noise itself, before the server sees anything
clients = "?"                     # places for clients, at least as many as there are
cohort_size = "?"                 # clients a round
rounds = 40
max_participations = 10           # rounds that one client takes part in, at most; at most rounds
batch_probability = 0.2
epochs = 1
clip_norm = 1.0                   # choose it on public or synthetic data: each run on people's data is charged
noise_multiplier = "calibrate"    # the least noise that meets the budget
""",
}
TRAINING = {
    "client": "local_steps = 4\nlearning_rate = 0.1\n",
    "row": "expected_examples = 10             # a typical client's rows, from what is public\nlearning_rate = 0.1\n",
}
DRAWN = {"client": "Poisson: each client joins each round independently", "row": "?"}


def write_config_template(data: Path, *, client: str, target: str, row: str, level: str, base: Path) -> str:
    """Write a run config for a data file, of which only the names and types of columns are read.

    Args:
        data: the file, or a folder of NPY files.
        client: the column with the client of each row.
        target: the column to predict.
        row: a word for one row.
        level: whether the privacy unit is a whole "client" or one "row".
        base: the folder of the run config, to which paths are relative.

    Raises:
        CheckError: a column is missing, or the file cannot be read.
    """
    level, columns = check.one_of(LEVELS)(protect=level), read_column_types(data)
    for name, column in (("client", client), ("target", target)):
        if column not in columns:
            raise CheckError(name, f"one of the columns {', '.join(map(repr, columns))}", repr(column))
    row = check.text()(row=row)
    if len({client, target, row}) < 3:
        raise CheckError("row", "a word other than the columns, and client and target two columns", repr(row))
    others = {name: kind for name, kind in columns.items() if name not in (client, target)}
    named = [name for name in others if name == row or is_identifier_name(name)]
    features = "\n".join(_line(name, kind) for name, kind in others.items() if name not in named)
    if named:
        listed = ", ".join(name or '""' for name in named)
        features += f"\n# No feature, since their names say that they tell people or rows apart: {_plain(listed)}."
    path = data.resolve()
    folder = base.resolve()
    shown = path.relative_to(folder) if path.is_relative_to(folder) else path
    return f"""\
# Replace every "?" with what you know already, without looking at the rows: a range, list or count that is read from
# people's rows is a release without a charge. Remove features that the model must not learn from.

[identity]
name = "?"                        # lower-case letters, digits and hyphens
purpose = "?"
owner = "?"

[guarantee]
privacy_unit = {quote_toml(client if level == "client" else row)}
relation = "add-or-remove-one"
population = "?"                  # upper bound on the number of privacy units; need not be exact

[budget]
scope = "?"                       # the budget that is charged, such as "acme/visits/2026"
epsilon = "?"
delta = "?"                       # below 1/population
delta_rationale = "?"

{SCHEMES[level]}
[data]
path = {quote_toml(str(shown))}
# public = true                   # only if everyone may see the file; simulations require it
client = {quote_toml(client)}
row = {quote_toml(row)}
target = {quote_toml(target)}
classes = "?"                     # a list of labels, or how many there are; for numbers: target_range = [low, high]
test = "?"                        # a public file, or "none" for no scores; or test_share = 0.2 of the units

[data.features]                   # what each column can hold: [low, high], or a list of words
{features}

[model]
kind = "linear"

[training]
{TRAINING[level]}
[coverage]                        # what the claim covers
participation = {quote_toml(DRAWN[level])}
rounds_per_release = 40
adaptive_clip = false
post_processing = "?"

[reporting]
period = "?"

[run]
simulation = false
"""


def is_identifier_name(column: str) -> bool:
    """Return whether the name of a column suggests an identifier of people or rows; no value is read.

    >>> [name for name in ("patient_id", "PatientID", "Unnamed: 0", "aid", "idle") if is_identifier_name(name)]
    ['patient_id', 'PatientID', 'Unnamed: 0']
    """
    words = re.findall(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+|[^\W\da-zA-Z_]+", column)
    return not words or not _IDENTIFIERS.isdisjoint(word.lower() for word in words) or column.startswith("Unnamed")


def _plain(listed: str) -> str:
    """Return names without control characters, since a line break would end a comment."""
    return re.sub(r"[\x00-\x1f\x7f\x85\u2028\u2029]", "?", listed)


def _line(name: str, kind: str) -> str:
    line = f'{_key(name)} = "?"'
    return f"{line:<33} # {kind}" if kind else line


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quote_toml(name)


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
