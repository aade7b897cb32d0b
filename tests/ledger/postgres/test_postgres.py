"""What is PostgreSQL's own: the schema as it was made, a server that syncs, and one that dies."""

import re
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.campaigns.tampers import tamper_campaign
from tests.ledger.postgres.server import Server, binaries, server
from tests.ledger.stores import InDatabase

from epsilog.ledger import Ledger, Verb, ledger_exists, open_ledger, parse_address, read_ledger, verify_ledger
from epsilog.ledger.postgres import PostgresStore
from epsilog.ledger.selftest import run_kill_campaign, run_race_campaign
from epsilog.ledger.store import StoredRow
from epsilog.mechanisms import PureDP
from epsilog.terms import CheckError, EpsilogError, LedgerIntegrityError, StorageError
from epsilog.terms.extras import install_command

pytestmark = pytest.mark.skipif(
    not (binaries() and find_spec("psycopg")), reason="no PostgreSQL server or driver: run scripts/system-packages"
)


@pytest.fixture
def place(tmp_path):
    return InDatabase(tmp_path)


@pytest.fixture
def ledger(place):
    with open_ledger(place.url) as opened:
        opened.create_budget("acme", kind="pure", epsilon="1")
        yield opened


ALTERED = {
    "a column more": "ALTER TABLE entries ADD COLUMN note text",
    "a column filled in": "ALTER TABLE rounds ALTER COLUMN attempts SET DEFAULT 0",
    "a column that may be empty": "ALTER TABLE balances ALTER COLUMN document DROP NOT NULL",
    "another order of texts": 'ALTER TABLE entries ALTER COLUMN scope TYPE text COLLATE "ucs_basic"',
    "no key": "ALTER TABLE charges DROP CONSTRAINT charges_key",
    "no check": "ALTER TABLE head DROP CONSTRAINT head_one",
    "no index": "DROP INDEX entries_scope",
    "an index more": "CREATE INDEX more ON entries (hash)",
    "a table more": "CREATE TABLE more ()",
    "a view": "CREATE VIEW more AS SELECT 1",
    "no table": "DROP TABLE rounds",
    "not logged": "ALTER TABLE entries SET UNLOGGED",
    "row security": "ALTER TABLE charges ENABLE ROW LEVEL SECURITY",
    "a rule": "CREATE RULE more AS ON INSERT TO entries DO ALSO NOTHING",
    "a trigger": "CREATE TRIGGER more BEFORE UPDATE ON balances EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "a table beneath": "CREATE TABLE more () INHERITS (entries)",
}


@pytest.mark.slow_beyond(4)
@pytest.mark.parametrize("change", ALTERED.values(), ids=ALTERED)
def test_a_schema_that_was_altered_is_refused(place, ledger, change):
    place.run(change)
    with pytest.raises(LedgerIntegrityError, match="differs from that of a ledger"):
        ledger.verify()
    for opened in (open_ledger, read_ledger):
        with pytest.raises(LedgerIntegrityError, match="differs from that of a ledger"):
            opened(place.url)


def test_a_transaction_that_the_server_gave_up_is_not_acknowledged(place, ledger):
    psycopg = pytest.importorskip("psycopg")
    before, store = ledger.head(), PostgresStore(place.url)

    def write():
        with store.writing() as session:
            session.append(StoredRow(2, "acme", "{}", "0" * 64))
            with pytest.raises(psycopg.errors.DivisionByZero):  # nobody passes it on, and COMMIT is now a ROLLBACK
                session._raw.execute("SELECT 1 / 0")
            with pytest.raises(StorageError), session.part():
                raise AssertionError
            assert not session.intact

    with pytest.raises(StorageError, match="rolled the write back"):
        write()
    assert ledger.head() == before
    store.close()


@pytest.mark.parametrize(("table", "act"), [("entries", "INSERT"), ("head", "UPDATE"), ("charges", "INSERT")])
def test_what_the_database_drops_is_not_acknowledged(place, ledger, table, act):
    words = f"BEFORE {act} ON {table} FOR EACH ROW EXECUTE FUNCTION {place.name}.drop_it()"
    drops = f"FUNCTION {place.name}.drop_it()"
    place.run(f"CREATE {drops} RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    place.run(f"CREATE TRIGGER more {words}")  # after it was opened
    with pytest.raises(LedgerIntegrityError, match=r"kept 0 of [13] rows"):
        ledger.charge("acme", PureDP(0.25), key="one")
    place.run(f"DROP {drops} CASCADE")
    assert not ledger.charge("acme", PureDP(0.25), key="one").replayed
    assert ledger.verify().balances["acme"].available == {"epsilon": "0.75"}


def test_a_connection_that_the_server_ended_is_replaced(place, ledger):
    ends = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'lost'"
    with open_ledger(f"{place.url}&application_name=lost") as other:
        for number in range(3):
            place.run(ends)
            other.charge("acme", PureDP(0.25), key=f"k{number}")
            other._store._close_idle_connections() if number == 1 else other.balance("acme")
    assert ledger.balance("acme").available == {"epsilon": "0.25"}


def test_an_interrupt_inside_the_driver_stops_nobody(ledger):
    """It may come while the driver holds its own lock, which whoever asks on that connection waits for, for ever."""

    def interrupted():
        with ledger._store.writing() as session:
            session._raw.lock.acquire()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not ledger.charge("acme", PureDP(0.25), key="one").replayed


def test_another_schema_is_no_ledger(place):
    with pytest.raises(LedgerIntegrityError, match="is not an epsilog ledger"):
        read_ledger(place.url)
    place.run(f"CREATE SCHEMA {place.name}")
    place.run("CREATE TABLE theirs ()")
    with pytest.raises(LedgerIntegrityError, match="is not an epsilog ledger"):
        open_ledger(place.url)


def test_two_ledgers_in_one_database_know_nothing_of_each_other(place, ledger, tmp_path):
    with open_ledger(InDatabase(tmp_path).url) as other:
        assert other.budgets() == []
    assert [one.scope for one in ledger.budgets()] == ["acme"]


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_does_not_sync_is_not_written_to(place, ledger, setting):
    place.run(
        f"ALTER ROLE postgres IN DATABASE postgres SET search_path TO {place.name}"
    )  # what a role says is not ours
    try:
        _set(place, f"{setting} = off")
        with pytest.raises(StorageError, match=f"must sync what it writes, got .*{setting}=off"):
            open_ledger(place.url)
        with pytest.raises(StorageError, match=f"must sync what it writes, got .*{setting}=off"):
            ledger.charge("acme", PureDP(0.25), key="one")  # it was open before
        with read_ledger(place.url) as looking:
            assert looking.balance("acme").available["epsilon"] == "1"
    finally:
        _set(place, f"{setting} = on")
    open_ledger(place.url).close()
    assert not ledger.charge("acme", PureDP(0.25), key="one").replayed


def _set(place, setting):
    """Changes a setting of the whole server, and waits until it holds."""
    import psycopg

    with psycopg.connect(place.url.partition("&ledger=")[0], autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET {setting}")
        connection.execute("SELECT pg_reload_conf()")
        name, wanted = setting.split(" = ")
        for _ in range(500):
            connection.execute("SELECT pg_sleep(0.01)")
            if connection.execute(f"SHOW {name}").fetchone() == (wanted,):
                return
    raise AssertionError(f"{setting} was not taken")


def test_every_commit_is_synced_whatever_the_role_says(place, ledger):
    def commits(store):
        with store.writing() as session:
            return session._raw.execute("SHOW synchronous_commit").fetchone()[0]

    place.run("ALTER ROLE postgres SET synchronous_commit TO off")
    try:
        store = PostgresStore(place.url)
        assert commits(store) == "on"
        store.close()
    finally:
        place.run("ALTER ROLE postgres RESET synchronous_commit")
    try:
        assert commits(ledger._store) == "on"
        _set(place, "synchronous_commit = off")  # after it was opened
        assert commits(ledger._store) == "on"
    finally:
        _set(place, "synchronous_commit = on")


@pytest.mark.parametrize(
    "setting",
    [
        "client_encoding TO 'LATIN1'",
        "client_encoding TO 'SQL_ASCII'",
        "default_transaction_isolation TO 'serializable'",
        "search_path TO pg_catalog",
        "quote_all_identifiers TO on",
    ],
)
def test_what_a_role_says_is_not_ours(place, setting):
    role, refused = f"r{place.name}", []
    place.run(f"CREATE ROLE {role} LOGIN SUPERUSER")
    place.run(f"ALTER ROLE {role} SET {setting}")
    url = server().url(place.name, user=role)

    def make():
        try:
            open_ledger(url).close()
        except Exception as error:  # noqa: BLE001
            refused.append(error)

    makers = [threading.Thread(target=make) for _ in range(4)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert refused == []
    with open_ledger(url) as books:
        books.create_budget("acme/検査", kind="pure", epsilon="1")
        books.charge("acme/検査", PureDP(0.25), key="ключ")
        assert books.verify().charges["acme/検査", "ключ"].scope == "acme/検査"


def test_a_word_with_a_nul_stands_in_no_other_s_way(ledger):
    ledger.charge("acme", PureDP(0.25), key="one")
    ledger.reserve("acme", PureDP(0.25), key="two").cancel("no\0more")
    assert [entry.key for entry, _ in ledger.spending("acme")] == ["one"]
    assert [entry.key for entry in ledger.page("acme", verb=Verb.CANCELLED)] == ["two"]


def test_a_copy_is_read_and_not_spent(place, ledger, tmp_path):
    ledger.charge("acme", PureDP(0.25), key="one")
    copy = InDatabase(tmp_path)
    open_ledger(copy.url).close()
    for table in ("head", "entries", "balances", "charges", "rounds"):
        copy.run(f"DELETE FROM {table}")  # noqa: S608
        copy.run(f"INSERT INTO {table} SELECT * FROM {place.name}.{table}")  # noqa: S608
    assert verify_ledger(copy.url).head == ledger.head()[1]
    with open_ledger(copy.url) as copied, pytest.raises(StorageError, match="is a copy: it was made at"):
        copied.charge("acme", PureDP(0.25), key="two")


def test_who_may_only_look_does_not_charge(place, ledger):
    reader = f"r{place.name}"
    place.run(f"CREATE ROLE {reader} LOGIN")
    for opened in (open_ledger, read_ledger):
        with pytest.raises(StorageError, match="this role lacks USAGE"):
            opened(server().url(place.name, user=reader))
    place.run(f"GRANT USAGE ON SCHEMA {place.name} TO {reader}")
    place.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA {place.name} TO {reader}")
    url = server().url(place.name, user=reader)
    with read_ledger(url) as looking:
        assert looking.verify().count == 1
        assert looking.head() == ledger.head()
    looking = Ledger(PostgresStore(url, read_only=True))
    with looking, pytest.raises(StorageError, match="open for reading only"):
        looking.charge("acme", PureDP(0.25), key="one")
    with open_ledger(url) as trying, pytest.raises(StorageError, match="permission denied"):
        trying.charge("acme", PureDP(0.25), key="one")
    assert ledger.head()[0] == 1
    for granted in ("INSERT ON entries, balances, charges, rounds", "UPDATE ON head, balances, charges, rounds"):
        place.run(f"GRANT {granted} TO {reader}")
    with open_ledger(url) as spender:
        charge = spender.reserve("acme", PureDP(0.25), key="two", rounds=1)
        charge.start()
        charge.round_started(1)
        charge.round_released(1, output_hash="ab" * 32)
        charge.commit()
        assert spender.verify().balances["acme"].available["epsilon"] == "0.75"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://h/d?ledger=Up", "ledger must be a name of"),
        ("postgresql://h/d?ledger=pg_x", "ledger must be a name of"),
        ("postgresql://h/d?ledger=a&ledger=b", "ledger must be a name of"),
        ("postgresql://h:port/d", "url must be postgresql://user@host"),
        ("postgresql://anna:hunter2@x@h/d", "url must be postgresql://user@host"),
        ("postgresql://anna:p@hunter2/x@h/d", "url must be postgresql://user@host"),
        ("postgresql://anna:hunter2%00@h/d", "url must be postgresql://user@host"),
        ("postgresql://anna:hunter2@h/d?password", "url must be postgresql://user@host"),
        ("postgresql://anna:1?x=hunter2@h/d", "url must be postgresql://user@host"),
        ("postgresql://anna:1#hunter2@h/d", "url must be postgresql://user@host"),
        ("postgresql+psycopg://anna:hunter2@h/d", "url must be a file"),
        ("POSTGRES://h/d?password=hunter2", "url must be a file"),
        (" postgresql://anna:hunter2@h/d", "url must be a file"),
        ("postgresql:anna:hunter2@h/d", "url must be a file"),
    ],
)
def test_an_address_is_refused_in_words(url, says):
    for opened in (open_ledger, read_ledger, ledger_exists, lambda said: open_ledger(parse_address(said))):
        with pytest.raises(CheckError, match=says) as refused:
            opened(url)
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://anna:hunter2@127.0.0.1:1/d?ledger=l",
        "postgresql://anna@127.0.0.1:1/d?ledger=l&password=hunter2",
        "postgres://anna@127.0.0.1:1/d?sslpassword=hunter2&ledger=l",
    ],
)
def test_no_password_is_told(url):
    for opened in (open_ledger, read_ledger, ledger_exists):  # nobody listens there
        with pytest.raises(StorageError) as refused:
            opened(url)
        assert "hunter2" not in str(refused.value)
        assert "anna@127.0.0.1:1/d?ledger=l" in str(refused.value)


def test_without_a_driver_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for opened in (open_ledger, ledger_exists):
        with pytest.raises(EpsilogError, match=re.escape(install_command("postgres"))):
            opened("postgresql://anna@127.0.0.1:1/d")


@pytest.mark.slow
def test_a_forked_child_is_refused_and_leaves_the_parents_session_alone(place, ledger):
    script = Path(__file__).parent.with_name("inherited.py")
    done = subprocess.run([sys.executable, script, place.url], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(ledger.verify().charges) == 4


@pytest.mark.slow
def test_campaigns_hold(place, tmp_path):
    killed = run_kill_campaign(tmp_path, seed=1, kills=20, url=place.url)
    assert killed.passed, killed
    raced = run_race_campaign(tmp_path, processes=4, attempts=30, cap=50, url=InDatabase(tmp_path).url)
    assert raced.passed, raced
    assert (raced.accepted, raced.refused) == (50, 70)
    changed = tamper_campaign(tmp_path, seed=1, changes=60, url=InDatabase(tmp_path).url)
    assert changed.passed, changed
    assert len(changed.ways) == 5


@pytest.mark.slow
def test_a_server_that_dies_has_lost_nothing_that_was_acknowledged():
    cluster = Server()
    try:
        url, told, asked = cluster.url("dying"), set(), 0
        with open_ledger(url) as ledger:
            ledger.create_budget("acme", kind="pure", epsilon="100")
            for life in range(6):
                ended = threading.Event()

                def charge(life=life, ended=ended):
                    number = 0
                    while not ended.is_set():
                        try:
                            ledger.charge("acme", PureDP(0.001), key=f"{life}-{number}")
                        except StorageError:
                            return
                        told.add(f"{life}-{number}")
                        number += 1

                writers = [threading.Thread(target=charge) for _ in range(2)]  # both ask with the same keys
                for writer in writers:
                    writer.start()
                while len(told) <= 5 * (asked + 1) and any(writer.is_alive() for writer in writers):
                    ended.wait(0.01)
                cluster.stop("immediate")
                ended.set()
                for writer in writers:
                    writer.join()
                cluster.start()
                there = {key for _, key in ledger.verify().charges}  # over new connections, by itself
                assert told <= there
                asked += 1
                assert len(told) > 5 * asked
        assert len(verify_ledger(url).charges) - len(told) <= asked  # what was committed and not acknowledged
    finally:
        cluster.remove()
