"""A process that works out one question at a time: a line of JSON in, a line of JSON out, until its input ends.

It answers with an HTTP status, a media type and a body that is sent on as it is. It holds nothing between questions, so
it may be killed at any time; the server starts another.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

from fastapi.encoders import jsonable_encoder

from epsilog.server import calculators, elsewhere, prices, problems, verifying

ALL = (
    calculators.calculators.by_path
    | elsewhere.routes.by_path
    | calculators.playground.by_path
    | verifying.routes.by_path
    | prices.routes.by_path
)


def answer_request(path: str, ask: dict[str, Any]) -> tuple[int, str, str]:
    """Status, media type and body for what was asked at ``path``; a failure is a problem document."""
    route = ALL[path]
    try:
        found = route.answer(route.model.model_validate(ask))
        return 200, "application/json", json.dumps(jsonable_encoder(found), allow_nan=False, separators=(",", ":"))
    except Exception as error:  # noqa: BLE001 (what it says is the server's to know, not the asker's)
        refusal = problems.map_error_to_problem(error)
        if refusal.status_code >= 500:
            traceback.print_exc()
        return refusal.status_code, problems.JSON, bytes(refusal.body).decode()


def main() -> None:
    """Answers lines until there are none; what libraries print goes to the log, not between the answers."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        asked = json.loads(line)
        out.write(json.dumps(answer_request(asked["path"], asked["ask"])) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
