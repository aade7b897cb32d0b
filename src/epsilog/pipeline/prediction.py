"""What a released model says of new rows, in the words of the programme that it was trained under."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from epsilog.pipeline.config import load_run_config
from epsilog.pipeline.data_sections import CustomDataSection
from epsilog.pipeline.preparation import attribute_errors_to
from epsilog.terms import CheckError
from epsilog.training.models import ReleasedModel, get_cached_model


def predict_targets(programme: Path, model: Path, rows: Path) -> list[Any]:
    """Predicts the target of every row of a file.

    Args:
        programme: the programme file that the model was trained under; its [data] says what the columns mean.
        model: the released model, ``model.npz`` of a run's folder.
        rows: a file with the columns of the features; the others may be absent.

    Returns:
        A label, a number or a date for each row, within the target's own range; None where a row cannot be used.

    Raises:
        ConfigError: the programme, the file of rows or the model are wrong; each is named.
    """
    stated = load_run_config(programme)
    with attribute_errors_to(str(programme)):
        if not isinstance(stated.data, CustomDataSection):
            raise CheckError(
                "name", "absent: only a file of one's own says what its columns mean", repr(stated.data.name)
            )
        own = stated.data.own(programme.parent, counts_are_public=False)
        features, goal = own.features(rows), own.schema.goal
        kind = stated.model.to_model_kind(programme.parent)
        made = get_cached_model(kind, inputs=features.shape[1], classes=own.schema.classes)
        found = ReleasedModel.read(model, made).predict(features)
    usable = np.isfinite(found) if made.classes is None else found >= 0
    return [goal.told(value) if can else None for value, can in zip(found.tolist(), usable.tolist(), strict=True)]
