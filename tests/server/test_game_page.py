"""The game in a real Chromium: by keyboard, without motion, on a phone, and the calculation that ends it."""

import math
import re

import pytest
from tests.server.browsing import (
    ENTER,
    LEFT,
    TAB,
    broken_rules,
    button,
    claim,
    every,
    media,
    one,
    screen,
    shows,
    text,
    until,
)

pytestmark = [pytest.mark.slow, pytest.mark.extended]


@pytest.fixture
def press(browser):
    """Types, wherever the focus is."""
    from selenium.webdriver.common.action_chains import ActionChains

    return lambda *keys: ActionChains(browser).send_keys(*keys).perform()


def test_the_calm_game_passes_axe_and_is_played_by_keys_alone(browser, site, press):
    """With less motion asked for, it begins in text mode; nothing moves in the other mode either."""

    def focused():
        return browser.switch_to.active_element

    def reach(wanted):
        names = lambda: (focused().get_attribute("id"), focused().text, focused().get_attribute("aria-label"))  # noqa: E731
        until(lambda: wanted in names() or press(TAB))

    with media(browser, "prefers-reduced-motion", "reduce"):
        browser.get(site.url + "/game?v=1&seed=calm")
        until(lambda: one(browser, "button.main"))
        reach("Start the shift")
        press(ENTER)
        until(lambda: focused().get_attribute("class") == "board")
        assert not every(browser, ".stage")
        reach("steer")
        before = focused().get_attribute("aria-valuetext")
        press(LEFT * 6)
        until(lambda: focused().get_attribute("aria-valuetext") != before)
        reach("Release")
        press(ENTER)
        shows(browser, "released to", ".said")
        assert focused().text == "Release"  # the next act needs no search
        assert broken_rules(browser) == []
        reach("Decline")
        press(" ")
        shows(browser, "Declined: ", ".said")
        one(browser, "[aria-label='End the shift']").send_keys(ENTER)
        until(lambda: focused().get_attribute("aria-label") == "Result of the shift")
        for box in every(browser, ".option input"):
            box.send_keys(" ")  # pictures, and a clock
        reach("Start again, as practice")
        press(ENTER)
        until(lambda: every(browser, ".stage"))
        shows(browser, "s left", ".desk-top")
        assert browser.execute_script("return document.getAnimations().length === 0")
        assert broken_rules(browser) == []
        browser.execute_script("const now = Date.now; Date.now = () => now() + 5 * 60 * 1000")
        until(lambda: focused().get_attribute("aria-label") == "Result of the shift")


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
    with screen(browser, 1280 if mode == "text" else 390):
        browser.get(site.url + "/game?v=1&seed=2026-11-23")
        until(lambda: one(browser, "button.main"))
        if mode == "text":
            one(browser, ".option input").click()
        one(browser, "button.main").click()
        until(lambda: every(browser, "#steer"))
        assert len(every(browser, ".stage")) == (mode == "pictures")
        browser.execute_script(PLAY)
        until(lambda: every(browser, ".did"))
        assert broken_rules(browser) == []
        lessons = [each.text for each in every(browser, ".lessons li")]
        for part, each in zip(("of 48 people", "post-processing", "took"), lessons, strict=True):
            assert part in each
        assert f"for {text(browser, '.scored b')} points".replace("−", "-") in lessons[0].replace("−", "-")
        one(browser, "details.card summary").click()
        button(browser, "Check", "details.card button").click()
        shows(browser, "This record holds", "details.card [role=status]:not(.hidden)")
        assert broken_rules(browser) == []
        told = [each.text for each in every(browser, ".did")]
        named = ["The clinic’s 41 patients", "The school’s 312 pupils", "The city’s 5,200 riders"]
        assert [each.split(":")[0] for each in told] == named
        links = [a.get_attribute("href") for a in every(browser, ".did a")]
        for each, link in zip(told, links, strict=True):
            epsilon = float(re.search(r"ε ≤ ([\d.]+)", each)[1])
            odds = float(re.search(r"at most ([\d.]+) : 1", each)[1])
            assert math.exp(epsilon - 1e-3) <= odds <= math.exp(epsilon) + 0.01
            browser.get(link)
            assert epsilon <= float(claim(browser)) <= 1.01 * epsilon  # what the accountant says of these releases
