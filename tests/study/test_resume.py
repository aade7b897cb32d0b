"""A study that is killed goes on where it stopped, to the same bytes; what was changed meanwhile is refused."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from epsilog.study import MembershipExperiment, Study, StudyProtocol, Subject, run_study
from epsilog.study.experiment import ResultCells
from epsilog.terms import ConflictError, RecordError

PROTOCOL = StudyProtocol(budgets=(1.0,), seeds=(1, 2), membership=MembershipExperiment((0.1,)))
KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from conftest import central, classes_task
from test_resume import whole
from epsilog.study import run_study

said = []
def tell(says):
    said.append(says)
    if len(said) == 4:
        os.kill(os.getpid(), signal.SIGKILL)

folder = Path(sys.argv[1])
run_study(whole(classes_task(), central), folder=folder, ledger=folder / "ledger.db", on_progress=tell)
"""


def whole(task, scheme_for, protocol=PROTOCOL):
    return Study("trial", (Subject("central", task, scheme_for, 1e-3),), protocol)


def run(one, folder):
    said = []
    run_study(one, folder=folder, ledger=folder / "ledger.db", on_progress=said.append)
    (own,) = folder.glob(f"study-*-{one.hash[:8]}")
    return said, {file.name: file.read_bytes() for file in own.iterdir()}


@pytest.mark.slow
def test_a_killed_study_goes_on_and_comes_to_the_same_bytes(task, central, tmp_path):
    gone, straight = tmp_path / "gone", tmp_path / "straight"
    gone.mkdir()
    straight.mkdir()
    killed = subprocess.run([sys.executable, "-c", KILLED, gone, Path(__file__).parent], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(gone.glob("study-*/cells/*.json"))) == 3
    assert not list(gone.glob("study-*/study.json"))
    said, resumed = run(whole(task, central), gone)
    assert said[0] == "central, without DP: seed 2 of 2, membership"
    assert len(said) == 5
    everything, uninterrupted = run(whole(task, central), straight)
    assert len(everything) == 8
    assert resumed == uninterrupted
    (file,) = gone.glob("study-*/study.json")
    file.write_bytes(file.read_bytes().replace(b"central", b"certain"))
    with pytest.raises(ConflictError):
        run(whole(task, central), gone)
    file.unlink()  # an outcome that is lost is measured again, and must be what the ledger holds
    assert run(whole(task, central), gone)[1] == uninterrupted
    assert "cells" not in {path.name for path in next(gone.glob("study-*")).iterdir()}


@pytest.fixture(name="cells")
def _cells(tmp_path):
    return lambda bound="one": ResultCells(tmp_path / "cells", bound=bound)


def test_a_cell_is_computed_once_and_read_afterwards_to_the_last_bit(cells):
    found = {"a": 0.1 + 0.2, "b": None, "c": [1e-300, -0.1]}
    assert cells()("seed 1", lambda: found) == found
    assert cells()("seed 1", lambda: pytest.fail("computed again")) == found
    assert cells().within("seed 1")("x", lambda: 2.0) == 2.0
    assert cells()("seed 1: x", lambda: pytest.fail("computed again")) == 2.0
    cells().clear()
    assert cells()("seed 1", lambda: 3.0) == 3.0


def test_nothing_is_kept_of_what_failed(cells, tmp_path):
    with pytest.raises(ZeroDivisionError):
        cells()("seed 1", lambda: 1 / 0)
    assert not (tmp_path / "cells").exists()


def _number(told):
    told["found"] = 2.0


def _name(told):
    told["cell"] = "seed 2"


def _bound(told):
    told["of"] = "two"


@pytest.mark.parametrize("change", [_number, _name, _bound])
def test_a_changed_cell_is_refused(cells, tmp_path, change):
    cells()("seed 1", lambda: 1.0)
    (file,) = (tmp_path / "cells").glob("*.json")
    told = json.loads(file.read_text())
    change(told)
    file.write_text(json.dumps(told))
    with pytest.raises(RecordError, match="is damaged or was changed"):
        cells()("seed 1", lambda: 1.0)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"{", b'{"sha256": 1}', b"\xff"])
def test_a_damaged_cell_is_refused(cells, tmp_path, content):
    cells()("seed 1", lambda: 1.0)
    (file,) = (tmp_path / "cells").glob("*.json")
    file.write_bytes(content)
    with pytest.raises(RecordError, match="is damaged or was changed"):
        cells()("seed 1", lambda: 1.0)


def test_a_cell_of_another_study_or_of_another_name_is_refused(cells, tmp_path):
    cells()("seed 1", lambda: 1.0)
    with pytest.raises(RecordError, match="from another protocol, other data or another version"):
        cells("two")("seed 1", lambda: 1.0)
    (file,) = (tmp_path / "cells").glob("*.json")
    cells()("seed 2", lambda: 2.0)
    (other,) = set((tmp_path / "cells").glob("*.json")) - {file}
    other.write_bytes(file.read_bytes())
    with pytest.raises(RecordError, match="from another protocol"):
        cells()("seed 2", lambda: 2.0)


@pytest.mark.slow
def test_a_study_of_other_data_does_not_go_on_with_the_cells_of_these(task, make_task, central, tmp_path):
    """The protocol's hash leaves the data out; what is finished does not."""
    bare = replace(PROTOCOL, membership=None, seeds=(1,))

    def stop(_says):
        raise KeyboardInterrupt

    first = whole(task, central, bare)
    seen = []
    with pytest.raises(KeyboardInterrupt):
        run_study(
            first,
            folder=tmp_path,
            ledger=tmp_path / "ledger.db",
            on_progress=lambda s: stop(s) if seen else seen.append(s),
        )
    other = whole(make_task(seed=2), central, bare)
    assert other.hash == first.hash
    with pytest.raises(RecordError, match="other data"):
        run(other, tmp_path)
