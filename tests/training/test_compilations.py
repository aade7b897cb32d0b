"""What was compiled is kept where nobody else can write, and changes no bit of a model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from epsilog.training.engines import enable_compilation_cache

TRAIN = """
import json, sys, time
sys.path.insert(0, {here!r})
from epsilog.training.engines import enable_compilation_cache
kept = enable_compilation_cache()
from conftest import small_task
from epsilog.schemes import ClientLevelCentral
from epsilog.training import Randomness, train_without_charge
from epsilog.training.rounds import hash_model
scheme, draws = ClientLevelCentral(12, 0.5, 2, 0.2, 1.0), Randomness.from_seed(1)
model = train_without_charge(scheme, small_task(), randomness=draws).model
print(json.dumps([None if kept is None else str(kept), hash_model(model)]))
"""


@pytest.fixture(name="home")
def _home(tmp_path, monkeypatch):
    ours = "JAX_", "XLA_FLAGS", "NPROC"  # see tests/conftest.py
    plain = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    monkeypatch.setattr(os, "environ", plain | {"XDG_CACHE_HOME": str(tmp_path)})
    return tmp_path


def train():
    code = TRAIN.format(here=str(Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.extended
@pytest.mark.slow
def test_kept_programs_give_the_same_model(home):
    folder, first = train()
    assert Path(folder).is_relative_to(home / "epsilog" / "jax")
    kept = {path: path.stat().st_mtime_ns for path in Path(folder).iterdir() if path.name.endswith("-cache")}
    assert kept
    assert train() == [folder, first]
    assert kept == {path: path.stat().st_mtime_ns for path in kept}  # others may follow, where compiling took longer


@pytest.mark.extended
@pytest.mark.slow
def test_engines_agree_as_users_compile_them():
    """Where tests compile quickly and compute on one thread, what users get does the same."""
    default = {"XLA_FLAGS": "", "NPROC": str(os.cpu_count())}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", Path(__file__).with_name("test_engine.py")]
    done = subprocess.run(command, env=os.environ | default, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_folder_that_the_user_named_is_left_alone(home):
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(home / "own")
    assert enable_compilation_cache() is None
    assert not (home / "epsilog").exists()


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o750, 0o705])
def test_a_folder_that_others_can_read_or_write_to_is_not_used(home, monkeypatch, mode):
    monkeypatch.setitem(sys.modules, "jax", None)
    del sys.modules["jax"]
    folder = enable_compilation_cache()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(folder)
    del os.environ["JAX_COMPILATION_CACHE_DIR"]
    folder.chmod(mode)
    assert enable_compilation_cache() is None


def test_a_home_that_cannot_be_written_to_costs_nothing(home):
    (home / "epsilog").write_text("in the way")
    assert enable_compilation_cache() is None
