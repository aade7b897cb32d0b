"""A process that answers one question at a time: a line of JSON in, a line of JSON out, until its input ends.

It answers with an HTTP status, a media type and a body that is sent on as it is. It holds nothing between questions, so
the server may kill it at any time and start another. Its argument, if any, limits its memory, in bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from typing import Any

from fastapi.encoders import jsonable_encoder

from epsilog.server import ledger_service, problems, routes, snippets, verification

ROUTES = {
    path: route
    for table in (
        routes.calculators,
        snippets.routes,
        routes.playground,
        verification.routes,
        verification.internal,
        ledger_service.routes,
    )
    for path, route in table.by_path.items()
}


def answer_request(path: str, ask: dict[str, Any]) -> tuple[int, str, str]:
    """Status, media type and body for a question; an error is a problem document."""
    route = ROUTES[path]
    try:
        found = route.answer(route.request.model_validate(ask))
        return 200, "application/json", json.dumps(jsonable_encoder(found), allow_nan=False, separators=(",", ":"))
    except MemoryError:
        detail = "The check needs more memory than the server lends it. Run `epsilog verify` on your own machine."
        lent = problems.make_problem_response(422, "too-much-memory", "Computation too large", detail)
        return lent.status_code, problems.JSON, bytes(lent.body).decode()
    except Exception as error:  # noqa: BLE001 (the server decides what the client may read of it)
        refusal = problems.map_error_to_problem(error)
        if refusal.status_code >= 500:
            traceback.print_exc()
        return refusal.status_code, problems.JSON, bytes(refusal.body).decode()


def limit_memory(most: int) -> None:
    """Let the process have no more address space than this; a system without such a limit has none."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main() -> None:
    """Answer lines until the input ends; what libraries print goes to the log, not between the answers."""
    if len(sys.argv) > 1:
        limit_memory(int(sys.argv[1]))
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        question = json.loads(line)
        out.write(json.dumps(answer_request(question["path"], question["ask"])) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
