#!/usr/bin/env python3
"""Prints the shape of the source: files, lines, what asks which mechanism it has, what a question enters.

Run it from the root.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from epsilog.accounting import epsilon
from epsilog.mechanisms import Gaussian, PoissonSampled, Repeated

SOURCE = Path(__file__).parents[1] / "src/epsilog"
OWN = SOURCE / "mechanisms"  # a mechanism's own file may ask
WORD = re.compile(r"\w+")


def mechanisms() -> set[str]:
    """The names of all classes of mechanisms: those that are registered as terms in the package."""
    trees = (ast.parse(file.read_text(encoding="utf-8")) for file in OWN.glob("*.py"))
    classes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {one.name for one in classes if any("Release" in names(base) for base in one.bases)}


def names(node: ast.AST) -> set[str]:
    """All names and attributes in an expression."""
    return {
        one.attr if isinstance(one, ast.Attribute) else one.id
        for one in ast.walk(node)
        if isinstance(one, ast.Name | ast.Attribute)
    }


def dispatch_sites(source: str, known: set[str]) -> Iterator[int]:
    """The lines that ask for a mechanism's class: isinstance, a class pattern, a case of ``singledispatch``."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]) if names(kinds) & known:
                yield node.lineno
            case ast.MatchClass(cls=kind) if names(kind) & known:
                yield node.lineno
            case ast.FunctionDef(decorator_list=marks, args=ast.arguments(args=args)) if any(
                "register" in names(mark) for mark in marks
            ):
                if any(one.annotation is not None and names(one.annotation) & known for one in args):
                    yield node.lineno


def count_sites() -> Counter[str]:
    """How many such lines each file outside the package of mechanisms has."""
    known, found = mechanisms(), Counter[str]()
    for file in SOURCE.rglob("*.py"):
        if OWN not in file.parents:
            text = file.read_text(encoding="utf-8")
            if known.isdisjoint(WORD.findall(text)):  # most files, and parsing takes longer than this
                continue
            if sites := sum(1 for _ in dispatch_sites(text, known)):
                found[str(file.relative_to(SOURCE))] = sites
    return found


def list_entered(ask: Callable[[float], object]) -> set[str]:
    """The files whose functions a question calls, once all modules are loaded."""
    seen: set[str] = set()

    def look(frame: FrameType, event: str, arg: Any) -> None:  # noqa: ARG001
        file = Path(frame.f_code.co_filename)
        if event == "call" and SOURCE in file.parents:
            seen.add(str(file.relative_to(SOURCE)))

    ask(1.0)
    sys.setprofile(look)
    ask(1.25)
    sys.setprofile(None)
    return seen


def questions() -> dict[str, Callable[[float], object]]:
    """What epsilon is asked of, by its noise multiplier."""
    return {
        "Gaussian": lambda noise: epsilon(Gaussian(noise), delta=1e-5),
        "DP-SGD": lambda noise: epsilon(Repeated(PoissonSampled(Gaussian(noise), 0.01), 1000), delta=1e-5),
    }


def main() -> None:
    """Print the figures."""
    files = list(SOURCE.rglob("*.py"))
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    sites = count_sites()
    told = [f"{lines} lines in {len(files)} files", f"{sites.total()} dispatch sites in {len(sites)} files"]
    told += [f"  {count:3} {file}" for file, count in sites.most_common()]
    for name, ask in questions().items():
        entered = sorted(list_entered(ask))
        told += [f"{len(entered)} files entered by epsilon of {name}", *(f"      {file}" for file in entered)]
    sys.stdout.write("\n".join(told) + "\n")


if __name__ == "__main__":
    main()
