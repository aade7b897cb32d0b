"""Our accountant in Flower's own strategies, held beside Flower's; and everything of ours installed beside Flower."""

import inspect
import tomllib
from importlib.metadata import requires, version
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import (
    GaussianPrivacyEvent,
    NeighboringRelation,
    PrivacyAccountant,
    PrivacyConfig,
    RdpAccountant,
    SamplingMethod,
)
from flwr.serverapp.exception import PrivacyBudgetExhausted
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
)
from flwr.supercore.task_identity import TaskIdentity
from packaging.requirements import Requirement

import epsilog as ep
from epsilog.adapters.flower import CertifiedAccountant

DELTA = 1e-5
CLIENTS, COHORT = 100, 10
MODELS = {
    "poisson": (SamplingMethod.POISSON, NeighboringRelation.ADD_OR_REMOVE_ONE),
    "no-amplification": (SamplingMethod.NO_AMPLIFICATION, NeighboringRelation.ADD_OR_REMOVE_ONE),
    "without-replacement": (SamplingMethod.WITHOUT_REPLACEMENT, NeighboringRelation.REPLACE_ONE),
}


@pytest.fixture(autouse=True)
def _in_a_task(monkeypatch):
    """Flower stamps every message with the task that sends it; outside its runtime there is none."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def config(model="no-amplification", max_epsilon=None):
    sampling, relation = MODELS[model]
    return PrivacyConfig(DELTA, CLIENTS, relation, sampling, max_epsilon)


def event(noise=2.0, size=COHORT):
    return GaussianPrivacyEvent(noise, size, CLIENTS)


class Clients:
    """A grid in this process: every client answers with the model it was sent, moved by one; some may stay silent."""

    def __init__(self, *, silent=0, weights=(1,)):
        self.silent, self.weights, self.trained = silent, weights, 0

    def get_node_ids(self):
        return list(range(1, CLIENTS + 1))

    def send_and_receive(self, messages, *, timeout=None):  # noqa: ARG002
        messages = list(messages)
        self.trained += len(messages) > 0
        replies = []
        for index, message in enumerate(messages[: len(messages) - self.silent]):
            arrays = ArrayRecord([array + 1 for array in message.content["arrays"].to_numpy_ndarrays()])
            metrics = MetricRecord({"num-examples": self.weights[index % len(self.weights)]})
            replies.append(Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message))
        return replies


def strategy(accountant, wrapper=DifferentialPrivacyServerSideFixedClipping, noise=2.0):
    inner = FedAvg(fraction_train=COHORT / CLIENTS, fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1)
    return wrapper(inner, noise, 1.0, COHORT, accountant=accountant)


def run(wrapped, grid, rounds):
    return wrapped.start(grid, ArrayRecord([np.zeros(3, np.float32)]), num_rounds=rounds)


def test_it_keeps_to_the_protocol():
    """Every member of Flower's protocol, with the parameters that Flower calls them by."""
    members = {name: member for name, member in vars(PrivacyAccountant).items() if not name.startswith("_")}
    assert {"compose", "would_exceed", "get_privacy_spent", "state_dict", "config"} <= set(members)
    for name, member in members.items():
        ours = inspect.getattr_static(CertifiedAccountant, name)
        assert isinstance(ours, property) == isinstance(member, property), name
        if not isinstance(member, property):
            wanted, has = inspect.signature(member).parameters, inspect.signature(ours).parameters
            for parameter in wanted.values():
                assert has[parameter.name].kind == parameter.kind, (name, parameter)
                assert has[parameter.name].default == parameter.default, (name, parameter)


@pytest.mark.parametrize(
    "wrapper", [DifferentialPrivacyServerSideFixedClipping, DifferentialPrivacyClientSideFixedClipping]
)
def test_a_federation_is_priced_round_by_round(wrapper):
    accountant = CertifiedAccountant(config())
    wrapped = strategy(accountant, wrapper)
    assert wrapped.privacy_spent().epsilon == 0
    result = run(wrapped, Clients(), 5)
    assert accountant.num_releases == 5
    spent = wrapped.privacy_spent()
    exact = ep.epsilon(ep.Repeated(ep.Gaussian(2.0), 5), delta=DELTA)
    assert (spent.epsilon, spent.delta, spent.num_releases) == (exact.upper, DELTA, 5)
    assert spent.accounting_method == f"epsilog: {exact.method}"
    assert np.all(result.arrays.to_numpy_ndarrays()[0] != 0)


def test_the_strategy_refuses_before_anything_is_sent_out():
    limit = ep.epsilon(ep.Repeated(ep.Gaussian(2.0), 3), delta=DELTA).upper
    accountant, grid = CertifiedAccountant(config(max_epsilon=limit)), Clients()
    with pytest.raises(PrivacyBudgetExhausted, match="would exceed max_epsilon"):
        run(strategy(accountant), grid, 10)
    assert accountant.num_releases == grid.trained == 3
    assert accountant.get_privacy_spent().epsilon <= limit
    theirs, grid = RdpAccountant(config(max_epsilon=limit)), Clients()
    with pytest.raises(PrivacyBudgetExhausted):
        run(strategy(theirs), grid, 10)
    assert grid.trained < 3, "Flower's own accountant is looser: ours buys rounds"


def test_rounds_that_release_nothing_cost_nothing():
    accountant = CertifiedAccountant(config())
    run(strategy(accountant), Clients(silent=1), 2)
    assert accountant.num_releases == 0
    with pytest.raises(ValueError, match="equal client weights"):
        run(strategy(accountant), Clients(weights=(1, 2)), 1)
    assert accountant.num_releases == 0


@pytest.mark.parametrize("model", ["poisson", "no-amplification"])
def test_never_above_flowers_own(model):
    ours, theirs = CertifiedAccountant(config(model)), RdpAccountant(config(model))
    for accountant in (ours, theirs):
        accountant.compose(event(1.0), 30)
        accountant.compose(event(1.5, 5))
        accountant.compose(event(1.0))
    assert ours.num_releases == theirs.num_releases == 32
    interval = ours.interval(DELTA)
    assert interval.lower <= ours.get_epsilon(DELTA) == interval.upper <= theirs.get_epsilon(DELTA)
    assert 0.8 * theirs.get_epsilon(DELTA) < interval.lower
    assert ours.get_delta(2.0) <= theirs.get_delta(2.0)
    assert ours.get_delta(interval.upper) <= DELTA * 1.01


def test_replacing_a_client_moves_the_sum_by_two_clips():
    """Flower's number rests on dp-accounting's RDP for replace-one, which forgets the factor."""
    ours, theirs = (kind(config("without-replacement")) for kind in (CertifiedAccountant, RdpAccountant))
    for accountant in (ours, theirs):
        accountant.compose(event(2.0), 100)
    assert ours.interval(DELTA).lower > theirs.get_epsilon(DELTA)


def test_a_federation_under_flowers_own_accountant_can_go_on_under_ours():
    theirs = RdpAccountant(config())
    run(strategy(theirs), Clients(), 2)
    accountant = CertifiedAccountant(config())
    accountant.load_state_dict(theirs.state_dict())
    run(strategy(accountant), Clients(), 1)
    assert accountant.get_epsilon(DELTA) == ep.epsilon(ep.Repeated(ep.Gaussian(2.0), 3), delta=DELTA).upper


def test_all_of_ours_is_installed_beside_flower():
    """The floors of pyproject.toml, server included, against what Flower allows; what is installed meets both."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours = [*project["dependencies"], *project["optional-dependencies"]["server"]]
    flowers = [line for line in requires("flwr") if "extra ==" not in line or line.endswith('extra == "dp"')]
    checked = [Requirement(line) for line in (*ours, *flowers)]
    assert {"typer", "rich", "fastapi"} <= {need.name for need in checked}
    assert not any(Requirement(line).name == "certifi" for line in ours)  # not for us to say how new it must be
    for need in checked:
        if need.name == "certifi":  # flwr 1.42.0 asks for one that not every index has (scripts/peer-environments)
            continue
        if need.marker is None or need.marker.evaluate({"extra": "dp"}):
            assert need.specifier.contains(version(need.name)), f"{need} meets {version(need.name)}"
