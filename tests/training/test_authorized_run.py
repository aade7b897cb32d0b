"""No run trains another scheme than the one that was paid for, nor with other draws; refusals cost nothing."""

import dataclasses
import os
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from epsilog.ledger import open_ledger
from epsilog.schemes import ClientLevelCentral, ExampleLevelClientSide
from epsilog.terms import ConfigError, ConflictError, NeighboringRelation
from epsilog.terms.extras import install_command
from epsilog.training import AuthorizedRun, Randomness, run_rounds, run_smoke_test, smoke_test

CENTRAL = ClientLevelCentral(12, 0.5, 3, 0.2, 1.0)
CLIENT_SIDE = ExampleLevelClientSide(12, 5, 3, 3, 0.5, 1, 0.2, 1.0)
SEEDED = Randomness.from_seed(4)


@pytest.fixture(name="books")
def _books(tmp_path):
    """A ledger with a budget for simulations and a real one."""
    with open_ledger(tmp_path / "ledger.db") as books:
        for name, simulation in (("study", True), ("real", False)):
            books.create_budget(
                name, kind="approximate", privacy_unit="client", simulation=simulation, epsilon="1000", delta="1e-4"
            )
        yield books


def reserve(books, scheme=CENTRAL, *, simulation=True):
    scope = "study" if simulation else "real"
    return books.reserve(scope, scheme.release(), key="run", delta="1e-6", rounds=scheme.rounds, simulation=simulation)


@pytest.mark.slow
def test_what_was_paid_is_trained_and_started_only_then(books, small_task, tmp_path):
    charge = reserve(books)
    assert charge.state == "reserved"
    done = run_rounds(AuthorizedRun(CENTRAL, charge, SEEDED), small_task(), folder=tmp_path / "run")
    assert charge.state == "started"
    assert charge.rounds_released == {record.round: record.output_hash for record in done.records}
    charge.commit()
    assert run_rounds(AuthorizedRun(CENTRAL, charge, SEEDED), small_task(), folder=tmp_path / "run").resumed_after == 3


@pytest.mark.parametrize(
    "change",
    [
        {"noise_multiplier": 0.999},
        {"noise_multiplier": 0.0},
        {"noise_multiplier": 1.0 + 2e-16},
        {"sampling_probability": 0.6},
        {"rounds": 4},
        {"rounds": 2},
    ],
    ids=str,
)
def test_another_scheme_than_the_one_that_was_paid_is_refused(books, change):
    with pytest.raises(ValueError, match="must"):
        AuthorizedRun(dataclasses.replace(CENTRAL, **change), reserve(books), SEEDED)


def test_another_kind_of_scheme_with_the_same_release_is_refused_by_its_unit(books, small_task, tmp_path):
    """Three sums at q = .5: a school protected centrally costs what a pupil costs who is protected at the client."""
    central = ClientLevelCentral(12, 0.5, 6, 0.2, 1.0)
    assert central.release() == CLIENT_SIDE.release()
    charge = books.reserve("study", central.release(), key="run", delta="1e-6", simulation=True)
    with pytest.raises(ValueError, match="privacy_unit must be 'client', as in the charge, got 'example'"):
        run_rounds(
            AuthorizedRun(CLIENT_SIDE, charge, SEEDED), small_task(unit_is_client=False), folder=tmp_path / "run"
        )
    assert charge.state == "reserved"


def test_more_rounds_than_were_charged_are_refused_before_the_first(books):
    charge = books.reserve("study", CLIENT_SIDE.release(), key="run", delta="1e-6", rounds=3, simulation=True)
    longer = dataclasses.replace(CLIENT_SIDE, rounds=9)
    assert longer.release() == CLIENT_SIDE.release()
    with pytest.raises(ValueError, match="rounds must be 3, as in the charge, got 9"):
        AuthorizedRun(longer, charge, SEEDED)


@pytest.mark.parametrize(
    ("simulation", "randomness", "says"),
    [
        (False, Randomness.from_seed(1), r"randomness must be from_os\(\), as the charge is no simulation"),
        (False, Randomness.with_weaker_noise(1, noise_factor=0.5), r"randomness must be from_os\(\)"),
        (True, Randomness.from_os(), "randomness must be a seed, as the charge is a simulation"),
        (True, Randomness.with_weaker_noise(1, noise_factor=0.7), "noise_factor must be 1 under a charge, got 0.7"),
    ],
)
def test_seeds_go_with_simulations_and_with_nothing_else(books, simulation, randomness, says):
    with pytest.raises(ValueError, match=says):
        AuthorizedRun(CENTRAL, reserve(books, simulation=simulation), randomness)


def test_no_scheme_is_trained_without_noise_whatever_was_charged(books):
    quiet = dataclasses.replace(CENTRAL, noise_multiplier=0.0)
    charge = SimpleNamespace(request=SimpleNamespace(release=quiet.release(), rounds=3, simulation=True))
    with pytest.raises(ValueError, match="noise_multiplier must be above 0 to train, got 0"):
        AuthorizedRun(quiet, charge, SEEDED)


@dataclasses.dataclass(frozen=True, slots=True)
class Quieter(ClientLevelCentral):
    """Calls itself a scheme of ours, and adds less noise than was priced."""

    @property
    def noise_stddev(self):
        return 1e-9


def test_what_only_calls_itself_a_scheme_is_not_trained(small_task, charge_for, tmp_path):
    charge = charge_for(Quieter(**dataclasses.asdict(CENTRAL)), "client")
    refused(small_task(), charge, tmp_path, TypeError, "a registered trainer, got Quieter")
    with pytest.raises(TypeError, match="a registered trainer, got Quieter"):
        run_smoke_test(charge.scheme, small_task(), tmp_path)


def test_replace_one_is_refused(charge_for):
    charge = charge_for(CENTRAL, "client")
    charge.request = dataclasses.replace(charge.request, relation=NeighboringRelation.REPLACE_ONE)
    with pytest.raises(ValueError, match=r"relation must be add-or-remove-one or zero-out for .*, got replace-one"):
        AuthorizedRun(CENTRAL, charge, SEEDED)


def test_a_cancelled_charge_trains_nothing(books, small_task, tmp_path):
    charge = reserve(books)
    charge.cancel("no longer wanted")
    with pytest.raises(ConflictError, match="must be reserved, started or committed, got one that is cancelled"):
        run_rounds(AuthorizedRun(CENTRAL, charge, SEEDED), small_task(), folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# what fails in the rehearsal costs nothing


def refused(task, charge, folder, error, says):
    with pytest.raises(error, match=says):
        run_rounds(AuthorizedRun(charge.scheme, charge, SEEDED), task, folder=folder)
    assert charge.state == "reserved"
    assert charge.started == []


@pytest.mark.slow
def test_settings_that_diverge_without_data_are_refused(small_task, charge_for, tmp_path):
    for wild in ({"clip_norm": 1e60}, {"sampling_probability": 1e-320}):
        charge = charge_for(dataclasses.replace(CENTRAL, **wild), "client")
        refused(small_task(dtype="float32"), charge, tmp_path / "run", ValueError, "made it diverge")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scored", [(np.inf, 0.5), (0.5, np.inf), (np.nan, 0.5), (0.5, np.nan), (np.nan, np.nan)])
def test_a_start_whose_loss_or_score_is_not_finite_costs_nothing(small_task, charge_for, tmp_path, monkeypatch, scored):
    from epsilog.training.engines import compiled

    monkeypatch.setattr(compiled.CompiledEngine, "evaluate", lambda *_: scored)
    refused(small_task(), charge_for(CENTRAL, "client"), tmp_path / "run", ValueError, "finite loss and score")


@pytest.mark.slow
def test_a_rehearsal_reads_no_clients_data_and_leaves_nothing(small_task, tmp_path, monkeypatch):
    seen = []

    def spy(self, task):
        seen.append(task)
        original(self, task)

    from epsilog.training.engines import compiled

    original = compiled.CompiledEngine.__init__
    monkeypatch.setattr(compiled.CompiledEngine, "__init__", spy)
    run_smoke_test(CENTRAL, small_task(), tmp_path / "deep" / "run")
    assert list(tmp_path.iterdir()) == []
    (task,) = seen
    assert not task.clients.features.any()
    assert not task.clients.targets.any()


def test_what_a_killed_rehearsal_left_goes_with_the_next_and_a_living_one_stays(small_task, tmp_path):
    import fcntl

    for left in (tmp_path / ".smoke-test-old", tmp_path / "runs" / ".smoke-test-dead", tmp_path / ".smoke-test-alive"):
        (left / "run" / "checkpoints").mkdir(parents=True)
        (left / "run" / "custody.jsonl").write_text("{}")
    alive = os.open(tmp_path / ".smoke-test-alive", os.O_RDONLY)
    fcntl.flock(alive, fcntl.LOCK_EX)
    run_smoke_test(CENTRAL, small_task(), tmp_path / "runs" / "one")
    os.close(alive)
    assert sorted(path.name for path in tmp_path.rglob(".smoke-test-*")) == [".smoke-test-alive"]
    run_smoke_test(CENTRAL, small_task(), tmp_path / "runs" / "one")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_folder_that_cannot_be_written_costs_nothing(small_task, charge_for, tmp_path):
    (tmp_path / "file").write_text("")
    charge = charge_for(CENTRAL, "client")
    refused(small_task(), charge, tmp_path / "file" / "run", ConfigError, "cannot be stored here")


@pytest.mark.parametrize("name", ["rounds.jsonl", "checkpoints"])
def test_files_that_may_not_be_written_cost_nothing(small_task, charge_for, tmp_path, monkeypatch, name):
    (tmp_path / name).mkdir() if name == "checkpoints" else (tmp_path / name).touch()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path.name != name and access(path, mode))
    refused(small_task(), charge_for(CENTRAL, "client"), tmp_path, ConfigError, f"{name} is not writable")


def test_a_full_disk_costs_nothing(small_task, charge_for, tmp_path, monkeypatch):
    monkeypatch.setattr(smoke_test.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    refused(small_task(), charge_for(CENTRAL, "client"), tmp_path / "run", ConfigError, "MB must be free")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_engine_costs_nothing_and_says_what_to_install(small_task, charge_for, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "epsilog.training.engines.compiled", None)
    says = rf"the engine cannot be imported .*{re.escape(install_command('train'))}"
    refused(small_task(), charge_for(CENTRAL, "client"), tmp_path / "run", ConfigError, says)
    assert not (tmp_path / "run").exists()


def test_an_engine_that_breaks_costs_nothing(small_task, charge_for, tmp_path, monkeypatch):
    from epsilog.training.engines import program

    def broken(*_, **__):
        raise RuntimeError("no device")

    monkeypatch.setattr(program, "sum_updates", broken)
    refused(small_task(), charge_for(CENTRAL, "client"), tmp_path, ConfigError, "blank data: no device")
