"""The pages' types are the API's, and what the API sends is what its description says."""

import json
import re
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.server.described import description

from epsilog.server import ledger_service, worker
from epsilog.server.responses import IntervalModel

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

RUN = {"population": 1000, "cohort_size": 100, "rounds": 3, "noise_multiplier": 2.0}
PAIR = {
    "first": {"mechanism": "gaussian", "parameter": 0.85},
    "second": {"mechanism": "gaussian", "parameter": 0.3, "sampling_probability": 0.001},
}
SGD = {
    "type": "poisson-sampled",
    "release": {"type": "gaussian", "noise_multiplier": 1.0},
    "sampling_probability": 0.01,
}
MIX = {"parts": [{"mechanism": "gaussian", "parameter": 2.0}, {"mechanism": "pure", "parameter": 0.1, "count": 2}]}
DP_SGD = {"examples": 1000, "batch_size": 50, "delta": 1e-4, "epochs": 2}
ASKED = [
    ("/dp-sgd", DP_SGD | {"epsilon": 2.0, "sampler": "shuffled"}),
    ("/dp-sgd", DP_SGD | {"noise_multiplier": 0.0}),
    ("/dp-sgd", DP_SGD | {"noise_multiplier": 1.0, "sampler": "truncated-poisson", "max_batch_size": 70}),
    ("/dp-sgd/attack", DP_SGD | {"noise_multiplier": 1.0}),
    ("/dp-sgd/elsewhere", DP_SGD | {"noise_multiplier": 1.0}),
    ("/federated", RUN),
    ("/federated", RUN | {"noise_multiplier": 0.0}),
    ("/federated", RUN | {"sampling": "balls-in-bins", "delta": 1e-9}),
    ("/federated/curve", RUN),
    ("/federated/noise", RUN | {"epsilon": 2.0}),
    ("/federated/rounds", RUN | {"epsilon": 2.0}),
    ("/federated/interpretation", RUN | {"cap": 2.0}),
    ("/federated/interpretation", RUN | {"noise_multiplier": 0.0, "trials": "fixed:8"}),
    ("/federated/risk", RUN),
    ("/federated/elsewhere", RUN),
    ("/federated/record", RUN),
    ("/queries", {"epsilon": 1.0, "queries": 3, "weights": [1.0, 2.0, 1.0], "queries_used": 4}),
    ("/queries", {"epsilon": 1.0, "queries": 3, "mechanism": "gaussian", "population": 5000, "magnitude": 10.0}),
    ("/queries/interpretation", {"epsilon": 1.0, "queries": 2}),
    ("/queries/elsewhere", {"epsilon": 1.0, "queries": 2}),
    ("/queries/risk", {"epsilon": 1.0, "queries": 2, "mechanism": "gaussian", "delta": 1e-6}),
    ("/queries/record", {"epsilon": 1.0, "queries": 2}),
    ("/queries/crossover", {"epsilon": 1.0, "delta": 1e-6, "queries": 37}),
    ("/sensitivity", {"query": "mean", "low": 0.0, "high": 9.0, "size": 30}),
    ("/account", MIX),
    ("/account", {"parts": [{"mechanism": "gaussian", "parameter": 0.0}]}),
    ("/account/profile", MIX),
    ("/account/interpretation", MIX | {"cap": 2.0}),
    ("/account/risk", MIX),
    ("/account/compare", PAIR),
    ("/verdict", {"epsilon": 4.0, "delta": 1e-5}),
    ("/verdict", {"release": {"v": 1, "term": SGD}, "delta": 1e-5, "simulation": True, "date": "2026-11-28"}),
    ("/certificate", {"release": {"v": 1, "term": SGD}, "delta": 1e-6}),
]


def test_the_pages_types_are_fresh():
    import typescript

    message = "the types are stale: run `python scripts/typescript.py`"
    assert typescript.TARGET.read_text(encoding="utf-8") == typescript.document(), message


@pytest.mark.parametrize(
    ("path", "ask"),
    [pytest.param(*one, id=one[0], marks=pytest.mark.slow if one[0].endswith("crossover") else ()) for one in ASKED],
)
def test_answers_hold_what_their_description_says(path, ask):
    status, _, body = worker.answer_request(path, ask)
    assert status == 200
    worker.ROUTES[path].response.model_validate(json.loads(body), strict=False)


def test_every_question_is_asked_here():
    """But for one that takes a run's report, which ``test_verification`` asks, and for what the ledger's verbs ask."""
    described = [told for methods in description()["paths"].values() for told in methods.values()]
    assert all(told["summary"] and told["description"] for told in described)
    assert {path for path, _ in ASKED} | {"/verify", "/verify/example", "/verify/folder"} | set(
        ledger_service.routes.by_path
    ) == set(worker.ROUTES)


def test_an_answer_with_more_or_less_is_noticed():
    whole = {"lower": 1.0, "upper": "inf", "method": "RDP", "relation": "zero-out", "assumptions": []}
    IntervalModel.model_validate(whole)
    for other in (whole | {"more": 1}, whole | {"upper": "infinite"}, {"lower": 1.0}):
        with pytest.raises(ValidationError):
            IntervalModel.model_validate(other)


def test_no_page_tells_the_compiler_to_believe():
    for file in (ROOT / "web/src").rglob("*.ts*"):
        assert not re.search(r"as (unknown as|any\b|never\b)", file.read_text(encoding="utf-8")), file.name
