"""A name is one thing: what a package offers never hides a module of the same name."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest

import epsilog

PACKAGES = ["epsilog", *(found.name for found in pkgutil.walk_packages(epsilog.__path__, "epsilog.") if found.ispkg)]


def hidden(package: ModuleType) -> list[str]:
    """The modules of a package that ``import`` would not give, since the package says something else by their names."""
    offered = ((found.name, getattr(package, found.name, None)) for found in pkgutil.iter_modules(package.__path__))
    return [
        name
        for name, value in offered
        if value is not None
        and getattr(value, "__spec__", None) is not importlib.import_module(f"{package.__name__}.{name}").__spec__
    ]


@pytest.mark.parametrize("name", PACKAGES)
def test_a_module_is_found_by_its_name(name):
    assert hidden(importlib.import_module(name)) == []


def test_a_hidden_module_is_noticed(monkeypatch):
    plan = importlib.import_module("epsilog.plan")
    monkeypatch.setattr(plan, "query_plan", plan.queries)
    assert hidden(plan) == ["query_plan"]
