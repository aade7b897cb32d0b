"""The run config and the pipeline: one training run from plan to report.

``load_run_config`` reads and checks the TOML file, ``run`` runs the whole pipeline, and ``train_only`` its first half.
"""

from epsilog.pipeline.config import PlanConfig, RunConfig, load_run_config
from epsilog.pipeline.config_export import (
    CheckedConfig as CheckedConfig,
    check_config as check_config,
    export_config,
    write_config_template,
)
from epsilog.pipeline.preparation import PreparedRun as PreparedRun, predict_targets, prepare_config as prepare_config
from epsilog.pipeline.runner import RunObserver, RunResult, run, train_only

__all__ = [
    "PlanConfig",
    "RunConfig",
    "RunObserver",
    "RunResult",
    "export_config",
    "load_run_config",
    "predict_targets",
    "run",
    "train_only",
    "write_config_template",
]
