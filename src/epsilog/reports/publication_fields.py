"""What only the publisher can say of a deployment, who asks for it, and what is still blank.

The run config's [reporting] section takes these fields, and then the ledger binds them with the plan. A file of
them may come later, for a rendering: it fills blanks, and contradicts nothing that is bound.
"""

from __future__ import annotations

import datetime as dt
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsilog.terms import CheckError, RecordError

GOVERNANCE = "governance"
TIERS = ("registry tier 1", "registry tier 2", "registry tier 3")


@dataclass(frozen=True, slots=True)
class PublicationField:
    """One field.

    Attributes:
        description: what it holds.
        required_by: which deliverable wants it: a tier of the OpenDP Deployments Registry, or governance at home.
        choices: what it may be; empty for any text.
    """

    description: str
    required_by: str
    choices: tuple[str, ...] = ()


PUBLICATION_FIELDS: dict[str, PublicationField] = {
    "organisation": PublicationField("the publisher of the model", TIERS[0]),
    "description": PublicationField("what is published, in one or two sentences", TIERS[0]),
    "region": PublicationField("the region of the data, or of the applicable law", TIERS[0]),
    "sector": PublicationField(
        "the sector of industry", TIERS[0], ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
    ),
    "publication_date": PublicationField("the date, as YYYY-MM-DD", TIERS[0]),
    "sources": PublicationField("where to read more, or find the model", TIERS[0]),
    "release_type": PublicationField(
        "whether the data are released from again", TIERS[1], ("One release", "Many releases")
    ),
    "data_source_type": PublicationField("whether new data arrive", TIERS[1], ("Static", "Dynamic")),
    "access_type": PublicationField("whether people query the data", TIERS[1], ("Non-interactive", "Interactive")),
    "data_domain": PublicationField("the possible data sets, and the source of the data", TIERS[2]),
    "unprotected_quantities": PublicationField("what is published without noise, or known beforehand", TIERS[2]),
    "unit_details": PublicationField("which rows belong to one privacy unit", TIERS[2]),
    "tuning": PublicationField("how settings were chosen and data prepared, and whether that was charged", TIERS[2]),
    "justification": PublicationField("why this unit, epsilon and scheme, and who decided", TIERS[2]),
    "contact": PublicationField("a contact", GOVERNANCE),
    "prior_releases": PublicationField("earlier releases about the same people, and their epsilon", GOVERNANCE),
    "retention": PublicationField("retention of data, records and checkpoints", GOVERNANCE),
    "review_date": PublicationField("the date of the next review, as YYYY-MM-DD", GOVERNANCE),
}
DATES = ("publication_date", "review_date")


def require_field(name: str, value: Any) -> str:
    """The value of a field, or a clear error.

    Raises:
        CheckError: an unknown field, no text, none of its choices, or no date.
    """
    if name not in PUBLICATION_FIELDS:
        raise CheckError("field", f"one of {', '.join(PUBLICATION_FIELDS)}", repr(name))
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):  # as TOML writes dates
        value = value.isoformat()
    if not isinstance(value, str) or not value.strip():
        raise CheckError(name, "a string that is not blank", repr(value))
    choices = PUBLICATION_FIELDS[name].choices
    if choices and value not in choices:
        raise CheckError(name, f"one of {', '.join(choices)}", repr(value))
    if name in DATES:
        try:
            if dt.date.fromisoformat(value).isoformat() != value:
                raise ValueError
        except ValueError:
            raise CheckError(name, "a date as YYYY-MM-DD", repr(value)) from None
    return value


def list_publication_fields(stated: Mapping[str, Any]) -> dict[str, Any]:
    """What the plan states of these fields, and which are blank, as a report holds it."""
    said = {name: str(stated[name]) for name in PUBLICATION_FIELDS if stated.get(name) is not None}
    blank = [
        {"field": n, "description": f.description, "required_by": f.required_by}
        for n, f in PUBLICATION_FIELDS.items()
        if n not in said
    ]
    return {"stated": said, "blank": blank}


def read_publication_file(path: Path) -> dict[str, str]:
    """Reads a file of fields, in TOML.

    Raises:
        RecordError: it cannot be read, is no TOML, or holds something else; the first is named.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        return {name: require_field(name, value) for name, value in document.items()}
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: {error}") from error


def merge_publication_fields(report: Mapping[str, Any], about: Mapping[str, str]) -> dict[str, str]:
    """The fields of a report, blanks filled.

    Raises:
        CheckError: a field that the report already states otherwise.
    """
    stated: dict[str, str] = dict(report["publication"]["stated"])
    for name, value in about.items():
        require_field(name, value)
        if stated.setdefault(name, value) != value:
            raise CheckError(name, f"{stated[name]!r}, as the report binds it", repr(value))
    return stated


def compute_registry_tier(stated: Mapping[str, str]) -> int:
    """The registry tier whose fields, and those below it, are all there; 0 where the first is not complete."""
    reached = 0
    for number, name in enumerate(TIERS, start=1):
        if any(field.required_by == name and key not in stated for key, field in PUBLICATION_FIELDS.items()):
            break
        reached = number
    return reached
