"""Every page in a real Chromium, against the real server: numbers, links, keyboard, embeds, failures, accessibility."""

import base64
import datetime as dt
import hashlib
import html
import http.server
import json
import math
import os
import re
import shlex
import shutil
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from functools import partialmethod
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.docs.built import built_in
from tests.extent import amount
from tests.reports.drawn import finish, make_plan

from epsilog.ledger import iterate_verified_documents, open_ledger, read_ledger, write_bundle
from epsilog.mechanisms import PureDP
from epsilog.server import AccessConfig, build_embed_html, create_app, pages, tokens
from epsilog.server.workers import WorkerPool
from epsilog.terms import ConflictError

pytestmark = pytest.mark.slow

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = (
    *("/", *(f"/{name}" for name in pages.PAGE_NAMES), "/runs/exam-scores-1"),
    *(f"/embed/{name}" for name in pages.EMBED_NAMES),
)
SCREENS = tuple((width, scheme) for width in (320, 390, 640, 1280) for scheme in ("light", "dark"))  # 320: 400% zoom
TALL = 9000  # pixels: what sticks to the edge of a screen covers no field of a whole page
TRANSFER = 45_000  # bytes, compressed, until a number stands
SWITCHES = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --window-size=1280,900"
)


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None or DRIVER is None:
        if os.environ.get("CI") == "true":
            pytest.fail("Chromium or its driver is absent; CI must have both")
        pytest.skip("NO BROWSER TESTS: Chromium or its driver is absent")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for switch in (*SWITCHES.split(), f"--user-data-dir={profile}"):
            options.add_argument(switch)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        try:
            yield driver
        finally:
            driver.quit()


def until(found, seconds=60.0):
    """Waits for a true answer; returns it."""
    end = time.monotonic() + seconds
    while True:
        try:
            answer = found()
        except Exception:  # noqa: BLE001 (the page is being drawn anew)
            answer = None
        if answer:
            return answer
        assert time.monotonic() < end, "the page did not get there"
        time.sleep(0.1)


def one(driver, css):
    return driver.find_element("css selector", css)


def text(driver, css):
    return one(driver, css).text


def settled(driver, css=".claim b, h2.lead-in, .example .risk b"):
    """The first result of a page, once the server's answer stands there."""
    waits = ".results.busy, .refining"
    return until(lambda: not driver.find_elements("css selector", waits) and text(driver, css))


def claim(driver):
    """The headline number of a page that has settled."""
    return settled(driver, ".claim b")


def put(driver, name, value):
    """Types into a field as a person does."""
    from selenium.webdriver.common.keys import Keys

    field = until(lambda: one(driver, f"[name={name}]"))
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(value if value else Keys.DELETE)
    return field


def unfold(driver, title=""):
    """Opens each fold with such a title, once there is one."""
    script = """
        const named = each => each.firstElementChild.textContent.includes(arguments[0]);
        const found = [...document.querySelectorAll('details')].filter(named);
        for (const each of found) each.open = true;
        return found.length"""
    until(lambda: driver.execute_script(script, title))


def clean(driver):
    """What the console says in earnest; a refused request is no fault of the page."""
    return [
        line["message"]
        for line in driver.get_log("browser")
        if line["level"] == "SEVERE" and "Failed to load" not in line["message"]
    ]


@contextmanager
def screen(driver, width, height=900):
    """A screen of this size."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def drawn(driver):
    """A page that has drawn its answers, if it has any."""
    until(lambda: driver.execute_script(DRAWN))


DRAWN = """
    const said = document.querySelector('main')?.innerText ?? '';
    return said && !/(Loading|Reading|Computing)…/.test(said)
        && !document.querySelector('[aria-busy=true], .busy, .refining');
"""


def filled(driver, path):
    """A page that has drawn its answers, the front page also its example, which is loaded after it."""
    if path == "/":
        settled(driver)
    drawn(driver)


@contextmanager
def scripted(driver, script):
    """Pages that run a script of the test's own before theirs."""
    added = driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


@contextmanager
def colored(driver, scheme):
    """Light or dark pages."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def broken_rules(driver):
    """The rules of axe that the page breaks, WCAG 2.2 AA with target sizes; it must not scroll sideways, either."""
    assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    driver.execute_script(AXE.read_text())
    ask = "axe.run(document, {rules: {'target-size': {enabled: true}}}).then(arguments[0])"
    found = driver.execute_async_script(ask)
    assert len(found["passes"]) > 10
    return [(v["id"], [n["html"][:120] for n in v["nodes"][:3]]) for v in found["violations"]]


@pytest.mark.smoke
@pytest.mark.every(1)
@pytest.mark.parametrize("path", PAGES)
def test_every_page_opens_cleanly_at_every_width_and_passes_axe(browser, site, path):
    browser.get_log("browser")
    for width, scheme in SCREENS[7:8][: amount(1, 0)] or SCREENS:
        with screen(browser, width, TALL), colored(browser, scheme):
            browser.get(site.url + path)
            drawn(browser)
            assert f"<title>{browser.title}</title>" in site.ask("GET", path).body.decode()
            assert browser.execute_script(SMALL) == []  # it opens what is folded
            drawn(browser)
            assert not re.search(IDENTIFIER, text(browser, "main"))
            assert broken_rules(browser) == [], (width, scheme)
            assert browser.execute_script(HELP_FIRST) == []
    assert clean(browser) == []


# Of a message whose sentence is loaded apart.
IDENTIFIER = "\\b(assumes|method|coverage|verdict|odds|delta|attack|headroom|phases|copies)/[a-z]"

# Targets below 24 pixels; links within a sentence may be as small as its letters (WCAG 2.5.8).
SMALL = """
    for (const each of document.querySelectorAll('details')) each.open = true;
    const inSentence = each => each.matches('a') && getComputedStyle(each).display === 'inline'
        && each.parentElement.textContent.trim().length > each.textContent.trim().length + 3;
    return [...document.querySelectorAll('a[href], button, input, select, textarea, summary')]
        .filter(each => each.checkVisibility() && !each.matches('.skip') && !inSentence(each))
        .map(each => [each.outerHTML.slice(0, 80), each.getBoundingClientRect()])
        .filter(([, box]) => box.width * box.height > 0 && (box.width < 24 || box.height < 24))
        .map(([html, box]) => `${html}: ${box.width} x ${box.height}`)
"""
HELP_FIRST = """
    return [...document.querySelectorAll('.why')].filter(each => {
        const field = each.closest('.field').querySelector('input, select, textarea');
        return !(field.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING);
    }).map(each => each.href)
"""

SHIFTS = """
    window.shifted = 0;
    new PerformanceObserver(list => {
        for (const each of list.getEntries()) if (!each.hadRecentInput) window.shifted += each.value;
    }).observe({type: 'layout-shift', buffered: true});
"""


COUNTS = """
    window.counts = new Set();
    new MutationObserver(() => {
        const shown = document.querySelector('.example .risk b');
        if (shown?.checkVisibility({visibilityProperty: true})) window.counts.add(shown.textContent);
    }).observe(document, {childList: true, subtree: true, characterData: true, attributes: true});
"""


def test_the_result_of_the_front_page_follows_the_handle_and_is_settled_by_the_server(browser, site):
    from selenium.webdriver.common.keys import Keys

    with scripted(browser, COUNTS):
        browser.get(site.url + "/")
        settled(browser)
    time.sleep(0.5)
    assert browser.execute_script("return [...window.counts]") == ["30\u00a0of\u00a01,000"]  # never another before it
    until(lambda: "ε ≤ 3.48" in text(browser, ".example .use"))  # 3.4731, rounded up
    until(lambda: text(browser, ".example .risk b") == "30 of 1,000")  # the library: 0.0298
    picture = one(browser, ".people").get_attribute("aria-label")
    assert re.fullmatch("30\u00a0of\u00a01,000 clients could be picked out at most; guessing finds 10.", picture)
    handle = one(browser, ".example input[type=range]")
    dots = one(browser, ".people .found").get_attribute("d")
    assert dots.count("M") == 20
    for _ in range(4):
        handle.send_keys(Keys.ARROW_LEFT)
    assert one(browser, ".people .found").get_attribute("d").count("M") > 20
    until(lambda: "noise_multiplier=0.6" in browser.current_url)
    time.sleep(0.5)  # the link and the server's bound follow the handle
    link = one(browser, ".example .onward a").get_attribute("href")
    shown = settled(browser, ".example .use b")
    browser.get(link)
    assert 1 <= float(shown.removeprefix("ε ≤ ")) / float(claim(browser)) < 1.03  # the browser's bound at first


def test_the_menu_names_the_main_pages_and_folds_the_others(browser, site):
    from selenium.webdriver.common.keys import Keys

    browser.get(site.url + "/")
    settled(browser)
    shown = [a.text for a in browser.find_elements("css selector", ".top nav > a")]
    order = ["DP-SGD", "Queries", "Federated", "Verdict", "Verify", "Ledger", "Docs"]
    assert shown == [name for name in order if name in shown]
    assert {"Queries", "Federated", "Verify", "Ledger", "Docs"} <= set(shown)
    assert [a.text for a in browser.find_elements("css selector", ".places a")] == shown
    one(browser, ".more summary").send_keys(Keys.ENTER)
    until(lambda: one(browser, ".more a[href='/compare']").is_displayed())
    one(browser, ".more a[href='/compare']").send_keys(Keys.ENTER)
    until(lambda: "/compare" in browser.current_url)
    assert not one(browser, ".more a[href='/compare']").is_displayed()
    assert one(browser, ".more a[aria-current]").get_attribute("textContent") == "Compare"


LINE = ("stroke", "stroke-dasharray")


def test_two_releases_stand_side_by_side_and_the_smaller_epsilon_is_the_weaker_one(browser, site):
    browser.get(site.url + "/compare")
    lead = settled(browser, "h2.lead-in")
    assert lead == "Neither is better everywhere: their curves cross."
    told = text(browser, ".results")
    assert "the first has the smaller epsilon: at most 5.89, against at least 8.24" in told
    assert len(browser.find_elements("css selector", ".charts .plot > svg")) == 2
    first, second = (
        one(browser, f".charts .line.{name}") for name in ("claim", "second")
    )  # told apart by color, by dashes and by name
    assert all(first.value_of_css_property(css) != second.value_of_css_property(css) for css in LINE)
    assert {"first", "second"} <= {each.text for each in browser.find_elements("css selector", ".charts .name")}
    browser.execute_script(  # the server's answer is held back: what this browser bounds gives no status
        "const real = fetch; window.hold = new Promise(done => window.release = done);"
        "window.fetch = (...all) => window.hold.then(() => real(...all))"
    )
    put(browser, "second_parameter", "3")
    until(lambda: "Upper bounds, by this browser" in text(browser, ".results"))
    assert not browser.find_elements("css selector", "h2.lead-in")
    assert len(browser.find_elements("css selector", ".results .plot > svg")) == 2
    assert "better" not in text(browser, ".results").replace("lower is better", "")
    browser.execute_script("window.release()")
    lead = "The second protects better. Against it, no attack picks out a share more than 0.005 higher."
    until(lambda: browser.find_element("css selector", "h2.lead-in").text == lead)
    assert "second_parameter=3" in until(lambda: "second_parameter=3" in browser.current_url and browser.current_url)
    put(browser, "second_parameter", "-3")
    until(lambda: not browser.find_elements("css selector", ".results .plot"))


def test_a_record_names_a_file_by_the_hash_that_the_browser_works_out(browser, site, tmp_path):
    file = tmp_path / "visits.csv"
    file.write_bytes(b"visits")
    browser.get(site.url + "/queries")
    claim(browser)
    unfold(browser, "Export")
    unfold(browser, "Add to the record")
    until(lambda: one(browser, "details.owned input[type=file]")).send_keys(str(file))
    known = hashlib.sha256(b"visits").hexdigest()
    assert until(lambda: one(browser, ".reference .hash").get_attribute("value")) == known
    assert one(browser, ".reference [aria-label=Name]").get_attribute("value") == "visits.csv"
    browser.execute_script(
        "window.sent = []; const ask = fetch; window.fetch = (...a) => (sent.push(a[1]?.body ?? ''), ask(...a))"
    )
    one(browser, "details.owned").find_element("xpath", "..").find_element("css selector", "button").click()
    assert until(lambda: re.search("[0-9a-f]{64}", text(browser, ".stamp")))
    (asked,) = [each for each in browser.execute_script("return sent") if "references" in each]
    assert json.loads(asked)["references"] == [{"what": "other", "name": "visits.csv", "sha256": known}]
    put(browser, "epsilon", "2")
    one(browser, ".reference .hash").send_keys("\b")
    until(lambda: "a SHA-256 of 64 hex digits" in text(browser, "details.owned"))
    claim(browser)  # what is being worked out again is faint
    browser.execute_script(AXE.read_text())
    assert (
        browser.execute_async_script(
            "axe.run('.owned').then(found => arguments[0](found.violations.map(v => [v.id, v.nodes.map(n => n.html)])))"
        )
        == []
    )
    assert clean(browser) == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("path", PAGES)
def test_nothing_jumps_while_a_page_fills(browser, site, path, width):
    """Cumulative layout shift: below 0.1 counts as good (web.dev); the query page had 0.34, the ledger's 0.55."""
    with scripted(browser, SHIFTS), screen(browser, width):
        browser.get(site.url + path)
        filled(browser, path)
        browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        assert browser.execute_script("return window.shifted") <= 0.05


CLAIMED = """const shown = ['.claim b', '.beside'].map((each) => document.querySelector(each)?.textContent);
    return shown.every(Boolean) && shown;"""  # both at one moment

# What has arrived when the first number stands, or when a page without one has settled.
ARRIVED = """
    const arrived = () => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
        .map(each => [each.name.replace(location.origin, ''), each.encodedBodySize]);
    window.arrived = () => window.stood ?? arrived();
    new MutationObserver(() => {
        if (!window.stood && /\\d/.test(document.querySelector('.claim b')?.textContent)) window.stood = arrived();
    }).observe(document, {childList: true, subtree: true, characterData: true});
"""


@pytest.mark.parametrize("path", PAGES)
def test_little_is_sent_until_a_number_stands(browser, site, path):
    browser.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
    try:
        with scripted(browser, ARRIVED):
            browser.get(site.url + path)
            filled(browser, path)
            found = browser.execute_script("return window.arrived()")
    finally:
        browser.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": False})
    assert len(found) > 2
    assert sum(size for _, size in found) <= TRANSFER, found


def test_nothing_jumps_after_an_edit(browser, site):
    """On a screen that shows the whole page: what attacks find had pushed all below it, 0.03 for each edit."""

    def told():
        meaning = one(browser, ".meaning")
        if meaning.get_attribute("aria-busy") == "false" and "or several held by one person" in meaning.text:
            return text(browser, ".meaning .lead")
        return ""

    with screen(browser, 1280, 2000):
        browser.get(site.url + "/federated")
        claim(browser)
        unfold(browser, "What it means")
        first = until(told)
        browser.execute_script(SHIFTS.replace("true}", "false}"))
        put(browser, "noise_multiplier", "1.5")
        until(lambda: told() not in {"", first})
        time.sleep(0.2)
        assert browser.execute_script("return window.shifted") < 0.005


def test_a_form_is_never_scrolled_inside_itself(browser, site):
    with screen(browser, 1280):
        browser.get(site.url + "/federated")
        claim(browser)
        unfold(browser)
        form = "const form = document.querySelector('form.inputs'); "
        assert browser.execute_script(form + "return form.scrollHeight <= form.clientHeight + 1")
        assert browser.execute_script(form + "return form.offsetHeight") > 880  # the control: higher than the screen
        browser.execute_script(form + "scrollTo(0, form.offsetHeight)")
        until(lambda: browser.execute_script(form + "return form.getBoundingClientRect().bottom <= innerHeight"))


def test_print_begins_with_the_answer(browser, site):
    for path in ("/federated", "/queries"):
        browser.get(site.url + path)
        claim(browser)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        tops = "return ['.results', '.inputs'].map(e => document.querySelector(e).getBoundingClientRect().top)"
        results, inputs = browser.execute_script(tops)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        assert results < inputs


def test_what_it_means_for_one_person_is_told_and_fits_one_sheet(browser, site):
    """In the library's sentences; printed on A4 with the inputs below it."""
    for path, said in (
        ("/federated?v=1&cap=2", "8 such releases, including this one"),
        ("/queries?v=1&mechanism=gaussian&delta=1e-6", "No cap on"),
    ):
        browser.get(site.url + path)
        claim(browser)
        unfold(browser, "What it means")
        until(
            lambda: (
                one(browser, ".meaning").get_attribute("aria-busy") == "false"
                and "or several held by one person" in text(browser, ".meaning")
            )
        )
        told = text(browser, ".meaning")
        assert all(each in told for each in ("result changes the odds", "largest TPR at an FPR of 1%", said))
        assert broken_rules(browser) == []
        printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
        assert len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed["data"]))) == 1


def test_a_quick_bound_says_that_it_is_being_refined(browser, site):
    browser.get(site.url + "/queries?v=1&mechanism=gaussian&delta=1e-6")
    claim(browser)
    assert "refined" not in text(browser, ".results")
    browser.execute_script(  # the server's answer is held back
        "const real = fetch; window.hold = new Promise(done => window.release = done);"
        "window.fetch = (...all) => window.hold.then(() => real(...all))"
    )
    put(browser, "queries", "50")
    until(lambda: "being refined" in text(browser, ".results"))
    assert browser.find_elements("css selector", ".claim b")
    browser.execute_script("window.release()")
    until(lambda: "refined" not in text(browser, ".results"))


def test_a_server_that_is_gone_is_said_on_the_next_page(browser, serve_app):
    with serve_app(create_app()) as site:
        browser.get(site.url + "/queries")
        claim(browser)
    until(lambda: one(browser, "nav a[href='/verify']")).click()
    until(lambda: "The server does not answer" in text(browser, "main"))
    assert "Loading…" not in text(browser, "main")
    browser.get_log("browser")


def test_embeds_open_with_the_values_of_the_page(browser, site, tmp_path):
    """As a frame, as an element and as a file: the same fields, and the bound of the same question."""
    asked = {
        "epsilon": "2.5",
        "queries": "17",
        "queries_used": "3",
        "sensitivity": "4",
        "delta": "1e-7",
        "population": "",
    }
    address = "&".join(f"{name}={value}" for name, value in asked.items())
    browser.get(f"{site.url}/queries?v=1&mechanism=gaussian&{address}")
    wanted = claim(browser)
    unfold(browser)
    until(lambda: len(browser.find_elements("css selector", "details pre")) == 3)  # they are loaded apart
    unfold(browser)
    element, frame, command = [p.text for p in browser.find_elements("css selector", "details pre")]
    browser.get(html.unescape(re.search(r'src="([^"]*/embed/queries[^"]*)"', frame)[1]))
    assert claim(browser) == wanted
    values = "return Object.fromEntries([...arguments[0].querySelectorAll('input')].map(i => [i.name, i.value]))"
    shown = browser.execute_script(values, one(browser, "form"))
    assert {name: shown[name] for name in asked} == asked
    words = shlex.split(command.removesuffix(" > calculator.html"))
    assert words[:3] == ["epsilog", "embed", "queries"]
    (tmp_path / "calculator.html").write_text(
        build_embed_html("queries", dict(word.split("=", 1) for word in words[3:]))
    )
    (tmp_path / "element.html").write_text("<meta charset=utf-8>" + element)
    for name in ("calculator", "element"):
        browser.get((tmp_path / f"{name}.html").as_uri())
        root = until(lambda: one(browser, "epsilog-queries").shadow_root)
        until(lambda root=root: root.find_element("css selector", ".claim b").text == wanted)
        shown = browser.execute_script(values, root)
        assert {name: shown[name] for name in asked} == asked


@pytest.mark.smoke
def test_federated_numbers_links_and_back(browser, site):
    browser.get(site.url + "/federated")
    first = claim(browser)
    assert first == "0.723"  # 0.72283, rounded up
    until(lambda: text(browser, ".risk b") == "15 of 1,000")  # 0.01496, the accountant's
    assert text(browser, ".use b") == "173,000"  # weights: (500 / 1.2)^2, rounded down
    assert "125" in text(browser, ".secrecy .known")
    unfold(browser, "Interval")
    until(lambda: "under-reports" in text(browser, ".notice"))  # its sentence is loaded apart
    assert "0.633" in text(browser, ".formula")
    assert "0.72282791" in text(browser, ".fold td:last-child")
    put(browser, "noise_multiplier", "2.4\t")
    second = until(lambda: claim(browser) != first and claim(browser))
    link = until(lambda: "noise_multiplier=2.4" in browser.current_url and browser.current_url)
    assert "v=1" in link
    browser.back()
    until(lambda: claim(browser) == first)
    assert one(browser, "[name=noise_multiplier]").get_attribute("value") == "1.2"
    browser.get(link)
    assert float(claim(browser)) <= float(second) + 1e-9  # the browser's own bound is the looser


@pytest.mark.parametrize("written", ["1e-5", "10^-5", "0.00001", "10⁻⁵"])
def test_all_spellings_of_a_number_are_one(browser, site, written):
    browser.get(site.url + "/federated?v=1&delta_cap=")
    claim(browser)
    unfold(browser, "δ and its cap")
    put(browser, "delta", written)
    until(lambda: "δ = 10⁻⁵" in text(browser, ".beside"))


@pytest.mark.smoke
@pytest.mark.every(1)
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("noise_multiplier", "abc", ("Not a number.", "Waiting for noise multiplier.")),
        ("population", "", ("Enter a number.", "Waiting for clients in all.")),
        ("delta", "1.5", ("Below 1.", "Waiting for failure probability.")),
        ("cohort_size", "60000", ("At most the clients in all.", "Waiting for clients per round.")),
    ],
)
def test_wrong_inputs_are_marked_announced_and_give_no_number(browser, site, name, value, said):
    says, waits = said

    def marks():
        return [each.text for each in browser.find_elements("css selector", ".error") if each.text]

    browser.get(site.url + "/federated")
    claim(browser)
    unfold(browser, "δ and its cap")
    field = put(browser, name, value)
    until(lambda: text(browser, ".results .withheld") == f"–\n{waits}")
    assert len(browser.find_elements("css selector", ".claim")) == 1
    assert field.get_attribute("value") == value  # nothing typed is lost
    browser.execute_script("arguments[0].blur()", field)
    until(lambda: field.get_attribute("aria-invalid") == "true" and marks() == [says])
    described = field.get_attribute("aria-describedby").split()
    assert says in [browser.find_element("id", each).text for each in described]
    until(lambda: waits in one(browser, ".results output").get_attribute("textContent"))


def test_an_offered_correction_is_taken_by_a_click_alone(browser, site):
    browser.get(site.url + "/federated")
    claim(browser)
    field = put(browser, "population", "2.000")
    until(lambda: browser.find_elements("css selector", ".offers button"))
    offers = browser.find_elements("css selector", ".offers button")
    assert [each.text.removeprefix("Use").strip() for each in offers] == ["2,000", "2"]
    assert field.get_attribute("value") == "2.000"
    offers[0].click()
    until(lambda: "population=2%2C000" in browser.current_url)
    assert field.get_attribute("value") == "2,000"
    assert browser.switch_to.active_element == field
    assert not browser.find_elements("css selector", ".withheld")


REFUSES = """
import json, sys
detail = "Inversion has no proven bound for this. epsilog does not substitute an approximation."
problem = {"type": "/problems/unsupported-mechanism", "title": "No proven bound", "status": 422, "detail": detail}
for _ in sys.stdin:
    print(json.dumps([422, "application/problem+json", json.dumps(problem)]), flush=True)
"""


def test_what_the_server_refuses_is_said(browser, serve_app, monkeypatch):
    command = (sys.executable, "-c", REFUSES)
    monkeypatch.setattr(WorkerPool, "__init__", partialmethod(WorkerPool.__init__, command=command))
    with serve_app(create_app()) as refusing:
        browser.get(refusing.url + "/federated?v=1&sampling=balls-in-bins&relation=replace-one")
        until(lambda: "does not substitute" in text(browser, ".results"))
        assert not browser.find_elements("css selector", ".claim")


def test_a_link_of_another_version_is_not_read(browser, site):
    browser.get(site.url + "/federated?v=9&population=7")
    until(lambda: "version 9" in text(browser, "main"))
    assert one(browser, "[name=population]").get_attribute("value") == "50000"


def test_balls_in_bins_counts_in_epochs(browser, site):
    browser.get(site.url + "/federated?v=1&sampling=balls-in-bins")
    assert 1.4 < float(claim(browser)) < 1.7  # two epochs of a hundred rounds; Poisson's price is 0.72
    unfold(browser, "Interval")
    assert "2 epochs started" in text(browser, ".results")
    browser.get(site.url + "/federated?v=1&sampling=balls-in-bins&goal=rounds&epsilon=2")
    assert claim(browser) == "200"  # two whole epochs fit epsilon 2, three do not
    unfold(browser, "ε by round")
    until(lambda: browser.find_elements("css selector", ".plot > svg"))


@pytest.mark.smoke
def test_queries_incompatible_plan_and_scenarios(browser, site):
    browser.get(site.url + "/queries?v=1&epsilon=1&queries=100&queries_used=40&mechanism=laplace&delta=")
    assert claim(browser) == "300"  # ln 20 times 100
    assert "40% of the queries use 40% of the budget." in text(browser, ".spending")
    assert "Left: ε 0.6, for 60 more queries." in text(browser, ".spending")
    unfold(browser, "Compare scenarios")
    scenarios = until(
        lambda: [row.text for row in browser.find_elements("css selector", ".scenarios tr") if "…" not in row.text]
    )
    assert any("Gaussian, ε 1, Q 100" in row and "Laplace, ε 1, Q 100" in row for row in scenarios), "two to begin with"
    assert until(lambda: "times less noise 12.5 1" in text(browser, ".scenarios"))
    unfold(browser, "Kind of noise")
    put(browser, "queries_used", "120")
    until(lambda: "More queries were answered than planned" in text(browser, ".results"))
    pin = next(b for b in browser.find_elements("css selector", "button") if b.text == "Pin this scenario")
    pin.click()
    until(lambda: "C: Laplace, ε 1, Q 100, Δ 1" in text(browser, ".results"))
    assert "−0.2" in until(lambda: "…" not in text(browser, ".scenarios") and text(browser, ".scenarios"))
    shared = until(lambda: "pins=" in browser.current_url and browser.current_url)
    browser.get(shared)
    claim(browser)
    unfold(browser, "Compare scenarios")
    until(lambda: "C: Laplace, ε 1, Q 100, Δ 1" in text(browser, ".results"))
    next(b for b in browser.find_elements("css selector", "button") if b.text == "Open A").click()
    until(lambda: one(browser, "[name=mechanism]").get_attribute("value") == "gaussian" and claim(browser) == "82.9")


def test_the_result_of_queries_says_error_and_risk_and_why_the_first_queries_cost_more(browser, site):
    from selenium.webdriver.common.keys import Keys

    browser.get(site.url + "/queries")
    assert claim(browser) == "82.9"  # 1.959964 times 42.2468
    until(lambda: text(browser, ".risk b") == "19 of 1,000")  # 0.01833, the accountant's
    assert text(browser, ".use b") == "8.29%"
    said = text(browser, ".spending")
    assert "40% of the queries use 61.2% of the budget." in said  # 0.61122: the accountant's bound over epsilon 1
    assert "√40% is about 63.3%" in said
    assert "Left: ε 0.388, for 60 more queries." in said
    unfold(browser, "Other ways")
    assert [b.text for b in browser.find_elements("css selector", ".ways b")] == ["± 82.9", "± 601", "± 1,040"]
    assert "12.5 times" in text(browser, ".results")
    unfold(browser, "Laplace or Gaussian")
    until(lambda: "from 8 queries" in text(browser, ".results"))
    handle = one(browser, "input[type=range]")
    for _ in range(8):
        handle.send_keys(Keys.ARROW_RIGHT)  # more noise: the error grows, and fewer are picked out
    until(lambda: float(claim(browser)) > 95 and int(text(browser, ".risk b").split()[0]) < 19)
    assert float(one(browser, "[name=epsilon]").get_attribute("value")) < 1
    assert "picked out" in handle.get_attribute("aria-valuetext")


HEARD = """
    window.heard = [];
    const ask = window.fetch;
    window.fetch = (...all) => ask(...all).then(found => (found.clone().json().then(one => heard.push(one)), found));
"""
NUMBER = r"(?<![\w.,⁻])\d[\d\u202f,]*(?:\.\d+)?(?![\w⁰¹²³⁴⁵⁶⁷⁸⁹]|[.,]\d)"


def spell(value, digits):
    """A number rounded to so many digits, each way, as text."""
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return {
        f"{whole * unit:.10g}"
        for whole in (math.floor(value / unit + 1e-9), round(value / unit), math.ceil(value / unit - 1e-9))
    }


def numbers_of(answer):
    """Each number of an answer that is no small whole number."""
    if isinstance(answer, dict | list):
        for each in answer.values() if isinstance(answer, dict) else answer:
            yield from numbers_of(each)
    elif isinstance(answer, float) and 1e-3 < answer < 1e7 and not (answer.is_integer() and answer < 100):
        yield answer


@pytest.mark.parametrize(
    "path",
    [
        "/queries",
        "/queries?v=1&epsilon=0.7&queries=37&mechanism=laplace&delta=1e-7&queries_used=11&magnitude=213",
        "/federated",
        "/federated?v=1&noise_multiplier=0.83&rounds=317&cohort_size=411&delta=3e-6",
        "/playground",
        "/compare",
        "/",
    ],
)
def test_a_quantity_has_one_spelling_and_its_digits_stand_in_a_fold(browser, site, path):
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": HEARD})
    try:
        browser.get(site.url + path)
        settled(browser)
        time.sleep(1.5)  # the bound on attacks arrives too
        heard = until(lambda: browser.execute_script("return heard"))
        known = sorted({number for answer in heard for number in numbers_of(answer)})
        for opened in (False, True):
            if opened:
                unfold(browser)
                time.sleep(2)
            said = browser.execute_script("return document.querySelector('.results, .example').innerText")
            shown = {re.sub("[\u202f,]", "", each) for each in re.findall(NUMBER, said)}
            for number in known:
                three = spell(number, 3)
                longer = set().union(*(spell(number, digits) for digits in range(4, 9))) - three
                assert not longer & shown, (number, longer & shown)
                near = sum(abs(each / number - 1) < 0.01 for each in known)  # other quantities may be as large
                assert len(three & shown) <= near, (number, three & shown)
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


LONG = r"""
    const said = [...document.querySelectorAll('main p, main li, main h1, main h2, main small, main span')]
        .filter(each => each.checkVisibility() && !each.closest('.hidden'))
        .flatMap(each => each.innerText.split(/[.;:!?](?= |$)|\n/));
    return said.filter(each => each.split(/\s+/).filter(Boolean).length > 20);
"""
WORDS = r"""
    let count = 0;
    const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const each = texts.currentNode, range = document.createRange();
        const shown = each.parentElement.checkVisibility();
        if (!shown || each.parentElement.closest('.hidden, select, datalist, svg')) continue;
        range.selectNode(each);
        const box = range.getBoundingClientRect();
        if (box.height > 0 && box.top < innerHeight)
            count += each.textContent.trim().split(/\s+/).filter(Boolean).length;
    }
    return count;
"""
RETIRED = ("false alarm", "even odds", "somebody", "anybody", "bears")


@pytest.mark.parametrize("path", ["/", "/queries", "/federated", "/playground", "/compare"])
@pytest.mark.parametrize("width", [1280, 820, 390, 320])
def test_a_first_screen_is_short_and_keeps_the_result_in_sight(browser, site, path, width):
    """At most 150 words, no sentence above 20; on a narrow screen the result stays while the form scrolls."""
    with screen(browser, width):
        browser.get(site.url + path)
        settled(browser)
        assert 10 < browser.execute_script(WORDS) <= 150
        assert browser.execute_script(LONG) == []
        assert not [word for word in RETIRED if word in text(browser, "main")]
        if path != "/":
            browser.execute_script("document.querySelector('.inputs').scrollIntoView({block: 'end'})")
            box = browser.execute_script("return document.querySelector('.outcome').getBoundingClientRect().toJSON()")
            assert -1 <= box["top"] < box["bottom"] < 420


@pytest.mark.parametrize(
    ("goal", "epsilon", "says"), [("noise", "0.7228279152911068", "1.2"), ("rounds", "0.7229", "200")]
)
def test_a_goal_is_a_mode_of_the_form(browser, site, goal, epsilon, says):
    """The noise or the rounds of the default schedule come back from its epsilon."""
    browser.get(site.url + f"/federated?v=1&goal={goal}&epsilon={epsilon}")
    found = claim(browser)
    assert found in {"noise": (says, "1.21"), "rounds": (says,)}[goal]  # the noise is rounded up at three digits
    assert f"the {'least noise' if goal == 'noise' else 'most rounds'} for ε ≤ 0.723" in text(browser, ".beside")
    assert float(text(browser, ".secrecy .kept b")) <= 0.723
    put(browser, "epsilon", "0")
    until(lambda: text(browser, ".withheld") == "–\nWaiting for target.")
    assert not one(browser, f"[name={'noise_multiplier' if goal == 'noise' else 'rounds'}]").is_enabled()


def test_playground(browser, site):
    browser.get(site.url + "/playground?v=1&mix=gaussian:2:::3|pure:0.1:::1&delta=1e-6")
    before = float(claim(browser))
    link = until(lambda: browser.find_element("link text", "Make a card of this epsilon").get_attribute("href"))
    assert parse_qs(urlsplit(link).query)["delta"] == ["0.000001"]
    assert "Release 1" in text(browser, "form")
    assert "Release 2: stated ε-DP, 0.1" in text(browser, "form")
    assert not browser.find_elements("css selector", "form details")[1].get_attribute("open")
    next(b for b in browser.find_elements("css selector", "button") if b.text == "Add a release").click()
    until(lambda: float(claim(browser)) > before)
    unfold(browser, "The best attack")
    until(lambda: "Advantage over a random guess" in text(browser, ".results"))


def test_monte_carlo_narrows_and_can_be_cancelled(browser, site):
    browser.get(site.url + "/montecarlo?v=1&samples=200000")
    until(lambda: one(browser, "button.main")).click()
    until(lambda: "Evidence complete" in text(browser, "main"), 60)
    assert browser.find_elements("link text", "Download the evidence")
    assert one(browser, ".narrowing .shade").get_attribute("d").count("L") > 10  # it closed in many steps
    assert len(browser.find_elements("css selector", ".narrowing .final")) == 1
    assert len(browser.find_elements("css selector", ".birth .done")) == 4
    assert "128 bits from the operating system, stored in the journal before the first draw" in text(browser, ".birth")
    browser.get(site.url + "/montecarlo?v=1&samples=50000000")
    until(lambda: one(browser, "button.main")).click()

    def press(label):
        until(lambda: [b for b in browser.find_elements("css selector", "button") if b.text == label])[0].click()

    press("Pause")
    until(lambda: "Paused" in text(browser, "main"))
    browser.get(site.url + "/montecarlo")  # nothing is lost with the page
    press("Open")
    press("Resume")
    until(lambda: "Drawing" in text(browser, "main"))
    press("Cancel")
    until(lambda: "Cancelled" in text(browser, "main"))


def test_monte_carlo_draws_what_has_no_closed_form(browser, site):
    family = "participation=b-min-sep&strategy=square-root&bands=9&bins=8&epochs=2&probability=0.2"
    browser.get(site.url + f"/montecarlo?v=1&samples=50000&{family}")
    until(lambda: "do not overlap" in text(browser, "form"))
    assert one(browser, "button.main").get_attribute("disabled")
    put(browser, "bands", "4")
    until(lambda: not one(browser, "button.main").get_attribute("disabled"))
    one(browser, "button.main").click()
    until(lambda: "Evidence complete" in text(browser, "main"), 60)
    assert "b-min-sep, b = 8, 2 epochs, p = 0.2, square-root noise, 4 bands" in text(browser, "main")
    assert "exact value" not in text(browser, ".narrowing")


def test_a_cohort_of_fixed_size_is_priced_under_replace_one_only(browser, site):
    browser.get(site.url + "/federated?v=1&sampling=fixed-size")
    until(lambda: "Fixed-size sampling needs “replace one”." in text(browser, "form"))
    assert text(browser, ".withheld") == "–\nWaiting for neighboring relation."
    browser.get(site.url + "/federated?v=1&sampling=fixed-size&relation=replace-one")
    claim(browser)


@pytest.mark.smoke
def test_the_ledger_is_read_and_verified(browser, site):
    browser.get(site.url + "/ledger")
    until(lambda: "acme/claims" in text(browser, "main"))
    until(lambda: "ε 1.75" in text(browser, "main"))
    until(lambda: "left of 3. ε 1.75 is spent, ε 0.125 reserved." in text(browser, ".headroom"))
    assert text(browser, ".headroom b") == "ε 1.12"  # what is left rounds down
    assert "is used up around" not in text(browser, "main")  # all of it within a day is no pace
    until(lambda: "ε 1.75 of 3 is spent, by" in text(browser, ".plot figcaption"))
    named = one(browser, ".plot svg").get_attribute("aria-labelledby")
    assert "is spent" in text(browser, f"#{named}".replace(":", "\\:"))
    next(b for b in browser.find_elements("css selector", ".budgets button") if "study" in b.text).click()
    until(lambda: "left of 4." in text(browser, ".headroom"))
    until(lambda: one(browser, "button.main")).click()
    until(lambda: "entries are valid" in text(browser, "main"))
    unfold(browser, "Every entry")
    rows = browser.find_elements("css selector", "table.dense tbody tr")
    assert rows[0].text.startswith(str(len(rows)))  # newest first, all on one page
    scope = one(browser, "#chain-scope")
    scope.send_keys("lab")
    until(lambda: len(browser.find_elements("css selector", "table.dense tbody tr")) == 2)  # created, charged
    browser.get(site.url + "/runs")
    until(lambda: browser.find_elements("link text", "exam-scores"))[0].click()
    until(lambda: text(browser, ".answer h2") == "Would hold")
    assert text(browser, ".rehearsal").startswith("Rehearsal.")
    unfold(browser, "Settings, every check, and costs of deviations")
    until(lambda: "The noise agrees." in text(browser, "main"))
    assert browser.current_url.endswith("/runs/exam-scores-1")


def test_a_ledger_behind_tokens_asks_for_one_and_keeps_it_nowhere(browser, serve_app, tmp_path, ledger_path, runs_path):
    file = tmp_path / "tokens.json"
    _, token = tokens.create_token(file, "anna", role="owner", scope=None)
    wrong = token[:-4] + ("0000" if token[-4:] != "0000" else "1111")
    app = create_app(ledger=str(ledger_path), runs=runs_path, access=AccessConfig(file))
    with serve_app(app) as site:
        browser.get(site.url + "/ledger")
        until(lambda: "A token is required" in text(browser, "main"))
        assert "acme" not in text(browser, "main")
        for given, says in ((wrong, "unknown or has expired"), (token, "acme/claims")):
            field = until(lambda: one(browser, "input[name=token]"))
            assert field.get_attribute("type") == "password"
            field.send_keys(given)
            one(browser, "form button[type=submit]").click()
            until(lambda: says in text(browser, "main"))  # noqa: B023
        one(browser, "button.main").click()
        until(lambda: "entries are valid" in text(browser, "main"))
        kept = "return JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
        assert token not in browser.execute_script(kept)
        assert token not in browser.page_source
        browser.get(site.url + "/runs")  # left and come back: it is gone
        until(lambda: "A token is required" in text(browser, "main"))
        assert broken_rules(browser) == []
        browser.get(site.url + "/federated")  # the calculators need none
        claim(browser)
        browser.get("about:blank")  # hangs up: a server ends when nobody waits any more
    assert clean(browser) == []


@contextmanager
def held(browser, serve_app, folder, role, fill_ledger):
    """The ledger's page, with the token of anna, who is such a holder of acme; and the file of the ledger."""
    file, path = folder / "tokens.json", fill_ledger(folder / "ledger.db")
    _, token = tokens.create_token(file, "anna", role=role, scope="acme")
    with serve_app(create_app(ledger=str(path), access=AccessConfig(file))) as site:
        browser.get(site.url + "/ledger")
        until(lambda: one(browser, "input[name=token]")).send_keys(token)
        one(browser, "form button[type=submit]").click()
        until(lambda: "acme/claims" in text(browser, "main"))
        yield path
        browser.get("about:blank")


def opened(browser, title):
    """A part of what may be done, opened by keyboard."""
    from selenium.webdriver.common.keys import Keys

    parts = ".part:not(.exact)"
    part = until(lambda: next(p for p in browser.find_elements("css selector", parts) if p.text.startswith(title)))
    if part.get_attribute("open") is None:
        part.find_element("css selector", "summary").send_keys(Keys.ENTER)
    until(lambda: part.find_elements("css selector", "form"))
    return part


def fill(part, **values):
    """Types into the fields of one form."""
    from selenium.webdriver.common.keys import Keys

    for name, value in values.items():
        field = part.find_element("css selector", f"[name={name}]")
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(value)


def press(part, label):
    """A button, by keyboard."""
    from selenium.webdriver.common.keys import Keys

    until(lambda: next(b for b in part.find_elements("css selector", "button") if b.text == label)).send_keys(
        Keys.ENTER
    )


def test_whoever_may_spends_from_the_ledgers_page_and_no_more_is_offered(browser, serve_app, tmp_path, fill_ledger):
    with held(browser, serve_app, tmp_path, "spender", fill_ledger) as path:
        charge = opened(browser, "Charge a release")
        assert [p.text for p in browser.find_elements("css selector", ".part:not(.exact) > summary")] == [
            "Charge a release",
            "Finish a charge",
        ]
        fill(charge, scope="acme/claims/anna", value="0.25", key="mine")
        press(charge, "Check headroom")
        until(lambda: "This release fits 4 times. Available at this scope: ε 1.125." in charge.text)
        fill(charge, value="2")
        press(charge, "Reserve")
        until(lambda: "Budget acme/claims refuses this charge. At most epsilon 1.125 fits" in charge.text)
        said = charge.find_element("css selector", ".refusal").text
        for line in ("cap 3", "spent 1.75", "reserved 0.125", "available 1.125", "requested 2", "shortfall 0.875"):
            assert line in said
        assert "Ask the owner of acme/claims to raise the cap. Nothing was written." in said
        fill(charge, value="-1")
        press(charge, "Reserve")
        until(lambda: "Above 0." in charge.text)
        fill(charge, value="0.5")
        press(charge, "Reserve")
        through = opened(browser, "Finish a charge")  # by itself
        until(lambda: "State: reserved, scope acme/claims/anna, cost ε 0.5, by anna." in through.text)
        assert charge.find_element("css selector", "[name=key]").get_attribute("value") != "mine"
        press(through, "Start (spends it permanently)")
        until(lambda: "State: started" in through.text)
        press(through, "Commit")
        until(lambda: "The charge is now committed." in through.text)
        unfold(browser, "Every entry")
        until(lambda: "mine" in text(browser, "table.dense tbody tr"))  # the page shows what was written
        with read_ledger(path) as ledger:
            assert (ledger.find("mine").state, ledger.balance("acme/claims").spent["epsilon"]) == ("committed", "2.25")
        fill(through, key="waiting")  # of nobody: whoever may spend there goes on with it
        press(through, "Look up")
        until(lambda: "State: reserved, scope acme/claims/bob" in through.text)
        press(through, "Cancel the reservation")
        until(lambda: "Needs a value." in through.text)
        fill(through, reason="not needed")
        press(through, "Cancel the reservation")
        until(lambda: "The charge is now cancelled." in through.text)
    assert clean(browser) == []


def test_owners_allow_prices_and_set_caps_on_the_ledgers_page(browser, serve_app, tmp_path, fill_ledger):
    with held(browser, serve_app, tmp_path, "owner", fill_ledger) as path:
        allow = opened(browser, "Override the cost of one charge")
        fill(allow, key="allowed", value="2", cost_epsilon="0.5")
        press(allow, "Store override")
        until(lambda: "Fill this in." in allow.text)
        fill(allow, reason="proof 12")
        press(allow, "Store override")
        until(lambda: "Override stored" in allow.text)
        caps = opened(browser, "Change a cap")
        fill(caps, epsilon="3.5", reason="board, 3 May")
        press(caps, "Set the cap")
        until(lambda: "The cap of acme/claims is now ε 3.5." in caps.text)
        charge = opened(browser, "Charge a release")
        fill(charge, key="allowed", value="2")
        charge.find_element("css selector", "form details > summary").click()
        fill(charge, cost_epsilon="0.5")
        press(charge, "Charge now (permanent)")
        until(lambda: "Charged: ε 0.5, key allowed." in charge.text)
        for width in (1280, 390):
            with screen(browser, width):
                assert broken_rules(browser) == []
        with read_ledger(path) as ledger:
            assert ledger.balance("acme/claims").caps["epsilon"] == "3.5"
            assert dict(ledger.charge_record("allowed").amounts["pure"]) == {"epsilon": "0.5"}
            (changed,) = ledger.page("acme/claims", verb="cap-changed", limit=5)
            assert (changed.body["actor"], changed.body["reason"]) == ("anna (token of anna)", "board, 3 May")
    assert clean(browser) == []


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
        until(lambda: "ε 0.5 was spent in the last 20 days." in text(browser, "main"))
        assert "left of 2. ε 1 is spent." in text(browser, ".headroom")
        assert "2 more charges like run fit. acme refuses the next." in text(browser, ".next")
        lasts = (dt.datetime.now(dt.UTC) + dt.timedelta(days=40)).date()
        either = (lasts, lasts + dt.timedelta(days=1))  # a second may have gone by
        assert any(f"is used up around {day} (an estimate)" in text(browser, "main") for day in either)
        unfold(browser, "Every release")
        until(lambda: "covered by its partition" in text(browser, "main"))
        unfold(browser, "Every entry")
        folded = browser.find_elements("css selector", "table.dense tbody tr")[0].text
        assert "rounds 1–2" in folded
        assert folded.startswith("7–10")
        for width in (1280, 390):
            with screen(browser, width):
                assert broken_rules(browser) == []
        next(b for b in browser.find_elements("css selector", ".budgets button") if "partition" in b.text).click()
        until(
            lambda: "ε 0.5 in each block. A charge in a block counts in that block only" in text(browser, ".headroom")
        )
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
        assert "epsilon=1.0" in until(lambda: text(browser, ".elsewhere pre"))
        until(lambda: browser.find_element("link text", "Charge this to the ledger")).click()
        until(lambda: one(browser, "select[name=release]").get_attribute("value") == "given")
        next(b for b in browser.find_elements("css selector", ".act button") if b.text == "Reserve").click()
        until(lambda: "Reserved: ε 1" in text(browser, "main") or "Reserved: ε 0.99" in text(browser, "main"))
        assert [a.text for a in browser.find_elements("css selector", ".story a")] == ["Plan", "Run", "Report"]
        assert one(browser, ".story a[rel=next]").text == "Run"
    with read_ledger(tmp_path / "ledger.db") as ledger:
        assert 0.99 < float(ledger.balance("acme").reserved["epsilon"]) < 1.001


def test_a_reader_is_offered_nothing(browser, serve_app, tmp_path, fill_ledger):
    with held(browser, serve_app, tmp_path, "reader", fill_ledger):
        until(lambda: "The chain of entries" in text(browser, "main"))
        time.sleep(0.3)  # who they are was asked meanwhile
        assert not browser.find_elements("css selector", ".part:not(.exact)")
    assert clean(browser) == []


def test_the_game_by_keyboard(browser, site):
    """Number keys select, arrows set the noise, letters act; the key is committed to before the first release."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def press(*keys):
        ActionChains(browser).send_keys(*keys).perform()

    browser.get(site.url + "/game?v=1&seed=keys")
    until(lambda: one(browser, "button.main")).send_keys(Keys.ENTER)
    until(lambda: browser.switch_to.active_element.get_attribute("class") == "board")
    committed = text(browser, ".commitment code")
    assert "First try" in text(browser, ".commitment")
    asks = browser.find_elements("css selector", ".ask")
    slot = next(
        i
        for i, ask in enumerate(asks)
        if i and "over" not in ask.find_element("css selector", ".price").get_attribute("class")
    )
    press(str(slot + 1))
    until(lambda: asks[slot].find_element("css selector", "input").is_selected())
    asker = asks[slot].find_element("css selector", ".who").text.split("\n")[0].removesuffix(str(slot + 1)).strip()
    noise = lambda: one(browser, "#steer").get_attribute("aria-valuetext")  # noqa: E731
    before = noise()
    press(Keys.ARROW_RIGHT)
    until(lambda: noise() != before)
    press("r")
    until(lambda: f"released to {asker}" in text(browser, ".said"))
    one(browser, ".asks input:checked").send_keys("d")  # the card that has the focus leaves
    until(lambda: "Declined: " in text(browser, ".said"))
    assert browser.switch_to.active_element.get_attribute("name") == "asks"
    for _ in range(47):
        press("d")
    until(lambda: browser.switch_to.active_element.get_attribute("aria-label") == "Result of the shift")
    assert browser.execute_script("return document.querySelectorAll('.lessons li').length") == 3
    record = one(browser, "textarea").get_attribute("value").split("\n")
    key = record[2].removeprefix("key ")
    assert record[1] == f"commitment {committed}"
    assert committed == hashlib.sha256(key.encode()).hexdigest()
    browser.get(site.url + "/game?v=1&seed=keys")
    until(lambda: one(browser, "button.main")).send_keys(Keys.ENTER)
    until(lambda: "Practice" in text(browser, ".commitment"))
    assert text(browser, ".commitment code") != committed


def test_the_calm_game_passes_axe_and_is_played_by_keys_alone(browser, site):
    """With less motion asked for, it begins in text mode; nothing moves in the other mode either."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def press(*keys):
        ActionChains(browser).send_keys(*keys).perform()

    def focused():
        return browser.switch_to.active_element

    def reach(wanted):
        names = lambda: (focused().get_attribute("id"), focused().text, focused().get_attribute("aria-label"))  # noqa: E731
        until(lambda: wanted in names() or press(Keys.TAB))

    still = "return document.getAnimations().length === 0"
    calm = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": calm})
    try:
        browser.get(site.url + "/game?v=1&seed=calm")
        until(lambda: one(browser, "button.main"))
        reach("Start the shift")
        press(Keys.ENTER)
        until(lambda: focused().get_attribute("class") == "board")
        assert not browser.find_elements("css selector", ".stage")
        reach("steer")
        before = focused().get_attribute("aria-valuetext")
        press(*[Keys.ARROW_LEFT] * 6)
        until(lambda: focused().get_attribute("aria-valuetext") != before)
        reach("Release")
        press(Keys.ENTER)
        until(lambda: "released to" in text(browser, ".said"))
        assert focused().text == "Release"  # the next act needs no search
        assert broken_rules(browser) == []
        reach("Decline")
        press(" ")
        until(lambda: "Declined: " in text(browser, ".said"))
        one(browser, "[aria-label='End the shift']").send_keys(Keys.ENTER)
        until(lambda: focused().get_attribute("aria-label") == "Result of the shift")
        for box in browser.find_elements("css selector", ".option input"):
            box.send_keys(" ")  # pictures, and a clock
        reach("Start again, as practice")
        press(Keys.ENTER)
        until(lambda: browser.find_elements("css selector", ".stage"))
        until(lambda: "s left" in text(browser, ".desk-top"))
        assert browser.execute_script(still)
        assert broken_rules(browser) == []
        browser.execute_script("const now = Date.now; Date.now = () => now() + 5 * 60 * 1000")
        until(lambda: focused().get_attribute("aria-label") == "Result of the shift")
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_game_fits_a_phone_and_a_tablet(browser, site):
    from selenium.webdriver.common.action_chains import ActionChains

    overflows = """return [...document.querySelectorAll('.ask')].some(ask => [...ask.querySelectorAll('*')].some(
        each => each.getBoundingClientRect().right > ask.getBoundingClientRect().right))"""
    for width in (320, 820):
        with screen(browser, width):
            browser.get(site.url + "/game?v=1&seed=look")
            until(lambda: one(browser, "button.main")).click()
            until(lambda: browser.find_elements("css selector", ".stage"))
            for _ in range(12):
                assert not browser.execute_script(overflows)
                one(browser, ".board").send_keys("d")
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    with screen(browser, 390):
        browser.get(site.url + "/game?v=1&seed=phone")
        until(lambda: one(browser, "button.main")).click()
        until(lambda: browser.find_elements("css selector", ".stage"))
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        small = "return [...document.querySelectorAll('.board button, .ask, #steer')].some(e => e.offsetHeight < 28)"
        assert not browser.execute_script(small)
        bottom = "return document.querySelector('.acts').getBoundingClientRect().bottom"
        until(lambda: browser.execute_script(bottom) < 844)  # cards, noise and buttons share a screen
        one(browser, ".ask:nth-of-type(3)").click()
        until(lambda: one(browser, ".ask:nth-of-type(3) input").is_selected())
        slider = one(browser, "#steer")
        before = slider.get_attribute("aria-valuetext")
        ActionChains(browser).move_to_element_with_offset(slider, 80, 0).click().perform()
        until(lambda: slider.get_attribute("aria-valuetext") != before)
        next(each for each in browser.find_elements("css selector", ".acts button") if each.text == "Decline").click()
        until(lambda: "Declined: " in text(browser, ".said"))


@pytest.mark.smoke
def test_a_report_that_is_dropped_comes_out_again_or_is_said_not_to(browser, site, tmp_path):
    finish(tmp_path / "run", tmp_path / "ledger.db", make_plan())
    browser.get(site.url + "/verify")
    chooser = until(lambda: browser.find_element("css selector", "input[type=file]"))
    chooser.send_keys(str(tmp_path / "run" / "report.html"))
    shown = lambda: browser.find_element("css selector", "main").text  # noqa: E731
    until(lambda: "matches its embedded evidence" in shown())
    assert "Differences" not in shown()
    with read_ledger(tmp_path / "ledger.db") as books:
        write_bundle(iterate_verified_documents(books), tmp_path / "ledger.bundle", origin="o")
    chooser.send_keys(str(tmp_path / "ledger.bundle"))
    until(lambda: "and the ledger charged for the run" in shown())
    assert [e.text for e in browser.find_elements("css selector", ".kind.recomputed li")][-2:] == [
        "The ledger’s entries",
        "The charge of this run",
    ]
    one(browser, "[aria-label='Remove ledger.bundle']").click()
    until(lambda: "matches its embedded evidence" in shown())
    forged = tmp_path / "forged.json"
    forged.write_text(
        (tmp_path / "run" / "report.json").read_text().replace('"adaptive_clip":false', '"adaptive_clip":true', 1)
    )
    chooser.send_keys(str(forged))
    until(lambda: "Do not rely on this report." in shown())
    assert "The report says True for claim coverage adaptive clip. Its own evidence gives False." in shown()
    assert text(browser, ".answer h2") == "Does not hold"
    (tmp_path / "none.json").write_text("{}")
    chooser.send_keys(str(tmp_path / "none.json"))
    until(lambda: "does not carry" in shown())
    (tmp_path / "key.pem").write_text("-----BEGIN PRIVATE KEY-----")
    chooser.send_keys(str(tmp_path / "key.pem"))
    until(lambda: "It was not sent" in shown())


def test_examples_are_verified_and_kinds_of_evidence_are_told_apart(browser, site):
    browser.get(site.url + "/verify")
    until(lambda: browser.find_elements("css selector", ".offers button"))
    assert site.url.removeprefix("http://") in text(browser, ".where")
    for label, word in (
        ("a report and its ledger", "Would hold"),
        ("an edited report", "Does not hold"),
        ("a report alone", "Cannot tell"),
    ):
        next(b for b in browser.find_elements("css selector", ".offers button") if b.text == label).click()
        until(lambda: text(browser, ".answer h2") == word)  # noqa: B023
        assert text(browser, ".rehearsal").startswith("Rehearsal.")
        looks = browser.execute_script(
            "return [...document.querySelectorAll('.kind')].map(e => { const s = getComputedStyle(e);"
            "return [s.borderTopStyle, s.borderTopColor, s.backgroundImage, e.querySelector('svg').innerHTML] })"
        )
        assert len({tuple(look[:3]) for look in looks}) == len({look[3] for look in looks}) == 3
        for width in (1280, 320):
            with screen(browser, width):
                assert broken_rules(browser) == []
    assert clean(browser) == []


LONG_NAMES = ("acme-international/claims-department", "weekly-retraining-of-the-fraud-model_v12", "x" * 80)


def test_names_break_only_between_their_parts(browser, serve_app, tmp_path):
    with open_ledger(tmp_path / "ledger.db") as ledger:
        ledger.create_budget(LONG_NAMES[0], kind="pure", epsilon="2.123456789", privacy_unit="person")
        ledger.create_budget("lab", kind="pure", epsilon="1", privacy_unit="person", requires_certificate=True)
        for number, name in enumerate(LONG_NAMES[1:], start=1):
            ledger.charge(f"{LONG_NAMES[0]}/{name}", PureDP(0.987654321), key=f"release-number-{number}-of-the-year")
    with serve_app(create_app(ledger=str(tmp_path / "ledger.db"))) as site:
        browser.get(site.url + "/ledger")
        until(lambda: "What would be refused next" in text(browser, "main"))
        unfold(browser, "Every entry")
        unfold(browser, "Every release")
        until(lambda: len(browser.find_elements("css selector", ".scope-name > span")) > 40)
        for width in (320, 390):
            with screen(browser, width):
                broken = browser.execute_script(
                    "return [...document.querySelectorAll('.scope-name > span')]"
                    ".filter(e => e.getClientRects().length !== 1 || e.offsetHeight > 40).map(e => e.textContent)"
                )
                assert broken == []
                cut = browser.execute_script(
                    "return [...document.querySelectorAll('.scope-name > span')]"
                    ".filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"
                )
                assert set(cut) == {LONG_NAMES[2]}, "only a part that fits no line ends in an ellipsis"
                assert browser.execute_script("return document.documentElement.scrollWidth - innerWidth") <= 0
                assert "9876" not in text(browser, "main"), "three digits outside the fold"
        said = text(browser, ".next")
        assert "Another charge like release-number-1-of-the-year: it needs ε 0.988" in said
        next(b for b in browser.find_elements("css selector", ".budgets button") if "lab" in b.text).click()
        until(lambda: "Any charge without a certificate: lab requires one." in text(browser, ".next"))
        browser.get("about:blank")
    assert clean(browser) == []


def test_owners_create_budgets_that_require_certificates(browser, serve_app, tmp_path, fill_ledger):
    with held(browser, serve_app, tmp_path, "owner", fill_ledger) as path:
        part = opened(browser, "Create a budget")
        fill(part, scope="acme/proven", privacy_unit="person", epsilon="1", delta="1e-6")
        part.find_element("css selector", "[name=requires_certificate]").click()
        press(part, "Create the budget")
        until(lambda: "acme/proven is created. It refuses charges without a certificate." in part.text)
        with read_ledger(path) as ledger:
            assert ledger.balance("acme/proven").requires_certificate
    assert clean(browser) == []


def test_owners_require_approvals_and_approve_requests_of_others(browser, serve_app, tmp_path, fill_ledger):
    with held(browser, serve_app, tmp_path, "owner", fill_ledger) as path:
        part = opened(browser, "Create a budget")
        fill(part, scope="acme/reviewed", privacy_unit="person", epsilon="1", delta="1e-6", requires_approvals="one")
        press(part, "Create the budget")
        until(lambda: "acme/reviewed is created" in part.text)
        with open_ledger(path) as ledger:
            request = ledger.on_behalf_of("emil").reserve("acme/reviewed", PureDP(0.25), key="study")
            with pytest.raises(ConflictError):
                request.start()
        part = opened(browser, "Finish a charge")
        fill(part, key="study")
        press(part, "Look up")
        until(lambda: "0 of 1 approvals" in part.text)
        press(part, "Approve")
        until(lambda: "You approved the charge." in part.text and "1 of 1 approvals" in part.text)
        assert "Approve" not in [button.text for button in part.find_elements("css selector", "button")]
        with open_ledger(path) as ledger:
            ledger.find("study").start()
    assert clean(browser) == []


PLAY = """
    const wait = () => new Promise(done => setTimeout(done, 10));
    (async () => {
        while (document.querySelector('.board')) {
            const asks = [...document.querySelectorAll('.asks input')].map(radio => {
                const said = radio.getAttribute('aria-label');
                const [, worth, price] = /worth (\\d+); 19 useful draws of 20 cost ([\\d.]+)%/.exec(said) ?? [, 0, 1];
                return {radio, free: /useful in (over )?(19|18|17)/.test(said), value: worth / price};
            });
            const best = asks.find(each => each.free) ?? asks.reduce((a, b) => (b.value > a.value ? b : a));
            best.radio.click();
            await wait();
            const label = best.free ? 'Hand on' : best.value > 0 ? 'Release' : 'Decline';
            [...document.querySelectorAll('.acts button')].find(each => each.textContent.startsWith(label)).click();
            await wait();
        }
    })()"""


@pytest.mark.parametrize("mode", ["text", "pictures"])
def test_a_whole_shift_ends_with_what_was_learned_and_the_very_calculation(browser, site, mode):
    browser.get(site.url + "/game?v=1&seed=2026-11-23")
    until(lambda: one(browser, "button.main"))
    if mode == "text":
        one(browser, ".option input").click()
    one(browser, "button.main").click()
    until(lambda: browser.find_elements("css selector", "#steer"))
    assert len(browser.find_elements("css selector", ".stage")) == (mode == "pictures")
    browser.execute_script(PLAY)
    until(lambda: browser.find_elements("css selector", ".did"))
    assert broken_rules(browser) == []
    lessons = [each.text for each in browser.find_elements("css selector", ".lessons li")]
    assert [
        bool(re.search(part, each))
        for part, each in zip(["of 48 people", "post-processing", "took"], lessons, strict=True)
    ] == [True] * 3
    assert f"for {text(browser, '.scored b')} points".replace("−", "-") in lessons[0].replace("−", "-")
    one(browser, "details.card summary").click()
    next(each for each in browser.find_elements("css selector", "details.card button") if each.text == "Check").click()
    until(lambda: "This record holds" in text(browser, "details.card [role=status]:not(.hidden)"))
    assert broken_rules(browser) == []
    told = [each.text for each in browser.find_elements("css selector", ".did")]
    assert [each.split(":")[0] for each in told] == [
        "The clinic’s 41 patients",
        "The school’s 312 pupils",
        "The city’s 5,200 riders",
    ]
    charged = [re.search(r"ε ≤ ([\d.]+)", each)[1] for each in told]
    odds = [float(re.search(r"at most ([\d.]+) : 1", each)[1]) for each in told]
    assert all(math.exp(float(e) - 1e-3) <= o <= math.exp(float(e)) + 0.01 for e, o in zip(charged, odds, strict=True))
    for link, epsilon in zip(
        [a.get_attribute("href") for a in browser.find_elements("css selector", ".did a")], charged, strict=True
    ):
        browser.get(link)
        assert (
            float(epsilon) <= float(claim(browser)) <= 1.01 * float(epsilon)
        )  # what the certified accountant says of these releases


def test_sliders_in_a_notebook_show_the_kernels_answer_once_it_is_there(browser, tmp_path):
    module = Path(__file__).parents[2] / "src/epsilog/server/static/notebook/epsilog-notebook.js"
    shutil.copy(module, tmp_path)
    (tmp_path / "page.html").write_text("""<!doctype html><meta charset="utf-8"><title>a notebook</title>
        <main id="cell"></main><script type="module">
        import widget from "./epsilog-notebook.js";
        const run = {population: 50000, cohort_size: 500, rounds: 200, noise_multiplier: 1.2, delta: 1e-6};
        const state = {...run, certified: {}};
        const heard = {};
        window.saved = [];
        window.model = {
            get: name => state[name],
            set: (name, value) => { state[name] = value; (heard[`change:${name}`] ?? []).forEach(tell => tell()); },
            on: (event, tell) => (heard[event] ??= []).push(tell),
            off: (event, tell) => { heard[event] = heard[event].filter(each => each !== tell); },
            save_changes: () => saved.push({...state}),
        };
        window.end = widget.render({model, el: document.querySelector('#cell')});
        window.listening = () => Object.values(heard).flat().length;
        </script>""")
    with foreign(tmp_path) as base:
        browser.get(base + "/page.html")
        quick = float(until(lambda: re.search(r"ε ≤ ([\d.]+)", text(browser, "#cell")))[1])
        assert 0.7228 <= quick < 0.8
        assert "browser bound" in text(browser, "#cell")
        slider = browser.find_elements("css selector", "input[type=range]")[1]
        assert slider.accessible_name == "rounds T"
        slider.send_keys("\ue014")  # to the right: more rounds
        until(lambda: browser.execute_script("return saved.length"))
        rounds = browser.execute_script("return saved.at(-1).rounds")
        assert rounds > 200
        answer = """
            const names = ['population', 'cohort_size', 'rounds', 'noise_multiplier', 'delta'];
            const asked = Object.fromEntries(names.map(name => [name, model.get(name)]));
            const said = {lower: 0.5, upper: 0.77777, closed_form_note: 'Said so.'};
            model.set('certified', {asked: {...asked, ...arguments[0]}, ...said})"""
        browser.execute_script(answer, {"rounds": 200})  # of values that are no longer shown
        assert "Said so." not in text(browser, "#cell")
        browser.execute_script(answer, {})
        until(lambda: "Said so." in text(browser, "#cell"))
        assert "ε ≤ 0.7778" in text(browser, "#cell")
        assert "proven; at least 0.5" in text(browser, "#cell")
        browser.execute_script(AXE.read_text(encoding="utf-8"))
        found = "const done = arguments[0]; axe.run('#cell').then(r => done(r.violations.map(v => v.id)))"
        assert browser.execute_async_script(found) == []
        browser.execute_script("end()")
        assert browser.execute_script("return listening()") == 0


@contextmanager
def foreign(folder):
    """Another site, on another port and so another origin."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.smoke
def test_embeds_on_a_foreign_page(browser, site, tmp_path):
    values = 'population="10000" cohort-size="200" rounds="100" noise-multiplier="1" delta="1e-6"'
    query = "v=1&epsilon=1&queries=10&mechanism=laplace"
    (tmp_path / "page.html").write_text(
        f'<!doctype html><meta charset="utf-8"><script src="{site.url}/embed/epsilog-embed.js"></script>'
        f"<epsilog-federated {values}></epsilog-federated>"
        f'<iframe id="ok" src="{site.url}/embed/queries?{query}" width="900" height="900"></iframe>'
        f'<iframe id="no" src="{site.url}/federated" width="900" height="300"></iframe>'
    )
    with foreign(tmp_path) as base:
        browser.get(base + "/page.html")
        inside = until(lambda: one(browser, "epsilog-federated").shadow_root)
        until(lambda: inside.find_elements("css selector", ".claim b"))
        browser.execute_script("for (const each of arguments[0].querySelectorAll('details')) each.open = true", inside)
        assert "1.09" in until(lambda: inside.find_element("css selector", ".formula").text)
        assert float(inside.find_element("css selector", ".claim b").text) > 1.091  # never without a bound
        browser.switch_to.frame(one(browser, "#ok"))
        assert claim(browser) == "30"  # ln 20 times 10, rounded up
        browser.switch_to.default_content()
        browser.switch_to.frame(one(browser, "#no"))
        assert not browser.find_elements("css selector", "#app")
        browser.switch_to.default_content()


def test_a_copied_frame_takes_the_height_it_needs(browser, site, tmp_path):
    browser.get(site.url + "/federated?v=1&population=20000&delta_cap=")
    claim(browser)
    unfold(browser, "Export")
    unfold(browser, "Embed")
    snippets = [e.get_attribute("textContent") for e in browser.find_elements("css selector", "details pre")]
    assert 'delta-cap=""' in snippets[0]  # a blank that means something is kept
    assert "population=20000" in snippets[1]
    (tmp_path / "page.html").write_text(
        f'<!doctype html><meta charset="utf-8"><style>iframe{{border:0}}</style><p>before</p>{snippets[1]}<p>after</p>'
    )
    with foreign(tmp_path) as base:
        browser.get(base + "/page.html")
        high = until(lambda: (h := int(one(browser, "iframe").get_attribute("height"))) not in (0, 900) and h)
        browser.execute_script("postMessage({epsilog: 'height', v: 1, height: 7}, '*')")  # not from the frame
        browser.switch_to.frame(one(browser, "iframe"))
        claim(browser)
        fits = "return document.documentElement.scrollHeight <= innerHeight + 1"
        until(lambda: browser.execute_script(fits))
        unfold(browser, "ε by round")
        until(lambda: browser.find_elements("css selector", ".plot > svg"))
        until(lambda: browser.execute_script(fits))
        high, before = browser.execute_script("return innerHeight"), high
        assert high > before + 200
        put(browser, "noise_multiplier", "abc")  # the answer goes, its place stays
        until(lambda: text(browser, ".withheld").startswith("–"))
        browser.switch_to.default_content()
        assert abs(int(one(browser, "iframe").get_attribute("height")) - high) < 50


@pytest.mark.parametrize("name", ["federated", "queries"])
def test_a_single_file_works_without_a_server(browser, tmp_path, name):
    path = tmp_path / "calculator.html"
    path.write_text(build_embed_html(name), encoding="utf-8")
    browser.get_log("browser")
    browser.get(path.as_uri())
    inside = until(lambda: one(browser, f"epsilog-{name}").shadow_root)
    number = until(
        lambda: (
            inside.find_elements("css selector", ".claim b") and inside.find_element("css selector", ".claim b").text
        )
    )
    assert float(number) > 0
    assert clean(browser) == []


def test_the_element_of_a_card_computes_it_without_a_server(browser, tmp_path):
    path = tmp_path / "card.html"
    path.write_text(build_embed_html("verdict", {"epsilon": "4", "delta": "1e-5", "theme": "dark"}), encoding="utf-8")
    browser.get_log("browser")
    browser.get(path.as_uri())
    host = until(lambda: one(browser, "epsilog-verdict"))
    card = until(lambda: host.shadow_root.find_element("css selector", ".verdict-card"))
    assert "at most 546 of 1,000 people" in card.text
    assert browser.execute_script(BACKGROUND, card) == DARK
    browser.execute_script("arguments[0].setAttribute('epsilon', '1')", host)
    until(lambda: "546" not in host.shadow_root.find_element("css selector", ".verdict-card h2").text)
    browser.execute_script("arguments[0].setAttribute('epsilon', 'x')", host)
    until(lambda: "needs a number" in host.shadow_root.find_element("css selector", ".empty").text)
    assert clean(browser) == []


def slow_app():
    """Every answer takes a second and a half longer."""
    app = create_app()

    @app.middleware("http")
    async def slow(request, call_next):
        import asyncio

        if request.url.path.startswith("/api/"):
            await asyncio.sleep(1.5)
        return await call_next(request)

    return app


@pytest.mark.smoke
def test_a_number_never_stands_beside_another_question(browser, serve_app):
    """The browser cannot price balls-in-bins: until the server does, the old number keeps the words it came with."""
    with serve_app(slow_app()) as site:
        browser.get(site.url + "/federated")
        first = claim(browser)
        unfold(browser, "Sampling")
        one(browser, "[name=sampling]").send_keys("balls")
        one(browser, "[name=relation]").send_keys("zero")
        until(lambda: browser.find_elements("css selector", ".results.busy"))
        number, beside = until(lambda: browser.execute_script(CLAIMED))
        assert (number == first) == ("add or remove one" in beside)
        until(lambda: "zero out" in text(browser, ".beside"))
        assert float(text(browser, ".claim b")) > 1.5 * float(first)


def test_a_slow_and_a_dead_server(browser, serve_app):
    with serve_app(slow_app()) as site:
        browser.get(site.url + "/federated")
        quick = until(lambda: text(browser, ".claim b"), 1.4)  # the browser's own bound does not wait
        assert "preliminary" in text(browser, ".refining")
        for value in ("3", "4", "5"):  # stale answers are dropped
            put(browser, "noise_multiplier", value)
        assert float(claim(browser)) < float(quick)
        assert one(browser, "[name=noise_multiplier]").get_attribute("value") == "5"
        browser.get(site.url + "/queries?v=1&mechanism=laplace&delta=1e-6")
        quick = until(lambda: text(browser, ".claim b"), 1.4)
        assert "needs the server" in text(browser, ".results")
        assert float(claim(browser)) < float(quick)
    put(browser, "epsilon", "0.5")
    until(lambda: "The server does not answer" in text(browser, ".results"))
    assert not browser.find_elements("css selector", ".claim")
    assert one(browser, "[name=epsilon]").get_attribute("value") == "0.5"


@pytest.mark.parametrize("page", ["index.html"])
def test_the_docs_open_cleanly_and_pass_axe(browser, site, monkeypatch, tmp_path_factory, page):
    monkeypatch.setattr(pages, "DOCS", built_in(tmp_path_factory))
    browser.get_log("browser")
    for width in (1280, 390):
        with screen(browser, width):
            browser.get(f"{site.url}/docs/{page}")
            assert broken_rules(browser) == []
    assert clean(browser) == []


@pytest.mark.smoke
def test_a_report_proves_its_bound_when_it_is_opened_from_a_file(browser, tmp_path):
    """Without a server; a page that shows another relation, or another certificate, says that it proves nothing."""
    from tests.reports.drawn import finish, make_plan

    finish(tmp_path / "run", tmp_path / "ledger.db", make_plan())
    page = (tmp_path / "run" / "report.html").read_text()
    delta = '"delta":"9.99'
    altered = {
        "proven": (page, "passed", "Proven in this page"),
        "relation": (page.replace("<td>add-or-remove-one</td>", "<td>zero-out</td>"), "failed", "something else"),
        "claim": (page.replace("&#34;delta&#34;:&#34;9.99", "&#34;delta&#34;:&#34;0.99", 1), "failed", "prove"),
    }
    assert delta in page.replace("&#34;", '"')
    for name, (content, style, words) in altered.items():
        assert name == "proven" or content != page
        (tmp_path / f"{name}.html").write_text(content)
        browser.get((tmp_path / f"{name}.html").as_uri())
        until(lambda: one(browser, "#proof").get_attribute("class") in ("passed", "failed"))
        assert one(browser, "#proof").get_attribute("class") == style, name
        assert words in one(browser, "#said").get_attribute("textContent"), name


# ---- the verdict card ------------------------------------------------------------------------------------------------


def card(driver):
    """The verdict card, once its figures are settled."""
    return until(lambda: one(driver, ".verdict-card[aria-busy=false]"))


def open_all(driver):
    driver.execute_script("document.querySelectorAll('details').forEach(each => each.open = true)")


def test_a_verdict_card_is_the_librarys_and_its_hash_is_of_its_text(browser, site):
    from epsilog.plan import build_card

    browser.get(site.url + "/verdict?v=1&epsilon=2&delta=1e-6&prior=0.01&date=2026-11-28")
    shown, told = card(browser).text, build_card(epsilon=2.0, delta=1e-6, prior=0.01, date="2026-11-28")
    assert f"at most {told.found} of 1,000 people" in " ".join(shown.split())
    assert "far less" in shown
    open_all(browser)
    body, hashed = text(browser, "details pre").split("SHA-256 ")
    assert body.strip() == told.text.strip()
    assert hashed == hashlib.sha256(told.text.encode()).hexdigest() == told.sha256
    assert one(browser, ".verdict-card code").get_attribute("title") == hashed
    dots = "return [...document.querySelectorAll('figure:first-child path')].map(path => path.outerHTML)"
    assert [path.count("h0") for path in browser.execute_script(dots)] == [10, told.found - 10, 1000 - told.found]


def test_a_marked_field_has_no_card_and_the_next_has_its_own(browser, site):
    browser.get(site.url + "/verdict")
    assert "546 of 1,000" in card(browser).text
    put(browser, "epsilon", "abc")
    one(browser, "[name=delta]").click()
    until(lambda: "waiting" in one(browser, ".verdict-card").get_attribute("class"))
    assert "1,000" not in text(browser, ".verdict-card")
    assert one(browser, "[name=epsilon]").get_attribute("aria-invalid") == "true"
    put(browser, "epsilon", "0.05")
    until(lambda: "Hardly better than guessing" in card(browser).text)
    assert "epsilon=0.05" in until(lambda: "epsilon=0.05" in browser.current_url and browser.current_url)
    put(browser, "epsilon", "30")
    until(lambda: "nearly every person" in card(browser).text)
    assert "100%" not in card(browser).text


def test_a_dropped_report_becomes_a_card_with_its_curve_and_a_banner(browser, site, tmp_path):
    from epsilog.plan.questions import VerdictQuestion
    from epsilog.reports import read_card_question

    finish(tmp_path / "run", tmp_path / "ledger.db", make_plan())
    file = tmp_path / "run" / "report.json"
    browser.get_log("browser")
    browser.get(site.url + "/verdict")
    card(browser)
    one(browser, "input[type=file]").send_keys(str(file))
    until(lambda: "schools" in card(browser).text)
    told = VerdictQuestion.parse(read_card_question(file.read_bytes()) | {"date": "2026-11-28"}).answer()
    for address in (browser.current_url, browser.current_url + "&date=2026-11-28"):
        browser.get(address)  # all of it is in the address
        shown = " ".join(card(browser).text.split())
        assert f"at most {told['found']} of 1,000 schools" in shown
        assert f"{told['leaked']} more if the participation list leaks" in shown
        assert shown.startswith("Rehearsal. Seeded noise protects nobody")
        assert "From the mechanism’s full curve." in shown
        assert "far less" not in shown
    open_all(browser)
    lines = text(browser, "details pre").splitlines()
    report = next(line for line in lines if line.startswith("From a report"))
    assert hashlib.sha256(file.read_bytes()).hexdigest() in report
    verdict = next(line for line in lines if line.startswith("Verdict on the report"))
    assert verdict.endswith(("Cannot tell.", "word."))  # without its ledger it cannot tell
    until(lambda: one(browser, ".origin button")).click()
    until(lambda: "546 of 1,000" in card(browser).text or "at most" in card(browser).text)
    assert not browser.find_elements("css selector", ".rehearsal")
    assert clean(browser) == []


def test_a_report_that_does_not_hold_has_no_card(browser, site, tmp_path):
    finish(tmp_path / "run", tmp_path / "ledger.db", make_plan())
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    report["mechanism"]["noise_stddev"] *= 2
    (tmp_path / "spoilt.json").write_text(json.dumps(report))
    browser.get(site.url + "/verdict")
    card(browser)
    for content, says in ((None, "This report does not hold"), ("{}", "This is no report")):
        if content is not None:
            (tmp_path / "spoilt.json").write_text(content)
        one(browser, "input[type=file]").send_keys(str(tmp_path / "spoilt.json"))
        until(lambda says=says: says in text(browser, "main"))
        assert "people" in card(browser).text, "the card that was there"


BACKGROUND = "return getComputedStyle(arguments[0]).backgroundColor"
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(27, 32, 36)"


def test_a_frame_takes_theme_and_accent_and_keeps_its_height(browser, site, tmp_path):
    source = f"{site.url}/embed/verdict?v=1&amp;epsilon=1&amp;delta=0"
    frames = {
        "dark": "theme=dark&amp;accent=%23ffee00",
        "light": "theme=light&amp;accent=%23ffee00",
        "bad": "accent=url(x)",
    }
    browser.get(site.url + "/verdict?v=1&epsilon=1&delta=0")
    card(browser)
    open_all(browser)
    snippet = browser.find_elements("css selector", "details pre")[-1].get_attribute("textContent")
    body = "".join(
        f'<iframe id="{name}" src="{source}&amp;{query}" width="700"></iframe>' for name, query in frames.items()
    )
    (tmp_path / "page.html").write_text(f'<!doctype html><meta charset="utf-8">{snippet}{body}')
    with foreign(tmp_path) as base:
        browser.get(base + "/page.html")
        until(lambda: int(one(browser, "iframe[data-epsilog]").get_attribute("height")) not in (0, 900))
        claims = {}
        for name, background in (("dark", DARK), ("light", LIGHT), ("bad", LIGHT)):
            browser.switch_to.frame(one(browser, f"#{name}"))
            assert browser.execute_script(BACKGROUND, card(browser)) == background
            claims[name] = browser.execute_script(
                "return getComputedStyle(document.querySelector('.published circle')).fill"
            )
            browser.switch_to.default_content()
        assert claims["dark"] == "rgb(255, 238, 0)", "readable there as it is"
        assert claims["light"] not in ("rgb(255, 238, 0)", claims["bad"]), "made darker"
        assert claims["bad"] == "rgb(11, 93, 90)", "what is no color changes nothing"
        browser.switch_to.frame(one(browser, "iframe[data-epsilog]"))
        fits = "return document.documentElement.scrollHeight <= innerHeight + 1"
        until(lambda: browser.execute_script(fits))
        browser.switch_to.default_content()


def test_an_element_takes_theme_and_accent_and_follows_them(browser, site, tmp_path):
    (tmp_path / "page.html").write_text(
        f'<!doctype html><meta charset="utf-8"><script src="{site.url}/embed/epsilog-embed.js"></script>'
        '<epsilog-federated theme="dark" accent="#ffee00"></epsilog-federated>'
    )
    with foreign(tmp_path) as base:
        browser.get(base + "/page.html")
        host = until(lambda: one(browser, "epsilog-federated"))
        inside = host.shadow_root
        shown = until(lambda: inside.find_element("css selector", ".card"))
        assert browser.execute_script(BACKGROUND, shown) == DARK
        assert "rgb(255, 238, 0)" in browser.execute_script(
            "return getComputedStyle(arguments[0]).color", until(lambda: inside.find_element("css selector", ".claim"))
        )
        browser.execute_script("arguments[0].setAttribute('theme', 'light')", host)
        until(lambda: browser.execute_script(BACKGROUND, shown) == LIGHT)


def test_a_card_prints_on_one_sheet(browser, site):
    browser.get(site.url + "/verdict?v=1&epsilon=4&delta=1e-5&simulation=yes")
    card(browser)
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": True})
    assert len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed["data"]))) == 1
