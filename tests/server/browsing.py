"""A Chromium, and what a visitor does and sees in it."""

import http.server
import shutil
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from epsilog.server import pages

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = (
    *("/", *(f"/{name}" for name in pages.PAGE_NAMES), "/runs/exam-scores-1"),
    *(f"/embed/{name}" for name in pages.EMBED_NAMES),
)
SWITCHES = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --window-size=1280,900"
)
RIGHT, LEFT, ENTER, TAB, CONTROL, DELETE = "\ue014", "\ue012", "\ue007", "\ue004", "\ue009", "\ue017"


def start_browser(profile):
    """A Chromium that keeps what it keeps in this folder."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for switch in (*SWITCHES.split(), f"--user-data-dir={profile}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


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


def every(driver, css):
    return driver.find_elements("css selector", css)


def text(driver, css="main"):
    return one(driver, css).text


def shows(driver, words, css="main"):
    """Waits until words stand in a place."""
    return until(lambda: words in text(driver, css))


def settled(driver, css=".claim b, h2.lead-in, .example .risk b"):
    """The first result of a page, once the server's answer stands there."""
    return until(lambda: not every(driver, ".results.busy, .refining") and text(driver, css))


def claim(driver):
    """The headline number of a page that has settled."""
    return settled(driver, ".claim b")


def card(driver):
    """The verdict card, once its figures are settled."""
    return until(lambda: one(driver, ".verdict-card[aria-busy=false]"))


def put(driver, name, value):
    """Types into a field as a person does."""
    field = until(lambda: one(driver, f"[name={name}]"))
    field.send_keys(CONTROL, "a")
    field.send_keys(value or DELETE)
    return field


def fill(part, **values):
    """Types into the fields of one form."""
    for name, value in values.items():
        put(part, name, value)


def button(driver, label, css="button"):
    return until(lambda: next(each for each in every(driver, css) if each.text == label))


def press(part, label, css="button"):
    """A button, by keyboard."""
    button(part, label, css).send_keys(ENTER)


def value_of(driver, css):
    return one(driver, css).get_attribute("value")


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


@contextmanager
def media(driver, name, value):
    """Pages for a visitor who prefers this: a color scheme, less motion."""
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": name, "value": value}]})
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@contextmanager
def scripted(driver, script):
    """Pages that run a script of the test's own before theirs."""
    added = driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


@contextmanager
def held_back(driver):
    """The page's further questions wait for the end of the block."""
    driver.execute_script(
        "const real = fetch; window.hold = new Promise(done => window.release = done);"
        "window.fetch = (...all) => window.hold.then(() => real(...all))"
    )
    yield
    driver.execute_script("window.release()")


DRAWN = """
    const said = document.querySelector('main')?.innerText ?? '';
    return said && !/(Loading|Reading|Computing)…/.test(said)
        && !document.querySelector('[aria-busy=true], .busy, .refining');
"""


def drawn(driver):
    """A page that has drawn its answers, if it has any."""
    until(lambda: driver.execute_script(DRAWN))


def filled(driver, path):
    """A page that has drawn its answers, the front page also its example, which is loaded after it."""
    if path == "/":
        settled(driver)
    drawn(driver)


def broken_rules(driver, place="document"):
    """The rules of axe that the page breaks, WCAG 2.2 AA with target sizes; it must not scroll sideways, either.

    Of a part of a page, as ``'#cell'``, without target sizes.
    """
    assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    driver.execute_script(AXE.read_text(encoding="utf-8"))
    sizes = "{rules: {'target-size': {enabled: true}}}" if place == "document" else "{}"
    found = driver.execute_async_script(f"axe.run({place}, {sizes}).then(arguments[0])")
    assert len(found["passes"]) > 10 or place != "document"
    return [(v["id"], [n["html"][:120] for n in v["nodes"][:3]]) for v in found["violations"]]


def unfit(driver, *widths):
    """The rules that a page breaks at these widths."""
    found = []
    for width in widths:
        with screen(driver, width):
            found += broken_rules(driver)
    return found


SHIFTS = """
    window.shifted = 0;
    new PerformanceObserver(list => {
        for (const each of list.getEntries()) if (!each.hadRecentInput) window.shifted += each.value;
    }).observe({type: 'layout-shift', buffered: true});
"""


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
