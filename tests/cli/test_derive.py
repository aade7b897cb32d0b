"""Options are derived from described fields: every field of every question and mechanism is reachable."""

import json
import math
import subprocess
import sys
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum

import pytest
import typer
from typer.testing import CliRunner

from epsilog import accounting
from epsilog.cli import derive
from epsilog.cli.account import MECHANISMS
from epsilog.cli.app import ENOUGH, load
from epsilog.mechanisms import PureDP, Release
from epsilog.plan import QUESTIONS
from epsilog.terms import CheckError, codec
from epsilog.terms.fields import field_type, is_list, list_fields

APP = load()
COMMANDS = typer.main.get_command(APP).commands
PART = {"mechanism": "gaussian", "parameter": 2.0}


class ReachedError(Exception):
    """Ends a command that has asked its question."""


def command_of(path):
    """The words of the command that asks a question."""
    group, _, rest = path.removeprefix("/").partition("/")
    return ("account", rest or "composition") if group == "account" else ("plan", "-".join(filter(None, (group, rest))))


def other_value(kind, name):
    """A value of a field in its bounds, and other than its default."""
    field, of = list_fields(kind)[name], field_type(kind, name)
    if is_dataclass(of):
        return PART
    if of is dict:
        return codec.to_json(PureDP(0.5))
    if issubclass(of, Enum):
        return list(of)[-1].value
    if of is bool:
        return field.default is False
    if of is str:
        return ["fixed:3", *field.choices][-1]
    if of is int:
        return 7 if field.le or field.le_field else 70
    return 0.25 if field.lt or field.le else 2.5


def typed(tmp_path, kind, name, value):
    """The words that set a field."""
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return [flag if value else f"--no-{flag[2:]}"]
    if isinstance(value, dict) or (isinstance(value, list) and isinstance(value[0], dict)):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
        return [flag, str(tmp_path / f"{name}.json")]
    return [flag, ",".join(map(str, value)) if is_list(kind, name) else str(value)]


def capture(monkeypatch, question, words):
    """The question that a command asks."""
    asked = []

    def reach(self, **_):
        asked.append(self)
        raise ReachedError

    for method in {"answer", "plan"} & set(dir(question)):
        monkeypatch.setattr(question, method, reach)
    done = CliRunner().invoke(APP, list(map(str, words)))
    assert isinstance(done.exception, ReachedError), (done.output, done.exception)
    return asked[0]


DERIVED = [path for path in QUESTIONS if path not in ("/account/compare", "/certificate")]


@pytest.mark.parametrize("path", DERIVED)
def test_every_field_of_a_question_is_an_option_that_reaches_it(monkeypatch, tmp_path, path):
    question = QUESTIONS[path]
    values = {name: other_value(question, name) for name in list_fields(question) if name != question.sought}
    values = {name: [value] if is_list(question, name) else value for name, value in values.items()}
    words = [word for name, value in values.items() for word in typed(tmp_path, question, name, value)]
    if question.sought:
        values[question.sought] = list_fields(question)[question.sought].example
    assert capture(monkeypatch, question, (*command_of(path), *words)) == question.parse(values)


@pytest.mark.parametrize("path", DERIVED)
def test_options_have_the_help_and_the_default_of_their_fields(path):
    question, (group, name) = QUESTIONS[path], command_of(path)
    options = {option.name: option for option in COMMANDS[group].commands[name].params}
    for field in fields(question):
        described = list_fields(question)[field.name]
        if field.name == question.sought:
            assert field.name not in options
            continue
        option = options[field.name]
        assert option.help.lower().startswith(described.help.lower())
        assert all(choice in option.help for choice in described.choices) or field.name == "relation"
        optional = (path, field.name) == ("/federated", "noise_multiplier")  # --epsilon may stand for it
        assert option.required is (field.default is MISSING and not optional)
        assert option.required or option.default == (None if field.default is MISSING else field.default)


def test_a_comparison_takes_any_two_releases_and_the_points_of_its_question():
    options = {option.name for option in COMMANDS["account"].commands["compare"].params}
    assert set(list_fields(QUESTIONS["/account/compare"])) <= options


def test_certify_takes_what_its_question_takes():
    options = {option.name for option in COMMANDS["certify"].params}
    assert set(list_fields(QUESTIONS["/certificate"])) - {"release"} <= options


@pytest.mark.parametrize("tag", sorted(tag for tag, kind in codec.type_of.items() if issubclass(kind, Release)))
def test_every_mechanism_is_reachable(monkeypatch, tag):
    options = {option.name: option for option in COMMANDS["account"].params}
    if tag not in MECHANISMS:  # it holds other releases
        assert "of any kind" in options["file"].help
        return
    kind = MECHANISMS[tag]
    values = {name: other_value(kind, name) for name in list_fields(kind)}
    (first, value), *others = values.items()
    further = [word for name, other in others for word in ("--field", f"{name}={str(other).lower()}")]
    asked = []
    monkeypatch.setattr(accounting, "epsilon", lambda release, **_: asked.append(release))
    CliRunner().invoke(APP, ["account", "--mechanism", tag, "-z", str(value), *further, "--delta", "0.1"])
    assert asked == [kind(**values)]
    assert f"{tag} ({', '.join(values)})" in options["mechanism"].help
    wrong = CliRunner().invoke(APP, ["account", "--mechanism", tag, "-z", "nan", *further, "--delta", "0.1"])
    assert str(wrong.exception).startswith("--noise-multiplier must be"), first


def answer_once(monkeypatch, question):
    """Keep the answer of each question that is asked: what is another question is answered anew."""
    for name in {"answer", "plan"} & set(dir(question)):
        method, answers = getattr(question, name), {}

        def kept(self, method=method, answers=answers, **options):
            key = codec.encode_canonical(self.to_json()), *options.items()
            return answers[key] if key in answers else answers.setdefault(key, method(self, **options))

        monkeypatch.setattr(question, name, kept)


@pytest.mark.slow_beyond(3)
@pytest.mark.parametrize("path", DERIVED)
def test_an_answer_is_printed_as_json_and_as_text(monkeypatch, tmp_path, path):
    question = QUESTIONS[path]
    answer_once(monkeypatch, question)
    given = {name: field.example for name, field in list_fields(question).items() if field.example is not None}
    given |= {"query": "count"} if "query" in list_fields(question) else {}
    given |= {"parts": [PART, {"mechanism": "pure", "parameter": 0.5}]} if "parts" in list_fields(question) else {}
    everybody = {"population": 50, "cohort_size": 50, "rounds": 2, "examples": 50, "batch_size": 50}  # quick answers
    given |= {name: value for name, value in everybody.items() if name in given}
    given = {name: value for name, value in given.items() if name != question.sought}
    words = [word for name, value in given.items() for word in typed(tmp_path, question, name, value)]
    if path == "/federated":
        words += ["--trials", "fixed:2"]
        given["trials"] = "fixed:2"
    example = {question.sought: list_fields(question)[question.sought].example} if question.sought else {}
    if path == "/verdict":
        words += ["--date", "2026-11-28"]
        given["date"] = "2026-11-28"
    answer = question.parse(given | example).answer()
    done = CliRunner().invoke(APP, [*command_of(path), *words, "--json"])
    assert {name: json.loads(done.output)[name] for name in answer} == json.loads(json.dumps(answer))
    text = CliRunner().invoke(APP, [*command_of(path), *words])
    assert text.exit_code == 0
    assert text.output.strip()
    assert "{" not in text.output


def test_bounds_in_answers_stay_on_their_side(capsys):
    upper, lower = 0.12345649, 0.12345651
    derive.print_answer(
        "Title", {"upper": upper, "lower": lower, "none": None, "yes": True, "rows": [{"lower": lower}]}
    )
    shown = capsys.readouterr().out.split()
    assert shown[shown.index("upper") + 1] == "0.123457"
    assert shown[shown.index("lower") + 1] == "0.123456"
    assert shown[-1] == "0.123456"
    assert math.isclose(upper, lower, abs_tol=1e-7)


@pytest.mark.parametrize("content", ["{}", '{"parts": 1}', "3"])
def test_a_file_of_parts_holds_a_list(tmp_path, content):
    (tmp_path / "parts.json").write_text(content)
    done = CliRunner().invoke(APP, ["account", "composition", "--parts", str(tmp_path / "parts.json")])
    assert isinstance(done.exception, CheckError)
    assert done.exception.field == "--parts"


def test_an_error_within_a_part_names_the_option():
    done = CliRunner().invoke(APP, ["account", "composition", "--parts", "-"], input='[{"mechanism": "none"}]')
    assert done.exception.field.startswith("--parts[0]")


@pytest.mark.slow
@pytest.mark.parametrize("word", ["", *ENOUGH])
def test_commands_are_known_without_numpy_and_by_few_modules(word):
    lines = f"""
import sys, typer
from epsilog.cli.app import ENOUGH, load
group = typer.main.get_command(load({word!r})).commands
print(sorted(getattr(group.get({word!r}), "commands", group)))
print([name for name in ("numpy", "scipy", "rich", "pydantic") if name in sys.modules])
print(*{{name.split(".")[1] for name in sys.modules if name.startswith("epsilog.")}})
"""
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    names, loaded, packages = done.stdout.splitlines()
    assert loaded == "[]"
    if word != "verify":
        assert names == str(sorted(getattr(COMMANDS.get(word), "commands", COMMANDS)))
    if word == "--help":  # it lists the commands by what does not need the mechanisms
        assert "mechanisms" not in packages.split()
