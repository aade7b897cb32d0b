"""Takes the pictures in docs/images, of every page and a report at three widths, in Chromium: no test, run by hand.

python scripts/pictures.py runs/ledger.db runs

The folder is one that `epsilog run examples/fashion.toml examples/central.toml examples/local.toml` wrote: what
`make run` runs, with Fashion-MNIST and without. Look at each picture afterwards.
"""

import base64
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType

from epsilog.server import create_app

TESTS = Path(__file__).parents[1] / "tests"
IMAGES = TESTS.parent / "docs" / "images"
QUALITY = 45
WIDTHS = {"wide": 1280, "middle": 820, "narrow": 390}
LONGEST = {"wide": 1600, "middle": 1900, "narrow": 2300}  # pixels; the rest of a page says no more in a picture
PAGES = {
    "front": "/",
    "dp-sgd": "/dp-sgd",
    "queries": "/queries?v=1&mechanism=gaussian&delta=1e-6",
    "federated": "/federated",
    "verdict": "/verdict?epsilon=4&delta=1e-5",
    "verify": "/verify",
    "certificate": "/certificate",
    "playground": "/playground",
    "compare": "/compare",
    "montecarlo": "/montecarlo?v=1&participation=b-min-sep&strategy=square-root&epochs=8&probability=0.1",
    "ledger": "/ledger",
    "runs": "/runs",
    "game": "/game?v=1&seed=picture",
}

REPORTS = {"clothes-central": "report.webp", "exam-scores-central": "report-exams.webp"}  # the README's, the tutorial's
TOP = 1250  # pixels of a report: the claim, its figures, against whom it protects


def settle(driver, seconds: float = 120.0) -> None:
    """Waits until nothing is being worked out, also what is only loaded where it can be seen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        driver.execute_script("scrollTo(0, document.documentElement.scrollHeight)")
        time.sleep(0.5)
        driver.execute_script("scrollTo(0, 0)")
        waits = driver.execute_script(
            "return !!document.querySelector('.busy, .reserved, .refining, .awaited') ||"
            " [...document.querySelectorAll('.empty, .method, h2')]"
            ".some(e => e.checkVisibility() && /…$|^Drawing/.test(e.textContent))"
        )
        if not waits:
            return


def act(driver, name: str) -> None:
    """Brings a page to where it has something to show."""
    if name in {"verify", "certificate"}:
        driver.find_element("css selector", "main .offers button, main .buttons button").click()
        time.sleep(2)
    if name in {"montecarlo", "game"}:
        driver.find_element("css selector", "button.main").click()
    if name == "runs":
        driver.find_element("css selector", "main table a").click()
    if name == "game":
        for label in ("Release", "Decline"):
            time.sleep(0.5)
            driver.execute_script(
                "[...document.querySelectorAll('.acts button')].find(e => e.textContent === arguments[0]).click()",
                label,
            )


def capture(driver, asked: dict, file: str) -> None:
    """Writes what the browser shows."""
    picture = driver.execute_cdp_cmd("Page.captureScreenshot", asked)["data"]
    (IMAGES / file).write_bytes(base64.b64decode(picture))


def of_reports(driver, runs: Path) -> None:
    """The top of each report; of one also at the other widths."""
    files = [(config, 1000, file) for config, file in REPORTS.items()]
    files += [("exam-scores-central", WIDTHS[form], f"report-exams-{form}.webp") for form in ("middle", "narrow")]
    for config, width, file in files:
        height = TOP if width > WIDTHS["narrow"] else LONGEST["narrow"]
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        (folder,) = runs.glob(f"{config}-*")
        driver.get((folder / "report.html").resolve().as_uri())
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        capture(driver, {"format": "webp", "quality": QUALITY, "clip": clip}, file)


def take(ledger: str, runs: str) -> None:
    """Takes them all."""
    ours = sys.modules["tests"] = ModuleType("tests")  # some libraries install a package of that name
    ours.__path__ = [str(TESTS)]
    from tests.server.browsing import start_browser  # noqa: PLC0415
    from tests.server.conftest import serving  # noqa: PLC0415

    app = create_app(ledger=ledger, runs=runs)
    with serving(app, processes=True) as site, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        app.state.workers.deadline = 600.0  # that the machine is busy must not show in a picture
        driver = start_browser(profile)
        try:
            for form, width in WIDTHS.items():
                screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
                driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
                for name, path in PAGES.items():
                    driver.get(site.url + path)
                    settle(driver)
                    act(driver, name)
                    settle(driver)
                    height = driver.execute_script("return document.documentElement.scrollHeight")
                    clip = {"x": 0, "y": 0, "width": width, "height": min(height, LONGEST[form]), "scale": 1}
                    asked = {"format": "webp", "quality": QUALITY, "captureBeyondViewport": True, "clip": clip}
                    capture(driver, asked, f"web-{name}-{form}.webp")
            of_reports(driver, Path(runs))
        finally:
            driver.quit()


if __name__ == "__main__":
    take(*sys.argv[1:3])
