"""How soon a form answers: the first question after a start, and each later key in a real Chromium.

    python bench/forms.py [--starts 5] [--keys 60]

A start is `epsilog serve` until it tells its address; the first question is a federated price, as the first visitor's.
A key changes one digit of a field on /federated and /queries, half a second after the answer to the last one: the first
number is the browser's, the settled one the server's. Walls on loopback, with the load of the machine beside.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

FIRST = {"population": 50_000, "cohort_size": 500, "rounds": 217, "noise_multiplier": 1.1}
FIELDS = {"/federated": "noise_multiplier", "/queries?v=1&mechanism=gaussian&delta=1e-6": "epsilon"}
SWITCHES = "--headless=new --no-sandbox --disable-gpu --disable-background-networking --window-size=1280,900"

# Types one digit behind the point and tells after how many milliseconds a new number stands, and when it is settled.
KEY = """
    const [name, digit, done] = arguments;
    const field = document.querySelector(`[name=${name}]`);
    const number = () => document.querySelector('.results .claim b')?.textContent;
    const before = number();
    field.focus();
    field.setSelectionRange(field.value.length - 1, field.value.length);
    const begun = performance.now();
    document.execCommand('insertText', false, digit);
    let first = null;
    const look = () => {
        const now = performance.now() - begun;
        const changed = number() !== before;
        if (changed && first === null) first = now;
        const busy = document.querySelector('.results.busy, .results[aria-busy=true]');
        if ((changed && !busy) || now > 20000) done([first ?? now, now]);
        else setTimeout(look, 1);
    };
    setTimeout(look, 0);
"""


@contextmanager
def started() -> Iterator[tuple[int, float]]:
    """A server that told its address: its port, and how long it took."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "epsilog", "serve", "--port", "0"]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if found := re.search(r"http://[^:]+:(\d+)", line):
                    yield int(found[1]), time.perf_counter() - begun
                    return
            raise SystemExit("the server did not start")
        finally:
            process.terminate()
            process.wait()


def ask_first(port: int) -> float:
    """How long the first question takes."""
    begun = time.perf_counter()
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    link.request("POST", "/api/v1/federated", json.dumps(FIRST), {"Content-Type": "application/json"})
    assert link.getresponse().read()
    return time.perf_counter() - begun


def type_keys(port: int, keys: int) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds to the first and to the settled number, by page."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for switch in SWITCHES.split():
        options.add_argument(switch)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.set_script_timeout(60)
    found = dict[str, list[tuple[float, float]]]()
    try:
        for path, name in FIELDS.items():
            driver.get(f"http://127.0.0.1:{port}{path}")
            time.sleep(5)
            driver.execute_script(
                "const f = document.querySelector(`[name=${arguments[0]}]`); f.focus(); f.select();"
                "document.execCommand('insertText', false, '1.10')",
                name,
            )
            time.sleep(3)
            walls = []
            for key in range(keys):
                walls.append(tuple(driver.execute_async_script(KEY, name, str(1 + key % 9))))
                time.sleep(0.5)
            found[path.split("?")[0]] = walls
    finally:
        driver.quit()
    return found


def row(name: str, walls: list[float]) -> str:
    cuts = statistics.quantiles(walls, n=20)
    middle, most = statistics.median(walls), max(walls)
    return f"| {name} | {len(walls)} | {middle:.0f} ms | {cuts[18]:.0f} ms | {most:.0f} ms | {os.getloadavg()[0]:.1f} |"


def main() -> None:
    """Prints a row for each wait."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--starts", type=int, default=5)
    asked.add_argument("--keys", type=int, default=60)
    given = asked.parse_args()
    print("| wait | times | p50 | p95 | worst | load |\n| --- | --- | --- | --- | --- | --- |")
    starts, firsts = [], []
    for _ in range(given.starts):
        with started() as (port, took):
            starts.append(1e3 * took)
            firsts.append(1e3 * ask_first(port))
    print(row("start, until the address is told", starts))
    print(row("first question after it", firsts))
    with started() as (port, _):
        for path, walls in type_keys(port, given.keys).items():
            print(row(f"{path}, key to the browser's number", [first for first, _ in walls]))
            print(row(f"{path}, key to the server's number", [last for _, last in walls]))


if __name__ == "__main__":
    main()
