"""How long after an edit a page shows its first number, and when the server has settled it, in a browser.

    python bench/answers.py [--edits 60]

Chromium, headless, on the server of ``bench/pages.py``. An edit puts another number into a field, all at once, and the
next comes when the page has settled. Times are the page's own, from the event of the edit to the change of the page; it
is seen with the next frame, up to 17 ms later.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # as a script or as a module
from pages import PORT, server

PAGES = {  # its fields, where the number stands, and what begins the line under it once it is the server's
    "/": (".live .slider:nth-of-type({place}) input[type=text]", ".live .claim b", ".live .beside", "proven"),
    "/federated": ("[name={name}]", ".results .claim b", ".results .beside", "proven"),
}
WATCH = """
const [number, beside, sure] = arguments;
const text = (where) => document.querySelector(where)?.textContent ?? "";
window.edit = null;
document.addEventListener("input", () => {
  window.edit = { begun: performance.now(), before: text(number), first: null, settled: null };
}, true);
new MutationObserver(() => {
  const edit = window.edit;
  if (!edit || edit.settled !== null) return;
  const after = performance.now() - edit.begun;
  if (edit.first === null && text(number) && text(number) !== edit.before) edit.first = after;
  if (edit.first !== null && text(beside).startsWith(sure)) edit.settled = after;
}).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
"""


def edits(number: int) -> list[tuple[str, str]]:
    """Fields and what to put into them."""
    dice = random.Random(7)
    values = {
        "noise_multiplier": lambda: f"{dice.uniform(0.7, 3.0):.4f}",
        "rounds": lambda: str(dice.randrange(50, 2000)),
        "cohort_size": lambda: str(dice.randrange(100, 1000)),
    }
    return [(name, values[name]()) for name in (list(values) * number)[:number]]


def measured(browser: object, path: str, number: int) -> tuple[list[float], list[float]]:
    """Milliseconds to the first number, and to the settled one."""
    from selenium.webdriver.common.keys import Keys

    browser.get(f"http://127.0.0.1:{PORT}{path}")  # type: ignore[attr-defined]
    fields, where, beside, sure = PAGES[path]

    def ask(script: str, *given: str) -> object:
        return browser.execute_script(script, *given)  # type: ignore[attr-defined]

    def until(script: str, *given: str) -> object:
        end = time.monotonic() + 60
        while not (found := ask(script, *given)):
            if time.monotonic() > end:
                raise SystemExit(f"{path} does not settle")
            time.sleep(0.02)
        return found

    until("return document.querySelector(arguments[0])?.textContent.startsWith(arguments[1])", beside, sure)
    time.sleep(2)  # what comes with the page
    ask(WATCH, where, beside, sure)
    first, settled = list[float](), list[float]()
    for i, (name, value) in enumerate(edits(number)):
        field = browser.find_element("css selector", fields.format(name=name, place=i % 3 + 1))  # type: ignore[attr-defined]
        field.send_keys(Keys.CONTROL, "a")
        browser.execute_cdp_cmd("Input.insertText", {"text": value})  # type: ignore[attr-defined]
        found = until("return window.edit?.settled ? window.edit : null")
        first.append(found["first"])  # type: ignore[index]
        settled.append(found["settled"])  # type: ignore[index]
        ask("window.edit = null")
        time.sleep(0.1)
    return first, settled


def main() -> None:
    """Prints a row for each page."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    asked = argparse.ArgumentParser()
    asked.add_argument("--edits", type=int, default=60)
    number = asked.parse_args().edits
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, server(Path(folder)):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for switch in ("headless=new", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking"):
            options.add_argument(f"--{switch}")
        options.add_argument(f"--user-data-dir={folder}/profile")
        browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            print(json.dumps({"chromium": browser.capabilities["browserVersion"], "python": sys.version.split()[0]}))
            print("| page | edits | first number: p50 | p95 | worst | settled: p50 | p95 | worst | load |")
            print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
            for path in PAGES:
                cells = []
                for times in measured(browser, path, number):
                    p95 = statistics.quantiles(times, n=20)[-1]
                    cells += [f"{value:.0f} ms" for value in (statistics.median(times), p95, max(times))]
                print(f"| `{path}` | {number} | {' | '.join(cells)} | {os.getloadavg()[0]:.1f} |", flush=True)
        finally:
            browser.quit()


if __name__ == "__main__":
    main()
