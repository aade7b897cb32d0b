"""A study that is killed goes on where it stopped, to the same bytes; what was changed meanwhile is refused."""

import json

import pytest

from epsilog.study import MembershipExperiment, Study, StudyProtocol, Subject, run_study
from epsilog.study.experiment import ResultCells
from epsilog.terms import ConflictError, RecordError

PROTOCOL = StudyProtocol(budgets=(1.0,), seeds=(1,), membership=MembershipExperiment((0.1,)))


class KilledError(BaseException):
    """Stands for a kill: nothing in the code under test catches it."""


def whole(task, scheme_for, protocol=PROTOCOL):
    return Study("trial", (Subject("central", task, scheme_for, 1e-3),), protocol)


def run(one, folder, *, until=None):
    """Runs a study; returns what it said of its progress, and its files. Killed at the given step."""
    said = []

    def tell(says):
        said.append(says)
        if len(said) == until:
            raise KilledError

    run_study(one, folder=folder, ledger=folder / "ledger.db", on_progress=tell)
    (own,) = folder.glob(f"study-*-{one.hash[:8]}")
    return said, {file.name: file.read_bytes() for file in own.iterdir()}


@pytest.mark.slow
def test_a_killed_study_goes_on_and_comes_to_the_same_bytes(task, make_task, central, tmp_path):
    gone, straight = tmp_path / "gone", tmp_path / "straight"
    gone.mkdir()
    straight.mkdir()
    with pytest.raises(KilledError):
        run(whole(task, central), gone, until=3)
    assert len(list(gone.glob("study-*/cells/*.json"))) == 2
    assert not list(gone.glob("study-*/study.json"))
    other = whole(make_task(seed=2), central)
    assert other.hash == whole(task, central).hash  # which leaves the data out; what is finished does not
    with pytest.raises(RecordError, match="other data"):
        run(other, gone)
    said, resumed = run(whole(task, central), gone)
    assert said[0] == "central, epsilon 1: seed 1 of 1, utility"
    everything, uninterrupted = run(whole(task, central), straight)
    assert (len(said), len(everything)) == (2, 4)
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


def test_a_cell_is_computed_once_and_read_afterwards_to_the_last_bit(cells, tmp_path):
    with pytest.raises(ZeroDivisionError):
        cells()("seed 1", lambda: 1 / 0)
    assert not (tmp_path / "cells").exists()
    found = {"a": 0.1 + 0.2, "b": None, "c": [1e-300, -0.1]}
    assert cells()("seed 1", lambda: found) == found
    assert cells()("seed 1", lambda: pytest.fail("computed again")) == found
    assert cells().within("seed 1")("x", lambda: 2.0) == 2.0
    assert cells()("seed 1: x", lambda: pytest.fail("computed again")) == 2.0
    cells().clear()
    assert cells()("seed 1", lambda: 3.0) == 3.0


@pytest.mark.parametrize(
    "content",
    [{"found": 2.0}, {"cell": "seed 2"}, {"of": "two"}, b"", b"[]", b"{}", b"{", b'{"sha256": 1}', b"\xff"],
    ids=repr,
)
def test_a_cell_that_is_damaged_or_was_changed_is_refused(cells, tmp_path, content):
    cells()("seed 1", lambda: 1.0)
    (file,) = (tmp_path / "cells").glob("*.json")
    changed = isinstance(content, dict)
    file.write_bytes(json.dumps(json.loads(file.read_text()) | content).encode() if changed else content)
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
