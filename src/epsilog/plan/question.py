"""What a calculator is asked: described fields, a bound on the work, and the answer as plain JSON values.

``QUESTIONS`` holds each question under its HTTP path. The route with its strict body, the types of the pages, the
options of the command line and the check of a stamped record are derived from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, dataclass_transform

from epsilog.terms import CheckError, check, fields

QUESTIONS: dict[str, type[Question]] = {}
"""Every question of the calculators, by its address below the API's prefix."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Question(ABC):
    """What a calculator is asked; a subclass states fields, ``answer`` and ``work``.

    Attributes:
        path: its address; "" for fields that questions share.
        schema: what the API calls its fields.
        body: the class that states them; a further question about the same facts has the same one.
        sought: the field that the answer finds; whatever is given for it is ignored, and no command line asks for it.
    """

    path: ClassVar[str] = ""
    schema: ClassVar[str] = ""
    body: ClassVar[type[Question]]
    sought: ClassVar[str] = ""
    _work: ClassVar[Callable[[Any], float]]

    def __init_subclass__(
        cls, *, path: str = "", schema: str = "", sought: str = "", work: float | Callable[[Any], float] = 0.1
    ) -> None:
        dataclass(frozen=True, kw_only=True)(cls)
        cls.path, cls.sought = path, sought
        cls._work = work if callable(work) else lambda _: work
        if schema:
            cls.schema, cls.body = schema, cls
        if path:
            QUESTIONS[path] = cls

    def __post_init__(self) -> None:
        check.check_fields(self)

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:
        """Read a question from JSON values.

        Raises:
            CheckError: a field that is unknown, missing or out of bounds.
        """
        return fields.parse_fields(cls, document)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, every field among them."""
        return fields.write_fields(self)

    def work(self) -> float:
        """CPU seconds that the answer takes at most, about: a server picks a process by it, or refuses."""
        return type(self)._work(self)

    def claim(self) -> dict[str, Any]:
        """What a certificate of the answer claims, as arguments of ``certificates.certificate``."""
        raise CheckError("certificate", "of an answer about one release at one delta", f"one of {self.path}")

    @classmethod
    def has_claim(cls) -> bool:
        """Return whether the answer is about one release at one delta, which a certificate can claim."""
        return cls.claim is not Question.claim

    @abstractmethod
    def answer(self) -> dict[str, Any]:
        """The answer, as plain JSON values; a subclass annotates it with the type that it has (``responses``)."""
