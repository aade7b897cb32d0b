"""Commands derived from described fields: parameters of the command line, and questions with their answers.

``ledger_commands`` builds ledger commands from the same parts. A field's description is the help of its option.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields as list_dataclass_fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from epsilog.cli.app import JSON_OPTION, REFUSED, option_from_parameter, read_document, read_release
from epsilog.cli.certificates import CERTIFICATE_OPTION, print_with_certificate
from epsilog.cli.show import format_interval, print_figures, print_notice, print_table
from epsilog.terms import CheckError, codec, fields
from epsilog.terms.fields import REQUIRED, Field
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.terms.messages import Message
from epsilog.terms.numerals import read_number

if TYPE_CHECKING:
    from epsilog.plan import Question

Q = TypeVar("Q", bound="Question")
_SHORT = {"noise_multiplier": "-z", "epsilon": "-e", "sensitivity": "-s", "queries_used": "-u"}


def make_parameter(name: str, kind: Any, info: Any, default: Any = REQUIRED) -> inspect.Parameter:
    """Return a parameter of a command; ``info`` is its option or argument."""
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[kind | None if default is None else kind, info],
        default=inspect.Parameter.empty if default is REQUIRED else default,
    )


def make_command(run: Callable[..., Any], parameters: Iterable[inspect.Parameter], text: str) -> Callable[..., Any]:
    """Return ``run`` as a command with these parameters and this help."""

    def command(**given: Any) -> Any:
        return run(**given)

    command.__signature__ = inspect.Signature(list(parameters))  # type: ignore[attr-defined]
    command.__doc__ = text
    return command


JSON_PARAMETER = make_parameter("as_json", bool, JSON_OPTION, default=False)
CERTIFICATE_PARAMETER = make_parameter("certificate", Path, CERTIFICATE_OPTION, default=None)


# ---- questions -------------------------------------------------------------------------------------------------------


def list_parameters(question: type[Question], *, optional: Iterable[str] = ()) -> list[inspect.Parameter]:
    """Return a parameter for each field of a question; those in ``optional`` may be left out."""
    defaults = {
        one.name: REQUIRED if one.default is MISSING else one.default
        for one in list_dataclass_fields(question)  # type: ignore[arg-type]
    }
    return [
        _make_option(question, name, field, None if name in optional else defaults[name])
        for name, field in fields.list_fields(question).items()
        if name != question.sought
    ]


def _make_option(question: type[Question], name: str, field: Field, default: Any) -> inspect.Parameter:
    kind: Any = fields.field_type(question, name)
    note = ""
    if is_dataclass(kind):
        kind, note = Path, f"a JSON or TOML file, or - for standard input, with {', '.join(fields.list_fields(kind))}"
    elif kind is dict:
        kind, note = Path, "a JSON or TOML file, or - for standard input"
    elif fields.is_list(question, name):
        kind, note = str, f"numbers joined by commas; if omitted: {field.none_means}"
    elif _is_switched_off_by_zero(field, default):
        note = f"0: {field.none_means}"
    short = _SHORT.get(name, f"-{field.symbol}" if len(field.symbol) == 1 and field.symbol.isascii() else None)
    return make_parameter(name, kind, option_from_parameter(name, field, note, short=short), default)


def _is_switched_off_by_zero(field: Field, default: Any) -> bool:
    return bool(field.none_means) and field.gt == 0 and default not in (None, REQUIRED)


def read_question(question: type[Q], given: Mapping[str, Any]) -> Q:
    """Read a question from the values that were typed."""
    known = fields.list_fields(question)
    document = {name: _read_value(question, name, value) for name, value in given.items() if value is not None}
    if question.sought and question.sought in known:
        document[question.sought] = known[question.sought].example  # the answer does not depend on it
    return question.parse(document)


def _read_value(question: type[Question], name: str, value: Any) -> Any:
    field, kind = fields.list_fields(question)[name], fields.field_type(question, name)
    if is_dataclass(kind):
        return _read_parts(value, name) if fields.is_list(question, name) else read_document(value, name)
    if kind is dict:
        return codec.to_json(read_release(value, name))
    if fields.is_list(question, name):
        return tuple(read_numbers(name, value))
    if value == 0 and _is_switched_off_by_zero(field, value):
        return None
    return value


def _read_parts(file: Path, name: str) -> Any:
    """Return the list in a file: a JSON list, or the value of ``name`` in an object."""
    document = read_document(file, name)
    found = document.get(name) if isinstance(document, dict) else document
    if not isinstance(found, list):
        raise CheckError(name, "a list", f"{file}", verb="hold")
    return tuple(found)


def read_numbers(name: str, text: str) -> list[float]:
    """Read numbers joined by commas."""
    try:
        return [float(read_number(name, part)) for part in text.split(",")]
    except ValueError as error:
        raise CheckError(name, "numbers joined by commas", repr(text)) from error


def make_plan_command(
    question: type[Any], show: Callable[[Any], None], text: str, is_refused: Callable[[Any], bool] = lambda _: False
) -> Callable[..., Any]:
    """Return the command of a question whose plan has a printer of its own; a refused plan ends with its exit code."""

    def run(**given: Any) -> None:
        if is_refused(print_plan(question, given, show)):
            raise typer.Exit(REFUSED)

    return make_command(run, [*list_parameters(question), CERTIFICATE_PARAMETER, JSON_PARAMETER], text)


def print_plan(question: type[Any], given: dict[str, Any], show: Callable[[Any], None], **options: Any) -> Any:
    """Print the plan that answers a question, and return it."""
    file, as_json = given.pop("certificate"), given.pop("as_json")
    asked = read_question(question, given)
    plan = asked.plan(**options)
    print_with_certificate(asked.describe(plan), lambda: show(plan), file=file, claim=asked.claim, as_json=as_json)
    return plan


def make_question_command(question: type[Question], name: str) -> Callable[..., Any]:
    """Return the command that asks a question and prints its answer."""

    def run(*, as_json: bool, certificate: Path | None = None, **given: Any) -> None:
        asked, title = read_question(question, given), (question.__doc__ or "").partition(".")[0]
        answer = asked.answer()
        print_with_certificate(
            answer, lambda: print_answer(title, answer), file=certificate, claim=asked.claim, as_json=as_json
        )

    parameters = [*list_parameters(question), *([CERTIFICATE_PARAMETER] if question.has_claim() else [])]
    optional = [one for one, field in fields.list_fields(question).items() if field.default is None and field.example]
    shown = [one.name for one in parameters if one.default is inspect.Parameter.empty or one.name in optional]
    typed = [f"--{one.replace('_', '-')} {_example(question, one)}" for one in shown]
    text = f"{question.__doc__}\n\nExample: {' '.join([name, *typed])}"
    return make_command(run, [*parameters, JSON_PARAMETER], text)


def _example(question: type[Question], name: str) -> Any:
    field = fields.list_fields(question)[name]
    if is_dataclass(fields.field_type(question, name)):
        return f"{name}.json"
    return next(iter(field.choices), field.example)


def print_answer(title: str, answer: Mapping[str, Any]) -> None:
    """Print the JSON answer of a question: figures, tables and sentences; the release itself is in the JSON only."""
    rows: list[tuple[Any, Any]] = []
    tables: list[tuple[str, list[str], list[list[str]]]] = []
    sentences: list[str] = []
    for name, value in _flatten(answer):
        match value:
            case [dict() as first, *_]:
                keys = list(first)
                cells = [[_format(row[key], key) for key in keys] for row in value]
                tables.append((name, [key.replace("_", " ") for key in keys], cells))
            case [[*first], *_] if not _is_message(value[0]):
                tables.append((name, [""] * len(first), [_cells(row) for row in value]))
            case [*many] if not _is_message(value):
                sentences += _cells(many)
            case _ if _is_message(value):
                sentences.append(_format(value))
            case _:
                rows.append((name, _format(value, name)))
    if rows:
        print_figures(title, rows)
    for heading, columns, cells in tables:
        print_table(heading, columns, cells)
    for each in sentences:
        print_notice(each)


def _flatten(answer: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in answer.items():
        if key == "release":
            continue
        name = f"{prefix}{key.replace('_', ' ')}"
        if isinstance(value, dict) and value.get("type") != "interval":
            yield from _flatten(value, f"{name}: ")
        else:
            yield name, value


def _is_message(value: Any) -> bool:
    try:
        return Message.from_json(value).id != "text"
    except CheckError:
        return False


def _cells(values: Iterable[Any]) -> list[str]:
    return [_format(value) for value in values]


def _format(value: Any, name: str = "") -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case {"type": "interval"}:
            return format_interval(codec.decode(value))
        case [*many] if not _is_message(value):
            return ", ".join(_cells(many))
        case str() | [*_]:
            return str(Message.from_json(value))
        case float():
            return (format_lower if name.endswith("lower") else format_upper)(value, 6)
    return str(value)
