"""How a run goes on: its newest whole checkpoint, the metrics that still hold, and the config it must keep."""

from __future__ import annotations

import re
from pathlib import Path

from envs.config import ConfigError, load_config
from envs.hardware import NOT_TRAINING
from envs.runs import read_jsonl, write_jsonl_atomic
from rl.config import RLConfig
from rl.validation import VALIDATION

CONFIG, METRICS, DONE, MARK = "config.yaml", "metrics.jsonl", "done.json", "complete.json"
PROVENANCE = "provenance.jsonl"
CONSTANT = "constant"
"""The learning rate's schedule where the config names none."""
MAY_CHANGE = ("wandb", "save_every", "keep_checkpoints", "world_size", *NOT_TRAINING)
"""Fields that a resumed run may change: nothing that is trained depends on them."""


def last_checkpoint(folder: Path) -> tuple[Path | None, int]:
    """The newest whole checkpoint of a run folder and its step; (None, 0) if there is none.

    A checkpoint is whole when its mark is there: the mark is written last.
    """
    found: list[tuple[int, Path]] = []
    for path in folder.glob("checkpoint-*"):
        number = re.fullmatch(r"checkpoint-(\d+)", path.name)
        if number and (path / MARK).is_file():
            found.append((int(number[1]), path))
    if not found:
        return None, 0
    step, newest = max(found)
    return newest, step


def drop_after(folder: Path, step: int) -> None:
    """Forget the metrics and validations of steps that a resumed run does again."""
    for path in (folder / METRICS, folder / VALIDATION):
        if path.is_file():
            lines = read_jsonl(path, torn="drop_last")
            kept = [line for line in lines if line["step"] <= step]
            if len(kept) < len(lines):
                write_jsonl_atomic(path, kept)


def may_grow(config: RLConfig, before: int) -> bool:
    """Whether a run of ``before`` steps can go on to those of ``config`` as if it had been told so from the start.

    The tasks of its first steps are the same then; so is the learning rate, unless its schedule looks at the end.
    """
    return config.steps > before and config.trainer.get("lr_scheduler_type", CONSTANT) == CONSTANT


def check_same_config(config: RLConfig, folder: Path) -> None:
    """Raise ConfigError if the run that was begun in ``folder`` has another config; ``steps`` may grow."""
    path = folder / CONFIG
    if not path.is_file():
        return
    before, now = load_config(RLConfig, path).model_dump(mode="json"), config.model_dump(mode="json")
    for name, value in now.items():
        if name == "steps" and may_grow(config, before[name]):
            continue
        if name not in MAY_CHANGE and before[name] != value:
            raise ConfigError(
                f"{path}: {name}: the run in this folder has {before[name]!r}, this call {value!r}: choose another "
                "out, or the old value"
            )
