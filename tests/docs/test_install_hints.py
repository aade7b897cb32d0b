"""Nothing tells people to ask a package index for epsilog, which is not there; what brings a missing extra works."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from epsilog.terms.extras import install_command

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
ASKS_AN_INDEX = re.compile(
    r"\b(?:pip|pipx|uv)\b.*\b(?:install|add)\b.*?[\s'\"`]epsilog(?=[\[\s'\"`=<>~,;]|$)|\binstall ['\"`]?epsilog\["
)


def told(text):
    """The lines of a text that ask an index."""
    return [line.strip() for line in text.splitlines() if ASKS_AN_INDEX.search(line)]


def printed():
    """Files whose text people read: code, pages, docs, examples and set-ups."""
    listed = subprocess.run(
        [shutil.which("git"), "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    kinds = (".py", ".md", ".ts", ".tsx", ".html", ".j2", ".typ", ".toml", ".service", ".yml", ".yaml", "Containerfile")
    roots = ("src/", "docs/", "web/src/", "deploy/", "examples/", "README.md", "SECURITY.md", "CONTRIBUTING.md")
    return [
        ROOT / name for name in listed if name.startswith(roots) and name.endswith(kinds) and (ROOT / name).is_file()
    ]


@pytest.mark.parametrize(
    "line",
    [
        "pip install epsilog",
        "pip install 'epsilog[server]'",
        "run: pip install -U epsilog",
        "polars; install epsilog[data]",
    ],
)
def test_the_search_finds_what_asks_an_index(line):
    assert told(line)


@pytest.mark.slow
def test_no_text_asks_an_index_for_epsilog():
    files = printed()
    assert len(files) > 500
    found = {f"{path.relative_to(ROOT)}": lines for path in files if (lines := told(path.read_text(encoding="utf-8")))}
    assert found == {}


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - {"all"}))
def test_the_command_names_the_packages_of_the_extra(extra):
    words = shlex.split(install_command(extra))
    assert words[:2] == ["pip", "install"]
    name = re.compile(r"[\w.-]+")
    assert {name.match(each)[0] for each in words[2:]} == {name.match(each)[0] for each in EXTRAS[extra]}
    assert not any(each.startswith("epsilog") for each in words)


def test_several_extras_are_one_command():
    assert install_command("train", "sign").count("pip install") == 1
    assert {"randomgen>=2.1", "cryptography>=43"} <= set(shlex.split(install_command("train", "sign")))


def test_sources_that_are_not_installed_name_the_clone(monkeypatch):
    def gone(_):
        raise metadata.PackageNotFoundError("epsilog")

    monkeypatch.setattr(metadata, "requires", gone)
    assert install_command("train", "server") == "pip install '.[train,server]' in a clone"


@pytest.mark.slow
def test_what_is_told_is_what_pip_understands():
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--quiet"]
    done = subprocess.run(
        [*command, *shlex.split(install_command("sign"))[2:]], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr  # it is there already
