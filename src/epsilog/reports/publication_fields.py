"""Publication fields: what only the publisher can state of a deployment, and which deliverable requires it.

The run config's [reporting] section takes these fields, and the ledger binds them with the plan. A later file fills
blank fields in a rendering; it cannot contradict a bound field.
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
        description: its content.
        required_by: the deliverable: a tier of the OpenDP Deployments Registry, or the publisher's governance.
        choices: allowed values; empty for any text.
    """

    description: str
    required_by: str
    choices: tuple[str, ...] = ()


PUBLICATION_FIELDS: dict[str, PublicationField] = {
    "organization": PublicationField("the publisher of the model", TIERS[0]),
    "description": PublicationField("what is published, in one or two sentences", TIERS[0]),
    "region": PublicationField("the region of the data, or the applicable jurisdiction", TIERS[0]),
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
    """Return the value of a field.

    Raises:
        CheckError: the field is unknown, or the value is not a text, choice or date as required.
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
    """Return the fields that the plan states, and the blank ones, as in a report."""
    listed = {name: str(stated[name]) for name in PUBLICATION_FIELDS if stated.get(name) is not None}
    blank = [
        {"field": n, "description": f.description, "required_by": f.required_by}
        for n, f in PUBLICATION_FIELDS.items()
        if n not in listed
    ]
    return {"stated": listed, "blank": blank}


def read_publication_file(path: Path) -> dict[str, str]:
    """Read a TOML file of publication fields.

    Raises:
        RecordError: it cannot be read or parsed, or contains something else; the first error is named.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        return {name: require_field(name, value) for name, value in document.items()}
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: {error}") from error


def merge_publication_fields(report: Mapping[str, Any], about: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a report with further ones.

    Raises:
        CheckError: the report states a field otherwise.
    """
    stated: dict[str, str] = dict(report["publication"]["stated"])
    for name, value in about.items():
        require_field(name, value)
        if stated.setdefault(name, value) != value:
            raise CheckError(name, f"{stated[name]!r}, as the report binds it", repr(value))
    return stated


def compute_registry_tier(stated: Mapping[str, str]) -> int:
    """Return the highest registry tier that is complete with all lower tiers; 0 for none."""
    reached = 0
    for number, name in enumerate(TIERS, start=1):
        if any(field.required_by == name and key not in stated for key, field in PUBLICATION_FIELDS.items()):
            break
        reached = number
    return reached
