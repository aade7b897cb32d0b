"""The standalone checker as epsilog runs it: the file as it is, in a namespace of its own."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from epsilog.certificates import certificate, check_certificate
from epsilog.certificates.checker import find_checker, open_checker
from epsilog.mechanisms import Gaussian

CHECKER = Path(__file__).parents[2] / "checker/dp_certificate.py"


def test_the_file_of_the_checkout_is_run_and_its_hash_is_stated():
    assert find_checker("dp_certificate.py") == CHECKER
    found = check_certificate(certificate(Gaussian(1.0), delta=1e-5).text)
    assert (found.proven, found.checker) == (True, hashlib.sha256(CHECKER.read_bytes()).hexdigest())


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_nothing_is_raised_for_what_is_no_certificate(content):
    found = check_certificate(content)
    assert not found.proven
    assert found.message.startswith("REFUSED: ")


def test_a_large_file_is_refused():
    assert "larger than 65536 bytes" in check_certificate(b" " * 70_000).message


@pytest.mark.slow_beyond(1)
def test_threads_do_not_share_a_precision():
    """Certificates of 128 and 168 bits, checked at once: each says what it says alone."""
    texts = (Path(__file__).parents[1] / "checker/certificates.txt").read_text("ascii").splitlines()[3::3]
    assert [json.loads(text)["proof"]["bits"] for text in texts] == [128, 168]
    alone = [check_certificate(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(check_certificate, texts * 3)) == alone * 3
    first, second = open_checker(), open_checker()
    first["B"] = 7
    assert "B" not in second
