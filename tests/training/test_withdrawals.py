"""Who withdrew is absent from the next round on; for everybody else nothing changes."""

from dataclasses import replace

import numpy as np
import pytest
from tests.training.fixed import Fixed
from tests.verification.checked import check_custody, check_participation

from epsilog.schemes import (
    SCHEMES,
    ClientLevelCentral,
    ClientLevelClientSide,
    ClientLevelDistributed,
    ExampleLevelClientSide,
)
from epsilog.schemes.cohorts import CappedSampler
from epsilog.terms import CheckError, CustodyRecord, RoundRecord
from epsilog.training import AuthorizedRun, Randomness, run_rounds, train_without_charge
from epsilog.training.checkpoints import read_records
from epsilog.training.rounds import compute_next_round, make_initial_state

WAYS = [
    ClientLevelCentral(12, 0.5, 8, 0.2, 1.5),
    ClientLevelCentral(12, None, 8, 0.2, 1.5, sampling="fixed-size", cohort_size=6),
    ClientLevelCentral(12, None, 8, 0.2, 1.5, sampling="balls-in-bins", cycle_length=2),
    ClientLevelCentral(12, None, 8, 0.2, 1.5, sampling="cyclic", cycle_length=2),
]
AT_CLIENTS = [
    ClientLevelClientSide(12, 6, 4, 4, 0.2, 1.5),
    ClientLevelDistributed(12, 6, 5, 4, 4, 0.2, 0.01, 20, 2.0),
    ExampleLevelClientSide(12, 6, 4, 4, 0.25, 1, 0.2, 1.5),
]
GONE = {1, 2, 5, 7}


@pytest.fixture(name="way", params=WAYS, ids=lambda way: way.sampling)
def _way(request):
    return request.param


def test_the_others_are_drawn_as_ever_under_the_same_noise_and_divisor(small_task, way):
    task, engine = small_task(), Fixed(small_task())
    one, other = (
        compute_next_round(way, engine, make_initial_state(task), Randomness.from_seed(3), withdrawn=gone)
        for gone in ((), GONE)
    )
    assert set(one.custody.participants) & GONE
    assert set(other.custody.participants) == set(one.custody.participants) - GONE
    assert set(other.custody.withdrawn) == set(one.custody.participants) & GONE
    assert not other.state.participations[sorted(GONE)].any()
    assert other.record.noise_stddev == one.record.noise_stddev
    missing = 0.2 * engine.updates[0] * len(other.custody.withdrawn) / way.expected_cohort
    assert np.allclose(one.state.model - other.state.model, missing, atol=1e-9)
    assert other.record.padding == one.record.padding


def test_a_withdrawal_in_the_midst_of_a_run_holds_from_the_next_round_on(small_task, charge_for, tmp_path, way):
    """Asked before every round; a verifier finds the sampler that was planned, and one who comes back."""
    task, asked = small_task(), []

    def withdrawn():
        asked.append(None)
        return GONE if len(asked) > 3 else ()

    charge = charge_for(way, task.unit)
    run_rounds(
        AuthorizedRun(way, charge, Randomness.from_seed(2)),
        task,
        folder=tmp_path / "run",
        engine=Fixed,
        withdrawn=withdrawn,
    )
    records = read_records(tmp_path / "run" / "rounds.jsonl", RoundRecord)
    custody = read_records(tmp_path / "run" / "custody.jsonl", CustodyRecord)
    assert len(asked) == 8
    assert any(set(one.participants) & GONE for one in custody[:3])
    assert not any(set(one.participants) & GONE for one in custody[3:])
    assert check_custody(custody, records, way).status == "passed"
    assert check_participation(custody, way).status == "passed"
    left_out = next(place for place, one in enumerate(custody) if one.withdrawn)
    back = [*custody]
    again = replace(back[-1], participants=(*back[-1].participants, custody[left_out].withdrawn[0]), withdrawn=())
    assert check_custody([*back[:-1], again], records, way).code == "custody/withdrawn-participant"


@pytest.mark.parametrize("way", AT_CLIENTS, ids=lambda way: way.kind)
def test_where_clients_add_the_noise_nobody_withdraws_since_the_records_would_tell(
    small_task, charge_for, tmp_path, way
):
    """Refused before anything starts, also where nobody has withdrawn yet; without the question the run is as ever."""
    task, engine = small_task(unit_is_client=way.unit_is_client), Fixed
    charge, paid = charge_for(way, task.unit), Randomness.from_seed(2)
    for gone in (tuple, lambda: GONE):
        with pytest.raises(CheckError, match=r"withdrawn must be absent for .*, which publishes the number of replies"):
            run_rounds(AuthorizedRun(way, charge, paid), task, folder=tmp_path / "run", engine=engine, withdrawn=gone)
    assert charge.state == "reserved"
    assert not (tmp_path / "run").exists()
    for refused in (
        lambda: compute_next_round(way, engine(task), make_initial_state(task), paid, withdrawn=GONE),
        lambda: train_without_charge(way, task, randomness=paid, engine=engine, withdrawn=GONE),
    ):
        with pytest.raises(CheckError, match="withdrawn must be absent"):
            refused()


def test_schemes_say_whether_their_records_tell_how_many_replied(small_task):
    """Those in which every reply brings a padding of its own, and no others."""
    told = {way.kind for way in AT_CLIENTS}
    assert {kind for kind, scheme in SCHEMES.items() if scheme.replies_are_public} == told
    assert all(isinstance(way.cohorts, CappedSampler) for way in AT_CLIENTS)
    task = small_task()
    outcome = compute_next_round(AT_CLIENTS[0], Fixed(task), make_initial_state(task), Randomness.from_seed(3))
    assert len(outcome.record.padding) == len(outcome.custody.participants)


@pytest.mark.parametrize("gone", [[12], [-1], [1.0], [True], ["north"]], ids=repr)
def test_a_withdrawal_of_no_client_ends_the_run_before_the_next_round(small_task, charge_for, tmp_path, gone):
    """Ignoring it would keep a client in the run that wants to leave; positions of an array are taken, too."""
    way, task, paid = WAYS[0], small_task(), Randomness.from_seed(3)
    with pytest.raises(CheckError, match=r"withdrawn\[0\] must be"):
        train_without_charge(way, task, randomness=paid, engine=Fixed, withdrawn=gone)
    charge = charge_for(way, task.unit)
    with pytest.raises(CheckError, match=r"withdrawn\[0\] must be"):
        run_rounds(
            AuthorizedRun(way, charge, paid), task, folder=tmp_path / "run", engine=Fixed, withdrawn=lambda: gone
        )
    assert not charge.started
    outcome = compute_next_round(way, Fixed(task), make_initial_state(task), paid, withdrawn=np.array([0, 3]))
    assert not {0, 3} & set(outcome.custody.participants)
