"""What is typed stays: every field of every page and embed, character by character, in a real Chromium.

After each character the field is the same, has the focus and holds what was typed; where it is marked, its message is
there and no number that follows from it is.
"""

from pathlib import Path

import pytest
from tests.server.test_browser import browser, foreign, until  # noqa: F401

pytestmark = pytest.mark.slow

MIX = "mix=gaussian:1::0.01:10|approximate:1:1e-7::2|laplace:10:::5&delta=1e-6"
PAIR = "first_mechanism=approximate&first_parameter=1&first_second=1e-7&second_parameter=2"
PAGES = (
    "/",
    "/federated?v=1&delta=1e-6",
    "/queries",
    f"/playground?v=1&{MIX}",
    f"/compare?v=1&{PAIR}",
    "/montecarlo?v=1&strategy=square-root&participation=b-min-sep",
    "/ledger",
    "/embed/federated",
    "/embed/queries",
    "element",
)
FEWEST = {"/": 3, "/federated": 14, "/queries": 14, "/playground": 12, "/compare": 8, "/montecarlo": 8, "/ledger": 14}
WORDS = [
    "privacy_unit",
    "trials",
    "scope",
    "at",
    "key",
    "reason",
    "actor",
]  # fields that hold text, as tables and notes do
WRONG = ("2,5", "50.000")  # in any field for a number
VALUES = ("0.5", "-1", "1e-1", "1 000", "10⁻⁶", "abc", *WRONG)
QUICK = ("0.5", "2,5", "50.000")

# Opens what is folded, and types as a hand does: at the caret, a character at a time, each with its own event.
TYPING = """
    const [values, wrong, words, settle, done] = arguments;
    const numbers = '.claim b, .stat dd, td.number, .plot path.line, .notice.good, .refusal, details.helper b';
    const faults = [];
    const wait = time => new Promise(then => setTimeout(then, time));
    const roots = () => [document, ...[...document.querySelectorAll('*')].flatMap(each => each.shadowRoot ?? [])];
    const all = css => roots().flatMap(root => [...root.querySelectorAll(css)]);
    const owner = field => field.closest('details, .act, .calculator, .mix, .live, .stack, .framed');
    const beside = field => {
        if (field.closest('.owned, [aria-label="Monte Carlo run"], .act')) return [];
        return [...owner(field).querySelectorAll(numbers)];
    };
    const said = field => (field.getAttribute('aria-describedby') ?? '').split(' ')
        .map(id => field.getRootNode().getElementById(id)?.textContent ?? '').join('').trim();
    const check = (field, text, name) => {
        const fault = what => faults.push(`${name}, typed ${JSON.stringify(text)}: ${what}`);
        if (!field.isConnected) return fault('the field is gone'), false;
        if (field.getRootNode().activeElement !== field) fault('the focus is gone');
        if (field.value !== text) fault(`it holds ${JSON.stringify(field.value)}`);
        const invalid = field.getAttribute('aria-invalid') === 'true';
        if (invalid && !said(field)) fault('it is marked without a word');
        if (invalid && beside(field).length) fault(`a number stands beside it: ${beside(field)[0].textContent}`);
        return true;
    };
    const type = async (field, text, name) => {
        field.focus();
        field.select();
        document.execCommand('delete');
        for (let i = 1; i <= text.length; i++) {
            document.execCommand('insertText', false, text[i - 1]);
            await wait(0);
            if (!check(field, text.slice(0, i), name)) return false;
        }
        return true;
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
        for (const each of all('[name=query]')) {
            each.value = 'mean';
            each.dispatchEvent(new Event('input', {bubbles: true}));
            await wait(50);
        }
        const fields = () => all(kinds).filter(each => each.checkVisibility()); // those of a form may change with it
        let count = 0;
        for (let field; (field = fields()[count]); count++) {
            const name = field.name || field.id || field.ariaLabel || field.closest('div').textContent.slice(0, 30);
            const [before, table] = [field.value, field.matches('textarea')];
            const word = table || words.some(each => name.startsWith(each));
            for (const text of values) {
                if (!(await type(field, text, name))) break;
                if (!word && wrong.includes(text) && field.getAttribute('aria-invalid') !== 'true')
                    faults.push(`${name}: ${text} is not marked`);
                if (settle) {
                    await settled();
                    check(field, text, name);
                }
            }
            if (!field.isConnected) continue;
            field.select();
            document.execCommand(before ? 'insertText' : 'delete', false, before);
            field.blur();
            await wait(0);
        }
        done([count, faults]);
    })();
"""

SHOWN = """
    const inside = [...document.querySelectorAll('*')].find(each => each.shadowRoot)?.shadowRoot ?? document;
    return inside.querySelector('.claim b, .compared .plot, .act, [aria-label="Monte Carlo run"], .part summary');
"""


@pytest.fixture(scope="module")
def element(site, tmp_path_factory):
    """Both calculators as elements of another site's page."""
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "page.html").write_text(
        f'<!doctype html><meta charset="utf-8"><script src="{site.url}/embed/epsilog-embed.js"></script>'
        "<epsilog-federated></epsilog-federated><epsilog-queries></epsilog-queries>"
    )
    with foreign(folder) as base:
        yield base + "/page.html"


def typed(browser, address, values, *, settle):  # noqa: F811
    """How many fields were typed into, and what went wrong."""
    browser.get(address)
    until(lambda: browser.execute_script(SHOWN))
    browser.set_script_timeout(300)
    return browser.execute_async_script(TYPING, values, WRONG, WORDS, settle)


@pytest.mark.smoke
@pytest.mark.every(4)
@pytest.mark.parametrize("path", PAGES)
def test_what_is_typed_stays_is_marked_when_wrong_and_has_no_number_beside_it(browser, site, element, path):  # noqa: F811
    count, faults = typed(browser, element if path == "element" else site.url + path, QUICK, settle=False)
    assert faults == []
    assert count >= FEWEST.get(Path(path.split("?")[0]).as_posix(), 7)


@pytest.mark.extended
@pytest.mark.parametrize("path", PAGES)
def test_every_spelling_stays_and_what_the_server_refuses_is_marked(browser, site, element, path):  # noqa: F811
    """Each text is left alone until the page has settled; what the server refuses has no number beside it, either."""
    address = element if path == "element" else site.url + path
    faults = {value: typed(browser, address, [value], settle=True)[1] for value in VALUES}
    assert not any(faults.values()), faults
