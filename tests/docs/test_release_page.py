"""The page of the release boundary names every module that computes a digest."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE, PAGE = ROOT / "src/epsilog", ROOT / "docs/boundaries.md"
DIGESTS = re.compile(
    r"hashlib|\bhmac\b|hash_canonical\(|secrets\.token|\bcrc32\b|Public\.of|Released\.of|Commitment\.to"
    r"|npz\.hash_arrays|hexdigest"
)


def test_every_module_that_computes_a_digest_is_accounted_for():
    table = PAGE.read_text(encoding="utf-8").split("\n### Every digest\n")[1].split("\n### ")[0]
    sources = {str(file.relative_to(SOURCE)): file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")}
    assert {name for name, text in sources.items() if DIGESTS.search(text)} == set(re.findall(r"`([\w/]+\.py)`", table))
