"""The form contract: every field of every page, embed and element, character by character, in a real Chromium.

After each character the field is the same, in its place, has the focus and holds what was typed; the page shows no NaN;
where a field is marked it says why, and while it has no value no number stands in the place of the results.
"""

import re

import pytest
from tests.extent import ALL, amount
from tests.server.browsing import foreign, until

from epsilog.server import pages

pytestmark = pytest.mark.slow

REFUSED = ("2,5", "-", "1e-", "1e400", "1e-400", "<b>1", "60k", "1/3", "NaN", "６０", "007", "1,234.5", "abc")
ECHOED = ("2.000", "50.000", "50 000", "60000")  # or refused: a number field says something below each
VALUES = (*REFUSED, *ECHOED, "", "0.5", "50,000", "1e-1", "-1", "10^-6", "10⁻⁶", ".5", "0.")
MIX = "mix=gaussian:1::0.01:10|approximate:1:1e-7::2|laplace:10:::5&delta=1e-6"
PAIR = "first_mechanism=approximate&first_parameter=1&first_second=1e-7&second_parameter=2"
PRESETS = {  # values with which every field of a page is in use
    "/federated": "?v=1&delta=1e-6",
    "/queries": "?v=1&query=mean",
    "/playground": f"?v=1&{MIX}",
    "/compare": f"?v=1&{PAIR}",
    "/montecarlo": "?v=1&strategy=square-root&participation=b-min-sep",
}
FEWEST = {"/federated": 14, "/queries": 14, "/playground": 11, "/compare": 8, "/montecarlo": 8, "/ledger": 14}
FEWEST |= {"/dp-sgd": 7}
BREAKS = {  # what a page does at each key, and what the test says of it
    "this.value = this.value.trim().replace('.000', '')": "it holds",
    "if (this.value > '1') this.replaceWith(this.cloneNode())": "the field is gone",
    "other.focus()": "the focus is gone",
    "note.textContent = this.value.length > 3 ? 'Not a number. '.repeat(40) : ''": " to ",
    "result.textContent = Number(this.value)": "the page shows NaN",
    "this.ariaInvalid = isNaN(this.value); result.textContent = '0.72'": "a number stands beside it: 0.72",
    "this.ariaInvalid = isNaN(this.value); note.textContent = ''; result.textContent = ''": "marked without a word",
    "this.ariaInvalid = false": "is not marked",
    "history.replaceState(0, '', '?x=' + parseFloat(this.value))": "the address lacks",
}
CONTROL = """<!doctype html><meta charset="utf-8"><title>Control</title><main><h1>Control</h1>
<form><input name="x" inputmode="text" required value="1" aria-describedby="note" oninput="BREAK">
<p id="note">a hint</p><input id="other"></form><div aria-busy="false"><b id="result">–</b></div></main>"""
ELEMENTS = re.compile(r"""[`"'](epsilog-[a-z]+)[`"']""")

# Opens what is folded, and types as a hand does: at the caret, a character at a time, each with its own event.
TYPING = """
    const [values, refused, echoed, each, settle, done] = arguments;
    const faults = [];
    const wait = time => new Promise(then => setTimeout(then, time));
    const roots = () => [document, ...[...document.querySelectorAll('*')].flatMap(each => each.shadowRoot ?? [])];
    const all = css => roots().flatMap(root => [...root.querySelectorAll(css)]);
    const results = field => { // what stands in the place of the field's results, and holds a digit or a curve
        if (field.form?.querySelector('[type=submit]') || field.closest('.owned')) return [];
        let place = field.closest('details') ?? field.form;
        while (place && !place.querySelector('[aria-busy]')) place = place.parentElement;
        return [...(place?.querySelectorAll('[aria-busy] :is(b, dd, td, output, .claim, svg text, path.line)') ?? [])]
            .filter(each => /\\d/.test(each.textContent) || each.matches('path'))
            .filter(each => !each.closest('.scenarios')); // of the values that were pinned, whatever is typed now
    };
    const said = field => (field.getAttribute('aria-describedby') ?? '').split(' ').slice(-1)
        .map(id => field.getRootNode().getElementById(id)?.textContent ?? '').join('').trim();
    const place = field => { // in its form
        const [own, form] = [field, field.form ?? field].map(each => each.getBoundingClientRect());
        return [own.left - form.left, own.top - form.top, own.width, own.height, form.height].map(Math.round);
    };
    const marked = field => field.getAttribute('aria-invalid') === 'true';
    const check = (field, text, name, typing = true) => {
        const fault = what => faults.push(`${name}, typed ${JSON.stringify(text)}: ${what}`);
        if (!field.isConnected) return fault('the field is gone'), false;
        if (typing && field.getRootNode().activeElement !== field) fault('the focus is gone');
        if (field.value !== text) fault(`it holds ${JSON.stringify(field.value)}`);
        if (marked(field) && !said(field)) fault('it is marked without a word');
        const found = roots().map(root => root.body?.innerText ?? root.firstElementChild?.innerText ?? '').join(' ')
            .match(/\\b(NaN|undefined|Infinity)\\b/);
        if (found) fault(`the page shows ${found[0]}`);
        if ((marked(field) || /^Keep typing/.test(said(field))) && results(field).length)
            fault(`a number stands beside it: ${results(field)[0].textContent}`);
        return true;
    };
    const type = async (field, text, name) => {
        field.focus();
        field.select();
        document.execCommand('delete');
        await wait(0);
        if (!check(field, '', name)) return false;
        const before = place(field);
        for (let i = 1; i <= text.length; i++) {
            document.execCommand('insertText', false, text[i - 1]);
            await wait(0);
            if (!check(field, text.slice(0, i), name)) return false;
            const after = place(field);
            if (String(after) !== String(before)) faults.push(`${name}, typed ${text}: ${before} to ${after}`);
        }
        return true;
    };
    const leave = async (field, text, name) => { // what it says once the reader has left it
        field.blur();
        await wait(0);
        if (!check(field, text, name, false) || !field.hasAttribute('inputmode')) return;
        if ((refused.includes(text) || (text === '' && field.required)) && !marked(field))
            faults.push(`${name}: ${JSON.stringify(text)} is not marked`);
        if (echoed.includes(text) && !said(field)) faults.push(`${name}: ${text} is read without a word`);
        const kept = field.name && field.getRootNode() === document && !field.form?.querySelector('[type=submit]');
        if (kept && new URLSearchParams(location.search).get(field.name) !== text)
            faults.push(`${name}: the address lacks ${JSON.stringify(text)}`);
    };
    const settled = async () => {
        for (let i = 0; i < 200 && (await wait(50), all('.busy, [aria-busy=true]').length); i++);
    };
    (async () => {
        const kinds = 'input:not([type=checkbox], [type=radio], [type=range], [type=file]), textarea';
        const folded = () => all('details:not([open])');
        for (let quiet = 0; quiet < 4; quiet = folded().length ? 0 : quiet + 1) {
            for (const each of folded()) each.open = true; // what they hold is drawn, and may be folded again
            await wait(50);
        }
        const fields = () => all(kinds).filter(each => each.checkVisibility() && !each.disabled); // they may change
        let [count, turn] = [0, 0];
        for (let field; (field = fields()[count]); count++) {
            const name = field.name || field.id || field.ariaLabel || field.closest('div').textContent.slice(0, 30);
            const before = field.value;
            for (let i = 0; i < each; i++) {
                const text = values[turn++ % values.length];
                if (!(await type(field, text, name))) break;
                if (settle) {
                    await settled();
                    check(field, text, name);
                }
                await leave(field, text, name);
            }
            if (!field.isConnected) continue;
            field.select();
            document.execCommand(before ? 'insertText' : 'delete', false, before);
            field.blur();
            await wait(0);
        }
        done([count, [...new Set(faults)]]);
    })();
"""

SHOWN = """
    const inside = [...document.querySelectorAll('*')].find(each => each.shadowRoot)?.shadowRoot ?? document;
    const ready = inside.querySelector('main h1, .framed') && !/^(Loading|Reading)…$/m.test(document.body.innerText);
    return ready && !inside.querySelector('[aria-busy=true]');
"""


@pytest.fixture(scope="module")
def addresses(site, tmp_path_factory):
    """Every page and embed of the server, and another site's page with every element."""
    folder = tmp_path_factory.mktemp("foreign")
    names = set(ELEMENTS.findall((pages.STATIC / "embed" / "epsilog-embed.js").read_text()))
    assert {"epsilog-federated", "epsilog-queries"} <= names
    (folder / "page.html").write_text(
        f'<!doctype html><meta charset="utf-8"><script src="{site.url}/embed/epsilog-embed.js"></script>'
        + "".join(f"<{name}></{name}>" for name in sorted(names))
    )
    paths = ["/", *(f"/{name}" for name in pages.PAGE_NAMES), *(f"/embed/{name}" for name in pages.EMBED_NAMES)]
    with foreign(folder) as base:
        yield {path: site.url + path + PRESETS.get(path, "") for path in paths} | {"element": base + "/page.html"}


def typed(browser, address, values, each, *, settle):
    """How many fields were typed into, and what went wrong; the values take turns, ``each`` of them in a field."""
    browser.get(address)
    until(lambda: browser.execute_script(SHOWN))
    browser.set_script_timeout(900)
    return browser.execute_async_script(TYPING, values, REFUSED, ECHOED, each, settle)


@pytest.mark.smoke
def test_a_field_keeps_what_is_typed_and_no_number_stands_beside_a_marked_one(browser, addresses):
    """Each field of three pages takes one value in turn at each change, and each field every value in all tests."""
    faults, counts = {}, {}
    turn = 0
    for path in addresses if ALL else ("/playground", "/ledger", "element"):
        address = addresses[path]
        for shift in range(amount(1, len(VALUES))):  # a load each: a driver waits two minutes for an answer
            at = (turn + shift) % len(VALUES)
            counts[path], found = typed(browser, address, [*VALUES[at:], *VALUES[:at]], 1, settle=ALL)
            faults.setdefault(path, []).extend(found)
        turn += counts[path]
    assert {path: found for path, found in faults.items() if found} == {}
    assert {path: count for path, count in counts.items() if count < FEWEST.get(path, 0)} == {}
    assert sum(counts.values()) >= amount(1, 4) * len(VALUES)


@pytest.mark.parametrize("broken", BREAKS)
def test_a_page_that_breaks_the_contract_fails(browser, tmp_path, broken):
    (tmp_path / "page.html").write_text(CONTROL.replace("BREAK", broken))
    with foreign(tmp_path) as base:
        _, faults = typed(browser, base + "/page.html", ["2.000", "abc"], 2, settle=False)
    assert [each for each in faults if BREAKS[broken] in each], faults
