"""The DP-SGD page in a real Chromium: the result beside the inputs, in a data scientist's own words."""

import re

import pytest
from tests.server.browsing import RIGHT, button, clean, every, one, put, screen, shows, text, until, value_of

from epsilog.plan import plan_dp_sgd

pytestmark = [pytest.mark.slow, pytest.mark.extended]

RUN = {"examples": 60_000, "batch_size": 256, "epochs": 60, "delta": 1e-5}
FITS = """
    const wide = document.documentElement.scrollWidth - innerWidth;
    const [answer, field] = [document.querySelector('.cost'), document.querySelector(`[name=${arguments[0]}]`)];
    field.scrollIntoView({block: 'center'});
    const [a, f] = [answer.getBoundingClientRect(), field.getBoundingClientRect()];
    return [wide, a.top >= 0 && a.bottom <= innerHeight, f.top >= 0 && f.bottom <= innerHeight,
            a.right <= f.left || a.left >= f.right || a.bottom <= f.top || a.top >= f.bottom];
"""


def settled(driver):
    """The figure and the sentence, once the server's bound and its count are there."""
    until(lambda: not every(driver, "[aria-busy=true]") and one(driver, ".cost .claim b"))
    until(lambda: not one(driver, ".certified button").get_attribute("disabled"))
    return text(driver, ".cost .claim b"), text(driver, ".cost .found")


def choose(driver, name, value):
    driver.execute_script(f"document.querySelector('[name={name}][value=\"{value}\"]').click()")


def test_a_data_scientist_finds_her_words_and_the_librarys_figures(browser, site):
    browser.get(site.url + "/dp-sgd")
    plan = plan_dp_sgd(**RUN, noise_multiplier=1.1)
    figure, found = settled(browser)
    assert float(figure) == pytest.approx(plan.epsilon.upper, abs=0.01)
    assert float(figure) >= plan.epsilon.upper
    until(lambda: f"{plan.count_found()} of 1,000 examples" in text(browser, ".cost .found"))
    assert "Guessing finds 10" in found
    labels = text(browser, ".run form")
    for word in ("Data set size", "Batch size", "Epochs", "Noise multiplier", "Clipping norm", "does not change ε"):
        assert word in labels
    assert "ε ≤ 54.1" in text(browser, ".run .loader")
    assert text(browser, ".facts .stat dd") == "14,063"
    assert clean(browser) == []


def test_every_loader_and_goal_gives_the_librarys_figure(browser, site):
    browser.get(site.url + "/dp-sgd")
    settled(browser)
    choose(browser, "sampler", "shuffled")
    until(lambda: text(browser, ".cost .claim b") == "54.1" and "2.39" in text(browser, ".run .loader"))
    assert "nearly every example" in settled(browser)[1]
    choose(browser, "sampler", "truncated-poisson")
    put(browser, "max_batch_size", "320")
    cut = plan_dp_sgd(**RUN, noise_multiplier=1.1, sampler="truncated-poisson", max_batch_size=320)
    until(lambda: text(browser, ".cost .claim b") == "2.41" and cut.epsilon.upper <= 2.41)
    choose(browser, "sampler", "poisson")
    choose(browser, "goal", "target")
    found = plan_dp_sgd(**RUN, epsilon=3.0)
    until(lambda: text(browser, ".cost .claim b") == str(found.run.noise_multiplier))
    assert "ε ≤ 3" in text(browser, ".cost .beside")
    assert value_of(browser, "[name=noise_multiplier]") == "1.1"  # not used, and kept
    assert not one(browser, "[name=noise_multiplier]").is_enabled()


def test_a_link_restores_every_field_as_typed_and_takes_names_of_other_libraries(browser, site):
    browser.get(site.url + "/dp-sgd")
    settled(browser)
    typed = {"examples": "50 000", "batch_size": "1e2", "delta": "10^-6", "clip_norm": ".5", "noise_multiplier": "2.0"}
    choose(browser, "sampler", "shuffled")
    for name, value in typed.items():
        put(browser, name, value + "\t")
    until(lambda: "clip_norm=.5" in browser.current_url and "noise_multiplier=2.0" in browser.current_url)
    link = browser.current_url
    figure, _ = settled(browser)
    browser.get("about:blank")
    browser.get(link)
    assert settled(browser)[0] == figure
    assert {name: value_of(browser, f"[name={name}]") for name in typed} == typed
    browser.get(
        site.url + "/dp-sgd?v=1&num_samples=60000&batch_size=256&iterations=14063&noise_multiplier=1.1&delta=1e-5"
        "&l2_clip_norm=2&names=jax-privacy"
    )
    assert settled(browser)[0] in ("2.39", "2.38")
    assert "iterations" in text(browser, ".facts")
    assert not one(browser, "[name=epochs]").is_enabled()  # steps are given
    browser.get(site.url + "/dp-sgd?v=1&target_epsilon=3&max_grad_norm=2&names=opacus")
    shows(browser, "gives ε ≤ 3", ".cost .beside")
    assert "max_grad_norm" in text(browser, ".run form")
    assert "sample_rate" in text(browser, ".facts")


def test_a_marked_field_has_a_remedy_and_no_number(browser, site):
    browser.get(site.url + "/dp-sgd?v=1&sampler=shuffled&relation=add-or-remove-one")
    shows(browser, "Waiting for neighboring relation", ".cost")
    assert "a removed example would move the others" in text(browser, ".run form")
    assert not re.search(r"\d", text(browser, ".cost") + text(browser, ".facts") + text(browser, ".risk svg"))
    put(browser, "batch_size", "70000")
    shows(browser, "At most the data set size", ".run form")


def test_the_slider_sets_the_noise(browser, site):
    browser.get(site.url + "/dp-sgd?v=1&goal=target")
    settled(browser)
    until(lambda: every(browser, ".risk path.line"))
    before = float(text(browser, ".cost .claim b"))
    one(browser, ".risk input").send_keys(RIGHT * 5)
    until(lambda: one(browser, "[name=noise_multiplier]").is_enabled())  # a noise is known now
    after = float(value_of(browser, "[name=noise_multiplier]"))
    assert before < after < 1.3 * before
    assert "at most" in one(browser, ".risk input").get_attribute("aria-valuetext")


def test_code_and_certificate_are_there(browser, site):
    browser.get(site.url + "/dp-sgd?v=1&goal=target")  # the target is the budget of the run config
    settled(browser)
    shows(browser, "PrivacyEngine", ".code pre")
    for name, word in (
        ("JAX Privacy", "CyclicPoissonSampling"),
        ("Flower", "ClientApp"),
        ("Python", "plan_dp_sgd"),
        ("Command line", "epsilog plan dp-sgd"),
        ("Run config", "[scheme]"),
    ):
        button(browser, name, ".tabs label").click()
        shows(browser, word, ".code pre")
    one(browser, ".certified button").click()
    shows(browser, "The certificate proves that ε is at most", ".certified")
    assert clean(browser) == []


@pytest.mark.parametrize("width", [320, 390, 820, 1280])
def test_the_result_stays_in_sight_beside_each_input(browser, site, width):
    with screen(browser, width):
        browser.get(site.url + "/dp-sgd")
        settled(browser)
        if width >= 820:  # one column of inputs, one of results
            lefts = (
                "return [...document.querySelectorAll('.run .results > *')].map(e => e.getBoundingClientRect().left)"
            )
            assert min(browser.execute_script(lefts)) > 250
        for name in ("examples", "epochs", "noise_multiplier", "delta"):
            wide, seen, field, apart = browser.execute_script(FITS, name)
            assert (wide <= 0, seen, field, apart) == (True, True, True, True), name
