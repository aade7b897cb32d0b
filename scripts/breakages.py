"""Breaks lines of ``src/epsilog``, one at a time, and says which of the breakages the fast tests catch.

    python scripts/breakages.py --seed 1 --number 200 --out .cache/breakages     all parts; call it again to go on
    python scripts/breakages.py --out .cache/breakages --part verify --time 600  one part, ten minutes of it
    python scripts/breakages.py --out .cache/breakages --again --only noise.py   survivors anew, after writing tests
    python scripts/breakages.py --out .cache/breakages --score                   the table, and what survived

A breakage is a slip that a person could make: a sign, a bound, a factor, a dropped statement, two arguments swapped.
Texts, types, assertions and decorators are left alone. The tree is copied first, and only the copy is ever broken. A
first run of the tests notes which functions each of them enters; a breakage then meets the tests that enter its
function, quickest first, then others of its part. The same seed on the same source breaks the same lines.

What survives is judged by hand: some breakages change nothing that anybody could state (a margin that is wider than it
needs to be, a step that is merely slower).
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "src/epsilog/"
PARTS = (  # a file belongs to the first part that it lies in
    *("accounting/montecarlo", "terms", "numerics", "mechanisms", "accounting", "plan", "ledger", "training"),
    *("schemes", "queries", "signing", "verification", "reports", "pipeline", "adapters", "cli", "server"),
)
BESIDE = {  # other folders of tests that a part's breakages meet
    "numerics": ("tests/accounting/", "tests/mechanisms/"),
    "mechanisms": ("tests/accounting/", "tests/numerics/"),
    "accounting": ("tests/oracles/", "tests/numerics/", "tests/mechanisms/"),
    "ledger": ("tests/server/",),
    "schemes": ("tests/training/",),
    "verification": ("tests/reports/",),
    "reports": ("tests/verification/",),
}
RECORD = "EPSILOG_BREAKAGES_RECORD"  # where a recording run of pytest writes; names the file
MOST_TESTS, FIRST_TESTS = 400, 12
MEMORY = 6 << 30  # bytes that a run may take: a broken size can ask for all there is
WAIT = 5  # seconds for each of the processor's, before a run that sleeps is ended
PRELOADED = ("numpy", "scipy.special", "scipy.stats", "scipy.optimize", "scipy.fft", "scipy.integrate", "mpmath")
PRELOADED += ("pydantic", "jsonschema", "jinja2", "typer", "rich.console", "fastapi", "joblib")


# --- what can be broken -----------------------------------------------------------------------------------------------

TURNS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "/"),
    ast.Div: ("/", "*"),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
}
TWINS = [
    *[("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("floor", "ceil"), ("any", "all")],
    *[("lower", "upper"), ("low", "high"), ("below", "above"), ("left", "right"), ("first", "last")],
    *[("log", "log1p"), ("exp", "expm1"), ("bdtr", "bdtrc"), ("chdtr", "chdtrc"), ("least", "most")],
]
TWIN = {a: b for pair in TWINS for a, b in (pair, pair[::-1])}
KINDS = (
    *("arithmetic", "factor", "comparison", "and/or", "condition", "not", "sign", "constant", "twin", "swap"),
    *("statement", "raise", "guard", "otherwise", "early", "element", "field"),
)
EVEN_HANDED = {"min", "max", "minimum", "maximum", "hypot", "isclose", "logaddexp", "print", "zip"}


@dataclass(frozen=True)
class Breakage:
    """One way to break one line: ``path[start:end]``, in bytes, becomes ``text``."""

    path: str
    line: int
    operator: str
    start: int
    end: int
    text: str
    function: str

    @property
    def name(self) -> str:
        """Names it, for as long as its line stays where it is."""
        return f"{self.path.removeprefix(SOURCE)}:{self.line}:{self.operator}:{self.text}"

    @property
    def part(self) -> str:
        """The part that it belongs to."""
        return part_of(self.path)


def part_of(path: str) -> str:
    """The part that a source file belongs to."""
    inside = path.removeprefix(SOURCE)
    return next((part for part in PARTS if inside.startswith(part + "/")), "")


class _Breaker(ast.NodeVisitor):
    """Collects the breakages of one file."""

    def __init__(self, path: str, source: str) -> None:
        self._path, self._bytes = path, source.encode()
        self._starts = [0]
        for line in self._bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._names: list[str] = []
        self._known: list[set[str]] = []
        self.found: list[Breakage] = []

    def _span(self, node: Any) -> tuple[int, int]:
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._bytes[start:end].decode()

    def _add(self, operator: str, node: Any, text: str, *, span: tuple[int, int] | None = None) -> None:
        start, end = span or self._span(node)
        line = self._bytes[:start].count(b"\n") + 1
        self.found.append(Breakage(self._path, line, operator, start, end, text, ".".join(self._names)))

    def _between(self, operator: str, left: ast.AST, right: ast.AST, turn: tuple[str, str]) -> None:
        start, end = self._span(left)[1], self._span(right)[0]
        gap = re.sub(r"#[^\n]*", lambda m: " " * len(m[0]), self._bytes[start:end].decode())
        at = re.search(turn[0], gap)
        if at and gap.isascii():
            self._add(operator, left, turn[1], span=(start + at.start(), start + at.end()))

    # what is left alone

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts are for people."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Python may strip them."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Types are mypy's."""
        if node.value is not None:
            self.visit(node.value)

    def visit_arguments(self, node: ast.arguments) -> None:
        """Defaults only."""
        for default in (*node.defaults, *node.kw_defaults):
            if default is not None:
                self.visit(default)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Its body, and nothing of its decorators."""
        self._names.append(node.name)
        self._known.append({one.id for one in ast.walk(node) if isinstance(one, ast.Name)} | _arguments(node))
        self.visit(node.args)
        for statement in node.body:
            self.visit(statement)
        self._known.pop()
        self._names.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Likewise."""
        self._names.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._names.pop()

    # what is broken

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Signs, and factors."""
        if type(node.op) in TURNS:
            self._between("arithmetic", node.left, node.right, TURNS[type(node.op)])
        if isinstance(node.op, ast.Mult | ast.Div):
            self._add("factor", node, f"({self._text(node.left)})")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Bounds that count or do not, and questions turned round."""
        for left, op, right in zip((node.left, *node.comparators), node.ops, node.comparators, strict=False):
            if type(op) in TURNS:
                self._between("comparison", left, right, TURNS[type(op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """And for or; one condition forgotten."""
        word = " or " if isinstance(node.op, ast.And) else " and "
        values = [f"({self._text(value)})" for value in node.values]
        self._add("and/or", node, f"({word.join(values)})")
        kept = (" and " if isinstance(node.op, ast.And) else " or ").join(values[:-1])
        self._add("condition", node, f"({kept})")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Not and minus."""
        if isinstance(node.op, ast.Not | ast.USub):
            self._add("not" if isinstance(node.op, ast.Not) else "sign", node, f"({self._text(node.operand)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """One off; only small numbers, as large ones say how fine or how many."""
        if isinstance(node.value, bool):
            self._add("constant", node, str(not node.value))
        elif isinstance(node.value, int | float) and abs(node.value) < 10 and node.value == int(node.value):
            for other in (node.value + 1, node.value - 1):
                self._add("constant", node, repr(other) if other >= 0 else f"({other!r})")

    def visit_Name(self, node: ast.Name) -> None:
        """The other of a pair."""
        other = TWIN.get(node.id)
        known = self._known[-1] if self._known else set()
        if isinstance(node.ctx, ast.Load) and other and (other in known or node.id in {"min", "max", "any", "all"}):
            self._add("twin", node, other)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """The other of a pair."""
        if node.attr in TWIN and isinstance(node.ctx, ast.Load):
            end = self._span(node)[1]
            self._add("twin", node, TWIN[node.attr], span=(end - len(node.attr), end))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Two arguments swapped."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        plain = [one for one in node.args if not isinstance(one, ast.Starred | ast.JoinedStr)]
        if len(plain) >= 2 and name not in EVEN_HANDED:
            self._swap(plain[0], plain[1])
        named = [one.value for one in node.keywords if one.arg and not isinstance(one.value, ast.JoinedStr)]
        for one, other in pairwise(named):
            self._swap(one, other)
        self.generic_visit(node)

    def _swap(self, one: ast.expr, other: ast.expr) -> None:
        first, second = self._text(one), self._text(other)
        if first != second and not all(isinstance(e, ast.Constant) and isinstance(e.value, str) for e in (one, other)):
            start, end = self._span(one)[0], self._span(other)[1]
            middle = self._bytes[self._span(one)[1] : self._span(other)[0]].decode()
            self._add("swap", one, second + middle + first, span=(start, end))

    def visit_Expr(self, node: ast.Expr) -> None:
        """A statement forgotten; never a docstring."""
        if isinstance(node.value, ast.Constant):
            return
        self._add(
            "statement", node, "pass" if not isinstance(node.value, ast.Yield | ast.YieldFrom) else "yield from ()"
        )
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Forgotten."""
        self._add("statement", node, "pass")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        """What changes a thing is forgotten; a new name is not."""
        if isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            return
        if isinstance(node.targets[0], ast.Attribute | ast.Subscript):
            self._add("statement", node, "pass")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Forgotten; but not what stands where an assertion could."""
        if "AssertionError" not in self._text(node):
            self._add("raise", node, "pass")

    def visit_Continue(self, node: ast.Continue) -> None:
        """Forgotten."""
        self._add("statement", node, "pass")

    visit_Break = visit_Continue

    def visit_If(self, node: ast.If) -> None:
        """A guard that never guards, or guards the others."""
        test = self._text(node.test)
        if test == "TYPE_CHECKING":
            return
        self._add("guard", node.test, f"not ({test})")
        if not node.orelse:
            self._add("guard", node.test, f"False and ({test})")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """The other of two."""
        body, orelse = self._text(node.body), self._text(node.orelse)
        self._add("otherwise", node, f"(({orelse}) if ({self._text(node.test)}) else ({body}))")
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        """Left after the first."""
        last = node.body[-1]
        if last.lineno != node.lineno and not isinstance(last, ast.Return | ast.Raise | ast.Break | ast.Continue):
            end = self._span(last)[1]
            self._add("early", last, "\n" + " " * last.col_offset + "break", span=(end, end))
        self.generic_visit(node)

    def visit_List(self, node: ast.List | ast.Tuple) -> None:
        """A finding dropped."""
        if len(node.elts) >= 2 and isinstance(node.ctx, ast.Load) and not self._texts(node):
            for at, one in enumerate(node.elts):
                if isinstance(one, ast.Call | ast.Starred):
                    rest = [self._text(other) for i, other in enumerate(node.elts) if i != at]
                    inside = ", ".join(rest) + ("," if len(rest) == 1 else "")
                    self._add("element", node, f"[{inside}]" if isinstance(node, ast.List) else f"({inside})")
        self.generic_visit(node)

    visit_Tuple = visit_List

    def _texts(self, node: ast.List | ast.Tuple) -> bool:
        return "\n" in self._text(node) and "#" in self._text(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        """A field dropped."""
        if len(node.keys) >= 2 and "#" not in self._text(node):
            pairs = [f"{self._text(k)}: {self._text(v)}" if k else f"**{self._text(v)}" for k, v in _items(node)]
            for at, (key, _) in enumerate(_items(node)):
                if key is not None:
                    self._add("field", node, "{" + ", ".join(pairs[:at] + pairs[at + 1 :]) + "}")
        self.generic_visit(node)


def _items(node: ast.Dict) -> list[tuple[ast.expr | None, ast.expr]]:
    return list(zip(node.keys, node.values, strict=True))


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}


def breakages_of(path: str, source: str) -> list[Breakage]:
    """All breakages of a file."""
    breaker = _Breaker(path, source)
    breaker.visit(ast.parse(source))
    return list({one.name: one for one in breaker.found}.values())


def breaks(source: str, one: Breakage) -> bool:
    """Whether it leaves Python, and another Python."""
    try:
        return ast.dump(ast.parse(broken(source, one))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def broken(source: str, one: Breakage) -> str:
    """The file with the breakage in it."""
    raw = source.encode()
    return (raw[: one.start] + one.text.encode() + raw[one.end :]).decode()


def chosen(root: Path, *, seed: int, number: int) -> list[Breakage]:
    """A sample: parts by the root of their size, kinds of slip in turn, no line twice."""
    sources = {part: [] for part in PARTS}  # type: dict[str, list[tuple[str, str]]]
    for file in sorted((root / SOURCE).rglob("*.py")):
        path = file.relative_to(root).as_posix()
        if part_of(path):
            sources[part_of(path)].append((path, file.read_text()))
    weights = {part: sum(text.count("\n") for _, text in files) ** 0.5 for part, files in sources.items()}
    quotas = {part: number * weight / sum(weights.values()) for part, weight in weights.items()}
    left = number - sum(int(q) for q in quotas.values())
    ahead = sorted(quotas, key=lambda part: int(quotas[part]) - quotas[part])[:left]
    found: list[Breakage] = []
    for part, files in sources.items():
        found += _sample(files, int(quotas[part]) + (part in ahead), random.Random(f"{seed}/{part}"))  # noqa: S311
    return found


def _sample(files: list[tuple[str, str]], wanted: int, rng: random.Random) -> list[Breakage]:
    """Goes round the kinds of slip, and draws a file by its length and then a place in it."""
    weights = [text.count("\n") for _, text in files]
    sites: dict[str, dict[str, list[Breakage]]] = {}
    found: list[Breakage] = []
    lines: set[tuple[str, int]] = set()
    kinds: list[str] = []
    for _ in range(200 * wanted):
        if len(found) == wanted:
            break
        path, text = rng.choices(files, weights)[0]
        if path not in sites:
            sites[path] = {}
            for one in breakages_of(path, text):
                sites[path].setdefault(one.operator, []).append(one)
        if not kinds:
            kinds = rng.sample(KINDS, len(KINDS))
        kind = kinds.pop()
        places = [one for one in sites[path].get(kind, []) if (path, one.line) not in lines]
        one = rng.choice(places) if places else None
        if one and breaks(text, one):
            found.append(one)
            lines.add((path, one.line))
    return found


# --- which tests enter which functions --------------------------------------------------------------------------------

_entered: set[str] = set()
_noted: dict[str, tuple[float, list[str]]] = {}


def _watch(frame: Any, event: str, _: Any) -> None:
    name = frame.f_code.co_filename
    at = name.find(SOURCE)
    if event == "call" and at >= 0:
        _entered.add(f"{name[at:]}::{frame.f_code.co_qualname}")


def pytest_runtest_logstart(nodeid: str) -> None:
    """Begins to note what a test enters."""
    if RECORD in os.environ:
        _entered.clear()
        _noted[nodeid] = (time.monotonic(), [])
        sys.settrace(_watch)
        threading.settrace(_watch)


def pytest_runtest_logreport(report: Any) -> None:
    """Forgets tests that do not pass as things are."""
    if RECORD in os.environ and (report.failed or report.skipped):
        _noted[report.nodeid] = (-1.0, [])


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Keeps what it entered, and how long that took."""
    if RECORD in os.environ:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        begun = _noted[nodeid][0]
        _noted[nodeid] = (time.monotonic() - begun if begun >= 0 else -1.0, sorted(_entered))


def pytest_sessionfinish() -> None:
    """Writes it down."""
    if RECORD in os.environ:
        Path(os.environ[RECORD]).write_text(json.dumps(_noted))


# --- a copy that may be broken ----------------------------------------------------------------------------------------


class Copy:
    """A copy of the tree in a temporary folder, which tests run in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"],  # noqa: S607
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, folder / name)
        static = f"{SOURCE}server/static"
        if (ROOT / static).is_dir():
            shutil.copytree(ROOT / static, folder / static, dirs_exist_ok=True)

    def pytest(self, arguments: list[str], *, cap: float, environment: dict[str, str] | None = None) -> tuple[int, str]:
        """Runs pytest on the copy, in a fork of this process; -1 stands for a run that had to be ended."""
        shutil.rmtree(self.folder / ".hypothesis", ignore_errors=True)
        said = self.folder / "said.txt"
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            plain = ["--hypothesis-seed=0", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
            self._run([*plain, *arguments], said, environment or {}, cap=cap)
        try:
            code = _ended(child, WAIT * cap)
        except BaseException:
            _kill(child)
            raise
        return code, said.read_text(errors="replace")

    def _run(self, arguments: list[str], said: Path, environment: dict[str, str], *, cap: float) -> None:
        """What the fork does: it never returns."""
        code = 3
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(cap), math.ceil(cap) + 5))
            os.chdir(self.folder)
            output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(output, stream)
            paths = [str(self.folder / "src"), str(Path(__file__).parent)]
            os.environ.update(environment | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"})
            sys.dont_write_bytecode = True
            sys.path[:0] = [str(self.folder), *paths]
            import pytest  # noqa: PLC0415 - it takes its own first breath here

            code = int(pytest.main(arguments))
        except BaseException:  # noqa: BLE001 - the fork's last word
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def _ended(child: int, cap: float) -> int:
    """Waits for a fork, and ends it with all that it started when its time is over."""
    begun = time.monotonic()
    while time.monotonic() - begun < cap:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return -1 if code in (-signal.SIGXCPU, -signal.SIGKILL) else code
        time.sleep(0.02)
    _kill(child)
    return -1


def _kill(child: int) -> None:
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)


def preload() -> None:
    """Imports what every test would import, so that each fork has it: nothing of ours."""
    os.environ.update({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"})
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def learn(copy: Copy, out: Path, parts: tuple[str, ...], marks: str) -> dict[str, tuple[float, frozenset[str]]]:
    """What each test of some parts enters and how long it takes; files whose text is known are not run again."""
    wanted = tuple(place for part in parts for place in places_of(part))
    kept = out / "entered.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    stamps, stale = {}, {}  # type: dict[str, str], dict[tuple[str, ...], list[str]]
    for file in sorted([*copy.folder.glob("tests/**/test_*.py"), *copy.folder.glob("src/**/*.py")]):
        name = file.relative_to(copy.folder)
        if not name.as_posix().startswith(wanted) or (name.parts[0] == "src" and ">>>" not in file.read_text()):
            continue
        stamps[name.as_posix()] = hashlib.sha256(file.read_bytes()).hexdigest()
        if known.get(name.as_posix(), {}).get("stamp") != stamps[name.as_posix()]:
            stale.setdefault(name.parts[: 2 if name.parts[0] == "tests" else 3], []).append(name.as_posix())
    for names in stale.values():
        record = copy.folder / "record.json"
        record.unlink(missing_ok=True)
        copy.pytest(
            ["-p", "breakages", "--continue-on-collection-errors", "-m", marks, *names],
            cap=1200,
            environment={RECORD: str(record)},
        )
        noted = json.loads(record.read_text()) if record.exists() else {}
        for name in names:
            own = {test: found for test, found in noted.items() if test.split("::")[0] == name}
            known[name] = {"stamp": stamps[name], "tests": {t: v for t, v in own.items() if v[0] >= 0}}
            print(f"{name}: {len(own)} tests, {len(own) - len(known[name]['tests'])} fail or skip", flush=True)
        kept.write_text(json.dumps(known))
    current = {test: found for name in stamps for test, found in known[name]["tests"].items()}
    return {test: (seconds, frozenset(entered)) for test, (seconds, entered) in current.items()}


def places_of(part: str) -> tuple[str, ...]:
    """Where the tests of a part are."""
    return (f"tests/{part}/", f"{SOURCE}{part}/", *BESIDE.get(part, ()))


def tests_for(one: Breakage, entered: dict[str, tuple[float, frozenset[str]]], *, budget: float) -> list[str]:
    """Tests that enter the function, quickest first; then that enter the file; then others of the part."""
    places = places_of(one.part)
    inside = f"{one.path}::{one.function}"

    def nearness(name: str) -> int:
        functions = entered[name][1]
        if one.function and any(f == inside or f.startswith(inside + ".") for f in functions):
            return 0
        if any(f.startswith(one.path + "::") for f in functions):
            return 1
        return 2 if name.startswith(places) else 3

    spent, found = 0.0, []
    ranked = sorted((nearness(name), not name.startswith(places), entered[name][0], name) for name in entered)
    for near, _, seconds, name in ranked:
        if near == 3 or len(found) == MOST_TESTS:
            break
        if spent + seconds <= budget or not found:
            spent += seconds
            found.append(name)
    return found


# --- runs and scores --------------------------------------------------------------------------------------------------


def attempt(copy: Copy, one: Breakage, tests: list[str], *, marks: str, cap: float) -> dict[str, Any]:
    """Breaks the copy, runs the tests, mends it."""
    file = copy.folder / one.path
    source = file.read_text()
    begun = time.monotonic()
    try:
        file.write_text(broken(source, one))
        code, said = 5, ""
        for some in (tests[:FIRST_TESTS], tests[FIRST_TESTS:]):  # few files to collect, then all
            if some and code in (0, 5):
                code, said = copy.pytest(["-x", "-q", "--no-header", "-m", marks, *some], cap=cap)
    finally:
        file.write_text(source)
    killer = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", said, re.MULTILINE)
    if code == 4 and re.search("while loading conftest|^ERROR tests/", said, re.MULTILINE):  # not even imported: caught
        code = 1
    if code not in (-1, 0, 1, 2, 5):  # no verdict on the tests, but an error of ours
        raise RuntimeError(f"pytest ended with {code}: {said[-2000:]}")
    outcome = {0: "survived", 5: "survived", -1: "timed out"}.get(code, "caught")
    by = killer[1] if killer else said.strip()[-200:] if outcome == "caught" else ""
    return asdict(one) | {
        "name": one.name,
        "part": one.part,
        "outcome": outcome,
        "by": by,
        "tests": len(tests),
        "seconds": round(time.monotonic() - begun, 1),
        "shown": shown(source, one),
    }


def shown(source: str, one: Breakage) -> str:
    """The lines before and after."""
    before = source.splitlines()
    after = broken(source, one).splitlines()
    raw = source.encode()
    last = raw[: one.end].count(b"\n") + 1
    more = len(after) - len(before)
    lines = [f"- {line}" for line in before[one.line - 1 : last]]
    return "\n".join(lines + [f"+ {line}" for line in after[one.line - 1 : last + more]])


def results(out: Path) -> dict[str, dict[str, Any]]:
    """The last outcome of each breakage."""
    file = out / "results.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return {found["name"]: found for found in map(json.loads, lines)}


def score(found: dict[str, dict[str, Any]], parts: tuple[str, ...]) -> str:
    """A table by part, and what survived."""
    counts = Counter((one["part"], one["outcome"]) for one in found.values())
    lines = [f"{'part':24}{'broken':>8}{'caught':>8}{'hung':>8}{'survived':>10}"]
    for part in (*parts, "all"):
        of = [sum(n for (p, o), n in counts.items() if part in {p, "all"} and o == outcome) for outcome in OUTCOMES]
        lines.append(f"{part:24}{sum(of):8}{of[0]:8}{of[1]:8}{of[2]:10}")
    left = (one for _, one in sorted(found.items()) if one["outcome"] != "caught")
    lines += [f"\n{one['outcome']}: {one['path']}:{one['line']} ({one['operator']})\n{one['shown']}" for one in left]
    return "\n".join(lines)


OUTCOMES = ("caught", "timed out", "survived")


def parsed() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=200, help="how many breakages, over all parts")
    parser.add_argument("--part", action="append", choices=PARTS, help="only these parts of the sample")
    parser.add_argument("--only", default="", help="only breakages whose name holds this")
    parser.add_argument("--again", action="store_true", help="those again that were not caught")
    parser.add_argument("--out", type=Path, required=True, help="a folder for what was learned and found")
    parser.add_argument("--budget", type=float, default=25.0, help="seconds of tests for each breakage")
    parser.add_argument("--cap", type=float, default=60.0, help="processor seconds after which a run is ended")
    parser.add_argument("--time", type=float, default=float("inf"), help="seconds after which no breakage is begun")
    parser.add_argument("--slow", action="store_true", help="with slow tests, as far as the budget goes")
    parser.add_argument("--list", action="store_true", help="show the sample, and run nothing")
    parser.add_argument("--score", action="store_true", help="show the score so far, and run nothing")
    return parser.parse_args()


def main() -> None:
    """Runs what is left of the sample."""
    asked = parsed()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that forks end and the copy goes, however this ends
    parts = tuple(asked.part or PARTS)
    sample = [one for one in chosen(ROOT, seed=asked.seed, number=asked.number) if one.part in parts]
    sample = [one for one in sample if asked.only in one.name]
    asked.out.mkdir(parents=True, exist_ok=True)
    done = results(asked.out)
    if asked.list:
        print("\n".join(one.name for one in sample))
    elif asked.score:
        print(score({one.name: done[one.name] for one in sample if one.name in done}, parts))
    else:
        again = {name for name, one in done.items() if asked.again and one["outcome"] != "caught"}
        run([one for one in sample if one.name not in done or one.name in again], asked)


def run(sample: list[Breakage], asked: argparse.Namespace) -> None:
    """Tries each, and writes down how it ended."""
    begun = time.monotonic()
    preload()
    with tempfile.TemporaryDirectory(prefix="breakages-") as folder:
        copy = Copy(Path(folder))
        marks = "slow or not slow" if asked.slow else "not slow"
        entered = learn(copy, asked.out, tuple(asked.part or PARTS), marks)
        random.Random(asked.seed).shuffle(sample)  # noqa: S311 - so that a part of the time is a sample, too
        for one in sample:
            if time.monotonic() - begun > asked.time:
                break
            tests = tests_for(one, entered, budget=asked.budget)
            found = attempt(copy, one, tests, marks=marks, cap=asked.cap)
            with (asked.out / "results.jsonl").open("a") as file:
                file.write(json.dumps(found) + "\n")
            print(f"{found['outcome']:10}{found['seconds']:6}s  {one.name}", flush=True)


if __name__ == "__main__":
    main()
