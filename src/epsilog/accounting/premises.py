"""What must be true of a run for its numbers to hold."""

from __future__ import annotations

from epsilog.mechanisms import Release
from epsilog.mechanisms.flatten import Bag, flatten
from epsilog.terms import check
from epsilog.terms.messages import Message


def assumptions(release: Release) -> tuple[Message, ...]:
    """List what the accountant takes for granted about ``release``.

    >>> from epsilog.mechanisms import PureDP
    >>> str(assumptions(PureDP(1.0))[1])
    'the stated guarantee of a part is correct'
    """
    return assumed(flatten(check.instance(Release)(release=release)))


def assumed(bag: Bag) -> tuple[Message, ...]:
    """The same about single releases with their counts."""
    found = dict.fromkeys([Message("assumes/fixed-parameters")])
    for part in bag:
        found |= dict.fromkeys(part.assumptions())
    return tuple(found)
