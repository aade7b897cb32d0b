"""Pairs of neighboring data sets: in one unit they differ, which contributes the same once it is clipped."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

Table = tuple[tuple[str, ...], ...]
ROUNDS, PLACES = 3, 20
WORDS = ("no", "yes")
LEDGER = ("--ledger", "ledger.db")


_CLIENT = ("client", "local_steps = 2\nlearning_rate = 0.5")
_EXAMPLE = ("row", "expected_examples = 3\nlearning_rate = 0.1")
_SHARED = "clip_norm = 0.2\ncohort_size = 8\nmax_participations = 2"
_CENTRAL = 'kind = "client-level-central"\nclip_norm = {}\nsampling_probability = 0.5'
RENDERED = ("markdown", "summary")
ANSWERS, COUNTED = "answers", "central with counts"
ONE_STEP = "one step"  # of gradient descent from zero towards numbers: a target twice as large doubles the update
SERVER_ADDS_NOISE = ("central", COUNTED, "adaptive clip", ONE_STEP)
SCHEMES = {
    "central": (*_CLIENT, _CENTRAL.format(0.2)),
    COUNTED: (*_CLIENT, _CENTRAL.format(0.2)),
    ONE_STEP: ("client", "local_steps = 1\nlearning_rate = 0.5", _CENTRAL.format(0.01)),
    ANSWERS: ("client", "", ""),
    "adaptive clip": (
        *_CLIENT,
        'kind = "client-level-adaptive-clip"\nclip_norm = 2.0\ntarget_quantile = 0.5\nclip_learning_rate = 0.2\n'
        "quantile_noise = 5.0\nsampling_probability = 0.5",
    ),
    "client-side": (*_CLIENT, f'kind = "client-level-client-side"\n{_SHARED}'),
    "distributed": (
        *_CLIENT,
        f'kind = "client-level-distributed"\n{_SHARED}\nsurvivors = 6\ngrid = 0.001\nmodulus_bits = 24',
    ),
    "correlated noise": (
        *_CLIENT,
        'kind = "client-level-correlated-noise"\nclip_norm = 0.2\ncycle_length = 2\nbands = 2',
    ),
    "examples": (
        *_EXAMPLE,
        f'kind = "example-level-client-side"\nclients = {PLACES}\ncohort_size = 8\nmax_participations = 2\n'
        "batch_probability = 0.5\nepochs = 1\nclip_norm = 1.0",
    ),
}
"""By name: the privacy unit, the training, and the scheme as a run config states it."""
_COUNTS = """[counts]
usable = "0.5"
evaluation = "0.5"
rows_per_unit = 3
"""
_CONFIG = """[identity]
name = "neighbors"
purpose = "shows that neighbors look alike"
owner = "none"

[guarantee]
privacy_unit = "{unit}"
relation = "{relation}"
population = {population}

[budget]
scope = "neighbors"
epsilon = "1000"
delta = "1e-3"
delta_rationale = "made-up rows protect no one"

[scheme]
{scheme}
rounds = {rounds}
noise_multiplier = 2.0

[data]
path = "rows.csv"
client = "client"
row = "row"
id = "row"
target = "stay"
{target}
test = "none"
{withdrawn}

[data.features]
age = [0, 110]
ward = ["a", "b"]

[data.missing]
age = 50

[model]
kind = "linear"

[training]
{training}

[coverage]
participation = "as the scheme says"
rounds_per_release = {rounds}
adaptive_clip = {adaptive}
post_processing = "none"

{counts}
[reporting]
period = "2026-Q4"

[run]
simulation = false
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two neighboring data sets under one scheme.

    Attributes:
        scheme: a name in ``SCHEMES``.
        change: what differs.
        rows: both tables, without their heading.
        withdrawn: who has withdrawn, in both.
    """

    scheme: str
    change: str
    rows: tuple[Table, Table]
    withdrawn: tuple[str, str] = ("", "")

    @property
    def name(self) -> str:
        """How a report names it."""
        return f"{self.scheme}: {self.change}"

    @property
    def unit(self) -> str:
        """The privacy unit: a column's name."""
        return SCHEMES[self.scheme][0]

    @property
    def relation(self) -> str:
        """What neighbors are."""
        return "add-or-remove-one" if self.scheme in (*SERVER_ADDS_NOISE, "examples", ANSWERS) else "zero-out"

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """What is run, in order; ``{folder}`` is the run's."""
        history = ("ledger", "history", "neighbors", *LEDGER, "--json")
        bundle = ("ledger", "bundle", *LEDGER, "-o", "ledger.bundle")
        if self.scheme == ANSWERS:
            return (*_answers(), history, bundle)
        run = ("run", "run.toml", "--runs", "runs", *LEDGER)
        verify = ("verify", "{folder}/report.json", *LEDGER, "--json", "-o", "verdict.md")
        rendered = tuple(("report", "{folder}", "-f", kind, "-o", f"as-{kind}") for kind in RENDERED)
        return (run, (*run, "--json"), history, bundle, ("verify", "{folder}/report.html", *LEDGER), verify, *rendered)

    @property
    def written(self) -> tuple[str, ...]:
        """Files that the commands write, all of them public."""
        return (
            "ledger.bundle",
            *(() if self.scheme == ANSWERS else ("verdict.md", *(f"as-{kind}" for kind in RENDERED))),
        )

    def files(self, second: int) -> dict[str, bytes]:
        """Return the input files of the first or the second data set."""
        lines = "".join(",".join(row) + "\n" for row in (("row", "client", "age", "ward", "stay"), *self.rows[second]))
        found = {"rows.csv": lines.encode(errors="surrogateescape"), "gone.txt": self.withdrawn[second].encode()}
        return found if self.scheme == ANSWERS else found | {"run.toml": self._write_config().encode()}

    def _write_config(self) -> str:
        unit, training, scheme = SCHEMES[self.scheme]
        return _CONFIG.format(
            unit=unit,
            relation=self.relation,
            population=PLACES * (5 if self.scheme == "examples" else 1),
            scheme=scheme,
            training=training,
            rounds=1 if self.scheme == ONE_STEP else ROUNDS,
            target="target_range = [-1, 1]" if self.scheme == ONE_STEP else 'classes = ["no", "yes"]',
            adaptive=str(self.scheme == "adaptive clip").lower(),
            withdrawn='withdrawn = "gone.txt"' if self.scheme in SERVER_ADDS_NOISE else "",
            counts=_COUNTS if self.scheme == COUNTED else "",
        )


def _answers() -> tuple[tuple[str, ...], ...]:
    """One question of each kind that a table can be asked."""
    ranged, categories = ("--low", "0", "--high", "110"), ("--category", "a", "--category", "b")
    asked: tuple[tuple[str, ...], ...] = (
        ("count",),
        ("sum", "age", *ranged),
        ("mean", "age", *ranged, "--population", "40"),
        ("histogram", "ward", *categories),
        ("most-common", "ward", *categories),
        ("above", "ward", "--threshold", "20"),
    )
    common = ("--data", "rows.csv", "--unit-column", "client", "--max-rows-per-unit", "2", "--epsilon", "0.1", *LEDGER)
    return tuple(("query", "neighbors", *each, *common, "--key", f"q{n}") for n, each in enumerate(asked))


def pairs() -> list[Pair]:
    """All pairs, scheme by scheme. The unit that differs is the last, so that all others keep their places."""
    drawn = random.Random(1)  # noqa: S311 made-up rows
    base = tuple(
        (f"r{client:02d}{row}", f"c{client:02d}", str(drawn.randrange(110)), drawn.choice("ab"), drawn.choice(WORDS))
        for client in range(12)
        for row in range(3)
    )
    return [*_of_runs(base), *_of_answers(base)]


Changes = dict[str, tuple[Sequence[tuple[str, ...]], Sequence[tuple[str, ...]]]]
BLANK, GOOD = ("z0", "zz", "40", "a", ""), ("z0", "zz", "40", "a", "yes")


def _of_runs(base: Table) -> list[Pair]:
    found = []
    for scheme in SCHEMES:
        changes: Changes = {
            "a bad cell": ([BLANK], [(*BLANK[:4], "perhaps")]),
            "a cell that no reader expects": ([BLANK], [(*BLANK[:2], '"4\x00\udcff', "a", "b", "c,")]),
            "a number that cannot be used": ([(*GOOD[:2], "", *GOOD[3:])], [(*GOOD[:2], "inf", *GOOD[3:])]),
            "a huge number": ([(*GOOD[:2], "110", *GOOD[3:])], [(*GOOD[:2], "1e300", *GOOD[3:])]),
            "an unusable row": ([GOOD], [GOOD, ("z1", *BLANK[1:])]),
        }
        if scheme in ("central", "adaptive clip", COUNTED, "examples"):
            changes["a client without a usable row"] = ([], [BLANK])
        if scheme not in ("examples", COUNTED):
            changes["a row twice"] = ([GOOD], [GOOD, ("z1", *GOOD[1:])])
        if scheme not in (ONE_STEP, ANSWERS):
            found += [Pair(scheme, change, ((*base, *one), (*base, *two))) for change, (one, two) in changes.items()]
        if scheme in ("central", "adaptive clip"):
            found.append(Pair(scheme, "a row of who withdrew", ((*base, BLANK), (*base, GOOD)), ("zz\n", "zz\n")))
    found.append(Pair("central", "a client that withdrew", (base, (*base, GOOD)), ("", "zz\n")))
    numbers = tuple((*row[:4], "0.5" if row[4] == "yes" else "-0.5") for row in base)
    clipped = tuple((*numbers, (*GOOD[:4], target)) for target in ("0.25", "0.5"))
    return [*found, Pair(ONE_STEP, "an update twice as long, clipped", (clipped[0], clipped[1]))]


def _of_answers(base: Table) -> list[Pair]:
    none = (*GOOD[:2], "", *GOOD[3:])
    changes: Changes = {
        "a bad cell": ([(*GOOD[:3], "", "no")], [(*GOOD[:3], "neither", "no")]),
        "a cell that no reader expects": ([(*GOOD[:2], "", "", "")], [(*GOOD[:2], '"4\x00\udcff', "a", "b", "c,")]),
        "a number that cannot be used": ([none], [(*GOOD[:2], "nan", *GOOD[3:])]),
        "a huge number": ([(*GOOD[:2], "110", *GOOD[3:])], [(*GOOD[:2], "1e300", *GOOD[3:])]),
        "a row beyond the cap": ([GOOD] * 2, [*[GOOD] * 2, ("z2", "zz", "99", "b", "no")]),
        "a short row": ([(*GOOD[:3], "", "")], [GOOD[:3]]),
    }
    return [Pair(ANSWERS, change, ((*base, *one), (*base, *two))) for change, (one, two) in changes.items()]
