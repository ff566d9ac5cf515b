"""Which weights did best in validation, and how they are kept while the run goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from envs.runs import read_json
from envs.tasks.base import Probe
from rl.config import RLConfig
from rl.validation import best_of, lines_of, metrics_of, read_validations, store
from rl.weights import BEST, save_best


def kept(folder: Path) -> dict[str, Any] | None:
    """What ``best.json`` says of the weights in ``<folder>/best``: step and metrics; None if none are kept."""
    path = folder / BEST / "best.json"
    return dict(read_json(path)) if path.is_file() else None


class ValidationCallback(TrainerCallback):
    """Stores what each validation found, has the weights saved that did best, and validates after the last step.

    The best weights are written once a checkpoint of the same step is whole (the start weights at once), so that a run killed
    at any moment goes on with the best of the steps that it has done.

    Args:
        trainer: the trainer, for its weights and ``validated``.
        probes: the validation probes, in the order of the outcomes.
        config: the run.
    """

    def __init__(self, trainer: Any, probes: Sequence[Probe], config: RLConfig) -> None:
        self.trainer, self.probes, self.config, self.folder = trainer, probes, config, Path(config.out)
        self.main = bool(trainer.accelerator.is_main_process)
        self.found: dict[int, dict[str, float]] = {}
        self.kept: int | None = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        held: list[Any] = [None, None]
        if self.main:
            held = [
                {step: metrics_of(lines) for step, lines in read_validations(self.folder).items()},
                (kept(self.folder) or {}).get("step"),
            ]
        self.found, self.kept = broadcast_object_list(held)
        # Killed between the checkpoint and the best weights: the weights at hand are those of the checkpoint.
        self._keep(state.global_step)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        lines = lines_of(self.probes, self.trainer.validated, state.global_step)
        self.found[state.global_step] = metrics_of(lines)
        if self.main:
            store(self.folder, state.global_step, lines)
        if state.global_step == 0:
            self._keep(0)
        elif self.config.keep_best and best_of(self.found) == state.global_step:
            control.should_save = True

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if state.global_step == state.max_steps:
            control.should_evaluate = True

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._keep(state.global_step)

    def _keep(self, step: int) -> None:
        if self.config.keep_best and best_of(self.found) == step and self.kept != step:
            save_best(self.trainer, self.config, self.folder, {"step": step, **self.best(step)})
            self.kept = step

    def best(self, step: int) -> dict[str, float]:
        """What ``best.json`` says of a step."""
        return {
            name: self.found[step][name] for name in ("pair_success", "q", "task_correct", "tokens") if name in self.found[step]
        }
