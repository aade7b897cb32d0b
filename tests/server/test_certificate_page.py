"""The page that checks a certificate, in a real Chromium: with the standalone checker, without the server."""

import hashlib
import json
from pathlib import Path

import pytest
from tests.reports.drawn import finish, make_plan
from tests.server.browsing import (
    SHIFTS,
    broken_rules,
    button,
    clean,
    every,
    media,
    one,
    screen,
    scripted,
    shows,
    text,
    unfold,
    until,
    value_of,
)

from epsilog.certificates import describe_claim, find_checker

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "checker"
PROVEN = EXAMPLES / "proven" / "198.json"
ANSWERS = {"Proven", "Not proven", "This is no certificate"}


def press(driver, label):
    button(driver, label, ".certificate button").click()


def answer(driver):
    """The answer in large letters, once there is one."""
    return until(lambda: not every(driver, ".answer[aria-busy=true]") and text(driver, ".answer h2"))


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
def test_an_example_is_proven_an_altered_one_is_not_and_the_server_hears_of_neither(browser, site, tmp_path):
    browser.get_log("browser")
    begun = len(site.asked)
    browser.get(site.url + "/certificate")
    checker = ("GET", "/checker/dp_certificate.mjs")
    until(lambda: site.asked[begun:].count(checker) >= 2)  # it is imported, and hashed
    press(browser, "A proven claim")
    until(lambda: answer(browser) == "Proven")
    loaded = list(site.asked)
    claim = json.loads(PROVEN.read_text())["claim"]
    told = text(browser, ".answer")
    assert f"ε is at most {claim['epsilon']} at δ = {claim['delta']}, for " in told
    cells = [every(row, "td") for row in every(browser, "tbody tr")]
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
    assert site.asked == loaded
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


def test_bad_input_is_refused_with_a_reason_and_the_page_goes_on(browser, site, tmp_path):
    browser.get_log("browser")
    browser.get(site.url + "/certificate")
    for name, content in REFUSED.items():
        (tmp_path / name).write_bytes(content)
        assert show(browser, tmp_path / name) in ANSWERS - {"Proven"}, name
        assert any(word in text(browser, ".answer") for word in ("reason: ", "refuses it: ")), name
        assert every(browser, ".checked table") == [], name
    (tmp_path / "empty").write_bytes(b"")
    assert show(browser, tmp_path / "empty") == "This is no certificate"
    for file in sorted((EXAMPLES / "refused").glob("*.json"))[::25]:
        assert show(browser, file) in ANSWERS - {"Proven"}, file.name
    paste(browser, "x" * 10_000_000)
    shows(browser, "larger than 65536 bytes", ".answer")
    assert value_of(browser, "#pasted") == ""
    paste(browser, f"\n  {PROVEN.read_text()}\n")
    until(lambda: answer(browser) == "Proven")
    assert clean(browser) == []


def test_a_link_carries_a_certificate(browser, site):
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
    assert value_of(browser, "#pasted") == PROVEN.read_text().strip()
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
def test_a_calculator_gives_a_certificate_of_what_it_shows(browser, site, page):
    browser.get_log("browser")
    browser.get(site.url + page)
    unfold(browser, "very digit")
    until(lambda: one(browser, ".certified button:not(:disabled)")).click()
    shows(browser, "The certificate proves that ε is at most", ".certified")
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


def test_a_calculator_names_what_no_certificate_covers(browser, site):
    browser.get(site.url + "/playground?v=1&mix=laplace:2::0.1:10&relation=replace-one&delta=1e-6")
    unfold(browser, "very digit")
    until(lambda: one(browser, ".certified button:not(:disabled)")).click()
    shows(browser, "No certificate: ", ".certified")
    assert "not covered: such a sample" in text(browser, ".certified")
    browser.get(site.url + "/queries?v=1&mechanism=laplace&delta=")
    unfold(browser, "very digit")
    until(lambda: one(browser, ".certified button:not(:disabled)")).click()
    shows(browser, "The certificate proves that ε is at most", ".certified")  # pure DP, without delta


def test_verify_checks_a_certificate_here_and_compares_it_with_a_report(browser, site, tmp_path):
    finish(tmp_path / "run", tmp_path / "ledger.db", make_plan())
    begun = len(site.asked)
    browser.get(site.url + "/verify")
    chooser = until(lambda: one(browser, "input[type=file]"))
    chooser.send_keys(str(tmp_path / "run" / "certificate.json"))
    until(lambda: answer(browser) == "Proven")
    assert "certificate.json (certificate)" in text(browser, ".given")
    assert "POST" not in {method for method, _ in site.asked[begun:]}
    for report in ("report.json", "report.html"):
        chooser.send_keys(str(tmp_path / "run" / report))
        shows(browser, "The report carries this certificate.")
        shows(browser, "matches its embedded evidence")
        one(browser, f"[aria-label='Remove {report}']").click()
    chooser.send_keys(str(PROVEN))
    chooser.send_keys(str(tmp_path / "run" / "report.json"))
    shows(browser, "The report carries another certificate.")
    assert broken_rules(browser) == []
    one(browser, f"[aria-label='Remove {PROVEN.name}']").click()
    until(lambda: browser.find_element("link text", "See what its certificate proves")).click()
    until(lambda: answer(browser) == "Proven")
    assert value_of(browser, "#pasted") == (tmp_path / "run" / "certificate.json").read_text().strip()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_answer_fits_four_widths_and_passes_axe(browser, site, scheme, tmp_path):
    long = json.loads(PROVEN.read_text())
    long["claim"]["epsilon"] = "2" + "0" * 39 + "." + "1" * 60
    (tmp_path / "long.json").write_text(json.dumps(long, separators=(",", ":")))
    with media(browser, "prefers-color-scheme", scheme), scripted(browser, SHIFTS):
        for width in (320, 390, 640, 1280):
            with screen(browser, width):
                browser.get(site.url + "/certificate")
                until(lambda: every(browser, "#pasted"))
                assert broken_rules(browser) == []
                for label, wanted in (("A proven claim", "Proven"), ("The same with a smaller ε", "Not proven")):
                    press(browser, label)
                    until(lambda: answer(browser) == wanted)  # noqa: B023
                    assert broken_rules(browser) == [], (width, label)
                assert browser.execute_script("return window.shifted") < 0.05
                assert show(browser, tmp_path / "long.json") in ANSWERS
                assert broken_rules(browser) == [], width
