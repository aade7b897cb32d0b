"""The pages of the ledger and of runs in a real Chromium: what is shown to whom, and what they may do there."""

import datetime as dt
import time
from contextlib import contextmanager

import pytest
from tests.server.browsing import (
    ENTER,
    broken_rules,
    button,
    claim,
    clean,
    every,
    fill,
    one,
    press,
    screen,
    shows,
    text,
    unfit,
    unfold,
    until,
    value_of,
)

from epsilog.ledger import open_ledger, read_ledger
from epsilog.mechanisms import PureDP
from epsilog.server import AccessConfig, create_app, tokens
from epsilog.terms import ConflictError

pytestmark = pytest.mark.slow
ROW = "table.dense tbody tr"


@pytest.mark.smoke
def test_the_ledger_is_read_and_verified(browser, site):
    browser.get(site.url + "/ledger")
    shows(browser, "acme/claims")
    shows(browser, "ε 1.75")
    shows(browser, "left of 3. ε 1.75 is spent, ε 0.125 reserved.", ".headroom")
    assert text(browser, ".headroom b") == "ε 1.12"  # what is left rounds down
    assert "is used up around" not in text(browser)  # all of it within a day is no pace
    shows(browser, "ε 1.75 of 3 is spent, by", ".plot figcaption")
    named = one(browser, ".plot svg").get_attribute("aria-labelledby")
    assert "is spent" in text(browser, f"#{named}".replace(":", "\\:"))
    next(b for b in every(browser, ".budgets button") if "study" in b.text).click()
    shows(browser, "left of 4.", ".headroom")
    until(lambda: one(browser, "button.main")).click()
    shows(browser, "entries are valid")
    unfold(browser, "Every entry")
    rows = every(browser, ROW)
    assert rows[0].text.startswith(str(len(rows)))  # newest first, all on one page
    one(browser, "#chain-scope").send_keys("lab")
    until(lambda: len(every(browser, ROW)) == 2)  # created, charged
    browser.get(site.url + "/runs")
    until(lambda: browser.find_elements("link text", "exam-scores"))[0].click()
    until(lambda: text(browser, ".answer h2") == "Would hold")
    assert text(browser, ".rehearsal").startswith("Rehearsal.")
    unfold(browser, "Settings, every check, and costs of deviations")
    shows(browser, "The noise agrees.")
    assert browser.current_url.endswith("/runs/exam-scores-1")


def test_a_ledger_behind_tokens_asks_for_one_and_keeps_it_nowhere(browser, serve_app, tmp_path, ledger_path, runs_path):
    file = tmp_path / "tokens.json"
    _, token = tokens.create_token(file, "anna", role="owner", scope=None)
    wrong = token[:-4] + ("0000" if token[-4:] != "0000" else "1111")
    app = create_app(ledger=str(ledger_path), runs=runs_path, access=AccessConfig(file))
    with serve_app(app) as site:
        browser.get(site.url + "/ledger")
        shows(browser, "A token is required")
        assert "acme" not in text(browser)
        for given, says in ((wrong, "unknown or has expired"), (token, "acme/claims")):
            field = until(lambda: one(browser, "input[name=token]"))
            assert field.get_attribute("type") == "password"
            field.send_keys(given)
            one(browser, "form button[type=submit]").click()
            shows(browser, says)
        one(browser, "button.main").click()
        shows(browser, "entries are valid")
        kept = "return JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
        assert token not in browser.execute_script(kept)
        assert token not in browser.page_source
        browser.get(site.url + "/runs")  # left and come back: it is gone
        shows(browser, "A token is required")
        assert broken_rules(browser) == []
        browser.get(site.url + "/federated")  # the calculators need none
        claim(browser)
        browser.get("about:blank")  # hangs up: a server ends when nobody waits any more
    assert clean(browser) == []


@pytest.fixture
def held(browser, serve_app, tmp_path, fill_ledger):
    """Opens the ledger's page with the token of anna, who is such a holder of acme; yields the file of the ledger."""

    @contextmanager
    def hold(role):
        file, path = tmp_path / "tokens.json", fill_ledger(tmp_path / "ledger.db")
        _, token = tokens.create_token(file, "anna", role=role, scope="acme")
        with serve_app(create_app(ledger=str(path), access=AccessConfig(file))) as site:
            browser.get(site.url + "/ledger")
            until(lambda: one(browser, "input[name=token]")).send_keys(token)
            one(browser, "form button[type=submit]").click()
            shows(browser, "acme/claims")
            yield path
            browser.get("about:blank")
        assert clean(browser) == []

    return hold


def opened(browser, title):
    """A part of what may be done, opened by keyboard."""
    parts = ".part:not(.exact)"
    part = until(lambda: next(p for p in every(browser, parts) if p.text.startswith(title)))
    if part.get_attribute("open") is None:
        one(part, "summary").send_keys(ENTER)
    until(lambda: every(part, "form"))
    return part


def says(part, words):
    return until(lambda: words in part.text)


def test_whoever_may_spends_from_the_ledgers_page_and_no_more_is_offered(browser, held):
    with held("spender") as path:
        charge = opened(browser, "Charge a release")
        offered = [p.text for p in every(browser, ".part:not(.exact) > summary")]
        assert offered == ["Charge a release", "Finish a charge"]
        fill(charge, scope="acme/claims/anna", value="0.25", key="mine")
        press(charge, "Check headroom")
        says(charge, "This release fits 4 times. Available at this scope: ε 1.125.")
        fill(charge, value="2")
        press(charge, "Reserve")
        says(charge, "Budget acme/claims refuses this charge. At most epsilon 1.125 fits")
        said = text(charge, ".refusal")
        for line in ("cap 3", "spent 1.75", "reserved 0.125", "available 1.125", "requested 2", "shortfall 0.875"):
            assert line in said
        assert "Ask the owner of acme/claims to raise the cap. Nothing was written." in said
        fill(charge, value="-1")
        press(charge, "Reserve")
        says(charge, "Above 0.")
        fill(charge, value="0.5")
        press(charge, "Reserve")
        through = opened(browser, "Finish a charge")  # by itself
        says(through, "State: reserved, scope acme/claims/anna, cost ε 0.5, by anna.")
        assert value_of(charge, "[name=key]") != "mine"
        press(through, "Start (spends it permanently)")
        says(through, "State: started")
        press(through, "Commit")
        says(through, "The charge is now committed.")
        unfold(browser, "Every entry")
        shows(browser, "mine", ROW)  # the page shows what was written
        with read_ledger(path) as ledger:
            assert (ledger.find("mine").state, ledger.balance("acme/claims").spent["epsilon"]) == ("committed", "2.25")
        fill(through, key="waiting")  # of nobody: whoever may spend there goes on with it
        press(through, "Look up")
        says(through, "State: reserved, scope acme/claims/bob")
        press(through, "Cancel the reservation")
        says(through, "Needs a value.")
        fill(through, reason="not needed")
        press(through, "Cancel the reservation")
        says(through, "The charge is now cancelled.")


def test_owners_allow_prices_set_caps_and_create_budgets_on_the_ledgers_page(browser, held):
    with held("owner") as path:
        allow = opened(browser, "Override the cost of one charge")
        fill(allow, key="allowed", value="2", cost_epsilon="0.5")
        press(allow, "Store override")
        says(allow, "Fill this in.")
        fill(allow, reason="proof 12")
        press(allow, "Store override")
        says(allow, "Override stored")
        caps = opened(browser, "Change a cap")
        fill(caps, epsilon="3.5", reason="board, 3 May")
        press(caps, "Set the cap")
        says(caps, "The cap of acme/claims is now ε 3.5.")
        charge = opened(browser, "Charge a release")
        fill(charge, key="allowed", value="2")
        one(charge, "form details > summary").click()
        fill(charge, cost_epsilon="0.5")
        press(charge, "Charge now (permanent)")
        says(charge, "Charged: ε 0.5, key allowed.")
        assert unfit(browser, 1280, 390) == []
        with read_ledger(path) as ledger:
            assert ledger.balance("acme/claims").caps["epsilon"] == "3.5"
            assert dict(ledger.charge_record("allowed").amounts["pure"]) == {"epsilon": "0.5"}
            (changed,) = ledger.page("acme/claims", verb="cap-changed", limit=5)
            assert (changed.body["actor"], changed.body["reason"]) == ("anna (token of anna)", "board, 3 May")
        part = opened(browser, "Create a budget")
        fill(part, scope="acme/proven", privacy_unit="person", epsilon="1", delta="1e-6")
        one(part, "[name=requires_certificate]").click()
        press(part, "Create the budget")
        says(part, "acme/proven is created. It refuses charges without a certificate.")
        one(part, "[name=requires_certificate]").click()
        fill(part, scope="acme/reviewed", privacy_unit="person", epsilon="1", delta="1e-6", requires_approvals="one")
        press(part, "Create the budget")
        says(part, "acme/reviewed is created")
        with open_ledger(path) as ledger:
            assert ledger.balance("acme/proven").requires_certificate
            request = ledger.on_behalf_of("emil").reserve("acme/reviewed", PureDP(0.25), key="study")
            with pytest.raises(ConflictError):
                request.start()
        part = opened(browser, "Finish a charge")
        fill(part, key="study")
        press(part, "Look up")
        says(part, "0 of 1 approvals")
        press(part, "Approve")
        says(part, "You approved the charge.")
        says(part, "1 of 1 approvals")
        assert "Approve" not in [each.text for each in every(part, "button")]
        with open_ledger(path) as ledger:
            ledger.find("study").start()


def test_a_reader_is_offered_nothing(browser, held):
    with held("reader"):
        shows(browser, "The chain of entries")
        time.sleep(0.3)  # who they are was asked meanwhile
        assert not every(browser, ".part:not(.exact)")


def test_a_budget_is_shown_as_it_went_and_as_it_may_go_on(browser, serve_app, tmp_path):
    days = [dt.datetime.now(dt.UTC) - dt.timedelta(days=20)]
    with open_ledger(tmp_path / "ledger.db", clock=lambda: days[0]) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="2", privacy_unit="person-quarter")
        ledger.declare_partition("acme/q", epsilon="0.5", actor="dora", reason="a quarter each")
        ledger.create_budget("acme/q/1", kind="pure", epsilon="0.5", privacy_unit="person-quarter")
        days[0] += dt.timedelta(days=5)
        ledger.charge("acme/q/1/anna", PureDP(0.25), key="one")
        run = ledger.reserve("acme/bob", PureDP(0.5), key="run", rounds=3)
        run.start()
        for number in (1, 2):
            run.round_started(number)
            run.round_released(number, output_hash="ab" * 32)
    with serve_app(create_app(ledger=str(tmp_path / "ledger.db"))) as site:
        browser.get(site.url + "/ledger")
        shows(browser, "ε 0.5 was spent in the last 20 days.")
        assert "left of 2. ε 1 is spent." in text(browser, ".headroom")
        assert "2 more charges like run fit. acme refuses the next." in text(browser, ".next")
        lasts = (dt.datetime.now(dt.UTC) + dt.timedelta(days=40)).date()
        either = (lasts, lasts + dt.timedelta(days=1))  # a second may have gone by
        assert any(f"is used up around {day} (an estimate)" in text(browser) for day in either)
        unfold(browser, "Every release")
        shows(browser, "covered by its partition")
        unfold(browser, "Every entry")
        folded = text(browser, ROW)
        assert "rounds 1–2" in folded
        assert folded.startswith("7–10")
        assert unfit(browser, 1280, 390) == []
        next(b for b in every(browser, ".budgets button") if "partition" in b.text).click()
        shows(browser, "ε 0.5 in each block. A charge in a block counts in that block only", ".headroom")
        browser.get("about:blank")
    assert clean(browser) == []


LONG_NAMES = ("acme-international/claims-department", "weekly-retraining-of-the-fraud-model_v12", "x" * 80)
NAME_PARTS = "return [...document.querySelectorAll('.scope-name > span')].filter(e => {}).map(e => e.textContent)"


def test_names_break_only_between_their_parts(browser, serve_app, tmp_path):
    with open_ledger(tmp_path / "ledger.db") as ledger:
        ledger.create_budget(LONG_NAMES[0], kind="pure", epsilon="2.123456789", privacy_unit="person")
        ledger.create_budget("lab", kind="pure", epsilon="1", privacy_unit="person", requires_certificate=True)
        for number, name in enumerate(LONG_NAMES[1:], start=1):
            ledger.charge(f"{LONG_NAMES[0]}/{name}", PureDP(0.987654321), key=f"release-number-{number}-of-the-year")
    with serve_app(create_app(ledger=str(tmp_path / "ledger.db"))) as site:
        browser.get(site.url + "/ledger")
        shows(browser, "What would be refused next")
        unfold(browser, "Every entry")
        unfold(browser, "Every release")
        until(lambda: len(every(browser, ".scope-name > span")) > 40)
        for width in (320, 390):
            with screen(browser, width):
                broken = "e.getClientRects().length !== 1 || e.offsetHeight > 40"
                assert browser.execute_script(NAME_PARTS.format(broken)) == []
                cut = browser.execute_script(NAME_PARTS.format("e.scrollWidth > e.clientWidth + 1"))
                assert set(cut) == {LONG_NAMES[2]}, "only a part that fits no line ends in an ellipsis"
                assert browser.execute_script("return document.documentElement.scrollWidth - innerWidth") <= 0
                assert "9876" not in text(browser), "three digits outside the fold"
        assert "Another charge like release-number-1-of-the-year: it needs ε 0.988" in text(browser, ".next")
        next(b for b in every(browser, ".budgets button") if "lab" in b.text).click()
        shows(browser, "Any charge without a certificate: lab requires one.", ".next")
        browser.get("about:blank")
    assert clean(browser) == []


def test_a_calculation_is_booked_as_it_was_priced(browser, serve_app, tmp_path):
    """From the calculator to the ledger's form, which charges the release itself; and on along the story."""
    with open_ledger(tmp_path / "ledger.db") as ledger:
        ledger.create_budget("acme", kind="approximate", epsilon="3", delta="1e-5")
    with serve_app(create_app(ledger=str(tmp_path / "ledger.db"))) as site:
        browser.get(site.url + "/queries?v=1&epsilon=1&queries=100&mechanism=gaussian&delta=1e-6")
        claim(browser)
        unfold(browser, "Export")
        unfold(browser, "elsewhere")
        shows(browser, "epsilon=1.0", ".elsewhere pre")
        until(lambda: browser.find_element("link text", "Charge this to the ledger")).click()
        until(lambda: value_of(browser, "select[name=release]") == "given")
        button(browser, "Reserve", ".act button").click()
        until(lambda: "Reserved: ε 1" in text(browser) or "Reserved: ε 0.99" in text(browser))
        assert [a.text for a in every(browser, ".story a")] == ["Plan", "Run", "Report"]
        assert text(browser, ".story a[rel=next]") == "Run"
    with read_ledger(tmp_path / "ledger.db") as ledger:
        assert 0.99 < float(ledger.balance("acme").reserved["epsilon"]) < 1.001
