"""The folder of examples: 200 certificates that are proven, and 200 texts that are refused."""

from pathlib import Path

import pytest

from epsilog.certificates import check_certificate

FOLDER = Path(__file__).parents[2] / "checker"
PROVEN, REFUSED = (sorted((FOLDER / name).glob("*.json")) for name in ("proven", "refused"))


def test_there_are_two_hundred_of_each():
    assert (len(PROVEN), len(REFUSED)) == (200, 200)


@pytest.mark.slow
@pytest.mark.every(20)
@pytest.mark.parametrize("part", range(20))
def test_each_example_ends_as_its_folder_says(part):
    for file in PROVEN[part::20]:
        assert check_certificate(file.read_bytes()).proven, file
    for file in REFUSED[part::20]:
        assert not check_certificate(file.read_bytes()).proven, file
