"""A new scheme is one term and one training file: the rest of the house knows what to do with it."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import pytest
from tests.verification.checked import check_participation

from epsilog.mechanisms import Gaussian, PoissonSampled
from epsilog.pipeline import load_run_config, run
from epsilog.reports.statements import list_party_guarantees
from epsilog.schemes import SCHEMES, Party, ProtectionLevel, Scheme, register_scheme
from epsilog.schemes.cohorts import PoissonSampler
from epsilog.terms import ConfigError, CustodyRecord, codec, parameters
from epsilog.terms.fields import Field
from epsilog.training.schemes import TRAINED, register_trainer, sampled

CHANGES = [
    ('kind = "client-level-central"', 'kind = "everybody-central"'),
    ("sampling_probability = 0.2 ", "spare_rounds = 2\n# "),
]


@pytest.fixture
def everybody():
    """Central noise on the sum of everybody's update, in every round; a few more are paid for."""

    @dataclass(frozen=True, slots=True)
    class Everybody(Scheme):
        """Nobody is sampled."""

        clients: Annotated[int, parameters.CLIENTS]
        rounds: Annotated[int, parameters.ROUNDS]
        spare_rounds: Annotated[int, Field("rounds that are paid for and never run", ge=0, le_field="rounds")]
        clip_norm: Annotated[float, Field("the L2 norm to which each client's update is clipped", gt=0)]
        noise_multiplier: Annotated[float, parameters.NOISE_MULTIPLIER]

        kind: ClassVar[str] = "everybody-central"
        summary: ClassVar[str] = "The server sums everybody's clipped update, and adds noise to the sum."
        unit_is_client: ClassVar[bool] = True
        local_settings: ClassVar[tuple[str, ...]] = ("local_steps",)
        parties: ClassVar[tuple[Party, ...]] = (Party("Public", "the released models", ProtectionLevel.CLAIM),)

        @property
        def cohorts(self):
            return PoissonSampler(self.clients, 1.0)

        @property
        def expected_cohort(self):
            return self.clients

        def step(self, share=1.0):
            return PoissonSampled(Gaussian(share * self.noise_multiplier), 1.0)

        def noisy_sums(self, rounds):
            return rounds + self.spare_rounds

    register_scheme(Everybody)
    register_trainer(Everybody)(sampled.compute_central_update)
    yield Everybody
    del SCHEMES[Everybody.kind], TRAINED[Everybody], codec.type_of[Everybody.kind]


def test_files_terms_and_words_know_it(write_config, everybody):
    found = load_run_config(write_config(*CHANGES)).scheme
    term = found.build_scheme(2000, 1.5)
    assert term == everybody(2000, 4, 2, 0.2, 1.5)
    assert codec.decode(codec.encode(term)) == term
    assert codec.type_of[everybody.kind] is everybody
    assert "spare_rounds: rounds that are paid for and never run." in everybody.__doc__
    (row,) = list_party_guarantees(term, unit="school", epsilon=1.0, unamplified=1.0)
    assert row == {"party": "Public", "view": "the released models", "protection": "epsilon 1", "protected": True}
    lists = [CustodyRecord(one, tuple(range(2000)), 0.2, 0.0, 0, 0) for one in (1, 2)]
    assert check_participation(lists, term).status == "passed"
    assert check_participation([lists[0], replace(lists[1], participants=(1, 2))], term).status == "failed"
    with pytest.raises(ConfigError, match=r"scheme\.spare_rounds must be at most rounds = 4, got 5"):
        load_run_config(write_config(CHANGES[0], ("sampling_probability = 0.2 ", "spare_rounds = 5\n# ")))
    with pytest.raises(ConfigError, match=r"scheme\.spare_rounds must be at least 0, got -1"):
        load_run_config(write_config(CHANGES[0], ("sampling_probability = 0.2 ", "spare_rounds = -1\n# ")))


def test_a_kind_is_given_once_and_with_a_summary(everybody, monkeypatch):
    with pytest.raises(ValueError, match="kind must be one that no other scheme has, got 'everybody-central'"):
        register_scheme(everybody)
    monkeypatch.setattr(everybody, "summary", " ")
    with pytest.raises(ValueError, match="summary must be a string that is not blank"):
        register_scheme(everybody)


def test_an_unknown_kind_is_refused_again(write_config):
    with pytest.raises(ConfigError, match="everybody-central"):
        load_run_config(write_config(*CHANGES))


@pytest.mark.slow
def test_its_config_runs_from_plan_to_proof(write_config, tmp_path, everybody):
    outcome = run(write_config(*CHANGES), runs=tmp_path, ledger=tmp_path / "ledger.db")
    assert isinstance(outcome.plan.scheme, everybody)
    ends = {found.check: found.status for found in outcome.verification.findings}
    assert ends.pop("control") == "warned"  # four rounds have too little padding to notice weak noise by
    assert set(ends.values()) == {"passed"}
    assert [each["party"] for each in outcome.report["claim"]["parties"]] == ["Public"]
