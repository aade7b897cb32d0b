"""`--certificate FILE`: the answer is printed as without it, and what is written proves what was answered."""

import json

import pytest
import typer
from typer.testing import CliRunner

from epsilog.certificates import check_certificate, write_claim
from epsilog.cli.app import BAD_INPUT, UNUSABLE, load
from epsilog.mechanisms import Composed, Gaussian, PoissonSampled, Repeated
from epsilog.plan import QUESTIONS, plan_federated, queries
from epsilog.terms import CheckError, NeighboringRelation, UnsupportedMechanismError, codec

APP = load()
REPLACE = NeighboringRelation.REPLACE_ONE
RUN = {"population": 50, "cohort_size": 50, "rounds": 2, "noise_multiplier": 4.0}  # nobody is left out: a Gaussian
TYPED = ["-N", "50", "-m", "50", "-T", "2", "-z", "4"]
PART = {"mechanism": "gaussian", "parameter": 4.0, "count": 2}


def run(*words):
    return CliRunner().invoke(APP, [str(word) for word in words])


def planned(**more):
    return plan_federated(**RUN, **more).release


ANSWERED = [  # what is typed, and what is claimed then: release, delta, relation, group size
    (["account", "-z", 4, "-q", 0.5, "--delta", "1e-5"], (PoissonSampled(Gaussian(4.0), 0.5), 1e-5)),
    (["account", "-z", 4, "--delta", "1e-5", "--relation", "replace-one"], (Gaussian(4.0), 1e-5, REPLACE)),
    (["account", "-z", 4, "--delta", "1e-5", "-k", 3], (Gaussian(4.0), 1e-5, None, 3)),
    (["account", "composition", "--parts", "PARTS", "--delta", "1e-5"], (Composed([Repeated(Gaussian(4.0), 2)]), 1e-5)),
    (["plan", "federated", *TYPED, "--delta", "1e-8", "--group-size", 2], (planned(), 1e-8, None, 2)),
    (["plan", "federated-interpretation", *TYPED], (planned(), 1e-6)),
    (
        ["plan", "queries", "-e", 1, "-Q", 3, "--delta", "1e-6", "--mechanism", "gaussian"],
        (queries(epsilon=1.0, queries=3, delta=1e-6, mechanism="gaussian").release, 1e-6),
    ),
    (["plan", "queries", "-e", 1, "-Q", 3], (queries(epsilon=1.0, queries=3).release, 0)),
]


@pytest.mark.every(1)
@pytest.mark.slow_beyond(2)
@pytest.mark.parametrize(("words", "claimed"), ANSWERED, ids=lambda one: " ".join(map(str, one[:2])))
def test_the_certificate_is_of_what_was_answered(words, claimed, tmp_path):
    (tmp_path / "parts.json").write_text(json.dumps([PART]))
    words = [tmp_path / "parts.json" if word == "PARTS" else word for word in words]
    file = tmp_path / "certificate.json"
    found = run(*words, "--certificate", file, "--json")
    assert found.exit_code == 0, found.output
    content = file.read_bytes()
    assert check_certificate(content).proven
    claim = json.loads(content)["claim"]
    release, delta, relation, group = (*claimed, None, None)[:4]
    given = {} if relation is None else {"relation": relation}
    given |= {} if group is None else {"group_size": group}
    assert claim == write_claim(release, epsilon=claim["epsilon"], delta=delta, **given)
    told = json.loads(found.output).pop("certificate")
    assert (told["file"], told["certificate"].encode()) == (str(file), content)
    assert json.loads(found.output) == json.loads(run(*words, "--json").output) | {"certificate": told}
    if words[:2] in (["account", "-z"], ["plan", "queries"]):
        assert run(*words, "--certificate", file).output == (
            f"{run(*words).output}wrote {file}: epsilon {claim['epsilon']} at delta {claim['delta']} is proven; "
            f"SHA-256 {told['sha256']}\n"
        )


def test_a_delta_that_was_asked_for_is_proven_at_its_epsilon(tmp_path):
    file = tmp_path / "certificate.json"
    found = run("account", "-z", 4, "--epsilon", 1, "--certificate", file, "--json")
    bound = codec.decode(json.loads(found.output)["interval"]).upper
    claim = json.loads(file.read_text())["claim"]
    assert claim["epsilon"] == "1"
    assert bound < float(claim["delta"]) <= bound * 1.00101
    assert check_certificate(file.read_bytes()).proven


@pytest.mark.parametrize("words", [["account", "-z", 4, "--delta", 1e-6], ["plan", "federated", *TYPED]])
def test_what_is_not_covered_is_answered_and_then_named(words, tmp_path):
    words, file = [*words, "--trials", "fixed:2"], tmp_path / "certificate.json"
    file.write_text("kept")
    text = run(*words, "--certificate", file)
    assert text.stdout == run(*words).stdout
    with pytest.raises(UnsupportedMechanismError, match="BestOfTrials"):
        raise text.exception
    found = run(*words, "--certificate", file, "--json")
    assert found.exit_code == BAD_INPUT
    told = json.loads(found.output)
    assert told.pop("certificate")["error"]["type"] == "UnsupportedMechanismError"
    assert told == json.loads(run(*words, "--json").output)
    assert file.read_text() == "kept"
    assert [one.name for one in tmp_path.iterdir()] == ["certificate.json"]


def test_a_file_that_cannot_be_written_is_told_after_the_answer(tmp_path):
    words = ["account", "-z", 4, "--delta", "1e-5"]
    (tmp_path / "none").write_text("a file")
    found = run(*words, "--certificate", tmp_path / "none" / "certificate.json", "--json")
    told = json.loads(found.output)
    assert (found.exit_code, "error" in told["certificate"], "interval" in told) == (UNUSABLE, True, True)
    refused = run(*words, "--certificate", "-")
    assert isinstance(refused.exception, CheckError)
    assert str(refused.exception) == "--certificate must be a file, got '-'"


@pytest.mark.parametrize("more", [["--delta", "1e-6"], ["--rounds", "1,2"], ["--csv"]])
def test_several_numbers_have_no_certificate(more, tmp_path):
    found = run("account", "-z", 4, "--delta", "1e-5", *more, "--certificate", tmp_path / "certificate.json")
    assert isinstance(found.exception, CheckError)
    assert "--certificate must be given for one number" in str(found.exception)
    assert not found.output.strip()


def test_every_question_about_one_release_takes_the_option():
    commands = typer.main.get_command(APP).commands
    options = {
        f"{group} {name}": {option.name for option in command.params}
        for group in ("account", "plan")
        for name, command in commands[group].commands.items()
    }
    taking = {name for name, found in options.items() if "certificate" in found}
    claiming = {path for path, question in QUESTIONS.items() if question.has_claim()}
    assert taking == {
        *("account composition", "account profile", "account interpretation", "account risk"),
        *("plan dp-sgd", "plan dp-sgd-attack"),
        *("plan federated", "plan federated-interpretation", "plan federated-risk"),
        *("plan queries", "plan queries-interpretation", "plan queries-risk"),
    }
    assert len(taking) == len(claiming)
    for question in (QUESTIONS["/sensitivity"], QUESTIONS["/queries/crossover"], QUESTIONS["/federated/curve"]):
        assert not question.has_claim()
