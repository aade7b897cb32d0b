"""The page that checks a certificate, in a real Chromium: with the standalone checker, without the server."""

import hashlib
import json
from pathlib import Path

import pytest
from tests.reports.drawn import finish, make_plan
from tests.server.test_browser import SHIFTS, broken_rules, browser, clean, one, screen, text, unfold, until  # noqa: F401

from epsilog.certificates import describe_claim, find_checker
from epsilog.server import create_app

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "checker"
PROVEN = EXAMPLES / "proven" / "198.json"
ANSWERS = {"Proven", "Not proven", "This is no certificate"}


def press(driver, label):
    buttons = until(lambda: driver.find_elements("css selector", ".certificate button"))
    next(button for button in buttons if button.text == label).click()


def answer(driver):
    """The answer in large letters, once there is one."""
    return until(
        lambda: not driver.find_elements("css selector", ".answer[aria-busy=true]") and text(driver, ".answer h2")
    )


def show(driver, file):
    """Chooses a file; the answer to it, which differs from the one before."""
    driver.execute_script("for (const each of document.querySelectorAll('.answer h2')) each.textContent = ''")
    until(lambda: one(driver, ".certificate input[type=file]")).send_keys(str(file))
    return answer(driver)


def paste(driver, content):
    """Pastes as the clipboard does: the page sees the text, then the field has it unless the page prevents that."""
    driver.execute_script(
        """const field = document.querySelector('#pasted'), data = new DataTransfer();
        data.setData('text', arguments[0]);
        field.focus();
        const event = new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true});
        if (field.dispatchEvent(event)) {
            field.value = arguments[0];
            field.dispatchEvent(new InputEvent('input', {bubbles: true}));
        }""",
        content,
    )


@pytest.mark.smoke
def test_an_example_is_proven_an_altered_one_is_not_and_the_server_hears_of_neither(browser, serve_app, tmp_path):  # noqa: F811
    app, asked = create_app(), []

    @app.middleware("http")
    async def note(request, call_next):
        asked.append(request.url.path)
        return await call_next(request)

    browser.get_log("browser")
    with serve_app(app) as site:
        browser.get(site.url + "/certificate")
        until(lambda: asked.count("/checker/dp_certificate.mjs") >= 2)  # it is imported, and hashed
        press(browser, "A proven claim")
        until(lambda: answer(browser) == "Proven")
        loaded = list(asked)
        claim = json.loads(PROVEN.read_text())["claim"]
        told = text(browser, ".answer")
        assert f"ε is at most {claim['epsilon']} at δ = {claim['delta']}, for " in told
        cells = [row.find_elements("css selector", "td") for row in browser.find_elements("css selector", "tbody tr")]
        assert [tuple(cell.text for cell in row) for row in cells] == describe_claim(claim)
        shown = text(browser, "main")
        assert "That a run used these parameters" in shown
        assert hashlib.sha256(PROVEN.read_bytes().strip()).hexdigest() in shown
        assert hashlib.sha256(find_checker("dp_certificate.mjs").read_bytes()).hexdigest() in shown
        press(browser, "The same with a smaller ε")
        until(lambda: answer(browser) == "Not proven")
        assert f"times the claimed {claim['delta']}" in text(browser, ".answer")
        assert "What is not proven" not in text(browser, "main")
        (tmp_path / "large.json").write_bytes(PROVEN.read_bytes() * 20_000)
        assert (tmp_path / "large.json").stat().st_size > 1e7
        assert show(browser, tmp_path / "large.json") == "This is no certificate"
        assert "the file is larger than 65536 bytes" in text(browser, ".answer")
        assert show(browser, PROVEN) == "Proven"
        assert asked == loaded
        browser.get("about:blank")
    assert clean(browser) == []


REFUSED = {
    "binary": bytes(range(256)) * 20,
    "page": b"<!doctype html><title>a report</title>",
    "number": b"1",
    "nested": b'{"format":"dp-certificate/1","claim":' * 1700,
    "lists": b"[" * 60_000,
    "twice": PROVEN.read_bytes().replace(b'"group":1', b'"group":1,"group":1'),
    "blanks": PROVEN.read_bytes().replace(b":", b": "),
    "mark": b"\xef\xbb\xbf" + PROVEN.read_bytes(),
}


def test_bad_input_is_refused_with_a_reason_and_the_page_goes_on(browser, site, tmp_path):  # noqa: F811
    browser.get_log("browser")
    browser.get(site.url + "/certificate")
    for name, content in REFUSED.items():
        (tmp_path / name).write_bytes(content)
        assert show(browser, tmp_path / name) in ANSWERS - {"Proven"}, name
        assert any(word in text(browser, ".answer") for word in ("reason: ", "refuses it: ")), name
        assert browser.find_elements("css selector", ".checked table") == [], name
    (tmp_path / "empty").write_bytes(b"")
    assert show(browser, tmp_path / "empty") == "This is no certificate"
    for file in sorted((EXAMPLES / "refused").glob("*.json"))[::25]:
        assert show(browser, file) in ANSWERS - {"Proven"}, file.name
    paste(browser, "x" * 10_000_000)
    until(lambda: "larger than 65536 bytes" in text(browser, ".answer"))
    assert one(browser, "#pasted").get_attribute("value") == ""
    paste(browser, f"\n  {PROVEN.read_text()}\n")
    until(lambda: answer(browser) == "Proven")
    assert clean(browser) == []


def test_a_link_carries_a_certificate(browser, site):  # noqa: F811
    browser.get(site.url + "/certificate")
    press(browser, "A proven claim")
    until(lambda: answer(browser) == "Proven")
    browser.execute_script("navigator.clipboard.writeText = async text => { window.copied = text; }")
    press(browser, "Copy link with the certificate")
    link = until(lambda: browser.execute_script("return window.copied"))
    assert link.startswith(site.url + "/certificate#")
    browser.get("about:blank")
    browser.get(link)
    until(lambda: answer(browser) == "Proven")
    assert one(browser, "#pasted").get_attribute("value") == PROVEN.read_text().strip()
    press(browser, "The same with a smaller ε")
    until(lambda: answer(browser) == "Not proven")
    assert browser.current_url == site.url + "/certificate"  # it no longer carries the other


@pytest.mark.parametrize(
    "page",
    [
        "/federated",
        "/queries?v=1&mechanism=gaussian&delta=1e-6",
        "/queries?v=1&mechanism=laplace&delta=1e-6",
        "/playground?v=1&mix=gaussian:1::0.01:1000|laplace:10:::5",
    ],
)
def test_a_calculator_gives_a_certificate_of_what_it_shows(browser, site, page):  # noqa: F811
    browser.get_log("browser")
    browser.get(site.url + page)
    unfold(browser, "very digit")
    until(lambda: one(browser, ".certified button:not(:disabled)")).click()
    until(lambda: "The certificate proves that ε is at most" in text(browser, ".certified"))
    assert broken_rules(browser) == []
    said = text(browser, ".certified")
    shown = float(text(browser, ".claim b")) if "ε" in text(browser, ".claim") else 1.0  # the budget of queries
    browser.get_log("browser")
    one(browser, ".certified a").click()
    until(lambda: answer(browser) == "Proven")
    proven = text(browser, "tbody tr td:last-child")
    assert f"at most {proven}," in said
    assert shown * 0.999 <= float(proven) <= shown * 1.01
    assert clean(browser) == []


def test_a_calculator_names_what_no_certificate_covers(browser, site):  # noqa: F811
    browser.get(site.url + "/playground?v=1&mix=laplace:2::0.1:10&relation=replace-one&delta=1e-6")
    unfold(browser, "very digit")
    until(lambda: one(browser, ".certified button:not(:disabled)")).click()
    until(lambda: "No certificate: " in text(browser, ".certified"))
    assert "not covered: such a sample" in text(browser, ".certified")
    browser.get(site.url + "/queries?v=1&mechanism=laplace&delta=")
    unfold(browser, "very digit")
    until(lambda: one(browser, ".certified button:not(:disabled)")).click()
    until(lambda: "The certificate proves that ε is at most" in text(browser, ".certified"))  # pure DP, without delta


def test_verify_checks_a_certificate_here_and_compares_it_with_a_report(browser, serve_app, tmp_path):  # noqa: F811
    finish(tmp_path / "run", tmp_path / "ledger.db", make_plan())
    app, asked = create_app(), []

    @app.middleware("http")
    async def note(request, call_next):
        asked.append((request.method, request.url.path))
        return await call_next(request)

    with serve_app(app) as site:
        browser.get(site.url + "/verify")
        chooser = until(lambda: one(browser, "input[type=file]"))
        chooser.send_keys(str(tmp_path / "run" / "certificate.json"))
        until(lambda: answer(browser) == "Proven")
        assert "certificate.json (certificate)" in text(browser, ".given")
        assert "POST" not in {method for method, _ in asked}
        for report in ("report.json", "report.html"):
            chooser.send_keys(str(tmp_path / "run" / report))
            until(lambda: "The report carries this certificate." in text(browser, "main"))
            until(lambda: "matches its embedded evidence" in text(browser, "main"))
            one(browser, f"[aria-label='Remove {report}']").click()
        chooser.send_keys(str(PROVEN))
        chooser.send_keys(str(tmp_path / "run" / "report.json"))
        until(lambda: "The report carries another certificate." in text(browser, "main"))
        assert broken_rules(browser) == []
        browser.find_element("css selector", f"[aria-label='Remove {PROVEN.name}']").click()
        until(lambda: browser.find_element("link text", "See what its certificate proves")).click()
        until(lambda: answer(browser) == "Proven")
        certificate = (tmp_path / "run" / "certificate.json").read_text()
        assert one(browser, "#pasted").get_attribute("value") == certificate.strip()
        browser.get("about:blank")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_answer_fits_four_widths_and_passes_axe(browser, site, scheme, tmp_path):  # noqa: F811
    long = json.loads(PROVEN.read_text())
    long["claim"]["epsilon"] = "2" + "0" * 39 + "." + "1" * 60
    (tmp_path / "long.json").write_text(json.dumps(long, separators=(",", ":")))
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SHIFTS})
    try:
        for width in (320, 390, 640, 1280):
            with screen(browser, width):
                browser.get(site.url + "/certificate")
                until(lambda: browser.find_elements("css selector", "#pasted"))
                assert broken_rules(browser) == []
                for label, wanted in (("A proven claim", "Proven"), ("The same with a smaller ε", "Not proven")):
                    press(browser, label)
                    until(lambda: answer(browser) == wanted)  # noqa: B023
                    assert broken_rules(browser) == [], (width, label)
                assert browser.execute_script("return window.shifted") < 0.05
                assert show(browser, tmp_path / "long.json") in ANSWERS
                assert broken_rules(browser) == [], width
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
