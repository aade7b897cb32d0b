"""A forger who rehashes the whole chain: the prices still speak."""

import json
import sqlite3

import pytest

from epsilog.ledger import verify_ledger
from epsilog.ledger.entries import GENESIS, hash_entry
from epsilog.mechanisms import ApproximateDP, Gaussian, Laplace, PureDP, Repeated
from epsilog.terms import LedgerIntegrityError
from epsilog.terms.codec import encode_canonical


@pytest.fixture
def books(ledger):
    ledger.create_budget("pure", kind="pure", epsilon="9")
    ledger.create_budget("both", kind="approximate", epsilon="9", delta="1e-3")
    ledger.create_budget("z", kind="zcdp", rho="9")
    ledger.create_budget("g", kind="gdp", mu_squared="9")
    return ledger


def rewritten(path, change):
    """Applies a change to every document and every stored balance and charge, and puts right all hashes."""
    with sqlite3.connect(path) as rows:
        previous = GENESIS
        for position, text in rows.execute("SELECT position, document FROM entries ORDER BY position").fetchall():
            document = json.loads(change(text))
            document["previous"] = previous
            written = encode_canonical(document).decode()
            previous = hash_entry(written)
            rows.execute("UPDATE entries SET document = ?, hash = ? WHERE position = ?", (written, previous, position))
        rows.execute("UPDATE head SET hash = ?", (previous,))
        for table, key in (("balances", "scope"), ("charges", "key")):
            for name, text in rows.execute(f"SELECT {key}, document FROM {table}").fetchall():  # noqa: S608
                rows.execute(f"UPDATE {table} SET document = ? WHERE {key} = ?", (change(text), name))  # noqa: S608
    rows.close()


@pytest.mark.parametrize(
    ("scope", "release", "forged"),
    [
        ("pure", PureDP(4.0), ("epsilon", "0.5", None)),
        ("pure", Laplace(0.25), ("epsilon", "3.999999998", None)),
        ("both", PureDP(4.0), ("epsilon", "0.5", None)),
        ("both", PureDP(4.0), ("delta", "0", "1e-6")),
        ("both", ApproximateDP(1.0, 1e-5), ("delta", "0.000001", None)),
        ("both", Gaussian(1.0), ("epsilon", "4.3771", "1e-5")),
        ("z", Gaussian(1.0), ("rho", "0.499999999999", None)),
        ("g", Gaussian(1.0), ("mu_squared", "0.999999999999", None)),
    ],
)
def test_a_chain_that_was_rewritten_to_charge_less_is_priced_again(books, path, scope, release, forged):
    quantity, cheaper, delta = forged
    (amount,) = books.charge(scope, release, key="k", delta=delta).amounts.values()
    books.close()
    assert verify_ledger(path).rechecked == 1

    def changed(text):
        document = json.loads(text)
        request = document.get("body", {}).get("request")
        document = json.loads(
            json.dumps(document).replace(f'"{quantity}": "{amount[quantity]}"', f'"{quantity}": "{cheaper}"')
        )
        if request is not None:
            document["body"]["request"] = request
        return json.dumps(document, sort_keys=True)

    rewritten(path, changed)
    with pytest.raises(LedgerIntegrityError, match=r"entry 5: charged .*, but its release costs at least"):
        verify_ledger(path)


def test_prices_are_worked_out_again_as_long_as_there_is_time(books, path):
    for number in range(3):
        books.charge("both", Repeated(Gaussian(100.0), 3), key=f"k{number}", delta="1e-6")
    books.override_cost("both", Gaussian(1.0), key="o", amount={"epsilon": "0.1"}, reason="because")
    books.charge("both", Gaussian(1.0), key="o", amount={"epsilon": "0.1"})
    found = books.verify()
    assert (found.rechecked, found.unchecked, found.overridden) == (3, 0, (("both", "o"),))
    found = books.verify(seconds=-1)
    assert (found.rechecked, found.unchecked) == (0, 3)


def test_everything_that_a_ledger_writes_is_what_verify_reads(books):
    run = books.reserve("both/a", Gaussian(9.0), key="r", delta="1e-6", rounds=2, plan_hash="ab" * 32)
    run.start()
    run.round_started(1)
    run.round_released(1, output_hash="ab" * 32)
    run.commit({"rounds.jsonl": "ab" * 32})
    books.reserve("both/a", PureDP(0.1), key="c").cancel("no longer")
    assert books.verify().rechecked == 2
