"""The page of a report checks its certificate when it is opened from a file, and compares it with what it shows."""

import base64
import hashlib
import json
import re

import pytest
from tests.reports.drawn import finish, make_plan

from epsilog.certificates import certificate, describe_claim
from epsilog.mechanisms import Gaussian
from epsilog.reports import render_html
from epsilog.reports.proof import build_proof


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    finish(folder / "run", folder / "ledger.db", make_plan())
    return json.loads((folder / "run" / "report.json").read_text())


def test_the_security_policy_names_the_script_alone(report):
    page = render_html(report)
    (script,) = re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{digest}'; style-src" in page
    assert page.count("<script") == 1


def test_the_rows_are_the_claim_of_the_reports_own_release(report):
    proof = build_proof(report)
    assert proof.rows == describe_claim(json.loads(proof.certificate)["claim"])
    other = report | {"evidence": report["evidence"] | {"certificate": certificate(Gaussian(9.0), delta=0.5).text}}
    assert build_proof(other).rows[1:] == proof.rows[1:]


def test_without_a_certificate_there_is_no_script(report):
    page = render_html(report | {"evidence": report["evidence"] | {"certificate": None}})
    assert "<script" not in page
    assert "script-src" not in page
