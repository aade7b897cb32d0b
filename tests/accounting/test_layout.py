"""A name inside the accountant is one thing: a module is never hidden by a function of the same name."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from epsilog import accounting

MODULES = [found.name for found in pkgutil.walk_packages(accounting.__path__, "epsilog.accounting.")]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_found_by_its_name(name):
    module, (package, _, leaf) = importlib.import_module(name), name.rpartition(".")
    assert getattr(importlib.import_module(package), leaf) is module
