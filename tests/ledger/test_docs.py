import re
from pathlib import Path

from epsilog.ledger import verify_ledger

PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"


def test_the_first_example_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    names: dict[str, object] = {}
    exec(compile(example, PAGE.name, "exec"), names)  # noqa: S102
    names["ledger"].close()
    verified = verify_ledger(tmp_path / "runs" / "budget.db")
    assert verified.charges["acme/claims/2026-Q4", "run-17"].state == "committed"
