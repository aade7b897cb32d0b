"""Predict the targets of new rows with a released model, by the run config that it was trained under."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from epsilog.pipeline.config import load_run_config
from epsilog.pipeline.data_sections import CustomDataSection
from epsilog.pipeline.preparation import attribute_errors_to
from epsilog.terms import CheckError
from epsilog.training.models import ReleasedModel, get_cached_model


def predict_targets(config: Path, model: Path, rows: Path) -> list[Any]:
    """Predict the target of every row of a file.

    Args:
        config: the run config of the model; its [data] defines the columns.
        model: the released model, ``model.npz`` of a run's folder.
        rows: a file with the columns of the features; others may be absent.

    Returns:
        A label, a number or a date per row, within the range of the target; None if a row is unusable.

    Raises:
        ConfigError: the run config, the file of rows or the model is wrong; the error names which.
    """
    stated = load_run_config(config)
    with attribute_errors_to(str(config)):
        if not isinstance(stated.data, CustomDataSection):
            bound = "absent: only a file of one's own says what its columns mean"
            raise CheckError("name", bound, repr(stated.data.name))
        data = stated.data.to_custom_data(config.parent, counts_are_public=False)
        features, goal = data.features(rows), data.schema.goal
        kind = stated.model.to_model_kind(config.parent)
        task_model = get_cached_model(kind, inputs=features.shape[1], classes=data.schema.classes)
        found = ReleasedModel.read(model, task_model).predict(features)
    usable = np.isfinite(found) if task_model.classes is None else found >= 0
    return [goal.describe(value) if can else None for value, can in zip(found.tolist(), usable.tolist(), strict=True)]
