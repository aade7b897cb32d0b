"""What Flower's messages carry, and what not: a reason, a stranger's answer, or anything that cannot be read."""

from types import SimpleNamespace

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.app.metadata import Metadata
from flwr.supercore.task_identity import TaskIdentity

from epsilog.adapters.flower_app import FlowerTransport, build_site_client_app, name_public_key
from epsilog.schemes import ClientLevelCentral
from epsilog.terms import CheckError
from epsilog.training import LocalTraining
from epsilog.training.engines.remote import SimulatedDraws, TrainRequest

ORDER = TrainRequest(
    "one", ClientLevelCentral(3, 1.0, 2, 0.2, 1.0), LocalTraining(0.1), np.arange(3.0), SimulatedDraws(1, 2**127)
)
CONTEXT = Context(1, 2, {"site": 0}, RecordDict(), {})


@pytest.fixture(autouse=True)
def _identity(monkeypatch):
    for name in ("run_id", "node_id", "task_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1, raising=False)


def key():
    public = ec.generate_private_key(ec.SECP384R1()).public_key()
    return public.public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo)


def reply(letter, content=None, error=None):
    metadata = Metadata(
        run_id=1,
        message_id="",
        src_node_id=7,
        dst_node_id=1,
        reply_to_message_id=letter,
        group_id="",
        created_at=0.0,
        ttl=60.0,
        message_type="train",
    )
    return Message(metadata=metadata, content=content, error=error)


def upload(array):
    return RecordDict({"upload": ArrayRecord({"upload": Array(array)})})


class Grid:
    """Nodes of this process."""

    def __init__(self, keys, answers):
        self.nodes = [SimpleNamespace(node_id=place + 10, public_key=one) for place, one in enumerate(keys)]
        self.answers, self.sent, self.pulled = answers, {}, []

    def get_nodes(self):
        return self.nodes

    def push_messages(self, messages):
        self.sent = {f"letter-{message.metadata.dst_node_id}": message for message in messages}
        return list(self.sent)

    def pull_messages(self, letters):
        (letter,) = letters
        self.pulled.append(letter)
        return self.answers.get(letter, list)()


def unreadable():
    raise ValueError("Unsupported stype")


def test_only_an_answer_to_its_own_letter_is_carried_back():
    keys = [key() for _ in range(6)]
    names = [name_public_key(one) for one in keys]
    grid = Grid(
        keys[:5],
        {
            "letter-10": lambda: [reply("letter-10", upload(np.ones(3)))],
            "letter-11": lambda: [reply("letter-11", error=Error(1, "refused"))],
            "letter-12": unreadable,
            "letter-13": lambda: [reply("letter-10", upload(np.ones(3)))],  # an answer to another's letter
        },
    )
    came = list(FlowerTransport(grid, 0.6).carry(dict.fromkeys(names, ORDER)))  # 14 is late, and the sixth not there
    assert [(name, array.tolist()) for name, array in came] == [(names[0], [1.0] * 3)]
    assert [message.metadata.dst_node_id for message in grid.sent.values()] == [10, 11, 12, 13, 14]
    assert grid.pulled.count("letter-12") == 1
    assert grid.pulled.count("letter-14") > 1


@pytest.mark.parametrize(
    "content",
    [
        RecordDict({}),
        RecordDict({"upload": ConfigRecord({"upload": 1})}),
        RecordDict({"upload": ArrayRecord({"other": Array(np.ones(3))})}),
        RecordDict({"upload": ArrayRecord({"upload": Array("float64", (3,), "numpy.ndarray", b"no array")})}),
        RecordDict(
            {"upload": ArrayRecord({"upload": Array("float64", (3,), "pickle", b"cos\nsystem\n(S'true'\ntR.")})}
        ),
    ],
    ids=["nothing", "a number", "another name", "no array", "a pickle"],
)
def test_what_cannot_be_read_is_no_array(content):
    one = key()
    grid = Grid([one], {"letter-10": lambda: [reply("letter-10", content)]})
    assert list(FlowerTransport(grid, 5.0).carry({name_public_key(one): ORDER})) == [(name_public_key(one), None)]


def test_a_key_that_two_nodes_show_is_nobodys():
    one, other = key(), key()
    courier = FlowerTransport(Grid([one, other, one], {}), 0.1)
    assert courier.list_nodes() == {name_public_key(other): 11}
    with pytest.raises(CheckError, match="connected, one of them at least"):
        courier.require_connected([name_public_key(one)])
    courier.require_connected([name_public_key(one), name_public_key(other)])
    with pytest.raises(CheckError, match="named by their nodes' public keys"):
        courier.require_connected([])


def test_a_key_that_is_none_stops_nobody():
    one = key()
    assert FlowerTransport(Grid([b"", one, b"ssh-none x"], {}), 0.1).list_nodes() == {name_public_key(one): 11}


def test_messages_that_flower_does_not_take_end_the_round(monkeypatch):
    one = key()
    grid = Grid([one], {})
    monkeypatch.setattr(grid, "push_messages", lambda _: [])
    with pytest.raises(ConnectionError, match="took 0 of 1 messages"):
        list(FlowerTransport(grid, 0.1).carry({name_public_key(one): ORDER}))


def sent():
    """An order as a node gets it."""
    one = key()
    grid = Grid([one], {})
    list(FlowerTransport(grid, 0.01).carry({name_public_key(one): ORDER}))
    (message,) = grid.sent.values()
    return message


def test_an_order_arrives_whole():
    read = []

    class Site:
        def answer(self, order):
            read.append(order)
            return 2 * order.model

    back = build_site_client_app(lambda _: Site())(sent(), CONTEXT)
    assert back.content["upload"]["upload"].numpy().tolist() == [0.0, 2.0, 4.0]
    (order,) = read
    assert (order.run, order.scheme, order.draws) == (ORDER.run, ORDER.scheme, ORDER.draws)
    assert order.training.learning_rate == 0.1


def test_no_reason_leaves_the_node():
    class Site:
        def answer(self, _):
            raise ValueError("row 17: 41 years, positive")

    def broken(context):
        raise FileNotFoundError("/srv/rows/anna.csv")

    for site in (lambda _: Site(), broken):
        back = build_site_client_app(site)(sent(), CONTEXT)
        assert back.has_error()
        assert (back.error.code, back.error.reason) == (1, "refused")
