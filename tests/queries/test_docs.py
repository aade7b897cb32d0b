"""The page shows what its code prints."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/how-to/answer-queries.md"


def test_the_page_prints_what_it_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text, names = PAGE.read_text(encoding="utf-8"), {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 - the docs are ours
    (shown,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert capsys.readouterr().out == shown
    assert names["sick"].value is True
    assert names["put"](names["Count"](), "patients", "0.5") == names["patients"]
