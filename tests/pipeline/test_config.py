"""A run config with a mistake names the field, its bound and the value; all mistakes are named at once."""

import dataclasses
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from epsilog import toml_sections
from epsilog.pipeline import load_run_config, sections
from epsilog.schemes import SCHEMES
from epsilog.terms import ConfigError
from epsilog.terms.fields import REQUIRED, Field, list_fields


def test_the_examples_load(write_config):
    config = load_run_config(write_config(short=False, study=True))
    assert config.scheme.rounds == 60
    assert config.run.comparison_budgets[0] == 0.25
    assert config.run.comparison_seeds == 5


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            ("population = 2000 ", "population = 0 "),
            "guarantee.population must be at least 1, or 'from data', got 0",
        ),
        (
            ("population = 2000 ", "people = 3\npopulation = 2000 "),
            "guarantee.people must be absent (an unknown key), got 3",
        ),
        (
            ('purpose = "Predict', 'purpose = " "\n# "Predict'),
            "identity.purpose must be a string that is not blank, got ' '",
        ),
        (
            ('epsilon = "4"', 'epsilon = "-4"'),
            "budget.epsilon must be a decimal number such as \"0.5\", at least 1e-9 and below 1e9, got '-4'",
        ),
        (('epsilon = "4"', 'epsilon = "nan"'), "budget.epsilon"),
        (('delta = "1e-5"', 'delta = "1.5"'), "budget.delta"),
        (('delta = "1e-5"\n', ""), "budget.delta must be given, got nothing"),
        (('delta_rationale = "policy cap 1e-5, well below 1/N = 5e-4"\n', ""), "budget.delta_rationale must be given"),
        (
            ("sampling_probability = 0.2", "sampling_probability = 1.2"),
            "scheme.sampling_probability must be at most 1, got 1.2",
        ),
        (("clip_norm = 0.2", "clip_norm = nan"), "scheme.clip_norm"),
        (("rounds = 4\nnoise", "rounds = 0\nnoise"), "scheme.rounds must be at least 1, got 0"),
        (
            ('noise_multiplier = "calibrate"', "noise_multiplier = -1.0"),
            "scheme.noise_multiplier must be above 0, or 'calibrate', got -1.0",
        ),
        (
            ('kind = "client-level-central"', 'kind = "local"'),
            "scheme.kind must be one of 'client-level-adaptive-clip', 'client-level-buffered-noise'",
        ),
        (("adaptive_clip = false", "adaptive_clip = true"), "coverage.adaptive_clip"),
        (("rounds_per_release = 4", "rounds_per_release = 5"), "rounds_per_release must be scheme.rounds = 4"),
        (("seed = 20261121\n", ""), "seed must be given when simulation = true"),
        (("simulation = true ", "simulation = false "), "a real budget refuses fixed seeds"),
        (("local_steps = 1\n", ""), "training.local_steps must be given"),
        (
            ("local_steps = 1\n", 'local_steps = 1\nschedule = "linear"\n'),
            "training.schedule must be 'constant', 'cosine'",
        ),
        (
            ("local_steps = 1\n", 'local_steps = 1\nserver_optimizer = "adam"\n'),
            "training.server_learning_rate must be given for adam",
        ),
        (
            ("local_steps = 1\n", "local_steps = 1\nserver_momentum = 0.5\n"),
            "training.server_momentum must be absent for sgd",
        ),
        (
            ('kind = "mlp"', 'kind = "forest"'),
            "model.kind must be one of linear, mlp, cnn, recommender, next-character, got 'forest'",
        ),
        (("hidden = [16]", "hidden = [0]"), "model.hidden[0] must be at least 1, got 0"),
        (("hidden = [16]", "depth = 2"), "model.depth must be an option of mlp (hidden), got 2"),
        (("add-or-remove-one", "replace-one"), "guarantee.relation must be"),
    ],
)
def test_a_mistake_is_named(write_config, change, says):
    with pytest.raises(ConfigError) as caught:
        load_run_config(write_config(change))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('epsilon = "4"', 'epsilon = "1_000"'), "budget.epsilon"),
        (('epsilon = "4"', 'epsilon = "\u0664"'), "budget.epsilon"),
        (('epsilon = "4"', "epsilon = true"), "budget.epsilon"),
        (('epsilon = "4"', 'epsilon = "1e-10"'), "at least 1e-9 and below 1e9, got '1e-10'"),
        (('epsilon = "4"', 'epsilon = "1e10"'), "at least 1e-9 and below 1e9, got '1e10'"),
        (('delta = "1e-5"', 'delta = "1e-19"'), "budget.delta"),
        (("clip_norm = 0.2", "clip_norm = true"), "scheme.clip_norm"),
        (("clip_norm = 0.2", 'clip_norm = "1_000"'), "scheme.clip_norm"),
        (("learning_rate = 0.1", 'learning_rate = "\u0664"'), "training.learning_rate"),
        (("simulation = true ", "simulation = 1 "), "run.simulation"),
        (("seed = 20261121", f"seed = {2**53 - 1}"), "run.seed must be below 9007199254740991"),
        (("population = 2000 ", f"population = {2**60} "), "guarantee.population"),
        (("population = 2000 ", f"population = {'9' * 5000} "), "is not TOML"),
        (
            ("seed = 20261121", "seed = 1\ncomparison_budgets = [1, 1e300]"),
            "run.comparison_budgets[1] must be at most 1000",
        ),
        (
            ("seed = 20261121", "seed = 1\ncomparison_seeds = 1"),
            "run.comparison_seeds must be at least 2",
        ),
        (("population = 2000 ", f"population = '{'x' * 100_000}' "), "guarantee.population"),
    ],
)
def test_no_number_is_read_in_two_ways(write_config, change, says):
    """What the ledger, JSON or the eye would read otherwise is refused by name, and not repeated at full length."""
    with pytest.raises(ConfigError) as caught:
        load_run_config(write_config(change))
    assert says in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_the_most_that_a_person_holds_may_be_stated(write_config):
    assert load_run_config(write_config()).coverage.group_size is None
    held = ("adaptive_clip = false", "adaptive_clip = false\ngroup_size = 4")
    assert load_run_config(write_config(held)).coverage.group_size == 4
    with pytest.raises(ConfigError, match=r"coverage\.group_size"):
        load_run_config(write_config((held[0], held[1].replace("4", "0"))))


def test_all_mistakes_are_named_together(write_config):
    with pytest.raises(ConfigError) as caught:
        load_run_config(write_config(("clip_norm = 0.2", "clip_norm = -1"), ('epsilon = "4"', 'epsilon = "0"')))
    assert len(caught.value.findings) == 2


def test_amounts_are_read_as_they_are_written(write_config):
    budgets = [
        load_run_config(write_config(('epsilon = "4"', f"epsilon = {text}"))).budget for text in ("4", '"4"', '"4.0"')
    ]
    assert {budget.epsilon for budget in budgets} == {4}
    assert str(load_run_config(write_config(('epsilon = "4"', "epsilon = 0.1"))).budget.epsilon) == "0.1"


def test_amounts_of_numpy_are_numbers_like_any_other():
    read = TypeAdapter(toml_sections.Amount).validate_python
    assert [str(read(each)) for each in (np.float64(0.1), np.int64(4), 0.1)] == ["0.1", "4", "0.1"]
    for wrong in (np.float64("nan"), np.bool_(True), np.float64(-1)):
        with pytest.raises(ValidationError, match="must be a decimal number"):
            read(wrong)


def test_no_toml_and_no_file(tmp_path):
    (tmp_path / "x.toml").write_text("= 3")
    with pytest.raises(ConfigError, match="is not TOML"):
        load_run_config(tmp_path / "x.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_run_config(tmp_path / "y.toml")


@pytest.mark.parametrize("least", ["1e-9", "0.000000001", "999999999.999"])
def test_the_least_amount_is_an_amount(write_config, least):
    assert load_run_config(write_config(('epsilon = "4"', f'epsilon = "{least}"'))).budget.epsilon == Decimal(least)


@pytest.mark.parametrize("change", [('epsilon = "4"', 'epsilon = "1e9"'), ('delta = "1e-5"', 'delta = "1"')])
def test_the_bound_that_an_amount_lies_below_is_none(write_config, change):
    with pytest.raises(ConfigError, match="and below 1"):
        load_run_config(write_config(change))


@pytest.mark.parametrize("population", [1, 2, 3, 7, 2000, 999_983, 3 * 10**9])
def test_a_delta_of_one_over_the_population_is_never_above_it(write_config, population):
    changes = ('delta = "1e-5"', 'delta = "1/population"'), ("population = 2000 ", f"population = {population} ")
    delta = load_run_config(write_config(*changes)).delta
    assert 0 <= Fraction(1, population) - Fraction(delta) < Fraction(1, 10**12)


@pytest.mark.parametrize("name", ["central.toml", "local.toml"])
def test_every_setting_reaches_the_field_of_its_name(name):
    scheme = load_run_config(Path(__file__).parents[2] / "examples" / name).scheme
    given = {key: value for key, value in scheme.model_dump().items() if key not in ("kind", "noise_multiplier")}
    term = scheme.build_scheme(1234, 5.678)
    found = {field.name: getattr(term, field.name) for field in dataclasses.fields(term)}
    assert found == {"clients": 1234, "noise_multiplier": 5.678} | given


BOUNDS = {  # bound, what keeps to it, what does not
    "ge": (2, [2, 3], [1]),
    "gt": (2, [3], [2, 1]),
    "lt": (5, [4], [5, 6]),
    "le": (5, [5, 4], [6]),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, float) for name in BOUNDS), *((name, int) for name in BOUNDS if name != "lt")],  # those have their own
)
def test_a_field_of_a_scheme_keeps_to_the_bounds_of_its_fact(name, kind):
    bound, good, bad = BOUNDS[name]
    scheme = dataclasses.make_dataclass("Scheme", [("number", Annotated[kind, Field("a number", **{name: bound})])])
    reader = TypeAdapter(sections._make_field(scheme, "number", list_fields(scheme)["number"])[0])
    for value in good:
        assert reader.validate_python(kind(value)) == value
    for value in bad:
        with pytest.raises(ValidationError):
            reader.validate_python(kind(value))
    others = [math.nan, math.inf] if kind is float else [2.5, 2**53]
    for value in (*others, "3", True, None):
        with pytest.raises(ValidationError):
            reader.validate_python(value)


@pytest.mark.parametrize("kind", SCHEMES)
def test_a_scheme_field_may_be_left_out_or_hold_none_as_in_the_scheme(kind):
    section = sections.make_scheme_section(SCHEMES[kind])
    for name, described in list_fields(SCHEMES[kind]).items():
        if name == "noise_multiplier" or name not in section.model_fields:
            continue
        made = section.model_fields[name]
        assert made.is_required() == (described.default is REQUIRED), name
        stated = TypeAdapter(Annotated[made.annotation, made])
        if described.default is None:
            assert stated.validate_python(None) is None
        else:
            with pytest.raises(ValidationError):
                stated.validate_python(None)
        if described.default is not REQUIRED:
            assert made.default == described.default
