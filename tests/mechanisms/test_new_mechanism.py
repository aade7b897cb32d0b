"""A new mechanism is one file: the one that CONTRIBUTING.md shows is taken along by every part of the house."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import epsilog

ROOT = Path(__file__).parents[2]
SKELLAM = {"type": "skellam", "variance": 100.0, "l1_sensitivity": 3.0, "l2_sensitivity": 1.0}
ASKED = """
import json
import epsilog as ep
release = ep.from_json({"v": 0, "term": json.loads(%r)})
asked = {
    "one": release,
    "ten": ep.Repeated(release, 10),
    "group": ep.mechanisms.Grouped(release, 2),
    "sampled": ep.PoissonSampled(release, 0.1),
    "beside": ep.Composed([release, ep.Laplace(2.0)]),
    "gaussian": ep.Gaussian(10.0),
}
assert ep.from_json(release.to_json()) == release and "Skellam" in ep.mechanisms.__all__
print(json.dumps({name: ep.epsilon(one, delta=1e-6).upper for name, one in asked.items()}))
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """The package with one more file in it."""
    [source] = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    home, made = Path(epsilog.__file__).parent, tmp_path_factory.mktemp("house")
    (made / "epsilog/mechanisms").mkdir(parents=True)
    for one in [*home.iterdir(), *(home / "mechanisms").glob("*.py")]:
        if one.name not in ("mechanisms", "__pycache__"):
            (made / "epsilog" / one.relative_to(home)).symlink_to(one)
    (made / "epsilog/mechanisms/skellam.py").write_text(source, encoding="utf-8")
    return made


def said(house, *words):
    run = subprocess.run(
        [sys.executable, *words],
        env=os.environ | {"PYTHONPATH": str(house)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


@pytest.mark.slow
def test_one_file_is_priced_and_stored_everywhere(house):
    found = said(house, "-c", ASKED % json.dumps(SKELLAM))
    assert found["gaussian"] < found["one"] < 1.05 * found["gaussian"] + 0.05  # a Renyi bound, and Skellam noise
    assert found["one"] < found["ten"] < 10 * found["one"]
    assert found["sampled"] <= found["one"] < found["group"]
    assert found["one"] < found["beside"] <= found["one"] + 0.5


@pytest.mark.slow
def test_the_command_line_knows_its_tag_and_fields(house):
    flags = ["-z", "100", "--field", "l1_sensitivity=3", "--field", "l2_sensitivity=1", "--delta", "1e-6", "--json"]
    shown = said(house, "-m", "epsilog", "account", "--mechanism", "skellam", *flags)
    assert shown["release"]["term"] == SKELLAM
    assert shown["interval"]["upper"] == said(house, "-c", ASKED % json.dumps(SKELLAM))["one"]
