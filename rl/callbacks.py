"""What a run leaves behind while it trains: metrics, tracker, progress bar, and checkpoints that are known to be whole."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from tqdm.auto import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from envs.runs import append_jsonl, write_json_atomic
from envs.samples import COLUMNS, Picker, sample_row
from envs.tracking import Tracker
from envs.trajectory import Trajectory
from rl.resume import MARK, METRICS

_DROPPED = ("rewards/", "clip_ratio/", "frac_reward_zero_std", "epoch", "total_flos", "train_", "completions/")
"""Logged names left out: said by another name here, or constant when every batch trains once."""


class Stop:
    """A request to end after the step under way. A second Ctrl-C stops at once."""

    def __init__(self) -> None:
        self.asked = False

    @contextlib.contextmanager
    def on_interrupt(self) -> Iterator[Stop]:
        """Take Ctrl-C as the request, in the main thread; elsewhere it does nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before = signal.signal(signal.SIGINT, self._handle)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        print("\nstopping after this step (Ctrl-C again stops at once; the same command resumes)", file=sys.stderr)


class RunCallback(TrainerCallback):
    """Writes the metrics file, feeds the tracker, draws the bar, marks checkpoints, ends the run when asked.

    Args:
        folder: run folder.
        total, first: steps of the run, and steps already done.
    """

    def __init__(self, folder: Path, tracker: Tracker, stop: Stop, *, total: int, first: int, progress: bool, main: bool) -> None:
        self.folder, self.tracker, self.stop, self.main = folder, tracker, stop, main
        self.bar = tqdm(total=total, initial=first, desc="rl", unit="step", disable=not (progress and main), dynamic_ncols=True)
        self.shown: dict[str, str] = {}
        self.samples = Picker()
        self._started = self._step_began = time.monotonic()
        self._step_seconds: float | None = None

    def on_turn(self, turn: int, live: int) -> None:
        """Show where the rollout stands: a step may take minutes."""
        self.bar.set_postfix({**self.shown, "turn": turn, "live": live})

    def on_sample(self, trajectory: Trajectory, q: float) -> None:
        """Keep a few of the episodes that validation plays, for the tracker."""
        if self.tracker.active and self.samples.wants(trajectory):
            with self.tracker.guard("samples"):
                self.samples.rows.append(sample_row(trajectory, q))

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.tracker.table("samples", COLUMNS, self.samples.take(), step=state.global_step)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **_: Any) -> None:
        metrics = clean(logs or {})
        host = metrics.get("seconds/host")
        if host is not None and self._step_seconds:
            metrics |= {"seconds/step": self._step_seconds, "seconds/host_share": host / self._step_seconds}
        if not metrics or not self.main:
            return
        append_jsonl(
            self.folder / METRICS, {"step": state.global_step, "seconds": round(time.monotonic() - self._started, 1), **metrics}
        )
        self.tracker.log(metrics, step=state.global_step)
        if "reward/q" in metrics:
            self.shown = {"q": f"{metrics['reward/q']:.3f}", "tokens": f"{int(metrics.get('num_tokens') or 0):,}"}
            self.bar.set_postfix(self.shown)

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._step_began = time.monotonic()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._step_seconds = time.monotonic() - self._step_began
        self.bar.update(state.global_step - self.bar.n)
        if _any(self.stop.asked):
            control.should_save = state.global_step < state.max_steps or control.should_save
            control.should_training_stop = True

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if torch.distributed.is_initialized():
            torch.distributed.barrier()  # every process has written its random state
        if self.main:
            write_json_atomic(self.folder / f"checkpoint-{state.global_step}" / MARK, {"step": state.global_step})

    def close(self) -> None:
        """Close bar and tracker."""
        self.bar.close()
        self.tracker.finish()


def _any(flag: bool) -> bool:
    """Whether any process was asked: all must stop at the same step."""
    if not torch.distributed.is_initialized():
        return flag
    flags: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(flags, flag)
    return any(flags)


def clean(logs: dict[str, Any]) -> dict[str, float | None]:
    """Logged figures under their tracking names: validation as ``val/…``, numbers that aren't finite as None."""
    out: dict[str, float | None] = {}
    for name, value in logs.items():
        validation, bare = name.startswith("eval_"), name.removeprefix("eval_")
        if bare.startswith(_DROPPED) or not isinstance(value, int | float | None):
            continue
        out[f"val/{bare}" if validation else bare] = None if value is None or not math.isfinite(value) else value
    return out
