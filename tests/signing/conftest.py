"""Keys that every test of signatures may use; where the library that signs is not installed, none of them runs."""

import pytest

from epsilog.signing import SigningKey


@pytest.fixture(scope="session")
def key():
    pytest.importorskip("cryptography")
    return SigningKey.create("example.org/privacy")


@pytest.fixture(scope="session")
def other():
    pytest.importorskip("cryptography")
    return SigningKey.create("example.org/privacy")  # of the same name
