"""Attributes that are computed on first access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - a decorator
    """``functools.cached_property`` without its lock, which threads would wait for and a fork could leave held."""

    def __init__(self, work: Callable[[Any], T]) -> None:
        self._work, self.__doc__ = work, work.__doc__

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, _: type | None = None) -> T:
        found = vars(instance)[self._name] = self._work(instance)
        return found
