"""What is given to a command reaches the library, by its name and unchanged; and how each command ends."""

import dataclasses
import datetime as dt
import hashlib
import importlib
import inspect
import io
import json
import math
import re
import shlex
import shutil
import sys
from enum import Enum
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from epsilog import accounting, ledger, mechanisms, plan, reports, schemes, server, terms, verification
from epsilog.accounting import montecarlo
from epsilog.cli import montecarlo as montecarlo_commands, run as run_commands, serve, show, verify
from epsilog.cli.app import load, option_from_parameter
from epsilog.ledger import open_ledger, read_ledger, selftest
from epsilog.ledger.commands import OverrideCost
from epsilog.mechanisms import Gaussian, Laplace, Repeated
from epsilog.plan.noise_comparison import NoiseComparison, NoiseOption
from epsilog.terms import CheckError, NeighboringRelation, codec
from epsilog.terms.fields import Field
from epsilog.terms.formatting import format_lower, format_upper

app = load()

entry = importlib.import_module("epsilog.cli.app")
REPLACE = NeighboringRelation.REPLACE_ONE
TERM = '{"type": "gaussian", "noise_multiplier": 3.0}'


class ReachedError(Exception):
    """Ends a command where it has called what it should."""


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setattr(show.console(), "_width", 300)


@pytest.fixture
def release(tmp_path):
    (tmp_path / "release.json").write_text(TERM)
    return tmp_path / "release.json"


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def text_of(*words):
    done = invoke(*words)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


@pytest.fixture
def reached(monkeypatch):
    """Runs a command and says with what it calls a function of the library."""

    def run(target, *words):
        calls = []

        def stand_in(*args, **named):
            calls.append((args, named))
            raise ReachedError

        monkeypatch.setattr(target, stand_in)
        done = invoke(*words)
        monkeypatch.undo()
        assert isinstance(done.exception, ReachedError), done.output
        ((args, named),) = calls
        return args, named

    return run


# --- how commands end -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (terms.BudgetExceededError(scope="acme", requested={"epsilon": "2"}, available={"epsilon": "1"}), 3),
        (terms.CalibrationError("no noise", bracket=(1.0, 2.0)), 3),
        (terms.LedgerIntegrityError("entry 3", index=3), 4),
        (terms.StorageError("a full disk"), 6),
        (terms.OutcomeUnknownError("no answer"), 6),
        (terms.PermissionDeniedError("a reader may not spend"), 2),
        (PermissionError(13, "no entry"), 6),
        (terms.RecordError("rounds.jsonl, line 1"), 2),
        (CheckError("delta", "in (0, 1)", "2"), 2),
        (ValueError("something"), 2),
        (KeyboardInterrupt(), 130),
        (SystemExit(130), 130),
        (SystemExit(5), 5),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_each_error_is_told_and_ends_with_its_code(monkeypatch, capsys, error, code, as_json):
    def fails(**_):
        raise error

    monkeypatch.setattr(entry, "load", lambda *_: fails)
    monkeypatch.setattr(sys, "argv", ["epsilog", *(["--json"] if as_json else [])])
    with pytest.raises(SystemExit) as end:
        entry.main()
    assert end.value.code == code
    out, err = capsys.readouterr()
    if code == 130:
        found, other = (json.loads(out)["error"]["message"], err) if as_json else (err, out)
        assert ("stopped" in found, other) == (True, "")
    elif isinstance(error, SystemExit):
        assert (out, err) == ("", "")
    elif as_json:
        said = {"type": type(error).__name__, "message": str(error)}
        if isinstance(error, CheckError):
            said |= {"field": "delta", "bound": "in (0, 1)", "value": "2"}
        if isinstance(error, terms.BudgetExceededError):
            said["refusal"] = error.to_json()
        assert (json.loads(out), err) == ({"error": said}, "")
    else:
        assert (out, err) == ("", f"epsilog: {error}\n")


def test_an_error_that_nobody_foresaw_is_not_hidden(monkeypatch):
    def fails():
        raise RuntimeError("ours")

    monkeypatch.setattr(entry, "load", lambda *_: fails)
    with pytest.raises(RuntimeError, match="ours"):
        entry.main()


USAGE = {
    "an option that is none": ("plan", "queries", "--no-such-option"),
    "a value of another type": ("plan", "queries", "-e", "1", "-Q", "many"),
    "a value out of range": ("run", "p.toml", "--nodes", "0"),
    "an argument that is missing": ("query",),
    "a choice that is none": ("query", "a/b", "median"),
    "a command that is none": ("plam",),
    "a command in a group that is none": ("ledger", "shwo"),
    "a value that is missing": ("account", "--delta"),
}


@pytest.mark.parametrize("words", USAGE.values(), ids=USAGE)
def test_an_error_in_usage_is_json_where_json_was_asked_for(monkeypatch, capsys, words):
    for as_json in (True, False):
        monkeypatch.setattr(sys, "argv", ["epsilog", *(["--json"] if as_json else []), *words])
        if as_json:  # behind the command, where it stands in earnest
            sys.argv = ["epsilog", *words, "--json"]
        with pytest.raises(SystemExit) as end:
            entry.main()
        out, err = capsys.readouterr()
        assert end.value.code == 2
        if as_json:
            said = json.loads(out)["error"]
            assert said["message"]
            assert said["type"]
            assert err == ""
        else:
            assert (out, bool(err)) == ("", True)


def test_only_what_goes_on_says_that_it_goes_on(monkeypatch, capsys, tmp_path):
    """Nothing that a command did not do is claimed of it once it was stopped."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("epsilog.pipeline.run", stop)
    monkeypatch.setattr("epsilog.pipeline.check_config", stop)
    monkeypatch.setattr("epsilog.plan.queries", stop)
    for words, says in (
        (["run", "p.toml"], "run the same command again to resume"),
        (["plan", "queries", "-e", "1", "-Q", "3"], "completed writes are kept"),
        (["run", "p.toml", "--check"], "completed writes are kept"),
    ):
        monkeypatch.setattr("epsilog.cli.app._after_stop", {"note": "completed writes are kept"})
        monkeypatch.setattr(sys, "argv", ["epsilog", *words])
        with pytest.raises(SystemExit) as end:
            entry.main()
        assert end.value.code == 130
        assert capsys.readouterr().err.strip().splitlines()[-1] == f"epsilog: stopped; {says}"


@pytest.mark.parametrize("words", [(), ("plan",), ("ledger",), ("token",), ("account", "montecarlo")])
def test_a_group_alone_lists_its_commands(words):
    done = invoke(*words)
    assert "Commands" in done.output
    assert "Missing command" not in done.output


def test_an_options_help_says_what_it_is_which_words_it_takes_and_what_blank_means():
    fact = Field("how it is drawn", choices={"one": "", "two": ""}, default="one", none_means="one of both")
    assert option_from_parameter("a_name", fact).help == "How it is drawn; one, two; if omitted: one of both."
    assert option_from_parameter("a_name", fact, "a note").help == "How it is drawn; one, two; a note."
    named = option_from_parameter("a_name", fact, short="-a")
    assert (named.default, *named.param_decls) == ("--a-name", "-a")
    assert option_from_parameter("unit", Field("which one", choices={"add": ""}, default=REPLACE)).help == "Which one."
    assert issubclass(type(REPLACE), Enum)


# --- options that are counts, and defaults ----------------------------------------------------------------------------


def commands(group, path=()):
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield (*path, name), command
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


EVERY = dict(commands(typer.main.get_command(app)))
COUNTS = [
    (("query",), "rows"),
    (("query",), "population"),
    (("run",), "nodes"),
    (("ledger", "show"), "lines"),
    (("ledger", "history"), "limit"),
    (("ledger", "watch"), "limit"),
    (("ledger", "reserve"), "rounds"),
    (("ledger", "override-cost"), "rounds"),
    *[(("account", "montecarlo", name), "workers") for name in ("bound-delta", "search-noise", "execute")],
    (("account", "montecarlo", "recompute"), "shards"),
    (("ledger", "round-start"), "round"),
    (("ledger", "round-release"), "round"),
    (("ledger", "alert"), "at"),
]


def test_a_count_is_at_least_one():
    bounds = {
        (words, one.name): getattr(one, "min", None) for words, command in EVERY.items() for one in command.params
    }
    least = {option: bound for option, bound in bounds.items() if bound is not None}
    indexes = [(("ledger", name), "after") for name in ("history", "watch")]
    zeros = [
        (("ledger", "create"), "requires_approvals"),
        (("ledger", "create-blocks"), "next_periods"),
        (("token", "rotate"), "keep_hours"),
        (("selftest",), "server"),
    ]
    seconds = {(("verify",), "watch"): 0.1, (("ledger", "watch"), "every"): 0.05, (("ledger", "alert"), "every"): 0.05}
    seconds |= {(("ledger", "follow"), "every"): 0.05}
    assert least == dict.fromkeys(COUNTS, 1) | dict.fromkeys(indexes + zeros, 0) | seconds


LIBRARY = {
    ("account",): accounting.epsilon,
    ("account", "compare"): accounting.compare_profiles,
    ("account", "montecarlo", "bound-delta"): montecarlo.bound_delta,
    ("account", "montecarlo", "search-noise"): montecarlo.search_noise,
    ("account", "montecarlo", "execute"): montecarlo.run_delta_bound,
    ("account", "montecarlo", "recompute"): montecarlo.recompute_document,
    ("serve",): server.serve,
    ("ledger", "create"): ledger.Ledger.create_budget,
}


@pytest.mark.parametrize("words", LIBRARY, ids=" ".join)
def test_what_is_left_out_means_what_it_means_in_the_library(words):
    known = inspect.signature(LIBRARY[words]).parameters
    given = {one.name: one for one in EVERY[words].params if one.name in known and not one.required}
    assert given
    for name, one in given.items():
        default = known[name].default
        if default is not inspect.Parameter.empty and not (words == ("serve",) and name in {"ledger", "runs"}):
            assert one.default == (default.value if isinstance(default, Enum) else default), name


# --- plans ------------------------------------------------------------------------------------------------------------


STATED = {"population": 90_000, "cohort_size": 300, "rounds": 40}
SCHEDULE = ("-N", 90_000, "-m", 300, "-T", 40)


@pytest.mark.slow
def test_a_target_epsilon_calibrates_the_noise():
    stated = STATED | {"epsilon": 3.0, "delta_cap": None, "sampling": "fixed-size", "relation": "replace-one"}
    options = ("--delta-cap", 0, "--sampling", "fixed-size", "--relation", "replace-one")
    document = json.loads(text_of("plan", "federated", *SCHEDULE, "--epsilon", 3, *options, "--json"))
    noise = plan.QUESTIONS["/federated/noise"].parse(stated | {"noise_multiplier": 1.0}).answer()["noise_multiplier"]
    assert (document["noise_multiplier"], document["epsilon"]["upper"] <= 3) == (noise, True)
    assert document["fit"]["mu"] > 0


@pytest.mark.parametrize("words", [(), ("-z", 1, "--epsilon", 1)])
def test_a_plan_has_either_its_noise_or_a_goal(words):
    done = invoke("plan", "federated", *SCHEDULE, *words)
    assert "--noise-multiplier must be given, or else --epsilon" in str(done.exception)


@pytest.mark.slow
def test_a_federated_plan_shows_every_number_beside_its_name():
    text = text_of("plan", "federated", *SCHEDULE, "-z", 1.5, "--releases-per-period", 2)
    found = plan.plan_federated(**STATED, noise_multiplier=1.5, releases_per_period=2)
    formula = found.closed_form
    assert "sampling poisson, q = m/N = 0.00333333 (0.333%)" in text
    assert f"delta {found.delta.delta:g} ({found.delta.rationale})" in text
    assert "relation, unit add-or-remove-one, one client" in text
    assert f"epsilon, certified {show.format_interval(found.epsilon)} meaning " in text
    rates = plan.bound_attack(found.release, delta=found.delta.delta, relation=found.relation)
    (picked_out,) = (math.ceil(1000 * one["tpr"]) for one in rates if one["fpr"] == 0.01)
    assert re.search(rf"at most {picked_out} of 1,000( clients)?[.:]", text.split(" meaning ")[1])
    assert f"epsilon if participation leaks {show.format_interval(found.unamplified)}" in text
    assert f"closed form (estimate) {formula.total:.4f} root term {formula.root_term:.4f}" in text
    larger = {"root": f"{formula.root_term:.4f}", "linear": f"{formula.linear_term:.4f}"}
    assert text.count("(the larger)") == 1
    assert f"{larger[formula.dominant_term]} (the larger)" in text
    assert f"linear term {formula.linear_term:.4f}" in text
    assert f"2 releases together {show.format_interval(found.cumulative)}" in text
    assert "releases together" not in text_of("plan", "federated", "-N", 9, "-m", 9, "-T", 1, "-z", 1.5)
    assert str(found.closed_form_note) in text
    assert text.count("Assumes: ") == len(found.epsilon.assumptions) > 1


@pytest.mark.parametrize(("dominates", "noise", "rounds"), [("root", 5.0, 1), ("linear", 0.5, 100)])
def test_the_larger_term_of_a_closed_form_is_marked(dominates, noise, rounds):
    schedule = {"sampling_probability": 1.0, "noise_multiplier": noise, "rounds": rounds, "delta": 1e-6}
    terms_of = accounting.federated_closed_form(**schedule)
    larger = max(terms_of.root_term, terms_of.linear_term)
    text = text_of("plan", "federated", "-N", 900, "-m", 900, "-T", rounds, "-z", noise, "--delta", 1e-6)
    assert text.count("(the larger)") == 1
    assert f"{dominates} term {larger:.4f} (the larger)" in text


def test_a_calculators_record_is_verified_beside_the_files_that_it_names(tmp_path):

    from epsilog.plan import QUESTIONS

    (tmp_path / "visits.csv").write_bytes(b"visits")
    reference = {"what": "data", "name": "the visits", "sha256": hashlib.sha256(b"visits").hexdigest()}
    asked = QUESTIONS["/queries"].parse({"epsilon": 1.0, "queries": 3})
    record, changed = (
        reports.stamp_calculation(asked, delta_reason="as agreed", references=[reports.FileReference(**reference)]),
        reports.stamp_calculation(asked, delta_reason="as agreed", references=[reports.FileReference(**reference)]),
    )
    changed["record"]["answer"]["remaining"] = 0.5
    assert reports.is_calculation(record)
    file = tmp_path / "record.json"
    for document, words, code, says in [
        (record, (), 5, "references/not-checked"),
        (record, ("--reference", f"the visits={tmp_path / 'visits.csv'}"), 0, "references/passed"),
        (record, ("--reference", f"the visits={file}"), 4, "references/mismatch"),
        (changed, (), 4, "record/changed"),
    ]:
        file.write_text(json.dumps(document, indent=2))
        done = invoke("verify", file, *words, "--json")
        assert (done.exit_code, says in done.output) == (code, True), done.output
    for words, wrong in [
        (("--reference", "x"), "--reference must be NAME=FILE"),
        (("--reference", f"y={file}"), "--reference must be a name in the record"),
        (("--reference", "the visits=nowhere"), "--reference must be readable"),
    ]:
        assert wrong in str(invoke("verify", file, *words).exception)
    with open_ledger(tmp_path / "books.db"):
        pass
    given = ("--reference", f"the visits={file}")
    assert "--reference must be absent for a ledger" in str(invoke("verify", tmp_path / "books.db", *given).exception)


def test_shares_of_a_query_plan_are_shown_once_each_in_their_columns():
    words = ("plan", "queries", "-e", 2, "-Q", 4, "--weights", "1,2,4,4", "-u", 1)
    text = text_of(*words)
    found = plan.queries(epsilon=2.0, queries=4, weights=[1.0, 2.0, 4.0, 4.0], queries_used=1)
    assert "weight epsilon classic scale b exact optimal 95% error (optimal)" in text
    for share in dict.fromkeys(found.shares):
        scales = [format_upper(noise.scale, 6) for noise in (share.classic, share.exact, share.optimal)]
        row = " ".join([f"{share.weight:g}", f"{share.epsilon:.6g}", *scales, f"{share.optimal.error_95:.4g}"])
        assert text.count(row) == 1
    for part in (
        f"used 1 of 4 queries; {found.queries_left} more fit",
        f"consumed, optimal noise {show.format_interval(found.consumed.optimal)}",
        f"consumed, classic noise {show.format_interval(found.consumed.classic)}",
        f"consumed, classic split {found.consumed.split:.6g} of 2 (bookkeeping, no bound)",
        f"remaining, optimal noise {format_lower(found.remaining, 6)}, for pure releases",
        "delta none: pure DP",
        f"saving {found.noise_reduction:.3g} times less noise",
        *(each.message for each in found.findings),
    ):
        assert part in text
    gaussian = text_of("plan", "queries", "-e", 2, "-Q", 2, "--mechanism", "gaussian", "--delta", 1e-7)
    assert "classic standard deviation exact" in gaussian
    assert "delta 1e-07" in gaussian


@pytest.mark.parametrize("weights", ["1,x", "", "1;2"])
def test_weights_are_numbers_joined_by_commas(weights):
    done = invoke("plan", "queries", "-e", 1, "-Q", 3, "--weights", weights)
    assert str(done.exception) == f"--weights must be numbers joined by commas, got {weights!r}"


# --- accounts ---------------------------------------------------------------------------------------------------------


def test_an_accounts_question_reaches_the_accountant(reached):
    words = ("account", "-z", 2, "--relation", "replace-one", "--relative-width", 0.25)
    question = {"relation": REPLACE, "relative_width": 0.25, "group_size": 1}
    assert reached("epsilog.accounting.epsilon", *words, "--delta", 0) == ((Gaussian(2.0),), question | {"delta": 0.0})
    found = reached("epsilog.accounting.delta", *words, "--epsilon", 0)
    assert found == ((Gaussian(2.0),), question | {"epsilon": 0.0})


@pytest.mark.slow
def test_a_group_is_asked_for_as_it_is_given(reached):
    words = ("account", "-z", 2, "--group-size", 5)
    assert reached("epsilog.accounting.epsilon", *words, "--delta", 0.1)[1]["group_size"] == 5
    assert reached("epsilog.accounting.delta", *words, "--epsilon", 1)[1]["group_size"] == 5
    assert "for a holder of up to 5 units" in text_of(*words, "--delta", 0.1)
    schedule = ("plan", "federated", "-N", 50, "-m", 50, "-T", 10, "-z", 2)
    assert reached("epsilog.plan.plan_federated", *schedule, "--group-size", 5)[1]["group_size"] == 5
    assert "holder of up to 5" in text_of(*schedule, "--group-size", 5)
    assert "holder of" not in text_of(*schedule)


@pytest.mark.slow
def test_two_releases_are_compared_as_the_library_does(tmp_path):
    for name, release in (("one", Gaussian(2.0)), ("other", Laplace(2.0))):
        (tmp_path / f"{name}.json").write_text(json.dumps(release.to_json()))
    words = ("account", "compare", tmp_path / "one.json", tmp_path / "other.json")
    found = accounting.compare_profiles(Gaussian(2.0), Laplace(2.0))
    shown, document = text_of(*words), json.loads(invoke(*words, "--json").output)
    assert document["outcome"] == found.outcome
    assert [at["better"] for at in document["points"]] == [at.better for at in (*found.at_deltas, *found.at_fprs)]
    assert (document["first_excess"], document["second_excess"]) == (found.first_excess, found.second_excess)
    fit = accounting.fit_gaussian_dp(Laplace(2.0))
    assert document["gaussian_fits"][1] == {"mu": fit.mu, "slack": fit.slack, "regret": fit.regret}
    assert document["gaussian_fits"][0] == {"mu": 0.5, "slack": 0.0, "regret": 0.0}
    assert f"epsilon at delta 1e-06 {show.format_interval(found.at_deltas[1].first)}" in shown
    assert f"second easier to attack by at most {format_upper(found.second_excess, 2)}" in shown
    assert "first easier" in shown


def tuned(law):
    return mechanisms.BestOfTrials(Gaussian(2.0), law)


def test_the_best_of_trials_stands_beside_one_trial_and_all_of_them():
    shown = text_of("account", "-z", 2, "--trials", "geometric:0.5", "--delta", 1e-6)
    one = accounting.epsilon(Gaussian(2.0), delta=1e-6).upper
    both = accounting.epsilon(Repeated(Gaussian(2.0), 2), delta=1e-6).upper
    assert "trials expected 2 " in shown
    assert f"one trial at most {format_upper(one, 6)} " in shown
    assert f"2 trials, all of them shown at most {format_upper(both, 6)} " in shown


def matrix(strategy, turns):
    return mechanisms.MatrixMechanism(strategy, turns, 9, 2.0)


@pytest.mark.parametrize(
    ("words", "release"),
    [
        ((), Gaussian(2.0)),
        (("-T", 2), Repeated(Gaussian(2.0), 2)),
        (("--mechanism", "laplace"), Laplace(2.0)),
        (("--mechanism", "pure"), mechanisms.PureDP(2.0)),
        (("--mechanism", "discrete-laplace", "--field", "sensitivity=3"), mechanisms.DiscreteLaplace(2.0, 3)),
        (
            ("--mechanism", "report-noisy-max", "--field", "noise=laplace", "--field", "monotone=true"),
            mechanisms.ReportNoisyMax(2.0, "laplace", monotone=True),
        ),
        (("-q", 0.5), mechanisms.PoissonSampled(Gaussian(2.0), 0.5)),
        (("-q", 0.5, "-T", 3), Repeated(mechanisms.PoissonSampled(Gaussian(2.0), 0.5), 3)),
        (("-m", 3, "-N", 70), mechanisms.FixedSizeSampled(Gaussian(2.0), 3, 70)),
        (("-m", 3, "-N", 70, "-T", 3), Repeated(mechanisms.FixedSizeSampled(Gaussian(2.0), 3, 70), 3)),
        (("--mechanism", "pure", "--shuffled", "-N", 70), mechanisms.Shuffled(mechanisms.PureDP(2.0), 70)),
        (
            ("--strategy", "tree", "-T", 9),
            matrix(mechanisms.TreeAggregationStrategy(), mechanisms.BoundedParticipation(1, 1)),
        ),
        (
            ("--strategy", "1,0.5", "-T", 9, "--max-participations", 3, "--min-separation", 2),
            matrix(mechanisms.ToeplitzStrategy((1.0, 0.5)), mechanisms.BoundedParticipation(3, 2)),
        ),
        (("--trials", "geometric:0.25"), tuned(mechanisms.NegativeBinomialTrialCount(1.0, 0.25))),
        (("--trials", "logarithmic:0.25"), tuned(mechanisms.NegativeBinomialTrialCount(0.0, 0.25))),
        (("--trials", "negative-binomial:0.5,0.25"), tuned(mechanisms.NegativeBinomialTrialCount(0.5, 0.25))),
        (("--trials", "poisson:7"), tuned(mechanisms.PoissonTrialCount(7.0))),
        (("--trials", "binomial:7,0.25"), tuned(mechanisms.BinomialTrialCount(7, 0.25))),
        (("--trials", "fixed:7"), tuned(mechanisms.BinomialTrialCount(7, 1.0))),
    ],
)
def test_flags_describe_a_release(reached, words, release):
    assert reached("epsilog.accounting.epsilon", "account", "-z", 2, *words, "--delta", 0.1)[0] == (release,)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-z", 1), "--delta must be given, or else --epsilon"),
        (("-z", 1, "--delta", 0.1, "--epsilon", 1), "--delta must be given, or else --epsilon"),
        (("--delta", 0.1), "--noise-multiplier must be given, or else --file"),
        (("--mechanism", "cauchy", "-z", 1, "--delta", 0.1), "mechanism must be one of approximate"),
        (("-z", 1, "--strategy", "bush", "--delta", 0.1), "strategy must be tree, or numbers"),
        (("-z", 1, "--strategy", "1,-1", "--delta", 0.1), "coefficients[1] must be"),
        (("-z", 1, "--strategy", "tree", "-q", 0.1, "--delta", 0.1), "strategy must be that of Gaussian noise"),
        (("-z", 1, "--shuffled", "--delta", 0.1), "or --shuffled and --population"),
        (("-z", 1, "--shuffled", "-N", 9, "-q", 0.1, "--delta", 0.1), "or --shuffled and --population"),
        (("-z", 1, "-m", 3, "--delta", 0.1), "Sampling needs --sample-size and --population"),
        (("-z", 1, "-N", 3, "--delta", 0.1), "Sampling needs --sample-size and --population"),
        (
            ("-z", 1, "-q", 0.1, "--max-batch-size", 3, "--delta", 0.1),
            "alone or with --population and --max-batch-size",
        ),
        (("-z", 1, "-m", 1, "-N", 3, "-q", 0.5, "--delta", 0.1), "Sampling needs --sample-size and --population"),
        (("--file", "nowhere.json", "--delta", 0.1), "file must be readable"),
        (("-z", 1, "--trials", "some:3", "--delta", 0.1), "trials must be one of geometric:STOP"),
        (("-z", 1, "--trials", "binomial:3", "--delta", 0.1), "trials must be written as binomial:MOST,CHANCE"),
        (("-z", 1, "--trials", "poisson:x", "--delta", 0.1), "trials must be written as poisson:MEAN"),
        (("-z", 1, "-T", "x", "--delta", 0.1), "--rounds must be whole numbers joined by commas, or FIRST:LAST:STEP"),
        (("-z", 1, "-T", "", "--delta", 0.1), "--rounds must be whole numbers joined by commas"),
        (("-z", 1, "-T", "9:3", "--delta", 0.1), "--rounds must be a range that rises, as FIRST:LAST:STEP, got '9:3'"),
        (("-z", 1, "-T", "1:9:0", "--delta", 0.1), "--rounds must be a range that rises"),
        (("-z", 1, "-T", "1:9:1:1", "--delta", 0.1), "--rounds must be a range that rises"),
        (("-z", 1, "-T", "1:1000000000", "--delta", 0.1), "--rounds must be at most 10000 numbers"),
        (("-z", 1, "-T", "0", "--delta", 0.1), "--rounds must be at least 1, got 0"),
        (("-z", 1, "-T", "0,1", "--delta", 0.1), "rounds[0, 0] must be at least 1, got 0"),
        (("-z", 1, "--delta", 0.1, "--delta", "nan"), "delta[1] must be in [0, 1), got nan"),
        (("-z", 1, "--delta", 0.1, "--csv", "--json"), "--csv must stand without --json"),
        (("-z", 1, "-T", "1,2", "--trials", "fixed:2", "--delta", 0.1), "--rounds must be one number with --trials or"),
        (("-z", 1, "--trials", "fixed:2.5", "--delta", 0.1), "trials must be a whole number of trials"),
    ],
)
def test_flags_that_describe_nothing_are_refused(words, says):
    assert says in str(invoke("account", *words).exception)


@pytest.mark.parametrize(
    "text",
    [
        TERM,
        json.dumps({"release": json.loads(TERM), "interval": {}, "closed_form": None}),
        json.dumps({"v": 1, "term": json.loads(TERM)}),
    ],
)
def test_a_file_holds_a_term_an_envelope_or_an_account(reached, tmp_path, text):
    (tmp_path / "r.json").write_text(text)
    found = reached("epsilog.accounting.epsilon", "account", "--file", tmp_path / "r.json", "--delta", 0.1)
    assert found[0] == (Gaussian(3.0),)


def test_an_account_shows_its_question_and_no_closed_form_where_there_is_none(release):
    text = text_of("account", "--file", release, "--epsilon", 0.5)
    found = accounting.delta(Gaussian(3.0), epsilon=0.5)
    assert f"delta at epsilon 0.5 {show.format_interval(found)} method {found.method}" in text
    assert "closed form" not in text
    for words in (("--delta", 0), ("--mechanism", "laplace", "--delta", 0.01)):
        assert "closed form" not in text_of("account", "-z", 2, *words)
    document = json.loads(text_of("account", "--file", release, "--epsilon", 0.5, "--json"))
    assert document["closed_form"] is None


@pytest.mark.parametrize(("q", "count"), [(None, 1), (None, 7), (0.25, 1), (0.25, 7)])
def test_the_closed_form_is_that_of_the_schedule(q, count):
    sampled = () if q is None else ("-q", q)
    text = text_of("account", "-z", 4, *sampled, "-T", count, "--delta", 1e-5)
    schedule = {"sampling_probability": q or 1.0, "noise_multiplier": 4.0, "rounds": count, "delta": 1e-5}
    total = accounting.federated_closed_form(**schedule).total
    assert f"closed form (estimate) {total:.6g}" in text
    document = json.loads(text_of("account", "-z", 4, *sampled, "-T", count, "--delta", 1e-5, "--json"))
    assert document["closed_form"] == {"total": total, "side": "estimate"}


@pytest.mark.parametrize(
    ("words", "function", "args", "named"),
    [
        (("--delta", 0.1, "--delta", 0), "epsilon", (Gaussian(2.0),), {"delta": (0.1, 0.0)}),
        (("--epsilon", 1, "--csv"), "delta", (Gaussian(2.0),), {"epsilon": (1.0,)}),
        (("-T", 3, "--delta", 0.1, "--csv"), "epsilon", (Repeated(Gaussian(2.0), 3),), {"delta": (0.1,)}),
        (("-T", "1,3", "--delta", 0.1), "epsilon_curve", (Gaussian(2.0), [[1], [3]]), {"delta": (0.1,)}),
        (("-T", "5:9:2", "--epsilon", 1), "delta_curve", (Gaussian(2.0), [[5], [7], [9]]), {"epsilon": (1.0,)}),
    ],
)
def test_several_numbers_are_asked_at_once(reached, words, function, args, named):
    words = ("account", "-z", 2, *words, "--relation", "replace-one", "--relative-width", 0.25, "--group-size", 5)
    found = reached(f"epsilog.accounting.{function}", *words)
    assert found == (args, named | {"relation": REPLACE, "relative_width": 0.25, "group_size": 5})


@pytest.mark.parametrize("frame", [pl.read_csv, pd.read_csv])
def test_several_answers_are_lines_that_frames_read(frame):
    done = invoke("account", "-z", 2, "-T", "2:8:3", "--delta", 0, "--delta", 1e-6, "--csv")
    found = accounting.epsilon_curve(Gaussian(2.0), [[2], [5], [8]], delta=[0.0, 1e-6])
    table = frame(io.BytesIO(done.stdout_bytes))
    assert list(table.columns) == list(found.columns())
    for name, column in found.columns().items():
        assert table[name].to_list() == list(column)  # to the last digit, and infinite where nothing is promised
    assert table["epsilon_upper"][0] == np.inf


def test_several_answers_are_shown_in_a_table_and_as_json(release):
    shown = text_of("account", "--file", release, "-T", "1,2", "--delta", 1e-6)
    found = accounting.epsilon_curve(Gaussian(3.0), [1, 2], delta=1e-6)
    for rounds, at in zip((1, 2), found.points, strict=True):
        assert f"{rounds} 1e-06 {show.format_interval(at)}" in shown
    assert f"By: {found.points[0].method}" in shown
    assert shown.count("Assumes: ") == len(found.assumptions) > 0
    document = json.loads(text_of("account", "--file", release, "-T", "1,2", "--delta", 1e-6, "--json"))
    assert document == {"step": Gaussian(3.0).to_json(), "intervals": [codec.encode(at) for at in found.points]}
    document = json.loads(text_of("account", "--file", release, "--delta", 0.1, "--delta", 0.2, "--json"))
    assert set(document) == {"release", "intervals"}


# --- Monte Carlo ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("overall-delta", {"samples": 10_745_967, "base_delta": 5e-6}),
        ("base-delta", {"samples": 10_745_967, "target_delta": 1e-5}),
        ("minimum-samples", {"base_delta": 5e-6, "target_delta": 1e-5}),
    ],
)
def test_the_references_numbers_are_asked_as_they_are_named(name, given):
    words, key = ("account", "montecarlo", name, *given.values()), name.replace("-", "_")
    value = getattr(montecarlo, key)(**given)
    assert json.loads(text_of(*words, "--json")) == {key: value, "given": given}
    text = text_of(*words)
    assert f"Release bound {name.replace('-', ' ')} {value!r}" in text
    assert all(f"{name} {each!r}" in text for name, each in given.items())


def test_an_estimate_from_losses_is_called_one(tmp_path):
    (tmp_path / "losses").write_text("0 3\n\ninf 1\n")
    words = ("account", "montecarlo", "delta-from-samples", tmp_path / "losses", "--epsilon", 1)
    assert text_of(*words) == "Estimate delta estimate 0.25 epsilon 1.0 losses 2"
    assert json.loads(text_of(*words, "--json")) == {"delta_estimate": 0.25, "given": {"epsilon": 1.0, "losses": 2}}


WAYS = NoiseComparison(
    64,
    16,
    2.0,
    1e-5,
    (
        NoiseOption("correlated", Gaussian(1.0), 1.25, 3.5, certified=False),
        NoiseOption("independent", Repeated(Gaussian(1.0), 2), 2.75, 4.5, certified=True),
    ),
)


def test_a_comparisons_options_reach_it_and_its_rows_are_shown(monkeypatch, reached):
    words = ("account", "montecarlo", "compare", "-T", 64, "-b", 16, "--epsilon", 2, "--delta", 1e-5)
    given = {"rounds": 64, "cycle_length": 16, "epsilon": 2.0, "delta": 1e-5}
    target = "epsilog.plan.noise_comparison.compare_noise_strategies"
    assert reached(target, *words) == ((), given | {"seed": 1, "bands": None})
    several = reached(target, *words, "--bands", 4, "--bands", 2, "--seed", 5)
    assert several == ((), given | {"seed": 5, "bands": [4, 2]})
    monkeypatch.setattr(show.console(), "_width", 300)
    monkeypatch.setattr(target, lambda **_: WAYS)
    text = text_of(*words)
    for part in ("Ways to be (2, 1e-05)", "correlated 1.25 3.5 estimated", "independent 2.75 4.5 certified"):
        assert part in text
    assert str(WAYS.sentence) in text
    assert json.loads(text_of(*words, "--json")) == WAYS.to_json()


def test_options_of_bounds_and_sweeps_reach_them(reached, release, tmp_path):
    journal, where = tmp_path / "journal", "epsilog.accounting.montecarlo."
    common = ("--epsilon", 2, "--workers", 2, "--seed", 9, "--journal", journal)
    both = {"epsilon": 2.0, "seed": 9, "workers": 2, "journal": journal}
    words = (
        "account",
        "montecarlo",
        "bound-delta",
        release,
        *common,
        "--failure",
        0.01,
        "--relative-width",
        0.3,
        "--samples",
        7,
    )
    args, named = reached(where + "bound_delta", *words)
    progress = named.pop("progress")
    assert callable(progress)
    assert (args, named) == ((Gaussian(3.0),), both | {"failure": 0.01, "relative_width": 0.3, "samples": 7})
    words = ("account", "montecarlo", "search-noise", release, *common, "--delta", 1e-3, "--slack", 0.3)
    args, named = reached(where + "search_noise", *words)
    assert callable(named.pop("progress"))
    assert (args, named) == ((Gaussian(3.0),), both | {"delta": 1e-3, "slack": 0.3})


def test_options_of_plans_reach_them_with_a_seed_that_nobody_chose(reached, monkeypatch, release, tmp_path):
    where, commit = "epsilog.accounting.montecarlo.", ("--commit", "-o", tmp_path / "plan.json")
    monkeypatch.setattr(where + "draw_entropy", lambda: 77)
    words = (
        "bound-delta",
        release,
        "--epsilon",
        2,
        "--failure",
        0.01,
        "--relative-width",
        0.3,
        "--samples",
        7,
        *commit,
    )
    args, named = reached(where + "plan_delta_bound", "account", "montecarlo", *words)
    assert args == (Gaussian(3.0),)
    assert named == {"epsilon": 2.0, "failure": 0.01, "relative_width": 0.3, "samples": 7, "seed": 77}
    monkeypatch.setattr(where + "draw_entropy", lambda: 78)
    words = ("search-noise", release, "--epsilon", 2, "--delta", 1e-3, "--slack", 0.3, *commit)
    args, named = reached(where + "plan_noise_search", "account", "montecarlo", *words)
    assert args == (Gaussian(3.0),)
    assert named == {"epsilon": 2.0, "target_delta": 1e-3, "slack": 0.3, "seed": 78}


BINS = '{"type": "balls-in-bins", "release": {"type": "gaussian", "noise_multiplier": 1.0}, "bins": 16}'


@pytest.fixture
def bins(tmp_path):
    (tmp_path / "bins.json").write_text(BINS)
    return tmp_path / "bins.json"


def test_a_plan_is_drawn_as_asked_whatever_it_is_of(reached, monkeypatch, release, tmp_path):
    options = ("--nonce", "drand 1: 6fd1", "--workers", 2, "--journal", tmp_path / "j")
    bound = montecarlo.plan_delta_bound(mechanisms.BallsInBins(Gaussian(1.0), 16), epsilon=1.0, seed=1, samples=20)
    for planned, run in ((bound, "run_delta_bound"), ("a sweep's plan", "run_noise_search")):
        monkeypatch.setattr("epsilog.accounting.montecarlo.plan_from_json", lambda _, planned=planned: planned)
        target = f"epsilog.accounting.montecarlo.{run}"
        args, named = reached(target, "account", "montecarlo", "execute", release, *options)
        assert callable(named.pop("progress"))
        assert (args, named) == ((planned,), {"nonce": "drand 1: 6fd1", "workers": 2, "journal": tmp_path / "j"})


class Sweep:
    """What a sweep found."""

    def __init__(self, noise):
        self.noise, self.delta, self.simulation = noise, 1.25e-4, noise is None
        self.plan = SimpleNamespace(epsilon=2.5, noises=(3.0, 2.0, 1.0))
        self.evidence = ("add", "remove") * (1 if noise is None else 2)
        self.source = SimpleNamespace(assumption="the seed was drawn once")

    def to_json(self):
        return {"noise": self.noise}


@pytest.mark.parametrize("noise", [2.25, None])
def test_a_sweep_is_shown_and_written(monkeypatch, bins, tmp_path, noise):
    monkeypatch.setattr("epsilog.accounting.montecarlo.search_noise", lambda *_, **__: Sweep(noise))
    words = ("account", "montecarlo", "search-noise", bins, "--epsilon", 2.5, "--delta", 1e-3)
    text = text_of(*words)
    parts = ("Verified search noise chosen 2.25 claim", "candidates tested 2 of 3")
    none = (
        "Verified search (seeded: a simulation) noise chosen none: the first candidate failed",
        "candidates tested 1 of 3",
    )
    for part in none if noise is None else parts:
        assert part in text
    assert f"claim epsilon 2.5, delta at most {format_upper(1.25e-4)}" in text
    assert "evidence not written (use -o)" in text
    assert "Assumes: the seed was drawn once" in text
    assert f"evidence {tmp_path / 'e.json'}" in text_of(*words, "-o", tmp_path / "e.json")
    assert json.loads((tmp_path / "e.json").read_text()) == {"noise": noise}
    assert json.loads(text_of(*words, "--json")) == {"noise": noise}


# --- ledgers ----------------------------------------------------------------------------------------------------------


def test_a_budgets_options_reach_it(tmp_path):
    path = tmp_path / "new" / "b.db"
    words = ("ledger", "create", "acme", "--kind", "approximate", "--epsilon", "3", "--delta", "1e-5", "-l", path)
    text = text_of(*words, "--relation", "replace-one", "--privacy-unit", "person", "--simulation")
    assert text == f"acme in {path}: epsilon 3, delta 0.00001 (approximate)"
    for name, option, cap in (("zcdp", "--rho", "2"), ("gdp", "--mu-squared", "4")):
        made = json.loads(text_of("ledger", "create", name, "--kind", name, option, cap, "-l", path, "--json"))
        quantity = option[2:].replace("-", "_")
        assert made == {"scope": name, "kind": name, "caps": {quantity: cap}, "ledger": str(path)}
    with read_ledger(path) as books:
        first, *others = books.budgets()
    assert (first.relation, first.privacy_unit, first.simulation) == (REPLACE, "person", True)
    default = NeighboringRelation.ADD_OR_REMOVE_ONE
    assert {(one.relation, one.privacy_unit, one.simulation) for one in others} == {(default, None, False)}


def test_an_overrides_options_reach_it(reached, release, tmp_path):
    path = tmp_path / "b.db"
    with open_ledger(path) as books:
        books.create_budget("acme", kind="approximate", epsilon="3", delta="0.1")
    words = ("ledger", "override-cost", "acme", "--key", "k", "--release", release, "--reason", "proof 12", "-l", path)
    both = ("--amount", "epsilon=0.5", "--amount", "delta=0.01")
    (_, command), _ = reached("epsilog.ledger.Ledger.execute", *words, *both, "--rounds", 5, "--simulation")
    amount = {"epsilon": "0.5", "delta": "0.01"}
    common = {"scope": "acme", "key": "k", "release": Gaussian(3.0), "amount": amount, "reason": "proof 12"}
    assert command == OverrideCost(**common, rounds=5, simulation=True)
    (_, command), _ = reached("epsilog.ledger.Ledger.execute", *words, *both)
    assert command == OverrideCost(**common)
    assert "acme: one charge k may cost epsilon=0.5, delta=0.01" in text_of(*words, *both)
    for wrong in (("--amount", "0.5"), ("--amount", "epsilon=0.5", "--amount", "0.1")):
        assert "amount must be QUANTITY=NUMBER" in str(invoke(*words, *wrong).exception)
    nowhere = invoke(*words[:-1], tmp_path / "none.db", *both)
    assert "ledger must be a ledger file that exists" in str(nowhere.exception)
    assert not (tmp_path / "none.db").exists()


@pytest.fixture
def books(tmp_path):
    """Budgets at three levels, and a run of two rounds."""
    path = tmp_path / "b.db"
    with open_ledger(path) as open_books:
        for scope in ("acme", "acme/claims", "acmex"):
            open_books.create_budget(scope, kind="pure", epsilon="3")
        charge = open_books.reserve("acme/claims", mechanisms.PureDP(0.25), key="run", rounds=2)
        charge.start()
        charge.round_started(1)
        charge.round_released(1, output_hash="ab" * 32)
        open_books.charge("acmex", mechanisms.PureDP(0.5), key="q")
    return path


@pytest.fixture
def kinds(tmp_path):
    """Budgets whose sums rest on different theorems."""
    path = tmp_path / "kinds.db"
    with open_ledger(path) as open_books:
        open_books.create_budget("a", kind="pure", epsilon="3")
        open_books.create_budget("b", kind="zcdp", rho="3")
        open_books.create_budget("c", kind="gdp", mu_squared="3")
        open_books.create_budget("d", kind="pure", epsilon="2")
    return path


def test_a_scope_is_shown_with_what_lies_under_it_and_nothing_beside(books):
    def seen(*words):
        document = json.loads(text_of("ledger", "show", *words, "-l", books, "--json"))
        return [one["scope"] for one in document["budgets"]], {one["key"] for one in document["history"]}

    assert seen("acme")[0] == ["acme", "acme/claims"]
    assert seen("acme/claims") == (["acme/claims"], {None, "run"})
    assert seen("acmex") == (["acmex"], {None, "q"})
    assert len(seen()[0]) == 3
    for typo in ("acm", "acme/claim", "acme/claims/2", "acmex/1"):
        error = str(invoke("ledger", "show", typo, "-l", books).exception)
        assert "a budget for (it has 'acme', 'acme/claims', 'acmex')" in error
    assert "ledger must be a ledger file" in str(invoke("ledger", "show", "-l", books.parent / "no.db").exception)


def test_each_theorem_behind_the_sums_is_told_once(kinds):
    text = text_of("ledger", "show", "-l", kinds)
    with read_ledger(kinds) as open_books:
        theorems = {one.theorem for one in open_books.budgets()}
    assert len(theorems) > 1
    assert text.count("These sums may be compared with a cap because: ") == len(theorems)
    assert all(text.count(theorem) == 1 for theorem in theorems)


# --- the server, this machine -----------------------------------------------------------------------------------------


def test_serve_reads_what_is_there(reached, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args, named = reached("epsilog.server.serve", "serve")
    assert args == ("127.0.0.1", 8080)
    assert callable(named.pop("ready"))
    open_to_this_machine = {"access": server.AccessConfig(), "tls_cert": None, "tls_key": None, "otel_scopes": ()}
    assert named == {"ledger": None, "runs": None, "montecarlo_in": Path("runs/montecarlo")} | open_to_this_machine
    (tmp_path / "r").mkdir()
    (tmp_path / "b.db").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    words = ("serve", "--host", "::1", "-p", 81, "-l", "b.db", "--runs", "r", "--montecarlo", "c")
    args, named = reached("epsilog.server.serve", *words)
    assert args == ("::1", 81)
    ready = named.pop("ready")
    assert named == {"ledger": "b.db", "runs": Path("r"), "montecarlo_in": Path("c")} | open_to_this_machine
    with show.console().capture() as said:
        ready("http://here")
    assert said.get() == "epsilog is at http://here (Ctrl-C stops it)\n"


def test_serve_hands_over_who_may_come_in(reached, capsys, tmp_path, monkeypatch):
    words = ("--tokens", "t.json", "--name", "a.example", "--name", "b.example", "--trust-proxy", "--rate", "7.5")
    words += ("--access-log", "--tls-cert", "c.pem", "--tls-key", "k.pem", "--otel-scope", "a", "--otel-scope", "b/c")
    monkeypatch.chdir(tmp_path)
    done = invoke("serve", *words)  # a folder that was not mounted
    assert isinstance(done.exception, CheckError)
    assert done.exception.field == "--ledger"
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/ledger.db").write_bytes(b"")
    _, named = reached("epsilog.server.serve", "serve", *words)
    assert named["access"] == server.AccessConfig(
        Path("t.json"), names=("a.example", "b.example"), trust_proxy=True, rate=7.5, access_log=True
    )
    assert (named["tls_cert"], named["tls_key"]) == (Path("c.pem"), Path("k.pem"))
    assert named["otel_scopes"] == ("a", "b/c")
    capsys.readouterr()
    named["ready"]("https://here")  # beside the log, not in it
    assert capsys.readouterr() == ("", "epsilog is at https://here (Ctrl-C stops it)\n")
    (rate,) = [one for one in EVERY[("serve",)].params if one.name == "rate"]
    assert rate.default == server.AccessConfig().rate


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_a_token_is_shown_once_and_a_list_never_shows_it(tmp_path):
    file, moment = tmp_path / "t.json", "2099-01-31T12:00:00+00:00"
    words = ("anna", "--role", "spender", "--scope", "acme/claims", "--file", file)
    shown = text_of("token", "create", *words, "--expires", "2099-01-31T12:00")
    (text,) = re.findall(r"eps_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", shown)
    assert "A token for anna role spender scope acme/claims" in shown
    made = json.loads(text_of("token", "create", "bob", "--role", "auditor", "--whole-ledger", "-f", file, "--json"))
    assert (made["name"], made["role"], made["scope"], made["expires"]) == ("bob", "auditor", None, None)
    listed = json.loads(text_of("token", "list", "-f", file, "--json"))["tokens"]
    assert [(row["name"], row["role"], row["scope"], row["expires"], row["expired"]) for row in listed] == [
        ("anna", "spender", "acme/claims", moment, False),
        ("bob", "auditor", None, None, False),
    ]
    for said in (text_of("token", "list", "-f", file), json.dumps(listed), file.read_text()):
        assert text not in said
        assert made["token"] not in said
    assert "anna spender acme/claims" in text_of("token", "list", "-f", file)
    assert "bob auditor the whole ledger" in text_of("token", "list", "-f", file)
    assert "the token of anna" in text_of("token", "revoke", "anna", "-f", file)
    assert json.loads(text_of("token", "revoke", "bob", "-f", file, "--json"))["id"] == made["id"]
    assert json.loads(text_of("token", "list", "-f", file, "--json")) == {"tokens": []}


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("--role", "owner"), "scope"),
        (("--role", "owner", "--scope", "acme", "--whole-ledger"), "scope"),
        (("--role", "root", "--whole-ledger"), "role"),
        (("--role", "owner", "--scope", "acme//x"), "scope"),
        (("--role", "owner", "--scope", "acme", "--expires", "tomorrow"), "expires"),
        (("--role", "owner", "--scope", "acme", "--expires", "2020-01-01"), "expires"),
    ],
)
def test_what_a_token_cannot_be_is_refused(tmp_path, words, field):
    done = invoke("token", "create", "anna", *words, "--file", tmp_path / "t.json")
    assert isinstance(done.exception, CheckError)
    assert done.exception.field == f"--{field}"
    assert not (tmp_path / "t.json").exists()


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("package", ["Python", "pysqlite3"])
@pytest.mark.parametrize("journal", ["WAL", "TRUNCATE"])
def test_doctor_says_what_this_machine_lacks(monkeypatch, journal, package, platform):
    monkeypatch.setattr("epsilog.ledger.sqlite.get_version", lambda: ("3.50.1", journal, package))
    monkeypatch.setattr("epsilog.cli.serve.util.find_spec", lambda name: name if name in {"jax", "numba"} else None)
    text = text_of("doctor")
    assert f"sqlite 3.50.1 sqlite from {package} journal {journal}" in text
    assert "extras train, fast" in text
    assert ("can lose commits" in text) == (journal != "WAL")
    assert ("pysqlite3 brings" in text) == (journal != "WAL" and package == "Python")
    monkeypatch.setattr(serve.sys, "platform", platform)
    assert ("Only Linux is tested" in text_of("doctor")) == (platform != "linux")
    document = json.loads(text_of("doctor", "--json"))
    assert (document["sqlite"], document["journal"]) == ("3.50.1", journal)
    assert document["extras"] == {
        "train": True,
        "demo": False,
        "data": False,
        "server": False,
        "fast": True,
        "pdf": False,
        "sign": False,
        "postgres": False,
        "plot": False,
        "dask": False,
        "notebook": False,
        "otel": False,
    }


def test_an_extra_is_missing_where_not_even_its_package_is_there():
    assert serve._is_installed("epsilog.cli")
    assert not serve._is_installed("no_such_package.exporter.http")


def test_a_selftest_runs_its_fixed_set_where_it_is_asked_to(monkeypatch, tmp_path):
    killed = selftest.KillReport(kills=3, acknowledged=9, lost=0, unacknowledged=0, doubled=0, entries=20)
    raced = selftest.RaceReport(attempts=24, cap=12, accepted=12, refused=12, entries=13)
    told = {"ledger.selftest.run_kill_campaign": killed, "ledger.selftest.run_race_campaign": raced}
    calls = []
    for place, found in told.items():
        name = place.rpartition(".")[2]

        def stand_in(folder, found=found, name=name, **named):
            assert folder.is_dir()
            assert tmp_path in folder.parents
            calls.append((name, named))
            return found

        monkeypatch.setattr(f"epsilog.{place}", stand_in)
    here = ("selftest", "--folder", tmp_path)
    text = text_of(*here)
    fixed = [("run_kill_campaign", {"seed": 1, "kills": 100, "url": None}), ("run_race_campaign", {"url": None})]
    assert calls == fixed
    assert "Killed writers kills 3 acknowledged 9 lost 0 unacknowledged 0 doubled 0 entries 20" in text
    assert "Race for a budget attempts 24 cap 12 accepted 12 refused 12 entries 13" in text
    document = json.loads(text_of(*here, "--json"))
    assert document == {"kills": dataclasses.asdict(killed), "race": dataclasses.asdict(raced)}
    calls.clear()
    for database, start in (
        ("postgresql:///d", "postgresql:///d?"),
        ("postgresql:///d?host=h", "postgresql:///d?host=h&"),
    ):
        calls.clear()
        CliRunner().invoke(app, list(map(str, [*here, "--database", database])))
        urls = [named["url"].rpartition("_")[0] for _, named in calls]
        assert urls == [f"{start}ledger=selftest_{name}" for name in ("killed", "raced")]
    named = CliRunner().invoke(app, ["selftest", "--database", "postgresql:///d?ledger=mine"])
    assert "database must be without a ledger" in str(named.exception)


@pytest.mark.slow
def test_a_short_selftest_passes(monkeypatch, tmp_path):
    monkeypatch.setattr("epsilog.cli.serve._KILLS", 4)
    found = json.loads(text_of("selftest", "--folder", tmp_path, "--json"))
    assert found["kills"]["lost"] == found["kills"]["doubled"] == 0
    assert found["kills"]["acknowledged"] > 0
    assert (found["race"]["attempts"], found["race"]["accepted"]) == (400, 200)
    assert not list(tmp_path.iterdir())


# --- run configs ------------------------------------------------------------------------------------------------------


def test_options_of_run_reach_the_pipeline_and_where_to_look_is_said(reached, monkeypatch, tmp_path):
    for given, at in (((), tmp_path / "ledger.db"), (("--ledger", tmp_path / "b.db"), tmp_path / "b.db")):
        args, named = reached("epsilog.pipeline.run", "run", "p.toml", "--runs", tmp_path, *given)
        observer = named.pop("observer")
        assert (callable(observer.stage), callable(observer.round)) == (True, True)
        assert (args, named) == ((Path("p.toml"),), {"runs": tmp_path, "ledger": at})
        passed = SimpleNamespace(status="passed")
        outcome = SimpleNamespace(verification=passed, folder=tmp_path, report={})
        monkeypatch.setattr("epsilog.pipeline.run", lambda *_, outcome=outcome, **__: outcome)
        monkeypatch.setattr(run_commands, "_show_summary", lambda *_: None)
        told = invoke("run", "p.toml", "--runs", tmp_path, *given).output.splitlines()
        assert f"To browse it: epsilog serve --runs {tmp_path} --ledger {at}" in told  # a line, however long


def test_training_alone_tells_of_every_tenth_part_and_how_to_go_on(monkeypatch, tmp_path):
    def trained(path, *, runs, ledger, observer):
        assert (path, runs, ledger) == (Path("p.toml"), tmp_path / "my runs", Path("b.db"))
        plan = SimpleNamespace(
            scheme=SimpleNamespace(rounds=25), epsilon_after=lambda done: SimpleNamespace(upper=done / 10)
        )
        observer.stage("training")
        for done in range(1, 26):
            observer.round(SimpleNamespace(round=done, diverged=False, test_loss=0.25, test_score=None), plan)
        return SimpleNamespace(vector=np.zeros(1234)), runs / "p-1"

    monkeypatch.setattr("epsilog.pipeline.train_only", trained)
    told = invoke("train", "p.toml", "--runs", tmp_path / "my runs", "--ledger", "b.db").output.splitlines()
    rounds = [line for line in told if line.startswith("round ")]
    assert len(rounds) == 10
    assert rounds[0] == "round 3 of 25  loss 0.25  score none  epsilon <= 0.3"
    assert rounds[-1].startswith("round 25 of 25 ")
    assert f"{tmp_path / 'my runs'}/p-1/model.npz (1,234 parameters)" in [
        line.removeprefix("model   ") for line in told
    ]
    (command,) = [line.removeprefix("To verify and report: ") for line in told if "To verify" in line]
    assert shlex.split(command) == ["epsilog", "run", "p.toml", "--runs", str(tmp_path / "my runs"), "--ledger", "b.db"]


def test_predictions_are_a_csv_with_blanks_for_what_cannot_be_said(monkeypatch, tmp_path):
    given = (Path("p.toml"), Path("model.npz"), Path("rows.csv"))

    def predict(*args):
        assert args == given
        return ["yes, mostly", None, 0.1, dt.date(2025, 1, 2)]

    monkeypatch.setattr("epsilog.pipeline.predict_targets", predict)
    monkeypatch.setattr(
        "epsilog.pipeline.load_run_config", lambda _: SimpleNamespace(data=SimpleNamespace(target="ill"))
    )
    assert invoke("predict", *given).output == 'ill\n"yes, mostly"\n""\n0.1\n2025-01-02\n'
    done = invoke("predict", *given, "-o", tmp_path / "out.csv").output
    assert done == f"wrote {tmp_path}/out.csv: 4 rows, 1 of them blank\n"
    assert (tmp_path / "out.csv").read_text() == 'ill\n"yes, mostly"\n""\n0.1\n2025-01-02\n'


def test_a_command_to_copy_can_be_copied_with_any_folder(monkeypatch, tmp_path):
    outcome = SimpleNamespace(verification=SimpleNamespace(status="passed"), folder=tmp_path, report={})
    monkeypatch.setattr("epsilog.pipeline.run", lambda *_, **__: outcome)
    monkeypatch.setattr(run_commands, "_show_summary", lambda *_: None)
    told = invoke("run", "p.toml", "--runs", tmp_path / "my runs").output
    (command,) = [line.removeprefix("To browse it: ") for line in told.splitlines() if "To browse it" in line]
    assert shlex.split(command)[:4] == ["epsilog", "serve", "--runs", str(tmp_path / "my runs")]


def test_a_terminal_shows_stages_counts_and_the_time_left_on_standard_error(monkeypatch, capsys):
    monkeypatch.setattr(show, "progress_console", lambda: Console(stderr=True, force_terminal=True, width=100))
    plan = SimpleNamespace(scheme=SimpleNamespace(rounds=4), epsilon_after=lambda done: SimpleNamespace(upper=done))
    with run_commands._RunWatcher(quiet=False) as watcher:
        watcher.stage("planning")
        for done in (1, 2, 3):
            watcher.round(SimpleNamespace(round=done, diverged=False, test_loss=0.25, test_score=0.5), plan)
            watcher.comparison(done, 9)
        watcher._progress.refresh()
    out, told = capsys.readouterr()
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", told)
    assert out == ""
    for part in ("planning ...", "rounds", "3/4", "comparisons", "3/9", " left", "loss 0.25  score 0.5"):
        assert part in plain


@pytest.mark.parametrize(("value", "shown"), [(None, "diverged"), ("inf", "inf"), (0.123456, "0.1235"), (3, "3")])
def test_figures_have_four_digits(value, shown):
    assert run_commands._format_figure(value, "diverged") == shown


def summary(name, score, bare, unit="client"):
    guarantee = {"privacy_unit": unit, "population": 12_345, "epsilon": 1.25}
    parties = [{"party": "Server", "protection": f"{name}'s word"}, {"party": "Others", "protection": "-"}]
    return {
        "identity": {"name": name},
        "claim": {"guarantee": guarantee, "parties": parties},
        "utility": {"baseline_rounds": bare} if bare is not None else None,
        "result": {"test_score": score, "diverged": score is None},
    }


def test_runs_stand_side_by_side(capsys):
    bare = [{"test_score": 0.25}, {"test_score": 0.875}]
    run_commands._show_side_by_side(
        [summary("one", 0.5, bare), summary("two", None, None), summary("three", 0.75, [], "row")]
    )
    text = " ".join(capsys.readouterr().out.split())
    assert "run protects against the server epsilon score without DP" in text
    assert "one one client of 12,345 one's word 1.25 0.5 0.875" in text
    assert "two one client of 12,345 two's word 1.25 diverged -" in text
    assert "three one row of 12,345 three's word 1.25 0.75 -" in text


def test_a_report_is_rendered_to_its_place(monkeypatch, tmp_path):
    monkeypatch.setattr("epsilog.reports.check_schema", lambda document: document["name"])
    monkeypatch.setattr("epsilog.reports.render_html", lambda document: f"<p>{document['name']}</p>")
    (tmp_path / "report.json").write_text('{"name": "scores"}')
    assert text_of("report", tmp_path) == f"wrote {tmp_path / 'report.html'}"
    assert (tmp_path / "report.html").read_text() == "<p>scores</p>"
    assert text_of("report", tmp_path, "-o", tmp_path / "other") == f"wrote {tmp_path / 'other'}"
    assert (tmp_path / "other").read_text() == "<p>scores</p>"
    (tmp_path / "other").unlink()
    assert json.loads(text_of("report", tmp_path, "--json")) == {"name": "scores"}
    assert not (tmp_path / "other").exists()
    for content, says in (("{", "is not JSON"), (None, "cannot be read")):
        (tmp_path / "report.json").unlink()
        if content is not None:
            (tmp_path / "report.json").write_text(content)
        else:
            (tmp_path / "report.json").mkdir()
        with pytest.raises(terms.RecordError, match=says):
            raise invoke("report", tmp_path).exception
    (tmp_path / "report.json").rmdir()


@pytest.mark.slow
def test_a_verdict_on_logs_is_written_with_the_hashes_of_what_was_read_and_is_public(tmp_path):
    mapping = Path(__file__).parents[2] / "examples/logs/generic/mapping.toml"
    out = tmp_path / "verdict.md"
    assert "passed" in text_of("verify", "--logs", mapping, "--require", "cohorts", "-o", out)
    assert "The logs are attested by their author" in out.read_text()
    digests = re.findall(r"^\| (\S+) \| ([0-9a-f]{64}) \|$", out.read_text(), flags=re.MULTILINE)
    assert digests == [("mapping.toml", hashlib.sha256(mapping.read_bytes()).hexdigest())]
    public = shutil.copytree(mapping.parent, tmp_path / "public") / "mapping.toml"
    public.write_text(f"public = true\n{mapping.read_text()}")
    assert "passed" in text_of("verify", "--logs", public, "--require", "cohorts", "-o", out)
    for name in ("mapping.toml", "rounds.csv", "clients.csv", "padding.csv", "enrollment.csv"):
        assert f"| {name} | {hashlib.sha256((public.parent / name).read_bytes()).hexdigest()} |" in out.read_text()
    with open_ledger(tmp_path / "b.db") as books:
        books.create_budget("acme", kind="pure", epsilon="3")
    text_of("verify", tmp_path / "b.db", "-o", out)
    assert out.read_text().startswith("# b.db: verification")


def test_a_watch_looks_again_when_a_file_changes_and_ends_when_something_fails(monkeypatch, tmp_path):
    ends = iter([terms.Status.PASSED, terms.RecordError("half a line"), terms.Status.WARNED, terms.Status.FAILED])
    slept = []

    def found(*_, **__):
        end = next(ends)
        if isinstance(end, Exception):
            raise end
        return verification.Verification((terms.Finding("noise/passed", end, f"look {len(slept)}"),))

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) % 2 == 0:  # every other time nothing has changed
            (tmp_path / "rounds.jsonl").write_text("x" * len(slept))

    monkeypatch.setattr(reports, "verify", found)
    monkeypatch.setattr(verify, "time", SimpleNamespace(sleep=sleep))
    done = invoke("verify", tmp_path, "--watch", "0.5")
    assert (done.exit_code, slept) == (4, [0.5] * 6)
    assert [word for word in ("look 0", "half a line", "look 4", "look 6") if word not in done.output] == []
    assert invoke("verify", tmp_path, "--watch", "0").exit_code == 2


@pytest.mark.parametrize("refuted", [None, False, True])
def test_an_audit_shows_its_figures_and_ends_with_4_where_it_refutes(monkeypatch, tmp_path, refuted):
    found = SimpleNamespace(
        protocol=SimpleNamespace(delta=1e-5, confidence=0.95), epsilon=1.25, most=6.5, message="a", to_json=dict
    )
    claim = {"epsilon": 0.75, "refuted": refuted, "confidence": 0.9, "by_its_profile": True, "protocol_in_plan": True}
    monkeypatch.setattr(verify, "_audit_file", lambda *_: (found, None if refuted is None else claim))
    (tmp_path / "scores.csv").touch()
    done = invoke("audit", tmp_path / "scores.csv")
    assert done.exit_code == (4 if refuted else 0)
    text = " ".join(done.output.split())
    assert "epsilon is at least 1.25 at delta 1e-05 confidence 0.95 could have shown 6.5" in text
    assert ("claimed 0.75" in text) == (refuted is not None)
    assert ("Too many guesses are right" in text) == ("refuted with confidence 0.9" in text) == bool(refuted)


@pytest.mark.slow
def test_scores_are_audited_and_a_refuted_claim_ends_with_4(monkeypatch, tmp_path):
    draws = np.random.default_rng(0)
    coins = draws.random(500) < 0.5
    scores, asked = tmp_path / "s.csv", tmp_path / "audit.toml"
    lines = (f"{x},{int(c)}" for x, c in zip(draws.normal(size=500) + 1.5 * coins, coins, strict=True))
    scores.write_text("\n".join(["score,included", *lines]))
    asked.write_text("canaries = 500\ndelta = 1e-5\n")
    alone = json.loads(text_of("audit", scores, "--delta", "1e-5", "--json"))
    assert alone["epsilon"] > 1
    assert alone["claim"] is None
    digest = hashlib.sha256(asked.read_bytes()).hexdigest()
    for noise, relation, refuted in ((20.0, "ADD_OR_REMOVE_ONE", True), (0.5, "ADD_OR_REMOVE_ONE", False)):
        plan = SimpleNamespace(
            scheme=schemes.ClientLevelCentral(100, 1.0, 1, 1.0, noise),
            release=Gaussian(noise),
            guarantee=SimpleNamespace(
                epsilon=accounting.epsilon(Gaussian(noise), delta=1e-5).upper,
                delta=1e-5,
                relation=NeighboringRelation[relation],
            ),
            details={"references": {"audit": digest if refuted else "0"}},
        )
        monkeypatch.setattr("epsilog.verification.read_evidence", lambda *_, p=plan: SimpleNamespace(plan=p))
        done = invoke("audit", scores, "--protocol", asked, "--run", tmp_path, "--json")
        claim = json.loads(done.output)["claim"]
        assert (done.exit_code, claim["refuted"], claim["protocol_in_plan"]) == (4 if refuted else 0, refuted, refuted)
        assert claim["confidence"] == pytest.approx(0.9)
        shown = invoke("audit", scores, "--protocol", asked, "--run", tmp_path).output
        assert ("does not name this protocol" in shown) == (not refuted)
        assert ("refuted with confidence 0.9" in shown) == refuted
    plan.guarantee.relation = REPLACE
    with pytest.raises(CheckError, match="replace-one"):
        raise invoke("audit", scores, "--protocol", asked, "--run", tmp_path).exception
    for both in ((), ("--delta", "1e-5", "--protocol", asked)):
        with pytest.raises(CheckError, match="protocol must be given, or else delta"):
            raise invoke("audit", scores, *both).exception


def test_a_report_is_rendered_for_other_readers(monkeypatch, tmp_path):
    monkeypatch.setattr("epsilog.reports.check_schema", lambda document: document["name"])
    monkeypatch.setattr("epsilog.reports.render_markdown", lambda document, about, kind: f"{document}{about}{kind}")
    monkeypatch.setattr("epsilog.reports.render_pdf", lambda document, about: f"{document}{about}".encode())
    monkeypatch.setattr("epsilog.reports.build_registry_record", lambda document, about: document | about)
    (tmp_path / "report.json").write_text('{"name": "scores"}')
    (tmp_path / "about.toml").write_text('region = "Europe"')
    document, about = {"name": "scores"}, {"region": "Europe"}
    for kind, file in (("markdown", "report.md"), ("summary", "summary.md")):
        assert text_of("report", tmp_path, "--format", kind) == f"wrote {tmp_path / file}"
        assert (tmp_path / file).read_text() == f"{document}{{}}{kind}"
    filled = ("--publication-fields", tmp_path / "about.toml")
    text_of("report", tmp_path, "-f", "pdf", *filled)
    assert (tmp_path / "report.pdf").read_text() == f"{document}{about}"
    text_of("report", tmp_path, "-f", "registry", *filled, "-o", tmp_path / "r.yaml")
    assert json.loads((tmp_path / "r.yaml").read_text()) == document | about
    for wrong in (("--format", "docx"), filled):
        with pytest.raises(terms.CheckError, match=r"format|publication-fields"):
            raise invoke("report", tmp_path, *wrong).exception


def test_a_report_that_is_none_is_not_rendered(tmp_path):
    (tmp_path / "report.json").write_text('{"kind": "something else"}')
    assert invoke("report", tmp_path).exit_code != 0
    assert not (tmp_path / "report.html").exists()


# --- what moves on a terminal -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("terminal", [False, True])
def test_bars_are_drawn_on_a_terminal_unless_json_was_asked_for(monkeypatch, quiet, terminal):
    """Each for as long as it is entered: what is asked of a bar that is not drawn costs nothing."""
    screen = Console(file=io.StringIO(), force_terminal=terminal, width=200)
    trial = SimpleNamespace(candidate=0, samples=100, tilt=SimpleNamespace(direction="remove"))
    monkeypatch.setattr("epsilog.accounting.montecarlo.compute_running_interval", lambda *_: (0.25, 0.75))
    monkeypatch.setattr(show, "progress_console", lambda: screen)
    with montecarlo_commands._IntervalWatcher(quiet=quiet, failure=1e-6, kept=True) as watcher:
        for draws in (10, 20, 30):
            watcher(trial, draws, 5)
        assert len(watcher._bars) == (terminal and not quiet)
    assert ("delta 0.25 .. 0.75" in screen.file.getvalue()) == (terminal and not quiet)
    screen = Console(file=io.StringIO(), force_terminal=terminal, width=200)
    monkeypatch.setattr(show, "progress_console", lambda: screen)
    run = SimpleNamespace(scheme=SimpleNamespace(rounds=7), epsilon_after=lambda at: SimpleNamespace(upper=at / 8))
    with run_commands._RunWatcher(quiet=quiet) as watcher:
        for number in range(1, 8):
            watcher.round(SimpleNamespace(round=number, test_loss=0.5, test_score=None, diverged=True), run)
            watcher._progress.refresh()
        bars = watcher._progress.tasks
        assert [(bar.total, bar.completed) for bar in bars] == ([(7, 7)] if terminal and not quiet else [])
    drawn = screen.file.getvalue()
    assert all((part in drawn) == (terminal and not quiet) for part in ("7/7", "loss 0.5  score diverged"))
    assert ("epsilon <= 0.625" in drawn) == ("epsilon <= 0.875" in drawn) == (terminal and not quiet)
    assert "epsilon <= 0.250" not in drawn


@pytest.mark.parametrize("words", [["-T", "50.000"], ["-T50.000"], ["--rounds", "2.000"], ["--rounds=2.000"]])
def test_digits_grouped_by_points_are_refused_not_read_as_decimals(monkeypatch, capsys, words):
    """A parser of options took fifty for "50.000": fifty thousand rounds cost more."""
    monkeypatch.setattr(sys, "argv", ["epsilog", "plan", "federated", "-N", "50000", "-m", "500", "-z", "1.2", *words])
    with pytest.raises(SystemExit) as end:
        entry.main()
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert f"{words[0].partition('=')[0].removesuffix('50.000')} must be written" in said
    assert "which can group digits or begin decimals: write" in said
