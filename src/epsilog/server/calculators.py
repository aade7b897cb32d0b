"""The calculators over HTTP: what ``plan`` is asked, and the records of two of its questions."""

from __future__ import annotations

from typing import Any

from pydantic import create_model

from epsilog import reports
from epsilog.plan import QUESTIONS, Question
from epsilog.server import answers
from epsilog.server.asks import OwnerFields
from epsilog.server.routes import Route, Routes, model_of
from epsilog.terms import CheckError

calculators, playground = Routes("calculators"), Routes("playground")
RECORDS = {"/federated": "A calculation as a stamped record", "/queries": "A query plan as a stamped record"}


def _record(path: str, summary: str) -> Route:
    """The question, its answer and its owner's words, with the SHA-256 of their canonical JSON (RFC 8785)."""
    kind = QUESTIONS[path]
    base = model_of(kind)
    says = f"{(base.__doc__ or '').rstrip('.')}, with what its owner says in the record."
    model = create_model(f"{base.__name__.removesuffix('Ask')}RecordAsk", __base__=(base, OwnerFields), __doc__=says)

    def asked(ask: Any) -> Question:
        return kind.parse(ask.model_dump(exclude=set(OwnerFields.model_fields)))

    def answer(ask: Any) -> dict[str, Any]:
        references = []
        for i, one in enumerate(ask.references):
            try:
                references.append(reports.FileReference(**one.model_dump()))
            except CheckError as error:
                raise error.under(f"references[{i}]") from error
        return reports.stamp_calculation(asked(ask), delta_reason=ask.delta_reason, references=references)

    return Route(
        f"{path}/record",
        summary,
        model,
        answers.StampedCalculationModel,
        answer,
        lambda ask: asked(ask).work(),
        _record.__doc__,
    )


for _path, _kind in QUESTIONS.items():
    (playground if _path.startswith("/account") else calculators).add_question(_kind, *answers.ANSWERS[_path])
for _path, _summary in RECORDS.items():
    calculators.add_route(_record(_path, _summary))
