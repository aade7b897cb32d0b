"""What waits for approval, over HTTP and on the ledger's page: to whom it is shown, and who may approve it."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.server.browsing import (
    ENTER,
    clean,
    every,
    one,
    press,
    shows,
    text,
    unfit,
    until,
)

from epsilog.ledger import open_ledger, read_ledger
from epsilog.mechanisms import Gaussian, Laplace, PureDP, Repeated
from epsilog.server import AccessConfig, create_app, tokens

CARD = "[aria-label='Waiting for approval']"
STATUS, ROW = f"p:has(+ {CARD})", f"{CARD} .part"
LATER = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
ROLES = {  # each with a token of their name
    "anna": ("owner", "acme"),
    "dora": ("owner", None),
    "leaf": ("owner", "acme/reviewed/x"),
    "emil": ("spender", "acme"),
    "rita": ("reader", "acme/reviewed"),
    "lars": ("owner", "lab"),
    "otto": ("auditor", None),
}


@pytest.fixture
def team(tmp_path, serve_app):
    """A site with the token of each, and the file of its ledger, where five things wait."""
    file, path = tmp_path / "tokens.json", tmp_path / "ledger.db"
    with open_ledger(path) as books:
        for scope, count in (("acme", 0), ("acme/reviewed", 1), ("acme/board", 2), ("lab", 0)):
            books.create_budget(scope, kind="pure", epsilon="1", privacy_unit="person", requires_approvals=count)
        owner = {name: books.on_behalf_of(name) for name in ROLES}
        for name, key in (("anna", "hers"), ("dora", "proven")):
            stated = {"amount": {"epsilon": "0.0625"}, "key": key}
            owner[name].override_cost("acme/reviewed/x", Gaussian(1.0), reason="proof 12", **stated)
            owner["emil"].reserve("acme/reviewed/x", Gaussian(1.0), **stated)
        owner["anna"].reserve("acme/reviewed/x", PureDP(0.125), key="mine")
        owner["emil"].reserve("acme/reviewed/x", Repeated(Laplace(16.0), 4), key="study", until=LATER)
        owner["dora"].approve_cap("acme/board", epsilon="2.5", actor="dora", reason="board, 3 May")
        owner["emil"].reserve("lab", PureDP(0.125), key="free")
    held = {name: tokens.create_token(file, name, role=role, scope=at)[1] for name, (role, at) in ROLES.items()}
    with serve_app(create_app(ledger=str(path), access=AccessConfig(file, rate=10_000.0))) as site:
        yield site, held, path


def ask(team, name, query=""):
    site, held, _ = team
    return site.get(f"ledger/pending{query}", headers={"Authorization": f"Bearer {held[name]}"})


def listed(team, name, query=""):
    return {one["key"] or f"cap of {one['scope']}": one for one in ask(team, name, query).json()["pending"]}


WAITING = ["cap of acme/board", "study", "mine", "proven", "hers"]
MAY_APPROVE = {
    "anna": ["cap of acme/board", "study", "proven"],
    "dora": ["study", "mine", "hers"],
    "leaf": [],
    "emil": [],
    "rita": [],
    "lars": [],
    "otto": [],
}


@pytest.mark.parametrize("name", ROLES)
def test_each_reads_what_waits_in_their_scope_and_whether_they_may_approve_it(team, name):
    scope = ROLES[name][1] or "acme"
    answer = ask(team, name).json()
    found = listed(team, name)
    under = [
        one for one in WAITING if f"{'acme/board' if 'cap' in one else 'acme/reviewed/x'}/".startswith(f"{scope}/")
    ]
    assert list(found) == under
    assert (answer["holder"], answer["count"]) == (name, len(under))
    assert [key for key, one in found.items() if one["may_approve"]] == MAY_APPROVE[name]


def test_the_list_says_what_an_approver_must_know(team):
    found = listed(team, "anna")
    study, cap = found["study"], found["cap of acme/board"]
    assert study["release"] == "4 times a sum with Laplace noise, of scale 16 times the sensitivity"
    assert (study["amounts"], study["actor"], study["approver_scope"]) == (
        {"pure": {"epsilon": "0.25"}},
        "emil",
        "acme/reviewed",
    )
    assert (study["required"], study["approved"], study["notes"]) == (1, [], [])
    assert datetime.fromisoformat(study["until"]) == LATER
    assert (cap["release"], cap["amounts"], cap["approved"]) == (None, {"pure": {"epsilon": "2.5"}}, ["dora"])
    assert cap["notes"] == ["Reason: “board, 3 May”."]
    assert found["proven"]["notes"] == ["dora allowed this cost. No proof supports it.", "Reason: “proof 12”."]
    assert found["hers"]["notes"][-1] == "You allowed its cost. Another owner must approve it."
    assert found["mine"]["notes"] == ["You asked for it. Another owner must approve it."]
    assert listed(team, "rita")["study"]["notes"] == ["Only owners of acme/reviewed can approve it."]
    assert listed(team, "dora")["cap of acme/board"]["notes"][-1] == "You approved it."


def approve(team, name, one):
    site, held, _ = team
    body = {"scope": one["scope"], "actor": "somebody else"}
    body |= {"key": one["key"]} if one["key"] else {"caps": one["amounts"]["pure"], "reason": "board"}
    verb = "approve" if one["key"] else "approve-cap"
    return site.post(f"ledger/{verb}", body, headers={"Authorization": f"Bearer {held[name]}"})


def test_an_approval_is_accepted_where_the_list_says_so_and_nowhere_else(team):
    _, _, path = team
    waiting = listed(team, "dora")
    with read_ledger(path) as books:
        before = books.head()
        for name, what in MAY_APPROVE.items():
            for key in {*waiting} - {*what} - ({"cap of acme/board"} if name == "dora" else set()):
                assert approve(team, name, waiting[key]).status in {403, 409}, (name, key)
        assert approve(team, "dora", waiting["cap of acme/board"]).status == 200  # theirs already
        assert books.head() == before
        for name, key in (*(("anna", key) for key in MAY_APPROVE["anna"]), ("dora", "mine"), ("dora", "hers")):
            assert approve(team, name, waiting[key]).status == 200, (name, key)
        (cap,) = books.list_pending_approvals()
        assert cap.approved == ("anna", "dora")
    found = listed(team, "anna")["cap of acme/board"]
    assert (found["may_approve"], found["notes"][-1]) == (
        False,
        "It has its approvals. An owner who gave none of them can set it under “Change a cap”.",
    )


def test_a_long_list_is_cut_and_counted(team):
    answer = ask(team, "anna", "?limit=2").json()
    assert ([one["key"] for one in answer["pending"]], answer["count"]) == ([None, "study"], 5)
    assert list(listed(team, "anna", "?scope=acme/board")) == ["cap of acme/board"]
    assert ask(team, "leaf", "?scope=acme").status == 403


# --- the page ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def opened(team, browser):
    """Opens the ledger's page with the token of somebody."""
    site, held, path = team

    def open_page(name):
        browser.get(site.url + "/ledger")
        until(lambda: one(browser, "input[name=token]")).send_keys(held[name])
        one(browser, "form button[type=submit]").click()
        shows(browser, "acme/", CARD)
        return path

    yield open_page
    browser.get("about:blank")
    assert clean(browser) == []


def row(browser, words):
    return until(lambda: next(each for each in every(browser, ROW) if words in each.text))


@pytest.mark.slow
@pytest.mark.smoke
def test_an_owner_approves_on_the_page_by_keyboard(browser, opened):
    path = opened("anna")
    study = row(browser, "study")
    for words in (
        "4 times a sum with Laplace noise, of scale 16 times the sensitivity. Cost: at most ε 0.25.",
        f"Asked for by emil. 0 of 1 approvals. Expires {LATER:%Y-%m-%d %H:%M} UTC.",
    ):
        assert words in study.text
    assert "Cost: ε 0.0625.\n" in row(browser, "proven").text  # no bound: an owner's word
    buttons = [each.get_attribute("aria-label") for each in every(browser, f"{ROW} button")]
    assert buttons == [
        f"Approve {one}" for one in ("the cap of acme/board", "study at acme/reviewed/x", "proven at acme/reviewed/x")
    ]
    assert unfit(browser, 1280, 390) == []
    press(study, "Approve")
    said = until(lambda: text(browser, STATUS))
    assert said == "You approved study at acme/reviewed/x."
    until(lambda: all("study" not in each.text for each in every(browser, ROW)))
    assert browser.switch_to.active_element == one(browser, CARD)  # not lost with the button
    cap = row(browser, "A cap of ε 2.5 instead of ε 1.")
    assert "1 of 2 approvals (dora)" in cap.text
    press(cap, "Approve")
    until(lambda: "Fill this in." in cap.text)
    one(cap, "[name=reason]").send_keys("seen", ENTER)
    until(lambda: "2 of 2 approvals (anna, dora)" in cap.text)
    assert not every(cap, "button")
    assert unfit(browser, 1280, 390) == []
    with read_ledger(path) as books:
        assert books.charge_record("study").approvals == ("anna",)
        (entry, _) = books.page("acme/board", verb="cap-approved", limit=5)
        assert (entry.body["actor"], entry.body["reason"]) == ("anna", "seen")


@pytest.mark.slow
@pytest.mark.smoke
def test_an_approval_that_the_ledger_refuses_says_why(browser, opened):
    path = opened("anna")
    study = row(browser, "study")
    with open_ledger(path) as books:
        books.on_behalf_of("emil").find("study").cancel("not needed")
        before = books.head()
    press(study, "Approve")
    until(lambda: "approved requires charge 'study' to be reserved, but it is cancelled" in study.text)
    assert every(study, "[role=alert]")
    assert unfit(browser, 390) == []
    with read_ledger(path) as books:
        assert books.head() == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["leaf", "emil", "rita"])
def test_who_may_not_approve_reads_the_list_without_buttons(browser, opened, name):
    opened(name)
    assert "Only owners of acme/reviewed can approve it." in row(browser, "study").text
    assert not every(browser, f"{CARD} button")


@pytest.mark.slow
def test_an_empty_list_says_so(browser, site):
    browser.get(site.url + "/ledger")
    shows(browser, "Nothing waits for approval.", CARD)
